"""The running daemon's own report in `status.json`, for commands; plain JSON, because they have no time for more."""

import json
import os
from collections.abc import Mapping
from typing import Final

from runward.config.json_value import JsonValue
from runward.config.settings import Settings, settings_from_json
from runward.config.table import DEFAULT, Placed

_REPORT: Final = "status.json"
_MAXIMUM_REPORT: Final = 16 << 20


def report_of(state: str, pid: int | None) -> Mapping[str, JsonValue]:
    """The report of the daemon that uses the state directory; empty if none does.

    A report of an earlier daemon counts for nothing. `pid` is 0 if the holder's is not known.
    """
    if pid is None:
        return {}
    try:
        with open(os.path.join(state, _REPORT), "rb") as file:
            value = json.loads(file.read(_MAXIMUM_REPORT))
    except (OSError, ValueError):
        return {}  # it has written none yet
    # The lock says who runs. A killed daemon leaves its report behind, and it would describe the wrong one.
    return value if isinstance(value, dict) and value.get("pid") == pid else {}


def settings_in_report(report: Mapping[str, JsonValue]) -> Settings | None:
    """The settings that the daemon uses, and where they were set; None if it hasn't reported them."""
    match report.get("settings"):
        case {"values": values, "origin": dict(origin), "rules": list(rules)}:
            settings = settings_from_json(values)
        case _:
            return None
    if settings is None or len(rules) != len(settings.contracts):
        return settings
    contracts = (
        rule._replace(named_at=_placed(at)) for rule, at in zip(settings.contracts, rules, strict=True)
    )
    return settings._replace(
        origin={key: str(each) for key, each in origin.items()}, contracts=tuple(contracts)
    )


def _placed(value: JsonValue) -> Placed:
    match value:
        case [str(file), int(line), int(column)]:
            return Placed(None, file, (line, column))
        case [str(file), *_]:
            return Placed(None, file)
        case _:
            return Placed(None, DEFAULT)


BEAT: Final = 10.0
"""Seconds after which a daemon reports again although nothing is new."""

STALLED_AFTER: Final = 45.0
"""Seconds, suspends excluded, after which a daemon that did not report counts as stopped or stuck."""


def stalled_s(told_at: float | None, now: float) -> float | None:
    """The seconds from `told_at` to `now`, if a living daemon would have reported since; else None.

    Both times are from CLOCK_MONOTONIC, which can't be set and stops during suspend.
    """
    silent = None if told_at is None else now - told_at
    return round(silent, 3) if silent is not None and silent > STALLED_AFTER else None
