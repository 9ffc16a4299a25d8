"""What the database itself refuses, no matter who asks, by plain SQL."""

import sqlite3

import pytest

SESSION = (
    "insert into sessions (key, session_id, layout, root, path, kind, status, attempt, origin, started_at, reason_code,"
    " reason_summary, evidence_refs, artifacts_path, artifact_contract_json, contract_basis)"
    " values ('k', 's', 'native', 'runs', '/r', 'agent', 'running', 1, 'live', 1.0, 'c', 's', '[]', '/a', ?, ?)"
)
EVENT = (
    "insert into events (seq, key, type, version, lane, at, recorded_at, depth, payload, hash)"
    " values (?, ?, 't', 1, 'l', 1.0, 1.0, ?, '{}', 'h')"
)
JOB = (
    "insert into jobs (id, event, handler, lane, state, epoch, updated_at) values (?, ?, 'h', 'l', ?, 1, 1.0)"
)


@pytest.mark.parametrize(
    "change",
    [
        "artifact_contract_json = '{}'",
        "artifact_contract_json = null",
        "contract_basis = 'late'",
        "contract_basis = null",
        "status = 'completed', artifact_contract_json = ''",
    ],
)
def test_a_contract_never_changes(store: sqlite3.Connection, change: str) -> None:
    store.execute(SESSION, ('{"expected":[]}', "launcher"))
    with pytest.raises(sqlite3.IntegrityError, match="a contract never changes"):
        store.execute(f"update sessions set {change}")
    assert store.execute("select artifact_contract_json, contract_basis from sessions").fetchall() == [
        ('{"expected":[]}', "launcher")
    ]


def test_no_contract_stays_none(store: sqlite3.Connection) -> None:
    store.execute(SESSION, (None, None))
    with pytest.raises(sqlite3.IntegrityError, match="a contract never changes"):
        store.execute("update sessions set artifact_contract_json = '{}', contract_basis = 'late'")


def test_everything_else_of_a_session_may_change(store: sqlite3.Connection) -> None:
    store.execute(SESSION, ("{}", "launcher"))
    store.execute("update sessions set status = 'failed', attempt = 2, artifact_contract_json = '{}'")
    assert store.execute("select status, attempt from sessions").fetchall() == [("failed", 2)]


@pytest.mark.parametrize(
    "change", ["ended_by = 'quiet'", "status = 'completed'", "ended_by = null", "ended_at = 9.0"]
)
def test_an_attempt_ends_once(store: sqlite3.Connection, change: str) -> None:
    store.execute(SESSION, (None, None))
    store.execute(
        "insert into attempts (session_key, attempt, started_at, status) values ('k', 1, 1.0, 'running')"
    )
    store.execute("update attempts set ended_by = 'process_gone', status = 'aborted', ended_at = 2.0")
    with pytest.raises(sqlite3.IntegrityError, match="an attempt ends once"):
        store.execute(f"update attempts set {change}")


def test_an_attempt_exists_once_and_only_of_a_session(store: sqlite3.Connection) -> None:
    insert = "insert into attempts (session_key, attempt, started_at, status) values (?, 1, 1.0, 'running')"
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        store.execute(insert, ("k",))
    store.execute(SESSION, (None, None))
    store.execute(insert, ("k",))
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        store.execute(insert, ("k",))


def test_an_event_is_recorded_once_for_its_key_and_never_changed(store: sqlite3.Connection) -> None:
    store.execute(EVENT, (1, "key", 0))
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE: an event"):
        store.execute(EVENT, (2, "key", 0))
    for change in ("payload = '{\"x\":1}'", "hash = 'other'", "key = 'other'", "at = 9.0"):
        with pytest.raises(sqlite3.IntegrityError, match="an event is never changed"):
            store.execute(f"update events set {change}")


def test_events_cause_one_another_only_so_deep(store: sqlite3.Connection) -> None:
    store.execute(EVENT, (1, "deep", 32))
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        store.execute(EVENT, (2, "deeper", 33))


@pytest.mark.parametrize(
    ("job", "match"),
    [((32, 1, "asleep"), "CHECK"), ((64, 1, "waiting"), "CHECK"), ((320, 10, "waiting"), "FOREIGN KEY")],
)
def test_a_job_has_a_known_state_and_belongs_to_its_event(
    store: sqlite3.Connection, job: tuple[int, int, str], match: str
) -> None:
    store.execute(EVENT, (1, "key", 0))
    with pytest.raises(sqlite3.IntegrityError, match=match):
        store.execute(JOB, job)


@pytest.mark.parametrize("status", ["Running", "done", ""])
def test_a_session_has_a_known_status(store: sqlite3.Connection, status: str) -> None:
    store.execute(SESSION, (None, None))
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        store.execute("update sessions set status = ?", (status,))


def test_a_number_where_a_text_belongs_is_refused(store: sqlite3.Connection) -> None:
    store.execute(SESSION, (None, None))
    with pytest.raises(sqlite3.IntegrityError, match="cannot store TEXT value in INTEGER"):
        store.execute("update sessions set attempt = 'two'")


def test_there_is_one_epoch(store: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        store.execute("insert into daemon (id, epoch) values (2, 7)")


FILE = (
    "insert into files (session_key, attempt, id, path, size, modified_ns, sha256, problem, hashed_at)"
    " values ('k', ?, 'a', 'a.md', 5, 7, ?, ?, 2.0)"
)
DIGEST = "ab" * 32


@pytest.fixture
def attempt(store: sqlite3.Connection) -> sqlite3.Connection:
    """A store with one attempt of one session."""
    store.execute(SESSION, (None, None))
    store.execute(
        "insert into attempts (session_key, attempt, started_at, status) values ('k', 1, 1.0, 'running')"
    )
    return store


def test_what_an_attempt_had_produced_never_changes(attempt: sqlite3.Connection) -> None:
    attempt.execute("update attempts set ended_by = 'declared', produced = '[]'")
    with pytest.raises(sqlite3.IntegrityError, match="an attempt ends once"):
        attempt.execute("update attempts set produced = null")


@pytest.mark.parametrize(
    ("digest", "problem"), [(DIGEST, None), (DIGEST, "changed"), (None, "gone"), (None, "too_large")]
)
def test_a_file_has_a_hash_or_the_problem_that_it_has_none_or_a_hash_of_something_else(
    attempt: sqlite3.Connection, digest: str | None, problem: str | None
) -> None:
    attempt.execute(FILE, (1, digest, problem))
    assert attempt.execute("select sha256, problem from files").fetchall() == [(digest, problem)]


@pytest.mark.parametrize(
    ("digest", "problem"),
    [
        (None, None),
        (None, "changed"),
        (DIGEST, "gone"),
        ("ab", None),
        (None, "nonsense"),
        (DIGEST, "nonsense"),
    ],
)
def test_a_file_can_not_say_anything_else(
    attempt: sqlite3.Connection, digest: str | None, problem: str | None
) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        attempt.execute(FILE, (1, digest, problem))


def test_a_file_is_recorded_once_of_an_attempt_that_exists_and_never_changed(
    attempt: sqlite3.Connection,
) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        attempt.execute(FILE, (2, DIGEST, None))
    attempt.execute(FILE, (1, DIGEST, None))
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        attempt.execute(FILE, (1, DIGEST, None))
    with pytest.raises(sqlite3.IntegrityError, match="what was recorded of a file is never changed"):
        attempt.execute("update files set sha256 = null, problem = 'gone'")


def test_no_fact_is_replaced(attempt: sqlite3.Connection) -> None:
    attempt.execute(EVENT, (1, "key", 0))
    attempt.execute(FILE, (1, DIGEST, None))
    for statement in (
        (
            "insert into status_history (id, session_key, attempt, at, status, reason_code, reason_summary,"
            " evidence_refs, source) values (1, 'k', 1, 1.0, 'failed', 'c', 's', '[]', 'daemon')"
        ),
        (
            "insert into decisions (id, event, handler, subject, at, verdict, summary, known)"
            " values (1, 1, 'h', 's', 1.0, 'decided', 's', '{}')"
        ),
        "insert into journal_lines (id, directory, name, live, content) values (256, '/r', 'n', 1, x'0a')",
        (
            "insert into starts (key, event, session_key, name, directory, effect, state)"
            " values ('s', 1, 'k', 'n', '/r', '{}', 'owed')"
        ),
        "insert into launches (id, session_key, at, seal, launcher, process) values ('l', 'k', 1.0, 's', '[]', '[]')",
    ):
        attempt.execute(statement)
    replaced = "insert or replace into"
    for table in (
        "events", "sessions", "attempts", "status_history", "decisions", "files", "journal_lines", "starts", "launches"
    ):  # fmt: skip
        columns = [row[1] for row in attempt.execute(f"select * from pragma_table_info('{table}')")]
        names = ", ".join(f'"{name}"' for name in columns)
        before = attempt.execute(f"select {names} from {table}").fetchall()
        assert len(before) == 1, table
        with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
            attempt.execute(f"{replaced} {table} ({names}) select {names} from {table}")
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        attempt.execute(EVENT.replace("insert into", replaced), (2, "key", 0))
