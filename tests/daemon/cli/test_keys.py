"""Keys that a person presses, as terminals send them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.daemon.cli.terminal.keys import Keys


@pytest.mark.parametrize(
    ("content", "keys"),
    [
        (b"jk", ["j", "k"]),
        (b"\x1b[A\x1bOA", ["up", "up"]),
        (b"\x1b[B\x1b[5~\x1b[6~", ["down", "page up", "page down"]),
        (b"\x1b[H\x1bOF\x1b[1~\x1b[4~", ["home", "end", "home", "end"]),
        (b"\r\n", ["enter", "enter"]),
        (b"\x7f\x08", ["backspace", "backspace"]),
        ("ü語".encode(), ["ü", "語"]),
        (b"\x1b[200~pasted\x1b[201~", list("pasted")),
        (b"\x1b[1;5Aq", ["q"]),
        (b"\x00\x01\x04q", ["q"]),
        (b"\x1bq", ["escape", "q"]),
        (b"\x1b\x1b[A", ["escape", "up"]),
    ],
)
def test_bytes_become_keys(content: bytes, keys: list[str]) -> None:
    assert Keys().of(content) == keys


@given(
    pressed=st.lists(
        st.sampled_from([b"j", b"\x1b[A", b"\x1bOB", b"\x1b[5~", "ü".encode(), b"\r", b"\x1b[1;2C"])
    ),
    cuts=st.sets(st.integers(0, 40)),
)
def test_it_makes_no_difference_how_the_bytes_come(pressed: list[bytes], cuts: set[int]) -> None:
    content = b"".join(pressed)
    places = [0, *sorted(each for each in cuts if each < len(content)), len(content)]
    keys = Keys()
    portions = [content[start:end] for start, end in pairwise(places)]
    assert [key for portion in portions for key in keys.of(portion)] == Keys().of(content)
    assert not keys.is_pending


def test_an_escape_that_nothing_follows_is_a_key() -> None:
    keys = Keys()
    assert keys.of(b"\x1b") == []
    assert keys.is_pending
    assert keys.late() == ["escape"]
    assert keys.late() == []


@given(st.binary(max_size=200))
def test_no_bytes_are_too_strange(content: bytes) -> None:
    keys = Keys()
    found = keys.of(content) + keys.late()
    assert all(len(key) > 1 or key.isprintable() for key in found)
    assert keys.of(b"q")[-1:] == ["q"]


def test_what_has_begun_can_be_dropped() -> None:
    keys = Keys()
    assert keys.of(b"\x1b[") == []
    keys.forget()
    assert keys.of(b"A") == ["A"]
