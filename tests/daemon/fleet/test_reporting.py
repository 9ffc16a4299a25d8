"""Each host's daemon reports its sessions, whatever happens in between: each arrives once, and nothing waits for it."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from tests.daemon.cli.calling import CONTRACT, Place
from tests.daemon.fleet.database import Server
from tests.daemon.fleet.places import joined, new_place
from tests.waiting import wait_for

pytestmark = pytest.mark.prove
"""Each starts daemons with programs, which takes several seconds."""


def _reported(server: Server, database: str) -> dict[tuple[str, str], str]:
    """The status of each session that the fleet has, by host and id."""
    with server.admin(database) as admin:
        rows = admin.execute("select host, body ->> 'session_id', status from runward.sessions").fetchall()
    return {(str(host), str(session)): str(status) for host, session, status in rows}


def _owes(place: Place, kind: str = "*") -> int:
    ((count,),) = place.rows(f"select count(*) from fleet_outbox where kind glob '{kind}'")
    return int(str(count))


def _program(place: Place) -> int:
    """The process id of the program of this place's daemon."""
    lines = (place.state / "log/runward.jsonl").read_text().splitlines()
    started = [line for line in map(json.loads, lines) if line["event"] == "fleet.started"]
    return int(started[-1]["pid"]) if started else 0


def test_two_hosts_report_what_they_judged_before_and_since(
    postgresql: Server, database: str, office: Place, laptop: Place, tmp_path: Path
) -> None:
    build = new_place(tmp_path / "build")
    laptop.add_run("before", exit_code=0)
    laptop.daemon_once()
    joined(office, laptop, "laptop")
    joined(office, build, "build")
    with laptop.daemon(), build.daemon():
        laptop.add_run("since", exit_code=3)
        build.add_run("silent", exit_code=0, contract=CONTRACT)
        expected = {
            ("laptop", "before"): "completed",
            ("laptop", "since"): "failed",
            ("build", "silent"): "failed",
        }
        wait_for(lambda: _reported(postgresql, database) == expected, "three sessions of two hosts")
        wait_for(lambda: _owes(laptop) == _owes(build) == 0, "nothing that is owed")


def test_a_running_session_is_reported_and_its_end_too(
    postgresql: Server, database: str, office: Place, laptop: Place
) -> None:
    joined(office, laptop, "laptop")
    with laptop.daemon():
        laptop.add_run("long")
        wait_for(lambda: _reported(postgresql, database) == {("laptop", "long"): "running"}, "the start")
        laptop.end_run("long", 0)
        wait_for(lambda: _reported(postgresql, database) == {("laptop", "long"): "completed"}, "the end")


def test_verdicts_go_on_while_the_database_is_down_and_arrive_when_it_is_back(
    postgresql: Server, database: str, office: Place, laptop: Place
) -> None:
    joined(office, laptop, "laptop")
    with laptop.daemon():
        laptop.add_run("first", exit_code=0)
        wait_for(lambda: _owes(laptop) == 0 and _reported(postgresql, database), "the first session")
        postgresql.stop()
        try:
            laptop.add_run("second", exit_code=0)
            wait_for(
                lambda: laptop.rows(
                    "select 1 from sessions where session_id = 'second' and status = 'completed'"
                ),
                "a verdict without the database",
            )
            # Its receipt may be owed by then, too, and that of the first session.
            says_so = re.compile("[1-9] reports? (is|are) owed")
            wait_for(lambda: any(map(says_so.search, _degraded(laptop))), "that status says so")
        finally:
            postgresql.start()
        expected = {("laptop", "first"): "completed", ("laptop", "second"): "completed"}
        wait_for(lambda: _reported(postgresql, database) == expected, "the second session")
        wait_for(lambda: _degraded(laptop) == [], "that status says nothing of the fleet")


def _degraded(place: Place) -> list[str]:
    report = json.loads((place.state / "status.json").read_bytes())
    return [each for each in map(str, report["degraded"]) if each.startswith("fleet: ")]


def test_a_daemon_without_a_fleet_owes_nothing_and_imports_nothing_of_it(laptop: Place) -> None:
    laptop.add_run("alone", exit_code=0)
    with laptop.daemon_process() as daemon:
        wait_for(lambda: laptop.rows("select 1 from sessions where status = 'completed'"), "a verdict")
        assert "psycopg" not in Path(f"/proc/{daemon.pid}/maps").read_text()
    assert laptop.rows("select * from fleet_outbox") == []
    assert laptop.rows("select * from fleet_reporting") == []
    assert laptop.rows("select name from sqlite_sequence where name = 'fleet_outbox'") == []


OF_A_FLEET = re.compile(r"psycopg|runward\.config\.fleet|runward\.daemon\.(?:fleet\b|\S*fleet)\S*")


def _imported(place: Place, *words: str) -> set[str]:
    """The modules of a fleet that a command imports."""
    told = subprocess.run(
        place.argv(*words),
        cwd=place.directory,
        env={**place.environment, "PYTHONPROFILEIMPORTTIME": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.rpartition("|")[2].strip() for line in told.stderr.splitlines()}
    assert "runward.daemon.cli" in names
    return {name for name in names if OF_A_FLEET.fullmatch(name)}


def test_without_a_fleet_no_command_imports_anything_of_it(office: Place, laptop: Place) -> None:
    commands = (
        "daemon --once --quiet",
        "session list",
        "session list --json",
        "config show --json",
        "chain list",
    )
    laptop.add_run("alone", exit_code=0)
    for words in commands:
        assert _imported(laptop, *words.split()) == set(), words
    joined(office, laptop, "laptop")
    for words in commands[1:3]:
        assert _imported(laptop, *words.split()) == {"runward.config.fleet"}, words
    assert "psycopg" in _imported(laptop, "session", "list", "--fleet")


POINTS = ("fleet.read", "fleet.sent", "fleet.committed", "fleet.told")


@pytest.mark.parametrize("point", POINTS)
def test_a_program_that_is_killed_loses_nothing_and_tells_nothing_twice(
    postgresql: Server, database: str, office: Place, laptop: Place, point: str
) -> None:
    for number in range(3):
        laptop.add_run(f"run-{number}", exit_code=0)
    laptop.daemon_once()
    joined(office, laptop, "laptop")
    laptop.environment["RUNWARD_FLEET_FAULT"] = f"kill@{point}"
    with laptop.daemon():
        wait_for(lambda: any("ended with -9" in each for each in _degraded(laptop)), "a killed program")
        was_committed = point in POINTS[2:]
        assert len(_reported(postgresql, database)) == (3 if was_committed else 0)
        # Their receipts may be owed by then, too: the daemon makes bundles meanwhile. And it marks what it was told a little later.
        owed = 0 if point == "fleet.told" else 3
        wait_for(lambda: _owes(laptop, "session") == owed, f"{owed} reports of sessions that are owed")
    del laptop.environment["RUNWARD_FLEET_FAULT"]
    with laptop.daemon():
        laptop.add_run("later", exit_code=0)
        wait_for(lambda: len(_reported(postgresql, database)) == 4, "each session")
        wait_for(lambda: _owes(laptop) == 0, "nothing that is owed")
        assert _degraded(laptop) == []


def test_a_program_that_was_killed_is_started_again(
    postgresql: Server, database: str, office: Place, laptop: Place
) -> None:
    joined(office, laptop, "laptop")
    with laptop.daemon():
        laptop.add_run("first", exit_code=0)
        wait_for(lambda: _reported(postgresql, database), "the first session")
        os.kill(_program(laptop), signal.SIGKILL)
        laptop.add_run("second", exit_code=0)
        wait_for(lambda: len(_reported(postgresql, database)) == 2, "the second session")


def test_a_killed_daemon_takes_its_program_along_and_its_successor_reports_the_rest(
    postgresql: Server, database: str, office: Place, laptop: Place
) -> None:
    joined(office, laptop, "laptop")
    with laptop.daemon_process() as daemon:
        laptop.add_run("first", exit_code=0)
        wait_for(lambda: _reported(postgresql, database), "the first session")
        program = _program(laptop)
        daemon.kill()
        wait_for(lambda: not Path(f"/proc/{program}").exists(), "the end of the program")
    laptop.add_run("second", exit_code=0)
    with laptop.daemon():
        wait_for(lambda: len(_reported(postgresql, database)) == 2, "the second session")


def test_a_host_leaves_by_its_settings_and_reports_all_when_it_is_back(
    postgresql: Server, database: str, office: Place, laptop: Place
) -> None:
    joined(office, laptop, "laptop")
    settings = laptop.directory / "runward.toml.d/fleet.toml"
    text = settings.read_text()
    with laptop.daemon():
        laptop.add_run("first", exit_code=0)
        wait_for(lambda: _reported(postgresql, database), "the first session")
        settings.unlink()
        wait_for(lambda: laptop.rows("select 1 from fleet_reporting") == [], "the end of reporting")
        laptop.add_run("between", exit_code=0)
        wait_for(lambda: laptop.rows("select 1 from sessions where session_id = 'between'"), "a verdict")
        assert laptop.rows("select 1 from fleet_outbox where subject like '%between'") == []
        settings.write_text(text)
        wait_for(lambda: len(_reported(postgresql, database)) == 2, "the session in between")


def test_a_newer_fleet_gets_nothing_and_all_stays_owed(
    postgresql: Server, database: str, office: Place, laptop: Place
) -> None:
    joined(office, laptop, "laptop")
    with postgresql.admin(database) as admin:
        admin.execute("update runward.format set version = 9, oldest_writer = 8")
    with laptop.daemon():
        laptop.add_run("one", exit_code=0)
        wait_for(lambda: _owes(laptop) == 2, "a session and its receipt, which are owed")
        wait_for(
            lambda: any("format 9" in each and "2 reports are owed" in each for each in _degraded(laptop)),
            "that status says why",
        )
    assert _reported(postgresql, database) == {}


REFUSALS = {
    "a rule": "alter table runward.sessions add check (key <> 'native:runs/bad')",
    "a limit": "create function public.long(key text) returns text language plpgsql immutable as"
    " $$ begin return case when key = 'native:runs/bad' then"
    " (select string_agg(md5(n::text), '') from generate_series(1, 1000) n) else key end; end $$;"
    " create index on runward.sessions (public.long(key))",
}
"""Why a row can't be stored. An index takes no long text."""


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_a_session_that_the_database_refuses_holds_up_no_other(
    postgresql: Server, database: str, office: Place, laptop: Place, refusal: str
) -> None:
    for name in ("a", "bad", "c"):
        laptop.add_run(name, exit_code=0)
    laptop.daemon_once()
    joined(office, laptop, "laptop")
    with postgresql.admin(database) as admin:
        admin.execute(refusal)
    with laptop.daemon():
        wait_for(lambda: len(_reported(postgresql, database)) == 2, "the two others")
        wait_for(
            lambda: any("refuses session native:runs/bad" in each for each in _degraded(laptop)),
            "that status says it",
        )
        wait_for(lambda: _owes(laptop) == 1, "that it stays owed")


def test_a_session_that_is_owed_and_no_longer_recorded_leaves_the_fleet(
    postgresql: Server, database: str, office: Place, laptop: Place
) -> None:
    laptop.add_run("kept", exit_code=0)
    laptop.daemon_once()
    joined(office, laptop, "laptop")
    with postgresql.admin(database) as admin:
        admin.execute(
            "insert into runward.sessions (host, key, version, started_at, body)"
            ' values (\'laptop\', \'native:runs/pruned\', 1, 1.0, \'{"session_id": "pruned", "status": "failed"}\')'
        )
    laptop.change_store("insert into fleet_outbox (kind, subject) values ('session', 'native:runs/pruned')")
    with laptop.daemon():
        wait_for(lambda: _reported(postgresql, database) == {("laptop", "kept"): "completed"}, "one of two")
        wait_for(lambda: _owes(laptop) == 0, "nothing that is owed")


def test_after_a_restore_everything_is_reported_again(
    postgresql: Server, database: str, office: Place, laptop: Place, tmp_path: Path
) -> None:
    joined(office, laptop, "laptop")
    with laptop.daemon():
        laptop.add_run("one", exit_code=0)
        wait_for(lambda: _reported(postgresql, database) and _owes(laptop) == 0, "the session")
        assert laptop.call("backup", str(tmp_path / "copy.db")).code == 0
        laptop.add_run("two", exit_code=0)
        wait_for(lambda: len(_reported(postgresql, database)) == 2, "a session that the copy doesn't know")
    with postgresql.admin(database) as admin:
        admin.execute('update runward.sessions set body = body || \'{"status": "failed"}\'')
    told = laptop.call("restore", str(tmp_path / "copy.db"))
    assert told.code == 0, told.err
    with laptop.daemon():
        wait_for(
            lambda: set(_reported(postgresql, database).values()) == {"completed"}, "what the record says"
        )
