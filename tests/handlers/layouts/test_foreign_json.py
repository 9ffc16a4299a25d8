import json
import math
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import NotJson, parse_time, read_json
from runward.handlers.times import iso_time


@pytest.mark.parametrize(
    ("content", "message", "line"),
    [
        (b"", "not JSON", 1),
        (b"{", "not JSON", 1),
        (b'{"a": 1,\n "a": 2}', "the key 'a' appears twice", None),
        (b'{"x": {"a": 1, "b": 2, "a": 3}}', "the key 'a' appears twice", None),
        (b'{"a": NaN}', "NaN is not a JSON number", None),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number", None),
        (b'{"a": 1e999}', "1e999 is not a number that can be stored", None),
        (b"[-1e99999]", "-1e99999 is not a number that can be stored", None),
        (b'{"a": "\\ud800"}', "lone surrogate", None),
        (b'{"\\udfff": 1}', "lone surrogate", None),
        (b'{"a":\n"\xff"}', "not UTF-8 (byte 7)", 2),
        (b"\xef\xbb\xbf" * 2 + b"{}", "not JSON", 1),
        (b"[" * 100_000, "nested too deeply", None),
        (b"[" * 65 + b"]" * 65, "nested more than 64 levels deep", None),
        (b'{"a":' * 65 + b'"\\u0041"' + b"}" * 65, "nested more than 64 levels deep", None),
        (b"[" * 700 + b'"\\u0041"' + b"]" * 700, "nested", None),
        (b"9" * 5000, "a number that is too long", None),
        (b"{} {}", "not JSON", 1),
        (b'{"a": "\n"}', "not JSON", 1),
    ],
)
def test_what_is_not_plain_json_is_refused_with_the_reason(
    content: bytes, message: str, line: int | None
) -> None:
    found = read_json(content)
    assert isinstance(found, NotJson)
    assert message in found.message
    assert line is None or found.line == line


@pytest.mark.parametrize(
    "content",
    [
        b"null",
        b" [1, 2.5, true] \n",
        b'{"a": "\\ud83d\\ude00"}',
        b'{"\\u0000": ""}',
        b"[" * 64 + b"]" * 64,
        b"1e308",
    ],
)
def test_what_is_plain_json_is_read_as_the_standard_library_reads_it(content: bytes) -> None:
    assert read_json(content) == json.loads(content)


def test_a_byte_order_mark_at_the_beginning_is_skipped() -> None:
    assert read_json(b'\xef\xbb\xbf{"a": "\xef\xbb\xbf"}') == {"a": "\ufeff"}
    assert isinstance(read_json(b"\xef\xbb\xbf" * 2 + b"{}"), NotJson)
    assert isinstance(read_json(b"\xef\xbb{}"), NotJson)


hostile = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text(alphabet='{}[]",:\\u0dd8e+-.19nNaIfity ', max_size=80).map(str.encode),
    st.builds(
        lambda head, count: head * count,
        st.sampled_from([b"[", b'{"a":', b'["\\ud800",']),
        st.integers(0, 3000),
    ),
)


def is_sound(value: JsonValue) -> bool:
    """Whether the value can be written as strict JSON in UTF-8 again."""
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    return True


def check(content: bytes) -> None:
    found = read_json(content)
    if isinstance(found, NotJson):
        assert found.message
    else:
        assert is_sound(found)


@given(hostile)
@example(b'"\\ud800"')
@example(b"1e400")
def test_reading_never_raises_whatever_the_bytes(content: bytes) -> None:
    check(content)


@pytest.mark.sweep
@pytest.mark.timeout(600)
@settings(max_examples=10_000)
@given(hostile)
def test_reading_never_raises_in_ten_thousand_cases(content: bytes) -> None:
    check(content)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(values, st.booleans())
def test_every_plain_document_is_read_back(value: JsonValue, ascii_only: bool) -> None:
    assert read_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-13-01T00:00:00Z",
        "2026-01-31T12:00:00+99:00",
        "x" * 65,
        "2026-01-31T24:00:01Z",
        7,
        True,
        None,
        ["2026-01-31T12:00:00Z"],
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:59-05:00",
        "1969-12-31T23:59:59Z",
    ],
)
def test_what_is_no_moment_with_a_zone_is_no_time(text: JsonValue) -> None:
    assert parse_time(text) is None


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()),
        ("2026-01-31T13:00:00.5+01:00", datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() + 0.5),
    ],
)
def test_a_time_is_read_as_unix_seconds(text: str, at: float) -> None:
    assert parse_time(text) == at


@given(
    st.text(max_size=40)
    | st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat())
    | st.datetimes(timezones=st.timezones()).map(lambda moment: moment.isoformat())
)
def test_every_time_that_is_read_can_be_written_into_a_journal(text: str) -> None:
    at = parse_time(text)
    if at is not None:
        assert math.isfinite(at)
        assert iso_time(at).endswith("Z")
