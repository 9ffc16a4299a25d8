"""The hash chain over events: each event's hash covers the one before it and its own facts."""

import hashlib
from typing import Final, NamedTuple

from runward.handlers.events import Event, dump_payload

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


def link(head: Head, event: Event, recorded_at: float, cause: str | None, depth: int) -> Recorded:
    """`event` as the next link after `head`."""
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
