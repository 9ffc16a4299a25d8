"""`<state>/init.json`: what `runward init` is about to make, with what was there before. It is written before the first change."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.daemon.disk.durable import sync_directory, write_durably

NAME: Final = "init.json"
_SCHEMA: Final = "runward-init-v1"
_MAXIMUM: Final = 64 << 20


class Directory(NamedTuple):
    """A directory that isn't there, and will be made."""

    path: str


class Change(NamedTuple):
    """A file that gets another content. `before` is what it holds, None if it isn't there."""

    path: str
    before: str | None
    after: str
    """The hash of the new content: what still has it was not changed since."""


class Unit(NamedTuple):
    """A unit that systemd is asked to enable and start, and what it was before. `after` is the hash of its file."""

    name: str
    path: str
    after: str
    was_enabled: bool
    was_active: bool


Entry: TypeAlias = Directory | Change | Unit
_KINDS: Final[dict[str, type[Entry]]] = {"directory": Directory, "file": Change, "unit": Unit}


class RecordUnreadable(Exception):
    """The record can't be read, or isn't one."""


def hash_of(text: str | None) -> str:
    """What stands for a content; that of a file that isn't there is empty."""
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()


def temporary_of(path: str, content: str) -> str:
    """The path of a file until it is whole: who knows the content that was to come, given by its hash, finds what a crash left."""
    directory, name = os.path.split(path)
    return f"{directory}/.{name}.runward-{content[:12]}.tmp"


def is_recorded(state: str) -> bool:
    """Whether `runward init` has made something that it has not taken back."""
    return os.path.lexists(os.path.join(state, NAME))


def read_record(state: str) -> list[Entry]:
    """The entries, the oldest first; none if there is no record. Raises `RecordUnreadable`."""
    path = os.path.join(state, NAME)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            value = json.loads(file.read(_MAXIMUM))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        raise RecordUnreadable(f"{path} can't be read: {error}") from error
    match value:
        case {"schema": str(schema), "entries": list(entries)} if schema == _SCHEMA:
            read = [_entry(each) for each in entries]
            if None not in read:
                return [each for each in read if each is not None]
    raise RecordUnreadable(f"{path} is not a record of this version of Runward")


def _entry(value: JsonValue) -> Entry | None:
    match value:
        case {"kind": "directory", "path": str(path)}:
            return Directory(path)
        case {"kind": "file", "path": str(path), "before": str() | None as before, "after": str(after)}:
            return Change(path, before, after)
        case {
            "kind": "unit",
            "name": str(name),
            "path": str(path),
            "after": str(after),
            "was_enabled": bool(was_enabled),
            "was_active": bool(was_active),
        }:
            return Unit(name, path, after, was_enabled, was_active)
        case _:
            return None


def write_record(state: str, entries: Sequence[Entry]) -> None:
    """Replace the record, durably; without entries there is none. Raises `OSError`."""
    if entries:
        kinds = {kind: name for name, kind in _KINDS.items()}
        written: JsonValue = [{"kind": kinds[type(each)], **each._asdict()} for each in entries]
        text = json.dumps({"schema": _SCHEMA, "entries": written}, indent=1)
        write_durably(state, NAME, text.encode())
    else:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(state, NAME))
    remove_torn(state)
    sync_directory(state)


def remove_torn(state: str) -> None:
    """Remove what a crash left of a record that was being written. Raises `OSError`."""
    for entry in os.listdir(state) if os.path.isdir(state) else ():
        if entry.startswith(f".{NAME}.") and entry.endswith(".tmp"):
            os.unlink(os.path.join(state, entry))


def with_new(known: Sequence[Entry], new: Iterable[Entry]) -> list[Entry]:
    """The record with further entries; one that a crash kept from being carried out is there once."""
    entries = list(known)
    entries += (each for each in new if each not in entries)
    return entries


def missing_directories(path: str) -> Iterator[Directory]:
    """The directories above a path that are not there yet, the outermost first."""
    above = os.path.dirname(path)
    missing: list[str] = []
    while not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)
    return (Directory(each) for each in reversed(missing))


class Fate(NamedTuple):
    """What undoing means for one path: what the file is to hold, and the unit as it was before.

    `is_whole`: this takes back all that was made. Else somebody changed the file between two calls, and an older change stays.
    """

    standing: Literal["as before", "as left", "changed"]
    target: str | None
    unit: Unit | None
    is_whole: bool = True


def fate_of(entries: Sequence[Change | Unit], now: str | None) -> Fate:
    """What becomes of a file that holds `now`, by all entries for it, the oldest first.

    `init` may have changed it several times, and a crash may have kept any of these changes from being made.
    """
    target, unit = now, None
    for each in reversed(entries):
        if hash_of(target) != each.after:
            continue
        if isinstance(each, Unit):
            unit = each
        else:
            target = each.before
    oldest = next((each.before for each in entries if isinstance(each, Change)), target)
    if target != now or unit is not None:
        return Fate("as left", target, unit, is_whole=target == oldest)
    return Fate("as before" if oldest == now else "changed", now, None)
