"""The hash chain over events: each event's hash covers the one before it and its own facts.

Journal lines carry their event's hash. So if somebody rebuilds the chain from some event on, lines that were copied
with a run's files expose it.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.handlers.foreign_json import read_json

if TYPE_CHECKING:
    from runward.handlers.model.events import Event


GENESIS: Final = "0" * 64


class Recorded(NamedTuple):
    """An event as the store has it: its place in the chain, its hash, and what caused it."""

    seq: int
    event: Event
    payload: str
    recorded_at: float
    cause: str | None
    depth: int
    hash: str


class Head(NamedTuple):
    """The end of the chain: the last event's number and hash."""

    seq: int
    hash: str


GENESIS_HEAD: Final = Head(0, GENESIS)
"""The end of a chain that has no event yet."""


NOTHING_PRUNED: Final[Mapping[int, Head]] = MappingProxyType({})


class ChainedEvent(NamedTuple):
    """An event as its row has it."""

    seq: int
    hash: str
    key: str
    type: str
    version: int
    recorded_at: float
    cause: str | None
    depth: int
    payload: str


class BrokenChain(NamedTuple):
    """The first event at which the chain is broken, and what is wrong there."""

    seq: int
    key: str
    why: str


def link(head: Head, event: Event, recorded_at: float, cause: str | None, depth: int) -> Recorded:
    """`event` as the next link after `head`."""
    from runward.handlers.model.stored import as_json  # commands that follow the chain do without msgspec

    payload = as_json(event)
    digest = event_hash(
        head.hash,
        key=event.key,
        kind=event.type,
        version=event.version,
        recorded_at=recorded_at,
        cause=cause,
        depth=depth,
        payload=payload,
    )
    return Recorded(
        seq=head.seq + 1,
        event=event,
        payload=payload,
        recorded_at=recorded_at,
        cause=cause,
        depth=depth,
        hash=digest,
    )


def event_hash(
    previous: str,
    key: str,
    kind: str,
    version: int,
    recorded_at: float,
    cause: str | None,
    depth: int,
    payload: str,
) -> str:
    """The hash of an event whose predecessor has the hash `previous`, in hex."""
    # repr: the shortest text that reads back as this very float, so the time in the row gives the same hash.
    text = f"{previous}\n{key}\n{kind}\n{version}\n{recorded_at!r}\n{cause or ''}\n{depth}\n{payload}"
    return hashlib.sha256(text.encode()).hexdigest()


def follow(
    events: Iterable[ChainedEvent], head: Head = GENESIS_HEAD, pruned: Mapping[int, Head] = NOTHING_PRUNED
) -> Head | BrokenChain:
    """Follow the chain from `head` over the events behind it, in order; returns its end, or where it breaks.

    An event that was changed breaks the chain there. If its hash was changed too, the chain breaks at the next event.
    `pruned` are the stretches of removed events, each with its end, by the number of its first event.
    """
    for each in events:
        # Where events were removed, the chain goes on from the hash of the last of them.
        head = pruned.get(head.seq + 1, head)
        if each.seq != head.seq + 1:
            return BrokenChain(each.seq, each.key, f"after event {head.seq} comes event {each.seq}")
        expected = event_hash(head.hash, *each[2:])
        if each.hash != expected:
            return BrokenChain(
                each.seq,
                each.key,
                f"its hash is {each.hash}; its facts and the event before it give {expected}",
            )
        head = Head(each.seq, each.hash)
    return head


def broken_event(connection: sqlite3.Connection, session: str) -> BrokenChain | None:
    """The first event of a session that doesn't follow from its own facts and the event before it in the chain."""
    rows = connection.execute(
        "select e.seq, e.hash, e.key, e.type, e.version, e.recorded_at, e.cause, e.depth, e.payload, coalesce(p.seq, g.last),"
        " coalesce(p.hash, g.hash) from events e left join events p on p.seq = e.seq - 1"
        " left join absent_events g on g.last = e.seq - 1"
        " where e.key > ?1 || '#' and e.key < ?1 || '$' and e.lane = ?1 order by e.seq",
        (session,),
    )
    # Each event is checked against the one before it alone, so one session costs no walk over the whole chain. That one
    # may have been pruned or packed: then the end of its stretch has its hash.
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
