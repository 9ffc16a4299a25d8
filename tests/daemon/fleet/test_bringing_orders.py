"""What the program tells and brings of orders, between a store and an inbox and the database, without daemons.

Each guard of it is also taken away, and then the test sees what would happen.
"""

import json
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.attacked import Connection
from tests.daemon.fleet.database import Server
from tests.daemon.fleet.places import joined, new_place

from runward.config.settings import Accept, FleetSettings, Settings
from runward.daemon import faults
from runward.daemon.disk.receipt_keys import own_key_on_first_use
from runward.daemon.fleet import orders, program
from runward.daemon.fleet.connecting import PATIENCE_S, as_host, in_time
from runward.daemon.fleet.delivery import Delivery
from runward.daemon.fleet.orders import Orders
from runward.daemon.fleet.program import Program
from runward.daemon.fleet.serving import Notices, Serving
from runward.daemon.fleet.telling_orders import OrdersTold
from runward.daemon.store.tables.fleet_outbox import ORDER, Owed
from runward.handlers.bundle.signatures import named
from runward.handlers.fleet.signing import signer_of
from runward.handlers.model.fleet import run_of_order


class Both:
    """What a program tells of orders, and what it brings, over one connection."""

    def __init__(self, state: Path, settings: FleetSettings, number: int) -> None:
        self._told, self._brought = OrdersTold(state, settings, number), Orders(state, settings, number)
        self.say, self.look = self._told.say, self._brought.look

    @property
    def refused(self) -> str | None:
        return self._told.refused or self._brought.refused


class Host:
    """The host gpu-box, which accepts orders, and has a store but no daemon. `laptop` is another host of its fleet."""

    def __init__(self, server: Server, database: str, place: Place) -> None:
        self.server, self.database, self.place = server, database, place
        self.connections: list[Connection] = []
        written = tomllib.loads((place.directory / "runward.toml.d/fleet.toml").read_text())["fleet"]
        directory = place.directory / "runward.toml.d"
        self.settings = FleetSettings(
            host=written["host"],
            database=written["database"],
            password_file=str(directory / written["password_file"]),
            ca_file=str(directory / written["ca_file"]),
            accept=(Accept(("*",), ("*",)),),
        )

    def connected(self) -> tuple[Connection, Both]:
        """A connection of the next program, and its orders."""
        connection = as_host(self.settings)
        self.connections.append(connection)
        ((number,),) = connection.execute("select runward.greet(1, '1.0')").fetchall()
        return connection, Both(self.place.state, self.settings, int(number))

    def admin(self) -> Connection:
        return self.server.admin(self.database)

    def has(self, name: str, body: object = None, **columns: object) -> None:
        """An order of the laptop for this host."""
        row: dict[str, object] = {
            "origin": "laptop",
            "id": name,
            "wanted_host": "gpu-box",
            "wanted_labels": [],
            "skill": "train",
            "body": Jsonb({"format": 1} if body is None else body),
            **columns,
        }
        names, places = ", ".join(row), ", ".join(f"%({name})s" for name in row)
        with self.admin() as admin:
            admin.execute(f"insert into runward.orders ({names}) values ({places})".encode(), row)

    def owes(self, name: str, body: str = "{}", wanted: str = "placed") -> None:
        """An order of this host that the database lacks."""
        self.place.change_store(
            "insert into remote_steps (id, run, step, attempt, host, skill, body, placed_at, wanted)"
            " values (?, 'cr_1', 0, 1, 'laptop', 'train', ?, 1.0, ?)",
            name,
            body,
            wanted,
        )
        self.place.change_store("insert into fleet_outbox (kind, subject) values ('order', ?)", name)

    def owes_of_labels(self, name: str, *labels: str) -> None:
        """An order of this host that any host with these labels may take."""
        self.owes(name)
        self.place.change_store("update remote_steps set host = null, labels = ?", json.dumps(labels))

    def inbox(self, kind: str) -> list[dict[str, Any]]:
        """The requests of this kind."""
        found = [json.loads(path.read_bytes()) for path in (self.place.state / "inbox").glob("*.json")]
        return [each["payload"] for each in found if each["type"] == kind]

    def states(self) -> list[tuple[Any, ...]]:
        with self.admin() as admin:
            return admin.execute("select id, state from runward.orders order by id").fetchall()


@pytest.fixture
def host(postgresql: Server, database: str, office: Place, laptop: Place, tmp_path: Path) -> Iterator[Host]:
    gpu = new_place(tmp_path / "gpu")
    gpu.daemon_once()
    joined(office, gpu, "gpu-box")
    joined(office, laptop, "laptop")
    made = Host(postgresql, database, gpu)
    yield made
    for connection in made.connections:
        connection.close()


class Killed(BaseException):
    """Stands for a kill."""


def _kill_at(name: str) -> Callable[[str], None]:
    def strike(passed: str) -> None:
        if passed == name:
            raise Killed

    return strike


@pytest.mark.parametrize("is_read_again", [True, False])
def test_what_was_taken_right_before_a_crash_reaches_the_inbox_because_it_is_read_again(
    host: Host, monkeypatch: pytest.MonkeyPatch, is_read_again: bool
) -> None:
    host.has("1")
    connection, program = host.connected()
    faults.install(_kill_at("fleet.orders.taken"))
    try:
        with pytest.raises(Killed):
            program.look(connection)
    finally:
        faults.install(faults._nothing)
    assert host.states() == [("1", "taken")]
    assert host.inbox("RemoteStepOrdered") == []
    if not is_read_again:
        monkeypatch.setattr(Orders, "_tell_taker", lambda *given: None)
    connection, program = host.connected()
    program.look(connection)
    assert [each["id"] for each in host.inbox("RemoteStepOrdered")] == (["1"] if is_read_again else [])


@pytest.mark.parametrize("is_fixed", [True, False])
def test_a_request_that_is_put_again_is_the_same_by_its_name(
    host: Host, monkeypatch: pytest.MonkeyPatch, is_fixed: bool
) -> None:
    if not is_fixed:
        names = iter("abcdef")
        monkeypatch.setattr(orders, "_name", lambda *facts: next(names))
    host.has("1")
    for _ in range(2):
        connection, program = host.connected()
        program.look(connection)
    assert (len(host.inbox("RemoteStepOrdered")) == 1) is is_fixed


def _forget_the_take(host: Host) -> None:
    """The database is restored to before it."""
    with host.admin() as admin:
        admin.execute("update runward.orders set state = 'open', taken_by = null, taken_at = null, takes = 0")


def test_what_is_taken_again_in_an_older_database_is_decided_again(host: Host) -> None:
    """The first take was declined, and is not known any more: the second one has the same number."""
    host.has("1")
    for _ in range(2):
        connection, program = host.connected()
        program.look(connection)
        assert host.states() == [("1", "taken")]
        _forget_the_take(host)
    assert [each["take"] for each in host.inbox("RemoteStepOrdered")] == [1, 1]


@pytest.mark.parametrize("is_taken_before", [True, False])
def test_what_ran_here_before_its_session_was_pruned_is_not_begun_again(
    host: Host, is_taken_before: bool
) -> None:
    host.place.change_store(
        "insert into tombstones values ('native:runs/x', ?, 'completed', 1, 1.0, 2.0, 1, ?, 3.0, '[]')",
        run_of_order("laptop", "1", 1),
        "0" * 64,
    )
    host.has("1", **({"state": "taken", "taken_by": "gpu-box", "takes": 1} if is_taken_before else {}))
    connection, program = host.connected()
    program.look(connection)
    program.look(connection)
    assert host.states() == [("1", "taken")]
    assert host.inbox("RemoteStepOrdered") == []
    assert "laptop/1 before its store or the database was restored" in str(program.refused)


@pytest.mark.parametrize("is_fenced", [True, False])
def test_a_program_that_is_not_the_last_one_reads_and_says_nothing(
    host: Host, monkeypatch: pytest.MonkeyPatch, is_fenced: bool
) -> None:
    host.has("1", state="taken", taken_by="gpu-box", takes=1)
    connection, program = host.connected()
    host.connected()
    if not is_fenced:
        unfenced = orders._LOOK.replace("runward.own_name(%s)", "case when %s > 0 then 'gpu-box' end")
        monkeypatch.setattr(orders, "_LOOK", unfenced)
        monkeypatch.setattr(Orders, "_take", lambda *given: False)
        program.look(connection)
        assert len(host.inbox("RemoteStepOrdered")) == 1
        return
    with pytest.raises(psycopg.Error, match="another program reports"):
        program.look(connection)
    assert host.inbox("RemoteStepOrdered") == []
    host.owes("cr_1-0-1")
    with pytest.raises(psycopg.Error, match="another program reports"):
        list(program.say(connection))
    assert host.states() == [("1", "taken")]


def test_no_more_is_taken_than_slots_are_free(host: Host) -> None:
    for number in range(5):
        host.has(str(number))
    connection, program = host.connected()
    for _ in range(3):
        program.look(connection)
    assert [state for _, state in host.states()].count("taken") == 2
    # Once the store knows that one is over, another slot is free.
    host.place.change_store(
        "insert into orders_taken (origin, id, take, state, why, taken_at) values ('laptop', '0', 1, 'declined', 'x', 1.0)"
    )
    program.look(connection)
    assert [state for _, state in host.states()].count("taken") == 3


BODIES = {
    "one that is as long as the database takes": json.dumps({"x": "x" * 1_048_560}),
    "one that is deeper than Runward reads": '{"x": ' + "[" * 2000 + "]" * 2000 + "}",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_that_can_not_be_read_arrives_without_content_and_holds_up_no_other(
    host: Host, body: str
) -> None:
    host.has("bad", placed_at="2026-01-01")
    with host.admin() as admin:
        admin.execute("update runward.orders set body = %s::jsonb", (body,))
    host.has("good")
    connection, program = host.connected()
    program.look(connection)
    bodies = {each["id"]: each["body"] for each in host.inbox("RemoteStepOrdered")}
    assert bodies == {"good": {"format": 1}, "bad": None}


def test_what_the_database_refuses_stays_owed_is_named_and_holds_up_no_other(host: Host) -> None:
    host.owes("cr_1-0-1")
    host.owes("cr_1-1-1", body='{"with": {"x": "\\u0000"}}')
    host.owes("cr_1-2-1")
    connection, program = host.connected()
    said = [version for versions in program.say(connection) for version in versions]
    assert [name for name, _ in host.states()] == ["cr_1-0-1", "cr_1-2-1"]
    assert len(said) == 2
    assert program.refused is not None
    assert "cr_1-1-1" in program.refused


def test_an_origin_that_forgot_how_its_order_ended_is_told_again(host: Host) -> None:
    """Its store was restored from a backup."""
    ended = {"state": "ended", "taken_by": "laptop", "takes": 1, "result": Jsonb({"status": "completed"})}
    host.has("cr_1-0-1", origin="gpu-box", wanted_host="laptop", settled_at="2026-01-01", **ended)
    host.owes("cr_1-0-1")
    connection, program = host.connected()
    program.look(connection)
    assert host.inbox("RemoteStepOver") == []
    assert len([version for versions in program.say(connection) for version in versions]) == 1
    program.look(connection)
    assert [(each["id"], each["host"]) for each in host.inbox("RemoteStepOver")] == [("cr_1-0-1", "laptop")]


def test_over_a_slow_network_fewer_rows_are_told_at_once_until_all_are_told(host: Host) -> None:
    for number in range(10):
        host.owes(f"cr_1-{number}-1")
    sizes: list[int] = []

    def tell(connection: Connection, rows: list[Owed]) -> None:
        sizes.append(len(rows))
        if len(rows) > 3:
            raise psycopg.OperationalError("this took too long")

    connection, _ = host.connected()
    for _ in range(5):  # of the next program, after each failure
        delivery = Delivery(host.place.state, ORDER, lambda store, rows: rows, tell)
        with suppress(psycopg.OperationalError):
            for versions in delivery.say(connection):
                host.place.change_store(
                    "delete from fleet_outbox where version in (select value from json_each(?))",
                    json.dumps(versions),
                )
    assert host.place.rows("select subject from fleet_outbox") == []
    assert sizes[0] == 10


def test_each_order_that_is_read_has_the_time_of_a_statement(
    monkeypatch: pytest.MonkeyPatch, host: Host
) -> None:
    allowed: list[float] = []

    @contextmanager
    def counted(connection: Connection, seconds: float = PATIENCE_S) -> Iterator[None]:
        allowed.append(seconds)
        with in_time(connection, seconds):
            yield

    monkeypatch.setattr(orders, "in_time", counted)
    connection, program = host.connected()
    host.has("open")
    program.look(connection)
    assert max(allowed) > PATIENCE_S  # to take: nobody knows how many there are
    allowed.clear()
    for number in range(3):
        host.has(f"taken-{number}", state="taken", taken_by="gpu-box", takes=1)
        host.has(f"over-{number}", origin="gpu-box", wanted_host="laptop", state="withdrawn")
    program.look(connection)
    assert (len(host.inbox("RemoteStepOver")), len(host.inbox("RemoteStepOrdered"))) == (3, 4)
    assert [each for each in allowed if each > PATIENCE_S] == [3 * PATIENCE_S] * 2


def _begun(host: Host, state: str = "begun") -> None:
    """The laptop's order 1, which this host took and began."""
    host.has("1", state="taken", taken_by="gpu-box", takes=1)
    host.place.change_store(
        "insert into orders_taken (origin, id, take, state, session_key, result, taken_at)"
        " values ('laptop', '1', 1, ?, 'native:runs/x', ?, 1.0)",
        state,
        None if state == "begun" else "{}",
    )


def _give_up(host: Host) -> None:
    with host.admin() as admin:
        admin.execute("select runward.give_up_order('laptop', '1', 'lost')")


def test_what_was_given_up_while_it_runs_here_is_ended(host: Host) -> None:
    _begun(host)
    connection, program = host.connected()
    program.look(connection)
    assert host.inbox("RemoteStepCancelled") == []
    _give_up(host)
    program.look(connection)
    assert [(each["id"], each["take"]) for each in host.inbox("RemoteStepCancelled")] == [("1", 1)]


def test_what_the_database_contradicts_is_owed_no_longer_and_named(host: Host) -> None:
    _begun(host, "ended")
    _give_up(host)
    subject = json.dumps(["laptop", "1", 1], separators=(",", ":"))
    host.place.change_store("insert into fleet_outbox (kind, subject) values ('taken', ?)", subject)
    connection, program = host.connected()
    said = [version for versions in program.say(connection) for version in versions]
    assert len(said) == 1
    assert program.refused is not None
    assert "says something else" in program.refused
    assert host.states() == [("1", "declined")]


def test_an_origin_is_told_who_gave_an_order_up_and_why(host: Host) -> None:
    host.has("cr_1-0-1", origin="gpu-box", wanted_host="laptop", state="taken", taken_by="laptop", takes=1)
    with host.admin() as admin:
        admin.execute("select runward.give_up_order('gpu-box', 'cr_1-0-1', 'lost')")
    connection, program = host.connected()
    program.look(connection)
    (over,) = host.inbox("RemoteStepOver")
    assert (over["end"], over["host"], over["declined"]) == ("given_up", "laptop", {"admin": "lost"})


def test_an_order_of_labels_is_placed_with_all_of_them(host: Host) -> None:
    host.owes_of_labels("cr_1-0-1", "gpu", "large")
    connection, program = host.connected()
    list(program.say(connection))
    with host.admin() as admin:
        rows = admin.execute("select wanted_host, wanted_labels from runward.orders").fetchall()
    assert rows == [(None, ["gpu", "large"])]


def test_an_order_that_is_cancelled_before_it_was_placed_is_withdrawn_and_its_origin_told(host: Host) -> None:
    host.owes("cr_1-0-1", wanted="cancelled")
    connection, program = host.connected()
    list(program.say(connection))
    assert host.states() == [("cr_1-0-1", "withdrawn")]
    program.look(connection)
    (over,) = host.inbox("RemoteStepOver")
    assert (over["id"], over["end"], over["result"]) == ("cr_1-0-1", "withdrawn", None)
    host.place.change_store("update remote_steps set wanted = 'settled'")
    for path in (host.place.state / "inbox").glob("*.json"):
        path.unlink()
    connection, program = host.connected()
    program.look(connection)
    assert host.inbox("RemoteStepOver") == [], "it is known here"


def test_that_an_order_was_taken_waits_for_a_calm_moment_because_it_is_only_shown(host: Host) -> None:
    host.has("cr_1-0-1", origin="gpu-box", wanted_host="laptop", state="taken", taken_by="laptop", takes=1)
    connection, program = host.connected()
    program.look(connection)
    assert host.inbox("RemoteStepTaken") == []
    program.look(connection, is_calm=True)
    assert [(each["id"], each["host"]) for each in host.inbox("RemoteStepTaken")] == [("cr_1-0-1", "laptop")]


def test_a_notice_ends_the_wait(host: Host) -> None:
    connection, _ = host.connected()
    notices = Notices("gpu-box")
    notices.listen(connection)
    assert not notices.are_there(connection)
    host.has("1")
    connection.execute("select 1")
    assert notices.are_there(connection)
    assert not notices.are_there(connection)


class Stopped(Exception):
    """The test has seen enough."""


def rounds(
    host: Host, monkeypatch: pytest.MonkeyPatch, *between: Callable[[], None]
) -> tuple[list[tuple[float, int]], list[dict[str, object]]]:
    """When a program waited whom nothing wakes, how often it had asked until then, and what it tells its daemon.

    Between its rounds these are done, and the time passes for which it would wait.
    """
    counts: list[tuple[float, int]] = []
    asked = 0
    at = 1000.0
    told: list[dict[str, object]] = []
    execute = psycopg.Connection.execute
    left = [*between]

    def counted(self: Connection, *given: Any, **named: Any) -> object:
        nonlocal asked
        asked += 1
        return execute(self, *given, **named)

    def wait(self: Serving, longest: float) -> None:
        nonlocal at
        if longest == 0.0:
            return
        counts.append((at, asked))
        if not left:
            raise Stopped
        left.pop(0)()
        at += longest

    monkeypatch.setattr(psycopg.Connection, "execute", counted)
    monkeypatch.setattr(time, "monotonic", lambda: at)
    monkeypatch.setattr(Serving, "_wait", wait)
    monkeypatch.setattr(program, "_say", told.append)
    with pytest.raises(Stopped):
        Program(
            host.place.state,
            Settings(state_dir=str(host.place.state)),
            host.settings,
            1,
            lambda is_wanted: None,
        ).run()
    return counts, told


def nothing() -> None:
    """Time passes."""


def test_an_idle_program_asks_at_most_four_statements_a_minute(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, _ = rounds(host, monkeypatch, *[nothing] * 12)
    # Right after it has connected, it may have something to do.
    (began, before), (ended, after) = counts[2], counts[-1]
    assert ended - began >= 120.0
    assert (after - before) * 60 / (ended - began) <= 4


def test_a_program_without_notices_takes_an_order_in_the_next_round(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds(host, monkeypatch, nothing, partial(host.has, "one"), nothing)
    assert [each["id"] for each in host.inbox("RemoteStepOrdered")] == ["one"]
    assert host.states() == [("one", "taken")]


def test_a_host_is_said_to_owe_what_the_database_does_not_have_yet(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.owes("cr_1-0-1")
    host.owes("cr_1-0-2", body='{"too long": "%s"}' % ("x" * (1 << 20)))
    _, told = rounds(host, monkeypatch, nothing)
    with host.admin() as admin:
        rows = admin.execute("select owes, problems from runward.hosts where name = 'gpu-box'").fetchall()
    assert rows[0][0] == 1
    assert "cr_1-0-2, which stays owed" in rows[0][1][0]
    assert any("cr_1-0-2" in str(each.get("trouble")) for each in told)


def test_an_order_is_signed_by_the_key_of_its_host_and_the_signature_outlives_the_database(
    host: Host,
) -> None:
    body = json.dumps({"format": 1, "with": {"x": 1e23, "y": 1e-7, "z": 600.0, "t": "ä\u20ac"}})
    host.owes("cr_1-0-1", body)
    connection, program = host.connected()
    list(program.say(connection))
    key = own_key_on_first_use(str(host.place.state), "ed25519", {}).key
    host.owes("cr_1-1-1", body)
    list(program.say(connection))
    with host.admin() as admin:
        rows = admin.execute("select id, body::text from runward.orders order by id").fetchall()
    signers = [signer_of("gpu-box", order, json.loads(text), "laptop") for order, text in rows]
    assert signers == [None, named(key)]
    Path(host.place.state / "keys/receipt-ed25519").chmod(0o644)
    host.owes("cr_1-2-1", body)
    list(program.say(connection))
    assert "orders are not signed: others can read or replace the key" in str(program.refused)
