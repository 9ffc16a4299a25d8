"""Settings as they are shown: what is written so is read as the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.config.problem import Complaint
from runward.config.shape import DurationText, ListOf, Shape, SizeText, Table, Text, as_written


def read(shape: Shape, value: JsonValue) -> JsonValue:
    complaints: list[object] = []
    found = shape.check(value, (), complaints.append)
    assert complaints == []
    return found


@given(st.floats(0.001, 366 * 86_400).map(lambda seconds: round(seconds, 6)))
def test_a_duration_is_read_back(seconds: float) -> None:
    assert read(DurationText("", 0.001), as_written(DurationText("", 0.001), seconds)) == seconds


@given(st.integers(0, 999_999_999) | st.integers(0, 1000).map(lambda count: count << 30))
def test_a_size_is_read_back(size: int) -> None:
    assert read(SizeText(""), as_written(SizeText(""), size)) == size


@pytest.mark.parametrize(("value", "seconds"), [(5.0, 5.0), (2, 2.0), ("2s", 2.0), ("1min30s", 90.0)])
def test_a_key_whose_name_gives_the_unit_takes_a_number(value: JsonValue, seconds: float) -> None:
    assert read(DurationText("", 0.001, or_seconds=True), value) == seconds


@pytest.mark.parametrize("value", [True, float("nan"), float("inf"), -1, 0.0, 1e300, "5", None, [5]])
def test_anything_but_a_duration_is_refused_there(value: JsonValue) -> None:
    said: list[Complaint] = []
    assert DurationText("", 0.001, or_seconds=True).check(value, (), said.append) is None
    assert len(said) == 1


def test_sizes_have_the_largest_unit_that_fits() -> None:
    sizes: list[JsonValue] = [0, 1, 1000, 1024, 268_435_456, 3 << 40]
    assert as_written(ListOf("", SizeText(""), 9), sizes) == ["0B", "1B", "1000B", "1KB", "256MB", "3TB"]


def test_what_was_left_out_is_left_out_but_never_is_said() -> None:
    table = Table(
        "", {"name": Text("", 9), "soon": DurationText("", 1), "kept": DurationText("", 1, or_never=True)}
    )
    assert as_written(table, {"name": "a", "soon": None, "kept": None}) == {"name": "a", "kept": "never"}
    assert as_written(table, {"soon": 90.0, "kept": 86_400.0}) == {"soon": "1min30s", "kept": "1d"}
