"""`runward log`: the daemon's structured log, from its files and from the systemd journal."""

import heapq
import json
import os
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Final, NamedTuple

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_FOUND, TRY_AGAIN
from runward.daemon.cli.session.finding import find_session
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import pass_settings, store_to_read
from runward.daemon.cli.terminal import live
from runward.daemon.cli.terminal.options import Moment, filter_option, json_option, no_pager_option
from runward.daemon.cli.terminal.output import (
    coloured,
    fail,
    fitting,
    print_json,
    print_json_line,
    print_lines,
)
from runward.daemon.disk.state_rights import naming_its_user
from runward.daemon.log import (
    IDENTIFIER,
    IN_JOURNAL,
    LINE,
    LOG,
    PRIORITIES,
    SET_ASIDE,
    STATE,
    aside,
    field_name,
    for_people,
)
from runward.daemon.rundir.growing import Line, Tail
from runward.handlers.foreign_json import parse_time


class LogFiles:
    """The files of one state directory, read from the oldest line on and then as they grow."""

    def __init__(self, state_dir: str) -> None:
        self._path = Path(state_dir, LOG)
        self._newest: Tail | None = None

    @property
    def is_there(self) -> bool:
        return self._path.exists()

    def so_far(self) -> Iterator[dict[str, JsonValue]]:
        """What they say up to now."""
        yield from _values(self._lines_so_far())

    def added(self) -> Iterator[dict[str, JsonValue]]:
        """What was added since the last call of this or of `so_far`."""
        if self._newest is None:
            self._newest = self._open(0)
        if self._newest is not None:
            yield from _values(self._newest.lines())
            while self._newest.moved_on():
                yield from _values(self._newest.lines())

    def _lines_so_far(self) -> Iterator[Line]:
        # From the newest on, as files only ever grow older: a file rotated meanwhile is met twice, and not missed.
        tails = [self._open(number) for number in range(SET_ASIDE + 1)]
        self._newest = tails[0]
        seen = {tails[0].identity} if tails[0] is not None else set()
        older: list[Tail] = []
        for tail in tails[1:]:
            if tail is not None and tail.identity not in seen:
                seen.add(tail.identity)
                older.append(tail)
        for tail in reversed(older):
            yield from live.once(tail, None)
            tail.close()
        if self._newest is not None:
            yield from self._newest.lines()

    def _open(self, number: int) -> Tail | None:
        path = aside(self._path, number)
        try:
            return Tail(lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            return None


def _values(lines: Iterable[Line]) -> Iterator[dict[str, JsonValue]]:
    """The values in the lines; a line that a full disk tore has none."""
    for line in lines:
        try:
            value = json.loads(line.content)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


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


_QUERY: Final = (
    "journalctl",
    "--no-pager",
    "--quiet",
    "--all",  # or else fields of over 4096 bytes are left out
    "--output=json",
    f"--output-fields={LINE}",
)


class JournalledLines:
    """The lines of one state directory that went into the journal, as far as journalctl can choose them."""

    def __init__(self, state_dir: str, wanted: Wanted, count: int | None) -> None:
        self._state_dir = os.path.realpath(state_dir)
        self._wanted = wanted
        # If journalctl can't make the choice, the caller does, and then the last lines can't be counted here.
        self._count = count if not wanted.events else None
        self._is_there = Path(state_dir, IN_JOURNAL).exists()
        self._start = f"--since=@{time.time():.6f}"
        self._came: SimpleQueue[bytes] | None = None
        self._following: subprocess.Popen[bytes] | None = None

    @property
    def is_there(self) -> bool:
        return self._is_there

    def so_far(self) -> Iterator[dict[str, JsonValue]]:
        """The journal's lines up to now. Exits 75 if journalctl refuses, 3 if there is none."""
        if not self._is_there:
            return
        options = [] if self._wanted.since is None else [f"--since=@{self._wanted.since:.6f}"]
        if self._count is not None:
            options.append(f"--lines={self._count}")
        with self._asked(*options) as process:
            assert process.stdout is not None
            for line in process.stdout:
                yield from self._value(line)
            _end(process)

    def added(self) -> Iterator[dict[str, JsonValue]]:
        """What was added since the last call of this or of `so_far`, which comes first."""
        if not self._is_there:
            return
        if self._came is None or self._following is None:
            self._came = SimpleQueue()
            self._following = self._asked("--follow", "--no-tail", self._start)
            assert self._following.stdout is not None
            # Reading a pipe waits, and meanwhile lines come into the files.
            threading.Thread(target=_pass_on, args=(self._following.stdout, self._came), daemon=True).start()
        while not self._came.empty():
            line = self._came.get()
            if not line:
                _end(self._following)
                fail("journalctl ended: the journal can no longer be followed", TRY_AGAIN)
            yield from self._value(line)

    def _asked(self, *options: str) -> subprocess.Popen[bytes]:
        level = self._wanted.level
        priority = () if level is None else (f"--priority={PRIORITIES[level]}",)
        try:
            return subprocess.Popen(
                [*_QUERY, *options, *priority, *self._matches()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except FileNotFoundError:
            fail(
                "the daemon logs to the systemd journal, but journalctl is not installed",
                NOT_FOUND,
            )

    def _matches(self) -> list[str]:
        """The fields that entries must have; those before and after a `+` are alternatives."""
        own = [f"SYSLOG_IDENTIFIER={IDENTIFIER}", f"{STATE}={self._state_dir}"]
        session = self._wanted.session
        if session is None:
            return own
        return [*own, f"{field_name('session')}={session}", "+", *own, f"{field_name('lane')}={session}"]

    def _value(self, entry: bytes) -> Iterator[dict[str, JsonValue]]:
        """The line in an entry; none if another program uses Runward's identifier."""
        fields = json.loads(entry)
        # Following begins behind the last entry that was read, so nothing is lost or said twice between the two calls.
        self._start = f"--after-cursor={fields['__CURSOR']}"
        text = fields.get(LINE)
        try:
            # What journald doesn't take for text is a list of bytes.
            value = json.loads(bytes(text) if isinstance(text, list) else text or "null")
        except (ValueError, TypeError):
            return
        if isinstance(value, dict):
            yield value


def _pass_on(lines: IO[bytes], queue: SimpleQueue[bytes]) -> None:
    """Every line, and nothing when there is no more."""
    for line in lines:
        queue.put(line)
    queue.put(b"")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for it, and report its complaints."""
    assert process.stderr is not None
    message = process.stderr.read().decode(errors="replace").strip()
    if process.wait() and message:
        fail(f"journalctl: {message}", TRY_AGAIN)


_SHOWN_BEFORE: Final = 10
"""Lines before those that `-f` waits for, as with tail(1) and journalctl(1)."""

_Line = dict[str, JsonValue]


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they come, until Ctrl-C.")
@filter_option("--session", "ID", completing.sessions, "lines about this session")
@click.option("--level", type=click.Choice(LEVELS), help="Show only lines of this level and above.")
@click.option("--since", type=Moment(), metavar="TIME", help="Show only lines since then: 2h, today, a date.")
@click.option(
    "--event",
    "events",
    multiple=True,
    metavar="NAME",
    shell_complete=completing.events,
    help="Show only lines of this event, or a glob: 'journal.*'. May be given several times.",
)
@click.option(
    "-n",
    "--lines",
    "--limit",
    "count",
    type=click.IntRange(min=0),
    metavar="N",
    help="Show only the last N lines (default: all; with -f the last 10).",
)
@no_pager_option
@json_option("Print JSON: a list, or with -f one value a line.")
@pass_settings
def log(
    settings: Settings,
    follow: bool,
    session: str | None,
    level: str | None,
    since: float | None,
    events: tuple[str, ...],
    count: int | None,
    as_json: bool,
) -> None:
    """Show the daemon's log.

    \b
    Example:
      runward log --level warning --since 2h
    """
    key = None
    if session is not None:
        with store_to_read(settings) as connection:
            key = find_session(connection, settings, session).key
    wanted = Wanted(level, key, since, events)
    if follow and count is None:
        count = _SHOWN_BEFORE
    with naming_its_user(Path(settings.state_dir)):
        log = Log(settings.state_dir, wanted, count)
        is_there = log.is_there
    if not is_there:
        fail(f"there is no log in {settings.state_dir}/log yet: no daemon has run here", NOT_FOUND)
    if as_json and not follow:
        print_json(list(log.so_far()))
        return
    lines = chain(log.so_far(), log.followed()) if follow else log.so_far()
    if not as_json:
        told = (for_people(line, coloured) for line in lines)
        print_lines((part for line in told for part in fitting(line)), is_paged=not follow)
        return
    for line in lines:
        print_json_line(line)


class Log:
    """The wanted lines of one state directory, in the order of their times, wherever they went."""

    def __init__(self, state_dir: str, wanted: Wanted, count: int | None) -> None:
        self._wanted = wanted
        self._count = count
        self._files = LogFiles(state_dir)
        self._journal = JournalledLines(state_dir, wanted, count)

    @property
    def is_there(self) -> bool:
        return self._files.is_there or self._journal.is_there

    def so_far(self) -> Iterator[_Line]:
        """What was logged up to now; with a count, the last of it."""
        # Both are in the order of their times, so merging them needs no list of all the lines.
        both = heapq.merge(_timed(self._files.so_far()), _timed(self._journal.so_far()), key=_time)
        lines = (line for _, line in both if self._wanted.has(line))
        return lines if self._count is None else iter(deque(lines, maxlen=self._count))

    def followed(self) -> Iterator[_Line]:
        """What is logged from then on, endlessly."""
        while True:
            for place in (self._files, self._journal):
                yield from (line for line in place.added() if self._wanted.has(line))
            time.sleep(live.PERIOD)


def _timed(lines: Iterable[_Line]) -> Iterator[tuple[float, _Line]]:
    """Each line with its time, or the previous line's if it has none."""
    last = 0.0
    for line in lines:
        at = parse_time(line.get("ts"))
        last = last if at is None else at
        yield last, line


def _time(timed: tuple[float, _Line]) -> float:
    return timed[0]
