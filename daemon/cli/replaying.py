"""Replays: found, played, checked and converted, from a file, a session's bundle, or made on demand."""

import json
import os
import select
import sys
import tempfile
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import click

from runward.config.json_value import JsonValue
from runward.config.problem import counted
from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, WRONG_USAGE
from runward.daemon.cli.receipt_verify import is_key
from runward.daemon.cli.shell.context import settings_in_force, store_to_read
from runward.daemon.cli.terminal.output import (
    STDOUT,
    coloured,
    fail,
    note,
    print_json,
    print_json_line,
    print_one,
    safe,
    terminal_size,
)
from runward.daemon.cli.terminal.tables import cut_to
from runward.daemon.disk.durable import write_durably
from runward.daemon.rundir.bundle_parts import lines_on_demand
from runward.daemon.rundir.bundle_verifying import ReplayFile, opened_part, opened_replay
from runward.daemon.rundir.opening import ROOT, opened
from runward.daemon.store.tables.replays import told_actions
from runward.handlers.bundle.canonical import NotCanonical, canonical_bytes, parse
from runward.handlers.bundle.older_bundle import NotABundle, to_bundle, to_events
from runward.handlers.bundle.parts import REPLAY, part_name
from runward.handlers.bundle.replay_check import BundleProblem, ReplayCheck
from runward.handlers.bundle.replay_lines import Event, read_line
from runward.handlers.bundle.replay_view import Playback, ReplayView, ShownEvent
from runward.handlers.model.bundle import BundleOrder


class ReplaySource(NamedTuple):
    """A replay and its path; `is_own` says whether it is where a session's parts are.

    With an `order` it is not on disk, and is made: whole if the attempt `is_over`. The path then says whose it is, and
    the store of the `settings` has its actions in the exchange.
    """

    path: str
    is_own: bool
    order: BundleOrder | None = None
    is_over: bool = True
    settings: Settings | None = None


def replay_source(context: click.Context, target: str, attempt: int | None) -> ReplaySource:
    """The file `target`, the replay in the directory `target`, or that of the session `target`."""
    if os.path.isdir(target):
        return ReplaySource(os.path.join(target, part_name(REPLAY, attempt or 1)), is_own=True)
    if os.path.exists(target):
        return ReplaySource(target, is_own=False)
    if "/" in target and not is_key(target):
        fail(f"there is no file {target}", NOT_FOUND)
    return _of_session(context, target, attempt)


def _of_session(context: click.Context, text: str, attempt: int | None) -> ReplaySource:
    from runward.daemon.cli.session.finding import find_session
    from runward.daemon.views.bundles import session_bundle
    from runward.daemon.views.replay import order_on_demand

    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        row = find_session(connection, settings, text)
        number = attempt or row.attempt
        bundle = session_bundle(connection, settings, row, number)
        if bundle is not None and bundle.state == "written":
            return ReplaySource(os.path.join(bundle.directory, part_name(REPLAY, number)), is_own=True)
        order = order_on_demand(connection, settings, row, number)
    if order is None:
        fail(
            f"session {safe(row.session_id)} has no attempt {number} that was judged or is running", NOT_FOUND
        )
    return ReplaySource(
        f"the replay of {safe(row.session_id)}",
        is_own=False,
        order=order,
        is_over=bundle is not None,
        settings=settings,
    )


@contextmanager
def opened_source(source: ReplaySource) -> Iterator[ReplayFile]:
    """The replay, opened. Ends the program if it cannot be read."""
    try:
        if source.order is not None and source.settings is not None:
            order = source.order
            with tempfile.TemporaryFile() as made:
                with store_to_read(source.settings) as connection:
                    actions = told_actions(connection, order.key, order.actions)
                    made.writelines(lines_on_demand(order, actions, is_over=source.is_over)[1])
                made.flush()
                yield ReplayFile(made.fileno())
        elif source.is_own:
            directory, name = os.path.split(source.path)
            with opened(directory, ROOT) as within, opened_part(within, name) as file:
                yield file
        else:
            with opened_replay(source.path) as file:
                yield file
    except OSError as error:
        if error.filename == STDOUT:
            raise  # the block prints what it reads
        fail(f"{source.path} can't be read: {error.strerror}", NOT_FOUND)


LONGEST_WAIT: Final = 5.0
"""Seconds that the viewer waits for an event at most, at any speed."""
_KEYS: Final = "space: pause, s: step, /: search, g: go to line, q: quit"
_CLEARED: Final = "\r\x1b[K"


def show_replay(
    context: click.Context, target: str, attempt: int | None, speed: float, *, is_paused: bool, as_json: bool
) -> None:
    """Show the replay up to its present end."""
    source = replay_source(context, target, attempt)
    if as_json:
        _print_json(source)
    elif sys.stdout.isatty() and sys.stdin.isatty():
        _view(Playback(list(_shown(source)), speed, is_paused=is_paused))
    else:
        for each in _shown(source):
            click.echo(safe(each.text))


def _print_json(source: ReplaySource) -> None:
    with opened_source(source) as file:
        for raw in file.lines():
            line = read_line(raw)
            if line.event is not None:
                print_json_line(line.event)
            elif line.problem is not None:
                note(f"{source.path}:{line.number}: {line.problem}")


def _shown(source: ReplaySource) -> Iterator[ShownEvent]:
    view = ReplayView()
    with opened_source(source) as file:
        for raw in file.lines():
            shown = view.shown(read_line(raw))
            if shown is not None:
                yield shown


def _view(playback: Playback) -> None:
    """Show events until the last was seen and a key was pressed, or `q`."""
    with _keys_at_once():
        due = time.monotonic()
        while True:
            _status(playback)
            left = None if playback.is_paused or playback.is_over else max(0.0, due - time.monotonic())
            key = _key(left)
            if key is None or (key in "sS\r\n" and not playback.is_over):
                _print(playback.next())
                if playback.is_over:
                    playback.is_paused = True
            elif key in "q\x04" or (playback.is_over and key in "sS\r\n"):
                break
            elif key == " ":
                playback.toggle()
            elif key == "/":
                _ask(playback, "search: ")
            elif key in "gG":
                _ask(playback, "go to line: ")
            due = time.monotonic() + playback.wait(LONGEST_WAIT)
    click.echo(_CLEARED, nl=False)


def _print(event: ShownEvent | None) -> None:
    if event is not None:
        click.echo(f"{_CLEARED}{safe(event.text)}")


def _status(playback: Playback) -> None:
    state = "end" if playback.is_over else "paused" if playback.is_paused else "playing"
    line = f"[{state}, {playback.position} of {playback.count}] {_KEYS}"
    click.echo(f"{_CLEARED}{cut_to(line, terminal_size().columns - 1, '…')}", nl=False)


def _ask(playback: Playback, question: str) -> None:
    """Go where the user says; the terminal edits the line."""
    with _lines_again():
        try:
            answer = input(f"{_CLEARED}{question}").strip()
        except EOFError:
            return
    if not answer:
        return
    if question.startswith("search"):
        position = playback.search(answer)
    else:
        position = answer.isdecimal() and len(answer) < 18 and playback.jump(int(answer))
    if position:
        _print(playback.next())
    else:
        click.echo(f"not found: {safe(answer)}")


def _key(left: float | None) -> str | None:
    """The next key; None after this many seconds."""
    descriptor = sys.stdin.fileno()
    # Past Python's buffer: what that holds, select doesn't see.
    ready, _, _ = select.select([descriptor], [], [], left)
    if not ready:
        return None
    read = os.read(descriptor, 1)
    return read.decode("latin-1") if read else "q"  # nothing to read means that the terminal is gone


@contextmanager
def _keys_at_once() -> Iterator[None]:
    """Until this ends, however it ends, keys arrive one by one and without echo."""
    descriptor = sys.stdin.fileno()
    modes = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)


@contextmanager
def _lines_again() -> Iterator[None]:
    """The terminal's usual way of reading a line."""
    descriptor = sys.stdin.fileno()
    modes = termios.tcgetattr(descriptor)
    usual = termios.tcgetattr(descriptor)
    usual[3] |= termios.ICANON | termios.ECHO
    try:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, usual)  # not FLUSH: keys that came already are kept
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)


class CheckedReplay(NamedTuple):
    """What was found; `path` is the replay's. If the attempt is not over, its end may be missing."""

    path: str
    events: int
    problems: tuple[BundleProblem, ...]
    is_over: bool = True

    @property
    def valid(self) -> bool:
        return not any(each.severity == "error" for each in self.problems)

    def as_json(self) -> dict[str, JsonValue]:
        """As `replay check --json` prints it."""
        return {
            "valid": self.valid,
            "events": self.events,
            "problems": [
                {"line": each.line, "message": each.message, "severity": each.severity}
                for each in self.problems
            ],
        }


def answer_of(context: click.Context, target: str, attempt: int | None) -> CheckedReplay:
    """Check the replay; ends the program if there is none."""
    source = replay_source(context, target, attempt)
    check = ReplayCheck()
    with opened_source(source) as file:
        for line in file.lines():
            check.take(read_line(line))
    problems = check.finish()
    return CheckedReplay(source.path, check.facts.events, problems, source.is_over)


def print_answer(answer: CheckedReplay, as_json: bool) -> None:
    """The answer on stdout."""
    if as_json:
        print_json(answer.as_json())
        return
    for line in _lines(answer):
        click.echo(line)


def _lines(answer: CheckedReplay) -> Iterator[str]:
    for each in answer.problems:
        place = answer.path if each.line is None else f"{answer.path}:{each.line}"
        warning = "warning: " if each.severity == "warning" else ""
        yield safe(f"{place}: {warning}{each.message}")
    word = coloured("ok", "valid") if answer.valid else coloured("invalid")
    yield f"{word}: {counted(answer.events, 'event', 'events')}"
    if not answer.is_over:
        yield "the session is still running: its replay has no end yet"


LARGEST: Final = 256 << 20


def convert_replay(file: str, to: str, output: str, *, as_json: bool) -> None:
    """Write the file in the other form; ends the program if it cannot be read."""
    source = ReplaySource(file, is_own=False)
    if to == "bundle":
        events = _events(source)
        content = json.dumps(to_bundle(events), ensure_ascii=False, indent=2).encode() + b"\n"
    else:
        events = _events_of_bundle(source)
        content = b"".join(canonical_bytes(each) + b"\n" for each in events)
    directory, name = os.path.split(os.path.abspath(output))
    try:
        write_durably(directory, name, content)
    except OSError as error:
        fail(f"{output} can't be written: {error.strerror}", NOT_FOUND)
    print_one(
        as_json,
        {"output": os.path.join(directory, name), "events": len(events)},
        f"{counted(len(events), 'event', 'events')} in {safe(output)}",
    )


def _events(source: ReplaySource) -> list[Event]:
    events: list[Event] = []
    is_whole = True
    with opened_source(source) as file:
        for raw in file.lines():
            line = read_line(raw)
            if line.problem is not None:
                note(f"{source.path}:{line.number}: {line.problem}")
                is_whole = False
            elif line.event is not None:
                events.append(line.event)
    if not is_whole:
        sys.exit(NOT_SO)
    return events


def _events_of_bundle(source: ReplaySource) -> list[Event]:
    with opened_source(source) as file:
        content = file.whole(LARGEST)
    if content is None:
        fail(f"{source.path} is larger than {LARGEST >> 20} MiB", WRONG_USAGE)
    try:
        return to_events(parse(content))
    except NotABundle as refused:
        fail(f"{source.path} is not an older replay bundle: {refused}", WRONG_USAGE)
    except NotCanonical as refused:
        fail(f"{source.path} is not an older replay bundle: {refused}", WRONG_USAGE)
