"""`replay convert`: from and to the older replay bundle, one JSON file."""

import json
import os
import sys
from typing import Final

import click

from runward.config.counting import counted
from runward.daemon.cli.bundle.replay_source import ReplaySource, opened_source
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, WRONG_USAGE
from runward.daemon.cli.terminal.output import fail, note, print_json, safe
from runward.daemon.disk.durable import write_durably
from runward.handlers.bundle.canonical import NotCanonical, canonical_bytes, parse
from runward.handlers.bundle.older_bundle import NotABundle, to_bundle, to_events
from runward.handlers.bundle.replay_lines import Event, read_line

LARGEST: Final = 256 << 20


def convert(file: str, to: str, output: str, *, as_json: bool) -> None:
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
    if as_json:
        print_json({"output": os.path.join(directory, name), "events": len(events)})
    else:
        click.echo(f"{counted(len(events), 'event', 'events')} in {safe(output)}")


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
