"""What a run does until it is over: `session logs`, `tail` and `wait`, once or as it comes."""

import json
import os
import sqlite3
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, TypeAlias

import click

from runward.config.json_value import JsonValue
from runward.config.root import NATIVE
from runward.config.settings import Settings
from runward.daemon.cli.exits import BY_STATUS, NOT_FOUND, TIMED_OUT, TRY_AGAIN
from runward.daemon.cli.session.finding import find_session, refuse_pruned
from runward.daemon.cli.shell.context import is_daemon_up
from runward.daemon.cli.terminal import live
from runward.daemon.cli.terminal.output import (
    STDOUT,
    coloured,
    fail,
    note,
    print_json,
    print_json_line,
    print_lines,
    print_text,
    safe,
    safe_line,
)
from runward.daemon.rundir.growing import MAXIMUM_LINE, Line, Tail, ends_with
from runward.daemon.rundir.opening import NotRegular, open_in_run
from runward.daemon.store import reading
from runward.daemon.store.tables import journal_lines, sessions
from runward.daemon.store.tables.sessions import SessionRow
from runward.daemon.views.bundles import journal_place
from runward.daemon.views.session_files import RunOutput, text_of
from runward.daemon.views.sessions import sessions_as_json
from runward.daemon.views.text import local
from runward.handlers.foreign_json import NotJson, parse_time, read_json
from runward.handlers.secrets import text_without_secrets

Form: TypeAlias = Literal["safe", "raw", "json"]

_OUTPUT_PERIOD: Final = 0.3
"""Seconds between two looks."""


def print_output(
    settings: Settings, row: SessionRow, name: str, *, follow: bool, count: int | None, form: Form
) -> None:
    """Print a log of a run; exits 3 if there is none."""
    if row.layout != NATIVE:
        fail(
            f"{safe(row.session_id)} is a session of {row.layout}: its own log is in {safe(row.path)}",
            NOT_FOUND,
        )
    output = RunOutput(row.path, name)
    parts = _follow(settings, row, output) if follow else output.added()
    try:
        if form == "raw" and count is None:
            for part in parts:
                sys.stdout.buffer.write(part)
                sys.stdout.buffer.flush()  # with -f, the next part may come in an hour
            return
        lines = _lines(parts)
        wanted = lines if count is None or follow else deque(lines, maxlen=count)
        if form == "safe":
            print_lines((safe_line(text_of(line)) for line in wanted), is_paged=not follow)
            return
        for line in wanted:
            if form == "raw":
                sys.stdout.buffer.write(line + b"\n")
            else:
                print_json_line({"text": line.decode("utf-8", "backslashreplace")})
    except NotRegular as error:
        fail(str(error), NOT_FOUND)
    except FileNotFoundError:
        fail(f"{safe(row.path)} has no {name}: {_WHY_NONE[name]}", NOT_FOUND)
    except OSError as error:
        if error.filename in (None, STDOUT):
            raise
        fail(f"{safe(row.path)}/{name} can't be read: {error.strerror or error}", NOT_FOUND)


_WHY_NONE: Final = {
    "stdout.log": "only `runward run` and `runward play run` record what a command prints",
    "stderr.log": "in a terminal stderr is recorded with stdout: leave out --stderr",
}


def _follow(settings: Settings, row: SessionRow, output: RunOutput) -> Iterator[bytes]:
    """What exists and what is added, until the run is over."""
    while True:
        is_over = _is_over(settings, row)  # checked first: what it wrote before its end is read after this
        try:
            yield from output.added()
        except FileNotFoundError:
            if is_over:
                raise
        if is_over:
            return
        time.sleep(_OUTPUT_PERIOD)


def _is_over(settings: Settings, row: SessionRow) -> bool:
    with reading.reading(settings.state_dir) as connection:
        return find_session(connection, settings, row.key).status != "running"


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Lines without their newlines; one that is too long to be kept comes in pieces."""
    held = b""
    for part in parts:
        *whole, held = (held + part).split(b"\n")
        yield from whole
        if len(held) > MAXIMUM_LINE:
            yield held
            held = b""
    if held:
        yield held


_SHOWN: Final = 200
"""Characters of a value that a person is shown."""

_FIRST: Final = ("ts", "role", "event", "path")


def line_value(line: Line) -> JsonValue | NotJson:
    """The value of a line, or why it has none."""
    if line.is_cut:
        return NotJson("it is too long")
    value = read_json(line.content)
    return NotJson(value.message) if isinstance(value, NotJson) else value


def line_text(line: Line) -> str:
    """The line for a terminal: time, role, event and path first, then the rest; no control characters."""
    value = line_value(line)
    if isinstance(value, NotJson):
        raw = line.content.decode("utf-8", "backslashreplace")
        return f"{_short(raw)}  {click.style(f'(line {line.number}: {value.message})', fg='yellow')}"
    if not isinstance(value, dict):
        return (
            f"{_short(line.content.decode())}  {click.style(f'(line {line.number}: no object)', fg='yellow')}"
        )
    at = parse_time(value.get("ts"))
    when = local(at) if at is not None else _short(_as_text(value.get("ts")))
    role, event, path = (_short(_as_text(value.get(key))) for key in _FIRST[1:])
    rest = [f"{safe(key)}={_short(_as_text(each))}" for key, each in value.items() if key not in _FIRST]
    return "  ".join(word for word in (when, f"{role:<8}", event, path, " ".join(rest)) if word)


def _as_text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value

    return "-" if value is None else json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    return safe(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


_JOURNAL: Final = "events.jsonl"
_JOURNAL_PERIOD: Final = 0.5
"""Seconds between two questions to the store whether the session is over."""


def print_journal(state: str, row: SessionRow, follow: bool, count: int | None, as_json: bool) -> None:
    """Print the journal of a session; exits 3 if there is none."""
    place = journal_place(state, row)
    if not follow:
        lines = live.once(_open(place, row.session_id), count)
        if as_json:
            print_json(list(_values(lines)))
            return
    else:
        is_over = _until_over(state, row)
        lines = live.follow(_wait_for(place, row.session_id, is_over), count, is_over)
        if as_json:
            for value in _values(lines):
                print_json_line(value)
            return
    print_lines(map(line_text, lines), is_paged=not follow)


def _open(place: str, session_id: str) -> Tail:
    try:
        return Tail(lambda: open_in_run(place, _JOURNAL))
    except NotRegular as error:
        fail(str(error), NOT_FOUND)
    except OSError as error:
        why = error.strerror or str(error)
        fail(f"{place}/{_JOURNAL} can't be read: {why}; `runward why {session_id}` shows more", NOT_FOUND)


def _wait_for(place: str, session_id: str, is_over: Callable[[], bool]) -> Tail:
    """The journal as soon as it exists; a session that is over won't get one now."""
    while not is_over():
        try:
            return Tail(lambda: open_in_run(place, _JOURNAL))
        except FileNotFoundError:
            time.sleep(_JOURNAL_PERIOD)
        except (OSError, NotRegular):
            break
    return _open(place, session_id)


def _until_over(state: str, row: SessionRow) -> Callable[[], bool]:
    """Whether the session is over and its journal has all its lines; asks the store twice a second."""
    asked = float("-inf")

    def is_over() -> bool:
        nonlocal asked
        # The file is looked at more often than the store, whose every look is a transaction.
        if time.monotonic() - asked < _JOURNAL_PERIOD:
            return False
        asked = time.monotonic()
        with reading.reading(state) as connection:
            now = sessions.session(connection, row.key)
            if now is not None and now.status == "running":
                return False
            owed = journal_lines.owed_of_session(connection, row.key, _JOURNAL)
        # The verdict comes before its lines: a reader that stopped at the verdict would miss the last of them.
        return not owed or ends_with(journal_place(state, row), _JOURNAL, owed[-1])

    return is_over


def _values(lines: Iterable[Line]) -> Iterator[JsonValue]:
    """The values of the lines; a line that has none is reported on stderr."""
    for line in lines:
        value = line_value(line)
        if isinstance(value, NotJson):
            note(f"line {line.number} of {_JOURNAL} is left out: {value.message}")
        else:
            yield value


_END_PERIOD: Final = 0.2
"""Seconds between two questions to the store."""


def wait_until_over(
    settings: Settings, row: SessionRow, patience: float | None, as_json: bool, is_told: bool
) -> None:
    """Wait until the session is over and judged, at most `patience` seconds, and end by its status.

    If a person `is_told`, their terminal gets a notice of the end of the wait.
    """
    tell = _tell_terminal if is_told else _tell_nobody
    until = None if patience is None else time.monotonic() + patience
    name = safe(row.session_id)
    while True:
        # Checked before the look: a daemon that judges and ends has judged.
        is_up = is_daemon_up(settings)
        with reading.reading(settings.state_dir) as connection:
            if _say_if_over(connection, settings, row, as_json, tell):
                return
        if not is_up:
            tell(f"{row.session_id} is not judged: no daemon is running")
            fail(
                f"session {name} is not judged yet, and no daemon is running: start it, then wait", TRY_AGAIN
            )
        if until is not None and time.monotonic() >= until:
            tell(f"{row.session_id} is not over yet")
            fail(f"session {name} is not over yet", TIMED_OUT)
        time.sleep(_END_PERIOD)


def _tell_nobody(text: str) -> None:
    return


def _tell_terminal(text: str) -> None:
    """Have the terminal show a notice. What is printed may go elsewhere."""
    from runward.daemon.cli.terminal.notices import notice

    stream = next((each for each in (sys.stderr, sys.stdout) if each.isatty()), None)
    if stream is not None:
        print(notice(text, os.environ), end="", file=stream, flush=True)  # it is for the terminal


def _say_if_over(
    connection: sqlite3.Connection,
    settings: Settings,
    row: SessionRow,
    as_json: bool,
    tell: Callable[[str], None],
) -> bool:
    now = sessions.session(connection, row.key)
    if now is None:
        refuse_pruned(connection, row.key)
        return False
    if now.status == "running":
        return False
    why = text_without_secrets(now.reason_summary)
    if as_json:
        print_json(sessions_as_json(connection, settings, [now])[0])
    else:
        print_text(f"session {safe(now.session_id)} is {coloured(now.status)}: {safe(why)}")
    tell(f"{now.session_id} is {now.status}: {why}")
    sys.exit(BY_STATUS[now.status])
