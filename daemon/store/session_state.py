"""The state of sessions field by field, as stored: what can be rebuilt from their journals.

A session's location (`root`, `path`) is not part of it: that changes without an event when files are moved.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final, Self

from runward.config.json_value import JsonValue
from runward.daemon.store import packed_document
from runward.daemon.store.batch import Batch, Job
from runward.daemon.store.hash_chain import GENESIS_HEAD
from runward.daemon.store.packed_document import Document
from runward.daemon.store.rows import values_of
from runward.daemon.store.schema import make_empty
from runward.daemon.store.tables import all as tables
from runward.daemon.store.tables.sessions import STATE
from runward.handlers.model.effects import Effects
from runward.handlers.model.sessions import AttemptStarted

_ATTEMPT: Final = ("started_at", "status", "ended_by", "reason_code", "ended_at", "produced")
_CHANGE: Final = ("at", "replaced", "status", "reason_code", "reason_summary", "evidence_refs", "source")
_JSON: Final = frozenset(
    {"evidence_refs", "artifact_contract_json", "artifact_verification_json", "produced"}
)

_NO_LAUNCHES: Final = "drop trigger sessions_keep_their_contract"
"""It lets a contract change if a launcher recorded another one, which no journal tells."""


def keys_after(connection: sqlite3.Connection, last: str, limit: int) -> list[str]:
    """The keys of the next sessions, in the order of their keys."""
    rows = connection.execute("select key from sessions where key > ? order by key limit ?", (last, limit))
    return values_of(str, rows)


def packed_among(connection: sqlite3.Connection, keys: Sequence[str]) -> Mapping[str, Document]:
    """Those of these sessions that are packed. From now on, this connection sees their rows in the tables."""
    return packed_document.show(connection, keys)


def state_of(
    connection: sqlite3.Connection, key: str, packed: Document | None = None
) -> dict[str, JsonValue]:
    """The fields of a session by name, JSON as its value; empty if there is no such session."""
    state: dict[str, JsonValue] = {}
    row = connection.execute(_select(STATE, "sessions where key = ?"), (key,)).fetchone()
    if row is None:
        return state
    if packed is not None:
        whole = {"evidence_refs": packed.evidence_refs, "artifact_verification_json": packed.verification}
        row = [whole.get(name, value) for name, value in zip(STATE, row, strict=True)]
    _add(state, "", STATE, row)
    attempts = _select(("attempt", *_ATTEMPT), "attempts where session_key = ? order by attempt")
    for attempt, *row in connection.execute(attempts, (key,)):
        _add(state, f"attempts/{attempt}/", _ATTEMPT, row)
    changes = _select(("attempt", *_CHANGE), "status_history where session_key = ? order by id")
    for attempt, *row in connection.execute(changes, (key,)):
        what = "started" if row[_CHANGE.index("status")] == "running" else "ended"
        _add(state, f"status_history/{attempt}/{what}/", _CHANGE, row)
    return state


class FreshStore:
    """An empty store in memory: it shows what effects make of one session at a time."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        make_empty(self._connection)
        self._connection.execute(_NO_LAUNCHES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def state(self, key: str, effects: Effects) -> dict[str, JsonValue]:
        """The fields of the session after these effects of its own. Raises `sqlite3.Error` if they are refused."""
        batch = Batch(GENESIS_HEAD, 0, 0.0, 0.0)
        job = Job(
            id=0,
            seq=0,
            event=AttemptStarted(key, 1, 0.0, None),
            event_hash="",
            depth=0,
            handler="",
            lane=key,
        )
        for effect in effects:
            tables.apply(batch, job, effect)
        # Rolled back in any case: the next session must find an empty store.
        self._connection.execute("begin")
        try:
            for sql, rows, _ in tables.statements(batch):
                self._connection.executemany(sql, rows)
            return state_of(self._connection, key)
        finally:
            self._connection.execute("rollback")


def _select(columns: Sequence[str], chosen: str) -> str:
    return f"select {', '.join(columns)} from {chosen}"  # noqa: S608 # our own words


def _add(state: dict[str, JsonValue], prefix: str, columns: Sequence[str], row: Sequence[JsonValue]) -> None:
    for name, value in zip(columns, row, strict=True):
        is_text_of_json = name in _JSON and isinstance(value, str)
        state[prefix + name] = json.loads(str(value)) if is_text_of_json else value
