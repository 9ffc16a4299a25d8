"""One line of a CTCP run's `events.jsonl`, checked against contract J."""

from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import kind
from runward.handlers.layouts.foreign_json import NotJson, read_json

FIELDS: Final = ("ts", "role", "event", "path")


class LineFault(NamedTuple):
    """What is wrong with a line: the name of the rule that it breaks, and why."""

    rule: str
    message: str


def read_line(content: bytes) -> dict[str, JsonValue] | LineFault:
    """The event in the line, or what is wrong with it."""
    value = read_json(content)
    if isinstance(value, NotJson):
        return LineFault("not_json", value.message)
    if not isinstance(value, dict):
        return LineFault("not_object", f"must be an object, not {kind(value)}")
    wrong = [key for key in FIELDS if not isinstance(value.get(key), str)]
    if wrong:
        return LineFault(
            "field", f"{', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} missing or not text"
        )
    return value
