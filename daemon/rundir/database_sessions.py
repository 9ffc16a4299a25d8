"""The sessions in a tool's database: which there are, when each changed, and the log that each would be."""

import fnmatch
import os
import sqlite3
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from runward.daemon.rundir.databases import CannotAsk, asked, row_of, standing, state_of
from runward.handlers.layouts.layout import Database, Entry, Row
from runward.handlers.layouts.places import is_session_id
from runward.handlers.model.files import Signature

MOST_SESSIONS: Final = 1_000_000
JUST_CHANGED: Final = 1.0
"""Seconds after a change in which another one may leave the files' times as they are."""

RECENT_S: Final = 600.0
"""Seconds for which a session to which rows were added is asked for with each change: its rows may still change in place."""

MOST_RECENT: Final = 200
MOST_KEPT: Final = 32
"""Databases whose sessions are kept in memory."""

MOST_STARTS: Final = 2000
STARTS_KEPT: Final = 4
MOST_WRITTEN: Final = 256 << 20
_PIECE: Final = 1 << 20
_LARGEST_ENTRY: Final = 256 << 20
"""Bytes of a group of entries, which is held in memory as a whole."""

_ROW: Final = 512
"""Bytes that a row takes in memory beside its content, at most."""

Place = tuple[int, str]
"""Where an entry is in its session: its time and its id."""


class Found(NamedTuple):
    """A session of a database, and the log that it would be: the database's path, how it is read, and the session's id."""

    path: str
    database: Database
    session: str

    def at(self, offset: int) -> "RenderedBytes":
        """The log's bytes from this one on."""
        return RenderedBytes(self, offset)

    def signature(self) -> Signature | None:
        """What changes whenever the session does; None if there is none. Raises `OSError` and `CannotAsk`."""
        try:
            state = state_of(self.path)
        except FileNotFoundError:
            return None
        with _listing:
            listed = _lists.get(self.path)
            if listed is not None and listed.state == state and _is_settled(state, listed.read_at):
                return listed.sessions.get(self.session)
        with asked(self.path, self.database) as connection:
            return _standing_of(connection, self.database, self.session, state[0].device, state[0].inode)


@dataclass(slots=True)
class _Listed:
    """The sessions of a database, as they were at a state of its files."""

    inode: int
    state: object = None
    read_at: float = 0.0
    newest: dict[str, int] = field(default_factory=dict)
    """The last row of each table to which rows are added."""
    sessions: dict[str, Signature] = field(default_factory=dict)
    recent: dict[str, float] = field(default_factory=dict)
    """Those to which rows were added lately, and when that was noticed."""


_lists: "OrderedDict[str, _Listed]" = OrderedDict()
_listing: Final = threading.Lock()


def sessions_in(path: str, database: Database) -> dict[str, Signature]:
    """All sessions of the database at `path`, by id. While its files stay the same, that takes a look at them.

    If rows were added, only the sessions that have them are asked for, and those that had some lately. Raises `OSError` and
    `CannotAsk`.
    """
    with _listing:
        state = state_of(path)
        inode = state[0].inode
        listed = _lists.get(path)
        if listed is None or listed.inode != inode:
            listed = _Listed(inode)
        elif listed.state == state and _is_settled(state, listed.read_at):
            return listed.sessions
        now = time.time()
        try:
            _update(path, database, listed, now)
        except BaseException:
            _lists.pop(path, None)
            raise
        listed.state, listed.read_at = state, now
        _lists[path] = listed
        _lists.move_to_end(path)
        while len(_lists) > MOST_KEPT:
            _lists.popitem(last=False)
        return listed.sessions


def _is_settled(state: tuple[Signature, Signature | None], read_at: float) -> bool:
    newest = max(each.modified_ns for each in state if each is not None) / 1e9
    return abs(read_at - newest) > JUST_CHANGED


def _update(path: str, database: Database, listed: _Listed, now: float) -> None:
    with asked(path, database) as connection:
        device = os.lstat(path).st_dev
        newest: dict[str, int] = {}
        added: dict[str, None] = {}
        for table, column in database.newcomers.items():
            (last,) = connection.execute(f"select max(rowid) from {table}").fetchone()  # noqa: S608 - a layout's own words
            newest[table] = last if isinstance(last, int) else 0
            known = listed.newest.get(table)
            if known is not None and newest[table] > known:
                rows = connection.execute(
                    f"select distinct {column} from {table} where rowid > ?",  # noqa: S608
                    (known,),
                )
                added |= {row[0].decode(errors="replace"): None for row in rows if isinstance(row[0], bytes)}
        first = next(iter(database.newcomers))
        (count,) = connection.execute(f"select count(*) from {first}").fetchone()  # noqa: S608
        is_less = any(newest[table] < known for table, known in listed.newest.items())
        new = sum(each not in listed.sessions for each in added)
        if not listed.newest or is_less or count != len(listed.sessions) + new:
            # What was removed is not among what was added.
            found = standing(connection, database)
            listed.sessions = {
                session: _signature(device, listed.inode, modified, number)
                for (session, modified, number), _ in zip(found, range(MOST_SESSIONS), strict=False)
                if is_session_id(session)
            }
            listed.newest = newest
            return
        listed.newest = newest
        recent = {**listed.recent, **dict.fromkeys(added, now)}
        recent = {each: at for each, at in recent.items() if 0 <= now - at < RECENT_S}
        listed.recent = dict(sorted(recent.items(), key=lambda each: -each[1])[:MOST_RECENT])
        # A copy: others may still go through the one that they were given.
        sessions = dict(listed.sessions)
        for session in {**listed.recent, **added}:
            current = _standing_of(connection, database, session, device, listed.inode)
            if current is not None and is_session_id(session):
                sessions[session] = current
        listed.sessions = sessions


def _standing_of(
    connection: sqlite3.Connection, database: Database, session: str, device: int, inode: int
) -> Signature | None:
    rows = standing(connection, database, "where s.id = ?", (session,))
    return next((_signature(device, inode, modified, number) for _, modified, number in rows), None)


def _signature(device: int, inode: int, modified_ms: int, number: int) -> Signature:
    return Signature(inode, number, modified_ms * 1_000_000, device)


class _Start(NamedTuple):
    """Where a group of entries begins: the entry, and the bytes and lines of the log before it."""

    offset: int
    place: Place


_starts: "OrderedDict[tuple[str, int, str], tuple[_Start, ...]]" = OrderedDict()
"""The last beginnings that are known, by database and session. A group may be so short that reading goes on before it."""

_starting: Final = threading.Lock()


class RenderedBytes:
    """The bytes of a session's log, made as they are read: at most one group of entries more than is asked for.

    Each piece is a question of its own. What begins before `offset` is made again, from the last group on whose beginning is known.
    """

    def __init__(self, found: Found, offset: int) -> None:
        self._found = found
        self._key = (found.path, os.lstat(found.path).st_ino, found.session)
        with _starting:
            known = [each for each in _starts.get(self._key, ()) if each.offset <= offset]
        self._next: Place | None = known[-1].place if known else None
        self._made = known[-1].offset if known else 0
        self._skip = offset - self._made
        self._held = b""
        self._is_over = False

    def read(self, most: int) -> bytes:
        """At most this many of the next bytes; none at the end."""
        while not self._held and not self._is_over:
            self._fill()
        piece, self._held = self._held[:most], self._held[most:]
        return piece

    def pass_over_hole(self) -> int:
        """Does nothing: there are none."""
        return 0

    def _fill(self) -> None:
        found, pieces, size = self._found, [], 0
        with asked(found.path, found.database) as connection:
            if self._next is None:
                columns = connection.execute(found.database.session, {"session": found.session}).fetchone()
                if columns is None:
                    raise FileNotFoundError
                at = columns[0] if isinstance(columns[0], int) else 0
                self._next = (at, "")
                pieces.append(_joined(found.database.begin(columns)))
                size = len(pieces[0])
            for start, group in self._groups(connection, self._next):
                if start != self._next and size >= _PIECE:
                    self._next = start
                    break
                self._remember(self._made + size, start)
                pieces.append(_joined(found.database.lines(group)))
                size += len(pieces[-1])
            else:
                self._is_over = True
        made = b"".join(pieces)
        self._made += len(made)
        self._held, self._skip = made[self._skip :], max(0, self._skip - len(made))

    def _groups(self, connection: sqlite3.Connection, place: Place) -> Iterator[tuple[Place, list[Entry]]]:
        database, session = self._found.database, self._found.session
        entries = connection.execute(database.entries, {"session": session, "at": place[0], "id": place[1]})
        group: list[Entry] = []
        start, size = place, 0
        for columns in entries:
            row = row_of(columns)
            if group and database.begins(row):
                yield start, group
                group, size = [], 0
            if not group:
                start = (row.created, row.id)
            size = _with(row, size)
            parts = []
            for part in connection.execute(database.parts, {"entry": row.id}):
                parts.append(row_of(part))
                size = _with(parts[-1], size)
            group.append(Entry(row, tuple(parts)))
        if group:
            yield start, group

    def _remember(self, offset: int, place: Place) -> None:
        with _starting:
            before = [each for each in _starts.get(self._key, ()) if each.offset < offset]
            _starts[self._key] = (*before[1 - STARTS_KEPT :], _Start(offset, place))
            _starts.move_to_end(self._key)
            while len(_starts) > MOST_STARTS:
                _starts.popitem(last=False)


def _with(row: Row, size: int) -> int:
    """The size of a group with a further row. Raises `CannotAsk` if it is too large."""
    size += _ROW + len(row.id) + len(row.data) + len(row.about or b"")
    if size > _LARGEST_ENTRY:
        raise CannotAsk(f"has a message, or prompts one after the other, of more than {_LARGEST_ENTRY} bytes")
    return size


def written_out(log: Found) -> int:
    """A descriptor of the whole log in a file without a name, for who reads anywhere in it. Raises `OSError` and `CannotAsk`."""
    source = log.at(0)
    with tempfile.TemporaryFile() as file:
        size = 0
        while piece := source.read(_PIECE):
            size += file.write(piece)
            if size > MOST_WRITTEN:
                raise CannotAsk(f"has a session of more than {MOST_WRITTEN} bytes")
        file.flush()
        return os.dup(file.fileno())


def _joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def databases_in(directory: str, pattern: str) -> list[str]:
    """The names of the databases in a root. Raises `OSError`."""
    with os.scandir(directory) as entries:
        return sorted(
            each.name
            for each in entries
            if fnmatch.fnmatchcase(each.name, pattern) and each.is_file(follow_symlinks=False)
        )
