"""Cron expressions by the rules of Debian's cron, over croniter, which handles neither these nor a night without 02:30.

A job is fixed if neither its minute nor its hour field begins with a star. A fixed job runs once a day and time: if a
gap in the night skips its time, it runs at the end of the gap, and if an hour comes twice, the first one counts. Any
other job follows the wall clock. If a day field begins with a star, both day fields must match, else one is enough.
"""

import re
from bisect import bisect_right
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

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
_FIELDS: Final = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
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
    """When a job runs. The values of each field are in order; `weekdays` begin with Sunday as 0."""

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
        return min((each for each in self._in_odd_day(day, zone) if each > moment), default=None)

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

    def _in_odd_day(self, day: date, zone: ZoneInfo) -> Iterator[float]:
        for hour in self.hours:
            for minute in self.minutes:
                wall = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
                first, second = wall.timestamp(), wall.replace(fold=1).timestamp()
                if (
                    second < first
                ):  # in a gap, `fold` 0 uses the offset before it, which gives a time after the gap
                    if self.is_fixed:
                        yield _end_of_gap(second, first, zone)
                    continue
                yield first
                if second > first and not self.is_fixed:
                    yield second


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
        _checked(word, place.start(), *field)
        for word, place, field in zip(words, matches, _FIELDS, strict=True)
    ]
    try:
        expanded, _ = croniter.expand(" ".join(checked))
    except CroniterError as error:
        raise CronError(str(error)) from error
    sets = [
        range(low, high + 1) if "*" in values else sorted({int(each) for each in values})
        for values, (_, low, high, _) in zip(expanded, _FIELDS, strict=True)
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


def _checked(word: str, at: int, field: str, low: int, high: int, names: tuple[str, ...]) -> str:
    """A field as croniter reads it. Refuses random, reversed and out-of-range values, which croniter accepts."""
    parts: list[str] = []
    for part in word.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise CronError(f"{part[:40]!r} is not understood in the {field}", at)
        values = [
            _number(each, field, low, high, names, at) for each in match.group(1, 2) if each is not None
        ]
        if len(values) == 2 and values[0] > values[1]:
            raise CronError(f"{part!r} is a reversed range in the {field}", at)
        if match[3] is not None and int(match[3]) == 0:
            raise CronError(f"{part!r} has a step of 0 in the {field}", at)
        if match[3] is not None and len(values) == 1:
            raise CronError(f"{part!r} has a step without a range in the {field}", at)
        is_far = match[3] is not None and int(match[3]) > high  # such a step leads to the first value alone
        parts.append(str(values[0] if values else low) if is_far else part)
        at += len(part) + 1
    return ",".join(parts)


def _number(text: str, field: str, low: int, high: int, names: tuple[str, ...], at: int) -> int:
    value = low + names.index(text) if text in names else int(text) if text.isdecimal() else -1
    if not low <= value <= high:
        raise CronError(f"{text!r} is not in the {field}: {low} to {high}", at)
    return value
