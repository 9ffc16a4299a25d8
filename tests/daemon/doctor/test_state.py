"""What lies in the state directory: rights, lock, store, queue, and the daemon that holds it."""

import fcntl
import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from tests.daemon.doctor.examined import findings, installation, results, root

from runward.daemon.doctor import daemons, machine, settings
from runward.daemon.doctor.checks import Examine
from runward.daemon.doctor.findings import Patience
from runward.daemon.doctor.state import examine_queue, examine_rights, examine_store
from runward.daemon.host.report import Report, RootReport, write_report
from runward.daemon.store.ownership import hold
from runward.daemon.store.schema import migrate
from runward.daemon.users import name_of
from runward.daemon.watch import notifications as watch
from runward.daemon.watch.hints import Coverage
from runward.handlers.model.processes import FIRST_NAMESPACE


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with an empty store."""
    place = tmp_path / "state"
    place.mkdir(mode=0o700)
    migrate(place / "runward.db")
    (place / "runward.db").chmod(0o600)
    return place


@pytest.mark.parametrize(
    "examine",
    [
        examine_rights,
        machine.examine_lock,
        machine.examine_database,
        settings.examine_roots,
        examine_queue,
        machine.examine_notifications,
    ],
)
def test_where_no_daemon_has_run_nothing_fails_and_nothing_is_made(tmp_path: Path, examine: Examine) -> None:
    examined = installation(tmp_path / "state", root(tmp_path / "state" / "runs"))
    assert "failed" not in results(findings(examine, examined))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("examine", [machine.examine_durability, machine.examine_clocks])
def test_what_is_measured_is_said_and_leaves_nothing(state: Path, examine: Examine) -> None:
    before = sorted(state.iterdir())
    assert "failed" not in results(findings(examine, installation(state)))
    assert sorted(state.iterdir()) == before


def test_rights_that_let_others_in_are_found_with_the_command_that_takes_them(state: Path) -> None:
    assert results(findings(examine_rights, installation(state))) == ["ok"]
    (state / "runward.db").chmod(0o644)
    (found,) = findings(examine_rights, installation(state))
    assert (found.result, found.fix) == ("warning", f"chmod go= {state}/runward.db")


def test_an_inbox_that_others_may_write_to_fails_with_the_command_that_closes_it(state: Path) -> None:
    (state / "inbox").mkdir()
    (state / "inbox").chmod(0o733)
    found = findings(examine_rights, installation(state))
    assert (found[0].result, found[0].fix) == ("failed", f"chmod go-w {state}/inbox")


def test_files_of_the_operator_that_others_may_write_to_are_found_and_not_those_of_the_users_own_group(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = tmp_path / "chains"
    chains.mkdir()
    chains.chmod(0o775)
    examined = installation(state)
    examined = replace(examined, settings=examined.settings._replace(chains=(str(chains),)))
    monkeypatch.setattr("runward.daemon.users._is_own_group", lambda uid, gid: True)
    assert results(findings(examine_rights, examined)) == ["ok", "ok"]
    monkeypatch.setattr("runward.daemon.users._is_own_group", lambda uid, gid: False)
    found = findings(examine_rights, examined)[-1]
    assert (found.result, found.fix) == ("warning", f"chmod go-w {chains}")


def test_a_state_directory_that_is_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    assert results(findings(examine_rights, installation(tmp_path / "state"))) == ["failed"]


def test_a_lock_that_keeps_nobody_out_fails(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that takes every lock for granted."""
    monkeypatch.setattr(fcntl, "flock", lambda descriptor, operation: None)
    (found,) = findings(machine.examine_lock, installation(state))
    assert (found.result, "doesn't keep another process out" in found.message) == ("failed", True)
    assert found.fix


def test_a_sound_store_is_well(state: Path) -> None:
    assert results(findings(examine_store, installation(state))) == ["ok", "ok", "ok"]


def test_without_a_store_nothing_is_checked(tmp_path: Path) -> None:
    assert results(findings(examine_store, installation(tmp_path))) == ["skipped"]


@pytest.mark.parametrize(("version", "result"), [(9999, "failed"), (1, "warning")])
def test_a_store_of_another_version_is_found(state: Path, version: int, result: str) -> None:
    connection = sqlite3.connect(state / "runward.db")
    connection.execute(f"pragma user_version = {version}")
    connection.close()
    found = findings(examine_store, installation(state))
    assert (found[0].result, f"has version {version}" in found[0].message) == (result, True)


def test_a_damaged_store_fails(state: Path) -> None:
    with (state / "runward.db").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    found = findings(examine_store, installation(state))
    assert found[-1].result == "failed"
    assert found[-1].message.startswith("the store is damaged: ")
    assert "\n" not in found[-1].message
    assert "runward restore" in str(found[-1].fix)


def test_what_is_no_store_fails(state: Path) -> None:
    (state / "runward.db").write_bytes(b"something else" * 1000)
    assert results(findings(examine_store, installation(state))) == ["failed"]


def test_another_process_that_could_write_to_the_store_is_found(state: Path) -> None:
    connection = sqlite3.connect(state / "runward.db")
    connection.execute("select * from daemon").fetchall()
    examined = installation(state)
    mine = {each.pid: each for each in daemons._openers(state, Patience(60))}
    connection.close()
    assert mine[os.getpid()].writes
    assert results(findings(daemons.examine_daemon, examined)) == ["warning"]


@pytest.mark.parametrize(
    ("namespace", "layout", "is_told"),
    [
        (FIRST_NAMESPACE, "claude-code", False),
        (FIRST_NAMESPACE - 1, "claude-code", True),
        (FIRST_NAMESPACE - 1, "native", False),
    ],
)
def test_a_daemon_in_a_container_that_follows_agents_outside_is_told_of_with_the_fix(
    state: Path, monkeypatch: pytest.MonkeyPatch, namespace: int, layout: str, is_told: bool
) -> None:
    monkeypatch.setattr(daemons, "pid_namespace", lambda: namespace)
    found = findings(daemons.examine_daemon, installation(state, root(state / "projects", layout)))
    assert [each.result for each in found if "--pid=host" in str(each.fix)] == ["warning"] * is_told


def test_a_lock_without_a_report_is_a_daemon_that_begins(state: Path) -> None:
    held = hold(state)
    try:
        (found,) = findings(daemons.examine_daemon, installation(state))
    finally:
        held.release()
    assert (found.result, "has not reported yet" in found.message) == ("warning", True)


def test_roots_that_are_not_there_or_no_directories_are_found(tmp_path: Path, state: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "file").touch()
    examined = installation(
        state, root(tmp_path / "runs"), root(tmp_path / "gone"), root(tmp_path / "file"), root(state / "own")
    )
    found = findings(settings.examine_roots, examined)
    assert results(found) == ["ok", "warning", "failed", "ok"]


def test_runs_that_the_daemon_can_not_read_fail_with_who_may_start_runs_and_how(
    tmp_path: Path, state: Path
) -> None:
    (tmp_path / "runs").mkdir()
    held = hold(state)
    try:
        problem = "runs in it can't be read, and are not judged: x (Permission denied)"
        ill = RootReport("runs", str(tmp_path / "runs"), "native", "ok", problem)
        write_report(state, Report(1, 1, "1", 0.0, Coverage(), None, None, None, None, 0, 0, [], [ill]))
        (found,) = findings(settings.examine_roots, installation(state, root(tmp_path / "runs")))
    finally:
        held.release()
    assert (found.result, problem in found.message) == ("failed", True)
    how = f"sudo -u {name_of(os.geteuid())} RUNWARD_STATE_DIR={state} runward run -- COMMAND"
    assert f"`{how}`" in str(found.fix)


def test_directories_are_held_against_what_may_be_watched(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/b/c", "d", "e"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    watches, instances = tmp_path / "watches", tmp_path / "instances"
    instances.write_text("100000\n")
    monkeypatch.setattr(machine, "INSTANCES", instances)
    monkeypatch.setattr(watch, "LIMITS", {"fs.inotify.max_user_watches": watches})
    told = {}
    for limit in (1000, 14, 10):
        watches.write_text(f"{limit}\n")
        told[limit] = findings(machine.examine_notifications, installation(state, root(tmp_path / "runs")))[1]
    assert {limit: each.result for limit, each in told.items()} == {1000: "ok", 14: "warning", 10: "warning"}
    assert "the roots have 6 directories (runs 6) of the 5 that may be watched" in told[10].message
    assert str(told[10].fix).startswith("sysctl fs.inotify.max_user_watches=24")


def test_of_two_limits_the_narrower_one_counts_as_it_does_for_the_daemon(
    state: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limits = {"fs.inotify.max_user_watches": 1000, "user.max_inotify_watches": 2}
    for name, limit in limits.items():
        (tmp_path / name).write_text(f"{limit}\n")
    monkeypatch.setattr(watch, "LIMITS", {name: tmp_path / name for name in limits})
    (tmp_path / "runs/a/b").mkdir(parents=True)
    told = findings(machine.examine_notifications, installation(state, root(tmp_path / "runs")))[1]
    assert told.result == "warning"
    assert str(told.fix).startswith("sysctl user.max_inotify_watches=")


def test_a_system_that_hides_its_limits_is_told_of(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LIMITS", {"fs.inotify.max_user_watches": tmp_path / "nowhere"})
    assert results(findings(machine.examine_notifications, installation(state)))[1:] == ["skipped"]


@pytest.mark.parametrize(
    ("version", "is_told"),
    [
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 53, 1), False),
    ],
)
def test_a_sqlite_with_the_wal_reset_bug_is_told_of(
    state: Path, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int], is_told: bool
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    found = findings(machine.examine_database, installation(state))
    assert results(found) == (["ok", "ok"] if is_told else ["ok"])
    assert ("WAL-reset" in found[-1].message) is is_told


def test_a_sqlite_without_strict_tables_fails(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    assert results(findings(machine.examine_database, installation(state))) == ["failed"]
