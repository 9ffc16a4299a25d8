"""What `--json` says has every key and value that it had before the screens changed: scripts rely on it."""

import json

import pytest
from tests.daemon.cli.everyday import ANY, RECORDED, Everyday, lacking, printed


def test_every_json_of_before_is_part_of_that_of_now(everyday: Everyday) -> None:
    recorded, now = json.loads(RECORDED.read_text()), printed(everyday)
    assert len(recorded) >= 26, "nothing was taken out of the recording"
    assert [each for command in recorded for each in lacking(recorded[command], now[command], command)] == []


@pytest.mark.parametrize(
    ("old", "new", "is_part"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"b": 1}, False),
        ([{"a": 1}], [{"a": 1, "b": 2}], True),
        ([{"a": 1}], [], False),
        ({"a": None}, {"a": 1}, False),
        (f"{ANY}str", "x", True),
        (f"{ANY}str", 1, False),
        (f"{ANY}number", 1.5, True),
    ],
)
def test_what_is_part_of_it(old: object, new: object, is_part: bool) -> None:
    assert (lacking(old, new) == []) is is_part  # type: ignore[arg-type] # as a table
