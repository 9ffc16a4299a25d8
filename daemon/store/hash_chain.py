"""The hash chain over events: each event's hash covers the one before it and its own facts.

Journal lines carry their event's hash. So if somebody rebuilds the chain from some event on, lines that were copied
with a run's files expose it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

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
    from runward.handlers.model.events import (
        dump_payload,  # commands that follow the chain don't need event types
    )

    payload = dump_payload(event)
    digest = event_hash(head.hash, event.key, event.type, event.version, recorded_at, cause, depth, payload)
    return Recorded(head.seq + 1, event, payload, recorded_at, cause, depth, digest)


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
