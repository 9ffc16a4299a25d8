"""The launcher's own JSON is the standard library's, character by character."""

import json
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.daemon.processes.stand_ins import json_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(value=VALUES)
def test_it_writes_what_the_standard_library_writes(value: JsonValue) -> None:
    assert json_text(value) == json.dumps(value, indent=2, ensure_ascii=False)


def test_a_signal_is_its_number() -> None:
    assert json_text({"signal": signal.SIGINT}) == '{\n  "signal": 2\n}'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_know_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="not a JSON number"):
        json_text({"timeout": number})
