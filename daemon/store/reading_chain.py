"""Checks that commands make on one session: whether its events fit the chain, and its lines fit their events."""

import sqlite3

from runward.daemon.store.hash_chain import GENESIS_HEAD, BrokenChain, ChainedEvent, Head, follow
from runward.handlers.foreign_json import read_json


def broken_event(connection: sqlite3.Connection, session: str) -> BrokenChain | None:
    """The first event of a session that doesn't follow from its own facts and the event before it in the chain."""
    rows = connection.execute(
        "select e.seq, e.hash, e.key, e.type, e.version, e.recorded_at, e.cause, e.depth, e.payload, coalesce(p.seq, g.last),"
        " coalesce(p.hash, g.hash) from events e left join events p on p.seq = e.seq - 1"
        " left join absent_events g on g.last = e.seq - 1"
        " where e.key > ?1 || '#' and e.key < ?1 || '$' and e.lane = ?1 order by e.seq",
        (session,),
    )
    for *facts, number, digest in rows:
        event = ChainedEvent(*facts)
        before = GENESIS_HEAD if number is None else Head(number, digest)
        if number is None and event.seq != GENESIS_HEAD.seq + 1:
            return BrokenChain(event.seq, event.key, "the event before it is gone")
        end = follow([event], before)
        if isinstance(end, BrokenChain):
            return end
    return None


def lines_off_the_chain(connection: sqlite3.Connection, session: str) -> list[tuple[int, str]]:
    """Lines that were written for a session and don't carry the hash of the event that they are kept with.

    Returns number and journal. These lines also expose an event whose facts and hash were both changed.
    """
    rows = connection.execute(
        "select l.id, l.name, l.content, e.hash from events e"
        " cross join journal_lines l on l.id between 256 * e.seq and 256 * e.seq + 255"
        " where e.key > ?1 || '#' and e.key < ?1 || '$' and e.lane = ?1 and l.content is not null order by l.id",
        (session,),
    )
    return [
        (number, str(name))
        for number, name, content, digest in rows
        if not all(_carries(line, digest) for line in content.splitlines())
    ]


def _carries(line: bytes, digest: str) -> bool:
    value = read_json(line)  # anyone who changed the store may have written anything there
    return isinstance(value, dict) and value.get("hash") == digest
