"""Any JSON value, for laws."""

import string

from hypothesis import strategies as st

numbers = (
    st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([2**63, 2**64, -(2**63) - 1, 1e16, 1e15, 1e-5, 1e-6])
)
texts = st.text(max_size=20) | st.text(string.printable, max_size=20)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)
