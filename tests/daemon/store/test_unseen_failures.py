"""Failures that nobody has seen are counted as they come and go, so that no page counts them."""

import random
import sqlite3
from typing import Final

import pytest

from runward.daemon.store.tables.session_lists import LATELY, is_unseen_failure, unseen_failures

NOW: Final = 1_000_000.0
STATUSES: Final = ("running", "completed", "failed", "timed_out", "aborted", "cancelled")
COUNTED: Final = (
    "select key from sessions s where packed = 0 and finished_at >= ? and status in ('failed', 'timed_out', 'aborted')"
    " and reason_code <> 'run.aborted.user' and origin = 'live'"
    " and not exists (select 1 from events e where e.key = s.key || '#' || s.attempt || '/seen')"
    " order by finished_at desc, key"
)


class Sessions:
    """Ten sessions, to which anything happens, in any order."""

    def __init__(self, store: sqlite3.Connection, seed: int) -> None:
        self._store = store
        self._any = random.Random(seed)
        self._events = 0

    def step(self) -> None:
        """Something happens to one of them."""
        key = f"native:runs/{self._any.randrange(10)}"
        if not self._store.execute("select 1 from sessions where key = ?", (key,)).fetchone():
            self._store.execute(
                "insert into sessions (key, session_id, layout, root, path, kind, status, attempt, origin, started_at,"
                " reason_code, reason_summary, evidence_refs, artifacts_path)"
                " values (?1, ?1, 'native', 'runs', '/', 'agent', 'running', 1, ?2, 1.0, 'r', '', '[]', '/')",
                (key, self._any.choice(("live", "live", "history"))),
            )
            return
        self._any.choice((self._change, self._change, self._change, self._see, self._pack, self._delete))(key)

    def _change(self, key: str) -> None:
        status = self._any.choice(STATUSES)
        ended = (
            None if status == "running" else NOW - self._any.choice((0, 59, LATELY - 1, LATELY, LATELY + 90))
        )
        self._store.execute(
            "update sessions set status = ?, finished_at = ?, attempt = attempt + ?, reason_code = ? where key = ?",
            (status, ended, self._any.randrange(2), self._any.choice(("r", "r", "run.aborted.user")), key),
        )

    def _see(self, key: str) -> None:
        self._events += 1
        attempt = self._any.randrange(1, 5)
        self._store.execute(
            "insert into events (seq, key, type, version, lane, at, recorded_at, payload, hash)"
            " select ?1, ?2, 'SessionSeenRequested', 1, ?3, 1.0, 1.0, '{}', ''"
            " where not exists (select 1 from events where key = ?2)",
            (self._events, f"{key}#{attempt}/seen", key),
        )

    def _pack(self, key: str) -> None:
        self._store.execute("update sessions set packed = not packed where key = ?", (key,))

    def _delete(self, key: str) -> None:
        self._store.execute("delete from sessions where key = ?", (key,))


@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_to_sessions_the_failures_are_those_that_counting_finds(
    store: sqlite3.Connection, seed: int
) -> None:
    sessions = Sessions(store, seed)
    for _ in range(200):
        sessions.step()
        keys = [key for (key,) in store.execute(COUNTED, (NOW - LATELY,))]
        total, newest = unseen_failures(store, NOW)
        assert (total, [row.key for row in newest]) == (len(keys), keys)
        assert [row.key for row in unseen_failures(store, NOW, 2).newest] == keys[:2]
    assert all(
        is_unseen_failure(store, key, NOW) == (key in keys)
        for (key,) in store.execute("select key from sessions")
    )
