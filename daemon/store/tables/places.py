"""Where the files of foreign sessions were seen."""

from collections.abc import Iterable
from typing import Final, NamedTuple, cast

from runward.daemon.store.store import Store
from runward.daemon.store.tables.table import Table, Write
from runward.daemon.store.transaction import Value
from runward.daemon.store.values import listed, stored_text
from runward.handlers.model.sessions import Signature
from runward.handlers.model.stored import Stored

UPSERT: Final = Write(
    "insert into places (key, root, place, session_key, signature) values (?, ?, ?, ?, ?)"
    " on conflict (key) do update set session_key = excluded.session_key, signature = excluded.signature",
    exact=False,
)

FORGET: Final = Write("delete from places where key = ?", exact=False)

_SIGNATURE: Final = Stored(cast("type[Signature]", Signature))


class KnownPlace(NamedTuple):
    """What the store knows about a place: its session, if any, and its file's state when it was last fully read."""

    session_key: str | None
    signature: Signature | None


async def known(store: Store, keys: Iterable[str]) -> dict[str, KnownPlace]:
    """What is known of these places (`root/place`), by their keys; those that were never seen are left out."""
    rows = await store.read(
        "select key, session_key, cast(signature as blob) from places where key in (select value from json_each(?))",
        (listed(keys),),
    )
    return {
        str(key): KnownPlace(
            None if session is None else str(session),
            _signature(text),
        )
        for key, session, text in rows
    }


async def beside(store: Store, keys: Iterable[str]) -> list[tuple[str, str]]:
    """Other places, with their roots, of the sessions that were seen at these places (`root/place`)."""
    rows = await store.read(
        "select other.root, other.place from places join places other on other.session_key = places.session_key"
        " where places.key in (select value from json_each(?)) and other.key != places.key",
        (listed(keys),),
    )
    return [(str(root), str(place)) for root, place in rows]


async def of_sessions(store: Store, sessions: Iterable[str]) -> list[tuple[str, str]]:
    """The places, with their roots, at which these sessions were seen."""
    rows = await store.read(
        "select root, place from places where session_key in (select value from json_each(?))",
        (listed(sessions),),
    )
    return [(str(root), str(place)) for root, place in rows]


async def read(store: Store, root: str) -> list[tuple[str, Signature]]:
    """The places in a root whose files were read to their ends, each with the file's state at that time."""
    rows = await store.read(
        "select place, cast(signature as blob) from places where root = ? and signature is not null", (root,)
    )
    read = [(str(place), _signature(text)) for place, text in rows]
    return [(place, signature) for place, signature in read if signature is not None]


def _signature(text: Value) -> Signature | None:
    """The state of a place's file; None if it was not stored or can't be read, and then the file is read again."""
    try:
        return None if text is None else _SIGNATURE.load(stored_text(text))
    except ValueError:
        return None


PLACES: Final = Table(writes=(UPSERT, FORGET))
