"""The record of what replies used: sums for each UTC hour, model, speed and size of the request.

A price depends on these four, so sums under one price cost the same as the replies one by one. Replies whose cost the agent
reports have sums of their own: what the others cost is not in that cost. A layout's scanner adds each reply once; what it
counted is written to the store together with the place that was read, and then leaves the scanner's state.
"""

import operator
import re
from dataclasses import dataclass
from typing import Final, NamedTuple

HOUR: Final = 3600
"""Seconds of an hour: sums are kept by the hour."""

SIZES: Final = (0, 200_000, 272_000)
"""Tokens of input above which a request may have another price: up to 200,000, up to 272,000, more."""

STANDARD: Final = "standard"
FAST: Final = "fast"


class Counted(NamedTuple):
    """Sums of replies of one hour (since 1970), model, speed and size, which name a sum. `model` is "" if the files name none.

    `size` is the number of input tokens above which its requests are, one of `SIZES`. `fresh_input` was neither read from
    the cache nor written to it. `reported_nanousd` is the cost that the agent itself reports of all these replies, in
    billionths of a dollar; None if it reports none of any. The sums of a portion may be negative: a reply's later line takes
    back what an earlier one said.
    """

    hour: int
    model: str
    speed: str
    size: int
    replies: int
    fresh_input: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int
    output: int
    reported_nanousd: int | None = None

    def minus(self) -> "Counted":
        """What takes this back."""
        return self._replace(
            replies=-self.replies,
            fresh_input=-self.fresh_input,
            cache_read=-self.cache_read,
            cache_write_5m=-self.cache_write_5m,
            cache_write_1h=-self.cache_write_1h,
            output=-self.output,
            reported_nanousd=None if self.reported_nanousd is None else -self.reported_nanousd,
        )

    def plus(self, more: "Counted") -> "Counted":
        """Both together. Only sums of the same name may be added up; either both have a reported cost, or neither."""
        one, other = self.reported_nanousd, more.reported_nanousd
        assert (one is None) == (other is None), "a cost of some replies is not that of all"
        cost = None if one is None or other is None else one + other
        # Without `_replace`, which takes several times as long: the replies of most agents are added one by one.
        added = map(operator.add, self[_ADDED:_REPORTED], more[_ADDED:_REPORTED])
        return Counted._make((*self[:_ADDED], *added, cost))

    def is_nothing(self) -> bool:
        """Whether there is nothing to add."""
        return not any(self[_ADDED:])


_ADDED: Final = 4
_REPORTED: Final = 10
"""From the first field on, all are added up; from the second on, only if there is anything."""


def counted(
    at: float | None,
    model: str | None,
    speed: str,
    *,
    fresh_input: int,
    cache_read: int = 0,
    cache_write_5m: int = 0,
    cache_write_1h: int = 0,
    output: int,
    reported_nanousd: int | None = None,
) -> Counted:
    """One reply; `at` is when it was written, in Unix seconds."""
    given = fresh_input + cache_read + cache_write_5m + cache_write_1h
    return Counted(
        0 if at is None else int(at // HOUR),
        model or "",
        speed,
        size_of(given),
        1,
        fresh_input,
        cache_read,
        cache_write_5m,
        cache_write_1h,
        output,
        reported_nanousd,
    )


def add(sums: list[Counted], more: Counted) -> None:
    """Add to the sum of the same key. Sums of nothing are left out."""
    # Replies come in the order of time, so it is nearly always the last one.
    named, has_cost = more[:_ADDED], more.reported_nanousd is not None
    for index in range(len(sums) - 1, -1, -1):
        known = sums[index]
        if known[:_ADDED] == named and (known.reported_nanousd is not None) == has_cost:
            known = known.plus(more)
            if known.is_nothing():
                del sums[index]
            else:
                sums[index] = known
            return
    if not more.is_nothing():
        sums.append(more)


def size_of(given: int) -> int:
    """The size of a request with so many tokens of input."""
    return SIZES[2] if given > SIZES[2] else SIZES[1] if given > SIZES[1] else SIZES[0]


_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d):[0-5]\d:[0-5]\d(?:\.\d{1,6})?Z", re.ASCII)


@dataclass(slots=True)
class Run:
    """Replies in a row with the same hour, model, speed and size.

    Most replies of a transcript go on with the one before, and then a few additions are all that they cost.
    """

    first: Counted
    replies: int = 0
    fresh_input: int = 0
    cache_read: int = 0
    cache_written: int = 0
    cache_write_1h: int = 0
    output: int = 0

    def sum(self) -> Counted:
        """All of them together. What was written to the cache and not for an hour is kept for five minutes."""
        return self.first._replace(
            replies=self.replies,
            fresh_input=self.fresh_input,
            cache_read=self.cache_read,
            cache_write_5m=self.cache_written - self.cache_write_1h,
            cache_write_1h=self.cache_write_1h,
            output=self.output,
        )


def hour_in(stamp: str | None) -> str | None:
    """The part of a time that names its hour, if the whole is a time in UTC: equal parts are the same hour."""
    found = None if stamp is None else _STAMP.fullmatch(stamp)
    return None if found is None else found[1]
