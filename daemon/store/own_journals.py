"""Journals in Runward's own state, after a restore. Lost ones are written again, because a whole disk may be lost."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from runward.daemon.disk.durable import make_durably, write_durably
from runward.daemon.rundir.journals import Journal
from runward.daemon.store.packed_document import COLUMNS, unpack
from runward.daemon.store.values import as_bytes, as_int
from runward.handlers.journal.place import OWN_PLACE

_WRITTEN: Final = (
    "select l.directory, l.name, min(e.lane) from journal_lines l join events e on e.seq = l.event"
    ' where l.directory glob ? and l."offset" is not null and l.content is not null group by 1, 2'
)
_LIST: Final = "insert or ignore into uncompared (directory, name, session_key) values (?, ?, ?)"
_PACKED: Final = "select document from packed where session_key not glob 'native:*'"


def have_compared(connection: sqlite3.Connection, state: Path) -> None:
    """List the gone journals of sessions that aren't packed: the next daemon finds the damage and repairs it."""
    rows = connection.execute(_WRITTEN, (f"{OWN_PLACE}/*",)).fetchall()
    connection.executemany(_LIST, [row for row in rows if not os.path.lexists(state / row[0] / row[1])])


def write_packed(connection: sqlite3.Connection, state: Path) -> None:
    """Write missing journals of packed sessions, which daemons don't look at. Raises `OSError`, `ValueError`."""
    adopted: dict[int, bytes] = dict(connection.execute("select id, content from adopted_lines"))
    for (document,) in connection.execute(_PACKED):
        for (directory, name), content in _journals(document, adopted):
            if not os.path.lexists(state / directory / name):
                make_durably(state, directory)
                write_durably(state / directory, name, content)


def _journals(document: bytes, adopted: Mapping[int, bytes]) -> Iterator[tuple[Journal, bytes]]:
    """The journals of a packed session that are in our own state, with our lines in their order there."""
    lines: dict[Journal, list[tuple[int, bytes]]] = {}
    for row in unpack(document).rows["journal_lines"]:
        line = dict(zip(COLUMNS["journal_lines"], row, strict=True))
        directory = str(line["directory"])
        if (
            directory.startswith(f"{OWN_PLACE}/")
            and line["offset"] is not None
            and line["content"] is not None
        ):
            content = adopted.get(as_int(line["id"]), as_bytes(line["content"]))
            lines.setdefault((directory, str(line["name"])), []).append((as_int(line["offset"]), content))
    for journal, found in lines.items():
        yield journal, b"".join(content for _, content in sorted(found))
