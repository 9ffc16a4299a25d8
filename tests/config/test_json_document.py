import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.document import read_json


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "V:1:1: is not JSON: Expecting value"),
        ('{"a": 1,\n "b"}', "V:2:5: is not JSON: Expecting ':' delimiter"),
        ('{"a": 1, "a": 1}', "V: key 'a' appears twice"),
        ('[{"b": {"a": 1, "a": 1}}]', "V: key 'a' appears twice"),
        ("[NaN]", "V: NaN is not JSON"),
        ("-Infinity", "V: -Infinity is not JSON"),
        ("[1e999]", "V: [0]: is not a finite number"),
        ("9223372036854775808", "V: is a whole number of more than 64 bits"),
        ("9" * 5000, "V: is a whole number of more than 64 bits"),
        ('{"a": "\\ud800"}', "V: a: has a lone surrogate in it"),
        ('{"a": {"\\ud800": 1}}', "V: a: has a key with a lone surrogate in it"),
        ("[" * 60 + "]" * 60, "V: [0]: is nested more than 50 deep"),
        ("[" * 100_000, "V: is nested too deeply to be read"),
        ('"' + "x" * (1 << 20) + '"', "V: is larger than 1 MiB"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_strict_json_is_refused_with_a_fix(text: str, message: str) -> None:
    parsed = read_json(text, "V")
    assert parsed.value is None
    assert all(problem.fix for problem in parsed.problems)
    assert any(problem.render().startswith(message) for problem in parsed.problems), parsed.problems


def test_a_byte_order_mark_at_the_beginning_is_skipped() -> None:
    parsed = read_json('\ufeff{"a": 1}', "V")
    assert parsed.value is not None
    assert parsed.value.root == {"a": 1}


@given(st.text() | st.text(alphabet='{}[]",:0e1-aN\\ud8', max_size=30))
def test_any_text_is_what_json_reads_or_complaints(text: str) -> None:
    parsed = read_json(text, "V")
    if parsed.value is None:
        assert parsed.errors
    else:
        assert parsed.value.root == json.loads(text.removeprefix("\ufeff"))
