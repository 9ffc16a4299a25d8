"""What of a value a replay shows: no secrets, no long texts, and each place that isn't shown in full is named."""

import json
import time
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.config.linear_pattern import BadPattern
from runward.handlers.bundle.shown import Redaction, Showing, is_deeper
from runward.handlers.secrets import REDACTED

_LONG = "Abcdef0123456789Abcdef0123456789Abcdef"
KEY = f"sk-ant-{_LONG}"
_SECRET_KEYS = tuple(f"password=abc{number}" for number in range(6))


def shown(params: JsonValue, longest: int = 1000, *patterns: str) -> dict[str, JsonValue]:
    return Showing(Redaction(patterns), longest).fields({"id": "c1", "params": params})


def at(line: JsonValue, pointer: str) -> JsonValue:
    """What a JSON Pointer leads to."""
    value = line
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else cast("dict[str, JsonValue]", value)[name]
    return value


@pytest.mark.parametrize(
    ("params", "expected", "redacted"),
    [
        ({"api_key": "plain"}, {"api_key": REDACTED}, ["/params/api_key"]),
        ({"Authorization": {"any": "plain"}}, {"Authorization": REDACTED}, ["/params/Authorization"]),
        ({"a/b~c": [{"password": "x"}]}, {"a/b~c": [{"password": REDACTED}]}, ["/params/a~1b~0c/0/password"]),
        ({"x": f"use {KEY} now"}, {"x": f"use {REDACTED} now"}, ["/params/x"]),
        (f"export TOKEN={_LONG}", f"export TOKEN={REDACTED}", ["/params"]),
        ([f"Bearer {_LONG}", "b"], [f"Bearer {REDACTED}", "b"], ["/params/0"]),
        ({KEY: "under a secret"}, {REDACTED: REDACTED}, [f"/params/{REDACTED}"]),
        (
            {KEY: 1, f"{KEY}x": 2},
            {REDACTED: REDACTED, f"{REDACTED} 2": REDACTED},
            [f"/params/{REDACTED}", f"/params/{REDACTED} 2"],
        ),
    ],
)
def test_a_secret_is_redacted_by_its_name_or_its_looks_and_its_place_is_named(
    params: JsonValue, expected: JsonValue, redacted: JsonValue
) -> None:
    assert shown(params) == {"id": "c1", "params": expected, "redacted": redacted}


@pytest.mark.parametrize(
    "params",
    [
        {"token": 7, "max_tokens": 100, "secret": None, "password": "", "cookies": []},
        {"text": "the basic form of a token is a word"},
        {"path": "/srv/secrets/notes", "url": "https://example.org/a@b"},
        "",
        None,
        [1, 2.5, True],
    ],
)
def test_what_is_no_secret_is_shown_as_it_is(params: JsonValue) -> None:
    assert shown(params) == {"id": "c1", "params": params}


def test_the_names_of_a_call_are_redacted_too_and_two_ids_stay_two() -> None:
    showing = Showing(Redaction(), 10)
    line = showing.fields({"id": f"c {KEY}", "tool": f"get {KEY}", "params": 1})
    assert line["tool"] == f"get {REDACTED}"
    assert str(line["id"]).startswith(f"c {REDACTED} ")
    assert line["redacted"] == ["/id", "/tool"]
    assert showing.id(f"c {KEY}") == line["id"] != showing.id(f"c {KEY}1")
    assert showing.fields({"id": "c1", "tool": "get"}) == {"id": "c1", "tool": "get"}


@given(
    st.lists(st.sampled_from(["x", REDACTED, f"{REDACTED} 2", f"{REDACTED} 4", *_SECRET_KEYS]), unique=True)
)
def test_keys_that_are_secrets_get_the_first_free_names(keys: list[str]) -> None:
    params = shown(dict.fromkeys(keys, 1))["params"]
    assert isinstance(params, dict)
    expected: list[str] = []
    for key in keys:
        names = (REDACTED if number == 1 else f"{REDACTED} {number}" for number in range(1, 99))
        expected.append(next(name for name in names if name not in expected) if key in _SECRET_KEYS else key)
    assert list(params) == list(dict.fromkeys(expected))


def test_the_time_for_keys_that_are_secrets_is_linear() -> None:
    def seconds(count: int) -> float:
        params: dict[str, JsonValue] = {f"password=abc{number}": 1 for number in range(count)}
        begun = time.process_time()
        shown(params)
        return time.process_time() - begun

    assert min(seconds(8000) for _ in range(3)) < 20 * min(seconds(1000) for _ in range(3))


def test_the_word_after_an_option_that_names_a_secret_is_redacted() -> None:
    line = shown({"command": ["mysql", "--password", "x1", "--token", "--host", "h"]})
    assert line["params"] == {"command": ["mysql", "--password", REDACTED, "--token", "--host", "h"]}
    assert line["redacted"] == ["/params/command/2"]


def test_an_operator_s_patterns_count_too() -> None:
    assert shown({"a": "ACME-0123456789"}, 1000, r"\bACME-\d{5,}", "(?i)hush")["redacted"] == ["/params/a"]
    assert shown("Hush now", 1000, "(?i)hush")["params"] == f"{REDACTED} now"


@pytest.mark.parametrize("pattern", ["(", "(?=x)", r"(a)\1", "a{1001}"])
def test_a_pattern_that_takes_more_than_linear_time_or_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern, match=r"."):
        Redaction((pattern,))


def test_a_pattern_that_would_take_for_ever_elsewhere_takes_no_time() -> None:
    assert shown("a" * 50_000 + "!", 1000, "(a+)+b")["cut"] == {"/params": 50_001}


@pytest.mark.parametrize(
    ("text", "longest", "expected"),
    [("abcdefgh", 8, "abcdefgh"), ("abcdefghi", 8, "abcd…fghi"), ("abcdefghi", 5, "ab…hi"), ("ab", 1, "…")],
)
def test_a_long_text_is_cut_to_its_halves_and_its_length_is_named(
    text: str, longest: int, expected: str
) -> None:
    line = shown({"t": text}, longest)
    assert line["params"] == {"t": expected}
    assert line.get("cut") == (None if text == expected else {"/params/t": len(text)})


def test_a_secret_on_the_border_of_a_cut_is_redacted_before_it_is_cut() -> None:
    text = "x" * 40 + " " + KEY + " " + "y" * 60
    for longest in range(2, len(text)):
        line = json.dumps(shown(text, longest))
        assert "Abcd" not in line
        assert "cdef" not in line


def test_half_a_character_is_replaced_and_is_no_secret() -> None:
    line = shown({"a\ud800": "b\udfffc"})
    assert line == {"id": "c1", "params": {"a\ufffd": "b\ufffdc"}}


def test_depth_is_counted() -> None:
    value: JsonValue = "x"
    for levels in range(5):
        assert not is_deeper(value, levels)
        assert levels == 0 or is_deeper(value, levels - 1)
        value = [value] if levels % 2 else {"a": value}


def _values(leaf: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    keys = st.sampled_from(["a", "b/c", "d~e", "", "password", "my token", KEY]) | st.text(max_size=5)
    return st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=12,
    )


_TEXTS = st.text(max_size=60) | st.sampled_from([KEY, f"x {KEY} y", "z" * 50, f"{'z' * 60}{KEY}", _LONG])


@given(_values(st.none() | st.booleans() | st.integers() | _TEXTS), st.integers(min_value=1, max_value=80))
def test_each_place_that_is_named_is_there_and_nothing_else_was_changed(
    value: JsonValue, longest: int
) -> None:
    line = shown(value, longest)
    redacted, cut = line.get("redacted", []), line.get("cut", {})
    assert isinstance(redacted, list)
    assert isinstance(cut, dict)
    assert KEY not in json.dumps(line)
    for pointer in redacted:
        found = at(line, cast("str", pointer))
        assert isinstance(found, str)
        assert "[" in found or pointer in cut
    for pointer in cut:
        found = at(line, pointer)
        assert isinstance(found, str)
        assert "…" in found
        assert len(found) <= longest + 1
    if not redacted and not cut:
        assert line["params"] == value
