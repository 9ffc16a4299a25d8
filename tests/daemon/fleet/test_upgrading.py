"""A fleet of an older format is brought to the newest one without loss, and programs of that format work on beside it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb
from tests.daemon.cli.calling import Place, Result
from tests.daemon.fleet.attacked import Connection
from tests.daemon.fleet.database import Server
from tests.daemon.fleet.places import joined, new_place

from runward.config.fleet import database_of
from runward.daemon.fleet.administration import keep
from runward.daemon.fleet.connecting import FORMAT
from runward.daemon.fleet.schema import READ
from runward.daemon.store.ownership import prepare

_FORMAT_1 = Path(__file__).with_name("format_1.sql")
_READ_1 = ("format", "hosts", "sessions", "orders")
_SECRET = "of a host"


class Older(NamedTuple):
    """A fleet of format 1, with the hosts `laptop` and `gpu-box`, a session and an order of each state."""

    server: Server
    database: str
    office: Place

    def admin(self) -> Connection:
        return self.server.admin(self.database)

    def login(self, name: str) -> Connection:
        return psycopg.connect(
            user=f"host_{name.replace('-', '_')}",
            password=_SECRET,
            host=str(self.server.directory),
            port=self.server.port,
            dbname=self.database,
            autocommit=True,
        )

    def upgrade(self) -> Result:
        return self.office.call("fleet", "upgrade")


@pytest.fixture
def older(postgresql: Server, tmp_path: Path) -> Iterator[Older]:
    with postgresql.database() as name:
        with postgresql.admin(name) as admin:
            admin.execute(_FORMAT_1.read_bytes())
            for host, labels in (("laptop", []), ("gpu-box", ["gpu"])):
                _invite(admin, host, labels)
            _fill(admin)
        office = new_place(tmp_path / "office")
        office.environment |= postgresql.environment
        prepare(office.state)
        keep(office.state, database_of(postgresql.address(name)), postgresql.ca.read_bytes())
        yield Older(postgresql, name, office)


def _invite(admin: Connection, host: str, labels: list[str]) -> None:
    """As programs of format 1 did."""
    login = sql.Identifier(f"host_{host.replace('-', '_')}")
    readable = sql.SQL(", ").join(sql.Identifier("runward", table) for table in _READ_1)
    for statement in (
        sql.SQL("create role {} login noinherit password {}").format(login, sql.Literal(_SECRET)),
        sql.SQL("grant usage on schema runward to {}").format(login),
        sql.SQL("grant select on {} to {}").format(readable, login),
        sql.SQL("grant execute on all functions in schema runward to {}").format(login),
    ):
        admin.execute(statement)
    admin.execute(
        "insert into runward.hosts (name, login, labels, joined_at) values (%s, %s, %s, now())",
        (host, f"host_{host.replace('-', '_')}", labels),
    )


def _fill(admin: Connection) -> None:
    admin.execute(
        "insert into runward.sessions (host, key, version, started_at, body)"
        """ values ('laptop', 'native:runs/1', 5, 1.0, '{"status": "failed"}')"""
    )
    admin.execute(
        "insert into runward.orders (origin, id, wanted_host, wanted_labels, skill, body, state, takes, taken_by, declined, result)"
        " values ('laptop', 'open', 'gpu-box', '{}', 'train', '{}', 'open', 0, null, '{}', null),"
        " ('laptop', 'taken', null, '{gpu}', 'train', '{}', 'taken', 1, 'gpu-box', '{}', null),"
        """ ('laptop', 'ended', null, '{gpu}', 'train', '{}', 'ended', 2, 'gpu-box', '{}', '{"status": "completed"}'),"""
        """ ('laptop', 'declined', 'gpu-box', '{}', 'train', '{}', 'declined', 1, null, '{"gpu-box": "no"}', null)"""
    )


def _rows(older: Older) -> dict[str, list[Any]]:
    """All rows, each with the columns that format 1 has."""
    with older.admin() as admin:
        return {
            table: [
                row
                for (row,) in admin.execute(
                    sql.SQL("select to_jsonb(t) from {} t order by t::text").format(
                        sql.Identifier("runward", table)
                    )
                )
            ]
            for table in ("hosts", "sessions", "orders")
        }


def test_an_older_fleet_is_brought_to_the_newest_format_without_loss(older: Older) -> None:
    before = _rows(older)
    told = older.upgrade()
    assert (told.code, told.err) == (0, "")
    assert f"was brought from format 1 to {FORMAT}\n" in told.out
    after = _rows(older)
    for table, rows in before.items():
        known = set(rows[0])
        kept = [{name: value for name, value in row.items() if name in known} for row in after[table]]
        assert sorted(map(json.dumps, kept)) == sorted(map(json.dumps, rows))
    again = older.upgrade()
    assert (again.code, again.err) == (0, "")
    assert f"had format {FORMAT} already\n" in again.out
    assert _rows(older) == after


def test_an_upgraded_fleet_has_what_a_new_one_has(older: Older, database: str) -> None:
    assert older.upgrade().code == 0
    found = []
    for name in (older.database, database):
        with older.server.admin(name) as admin:
            columns = admin.execute(
                "select table_name, column_name, data_type, column_default, is_nullable from information_schema.columns"
                " where table_schema = 'runward' order by 1, 2"
            ).fetchall()
            functions = admin.execute(
                "select pg_get_functiondef(oid) from pg_proc where pronamespace = 'runward'::regnamespace order by 1"
            ).fetchall()
            policies = admin.execute(
                "select tablename, policyname, qual from pg_policies where schemaname = 'runward' order by 1, 2"
            ).fetchall()
            triggers = admin.execute(
                "select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal order by 1"
            ).fetchall()
            found.append((columns, functions, policies, triggers))
    assert found[0] == found[1]


def test_hosts_may_read_and_call_what_is_new_and_write_as_little_as_before(older: Older) -> None:
    assert older.upgrade().code == 0
    with older.login("laptop") as login, older.admin() as admin:
        for table in READ:
            login.execute(sql.SQL("select from {}").format(sql.Identifier("runward", table)))
        rights = (
            "select count(*) from pg_proc where pronamespace = 'runward'::regnamespace"
            " and not has_function_privilege(%s, oid, 'execute')"
        )
        assert admin.execute(rights, ("host_laptop",)).fetchall() == [(0,)]
        admin.execute("create role nobody_of_it login")
        try:
            ((refused,),) = admin.execute(rights, ("nobody_of_it",)).fetchall()
        finally:
            admin.execute("drop role nobody_of_it")
        assert refused > 8
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            login.execute("update runward.orders set state = 'open'")


def _one(login: Connection, statement: str, *given: object) -> Any:
    ((value,),) = login.execute(statement.encode(), given).fetchall()
    return value


def _as_format_1(laptop: Connection, gpu: Connection, name: str) -> None:
    """Every call that programs of format 1 made, with two orders from their placing to their end."""
    numbers = {}
    for login in (laptop, gpu):
        numbers[login] = _one(login, "select runward.greet(%s, %s)", 1, "0.8")
        login.execute("select runward.heard(%s, %s, %s)", (numbers[login], 0, []))
        row = {"key": name, "version": 7, "started_at": 1.0, "body": {"status": "completed"}}
        login.execute("select runward.report_sessions(%s)", (Jsonb([row]),))
    place = "select runward.place_order(%s, %s, %s, '{}', %s, %s::jsonb, %s)"
    for order in (name, f"{name}-no", f"{name}-late"):
        assert _one(laptop, place, numbers[laptop], order, "gpu-box", "train", "{}", None) == "open"
    assert _one(laptop, "select runward.cancel_order(%s, %s)", numbers[laptop], f"{name}-late") == "withdrawn"
    taken = gpu.execute(
        "select origin, id, takes, body::text, cancelled from runward.take_orders(%s, %s)", (numbers[gpu], 10)
    ).fetchall()
    assert [row for row in taken if row[1].startswith(name)] == [
        ("laptop", name, 1, "{}", False),
        ("laptop", f"{name}-no", 1, "{}", False),
    ]
    back = "select runward.give_back(%s, %s, %s, %s, %s)"
    assert _one(gpu, back, numbers[gpu], "laptop", f"{name}-no", 1, "not here") is True
    end = "select runward.end_order(%s, %s, %s, %s, %s::jsonb)"
    assert _one(gpu, end, numbers[gpu], "laptop", name, 1, '{"status": "completed"}') is True
    looked = laptop.execute(
        "with me as materialized (select runward.own_name(%s) as name)"
        " select o.id, o.state from me join runward.orders o on o.origin = me.name"
        " where o.settled_at is null and o.state <> 'open' and o.id like %s order by 1",
        (numbers[laptop], f"{name}%"),
    ).fetchall()
    assert looked == [(name, "ended"), (f"{name}-late", "withdrawn"), (f"{name}-no", "declined")]
    for order, _ in looked:
        assert _one(laptop, "select runward.settle_order(%s, %s)", numbers[laptop], order) is True


def test_programs_of_the_previous_format_work_on_while_and_after_the_fleet_is_upgraded(older: Older) -> None:
    with older.login("laptop") as laptop, older.login("gpu-box") as gpu:
        _as_format_1(laptop, gpu, "before")
        assert older.upgrade().code == 0
        # Over the same connections, as programs that run meanwhile.
        _as_format_1(laptop, gpu, "after")
        with older.admin() as admin:
            row = admin.execute("select version, oldest_writer from runward.format").fetchone()
        assert row == (FORMAT, 1), "and they may"


def _as_format(server: Server, database: str, number: int) -> None:
    with server.admin(database) as admin:
        admin.execute("update runward.format set version = %s", (number,))


def test_a_program_that_is_newer_than_the_fleet_says_what_to_run(
    postgresql: Server, database: str, office: Place, laptop: Place
) -> None:
    joined(office, laptop, "laptop")
    _as_format(postgresql, database, 1)
    why = (
        f"the fleet has format 1, and this Runward needs {FORMAT}: run `runward fleet upgrade` where the fleet"
        " was made\n"
    )
    for place, words in (
        (laptop, ("fleet", "hosts")),
        (laptop, ("session", "list", "--fleet")),
        (office, ("fleet", "invite", "another")),
        (office, ("fleet", "remove", "laptop")),
    ):
        told = place.call(*words)
        assert (told.code, told.err) == (1, f"runward: {why}"), words
    address = postgresql.address(database)
    again = office.call("fleet", "init", address, "--ca", str(postgresql.ca))
    assert f"next: `runward fleet upgrade` brings it from format 1 to {FORMAT}\n" in again.out
    _as_format(postgresql, database, FORMAT)
    assert laptop.call("fleet", "hosts").code == 0


def test_a_newer_fleet_is_not_upgraded_and_one_that_is_missing_is_named(
    postgresql: Server, database: str, office: Place, laptop: Place
) -> None:
    _as_format(postgresql, database, 9)
    told = office.call("fleet", "upgrade")
    assert told.code == 1
    assert f"the fleet has format 9, and this Runward knows {FORMAT}: install a newer one" in told.err
    with postgresql.admin(database) as admin:
        admin.execute("drop schema runward cascade")
    told = office.call("fleet", "upgrade")
    assert told.code == 1
    assert "has no fleet: `runward fleet init` makes one" in told.err
    assert "this machine knows no fleet" in laptop.call("fleet", "upgrade").err


def test_who_does_not_own_the_fleet_can_not_upgrade_it(older: Older) -> None:
    address = older.server.address(older.database).replace("admin@", "host_laptop@")
    keep(older.office.state, database_of(address), older.server.ca.read_bytes())
    older.office.environment["PGPASSWORD"] = _SECRET
    told = older.upgrade()
    assert told.code == 1
    assert "the login host_laptop may not change the fleet's schema" in told.err
    with older.admin() as admin:
        assert admin.execute("select version from runward.format").fetchall() == [(1,)]
