"""Which lines of the daemon's log are wanted."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time

LEVELS: Final = ("debug", "info", "warning", "error", "critical")


class Wanted(NamedTuple):
    """From a level on, about a session (its key), since a moment (Unix seconds), of events (names or globs)."""

    level: str | None = None
    session: str | None = None
    since: float | None = None
    events: tuple[str, ...] = ()

    def has(self, line: Mapping[str, JsonValue]) -> bool:
        """Whether a line is one of them."""
        return (
            self._is_grave_enough(line.get("level"))
            and (self.session is None or self.session in (line.get("session"), line.get("lane")))
            and self._is_late_enough(line.get("ts"))
            and self._is_named(str(line.get("event")))
        )

    def _is_grave_enough(self, level: JsonValue) -> bool:
        if self.level is None:
            return True
        return level in LEVELS and LEVELS.index(str(level)) >= LEVELS.index(self.level)

    def _is_late_enough(self, text: JsonValue) -> bool:
        if self.since is None:
            return True
        at = parse_time(text)
        return at is not None and at >= self.since

    def _is_named(self, event: str) -> bool:
        return not self.events or any(fnmatchcase(event, each) for each in self.events)
