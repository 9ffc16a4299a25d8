"""`artifact list --fleet` and `chain approvals --fleet`: what hosts have, from their stores to the lists, without daemons."""

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.attacked import Connection, Fleet, without
from tests.daemon.fleet.database import Server
from tests.daemon.fleet.places import joined

from runward.config.settings import FleetSettings, Settings
from runward.daemon.fleet import delivery, other_lists
from runward.daemon.fleet.bodies import MOST_BODY
from runward.daemon.fleet.connecting import as_host
from runward.daemon.fleet.outcomes_and_approvals import OutcomesAndApprovals

SHOWN = {"argv": ["deploy", "--to", "prod"], "cwd": "/srv/secret-place"}


class Host:
    """The laptop, which has a store but no daemon."""

    def __init__(self, server: Server, database: str, place: Place) -> None:
        self.server, self.database, self.place = server, database, place
        self.connections: list[Connection] = []
        self.titles = False
        place.add_run("a", exit_code=0)
        place.daemon_once()

    @property
    def settings(self) -> FleetSettings:
        directory = self.place.directory / "runward.toml.d"
        written = tomllib.loads((directory / "fleet.toml").read_text())["fleet"]
        return FleetSettings(
            host=written["host"],
            database=written["database"],
            password_file=str(directory / written["password_file"]),
            ca_file=str(directory / written["ca_file"]),
            titles=self.titles,
        )

    def report(self) -> str | None:
        """Deliver what is owed; returns what is refused."""
        connection = as_host(self.settings)
        self.connections.append(connection)
        ((number,),) = connection.execute("select runward.greet(1, '1.0')").fetchall()
        made = OutcomesAndApprovals(
            self.place.state, Settings(str(self.place.state)), self.settings, 1, int(number)
        )
        done = [version for versions in made.say(connection) for version in versions]
        self.place.change_store(
            "delete from fleet_outbox where version in (select value from json_each(?))", json.dumps(done)
        )
        return made.refused

    def owe(self, kind: str, subject: str) -> None:
        self.place.change_store("delete from fleet_outbox where subject = ?", subject)
        self.place.change_store("insert into fleet_outbox (kind, subject) values (?, ?)", kind, subject)

    def owed(self) -> list[tuple[object, ...]]:
        return self.place.rows(
            "select kind, subject from fleet_outbox where kind in ('outcome', 'approval') order by version"
        )

    def finds(
        self, name: str, *, content: str = '{"a": 1}', kind: str = "note", passed: int | None = None
    ) -> None:
        """An outcome of its session."""
        self.place.change_store(
            "insert or replace into artifacts (id, session_key, kind, name, content, summary, passed, file_path, is_known, place,"
            " created_at, updated_at) values (?1, 'native:runs/a', ?2, ?1, ?3, 'so', ?4, 'out/x', 1, 0, 5.0, ?5)",
            name,
            kind,
            content,
            passed,
            float(len(self.place.rows("select 1 from artifacts")) + 10),
        )
        self.owe("outcome", name)

    def asks(self, name: str, status: str = "waiting_approval") -> None:
        """A step that waits for a person."""
        definition = json.dumps({"steps": [{"id": "deploy"}]})
        self.place.change_store(
            "insert into chain_runs (id, chain, event, fired_by, definition, trigger_event, status, reason_code, reason_summary,"
            " current_step, created_at, updated_at) values (?1, 'ship', 0, ?1, ?2, '', ?3, '', '', 0, 1.0, 1.0)",
            f"run-{name}",
            definition,
            status,
        )
        self.place.change_store(
            "insert into approvals (id, run, step, asked_at, shown, shown_hash, status) values (?, ?, 0, 7.0, ?, 'h', 'asked')",
            name,
            f"run-{name}",
            json.dumps(SHOWN),
        )
        self.owe("approval", name)

    def admin(self) -> Connection:
        return self.server.admin(self.database)


@pytest.fixture
def host(postgresql: Server, database: str, office: Place, laptop: Place) -> Iterator[Host]:
    joined(office, laptop, "laptop")
    made = Host(postgresql, database, laptop)
    yield made
    for connection in made.connections:
        connection.close()


def _names(place: Place, *words: str) -> list[object]:
    told = place.call("artifact", "list", "--fleet", "--json", *words)
    assert told.code == 0, told.err
    return [each["name"] for each in told.objects()]


def test_an_outcome_is_in_the_list_of_every_host_as_in_its_own(host: Host, office: Place) -> None:
    host.titles = True
    host.finds("one", kind="ci_result", passed=1)
    host.finds("two")
    assert host.report() is None
    assert host.owed() == []
    (newest, oldest) = office.call("artifact", "list", "--fleet", "--json").objects()
    assert [newest, oldest] == [
        {"host": "laptop", **each} for each in host.place.call("artifact", "list", "--json").objects()
    ]
    told = office.call("artifact", "list", "--fleet")
    assert told.out.splitlines()[0].split() == [
        "HOST",
        "ID",
        "KIND",
        "NAME",
        "PASSED",
        "SESSION",
        "WHEN",
        "SUMMARY",
    ]
    assert told.out.splitlines()[2].split()[:6] == ["laptop", "one", "ci_result", "one", "passed", "a"]


def test_the_filters_of_outcomes_are_those_of_the_own_list(host: Host) -> None:
    host.finds("one", kind="ci_result", passed=1)
    host.finds("two", passed=0)
    host.finds("three")
    host.report()
    with host.admin() as admin:
        admin.execute("update runward.outcomes set chain_run = 'cr_123456789abc' where id = 'two'")
    place = host.place
    assert _names(place) == ["three", "two", "one"]
    assert _names(place, "--kind", "ci_result") == ["one"]
    assert [_names(place, "--passed", word) for word in ("true", "false", "null")] == [
        ["one"],
        ["two"],
        ["three"],
    ]
    assert (
        _names(place, "--session", "a")
        == _names(place, "--session", "native:runs/a")
        == ["three", "two", "one"]
    )
    assert _names(place, "--session", "b") == []
    assert _names(place, "--chain-run", "cr_1234") == ["two"]
    assert _names(place, "--limit", "1") == ["three"]
    assert _names(place, "--host", "laptop", "--limit", "0") == ["three", "two", "one"]
    assert _names(place, "--host", "another") == []
    assert _names(place, "--since", "2h") == []


def test_a_long_list_of_outcomes_is_read_in_parts(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_lists, "_AT_ONCE", 2)
    with host.admin() as admin:
        for number in range(7):
            body = {"session_key": "native:runs/a", "kind": "note", "name": str(number)}
            admin.execute(
                "insert into runward.outcomes (host, id, version, updated_at, body) values ('laptop', %s, 1, %s, %s)",
                (str(number), float(number // 3), Jsonb(body)),
            )
    expected = ["6", "3", "4", "5", "0", "1", "2"]
    assert _names(host.place, "--limit", "0") == expected
    assert _names(host.place, "--limit", "5") == expected[:5]


def test_without_titles_paths_and_commands_stay_here_and_secrets_always(host: Host) -> None:
    host.finds("one", content='{"token": "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"}')
    host.asks("ap-1")
    for titles in (False, True):
        host.titles = titles
        host.owe("outcome", "one")
        host.owe("approval", "ap-1")
        host.report()
        with host.admin() as admin:
            ((outcome, approval),) = admin.execute(
                "select o.body::text, a.body::text from runward.outcomes o, runward.approvals a"
            ).fetchall()
        assert "sk-ant" not in outcome
        assert ("out/x" in outcome, "prod" in approval, "secret-place" in approval) == (
            titles,
            titles,
            titles,
        )


def test_what_is_no_longer_recorded_or_waits_no_longer_leaves_the_lists(host: Host, office: Place) -> None:
    host.titles = True
    host.finds("one")
    host.asks("ap-1")
    host.asks("ap-2", status="running")
    host.report()
    (waiting,) = office.call("chain", "approvals", "--fleet", "--json").objects()
    (own,) = host.place.call("chain", "approvals", "--json").objects()
    assert waiting == {"host": "laptop", **own}
    told = office.call("chain", "approvals", "--fleet")
    assert told.out.splitlines()[0].split() == ["HOST", "APPROVAL", "CHAIN", "STEP", "COMMAND", "ASKED"]
    assert told.out.splitlines()[1].split()[:7] == [
        "laptop",
        "ap-1",
        "ship",
        "deploy",
        "deploy",
        "--to",
        "prod",
    ]
    assert "each is approved or denied on its host" in told.err
    host.place.change_store("delete from artifacts")
    host.place.change_store("update approvals set status = 'approved' where id = 'ap-1'")
    host.owe("outcome", "one")
    host.owe("approval", "ap-1")
    host.report()
    assert office.call("chain", "approvals", "--fleet").out == "nothing waits for a person\n"
    assert office.call("artifact", "list", "--fleet").out == "no artifacts\n"


def test_an_outcome_that_is_too_long_is_told_without_its_content(host: Host) -> None:
    host.finds("long", content=json.dumps({"text": "x" * MOST_BODY}))
    assert host.report() is None
    (row,) = host.place.call("artifact", "list", "--fleet", "--json").objects()
    assert (row["name"], row["content"]) == ("long", None)


def test_one_that_the_database_refuses_holds_up_no_other(host: Host) -> None:
    for name in ("a", "bad", "c"):
        host.finds(name)
    with host.admin() as admin:
        admin.execute("alter table runward.outcomes add check (id <> 'bad')")
    refused = host.report()
    assert refused is not None
    assert "the database refuses outcome bad, which stays owed" in refused
    assert host.owed() == [("outcome", "bad")]
    assert _names(host.place) == ["c", "a"]


NONSENSE: list[object] = [{}, {"session_key": 3, "kind": [], "name": "x"}, {"shown": {"argv": 3}, "step": 4}]


@pytest.mark.parametrize("body", NONSENSE)
def test_nonsense_of_another_host_is_left_out_or_shown_escaped(
    host: Host, office: Place, body: object
) -> None:
    with host.admin() as admin:
        for table, at in (("outcomes", "updated_at"), ("approvals", "asked_at")):
            admin.execute(
                f"insert into runward.{table} (host, id, version, {at}, body) values ('laptop', %s, 1, 1.0, %s)".encode(),
                ("\x1b[31mred", Jsonb(body)),
            )
    assert office.call("artifact", "list", "--fleet").out == "no artifacts\n"
    told = office.call("chain", "approvals", "--fleet")
    assert told.code == 0
    assert "\x1b" not in told.out
    assert "red" in told.out
    assert office.call("chain", "approvals", "--fleet", "--json").objects()[0]["host"] == "laptop"


def test_without_fleet_the_column_of_the_host_has_this_one(host: Host) -> None:
    host.finds("one")
    host.asks("ap-1")
    for words, head in ((("artifact", "list"), "NAME"), (("chain", "approvals"), "STEP")):
        told = host.place.call(*words, "--columns", f"HOST,{head}")
        assert told.out.splitlines()[1].split()[0] == "laptop", told.err


@pytest.mark.parametrize("words", [("artifact", "list"), ("chain", "approvals")])
def test_only_fleet_asks_the_database(host: Host, words: tuple[str, ...]) -> None:
    told = host.place.call(*words, "--host", "laptop")
    assert told.code == 2
    assert "--host needs --fleet" in told.err
    host.server.stop()
    try:
        assert host.place.call(*words).code == 0
        assert host.place.call(*words, "--fleet").code == 75
    finally:
        host.server.start()


def _reported(login: Connection, function: str, version: int, body: dict[str, Any] | None) -> None:
    ((number,),) = login.execute("select runward.greet(1, '1.0')").fetchall()
    row = {"id": "x", "version": version, "at": 1.0, "body": body}
    login.execute(f"select runward.{function}(%s, %s)".encode(), (number, Jsonb([row])))


@pytest.mark.parametrize("table", ["outcomes", "approvals"])
def test_each_guard_of_the_functions_is_needed(fleet: Fleet, table: str) -> None:
    function, at = f"report_{table}", "updated_at" if table == "outcomes" else "asked_at"

    def rows() -> list[tuple[Any, ...]]:
        with fleet.admin() as admin:
            return admin.execute(f"select host, version from runward.{table} order by 1".encode()).fetchall()

    with fleet.admin() as admin:
        admin.execute(
            f"insert into runward.{table} (host, id, version, {at}, body) values ('victim', 'x', 5, 1.0, '{{}}')".encode()
        )
    with fleet.login() as login:
        for attempt in (f"delete from runward.{table}", f"update runward.{table} set version = 9"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                login.execute(attempt.encode())
        _reported(login, function, 2, {})
        assert rows() == [("mallory", 2), ("victim", 5)]
        earlier: list[dict[str, Any] | None] = [{}, None]
        for body in earlier:
            _reported(login, function, 1, body)
            assert rows() == [("mallory", 2), ("victim", 5)]
        with pytest.raises(psycopg.errors.CheckViolation):
            _reported(login, function, 3, {"a": "x" * (1 << 20)})
        without(fleet, "where known.version <= excluded.version", function)
        _reported(login, function, 1, {})
        assert rows() == [("mallory", 1), ("victim", 5)]
        without(fleet, "and known.version <= new.version", function)
        _reported(login, function, 0, None)
        assert rows() == [("victim", 5)]
        without(fleet, "select own, new.id", function, "select 'victim', new.id")
        _reported(login, function, 9, {})
        assert rows() == [("victim", 9)]
        with pytest.raises(psycopg.Error, match="another program reports for this host"):
            login.execute(f"select runward.{function}(1, '[]')".encode())


def test_rows_are_told_in_parts(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MOST_AT_ONCE", 2)
    for number in range(5):
        host.finds(str(number))
    host.report()
    assert len(_names(host.place)) == 5
