"""Options that several commands have in the same words; time as people write it: moments (how long ago, a date, a word for one) and durations."""

import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from runward.config.duration import MAX_DURATION_S, DurationError, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from click.shell_completion import CompletionItem

    _Seconds = click.ParamType[float]
else:
    _Seconds = click.ParamType

FIX: Final = (
    "write how long ago (2h, 30min, 7d), a time (2026-01-31T12:00:00Z, 2026-01-31 12:00), today or yesterday"
)


class MomentError(ValueError):
    """A text that names no moment."""


def parse_moment(text: str, now: float) -> float:
    """The moment in Unix seconds; what has no zone is local time. Raises `MomentError`."""
    words = text.strip().lower()
    if words == "now":
        return now
    if words in ("today", "yesterday"):
        day = datetime.fromtimestamp(now).astimezone().date() - timedelta(days=words == "yesterday")
        return datetime(day.year, day.month, day.day).timestamp()  # noqa: DTZ001  # midnight of local time
    if re.fullmatch(r"@[0-9]{1,12}(\.[0-9]+)?", words):
        return float(words[1:])
    try:
        return now - parse_duration(words.removesuffix("ago").removeprefix("-").strip(), MAX_DURATION_S)
    except DurationError:
        pass
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        raise MomentError(f"{text!r} is not a time: {FIX}") from None


def _beginning(words: "Iterable[str]", incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


class Moment(_Seconds):
    """An option's value that is a moment, as Unix seconds."""

    name = "time"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        return _beginning(("today", "yesterday", "1h", "2h", "1d", "7d", "30d"), incomplete)

    def convert(
        self, value: str | float, parameter: click.Parameter | None, context: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            return parse_moment(str(value), time.time())
        except MomentError as error:
            self.fail(str(error), parameter, context)


class Length(_Seconds):
    """An option's value that is a duration, in seconds; at most `longest`."""

    name = "duration"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        return _beginning(("10s", "30s", "1min", "5min", "1h", "90d"), incomplete)

    def __init__(self, longest: float = MAX_DURATION_S) -> None:
        self._longest = longest

    def convert(
        self, value: str | float, parameter: click.Parameter | None, context: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value), self._longest)
        except DurationError as error:
            self.fail(f"{error}; {error.fix}", parameter, context)


class Period(_Seconds):
    """An option's value that says how often, in seconds or as a duration; at least a tenth of a second."""

    name = "seconds"
    SHORTEST = 0.1

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        return _beginning(("1", "2", "5", "10"), incomplete)

    def convert(
        self, value: str | float, parameter: click.Parameter | None, context: click.Context | None
    ) -> float:
        try:
            period = float(value)
        except ValueError:
            try:
                period = parse_duration(str(value))
            except DurationError as error:
                self.fail(f"{error}; {error.fix}, or a number of seconds", parameter, context)
        if not self.SHORTEST <= period < float("inf"):
            self.fail(
                f"{value} is too short or endless: write {self.SHORTEST:g} or more seconds",
                parameter,
                context,
            )
        return period


_Option: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

limit_option: Final[_Option] = click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    metavar="N",
    help="Show at most N; 0: all.",
)
"""How long a list may be."""


def timeout_option(default: str = "30s") -> _Option:
    """How long a command waits for its result."""
    return click.option(
        "--timeout",
        type=Length(),
        default=default,
        show_default=True,
        metavar="DURATION",
        help="Wait at most this long.",
    )
