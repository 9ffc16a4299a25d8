"""Fields that may hold anything: what is taken of them, and what is not."""

import math

import pytest
from hypothesis import given
from tests.handlers.layouts.directories import ANYTHING, document

from runward.config.json_value import JsonValue
from runward.handlers.layouts.foreign_values import (
    LARGEST_COUNT,
    LONGEST_TEXT,
    count_in,
    document_object,
    is_error_code,
    list_in,
    object_in,
    seconds_in,
    text_in,
)
from runward.handlers.model.sessions import Complaint


@pytest.mark.parametrize(
    ("value", "text"),
    [("x", "x"), ("", None), (None, None), (7, None), (["x"], None), ("y" * 5000, "y" * LONGEST_TEXT)],
)
def test_a_text_says_something_and_is_short(value: JsonValue, text: str | None) -> None:
    assert text_in(value) == text


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0),
        (7.5, 7.5),
        (-1, None),
        (True, None),
        ("7", None),
        (math.inf, None),
        (math.nan, None),
        (1e300, None),
        (10**400, None),
        (None, None),
    ],
)
def test_a_time_is_a_number_of_seconds_from_1970_to_9999(value: JsonValue, seconds: float | None) -> None:
    assert seconds_in(value) == seconds


@pytest.mark.parametrize(
    ("value", "count"),
    [(0, 0), (7, 7), (-7, 0), (7.5, 0), (True, 0), ("7", 0), (None, 0), (10**400, LARGEST_COUNT)],
)
def test_a_count_is_a_whole_number_within_bounds(value: JsonValue, count: int) -> None:
    assert count_in(value) == count


@pytest.mark.parametrize(
    ("value", "is_error"), [(0, False), (1, True), (-9, True), (True, False), ("1", False), (None, False)]
)
def test_an_exit_code_is_a_number_other_than_zero(value: JsonValue, is_error: bool) -> None:
    assert is_error_code(value) is is_error


@given(value=ANYTHING)
def test_a_field_of_another_kind_is_as_good_as_none(value: JsonValue) -> None:
    assert object_in(value) == (value if isinstance(value, dict) else {})
    assert list_in(value) == (value if isinstance(value, list) else [])


def test_a_document_gives_its_object_or_says_why_not() -> None:
    assert document_object(document("a.json", {"a": 1})) == {"a": 1}
    torn = document_object(document("a.json", b'{\n"a": '))
    assert isinstance(torn, Complaint)
    assert (torn.file, torn.line) == ("a.json", 2)
    unread = document_object(document("a.json", b"")._replace(problem="is larger than 1 MiB"))
    assert isinstance(unread, Complaint)
    assert unread.message == "is larger than 1 MiB"
    assert isinstance(document_object(document("a.json", b"[]")), Complaint)
