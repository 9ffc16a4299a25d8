"""What the login of one host can't do. Each guard is also taken away, and then the attempt succeeds."""

import json
from collections.abc import Callable

import psycopg
import pytest
from tests.daemon.fleet.attacked import Connection, Fleet, without

REPORTED = [("victim", "native:runs/1", "failed")]


def _report(connection: Connection, status: str, version: int = 1 << 50) -> None:
    row = {
        "key": "native:runs/1",
        "version": version,
        "started_at": 1.0,
        "body": None if status == "gone" else {"status": status},
    }
    connection.execute("select runward.report_sessions(%s)", (json.dumps([row]),))


ATTEMPTS = {
    "it writes a row of another host": "insert into runward.sessions (host, key, version, started_at, body)"
    " values ('victim', 'native:runs/2', 1, 1.0, '{}')",
    "it changes a row of another host": "update runward.sessions set version = 9",
    "it deletes the rows of another host": "delete from runward.sessions",
    "it gives itself labels": "update runward.hosts set labels = '{gpu}' where name = 'mallory'",
    "it says that it is another host": "update runward.hosts set login = 'nobody' where name = 'victim'",
    "it changes the format": "update runward.format set version = 2",
    "it empties a table": "truncate runward.sessions",
}


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
def test_no_table_can_be_written(fleet: Fleet, attempt: str) -> None:
    with fleet.login() as login, pytest.raises(psycopg.errors.InsufficientPrivilege):
        login.execute(attempt)
    assert fleet.sessions() == REPORTED
    # It is the missing right that refuses.
    with fleet.admin() as admin:
        admin.execute("grant all on all tables in schema runward to host_mallory")
    with fleet.login() as login:
        login.execute(attempt)


def test_a_report_is_stamped_with_the_name_of_its_login(fleet: Fleet) -> None:
    with fleet.login() as login:
        _report(login, "completed")
    assert fleet.sessions() == [("mallory", "native:runs/1", "completed"), *REPORTED]
    with fleet.login() as login:
        _report(login, "gone")
    assert fleet.sessions() == REPORTED


_SHADOW = (
    "create temp table hosts (name text, login name, connections bigint, last_seen timestamptz, owes bigint,"
    " problems text[]);"
    " insert into hosts (name, login, connections) values ('victim', 'host_mallory', 1)"
)


def test_a_temporary_table_stands_in_for_none(fleet: Fleet) -> None:
    with fleet.login() as login:
        login.execute(_SHADOW)
        _report(login, "completed")
    assert fleet.sessions() == [("mallory", "native:runs/1", "completed"), *REPORTED]
    # Without the fixed search_path, it does.
    with fleet.admin() as admin:
        admin.execute("alter function runward.report_sessions reset search_path")
    with fleet.login() as login:
        login.execute(_SHADOW)
        login.execute("set search_path = pg_temp, runward")
        _report(login, "forged")
    assert ("victim", "native:runs/1", "forged") in fleet.sessions()


def test_nothing_can_be_made_that_stands_in_for_a_function_or_a_table(fleet: Fleet) -> None:
    with fleet.login() as login:
        for statement in (
            "create table runward.x (a int)",
            "create or replace function runward.heard(bigint, bigint, text[]) returns void language sql as ''",
            "create table public.hosts (a int)",
            "create schema pg_catalog2",
            "alter function runward.report_sessions reset search_path",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                login.execute(statement)


def test_no_other_role_can_be_taken(fleet: Fleet) -> None:
    with fleet.login() as login:
        for statement in (
            "set role admin",
            "set role host_victim",
            "set session authorization host_victim",
            "alter role host_victim password 'x'",
            "alter role host_mallory createrole",
            "create role another",
            "grant host_victim to host_mallory",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                login.execute(statement)


def test_the_login_of_no_host_of_this_fleet_sees_nothing(fleet: Fleet) -> None:
    with fleet.admin() as admin:
        admin.execute("create role host_of_another login password 'x'")
    with (
        psycopg.connect(
            user="host_of_another",
            password="x",
            host="127.0.0.1",
            port=fleet.server.port,
            dbname=fleet.database,
        ) as login,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        login.execute("select * from runward.sessions")


def test_a_connection_without_tls_is_refused(fleet: Fleet) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"pg_hba.conf|no encryption"):
        fleet.login(sslmode="disable")


def test_without_the_stamp_a_report_could_be_anybodys(fleet: Fleet) -> None:
    without(fleet, "own.login = session_user", "report_sessions", "own.name = 'victim'")
    with fleet.login() as login:
        _report(login, "forged")
    assert fleet.sessions() == [("victim", "native:runs/1", "forged")]


def test_an_older_report_replaces_no_newer_one(fleet: Fleet) -> None:
    with fleet.login() as login:
        _report(login, "completed", version=2)
        for status in ("running", "gone"):
            _report(login, status, version=1)
        assert fleet.sessions()[0] == ("mallory", "native:runs/1", "completed")
        # The same one twice is harmless.
        _report(login, "completed", version=2)
        _report(login, "failed", version=3)
        assert fleet.sessions()[0] == ("mallory", "native:runs/1", "failed")
        # It is the version that counts.
        without(fleet, "where known.version <= excluded.version", "report_sessions")
        _report(login, "running", version=1)
        assert fleet.sessions()[0] == ("mallory", "native:runs/1", "running")
        _report(login, "failed", version=3)
        without(fleet, "and known.version <= new.version", "report_sessions")
        _report(login, "gone", version=1)
        assert fleet.sessions() == REPORTED


def _greet(login: Connection, epoch: int = 1) -> int:
    ((number,),) = login.execute("select runward.greet(%s, '1.0')", (epoch,)).fetchall()
    return int(number)


def _heard(login: Connection, number: int) -> None:
    login.execute("select runward.heard(%s, 0, '{}')", (number,))


def test_only_the_program_that_connected_last_reports(fleet: Fleet) -> None:
    with fleet.login() as earlier, fleet.login() as later:
        first = _greet(earlier)
        _heard(earlier, first)
        second = _greet(later)
        with pytest.raises(psycopg.Error, match="another program reports for this host"):
            _heard(earlier, first)
        _heard(later, second)
        without(fleet, "and connections = number", "heard")
        _heard(earlier, first)


def test_of_two_programs_that_connect_at_the_same_time_one_reports(fleet: Fleet) -> None:
    with fleet.login() as one, fleet.login() as other:
        numbers = {_greet(one), _greet(other)}
        assert len(numbers) == 2
        with pytest.raises(psycopg.Error, match="another program reports for this host"):
            _heard(one, min(numbers))


def test_a_sign_of_life_is_of_no_other_host(fleet: Fleet) -> None:
    with fleet.admin() as admin:
        admin.execute("update runward.hosts set connections = 1, owes = 7 where name = 'victim'")
    with fleet.login() as login:
        _heard(login, _greet(login))
    with fleet.admin() as admin:
        rows = admin.execute("select name, owes from runward.hosts where last_seen is null").fetchall()
    assert rows == [("victim", 7)]


def test_a_host_with_an_older_record_than_the_fleet_knows_does_not_report(fleet: Fleet) -> None:
    with fleet.login() as login:
        _greet(login, 7)
        with pytest.raises(psycopg.Error, match="the fleet knows a newer record of this host"):
            _greet(login, 6)
        _greet(login, 7)
        without(fleet, "and epoch <= of_epoch", "greet")
        _greet(login, 6)


def test_a_host_that_was_only_invited_does_not_report(fleet: Fleet) -> None:
    with fleet.admin() as admin:
        admin.execute("update runward.hosts set joined_at = null where name = 'mallory'")
    with fleet.login() as login:
        with pytest.raises(psycopg.Error, match="the fleet knows a newer record of this host"):
            _greet(login)
        without(fleet, "and joined_at is not null", "greet")
        _greet(login)


def test_an_invitation_is_used_once(fleet: Fleet) -> None:
    with fleet.login() as login:
        with pytest.raises(psycopg.Error, match="the invitation was used"):
            login.execute("select runward.join_fleet()")
        without(fleet, "and joined_at is null", "join_fleet")
        login.execute("select runward.join_fleet()")


LIMITS: dict[str, tuple[str, Callable[[Connection], object]]] = {
    "the version of its program": (
        "hosts_program_check",
        lambda login: login.execute("select runward.greet(1, %s)", ("x" * 101,)),
    ),
    "its problems": (
        "hosts_problems_check",
        lambda login: login.execute(
            "select runward.heard(connections, 0, array[repeat('x', 70000)]) from runward.hosts where name = 'mallory'"
        ),
    ),
    "a session": ("sessions_body_check", lambda login: _report(login, "x" * (1 << 20))),
}


@pytest.mark.parametrize(("limit", "attempt"), LIMITS.values(), ids=LIMITS)
def test_what_a_host_says_has_limits(
    fleet: Fleet, limit: str, attempt: Callable[[Connection], object]
) -> None:
    with fleet.login() as login:
        with pytest.raises(psycopg.errors.CheckViolation):
            attempt(login)
        with fleet.admin() as admin:
            table = limit.partition("_")[0]
            admin.execute(f"alter table runward.{table} drop constraint {limit}".encode())
        attempt(login)
