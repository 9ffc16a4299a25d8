"""Questions of commands to the record itself: does the chain hold, and do a session's lines belong to it."""

import json
import sqlite3

from runward.daemon.store.chain import BrokenChain, ChainedEvent, Head, follow


def verify_chain(connection: sqlite3.Connection) -> Head | BrokenChain:
    """Follow the whole chain of events: its end, or the first event at which it breaks."""
    rows = connection.execute(
        "select seq, hash, key, type, version, recorded_at, cause, depth, payload from events order by seq"
    )
    return follow(ChainedEvent(*row) for row in rows)


def lines_off_the_chain(connection: sqlite3.Connection, session: str) -> list[tuple[int, str]]:
    """Lines that were written for a session and don't carry the hash of the event that they are kept with.

    Returns number and journal. An event whose facts and hash were both changed is told by these, too.
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
        if any(json.loads(line).get("hash") != digest for line in content.splitlines())
    ]
