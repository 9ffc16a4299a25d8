import json
import time
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.handlers.layouts.transcript import MOST_COMPLAINTS, LogLine
from runward.handlers.layouts.transcript_lines import MOST_GLUED, Unreadable, records
from runward.handlers.model.sessions import Complaint


def read(*contents: bytes, is_cut: bool = False) -> tuple[list[JsonValue], int, Sequence[Complaint]]:
    unreadable = Unreadable(0, ())
    lines = [LogLine(number, content, is_cut) for number, content in enumerate(contents, 1)]
    values = list(records("log.jsonl", lines, unreadable))
    return values, unreadable.count, unreadable.complaints


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (b'{"a": 1}', [{"a": 1}]),
        (b'{"a": 1}\r', [{"a": 1}]),
        (b'"a bare text"', ["a bare text"]),
        (b"null", [None]),
        (b"", []),
        (b" \t\r", []),
        (b'{"a": 1}{"b": 2}', [{"a": 1}, {"b": 2}]),
        (b'{"a": "}{"} {"b": 2}', [{"a": "}{"}, {"b": 2}]),
        (b"\0\0\0" + b'{"a": 1}', [{"a": 1}]),
        (b"\xef\xbb\xbf" + b'{"a": 1}', [{"a": 1}]),
        (b'{"a": "x\0\0y"}', [{"a": "xy"}]),
        (b'{"a": "\xff"}', [{"a": "\ufffd"}]),
        (b'{"a": "\\ud83d"}', [{"a": "?"}]),
        (b'{"a": "' + b"x" * 10_000_000 + b'"}', [{"a": "x" * 10_000_000}]),
    ],
)
def test_what_can_be_read_of_a_line_is_read(content: bytes, values: list[JsonValue]) -> None:
    assert read(content) == (values, 0, [])


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (b'{"a": 1', []),
        (b"a log message", []),
        (b"\0\0\0", []),
        (b"123abc", []),
        (b'{"a": NaN}', []),
        (b"[" * 100_000, []),
        (b'{"a":' * 100_000, []),
        (b'{"a": "cut sh{"b": 2}', []),
        (b'{"a": 1}{"b": ', [{"a": 1}]),
        (b'nd of it"}{"b": 2}', [{"b": 2}]),
        (b'{"a": 1}}{"b": 2}{"c"', [{"a": 1}, {"b": 2}]),
    ],
)
def test_a_line_that_holds_something_unreadable_is_counted_and_named(
    content: bytes, values: list[JsonValue]
) -> None:
    found, count, complaints = read(b"{}", content)
    assert found == [{}, *values]
    assert count == 1
    (complaint,) = complaints
    assert (complaint.file, complaint.line) == ("log.jsonl", 2)
    assert complaint.message.startswith("not JSON: ")


def test_only_the_first_unreadable_lines_are_named_and_all_are_counted() -> None:
    values, count, complaints = read(*[b"x"] * 100)
    assert (values, count) == ([], 100)
    assert [complaint.line for complaint in complaints] == list(range(1, MOST_COMPLAINTS + 1))


def test_a_line_of_glued_records_without_end_is_given_up() -> None:
    values, count, _ = read(b"{}" * (MOST_GLUED + 5))
    assert (len(values), count) == (MOST_GLUED, 1)


@pytest.mark.parametrize("piece", [b'}{"', b'{"":"}{"', b'{"k":["}{",', b"{}", b'{"a', b"[", b'"', b"\0"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_line_of_megabytes_of_rubbish_takes_no_longer_than_a_blink(piece: bytes, is_cut: bool) -> None:
    began = time.process_time()
    _, count, _ = read(piece * (2_000_000 // len(piece)), is_cut=is_cut)
    assert count <= 1
    assert time.process_time() - began < 5


WHOLE = b'{"type":"user","deep":{"a":[1,true,{"b":"x\\"}{"}],"c":null},"text":"long long long","more":12}'


@pytest.mark.parametrize(
    ("upto", "value"),
    [
        (b'"a":[1,', {"type": "user", "deep": {"a": [1]}}),
        (b'"b":"x', {"type": "user", "deep": {"a": [1, True, {}]}}),
        (b'"c":nu', {"type": "user", "deep": {"a": [1, True, {"b": 'x"}{'}]}}),
        (b'"c":null}', {"type": "user", "deep": {"a": [1, True, {"b": 'x"}{'}], "c": None}}),
        (b'"text":"long lo', {"type": "user", "deep": {"a": [1, True, {"b": 'x"}{'}], "c": None}}),
    ],
)
def test_of_a_cut_line_there_is_what_stands_before_the_cut(upto: bytes, value: JsonValue) -> None:
    content = WHOLE[: WHOLE.index(upto) + len(upto)]
    assert read(content, is_cut=True) == ([value], 0, [])


@pytest.mark.parametrize("content", [b"", b'{"ty', b"[1, 2", b'"text', b"}{", b'{"a"]', b"[" * 100_000])
def test_a_cut_line_that_begins_with_no_field_is_counted(content: bytes) -> None:
    values, count, complaints = read(content, is_cut=True)
    assert (values, count) == ([], 1)
    assert "too long" in complaints[0].message


@given(st.integers(1, len(WHOLE)))
def test_the_opening_of_a_cut_line_never_says_what_the_whole_line_does_not(length: int) -> None:
    values, _, _ = read(WHOLE[:length], is_cut=True)
    for value in values:
        assert isinstance(value, dict)
        assert is_part(value, json.loads(WHOLE))


def is_part(part: JsonValue, whole: JsonValue) -> bool:
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and is_part(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(is_part, part, whole))
    return part == whole


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_whatever_raise(content: bytes, is_cut: bool) -> None:
    values, count, complaints = read(content, is_cut=is_cut)
    assert len(complaints) == count <= 1
    for value in values:
        assert msgspec.json.decode(msgspec.json.encode(value)) == value
