"""`runward play run`: asking the daemon for a playbook's command, and watching the run to its end."""

import os
import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import click

from runward.config.document import PLAYBOOK_SUFFIX
from runward.config.json_value import JsonValue
from runward.config.playbook import Playbook, fill_command
from runward.config.settings import Settings
from runward.daemon.cli.exits import BY_STATUS, NOT_FOUND, NOT_SO, WRONG_SETTINGS, WRONG_USAGE
from runward.daemon.cli.session.watching import line_text, line_value
from runward.daemon.cli.shell.asking import (
    AwayTime,
    ask_daemon,
    need_daemon,
    new_request,
    note_without_daemon,
)
from runward.daemon.cli.terminal.options import own_chain_run, valid_text, values_of
from runward.daemon.cli.terminal.output import (
    coloured,
    complain,
    fail,
    note,
    print_json,
    print_json_line,
    safe,
)
from runward.daemon.configuration.declared_files import NotFound, declared
from runward.daemon.rundir.growing import Line, Tail, ends_with
from runward.daemon.rundir.opening import NotRegular, open_in_run
from runward.daemon.store import reading
from runward.daemon.store.tables import events, jobs, journal_lines, sessions, starts
from runward.daemon.store.tables.sessions import SessionRow
from runward.daemon.users import name_of
from runward.daemon.views.bundles import journal_place
from runward.handlers.foreign_json import NotJson
from runward.handlers.layouts.native import session_key
from runward.handlers.model.requests import PlayRunRequested
from runward.handlers.requests import run_name
from runward.handlers.subjects import of_start


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was put into the inbox, and the session that it will be."""

    request: str
    session_id: str
    key: str

    def as_json(self, status: str, problem: str | None = None, **further: JsonValue) -> JsonValue:
        """What `--json` prints of it."""
        names = {"request": self.request, "session_id": self.session_id, "key": self.key}
        return {**names, "status": status, "problem": problem, **further}


_TOO_LONG: Final = (
    "the values are too long for a request (1 MiB): write them into a file, and give its name"
    " (see `runward play run --help`)"
)


def ask(settings: Settings, name: str, words: Sequence[str]) -> Asked:
    """Check everything that can be checked now and put the request; exits if something is wrong."""
    given = values_of(words)
    playbook = _playbook(settings, name)
    filled = fill_command(playbook, given)
    if filled.value is None:
        complain(filled.problems)
        sys.exit(WRONG_USAGE)
    root = settings.launch_root
    if root is None:
        fail("no root of the settings has the layout 'native': add one for new runs to go to", WRONG_SETTINGS)
    event = new_request(
        PlayRunRequested, name, given, _working_directory(), _trace(os.environ), by_run=own_chain_run()
    )
    request = ask_daemon(settings, event, before_any_daemon=True, too_long=_TOO_LONG)
    run = run_name(name, event.at, request)
    return Asked(request, run, session_key(root.name, run))


def _working_directory() -> str:
    """The directory that the command will run in: the caller's."""
    try:
        return valid_text(os.getcwd(), "the working directory")
    except FileNotFoundError:
        raise click.UsageError("the working directory is gone: cd to one that exists") from None


def run_and_end(
    settings: Settings, name: str, words: Sequence[str], wait: bool, follow: bool, as_json: bool
) -> None:
    """Ask for the run and say what it will be; if wanted, wait for it and exit by its result."""
    if wait or follow:
        need_daemon(settings, "leave out --wait and --follow")
    asked = ask(settings, name, words)
    if not as_json:
        # Before the waiting: after Ctrl-C, a person knows what goes on without them.
        click.echo(asked.session_id)
        _say_as_whom(settings)
    if not (wait or follow):
        if as_json:
            print_json(asked.as_json("asked"))
        note_without_daemon(settings, "it will start when a daemon does")
        return

    try:
        sys.exit(watch(settings, asked, follow, as_json))
    except KeyboardInterrupt:
        note(f"it continues: `runward session show {asked.session_id}` says what became of it")
        raise


def _say_as_whom(settings: Settings) -> None:
    """The run is the user's to whom the state directory belongs, as whom its daemon works; a program that asks for itself knows that."""
    owner = os.stat(settings.state_dir).st_uid
    if owner != os.geteuid():
        note(f"the daemon starts it as {name_of(owner)}, and not as you")
    elif sys.stderr.isatty():
        note(f"the daemon starts it as {name_of(owner)}")


def _playbook(settings: Settings, name: str) -> Playbook:
    if "/" in name or name.endswith(PLAYBOOK_SUFFIX):
        raise click.UsageError(
            f"{name!r} is a file: name a playbook of the settings, where the daemon finds it too"
        )
    try:
        declaration = declared(settings, name, None)
    except NotFound as error:
        fail(str(error), NOT_FOUND)
    complain(declaration.problems)
    if declaration.playbook is None or not declaration.is_right:
        sys.exit(WRONG_USAGE)
    return declaration.playbook


def _trace(environment: Mapping[str, str]) -> str:
    """The caller's trace; if it is not text, there is none."""
    trace = environment.get("TRACEPARENT", "")
    return trace if trace.isascii() else ""


_PERIOD: Final = 0.2
"""Seconds between two looks: what a person calls at once."""

_JOURNAL: Final = "events.jsonl"
_LAST_LINES: Final = 10.0
"""Seconds for which the journal's last lines are waited for once the verdict is known."""

_FOLLOWED: Final = ("stdout.log", "stderr.log", _JOURNAL)


class Standing(NamedTuple):
    """The current state of a request.

    `status` is `asked`, `refused`, `held`, `owed`, `failed` (it never began), `begun`, or its session's if there is
    one; `problem` says why it got no further.
    """

    status: str
    problem: str | None = None
    directory: str | None = None
    session: SessionRow | None = None


def watch(settings: Settings, asked: Asked, follow: bool, as_json: bool) -> int:
    """Wait until the run is over, or can't be, and say so; returns the exit code."""
    state = settings.state_dir
    followed: Followed | None = None
    away = AwayTime(settings)
    while True:
        with reading.reading(state) as connection:
            standing = _standing(connection, asked)
        # The directory is known before its session is: what the command prints at once is shown, too.
        if follow and followed is None and standing.directory is not None:
            followed = Followed(standing.directory, as_json)
        if followed is not None:
            followed.show()
        if standing.session is not None and standing.session.status != "running":
            break
        if standing.status in ("refused", "held", "failed"):
            return _not_begun(asked, standing, as_json)
        away.check()
        time.sleep(_PERIOD)
    if followed is not None:
        _wait_for_journal(state, standing.session, followed)
        # Only now the last line, which has no newline: until the end it might still grow.
        followed.show(to_the_end=True)
    return _over(asked, standing.session, as_json, follow)


def _standing(connection: sqlite3.Connection, asked: Asked) -> Standing:
    event = events.event_recorded(connection, asked.request)
    if event is None:
        return Standing("asked")
    (job, *_) = jobs.jobs_for_events(connection, [event])
    if job.state in ("held", "discarded"):
        return Standing(
            "held", f"job {job.id} is {job.state}: {job.error}; `runward why job:{job.id}` says more"
        )
    if job.state != "done":
        return Standing("asked")
    start = starts.start_of(connection, asked.request)
    if start is None:
        decided = events.decisions_about(connection, of_start(asked.session_id))
        return Standing("refused", "; ".join(each.summary for each in decided))
    session = sessions.session(connection, start.session_key)
    status = start.state if session is None else session.status
    return Standing(status, start.why, None if start.state == "owed" else start.directory, session)


def _not_begun(asked: Asked, standing: Standing, as_json: bool) -> int:
    status = "not_begun" if standing.status == "failed" else standing.status
    if as_json:
        print_json_line(asked.as_json(status, standing.problem))
    else:
        note(standing.problem or status)
    return WRONG_USAGE if standing.status == "refused" else NOT_SO


def _over(asked: Asked, session: SessionRow, as_json: bool, is_stream: bool) -> int:
    if as_json:
        reason: JsonValue = {"code": session.reason_code, "summary": session.reason_summary}
        result = asked.as_json(session.status, None, reason=reason, delivery=session.delivery)
        (print_json_line if is_stream else print_json)(result)
    else:
        why = f"{safe(session.reason_code)}, {safe(session.reason_summary)}"
        click.echo(f"{safe(asked.session_id)}: {coloured(session.status)} ({why})", err=is_stream)
    return BY_STATUS[session.status]


def _wait_for_journal(state: str, session: SessionRow, followed: "Followed") -> None:
    """Until the journal has all its lines: they are written after the verdict."""
    give_up = time.monotonic() + _LAST_LINES
    while time.monotonic() < give_up:
        with reading.reading(state) as connection:
            owed = journal_lines.owed_of_session(connection, session.key, _JOURNAL)
        # A line may be in the file before it is marked: then waiting for the mark would only cost time.
        if not owed or ends_with(journal_place(state, session), _JOURNAL, owed[-1]):
            return
        followed.show()
        time.sleep(_PERIOD)


class Followed:
    """A run's output and journal, shown as they grow: output on stdout and stderr, the journal on stderr."""

    def __init__(self, directory: str, as_json: bool) -> None:
        self._directory = directory
        self._as_json = as_json
        self._tails: dict[str, Tail] = {}

    def show(self, to_the_end: bool = False) -> None:
        """Show what is new; with `to_the_end` also an unterminated last line."""
        for name in _FOLLOWED:
            tail = self._tail(name)
            if tail is None:
                continue
            for line in tail.lines():
                self._say(name, line)
            last = tail.unfinished() if to_the_end else None
            if last is not None:
                self._say(name, last)

    def _tail(self, name: str) -> Tail | None:
        """The file as soon as it exists. If it isn't a regular file, or may not be read, nothing is shown."""
        if name not in self._tails:
            try:
                self._tails[name] = Tail(lambda: open_in_run(self._directory, name))
            except (OSError, NotRegular):
                return None
        return self._tails[name]

    def _say(self, name: str, line: Line) -> None:
        text = line.content.decode("utf-8", "backslashreplace")
        if not self._as_json:
            shown = line_text(line) if name == _JOURNAL else safe(text)
            click.echo(shown, err=name != "stdout.log")
            return
        stream = name.partition(".")[0]
        value = line_value(line) if name == _JOURNAL else text
        if isinstance(value, NotJson):
            note(f"line {line.number} of {name} is left out: {value.message}")
        else:
            print_json_line({"stream": stream, "value": value})
