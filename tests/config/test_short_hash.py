"""The SHA-256 of short texts is that of the standard library."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from runward.config.short_hash import sha256_hex


@given(content=st.binary())
def test_the_hash_is_that_of_the_standard_library(content: bytes) -> None:
    assert sha256_hex(content) == hashlib.sha256(content).hexdigest()
