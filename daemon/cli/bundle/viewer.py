"""`runward replay`: the viewer on a terminal, plain lines elsewhere."""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from runward.daemon.cli.bundle.replay_source import ReplaySource, opened_source, replay_source
from runward.daemon.cli.terminal.output import note, print_json_line, safe
from runward.daemon.cli.terminal.wrapping import cut, terminal_size
from runward.handlers.bundle.replay_lines import read_line
from runward.handlers.bundle.replay_view import Playback, ReplayView, ShownEvent

LONGEST_WAIT: Final = 5.0
"""Seconds that the viewer waits for an event at most, at any speed."""
_KEYS: Final = "space: pause, s: step, /: search, g: go to line, q: quit"
_CLEARED: Final = "\r\x1b[K"


def show(
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
    said = f"[{state}, {playback.position} of {playback.count}] {_KEYS}"
    click.echo(f"{_CLEARED}{cut(said, terminal_size().columns - 1)}", nl=False)


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
        found = playback.search(answer)
    else:
        found = answer.isdecimal() and len(answer) < 18 and playback.jump(int(answer))
    if found:
        _print(playback.next())
    else:
        click.echo(f"not found: {safe(answer)}")


def _key(left: float | None) -> str | None:
    """The next key; None after this many seconds."""
    descriptor = sys.stdin.fileno()
    ready, _, _ = select.select([descriptor], [], [], left)
    if not ready:
        return None
    read = os.read(descriptor, 1)
    return read.decode("latin-1") if read else "q"


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
        termios.tcsetattr(descriptor, termios.TCSADRAIN, usual)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
