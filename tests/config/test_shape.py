"""Settings as they are shown: what is written so is read as the same."""

from typing import Annotated, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.config.problem import Complaint
from runward.config.shape import DurationText, ListOf, Shape, SizeText, Text, UnknownForm
from runward.config.table import Table


def read(shape: Shape, value: JsonValue) -> JsonValue:
    complaints: list[object] = []
    found = shape.check(value, (), complaints.append)
    assert complaints == []
    return found


@given(st.floats(0.001, 366 * 86_400).map(lambda seconds: round(seconds, 6)))
def test_a_duration_is_read_back(seconds: float) -> None:
    assert read(DurationText("", 0.001), DurationText("", 0.001).as_written(seconds)) == seconds


@given(st.integers(0, 999_999_999) | st.integers(0, 1000).map(lambda count: count << 30))
def test_a_size_is_read_back(size: int) -> None:
    assert read(SizeText(""), SizeText("").as_written(size)) == size


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
    assert ListOf("", SizeText(""), 9).as_written(sizes) == ["0B", "1B", "1000B", "1KB", "256MB", "3TB"]


class Kept(NamedTuple):
    """What is kept, and how long.

    More for those who read the code.
    """

    name: Annotated[str, Text("Its name.", 9)]
    soon: Annotated[float | None, DurationText("", 1)] = None
    kept: Annotated[float | None, DurationText("How long.", 1, or_never=True)] = 86_400.0
    origin: str = ""


def test_what_was_left_out_is_left_out_but_never_is_said() -> None:
    table = Table(Kept)
    assert table.as_written({"name": "a", "soon": None, "kept": None}) == {"name": "a", "kept": "never"}
    assert table.as_written({"soon": 90.0, "kept": 86_400.0}) == {"soon": "1min30s", "kept": "1d"}


def test_a_table_is_what_its_fields_declare() -> None:
    schema = Table(Kept).json_schema()
    assert Table(Kept).description == "What is kept, and how long."
    assert schema["required"] == ["name"]
    properties = schema["properties"]
    assert isinstance(properties, dict)
    descriptions = [each["description"] for each in properties.values() if isinstance(each, dict)]
    assert descriptions == [
        "Its name.",
        "",
        "How long. Default: 1d.",
    ]


@pytest.mark.parametrize("kept", [Kept("a"), Kept("b", 2.5, None)])
def test_a_table_survives_its_json(kept: Kept) -> None:
    table = Table(Kept)
    stored = table.to_json(kept)
    assert table.has_all_keys(stored)
    assert table.from_json(stored) == kept


@pytest.mark.parametrize(
    "stored", [None, [], {"soon": 1.0}, {"name": 7}, {"name": "a", "soon": "1s"}, {"name": "a", "kept": []}]
)
def test_a_table_that_another_version_stored_is_not_read(stored: JsonValue) -> None:
    with pytest.raises(UnknownForm):
        Table(Kept).from_json(stored)
    assert not Table(Kept).has_all_keys({"name": "a", "soon": 1.0})
