"""A packed session: its rows as one document, compressed with a dictionary of common content.

Commands read it too, so expensive imports happen only when the first document is read.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.store.transaction import Row, Value, as_float, as_int, listed

if TYPE_CHECKING:
    import zstandard

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "events": (
        "seq",
        "key",
        "type",
        "version",
        "lane",
        "at",
        "recorded_at",
        "cause",
        "depth",
        "payload",
        "hash",
    ),
    "jobs": (
        "id",
        "event",
        "handler",
        "lane",
        "state",
        "run_after",
        "token",
        "epoch",
        "tries",
        "error",
        "updated_at",
    ),
    "attempts": (
        "session_key",
        "attempt",
        "started_at",
        "status",
        "ended_by",
        "reason_code",
        "ended_at",
        "produced",
    ),
    "files": (
        "session_key",
        "attempt",
        "id",
        "path",
        "size",
        "modified_ns",
        "sha256",
        "problem",
        "hashed_at",
    ),
    "status_history": (
        "session_key",
        "attempt",
        "at",
        "replaced",
        "status",
        "reason_code",
        "reason_summary",
        "evidence_refs",
        "source",
    ),
    "decisions": ("event", "handler", "subject", "at", "verdict", "summary", "known"),
    "journal_lines": ("id", "directory", "name", "live", "content", "offset", "places", "why"),
}
"""The packed columns of each table, in the order in which rows can be put back."""

CHOSEN: Final[dict[str, str]] = {
    "events": (
        "select {} from json_each(?1) k cross join events t on t.key > k.value || '#' and t.key < k.value || '$'"
        " and t.lane = k.value union all select {} from json_each(?1) k cross join events t"
        " on t.lane = k.value and {asked}{hooks} order by 2"
    ),
    "attempts": "select {} from json_each(?1) k cross join attempts t on t.session_key = k.value",
    "files": "select {} from json_each(?1) k cross join files t on t.session_key = k.value",
    "status_history": (
        "select {} from json_each(?1) k cross join status_history t on t.session_key = k.value order by t.id"
    ),
    "decisions": "select {} from json_each(?1) k cross join decisions t on t.subject = k.value order by t.id",
    "jobs": (
        "select {} from json_each(?2) k cross join jobs t"
        " on t.id between 32 * (k.value ->> 0) and 32 * (k.value ->> 0) + 31"
    ),
    "journal_lines": (
        "select {} from json_each(?2) k cross join journal_lines t"
        " on t.id between 256 * (k.value ->> 0) and 256 * (k.value ->> 0) + 255 order by t.id"
    ),
}
"""Which rows of each table belong to sessions (`?1`, their keys) and to their events (`?2`, numbers and keys)."""

_FURTHER: Final = {
    "status_history": "id integer primary key, ",
    "decisions": "id integer primary key, ",
    "journal_lines": "event integer generated always as (id / 256) virtual, ",
}
"""Generated columns."""

_DICTIONARY: Final = os.path.join(os.path.dirname(__file__), "packed_document.dictionary")
_LEVEL: Final = 9
_MOST: Final = 1 << 30
"""Bytes that a document may have."""


class Document(NamedTuple):
    """What belongs to one session: rows by table, each with the columns in `COLUMNS`.

    `before` has the hashes of the events before its own, by the numbers of its own events, if those before belong to
    others.
    """

    evidence_refs: str
    verification: str | None
    before: dict[int, str]
    rows: dict[str, list[Row]]

    def values(self, table: str, *names: str) -> Iterator[Row]:
        """These columns of the rows of a table."""
        places = [COLUMNS[table].index(name) for name in names]
        return (tuple(row[place] for place in places) for row in self.rows[table])

    @property
    def events(self) -> dict[int, str]:
        """The numbers of its events, with their hashes."""
        return {as_int(seq): str(digest) for seq, digest in self.values("events", "seq", "hash")}

    @property
    def last(self) -> tuple[int, str]:
        """Number and hash of the last event of an attempt."""
        # Requests about a session are its events, too. Only the keys of those of its attempts begin with its own.
        rows = self.values("events", "key", "lane", "seq", "hash")
        return max(
            (as_int(seq), str(digest))
            for key, lane, seq, digest in rows
            if str(key).startswith(str(lane) + "#")
        )

    @property
    def recorded_at(self) -> float:
        """When the last event was recorded (Unix seconds)."""
        return max(as_float(at) for (at,) in self.values("events", "recorded_at"))

    def payload_of(self, key: str) -> str | None:
        """The payload of the event with this key, as JSON text; None if it isn't among its events."""
        return next(
            (str(payload) for each, payload in self.values("events", "key", "payload") if each == key), None
        )


def pack(document: Document) -> bytes:
    """The bytes of a document."""
    import msgspec
    import zstandard

    # Arrays in the order of `COLUMNS`, without names: a store has many documents. So their order is their format, and a
    # change of it needs a new version here.
    tables = [document.rows[table] for table in COLUMNS]
    value = [1, document.evidence_refs, document.verification, list(document.before.items()), tables]
    content = msgspec.msgpack.encode(value)
    # The dictionary is part of the format: a document that was packed with it can't be read with another one.
    packer = zstandard.ZstdCompressor(level=_LEVEL, dict_data=_dictionary(), write_dict_id=False)
    return packer.compress(content)


def unpack(content: bytes) -> Document:
    """The document that was packed into these bytes. Raises `ValueError` if they are not a document."""
    import msgspec
    import zstandard

    try:
        text = zstandard.ZstdDecompressor(dict_data=_dictionary()).decompress(content, max_output_size=_MOST)
        version, evidence, verification, before, tables = msgspec.msgpack.decode(text)
    except (zstandard.ZstdError, msgspec.MsgspecError, TypeError) as error:
        raise ValueError(f"a packed session can't be read: {error}") from error
    if version != 1:
        raise ValueError(f"a packed session has version {version}, which this Runward doesn't know")
    rows = {
        table: [tuple(row) for row in rows_there] for table, rows_there in zip(COLUMNS, tables, strict=True)
    }
    return Document(evidence, verification, dict(before), rows)


@cache
def _dictionary() -> "zstandard.ZstdCompressionDict":
    import zstandard

    with open(_DICTIONARY, "rb") as file:
        return zstandard.ZstdCompressionDict(file.read())


def insert(table: str, schema: str = "main") -> str:
    """The statement that puts rows back into a table."""
    names = ", ".join(f'"{name}"' for name in COLUMNS[table])
    values = ", ".join("?" * len(COLUMNS[table]))
    return f"insert into {schema}.{table} ({names}) values ({values})"  # noqa: S608 # our own words


def select(table: str, chosen: str) -> str:
    """The query for rows of a table, after the session's key or the event's number and key."""
    return chosen.replace("{}", ", ".join(["k.value", *(f't."{name}"' for name in COLUMNS[table])]))


def show(connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, Document]:
    """Put the rows of those of these sessions that are packed into their tables, for this connection alone.

    Its own tables hide the store's: they hold what belongs to these sessions, and nothing else. Returns what was
    packed.
    """
    packed = connection.execute(
        "select session_key, document from main.packed where session_key in (select value from json_each(?))",
        (listed(keys),),
    )
    documents = {str(key): unpack(content) for key, content in packed}
    if not documents:
        return documents
    from runward.daemon.store.tables.prunings import ASKED

    events: list[tuple[Value, ...]] = []
    for table, chosen in CHOSEN.items():
        question = select(table, chosen).replace("{asked}", ASKED.replace("e.", "t.")).replace("{hooks}", "")
        rows = connection.execute(
            question.replace(f" {table} t", f" main.{table} t"),
            (listed(keys), listed(events))[: 2 if "?2" in question else 1],
        ).fetchall()
        if table == "events":
            rows += connection.execute(
                select(
                    table,
                    "select {} from json_each(?1) k cross join main.starts x on x.session_key = k.value"
                    " join main.events t on t.seq = x.event",
                ),
                (listed(keys),),
            ).fetchall()
            events = [(row[1], row[2]) for row in rows]
        # A temporary table hides the store's of the same name, so the queries of unpacked sessions need not know of packing.
        _stand(connection, table, [row[1:] for row in rows])
        for document in documents.values():
            connection.executemany(insert(table, "temp"), document.rows[table])
    before = [
        (seq - 1, seq - 1, digest) for each in documents.values() for seq, digest in each.before.items()
    ]
    # Of the gaps, too, only those around these sessions: the chain of a packed session must look unbroken.
    connection.execute("drop table if exists temp.absent_events")
    connection.execute(
        "create temp table absent_events as select * from main.absent_events where last in (select value from json_each(?))",
        (listed(int(str(seq)) - 1 for seq, _ in events),),
    )
    connection.executemany("insert into temp.absent_events (last, first, hash) values (?, ?, ?)", before)
    return documents


def _stand(connection: sqlite3.Connection, table: str, rows: Iterable[Sequence[Value]]) -> None:
    names = ", ".join(f'"{name}"' for name in COLUMNS[table])
    # A connection may show other sessions later: what it showed before must not be among them.
    connection.execute(f"drop table if exists temp.{table}")
    connection.execute(f"create temp table {table} ({_FURTHER.get(table, '')}{names})")
    connection.executemany(insert(table, "temp"), rows)
