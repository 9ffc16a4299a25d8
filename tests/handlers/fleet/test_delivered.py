"""What travels back of the artifacts of a step on another host, and what is read of it."""

import pytest

from runward.config.json_value import JsonValue
from runward.handlers.fleet.delivered import MOST_ARTIFACTS, paths, told

ENTRY: dict[str, JsonValue] = {"id": "model", "path": "out/model.bin", "size": 7}


def test_name_and_size_of_what_was_there_travel_and_nothing_else() -> None:
    verification: JsonValue = {"status": "passed", "produced": [{**ENTRY, "modified_ns": 1}], "missing": []}
    assert told(verification) == [ENTRY]
    assert paths(told(verification)) == {"model": "out/model.bin"}
    without: list[JsonValue] = [None, {}, {"produced": 3}]
    assert [told(each) for each in without] == [[], [], []]


def test_of_very_many_the_first_travel() -> None:
    many: list[JsonValue] = [{**ENTRY, "id": str(number)} for number in range(MOST_ARTIFACTS + 5)]
    assert len(told({"produced": many})) == len(paths(many)) == MOST_ARTIFACTS


NONSENSE: dict[str, dict[str, JsonValue]] = {
    "no id": {"id": None},
    "an empty path": {"path": ""},
    "a path that is too long": {"path": "x" * 1025},
    "a size that is a word": {"size": "7"},
    "a size that is a truth value": {"size": True},
    "a negative size": {"size": -1},
    "a size that no file has": {"size": 1 << 80},
}


@pytest.mark.parametrize("wrong", NONSENSE.values(), ids=NONSENSE)
def test_what_is_no_artifact_is_left_out(wrong: dict[str, JsonValue]) -> None:
    assert paths([ENTRY | wrong, ENTRY]) == {"model": "out/model.bin"}
    assert paths([ENTRY | wrong, 3, "x"]) == {}
    assert told({"produced": [ENTRY | wrong]}) == []
    assert paths({"model": "out/model.bin"}) == {}
