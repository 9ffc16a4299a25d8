"""What a play's `_meta.json` says. Its fields are not documented anywhere: unknown ones are kept as they are."""

import json
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.foreign_values import list_in, seconds_in, text_in, whole_text_in
from runward.handlers.model.shows import Meta
from runward.handlers.secrets import without_secrets

MOST_PLAYS: Final = 200
"""Plays that one play depends on."""

MOST_FURTHER: Final = 64 << 10
"""Bytes of the fields without a column, as JSON; more are not kept at all."""

_KNOWN: Final = frozenset({"status", "agent", "model", "started_at", "finished_at", "depends_on"})


def read_meta(content: dict[str, JsonValue]) -> Meta:
    """The fields of this object. A field that makes no sense counts as absent."""
    needed = [whole_text_in(each) for each in list_in(content.get("depends_on"))[:MOST_PLAYS]]
    return Meta(
        text_in(content.get("status")),
        text_in(content.get("agent")),
        text_in(content.get("model")),
        time_in(content.get("started_at")),
        time_in(content.get("finished_at")),
        tuple(each for each in needed if each is not None),
        _further(content),
    )


def _further(content: dict[str, JsonValue]) -> JsonValue:
    further = {key: value for key, value in content.items() if key not in _KNOWN}
    if not further:
        return None
    written = without_secrets(json.dumps(further).encode())
    value: JsonValue = json.loads(written) if len(written) <= MOST_FURTHER else None
    return value


def time_in(value: JsonValue) -> float | None:
    """A time that is written in Unix seconds or in ISO 8601."""
    return seconds_in(value) if isinstance(value, int | float) else parse_time(value)
