"""Roots, the places in them where sessions write, what is remembered of each, and what is wrong there."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import groups_of, rows_by_key, rows_of, select, value_of, values_of
from runward.daemon.store.tables.table import Table, answers_by, no_rows
from runward.daemon.store.transaction import Reader, listed, stored_text
from runward.handlers.model.files import Signature
from runward.handlers.model.processes import RecordedProcess, Whereabouts
from runward.handlers.model.requests import AcceptRoot, ScanRoots
from runward.handlers.model.sessions import (
    DeclaredToHook,
    HookDeclaration,
    HookKind,
    LinkedSession,
    LinkedSessions,
    NoteHook,
)
from runward.handlers.model.stored import Stored, as_json

ROOT_IS: Final = Write("update roots set identity = ? where name = ?", exact=False)

GREW_ELSEWHERE: Final = Write(
    "update roots set grew_elsewhere_at = coalesce(grew_elsewhere_at, ?) where name = ?", exact=False
)

ROOT_SEEN: Final = (
    "insert into roots (name, path, layout, first_seen_at) values (?, ?, ?, ?)"
    " on conflict (name) do update set path = excluded.path, layout = excluded.layout,"
    # A root of the same name at another path is another directory: what was known of the old one must not refuse it.
    " identity = case when path = excluded.path then identity end,"
    " grew_elsewhere_at = case when path = excluded.path then grew_elsewhere_at end"
)


async def first_seen(store: Reader) -> dict[str, float]:
    """When each root was first seen (Unix seconds), by name."""
    rows = await store.read("select name, first_seen_at from roots")
    return dict(rows_of(tuple[str, float], rows))


async def grown_elsewhere(store: Reader) -> set[str]:
    """The roots in which a session grew without a process on this machine, so that other machines write there, too."""
    rows = await store.read("select name from roots where grew_elsewhere_at is not null")
    return set(values_of(str, rows))


async def identities(store: Reader) -> dict[str, str | None]:
    """Which directory each root is, by name; None if that was never recorded."""
    rows = await store.read("select name, identity from roots")
    return dict(rows_of(tuple[str, str | None], rows))


def _accept(batch: Batch, job: Job, effect: AcceptRoot) -> None:
    batch.row(ROOT_IS, (effect.identity, effect.root))


ROOTS: Final = Table(
    writes=(ROOT_IS, GREW_ELSEWHERE),
    appliers={AcceptRoot: _accept, ScanRoots: no_rows},
    # As for a root whose path was changed in the settings: it is another directory.
    moved=("update roots set path = moved(path), identity = null where moved(path) <> path",),
)


UPSERT_PLACE: Final = Write(
    "insert into places (key, root, place, session_key, signature) values (?, ?, ?, ?, ?)"
    " on conflict (key) do update set session_key = excluded.session_key, signature = excluded.signature",
    exact=False,
)

FORGET_PLACE: Final = Write("delete from places where key = ?", exact=False)

_SIGNATURE: Final = Stored(Signature)


class KnownPlace(NamedTuple):
    """What the store knows about a place: its session, if any, and its file's state when it was last fully read."""

    session_key: str | None
    signature: Signature | None


async def known_places(store: Reader, keys: Iterable[str]) -> dict[str, KnownPlace]:
    """What is known of these places (`root/place`), by their keys; those that were never seen are left out."""
    query = select(
        KnownPlace,
        "from places where key in (select value from json_each(?))",
        by="key",
        # As bytes: a damaged text must cost its own place a new reading, not fail the query for all of them.
        signature="cast(signature as blob)",
    )
    return rows_by_key(KnownPlace, await store.read(query, (listed(keys),)), signature=_signature)


async def places_beside(store: Reader, keys: Iterable[str]) -> list[tuple[str, str]]:
    """Other places, with their roots, of the sessions that were seen at these places (`root/place`)."""
    rows = await store.read(
        "select other.root, other.place from places join places other on other.session_key = places.session_key"
        " where places.key in (select value from json_each(?)) and other.key != places.key",
        (listed(keys),),
    )
    return rows_of(tuple[str, str], rows)


async def places_of_sessions(store: Reader, sessions: Iterable[str]) -> list[tuple[str, str]]:
    """The places, with their roots, at which these sessions were seen."""
    rows = await store.read(
        "select root, place from places where session_key in (select value from json_each(?))",
        (listed(sessions),),
    )
    return rows_of(tuple[str, str], rows)


async def places_read(store: Reader, root: str) -> list[tuple[str, Signature]]:
    """The places in a root whose files were read to their ends, each with the file's state at that time."""
    rows = await store.read(
        "select place, cast(signature as blob) from places where root = ? and signature is not null", (root,)
    )
    read = [(place, _signature(text)) for place, text in rows_of(tuple[str, bytes], rows)]
    return [(place, signature) for place, signature in read if signature is not None]


def _signature(text: bytes | None) -> Signature | None:
    """The state of a place's file; None if it was not stored or can't be read, and then the file is read again."""
    try:
        return None if text is None else _SIGNATURE.load(stored_text(text))
    except ValueError:
        return None


PLACES: Final = Table(writes=(UPSERT_PLACE, FORGET_PLACE))


# A session has one launcher: the first that is found stays.
INSERT_LINK: Final = Write(
    "insert into links (linked, launcher) values (?, ?) on conflict (linked) do nothing", exact=False
)


async def linked_sessions(store: Reader, launchers: Iterable[str]) -> dict[str, LinkedSessions]:
    """The sessions that were started in these launchers' runs, by the launcher's key; usually there are none."""
    query = select(
        LinkedSession,
        "from links l join sessions s on s.key = l.linked"
        " where l.launcher in (select value from json_each(?)) order by s.key",
        "s",
        by="l.launcher",
    )
    linked = groups_of(LinkedSession, await store.read(query, (listed(launchers),)))
    return {launcher: LinkedSessions(sessions) for launcher, sessions in linked.items()}


async def announced_sessions(store: Reader, launchers: Iterable[str]) -> list[tuple[str, str]]:
    """The sessions that weren't read yet and whose hooks named these launched runs, each with the run's id."""
    rows = await store.read(
        "select h.launcher_session, h.session_key from hooks h"
        " where h.launcher_session in (select value from json_each(?))"
        " and not exists (select 1 from links l join sessions s on s.key = l.linked where l.linked = h.session_key)"
        " order by h.session_key",
        (listed(launchers),),
    )
    return rows_of(tuple[str, str], rows)


async def has_links(store: Reader) -> bool:
    """Whether any session was ever reported as started in a launcher's run."""
    (row,) = await store.read(
        "select exists (select 1 from links) or exists (select 1 from hooks where launcher_session is not null)"
    )
    return bool(value_of(bool, row))


LINKS: Final = Table(
    writes=(INSERT_LINK,),
    goes_with_session=(
        "delete from links where linked = ?1 and launcher not in (select key from sessions)",
        "delete from links where launcher = ?1 and linked not in (select key from sessions)",
    ),
)


NOTE_HOOK: Final = Write(
    "insert into hooks (session_key, at, kind, ancestors, launcher_session, declared, whereabouts)"
    " values (?, ?, ?, ?, ?, ?, ?)"
    " on conflict (session_key) do update set"
    # Reports may come out of order, because each is a file of its own: an older one never replaces a newer one.
    " at = max(at, excluded.at),"
    " kind = case when excluded.at >= at then excluded.kind else kind end,"
    " ancestors = case when excluded.at >= at and excluded.ancestors <> '[]' then excluded.ancestors else ancestors end,"
    " whereabouts = case when excluded.at >= at and excluded.ancestors <> '[]' then excluded.whereabouts"
    " else whereabouts end,"
    # The first report stands: a later one may come from where the variable is not set.
    " launcher_session = coalesce(launcher_session, excluded.launcher_session),"
    " declared = coalesce(declared, excluded.declared)"
)

_DECLARED: Final = Stored(HookDeclaration)

_ANCESTORS: Final = Stored(tuple[RecordedProcess, ...])

_WHEREABOUTS: Final = Stored(Whereabouts)


class Hook(NamedTuple):
    """What a session's hook said last: when (Unix seconds), what, under which processes, and in which launched run."""

    at: float
    kind: HookKind
    ancestors: tuple[RecordedProcess, ...]
    launcher_session: str | None
    whereabouts: Whereabouts | None = None
    """Where the numbers of these processes are valid; None for what was noted before that was recorded."""

    @property
    def callers(self) -> tuple[RecordedProcess, ...]:
        """The processes from the hook's parent up to the agent: every agent calls one shell, which calls the hook.

        Empty if the agent is not among the ancestors. A shell may have become the hook: then the agent is its parent.
        """
        return self.ancestors[:2] if len(self.ancestors) > 1 else ()


async def last_hooks(store: Reader, keys: Iterable[str]) -> dict[str, Hook]:
    """What the hooks of these sessions said last, by session key."""
    return await _hooks(
        store, "from hooks where session_key in (select value from json_each(?))", "session_key", keys
    )


async def hooks_of_origins(store: Reader, keys: Iterable[str]) -> dict[str, Hook]:
    """What the hooks of those sessions said last that these are part of, by the key of the part."""
    return await _hooks(
        store,
        "from hooks join links on launcher = session_key where linked in (select value from json_each(?))",
        "linked",
        keys,
    )


async def _hooks(store: Reader, found: str, by: str, keys: Iterable[str]) -> dict[str, Hook]:
    blobs = {name: f"cast({name} as blob)" for name in ("ancestors", "whereabouts")}
    rows = await store.read(select(Hook, found, by=by, **blobs), (listed(keys),))
    return rows_by_key(Hook, rows, ancestors=_ancestors, whereabouts=_whereabouts)


async def declarations(store: Reader, keys: Iterable[str]) -> dict[str, HookDeclaration]:
    """What was declared for these sessions when their hooks reported their first prompts, by session key."""
    rows = await store.read(
        "select session_key, declared from hooks"
        " where session_key in (select value from json_each(?)) and declared is not null",
        (listed(keys),),
    )
    return {key: _DECLARED.load(text) for key, text in rows_of(tuple[str, str], rows)}


def _ancestors(stored: bytes) -> tuple[RecordedProcess, ...]:
    """The processes that a hook ran under; empty if that can't be read."""
    try:
        return _ANCESTORS.load(stored_text(stored))
    except ValueError:
        return ()


def _whereabouts(stored: bytes | None) -> Whereabouts | None:
    """Where a hook ran; None if that was not recorded, or can't be read."""
    try:
        return None if stored is None else _WHEREABOUTS.load(stored_text(stored))
    except ValueError:
        return None


def _note_hook(batch: Batch, job: Job, effect: NoteHook) -> None:
    ancestors = as_json(effect.ancestors)
    declared = None if effect.declared is None else as_json(effect.declared)
    whereabouts = as_json(effect.whereabouts)
    row = (effect.key, effect.at, effect.kind, ancestors, effect.launcher_session, declared, whereabouts)
    batch.row(NOTE_HOOK, row)


HOOKS: Final = Table(
    writes=(NOTE_HOOK,),
    appliers={NoteHook: _note_hook},
    answers={DeclaredToHook: answers_by(declarations, lambda asked: asked.key)},
    goes_with_session=("delete from hooks where session_key = ?",),
)
