"""The running daemon's own report in `status.json`, for commands; plain JSON, because they have no time for more."""

import json
import os
from collections.abc import Mapping
from typing import Final

from runward.config.json_value import JsonValue
from runward.config.settings import Settings, settings_from_json

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
    return value if isinstance(value, dict) and value.get("pid") == pid else {}


def settings_in_report(report: Mapping[str, JsonValue]) -> Settings | None:
    """The settings that the daemon uses; None if it hasn't reported them."""
    told = report.get("settings")
    return settings_from_json(told.get("values")) if isinstance(told, dict) else None
