"""What commands are given: times, lengths of time, limits, and paths with the files at them."""

import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import wraps
from os import PathLike
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

import click

from runward.config.duration import MAX_DURATION_S, DurationError, parse_duration
from runward.config.json_value import JsonValue
from runward.daemon.cli.exits import NOT_FOUND, TRY_AGAIN, WRONG_USAGE
from runward.daemon.cli.terminal.output import complain, fail, keep_for_printing, printing, safe

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from runward.daemon.cli.shell.completing import Completer
    from runward.daemon.views.checks import Check

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
        # "2h ago" and "-2h", as journalctl takes them.
        return now - parse_duration(words.removesuffix("ago").removeprefix("-").strip(), MAX_DURATION_S)
    except DurationError:
        pass
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        raise MomentError(f"{text!r} is not a time: {FIX}") from None


class _Time(_Seconds):
    """An option's value in seconds; some values that people often write are offered."""

    offered: tuple[str, ...] = ()

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in self.offered if word.startswith(incomplete)]


class Moment(_Time):
    """An option's value that is a moment, as Unix seconds."""

    name = "time"
    offered = ("today", "yesterday", "1h", "2h", "1d", "7d", "30d")

    def convert(
        self, value: str | float, parameter: click.Parameter | None, context: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            return parse_moment(str(value), time.time())
        except MomentError as error:
            self.fail(str(error), parameter, context)


class Length(_Time):
    """An option's value that is a duration, in seconds; at most `longest`."""

    name = "duration"
    offered = ("10s", "30s", "1min", "5min", "1h", "90d")

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


class Period(_Time):
    """An option's value that says how often, in seconds or as a duration; at least a tenth of a second."""

    name = "seconds"
    offered = ("1", "2", "5", "10")
    SHORTEST = 0.1

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


def json_option(help: str = "Print JSON.") -> _Option:  # noqa: A002  # as click calls it
    """`--json`, and `--jq`, which implies it: whether the command prints JSON, as `as_json`."""

    def declare(command: Callable[..., Any]) -> Callable[..., Any]:
        with_query = click.option(
            "--jq",
            "query",
            metavar="EXPR",
            expose_value=False,
            is_eager=True,  # before --json
            callback=_read_query,
            help="Print what this expression of jq makes of the JSON, one result per line.",
        )(command)
        return click.option(
            "--json",
            "as_json",
            is_flag=True,
            callback=lambda context, parameter, value: value or printing("query") is not None,
            help=help,
        )(with_query)

    return declare


def _read_query(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is None or context.resilient_parsing:
        return
    from runward.daemon.cli.terminal.query import Query  # most calls have none

    try:
        keep_for_printing(context, parameter, Query(value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def filter_option(
    flag: str, metavar: str, completer: "Completer", which: str, *names: str, multiple: bool = False
) -> _Option:
    """A filter of a list, whose value the shell completes; `which` says what is shown. `names` are for the parameter."""
    return click.option(
        flag,
        *names,
        metavar=metavar,
        multiple=multiple,
        shell_complete=completer,
        help=f"Show only {which}.",
    )


no_pager_option: Final[_Option] = click.option(
    "--no-pager",
    is_flag=True,
    expose_value=False,
    callback=keep_for_printing,
    help="Print all of it at once, even if it is longer than the screen.",
)

wide_option: Final[_Option] = click.option(
    "--wide",
    "is_wide",
    is_flag=True,
    expose_value=False,
    callback=keep_for_printing,
    help="Leave out no column, and cut nothing.",
)


class _Heads(click.ParamType[tuple[str, ...]] if TYPE_CHECKING else click.ParamType):  # type: ignore[misc] # as `_Seconds`
    """Names of columns, separated by commas."""

    name = "names"

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        heads = tuple(each.strip().upper() for each in value.split(",") if each.strip())
        for head in heads:
            if head not in self._known:
                self.fail(f"there is no column {head!r}; there are {', '.join(self._known)}", param, ctx)
        return heads

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        before, comma, last = incomplete.rpartition(",")
        # A shell offers only what begins as the word does.
        named = str.lower if (last or before).islower() else str
        return [
            CompletionItem(f"{before}{comma}{named(each)}")
            for each in self._known
            if each.startswith(last.upper()) and each not in before.upper().split(",")
        ]


USUAL_PERIOD: Final = "2"
"""Seconds between two pages by default, as for watch(1)."""


def watched(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--watch [SECONDS]`: what the command prints, drawn again in its place."""

    @wraps(command)
    def with_watch(*args: object, every: float | None, **given: object) -> object:
        if every is None:
            return command(*args, **given)
        from runward.daemon.cli.terminal.live import redraw_output  # most calls look once

        return redraw_output(lambda: command(*args, **given), every, is_json=bool(given.get("as_json")))

    return click.option(
        "--watch",
        "every",
        type=Period(),
        is_flag=False,
        flag_value=USUAL_PERIOD,
        metavar="[SECONDS]",
        help="Redraw it every SECONDS (default: 2) until Ctrl-C; needs a terminal.",
    )(with_watch)


def columns_option(*known: str) -> _Option:
    """Which columns a table shows, in which order, of those that it has."""
    return click.option(
        "--columns",
        "heads",
        type=_Heads(known),
        default=(),
        expose_value=False,
        callback=keep_for_printing,
        metavar="A,B",
        help=f"Show only these columns, in this order, of {', '.join(known)}.",
    )


def listed(columns: Iterable[str]) -> _Option:
    """The options of a command that prints a table with these columns."""
    names = tuple(each for each in columns if each)

    def declare(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (watched, no_pager_option, columns_option(*names), wide_option):
            command = option(command)
        return command

    return declare


since_option: Final[_Option] = click.option(
    "--since", type=Moment(), help="Show only those since then: 2h, today, a date."
)

attempt_option: Final[_Option] = click.option(
    "--attempt", type=click.IntRange(1), metavar="N", help="The attempt (default: the last one)."
)

limit_option: Final[_Option] = click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    metavar="N",
    help="Show at most N; 0: all.",
)
"""How long a list may be."""


def fleet_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What hosts of the fleet reported: the function gets `is_fleet` and `hosts`."""
    is_fleet = click.option(
        "--fleet", "is_fleet", is_flag=True, help="Show what all hosts of the fleet reported."
    )
    hosts = click.option(
        "--host", "hosts", multiple=True, metavar="NAME", help="With --fleet: show only those of this host."
    )
    return is_fleet(hosts(command))


def without_fleet(hosts: Sequence[str]) -> None:
    """Exits 2 if hosts are named without `--fleet`."""
    if hosts:
        raise click.UsageError("--host needs --fleet.")


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


def patience_options(what: str, default: str = "30s") -> _Option:
    """`--wait` and `--timeout`, as one `patience`: how many seconds to wait, None without `--wait`."""

    def declare(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_patience(*args: object, wait: bool, timeout: float, **given: object) -> object:
            return command(*args, patience=timeout if wait else None, **given)

        return click.option("--wait", is_flag=True, help=what)(timeout_option(default)(with_patience))

    return declare


LEADS_NOWHERE: Final = "the working directory is gone: cd to one that exists, or write an absolute path"


class NamedPath(click.Path):
    """A path that names something: an empty one is wrong usage, and never the current directory.

    So is a relative one where the working directory was deleted.
    """

    def convert(
        self,
        value: str | PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | PathLike[str]:
        if not str(value):
            self.fail("an empty path names nothing", param, ctx)
        if leads_nowhere(str(value)):
            self.fail(LEADS_NOWHERE, param, ctx)
        return super().convert(value, param, ctx)


def leads_nowhere(path: str) -> bool:
    """Whether a path is relative to a working directory that was deleted."""
    if os.path.isabs(path):
        return False
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


junit_option: Final[_Option] = click.option(
    "--junit",
    metavar="FILE",
    type=NamedPath(dir_okay=False),
    help="Also write a JUnit report: a test case for each artifact and each rule.",
)


def write_report(
    file: str,
    name: str,
    checks: "Sequence[Check]",
    started_at: float,
    took_s: float,
    clean: Callable[[str], str] = str,
) -> None:
    """Write the JUnit report that `junit_option` names. Exits 75 if it can't be written."""
    from runward.daemon.views.junit import write_junit  # few ask for one

    try:
        write_junit(file, name, checks, started_at, took_s, clean)
    except OSError as error:
        fail(f"the report can't be written: {safe(file)}: {error.strerror}", TRY_AGAIN)


_STDIN: Final = "-"
_OPEN_ALREADY: Final = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""What a shell names if it passes a pipe, as in `<(command)`: somebody writes to it."""


@contextmanager
def opened(file: str) -> Iterator[BinaryIO]:
    """A file, open to read. Exits 2 if it is not a regular file, and 3 if it can't be read.

    A pipe may have no writer, and a device no end. One that the command was given open is read all the same.
    """
    try:
        # Without waiting; O_NONBLOCK changes nothing for a regular file.
        flags = 0 if file.startswith(_OPEN_ALREADY) else os.O_NONBLOCK
        # NOCTTY: a terminal that is named must not become this process's own, whose hang-up would end it.
        with open(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | flags), "rb") as stream:
            if flags and not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                fail(f"{safe(file)} is not a regular file", WRONG_USAGE)
            yield stream
    except OSError as error:
        fail(f"{safe(file)} can't be read: {error.strerror}", NOT_FOUND)


def content_of(file: str, most: int) -> bytes:
    """The content of a file. Exits as `opened` does, and 2 if it has more than `most` bytes, which are whole MiB."""
    if file == _STDIN:
        # One byte more than allowed shows that there is too much, without reading it all.
        content = sys.stdin.buffer.read(most + 1)
    else:
        with opened(file) as stream:
            content = stream.read(most + 1)
    if len(content) > most:
        fail(f"{safe(file)} is larger than {most >> 20} MiB", WRONG_USAGE)
    return content


def text_of(file: str, most: int) -> str:
    """The text of a file. Exits as `content_of` does, and 2 if it is not UTF-8."""
    try:
        return content_of(file, most).decode()
    except UnicodeDecodeError:
        fail(f"{safe(file)} is not UTF-8", WRONG_USAGE)


def values_of(words: Sequence[str]) -> dict[str, JsonValue]:
    """`KEY=VALUE` as text, `KEY:=JSON` as JSON; exits 2 for anything else."""
    from runward.config.template import WrongValue, given_values  # a list of sessions needs none of it

    try:
        return given_values([valid_text(word, "a value") for word in words])
    except WrongValue as error:
        if error.problems:
            complain(error.problems)
            sys.exit(WRONG_USAGE)
        raise click.UsageError(str(error)) from None


def valid_text(word: str, what: str) -> str:
    """The word; exits 2 if it is not valid UTF-8. `what` names it."""
    try:
        # Python passes bytes that are not UTF-8 on as lone surrogates, which neither JSON nor the store takes.
        word.encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"{what} is not valid UTF-8: {word!r}") from None
    return word


def own_chain_run() -> str | None:
    """The chain run whose step this command is called in."""
    from runward.handlers.model.chains import chain_run_of

    return chain_run_of(os.environ.get("RUNWARD_SESSION_ID", ""))
