"""Schedules of chains: cron expressions, `every 6h` and `at 2026-12-01T08:00`, and the handling of late firings."""

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Final, Literal, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from runward.config.cron import Cron, CronError, parse_cron
from runward.config.duration import DurationError, parse_duration
from runward.config.json_value import JsonValue
from runward.config.keys import Key, flag, read_keys, seconds, text_schema, whole_number, words
from runward.config.problem import Complaint, Location, kind, quoted
from runward.config.shape import Complain

FIX: Final = 'write five fields ("0 2 * * *"), "every 6h" or "at 2026-12-01T08:00"'
_SHORTEST: Final = 1.0
_MOST_RUNS: Final = 1_000_000_000
_FIRST_YEAR, _LAST_YEAR = 1970, 9998
"""Moments that can be converted to every time zone, and to seconds."""

_END: Final = datetime(_LAST_YEAR + 1, 1, 1, tzinfo=UTC).timestamp()

_AT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})?"
)

Misfire: TypeAlias = Literal["skip", "run_once", "run_all"]
Overlap: TypeAlias = Literal["skip", "queue", "allow"]


class ScheduleError(ValueError):
    """A text that gives no times; `at` is the position in it, from 0."""

    def __init__(self, message: str, at: int = 0, fix: str = FIX) -> None:
        super().__init__(message)
        self.at = at
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Times:
    """When something is due: exactly one of a cron expression, a period in seconds, and a moment (Unix seconds)."""

    text: str
    zone: str
    cron: Cron | None = None
    every: float | None = None
    at: float | None = None

    def next_after(self, moment: float, since: float) -> float | None:
        """The first time after `moment`; a period is counted from `since`. None if there is none."""
        if self.cron is not None:
            return self.cron.next_after(moment, zone_called(self.zone))
        if self.every is not None:
            due = since + self.every * max(1, math.floor((moment - since) / self.every + 1e-9) + 1)
            return due if due < _END else None
        return self.at if self.at is not None and self.at > moment else None


def _runs(value: JsonValue, loc: Location, complain: Complain) -> int | None:
    return None if value is None else whole_number(value, loc, 1, _MOST_RUNS, complain)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times of a chain, and the rules for firings that are late, or come while an earlier one runs.

    `jitter` is the most seconds by which a firing is put off.
    """

    times: Annotated[
        Times,
        Key(
            text_schema('When it is due: five fields of cron, "every 6h", or "at 2026-12-01T08:00".'),
            name="schedule",
            beside={"timezone": text_schema("As in Europe/Riga. Default: the machine's.")},
        ),
    ]
    misfire: Annotated[
        Misfire,
        words("What happens to times that were noticed too late. Default: skip.", Misfire),
    ] = "skip"
    overlap: Annotated[
        Overlap,
        words("What happens to a firing while an earlier run is not over. Default: skip.", Overlap),
    ] = "skip"
    jitter: Annotated[float, seconds("Each firing is delayed by a random time up to this.")] = 0.0
    max_runs: Annotated[
        int | None,
        Key(
            {
                "type": "integer",
                "minimum": 1,
                "description": "The number of firings after which the schedule ends.",
            },
            _runs,
        ),
    ] = None
    pause_on_failure: Annotated[bool, flag("A run that fails or times out pauses the chain.")] = False

    def put_off(self, chain: str, due: float, following: float | None) -> float:
        """The seconds by which this time's firing is deliberately late: always the same, never past the next one."""
        if not self.jitter:
            return 0.0
        digest = hashlib.sha256(f"{chain}@{due!r}".encode()).digest()
        most = self.jitter if following is None else min(self.jitter, following - due)
        return most * (int.from_bytes(digest[:6]) / 2**48)


@lru_cache(maxsize=64)
def zone_called(name: str) -> ZoneInfo:
    """The time zone of this name. Raises `ScheduleError`."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ScheduleError(
            f"there is no time zone {name[:80]!r}", fix="as in Europe/Riga, or UTC"
        ) from error


def parse_times(text: str, zone: str) -> Times:
    """The times in `text`, in the time zone of this name. Raises `ScheduleError`."""
    zone_called(zone)
    if text.startswith("every "):
        try:
            period = parse_duration(text.removeprefix("every "))
        except DurationError as error:
            raise ScheduleError(
                f"{text.removeprefix('every ')!r} {error}", len("every "), error.fix
            ) from error
        if period < _SHORTEST:
            raise ScheduleError("a period is at least 1s", len("every "))
        return Times(text, zone, every=period)
    if text.startswith("at "):
        written = text.removeprefix("at ").strip()
        try:
            moment = datetime.fromisoformat(written) if _AT.fullmatch(written) else None
        except ValueError:
            moment = None
        if moment is None:
            raise ScheduleError(
                f"{written!r} is not a date with a time", len("at "), "as in at 2026-12-01T08:00"
            )
        if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
            message = f"{written!r} is not in the years {_FIRST_YEAR} to {_LAST_YEAR}"
            raise ScheduleError(message, len("at "), "as in at 2026-12-01T08:00")
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone_called(zone))
        return Times(text, zone, at=moment.timestamp())
    try:
        return Times(text, zone, cron=parse_cron(text))
    except CronError as error:
        raise ScheduleError(str(error), error.at) from error


def read_schedule(
    trigger: Mapping[str, JsonValue], loc: Location, machines_zone: str, complain: Complain
) -> Schedule | None:
    """The schedule in a chain's trigger. None after a complaint about its times."""
    text, zone = trigger.get("schedule"), trigger.get("timezone", machines_zone)
    if not isinstance(zone, str):
        complain(Complaint((*loc, "timezone"), f"is {kind(zone)}, not a text", "as in Europe/Riga"))
        zone = machines_zone
    try:
        zone_called(zone)
    except ScheduleError as error:
        complain(Complaint((*loc, "timezone"), str(error), error.fix))
        zone = "UTC"
    rules = read_keys(Schedule, trigger, loc, complain)
    if not isinstance(text, str):
        complain(Complaint((*loc, "schedule"), f"is {kind(text)}, not a text", FIX))
        return None
    try:
        times = parse_times(text, zone)
    except ScheduleError as error:
        complain(Complaint((*loc, "schedule"), f"{quoted(text)}: {error}", error.fix))
        return None
    if times.cron is not None and times.cron.next_after(0.0, zone_called("UTC")) is None:
        complain(Complaint((*loc, "schedule"), f"{quoted(text)} is never due: there is no such day", FIX))
    return Schedule(times, **rules)
