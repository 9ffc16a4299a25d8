"""The store as commands read it: read-only, short, and never over all that ever happened."""

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from runward.daemon.store import hash_chain, journals, reading
from runward.daemon.store.reading import StoreUnreadable
from runward.daemon.store.schema import migrate
from runward.daemon.store.tables import actions, journal_lines, session_lists
from runward.daemon.store.tables.events import decisions_about, session_events
from runward.daemon.store.tables.jobs import (
    held_by_reason,
    job_due_next,
    jobs_for_events,
    newest_job,
    open_jobs,
    queue_figures,
)

_EVENT = (
    "insert into events (seq, key, type, version, lane, at, recorded_at, cause, depth, payload, hash)"
    " values (?, ?, 'AttemptEnded', 1, ?, ?, ?, ?, 0, '{}', '')"
)
_JOB = (
    "insert into jobs (id, event, handler, lane, state, run_after, epoch, updated_at)"
    " values (?, ?, 'sessions/ended', ?, ?, ?, 1, ?)"
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with an empty store."""
    migrate(tmp_path / "runward.db")
    return tmp_path


def _write(state: Path, sql: str, rows: list[tuple[object, ...]]) -> None:
    with sqlite3.connect(state / "runward.db") as connection:
        connection.executemany(sql, rows)
    connection.close()


def test_before_the_first_daemon_the_store_is_empty_and_none_is_made(tmp_path: Path) -> None:
    assert not reading.exists(str(tmp_path))
    with reading.reading(str(tmp_path)) as connection:
        assert session_lists.sessions(connection) == []
        assert reading.epoch(connection) == 0
    assert list(tmp_path.iterdir()) == []


def test_nothing_can_be_written(state: Path) -> None:
    with pytest.raises(StoreUnreadable, match="readonly"), reading.reading(str(state)) as connection:
        connection.execute("delete from roots")


def test_a_path_with_characters_of_a_uri_is_read(tmp_path: Path) -> None:
    odd = tmp_path / "100%?#&x=1"
    odd.mkdir()
    migrate(odd / "runward.db")
    with reading.reading(str(odd)) as connection:
        assert reading.epoch(connection) == 0
    assert {each.name for each in tmp_path.iterdir()} == {odd.name}


def test_what_reading_leaves_behind_is_for_the_owner_alone(state: Path) -> None:
    (state / "runward.db").chmod(0o600)
    with reading.reading(str(state)) as connection:
        session_lists.sessions(connection)
    assert {stat.S_IMODE(each.stat().st_mode) for each in state.iterdir()} == {0o600}


def test_a_reading_sees_one_moment(state: Path) -> None:
    with reading.reading(str(state)) as connection:
        assert queue_figures(connection, 1e10).waiting == 0
        _write(state, _EVENT, [(1, "a#1/ended", "a", 1.0, 2.0, None)])
        _write(state, _JOB, [(32, 1, "a", "waiting", 0.0, 2.0)])
        assert queue_figures(connection, 1e10).waiting == 0
    with reading.reading(str(state)) as connection:
        assert queue_figures(connection, 1e10) == (1, 0, 0, 2.0)


def test_a_store_that_is_kept_open_is_opened_once_and_each_reading_sees_its_own_moment(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[sqlite3.Connection] = []

    def connect(path: str) -> sqlite3.Connection:
        opened.append(usual(path))
        return opened[-1]

    usual = reading._connect
    monkeypatch.setattr(reading, "_connect", connect)
    monkeypatch.setattr(reading, "_kept", None)
    reading.keep_open()
    for number in range(3):
        with reading.reading(str(state)) as connection:
            assert queue_figures(connection, 1e10).waiting == number
            _write(state, _EVENT, [(number + 1, f"a#{number}/ended", f"a{number}", 1.0, 2.0, None)])
            _write(state, _JOB, [((number + 1) * 32, number + 1, f"a{number}", "waiting", 0.0, 2.0)])
            assert queue_figures(connection, 1e10).waiting == number
    assert len(opened) == 1
    # After a failure it is opened anew.
    with pytest.raises(StoreUnreadable, match="readonly"), reading.reading(str(state)) as connection:
        connection.execute("delete from roots")
    with reading.reading(str(state)) as connection:
        assert queue_figures(connection, 1e10).waiting == 3
    assert len(opened) == 2
    opened[1].close()


def test_a_writer_that_holds_its_transaction_keeps_nobody_from_reading(state: Path) -> None:
    writer = sqlite3.connect(state / "runward.db", isolation_level=None)
    writer.execute("begin immediate")
    writer.execute("update daemon set epoch = 7")
    with reading.reading(str(state)) as connection:
        assert reading.epoch(connection) == 0
    writer.execute("rollback")
    writer.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_store_that_may_not_be_read_says_so(state: Path) -> None:
    (state / "runward.db").chmod(0)
    with pytest.raises(StoreUnreadable, match="check its permissions"), reading.reading(str(state)):
        pass


def test_causes_are_followed_over_lanes_and_the_first_comes_first(state: Path) -> None:
    _write(
        state,
        _EVENT,
        [
            (1, "timer@1", "timer", 1.0, 1.0, None),
            (2, "unrelated", "else", 1.0, 1.0, None),
            (3, "fire-1", "chain", 1.0, 1.0, "timer@1"),
            (4, "native:runs/a#1/started", "native:runs/a", 1.0, 1.0, "fire-1"),
            (5, "native:runs/a#2/started", "native:runs/a", 1.0, 1.0, None),
            (6, "native:runs/ab#1/started", "native:runs/ab", 1.0, 1.0, None),
        ],
    )
    with reading.reading(str(state)) as connection:
        events = session_events(connection, "native:runs/a")
    assert [event.seq for event in events] == [1, 3, 4, 5]


def test_causes_that_run_in_a_circle_come_to_an_end(state: Path) -> None:
    _write(state, _EVENT, [(1, "a#1/x", "a", 1.0, 1.0, "a#1/y"), (2, "a#1/y", "a", 1.0, 1.0, "a#1/x")])
    with reading.reading(str(state)) as connection:
        assert [event.seq for event in session_events(connection, "a")] == [1, 2]


def test_a_waiting_job_names_the_one_that_stops_its_lane(state: Path) -> None:
    _write(state, _EVENT, [(seq, f"a#{seq}/ended", "a", 1.0, 1.0, None) for seq in range(1, 5)])
    _write(
        state,
        _JOB,
        [
            (32, 1, "a", "done", 0.0, 1.0),
            (64, 2, "a", "held", 0.0, 1.0),
            (96, 3, "a", "waiting", 0.0, 1.0),
            (128, 4, "b", "waiting", 9.0, 1.0),
        ],
    )
    with reading.reading(str(state)) as connection:
        jobs = open_jobs(connection)
        due = job_due_next(connection)
    assert [(job.id, job.blocked_by) for job in jobs] == [(64, None), (96, 64), (128, None)]
    assert due == (9.0, "sessions/ended", "b")


_RUNNING = session_lists.Wanted(("running",))


def test_questions_about_the_queue_pass_over_what_is_done(state: Path) -> None:
    """Done jobs and past events are many: no question of `status` or `why` walks through them."""
    plans: list[str] = []
    with reading.reading(str(state)) as connection:
        explained = _Explained(connection, plans)
        session_lists.sessions_by_status(explained)  # type: ignore[arg-type]  # likewise
        session_lists.sessions_called(explained, "a", 2)  # type: ignore[arg-type]  # likewise
        session_lists.sessions(explained, _RUNNING, 100)  # type: ignore[arg-type]  # likewise
        session_lists.waiting_for_answer(explained)  # type: ignore[arg-type]  # likewise
        queue_figures(explained, 1e10)  # type: ignore[arg-type]  # stands in for a connection
        held_by_reason(explained)  # type: ignore[arg-type]  # likewise
        job_due_next(explained)  # type: ignore[arg-type]  # likewise
        actions.actions_waiting(explained)  # type: ignore[arg-type]  # likewise
        open_jobs(explained)  # type: ignore[arg-type]  # likewise
        session_events(explained, "a")  # type: ignore[arg-type]  # likewise
        jobs_for_events(explained, [1])  # type: ignore[arg-type]  # likewise
        newest_job(explained, held=True)  # type: ignore[arg-type]  # likewise
        journal_lines.lines_of(explained, "a")  # type: ignore[arg-type]  # likewise
        journals.read_standing_lines(explained, "a")  # type: ignore[arg-type]  # likewise
        hash_chain.broken_event(explained, "a")  # type: ignore[arg-type]  # likewise
        hash_chain.lines_off_the_chain(explained, "a")  # type: ignore[arg-type]  # likewise
        decisions_about(explained, "a")  # type: ignore[arg-type]  # likewise
    assert [plan for plan in plans if _walks_through_all(plan)] == []


def _walks_through_all(plan: str) -> bool:
    """Whether a step of a plan goes through a whole big table, or all of it below a number."""
    step, table = (*plan.split(), "")[:2]
    if table not in ("j", "b", "jobs", "e", "events", "l", "journal_lines", "decisions", "sessions"):
        return False
    if "VIRTUAL TABLE" in plan or "INDEX jobs_" in plan:
        return False
    return step == "SCAN" or "(rowid<?)" in plan or plan == f"SEARCH {table}"


class _Explained:
    """A connection that also keeps the plan of every query."""

    def __init__(self, connection: sqlite3.Connection, plans: list[str]) -> None:
        self._connection = connection
        self._plans = plans

    def execute(self, sql: str, parameters: tuple[object, ...] = ()) -> sqlite3.Cursor:
        for row in self._connection.execute(f"explain query plan {sql}", parameters):
            self._plans.append(row[3])
        return self._connection.execute(sql, parameters)
