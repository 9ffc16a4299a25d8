"""Moving a record to other paths: what is below an old directory is below a new one from now on.

Events are facts and stay. Rows that say where files are now are rewritten; each table declares its own (`Table.moved`).
"""

import json
import os
import shlex
import sqlite3
import stat
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue, stored_json
from runward.daemon.store.packed_document import COLUMNS, pack, unpack
from runward.daemon.store.transaction import Row, Value


class Moves(NamedTuple):
    """Directories that were moved: each pair is the old path and the new one, both absolute and without a slash at their ends."""

    pairs: tuple[tuple[str, str], ...] = ()

    def path(self, path: str) -> str:
        """Where the path is now. Of several old directories around it the innermost counts; names count as a whole."""
        around = [pair for pair in self.pairs if path == pair[0] or path.startswith(f"{pair[0]}/")]
        if not around:
            return path
        old, new = max(around, key=lambda pair: len(pair[0]))
        return new + path[len(old) :]

    def in_json(self, text: str) -> str:
        """The JSON text with every value moved that is a path, and nothing but that."""
        if not any(old in text for old, _ in self.pairs):
            return text
        value = json.loads(text)
        moved = self._in_value(value)
        return text if moved == value else stored_json(moved).decode()

    def _in_value(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self.path(value)
        if isinstance(value, list):
            return [self._in_value(each) for each in value]
        if isinstance(value, dict):
            return {key: self._in_value(each) for key, each in value.items()}
        return value

    def in_document(self, content: bytes) -> bytes:
        """A packed session whose rows are moved. Its events stay. Raises `ValueError`."""
        document = unpack(content)
        place = COLUMNS["journal_lines"].index("directory")
        lines: list[Row] = [
            (*row[:place], self.path(str(row[place])), *row[place + 1 :])
            for row in document.rows["journal_lines"]
        ]
        if lines == document.rows["journal_lines"]:
            return content
        return pack(document._replace(rows={**document.rows, "journal_lines": lines}))


NO_MOVES: Final = Moves()

_OPEN_PAYLOADS: Final = (
    "insert or replace into moved_payloads (event, payload) select seq, moved_json(payload) from events"
    " where seq in (select event from jobs where state in ('waiting', 'held', 'running')) and moved_json(payload) <> payload"
)
"""What open jobs read instead of their events, which stay."""

FURTHER: Final = (
    "update daemon set state_dir = moved(state_dir)",
    "update uncompared set directory = moved(directory)",
    (
        "update tombstones set kept = json_set(kept, '$.path', moved(kept ->> 'path'),"
        " '$.artifacts_path', moved(kept ->> 'artifacts_path'))"
    ),
    "update packed set document = moved_document(document)",
    _OPEN_PAYLOADS,
)
"""The tables that no effect writes."""


def move_rows(connection: sqlite3.Connection, moves: Moves, statements: tuple[str, ...]) -> None:
    """Rewrite what says where files are, in the open transaction. Raises `ValueError` for a packed session that can't be read."""
    functions: dict[str, Callable[..., str | bytes]] = {
        "moved": moves.path,
        "moved_json": moves.in_json,
        "moved_document": moves.in_document,
    }
    failed: list[ValueError] = []
    for name, function in functions.items():
        connection.create_function(name, 1, _nulls_stay(function, failed), deterministic=True)
    # The triggers keep a daemon from changing a fact. The place of a file isn't a fact of the past: it may change.
    triggers = connection.execute("select name, sql from sqlite_schema where type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f'drop trigger "{name}"')
    try:
        for sql in (*statements, *FURTHER):
            connection.execute(sql)
    except sqlite3.OperationalError:
        if failed:
            raise failed[0] from None
        raise
    for _, sql in triggers:
        connection.execute(sql)


def _nulls_stay(function: Callable[..., str | bytes], failed: list[ValueError]) -> Callable[[Value], Value]:
    def moved(value: Value) -> Value:
        if value is None:
            return None
        try:
            return function(value)
        except ValueError as error:  # SQLite would only say that a function failed
            failed.append(error)
            raise

    return moved


class Known(NamedTuple):
    """What a record knows of its place: the state directory of its daemon, and its roots with sessions (name and path)."""

    state: str | None
    roots: tuple[tuple[str, str], ...]


def why_not_here(known: Known, state: str, moves: Moves, backup: str) -> str | None:
    """Why a record doesn't fit this state directory and what is on this machine, and what to do; None if it does.

    Roots in the state directory are made by the daemon.
    """
    reasons, fixes = [], []
    if known.state is not None and not _is_same(moves.path(known.state), state):
        reasons.append(f"it is of the state directory {known.state}, and this one is {state}")
        fixes.append(f"restore it there (RUNWARD_STATE_DIR={shlex.quote(moves.path(known.state))})")
    places = [(name, moves.path(path)) for name, path in known.roots]
    missing = [
        (name, path) for name, path in places if not path.startswith(f"{state}/") and _is_missing(path)
    ]
    reasons += [f"root {name} ({path}) does not exist" for name, path in missing]
    paths = [shlex.quote(path) for _, path in missing if not path.startswith(f"{known.state}/")]
    if paths:
        fixes.append(
            "mount or move back what is missing; if its runs are gone for good, an empty directory is enough"
            f" (mkdir -p {' '.join(paths)}), or --as-is"
        )
    if not reasons:
        return None
    options = " ".join(
        f"--moved {shlex.quote(f'{old}={new}')}" for old, new in _suggested(known, state, moves).pairs
    )
    fixes.append(f"if all of it was moved: runward restore {shlex.quote(backup)} {options}")
    return (
        f"the backup knows its runs by paths that are not those of this place: {'; '.join(reasons)}."
        f" What you can do: {'; '.join(fixes)}"
    )


def _suggested(known: Known, state: str, moves: Moves) -> Moves:
    """What was moved, as far as it can be seen."""
    if known.state is not None and not _is_same(moves.path(known.state), state):
        pair = common_move(known.state, state) or (known.state, state)
        moves = Moves((*moves.pairs, pair))
    for _, root in known.roots:
        now = moves.path(root)
        if not now.startswith(f"{state}/") and _is_missing(now):
            moves = Moves((*moves.pairs, (root, "WHERE_IT_IS_NOW")))
    return moves


def _is_same(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


def _is_missing(path: str) -> bool:
    """Whether there is no such directory. One that can't be reached is somebody's."""
    try:
        return not stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except PermissionError:
        return False


def common_move(old: str, new: str) -> tuple[str, str] | None:
    """The highest directories that were moved if what was at `old` is at `new`; None if their last names differ."""
    olds, news = old.split("/"), new.split("/")
    same = 0
    for one, other in zip(reversed(olds), reversed(news), strict=False):
        if one != other:
            break
        same += 1
    # At least one name must be left of each: the directory of all others is never moved.
    if not same or min(len(olds), len(news)) - same < 2 or old == new:
        return None
    return "/".join(olds[:-same]), "/".join(news[:-same])


def asked(pairs: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """What `OLD=NEW` says, each. Raises `ValueError` with what is wrong."""
    seen: set[str] = set()
    for text in pairs:
        old, _, new = text.partition("=")
        for path in (old, new):
            if not path.startswith("/") or path.strip("/") == "" or "\0" in path:
                raise ValueError(f"{text!r}: write OLD=NEW, two absolute paths of directories other than /")
            if any(part in (".", "..") for part in path.split("/")):
                raise ValueError(f"{text!r}: write the paths without . and ..")
        old, new = ("/" + "/".join(part for part in path.split("/") if part) for path in (old, new))
        if old in seen:
            raise ValueError(f"{old} is moved twice")
        seen.add(old)
        yield old, new
