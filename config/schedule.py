"""Schedules of chains: cron expressions, `every 6h` and `at 2026-12-01T08:00`, and the handling of late firings."""

import hashlib
import math
import re
from bisect import bisect_right
from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from runward.config.duration import DurationError, parse_duration
from runward.config.json_value import JsonValue
from runward.config.keys import Key, flag, read_keys, seconds, text_schema, whole_number, words
from runward.config.problem import Complaint, Location, kind, quoted
from runward.config.shape import Complain

# Cron expressions follow the rules of Debian's cron. croniter handles neither these nor a night without 02:30, so it only
# takes the fields apart.
_SHORTHANDS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class _Field(NamedTuple):
    """One of the five fields of a cron expression: its lowest and highest value, and names for values."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _DAYS),
)
_PART: Final = re.compile(r"(?:\*|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([0-9]{1,3}))?")
_YEARS: Final = 41
"""29 February falls on a given day of the week again after forty years at most."""


class CronError(ValueError):
    """A text that is not a cron expression; `at` is the position in it, from 0."""

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True, slots=True)
class Cron:
    """When a job runs. The values of each field are in order; `weekdays` begin with Sunday as 0.

    A job is fixed if neither its minute nor its hour field begins with a star. A fixed job runs once a day and time: if a
    gap in the night skips its time, it runs at the end of the gap, and if an hour comes twice, the first one counts. Any
    other job follows the wall clock. If a day field begins with a star, both day fields must match, else one is enough.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    is_fixed: bool
    both_days: bool

    def next_after(self, moment: float, zone: ZoneInfo) -> float | None:
        """The first time after `moment` (both Unix seconds) at which it runs; None if it never does."""
        first = datetime.fromtimestamp(moment, zone).date() - timedelta(days=1)
        for day in self._days_from(first):
            due = self._in_day(day, moment, zone)
            if due is not None:
                return due
        return None

    def _days_from(self, first: date) -> Iterator[date]:
        for number in range(first.month - 1, first.month - 1 + 12 * _YEARS):
            year, month = first.year + number // 12, number % 12 + 1
            if month not in self.months or year > 9998:
                continue
            begins = first.day if (year, month) == (first.year, first.month) else 1
            for day in range(begins, monthrange(year, month)[1] + 1):
                if self._is_on(date(year, month, day)):
                    yield date(year, month, day)

    def _is_on(self, day: date) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (of_month and of_week) if self.both_days else (of_month or of_week)

    def _in_day(self, day: date, moment: float, zone: ZoneInfo) -> float | None:
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
        begin, end = midnight.timestamp(), (midnight + timedelta(days=1)).timestamp()
        if end - begin == 86400.0 and midnight.utcoffset() == (midnight + timedelta(hours=12)).utcoffset():
            return self._in_plain_day(begin, moment)
        times = _in_odd_day(self, day, zone)
        later = bisect_right(times, moment)
        return times[later] if later < len(times) else None

    def _in_plain_day(self, begin: float, moment: float) -> float | None:
        """The first time in a day whose clock is never changed: nearly every day."""
        if moment < begin:
            return begin + self.hours[0] * 3600 + self.minutes[0] * 60
        hour, second = divmod(moment - begin, 3600)
        if hour in self.hours:
            later = bisect_right(self.minutes, second // 60)
            if later < len(self.minutes):
                return begin + hour * 3600 + self.minutes[later] * 60
        later = bisect_right(self.hours, hour)
        return None if later == len(self.hours) else begin + self.hours[later] * 3600 + self.minutes[0] * 60


@lru_cache(4)
def _in_odd_day(cron: Cron, day: date, zone: ZoneInfo) -> tuple[float, ...]:
    """The times in a day in which the clock is changed, in order. To find one takes as long as to find all."""
    found: list[float] = []
    for hour in cron.hours:
        for minute in cron.minutes:
            wall = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
            first, second = wall.timestamp(), wall.replace(fold=1).timestamp()
            if (
                second < first
            ):  # in a gap, `fold` 0 uses the offset before it, which gives a time after the gap
                if cron.is_fixed:
                    found.append(_end_of_gap(second, first, zone))
                continue
            found.append(first)
            if second > first and not cron.is_fixed:
                found.append(second)
    return tuple(sorted(found))


def _end_of_gap(before: float, after: float, zone: ZoneInfo) -> float:
    """The moment between these two at which the clock is changed: a whole second."""
    low, high = int(before), int(after)
    offset = datetime.fromtimestamp(low, zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return float(high)


def parse_cron(text: str) -> Cron:
    """The expression in `text`: five fields, or one of the names that begin with @. Raises `CronError`."""
    from croniter import croniter
    from croniter.croniter import CroniterError

    if text.startswith("@"):
        if text not in _SHORTHANDS:
            raise CronError(f"{text[:40]!r} is not one of {', '.join(_SHORTHANDS)}")
        text = _SHORTHANDS[text]
    matches = list(re.finditer(r"\S+", text))
    if len(matches) != len(_FIELDS):
        raise CronError(f"has {len(matches)} fields, not five: minute, hour, day, month, day of the week")
    words = [each[0].lower() for each in matches]
    checked = [
        _checked(word, place.start(), field)
        for word, place, field in zip(words, matches, _FIELDS, strict=True)
    ]
    try:
        expanded, _ = croniter.expand(" ".join(checked))
    except CroniterError as error:
        raise CronError(str(error)) from error
    sets = [
        range(field.low, field.high + 1) if "*" in values else sorted({int(each) for each in values})
        for values, field in zip(expanded, _FIELDS, strict=True)
    ]
    minutes, hours, days, months, weekdays = sets
    return Cron(
        tuple(minutes),
        tuple(hours),
        frozenset(days),
        frozenset(months),
        frozenset(each % 7 for each in weekdays),
        is_fixed=not words[0].startswith("*") and not words[1].startswith("*"),
        both_days=words[2].startswith("*") or words[4].startswith("*"),
    )


def _checked(word: str, at: int, field: _Field) -> str:
    """A field as croniter reads it. Refuses random, reversed and out-of-range values, which croniter accepts."""
    parts: list[str] = []
    for part in word.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise CronError(f"{part[:40]!r} is not understood in the {field.name}", at)
        values = [_number(each, field, at) for each in match.group(1, 2) if each is not None]
        if len(values) == 2 and values[0] > values[1]:
            raise CronError(f"{part!r} is a reversed range in the {field.name}", at)
        if match[3] is not None and int(match[3]) == 0:
            raise CronError(f"{part!r} has a step of 0 in the {field.name}", at)
        if match[3] is not None and len(values) == 1:
            raise CronError(f"{part!r} has a step without a range in the {field.name}", at)
        is_far = (
            match[3] is not None and int(match[3]) > field.high
        )  # such a step leads to the first value alone
        parts.append(str(values[0] if values else field.low) if is_far else part)
        at += len(part) + 1
    return ",".join(parts)


def _number(text: str, field: _Field, at: int) -> int:
    value = (
        field.low + field.names.index(text) if text in field.names else int(text) if text.isdecimal() else -1
    )
    if not field.low <= value <= field.high:
        raise CronError(f"{text!r} is not in the {field.name}: {field.low} to {field.high}", at)
    return value


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
            # The small addition makes up for rounding. Without it a firing that is due now could be found again.
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
        # From a hash, not by chance: a daemon that starts again must put the same firing off by the same time.
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
