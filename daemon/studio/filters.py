"""Filters in the address of a list: what they say, or a page that names the one that can't be."""

import time
from collections.abc import Collection
from typing import Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request

from runward.config.duration import DurationError, parse_duration
from runward.daemon.studio.rendering import REQUEST, address

_EVERYWHERE: Final = ("format", REQUEST)
"""In the address of any page: `format=json` asks for the data, `request` for what came of a request."""


class Filters:
    """The filters in an address; empty ones count as absent. Raises `HTTPException` for one that there is not."""

    def __init__(self, request: Request, known: Collection[str]) -> None:
        self._given = request.query_params
        for name in self._given:
            if name not in known and name not in _EVERYWHERE:
                raise HTTPException(400, f"There is no filter {name!r}. There are: {', '.join(known)}.")

    def all(self, name: str, possible: Collection[str] = ()) -> tuple[str, ...]:
        """Each value of a filter. Raises `HTTPException` if there are `possible` values, and it is not one."""
        values = tuple(each for each in self._given.getlist(name) if each)
        for each in values:
            if possible and each not in possible:
                raise HTTPException(400, f"{name} is {each!r}. It can be: {', '.join(possible)}.")
        return values

    def one(self, name: str, possible: Collection[str] = ()) -> str | None:
        """The first value of a filter."""
        return next(iter(self.all(name, possible)), None)

    def moment(self, name: str) -> float | None:
        """The time (Unix seconds) that is as long ago as the filter says, such as `7d`. Raises `HTTPException`."""
        text = self.one(name)
        try:
            return None if text is None else time.time() - parse_duration(text)
        except DurationError as error:
            message = f"{name} is {text!r}: {error}. Write an age, such as 7d or 2h."
            raise HTTPException(400, message) from error

    def after(self, name: str) -> tuple[float, str] | None:
        """The time and the key of the last row of the page before. Raises `HTTPException`."""
        text = self.one(name)
        if text is None:
            return None
        at, _, key = text.partition(",")
        try:
            return float(at), key
        except ValueError as error:
            message = f"{name} is {text!r}, which no page of this list links to. Open the list again."
            raise HTTPException(400, message) from error

    def number(self, name: str) -> int | None:
        """The number of the last row of the page before. Raises `HTTPException`."""
        text = self.one(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            message = f"{name} is {text!r}, which no page of this list links to. Open the list again."
            raise HTTPException(400, message)
        return int(text)


def place_of(at: float, key: str) -> str:
    """The last row of a page as the address of the next one names it; `Filters.after` reads it."""
    return f"{at!r},{key}"


def later_of(*moments: float | None) -> float | None:
    """The last of the times that are given; None if none is."""
    return max((each for each in moments if each is not None), default=None)


class Older(NamedTuple):
    """The address behind a part of a list; a search stopped there if `is_search`."""

    address: str | None = None
    is_search: bool = False


def older(
    request: Request, last: tuple[float, str] | None, searched_until: float | None, since: float | None
) -> Older:
    """What follows a part of a list: behind the `last` row, if there are more rows than a part has.

    Else older ones may be found behind `searched_until`, the time at which the search stopped, if it was not `since` then.
    """
    if last is not None:
        return Older(address(request, after=place_of(*last)))
    if searched_until is None or (since is not None and since >= searched_until):
        return Older()
    # Behind every id of that time, because the search has looked at all of them.
    return Older(address(request, after=place_of(searched_until, "~")), is_search=True)
