"""`runward init --undo`: what was made is taken back as far as it still is as it was left; the rest is named and kept."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, Literal, NamedTuple

from runward.daemon.cli.init.doing import clear, put
from runward.daemon.cli.init.record import (
    Change,
    Directory,
    Entry,
    Fate,
    Unit,
    fate_of,
    hash_of,
    temporary_of,
    write_record,
)
from runward.daemon.disk.durable import sync_directory
from runward.daemon.hooks.settings_file import Refused, SettingsFile, read_settings_file
from runward.daemon.units.installing import Systemctl

Way = Literal["removed", "restored", "stopped", "as before", "changed", "failed"]


class Undone(NamedTuple):
    """What became of one path. `words` say why it was left."""

    path: str
    way: Way
    words: str = ""

    @property
    def is_left(self) -> bool:
        """Whether something is still to be undone there."""
        return self.way in ("changed", "failed")


class Undoing(NamedTuple):
    """What is to be taken back from one path."""

    entries: tuple[Change | Unit, ...]
    file: SettingsFile | None
    fate: Fate
    problem: str | None = None

    @property
    def path(self) -> str:
        """The path."""
        return self.entries[0].path

    def way(self) -> Way:
        """What would become of it, or why it stays."""
        if self.problem is not None:
            return "failed"
        if self.fate.standing != "as left":
            return self.fate.standing
        if not self.fate.is_whole:
            return "changed"
        if self.file is not None and self.fate.target == self.file.text:
            return "stopped"
        return "removed" if self.fate.target is None else "restored"


def undoings_of(entries: Sequence[Entry]) -> list[Undoing]:
    """What there is to take back, what was made last first. Nothing is changed."""
    by_path: dict[str, list[Change | Unit]] = {}
    for each in reversed(entries):
        if not isinstance(each, Directory):
            by_path.setdefault(each.path, []).insert(0, each)
    return [_undoing(tuple(each)) for each in by_path.values()]


def _undoing(entries: tuple[Change | Unit, ...]) -> Undoing:
    unknown = Fate("changed", None, None)
    try:
        file = read_settings_file(entries[0].path)
    except Refused as refusal:
        return Undoing(entries, None, unknown, str(refusal))
    except OSError as error:
        return Undoing(entries, None, unknown, f"can't be read: {error.strerror}")
    return Undoing(entries, file, fate_of(entries, file.text))


def undo(entries: Sequence[Entry], undoings: Sequence[Undoing], state: str) -> Iterator[Undone]:
    """Take back; done again after a crash, it goes on. The record keeps what is left. Raises `OSError`."""
    left: set[str] = set()
    for undoing in undoings:
        undone = _undo(undoing)
        if undone.is_left:
            left.add(undone.path)
        yield undone
    kept = [each for each in entries if _is_kept(each, left, state)]
    for entry in reversed(entries):
        if isinstance(entry, Directory) and entry not in kept and not _is_above(entry.path, state):
            _remove_empty(entry.path)
    write_record(state, kept)
    if not kept:
        for entry in reversed(entries):
            if isinstance(entry, Directory) and _is_above(entry.path, state):
                _remove_empty(entry.path)


def _is_kept(entry: Entry, left: set[str], state: str) -> bool:
    """Whether the record still needs this: for a path that was left, and for the directories above it and above the record."""
    if isinstance(entry, Directory):
        return any(_is_above(entry.path, path) for path in (*left, state) if left)
    return entry.path in left


def _is_above(directory: str, path: str) -> bool:
    return f"{path}/".startswith(f"{directory}/")


def _undo(undoing: Undoing) -> Undone:
    path, way = undoing.path, undoing.way()
    if undoing.problem is not None:
        return Undone(path, way, undoing.problem)
    try:
        for entry in undoing.entries:
            if isinstance(entry, Change):
                clear(temporary_of(path, entry.after))
                clear(temporary_of(path, hash_of(entry.before)))
        if undoing.fate.standing != "as left":
            return Undone(path, way, "" if way == "as before" else "it was changed since, and stays as it is")
        assert undoing.file is not None, "it was read"
        return _take_back(undoing, undoing.file, way)
    except Refused as refusal:
        return Undone(path, "changed", str(refusal))
    except OSError as error:
        return Undone(path, "failed", f"{error.filename or path}: {error.strerror}")


def _take_back(undoing: Undoing, file: SettingsFile, way: Way) -> Undone:
    unit, systemctl = undoing.fate.unit, Systemctl(is_user=True)
    is_changed = undoing.fate.target != file.text
    if unit is not None:
        # Without systemd the unit can't be stopped; without its file, it can't be disabled any more. So both stay.
        silence = systemctl.silence()
        if silence is not None:
            return Undone(undoing.path, "failed", f"systemd doesn't answer: {silence}")
        words = (() if unit.was_active else ("stop",), () if unit.was_enabled else ("disable",))
        for verb in words:
            if verb and systemctl.change(*verb, unit.name).code != 0:
                return Undone(undoing.path, "failed", _refusal(systemctl))
    if is_changed:
        put(file, undoing.fate.target)
    if unit is not None:
        systemctl.change("daemon-reload")
        if unit.was_active and is_changed:
            systemctl.change("restart", unit.name)
    partly = "" if undoing.fate.is_whole else _PARTLY
    return Undone(undoing.path, way, _refusal(systemctl) or partly)


_PARTLY: Final = (
    "only the last change was taken back, because it was changed before that: see what is left there"
)


def _refusal(systemctl: Systemctl) -> str:
    """What systemd refused, if it did."""
    refused = [ran for ran in systemctl.ran if ran.code != 0]
    return f"systemd refused `{' '.join(refused[0].words)}`: {refused[0].printed}" if refused else ""


def _remove_empty(path: str) -> None:
    """Remove a directory that was made, unless somebody has put something into it."""
    try:
        os.rmdir(path)
    except OSError:
        return
    with suppress(OSError):
        sync_directory(os.path.dirname(path))
