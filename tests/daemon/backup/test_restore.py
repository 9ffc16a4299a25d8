"""Restoring a backup: what is kept, what is fenced, and what must not begin twice."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from runward.daemon.backup import MAYBE_BEGUN, Damaged, Plan, back_up, examine_for, plan_restore, restore
from runward.daemon.disk.credentials import TOKENS, create_token, list_tokens, revoke_token
from runward.daemon.disk.epoch import read_epoch, write_epoch
from runward.daemon.launch.ticket import has_ticket, take_ticket
from runward.daemon.store.hash_chain import GENESIS_HEAD, link
from runward.daemon.store.ownership import prepare
from runward.daemon.store.packed_document import COLUMNS, Document, pack
from runward.daemon.store.reading import StoreRefused
from runward.daemon.store.schema import migrate
from runward.daemon.store.transaction import Row
from runward.handlers.model.requests import PlayRunRequested

NOW = 1_790_000_000.0
ASKED = PlayRunRequested("a-request", 1.0, "review", {}, "/")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory whose daemon, of epoch 4, just ended."""
    directory = tmp_path / "state"
    prepare(directory)
    migrate(directory / "runward.db")
    change(directory / "runward.db", "update daemon set epoch = 4")
    write_epoch(directory, 4)
    return directory


@pytest.fixture
def backup(state: Path, tmp_path: Path) -> Path:
    back_up(state / "runward.db", tmp_path / "backup.db")
    return tmp_path / "backup.db"


def change(path: Path, sql: str, *parameters: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(sql, parameters)


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def planned(state: Path, backup: Path) -> Plan:
    return plan_restore(state, backup, examine_for(state, backup), NOW)


def carry_out(state: Path, backup: Path) -> None:
    restore(state, planned(state, backup), NOW)


def owe_start(state: Path, tmp_path: Path) -> Path:
    """A backup of a store that still has to start a run."""
    with closing(sqlite3.connect(state / "runward.db", isolation_level=None)) as connection:
        add_request(connection, "waiting")
        connection.execute("update jobs set state = 'done'")
        connection.execute(
            "insert into starts (key, event, session_key, name, directory, effect, state)"
            " values ('a-request', 1, 'native:runs/review-1', 'review-1', ?, '{}', 'owed')",
            (str(tmp_path / "runs" / "review-1"),),
        )
    back_up(state / "runward.db", tmp_path / "owing.db")
    return tmp_path / "owing.db"


def add_request(connection: sqlite3.Connection, job: str) -> None:
    recorded = link(GENESIS_HEAD, ASKED, 1.0, None, 0)
    connection.execute(
        "insert into events (seq, key, type, version, lane, at, recorded_at, cause, depth, payload, hash)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            1,
            ASKED.key,
            ASKED.type,
            ASKED.version,
            ASKED.lane,
            ASKED.at,
            1.0,
            None,
            0,
            recorded.payload,
            recorded.hash,
        ),
    )
    connection.execute(
        "insert into jobs (id, event, handler, lane, state, epoch, updated_at) values (32, 1, 'requests/play', ?, ?, 4, 1)",
        (ASKED.lane, job),
    )


def begin_and_forget(state: Path) -> None:
    """A launcher took the start up; a later daemon threw its ticket away."""
    ticket = take_ticket(state, ASKED.key, 4)
    ticket.mark()
    ticket.close()
    for each in (state / "starts").iterdir():
        each.unlink()
    write_epoch(state, 5)


def test_the_epoch_is_higher_than_any_before_in_the_store_and_beside_it(state: Path, backup: Path) -> None:
    change(state / "runward.db", "update daemon set epoch = 9")
    write_epoch(state, 8)
    carry_out(state, backup)
    assert rows(state / "runward.db", "select epoch, stopped_cleanly from daemon") == [(10, 0)]
    assert read_epoch(state) == 10
    carry_out(state, backup)
    assert rows(state / "runward.db", "select epoch from daemon") == [(11,)]
    assert rows(state / "runward.db", "select head_seq, epoch from restores") == [(0, 11)]


def test_a_backup_has_no_tokens_and_a_restore_brings_none_back(state: Path, tmp_path: Path) -> None:
    kept, _ = create_token(state, "writer", 1.0)
    revoked, _ = create_token(state, "writer", 2.0)
    back_up(state / "runward.db", tmp_path / "backup.db")
    assert [path.name for path in tmp_path.iterdir() if path != state] == ["backup.db"]
    for token in (kept, revoked):
        content = json.loads((state / TOKENS / f"{token.id}.json").read_text())
        for said in (token.id, content["sha256"]):
            assert said.encode() not in (tmp_path / "backup.db").read_bytes()
    assert revoke_token(state, revoked.id)
    carry_out(state, tmp_path / "backup.db")
    assert list_tokens(state) == [kept]


def test_what_chains_have_seen_and_know_of_files_begins_anew(state: Path, backup: Path) -> None:
    held = "insert into held_events (chain, key, at, items, trigger_hash, event, event_id, fields) values"
    change(backup, f"{held} ('c', 'k', 1.0, '[0]', 'h', 'e', 'i', '{{}}')")
    change(backup, "insert into watched_globs values ('/a/*', 1.0)")
    change(backup, "insert into watched_files values ('/a/*', '/a/b', '1:2:3')")
    carry_out(state, backup)
    for table in ("held_events", "watched_globs", "watched_files"):
        assert rows(state / "runward.db", f"select * from {table}") == []


def test_the_current_store_is_kept_whole_with_what_only_its_log_has(state: Path, backup: Path) -> None:
    with closing(sqlite3.connect(state / "runward.db", isolation_level=None)) as connection:
        connection.execute("insert into problems (path, message, since) values ('a', 'b', 0)")
        for end in ("", "-wal"):  # as a kill leaves it
            (state / f"copy.db{end}").write_bytes((state / f"runward.db{end}").read_bytes())
    for end in ("", "-wal"):
        os.rename(state / f"copy.db{end}", state / f"runward.db{end}")
    plan = planned(state, backup)
    restore(state, plan, NOW)
    assert plan.kept == state / "runward.before-restore-20260921T141320Z.db"
    assert rows(plan.kept, "select path from problems") == [("a",)]
    assert rows(state / "runward.db", "select path from problems") == []
    assert sorted(each.name for each in state.glob("*.db*")) == [plan.kept.name, "runward.db"]
    assert {each.stat().st_mode & 0o777 for each in state.glob("*.db")} == {0o600}
    again = planned(state, backup)
    assert again.kept == state / "runward.before-restore-20260921T141320Z-2.db"


def test_a_store_that_can_not_be_read_is_kept_as_it_is(state: Path, backup: Path) -> None:
    wreck = b"this was a store once" * 1000
    (state / "runward.db").write_bytes(wreck)
    (state / "runward.db-wal").write_bytes(b"and its log")
    plan = planned(state, backup)
    assert plan.current is not None
    assert plan.current.newer is None
    restore(state, plan, NOW)
    assert plan.kept is not None
    assert plan.kept.read_bytes() == wreck
    assert Path(f"{plan.kept}-wal").read_bytes() == b"and its log"
    assert rows(state / "runward.db", "select epoch from daemon") == [(5,)]


def test_a_lost_disk_is_no_hindrance(backup: Path, tmp_path: Path) -> None:
    empty = tmp_path / "new"
    prepare(empty)
    plan = planned(empty, backup)
    assert (plan.current, plan.kept, plan.epoch) == (None, None, 5)
    restore(empty, plan, NOW)
    assert rows(empty / "runward.db", "pragma integrity_check") == [("ok",)]
    assert read_epoch(empty) == 5


def test_planning_changes_nothing(state: Path, backup: Path) -> None:
    before = {each.name: each.read_bytes() for each in state.iterdir() if each.is_file()}
    planned(state, backup)
    after = {each.name: each.read_bytes() for each in state.iterdir() if each.is_file()}
    assert {name: after[name] for name in before if not name.endswith("-shm")} == {
        name: content for name, content in before.items() if not name.endswith("-shm")
    }
    assert {name for name in after if name not in before} <= {"runward.db-shm", "runward.db-wal"}


def test_what_is_no_sound_backup_changes_nothing(state: Path, backup: Path) -> None:
    whole = backup.read_bytes()
    backup.write_bytes(whole[:5000])
    with pytest.raises(Damaged):
        planned(state, backup)
    backup.write_bytes(whole)
    change(backup, "pragma user_version = 9999")
    with pytest.raises(StoreRefused):
        planned(state, backup)
    assert read_epoch(state) == 4


def test_a_restore_that_the_disk_refuses_leaves_the_store_as_it_was(
    state: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(state / "runward.db", "insert into problems (path, message, since) values ('a', 'b', 0)")
    plan = planned(state, backup)

    def refuse(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="No space left"):
        restore(state, plan, NOW)
    monkeypatch.undo()
    assert rows(state / "runward.db", "select path from problems") == [("a",)]
    assert [each.name for each in state.iterdir() if "restor" in each.name] == []


def test_what_the_backup_still_had_to_start_is_left_to_its_launcher_where_its_daemon_was_the_last(
    state: Path, tmp_path: Path
) -> None:
    owing = owe_start(state, tmp_path)
    plan = planned(state, owing)
    assert (plan.starts, plan.jobs) == ((), ())
    restore(state, plan, NOW)
    assert rows(state / "runward.db", "select state from starts") == [("owed",)]


def test_what_may_have_begun_without_a_trace_is_not_started_again(state: Path, tmp_path: Path) -> None:
    owing = owe_start(state, tmp_path)
    begin_and_forget(state)
    plan = planned(state, owing)
    assert plan.starts == ("review-1",)
    restore(state, plan, NOW)
    assert rows(state / "runward.db", "select state, why from starts") == [("owed", MAYBE_BEGUN)]


@pytest.mark.parametrize("trace", ["its directory", "its ticket"])
def test_where_a_launcher_finds_out_by_itself_it_is_asked(state: Path, tmp_path: Path, trace: str) -> None:
    owing = owe_start(state, tmp_path)
    begin_and_forget(state)
    if trace == "its directory":
        (tmp_path / "runs" / "review-1").mkdir(parents=True)
        (tmp_path / "runs" / "review-1" / "run.json").write_text("{}")
    else:
        take_ticket(state, ASKED.key, 5).close()
    assert planned(state, owing).starts == ()


@pytest.mark.parametrize("before", ["waiting", "held"])
@pytest.mark.parametrize(("begun", "held"), [(False, ()), (True, (32,))])
def test_a_request_that_was_not_decided_yet_is_held_where_it_may_have_begun(
    state: Path, tmp_path: Path, begun: bool, held: tuple[int, ...], before: str
) -> None:
    with closing(sqlite3.connect(state / "runward.db", isolation_level=None)) as connection:
        add_request(connection, before)
    back_up(state / "runward.db", tmp_path / "asked.db")
    if begun:
        begin_and_forget(state)
        assert not has_ticket(state, ASKED.key)
    plan = planned(state, tmp_path / "asked.db")
    assert tuple(job.id for job in plan.jobs) == held
    restore(state, plan, NOW)
    expected = ("held", MAYBE_BEGUN) if begun else (before, None)
    assert rows(state / "runward.db", "select state, error from jobs") == [expected]


def test_journals_among_our_own_state_that_are_gone_are_listed_to_be_written_again(
    state: Path, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(state / "runward.db", isolation_level=None)) as connection:
        add_request(connection, "waiting")
        for number, directory in enumerate(
            ("sessions/codex/aa/gone", "sessions/codex/aa/there", "/elsewhere")
        ):
            connection.execute(
                'insert into journal_lines (id, directory, name, live, content, "offset") values (?, ?, ?, 0, ?, 0)',
                (256 + number, directory, "events.jsonl", b"a line\n"),
            )
    (state / "sessions/codex/aa/there").mkdir(parents=True)
    (state / "sessions/codex/aa/there/events.jsonl").write_bytes(b"a line\n")
    back_up(state / "runward.db", tmp_path / "told.db")
    carry_out(state, tmp_path / "told.db")
    assert rows(state / "runward.db", "select directory, session_key from uncompared") == [
        ("sessions/codex/aa/gone", ASKED.lane)
    ]


def test_gone_journals_of_packed_sessions_are_written_again_at_once(state: Path, tmp_path: Path) -> None:
    own, theirs = "sessions/codex/aa/own", str(tmp_path / "runs" / "theirs")
    lines = [
        (512, own, "events.jsonl", 0, b"the second\n", 10, None, None),
        (256, own, "events.jsonl", 0, b"the first\n", 0, None, None),
        (513, own, "REPLAY.jsonl", 0, b"a replay\n", 0, None, None),
        (514, own, "events.jsonl", 0, b"never written\n", None, None, "gone"),
        (515, theirs, "events.jsonl", 0, b"in a run\n", 0, None, None),
    ]
    rows: dict[str, list[Row]] = {table: [] for table in COLUMNS}
    rows["journal_lines"] += lines
    document = pack(Document("[]", None, {}, rows))
    change(state / "runward.db", "insert into packed values ('codex:a', 1.0, ?)", document)
    change(state / "runward.db", "insert into adopted_lines values (513, ?)", b"as it stood\n")
    back_up(state / "runward.db", tmp_path / "packed.db")
    carry_out(state, tmp_path / "packed.db")
    assert (state / own / "events.jsonl").read_bytes() == b"the first\nthe second\n"
    assert (state / own / "REPLAY.jsonl").read_bytes() == b"as it stood\n"
    assert not Path(theirs).exists()
    (state / own / "events.jsonl").write_bytes(b"it is here\n")
    carry_out(state, tmp_path / "packed.db")
    assert (state / own / "events.jsonl").read_bytes() == b"it is here\n"
