"""`session logs`: what a run printed, once or as it comes."""

import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import click

from runward.config.settings import Settings
from runward.config.settings_keys import DEFAULT_LAYOUT
from runward.daemon.cli.exits import NOT_FOUND
from runward.daemon.cli.shell.finding import find_session
from runward.daemon.cli.terminal.output import fail, print_json_line, safe, safe_line
from runward.daemon.rundir.tailing import MAXIMUM_LINE, NotRegular
from runward.daemon.store.reading import reading
from runward.daemon.store.reading_sessions import SessionRow
from runward.daemon.views.session_files import RunOutput, text_of

Form: TypeAlias = Literal["safe", "raw", "json"]

_PERIOD: Final = 0.3
"""Seconds between two looks."""


def print_output(
    settings: Settings, row: SessionRow, name: str, *, follow: bool, count: int | None, form: Form
) -> None:
    """Print a log of a run; exits 3 if there is none."""
    if row.layout != DEFAULT_LAYOUT:
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
                sys.stdout.buffer.flush()
            return
        lines = _lines(parts)
        for line in lines if count is None or follow else deque(lines, maxlen=count):
            match form:
                case "raw":
                    sys.stdout.buffer.write(line + b"\n")
                case "json":
                    print_json_line({"text": line.decode("utf-8", "backslashreplace")})
                case "safe":
                    click.echo(safe_line(text_of(line)))
    except NotRegular as error:
        fail(str(error), NOT_FOUND)
    except FileNotFoundError:
        fail(f"{safe(row.path)} has no {name}: {_WHY_NONE[name]}", NOT_FOUND)
    except OSError as error:
        if error.filename is None:
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
        time.sleep(_PERIOD)


def _is_over(settings: Settings, row: SessionRow) -> bool:
    with reading(settings.state_dir) as connection:
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
