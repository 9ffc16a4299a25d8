"""JSON of agents as text on a page: not deep, not long, and all texts of one subject together neither."""

import json

from runward.config.json_value import JsonValue
from runward.daemon.studio.rendering import Room, bounded_json


def test_what_is_short_and_flat_is_shown_whole() -> None:
    value: JsonValue = {"a": [1, {"b": None}], "c": "ä"}
    assert bounded_json(value) == json.dumps(value, ensure_ascii=False, indent=2)
    assert Room(100).text(value) == '{"a": [1, {"b": null}], "c": "ä"}'
    assert Room(100).text("as it is") == "as it is"


def test_what_is_nested_too_deeply_is_left_out() -> None:
    deep: JsonValue = [0]
    for _ in range(100):
        deep = [deep]
    assert bounded_json(deep, indent=None) == "[" * 16 + '"…"' + "]" * 16


def test_what_comes_too_late_is_left_out() -> None:
    assert bounded_json(list(range(1000)), 10, None) == "[0, 1, 2, …"


def test_the_texts_of_one_subject_share_their_room() -> None:
    room = Room(10)
    assert [room.text("x" * 8), room.text(["yyyy"]), room.text("z")] == ["x" * 8, '["…', "…"]
