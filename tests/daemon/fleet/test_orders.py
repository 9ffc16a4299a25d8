"""Orders of a fleet: whatever several hosts do at once, each order is begun by at most one of them at a time.

A plain model says what each function of the database answers, and what the table has then.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from psycopg.types.json import Jsonb
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.attacked import Connection, without
from tests.daemon.fleet.database import Server
from tests.daemon.fleet.places import invited

from runward.config.json_value import JsonValue
from runward.daemon.fleet.invitation import invitation_of
from runward.handlers.model.fleet import size_in_database, storable

LABELS = {"alice": {"gpu"}, "bob": {"gpu", "big"}, "carol": set[str]()}
FENCED = "another program reports for this host"


class Host:
    """A connection of a host, and the number of its program."""

    def __init__(self, server: Server, database: str, name: str, secret: str) -> None:
        self.name = name
        self.connection: Connection = psycopg.connect(
            user=f"host_{name}",
            password=secret,
            host=str(server.directory),
            port=server.port,
            dbname=database,
            autocommit=True,
        )
        self.number = self.greet()

    says_begun = False
    """Whether the database knows that its program says when a step begins."""

    def greet(self) -> int:
        number = int(self._value("select runward.greet(1, '1.0')"))
        self.says_begun = False
        return number

    def _value(self, statement: str, *given: object) -> Any:
        ((value,),) = self.connection.execute(statement.encode(), given).fetchall()
        return value

    def place(self, name: str, host: str | None, labels: list[str], within: float | None = None) -> str:
        given = (self.number, name, host, labels, "train", Jsonb({"with": {}}), within)
        return str(self._value("select runward.place_order(%s, %s, %s, %s, %s, %s, %s)", *given))

    def take(self, most: int) -> list[tuple[str, str, int]]:
        rows = self.connection.execute(
            "select origin, id, takes from runward.take_orders(%s, %s)", (self.number, most)
        )
        return [(str(origin), str(name), int(takes)) for origin, name, takes in rows]

    def begin(self, origin: str, name: str, take: int) -> bool:
        return bool(
            self._value("select runward.begin_order(%s, %s, %s, %s)", self.number, origin, name, take)
        )

    def give_back(self, origin: str, name: str, take: int, reason: str = "not accepted") -> bool:
        given = (self.number, origin, name, take, reason)
        return bool(self._value("select runward.give_back(%s, %s, %s, %s, %s)", *given))

    def end(self, origin: str, name: str, take: int, result: str) -> bool:
        given = (self.number, origin, name, take, Jsonb({"status": result}))
        return bool(self._value("select runward.end_order(%s, %s, %s, %s, %s)", *given))

    def cancel(self, name: str) -> str | None:
        state = self._value("select runward.cancel_order(%s, %s)", self.number, name)
        return None if state is None else str(state)

    def settle(self, name: str) -> bool:
        return bool(self._value("select runward.settle_order(%s, %s)", self.number, name))

    def pulse(self) -> list[str]:
        """Where it has something to look for."""
        words = list(self._value("select words from runward.pulse(%s, 0, '{}')", self.number))
        self.says_begun = True
        return words

    def seen(self) -> set[tuple[str, str]]:
        return {(str(a), str(b)) for a, b in self.connection.execute("select origin, id from runward.orders")}


@dataclass
class Order:
    """An order, as the model has it."""

    host: str | None
    labels: list[str]
    state: str = "open"
    takes: int = 0
    begun: int | None = None
    """The last take that began, as its taker said or as it has to be supposed."""
    taken_by: str | None = None
    declined: list[str] = field(default_factory=list)
    is_cancelled: bool = False
    result: str | None = None
    is_settled: bool = False
    is_late: bool = False

    def is_for(self, name: str) -> bool:
        if name in self.declined:
            return False
        return self.host == name if self.host is not None else {*self.labels} <= LABELS[name]


@dataclass
class Fleet:
    server: Server
    database: str
    hosts: dict[str, Host]

    def admin(self) -> Connection:
        return self.server.admin(self.database)


@pytest.fixture
def fleet(postgresql: Server, database: str, office: Place) -> Iterator[Fleet]:
    invitations = {
        name: invitation_of(invited(office, name, *(word for label in labels for word in ("--label", label))))
        for name, labels in LABELS.items()
    }
    with postgresql.admin(database) as admin:
        admin.execute("update runward.hosts set joined_at = now()")
    hosts = {name: Host(postgresql, database, name, each.secret) for name, each in invitations.items()}
    yield Fleet(postgresql, database, hosts)
    for each in hosts.values():
        each.connection.close()


NAMES = st.sampled_from(sorted(LABELS))
IDS = st.sampled_from(["1", "2"])
WANTED: st.SearchStrategy[tuple[str | None, list[str]]] = st.one_of(
    st.tuples(NAMES, st.just([])),
    st.tuples(st.none(), st.sampled_from([["gpu"], ["big"], ["gpu", "big"], ["none"]])),
)
TAKES = st.integers(0, 2)


class Orders(RuleBasedStateMachine):
    """Hosts that do anything in any order, with the database's functions."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self.fleet = fleet
        self.admin = fleet.admin()
        self.admin.execute("truncate runward.orders")
        self.model: dict[tuple[str, str], Order] = {}
        self.steps = 0

    def teardown(self) -> None:
        self.admin.close()

    @initialize(wanted=st.lists(WANTED, min_size=len(LABELS), max_size=len(LABELS)))
    def each_has_ordered_something_and_takes_what_it_may(
        self, wanted: list[tuple[str | None, list[str]]]
    ) -> None:
        """A history that begins with nothing says little within a few steps."""
        for name, each in zip(LABELS, wanted, strict=True):
            self.place(name, "1", each)
        for name in LABELS:
            self.take(name, 1)

    @rule(name=NAMES, identifier=IDS, wanted=WANTED)
    def place(self, name: str, identifier: str, wanted: tuple[str | None, list[str]]) -> None:
        order = self.model.setdefault((name, identifier), Order(*wanted))
        order.is_settled = False  # who orders it again knows nothing of its end
        assert self.fleet.hosts[name].place(identifier, *wanted) == order.state

    @rule(name=NAMES, most=st.integers(0, 3))
    def take(self, name: str, most: int) -> None:
        fitting = [
            (key, order)
            for key, order in self.model.items()  # the oldest first
            if order.state == "open" and not order.is_late and order.is_for(name)
        ][:most]
        for _, order in fitting:
            order.state, order.taken_by, order.takes = "taken", name, order.takes + 1
            order.begun = order.begun if self.fleet.hosts[name].says_begun else order.takes
        expected = {(*key, order.takes) for key, order in fitting}
        assert {*self.fleet.hosts[name].take(most)} == expected

    @rule(name=NAMES, origin=NAMES, identifier=IDS, take=TAKES)
    def begin(self, name: str, origin: str, identifier: str, take: int) -> None:
        order = self.model.get((origin, identifier))
        if order is not None and (order.state, order.taken_by, order.takes) == ("taken", name, take):
            order.begun = take
        assert self.fleet.hosts[name].begin(origin, identifier, take), "it decides nothing"

    @rule(name=NAMES, origin=NAMES, identifier=IDS, take=TAKES)
    def give_back(self, name: str, origin: str, identifier: str, take: int) -> None:
        order = self.model.get((origin, identifier))
        is_given_back = order is not None and name in order.declined
        if order is not None and (order.state, order.taken_by, order.takes) == ("taken", name, take):
            order.taken_by, is_given_back = None, True
            order.declined.append(name)
            is_for_another = order.host is None and any(map(order.is_for, LABELS))
            order.state = "withdrawn" if order.is_cancelled else "open" if is_for_another else "declined"
        assert self.fleet.hosts[name].give_back(origin, identifier, take) == is_given_back

    @rule(name=NAMES, origin=NAMES, identifier=IDS, take=TAKES, result=st.sampled_from("xy"))
    def end(self, name: str, origin: str, identifier: str, take: int, result: str) -> None:
        order, is_its = self.model.get((origin, identifier)), False
        if order is not None and (order.taken_by, order.takes) == (name, take):
            if order.state == "taken":
                order.state, order.result = "ended", result
            is_its = order.result == result
        assert self.fleet.hosts[name].end(origin, identifier, take, result) == is_its

    def _taken(self) -> list[tuple[tuple[str, str], Order]]:
        return [(key, each) for key, each in self.model.items() if each.taken_by is not None]

    @precondition(lambda self: self._taken())
    @rule(
        which=st.integers(0, 9),
        what=st.sampled_from(["begin", "give back", "end", "cancel"]),
        result=st.sampled_from("xy"),
    )
    def go_on_with_one_that_was_taken(self, which: int, what: str, result: str) -> None:
        """Chosen at random, most calls are about none."""
        taken = self._taken()
        (origin, identifier), order = taken[which % len(taken)]
        assert order.taken_by is not None
        if what == "begin":
            self.begin(order.taken_by, origin, identifier, order.takes)
        elif what == "give back":
            taker = order.taken_by
            self.give_back(taker, origin, identifier, order.takes)
            self.take(taker, 3)
        elif what == "end":
            self.end(order.taken_by, origin, identifier, order.takes, result)
        else:
            self.cancel(origin, identifier)

    @precondition(lambda self: self._taken())
    @rule(
        which=st.integers(0, 9),
        name=NAMES,
        earlier=st.integers(0, 1),
        what=st.sampled_from(["begin", "give back", "end"]),
        result=st.sampled_from("xy"),
    )
    def speak_of_one_that_was_taken(
        self, which: int, name: str, earlier: int, what: str, result: str
    ) -> None:
        """The host that took it."""
        taken = self._taken()
        (origin, identifier), order = taken[which % len(taken)]
        if what == "begin":
            self.begin(name, origin, identifier, order.takes - earlier)
        elif what == "give back":
            self.give_back(name, origin, identifier, order.takes - earlier)
        else:
            self.end(name, origin, identifier, order.takes - earlier, result)

    @rule(name=NAMES, identifier=IDS, wanted=WANTED, most=st.integers(1, 3))
    def place_one_too_late(
        self, name: str, identifier: str, wanted: tuple[str | None, list[str]], most: int
    ) -> None:
        self.place(name, identifier, wanted)
        self.time_passes(name, identifier)
        for each in LABELS:
            self.take(each, most)

    @rule(name=NAMES, identifier=IDS)
    def cancel(self, name: str, identifier: str) -> None:
        order = self.model.get((name, identifier))
        if order is not None and order.state in ("open", "taken"):
            order.is_cancelled = True
            order.state = "withdrawn" if order.state == "open" else order.state
        expected = None if order is None else order.state
        assert self.fleet.hosts[name].cancel(identifier) == expected

    @rule(name=NAMES, identifier=IDS)
    def settle(self, name: str, identifier: str) -> None:
        order = self.model.get((name, identifier))
        is_over = order is not None and order.state in ("ended", "declined", "withdrawn")
        if order is not None and is_over:
            order.is_settled = True
        assert self.fleet.hosts[name].settle(identifier) == is_over

    @rule(origin=NAMES, identifier=IDS)
    def time_passes(self, origin: str, identifier: str) -> None:
        """The order waits no longer for a host to begin it."""
        order = self.model.get((origin, identifier))
        if order is not None:
            order.is_late = True
            self.admin.execute(
                "update runward.orders set begin_by = now() - interval '1 s' where origin = %s and id = %s",
                (origin, identifier),
            )

    @rule(name=NAMES)
    def connect_again(self, name: str) -> None:
        """What the program before says then is refused, and changes nothing."""
        host = self.fleet.hosts[name]
        later, earlier = host.greet(), host.number
        for attempt in (
            lambda: host.place("1", name, []),
            lambda: host.take(9),
            lambda: host.begin(name, "1", 1),
            lambda: host.give_back(name, "1", 1),
            lambda: host.end(name, "1", 1, "x"),
            lambda: host.cancel("1"),
            lambda: host.settle("1"),
        ):
            assert host.number == earlier
            with pytest.raises(psycopg.Error, match=FENCED):
                attempt()
        host.number = later

    @invariant()
    def the_table_is_as_the_model_says(self) -> None:
        rows = self.admin.execute(
            "select origin, id, wanted_host, wanted_labels, state, takes, begun_take, taken_by,"
            " array(select jsonb_object_keys(declined) order by 1), cancelled, result ->> 'status',"
            " settled_at is not null from runward.orders"
        ).fetchall()
        assert {tuple(row[:2]): row[2:] for row in rows} == {
            key: (
                each.host,
                each.labels,
                each.state,
                each.takes,
                each.begun,
                each.taken_by,
                sorted(each.declined),
                each.is_cancelled,
                each.result,
                each.is_settled,
            )
            for key, each in self.model.items()
        }

    @invariant()
    def a_host_is_told_to_look_if_something_concerns_it_and_not_if_nothing_is_left(self) -> None:
        """After each step another one is asked."""
        self.steps += 1
        name = sorted(LABELS)[self.steps % len(LABELS)]
        is_left = any(not each.is_settled for each in self.model.values())
        concerns = any(
            (key[0] == name and each.state != "open" and not each.is_settled)
            or (each.taken_by == name and each.state == "taken")
            or (each.state == "open" and not each.is_late and each.is_for(name))
            for key, each in self.model.items()
        )
        told = self.fleet.hosts[name].pulse()
        assert told == ["orders"] or (told == [] and not concerns)
        assert is_left or told == []

    @invariant()
    def each_host_sees_what_it_ordered_and_what_it_took(self) -> None:
        for name, host in self.fleet.hosts.items():
            expected = {key for key, each in self.model.items() if name in (key[0], each.taken_by)}
            assert host.seen() == expected


def test_whatever_hosts_do_the_orders_are_as_the_model_says(fleet: Fleet) -> None:
    few = settings(settings(), stateful_step_count=30, max_examples=20)
    run_state_machine_as_test(lambda: Orders(fleet), settings=few)  # type: ignore[arg-type] # what makes one is as good as its class


@pytest.mark.prove
@pytest.mark.timeout(400)
def test_in_many_histories_the_orders_are_as_the_model_says(fleet: Fleet) -> None:
    many = settings(settings(), stateful_step_count=50, max_examples=60)
    run_state_machine_as_test(lambda: Orders(fleet), settings=many)  # type: ignore[arg-type] # what makes one is as good as its class


def test_hosts_that_take_at_the_same_time_share_the_orders(fleet: Fleet) -> None:
    alice, bob, carol = fleet.hosts.values()
    for number in range(200):
        carol.place(str(number), None, ["gpu"])
    taken: dict[str, list[str]] = {"alice": [], "bob": []}

    def work(host: Host) -> None:
        while orders := host.take(3):
            taken[host.name] += [name for _, name, _ in orders]

    threads = [threading.Thread(target=work, args=(host,)) for host in (alice, bob)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(taken["alice"] + taken["bob"]) == sorted(map(str, range(200)))


def test_an_order_that_is_about_to_be_taken_is_left_out_and_free_if_that_fails(fleet: Fleet) -> None:
    alice, bob, carol = fleet.hosts.values()
    carol.place("1", None, ["gpu"])
    carol.place("2", None, ["gpu"])
    alice.connection.autocommit = False
    assert [name for _, name, _ in alice.take(1)] == ["1"]
    assert [name for _, name, _ in bob.take(9)] == ["2"]
    alice.connection.rollback()
    assert bob.take(9) == [("carol", "1", 1)]


def test_no_program_connects_while_an_earlier_one_takes(fleet: Fleet) -> None:
    alice, _, carol = fleet.hosts.values()
    carol.place("1", "alice", [])
    with psycopg.connect(alice.connection.info.dsn, password=alice.connection.info.password) as later:
        alice.connection.autocommit = False
        assert alice.take(1) == [("carol", "1", 1)]
        later.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            later.execute("select runward.greet(1, '1.0')")
        later.rollback()
        alice.connection.commit()
        later.execute("select runward.greet(1, '1.0')")
        # What was taken is known by then.
        assert later.execute("select id, state from runward.orders").fetchall() == [("1", "taken")]


def test_a_host_that_vanishes_in_a_transaction_holds_nothing_locked_for_long(fleet: Fleet) -> None:
    """Nobody ends its connection: its machine has lost its power, or sleeps."""
    alice, _, carol = fleet.hosts.values()
    carol.place("1", "alice", [])
    (order,) = alice.take(1)
    without(fleet, "'10s'", "own_name", "'200ms'")
    alice.connection.autocommit = False
    assert alice.end(*order, "completed")
    assert carol.cancel("1") == "taken", "the order is free, and nothing was committed"
    with psycopg.connect(
        alice.connection.info.dsn, password=alice.connection.info.password, autocommit=True
    ) as later:
        ((alice.number,),) = later.execute("select runward.greet(1, '1.0')").fetchall()
        alice.connection, vanished = later, alice.connection
        assert alice.end(*order, "completed")
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
            vanished.commit()


def test_what_is_settled_is_told_again_to_a_host_that_orders_it_again(fleet: Fleet) -> None:
    """Its store was restored from a backup, so it no longer knows how that ended."""
    alice, _, carol = fleet.hosts.values()
    carol.place("1", "alice", [])
    (order,) = alice.take(1)
    assert alice.end(*order, "completed")
    assert carol.settle("1")
    assert carol.pulse() == []
    assert carol.place("1", "alice", []) == "ended"
    assert carol.pulse() == ["orders"]
    assert carol.settle("1")
    assert carol.pulse() == []


def test_the_oldest_order_is_taken_first(fleet: Fleet) -> None:
    alice, bob, carol = fleet.hosts.values()
    for number, host in enumerate((carol, bob, carol, alice)):
        host.place(str(number), "alice", [])
    assert [alice.take(1)[0][1] for _ in range(4)] == ["0", "1", "2", "3"]


def test_how_long_an_order_waits_is_measured_by_the_database(fleet: Fleet) -> None:
    alice, _, carol = fleet.hosts.values()
    carol.place("late", "alice", [], 0.0)
    carol.place("in time", "alice", [], 3600.0)
    assert [name for _, name, _ in alice.take(9)] == ["in time"]
    assert carol.cancel("late") == "withdrawn"


BAD_ORDERS: dict[str, tuple[object, ...]] = {
    "no name": ("", "alice", [], "train", {}),
    "a long name": ("x" * 201, "alice", [], "train", {}),
    "nobody wanted": ("1", None, [], "train", {}),
    "a host and labels": ("1", "alice", ["gpu"], "train", {}),
    "many labels": ("1", None, ["x" * 5000], "train", {}),
    "no skill": ("1", "alice", [], "", {}),
    "a body that is not an object": ("1", "alice", [], "train", []),
    "a body that is too long": ("1", "alice", [], "train", {"x": "x" * (1 << 20)}),
}


def test_an_order_has_limits(fleet: Fleet) -> None:
    alice = fleet.hosts["alice"]
    for what, order in BAD_ORDERS.items():
        with pytest.raises(psycopg.errors.CheckViolation):
            alice.connection.execute(
                "select runward.place_order(%s, %s, %s, %s, %s, %s, null)",
                (alice.number, *order[:4], Jsonb(order[4])),
            )
        assert alice.seen() == set(), what


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.recursive(st.floats(allow_nan=False, allow_infinity=False) | st.text(), st.lists))
def test_no_value_takes_the_database_more_than_is_counted(fleet: Fleet, value: JsonValue) -> None:
    kept = storable(value)
    connection = fleet.hosts["alice"].connection
    (size,) = connection.execute("select octet_length(%s::text)", (Jsonb(kept),)).fetchone() or (0,)
    assert size <= size_in_database(kept)


def test_a_host_that_was_removed_is_nobody_who_is_left(fleet: Fleet) -> None:
    alice, _, carol = fleet.hosts.values()
    for number in ("1", "2"):
        carol.place(number, None, ["gpu"])
    (one, another) = alice.take(2)
    assert alice.give_back(*one)
    assert carol.place("1", None, ["gpu"]) == "open", "bob may still take it"
    with fleet.admin() as admin:
        admin.execute("update runward.hosts set removed_at = now() where name = 'bob'")
    assert alice.give_back(*another)
    assert carol.place("2", None, ["gpu"]) == "declined"


def test_what_was_cancelled_is_given_to_nobody_else(fleet: Fleet) -> None:
    alice, bob, carol = fleet.hosts.values()
    carol.place("1", None, ["gpu"])
    (order,) = alice.take(1)
    assert carol.cancel("1") == "taken"
    assert alice.give_back(*order)
    assert carol.cancel("1") == "withdrawn"
    assert bob.take(9) == []


def test_a_result_is_never_replaced(fleet: Fleet) -> None:
    alice, _, carol = fleet.hosts.values()
    carol.place("1", "alice", [])
    (order,) = alice.take(1)
    assert alice.end(*order, "completed")
    assert alice.end(*order, "completed"), "once more is harmless"
    assert not alice.end(*order, "failed")
    ((result,),) = carol.connection.execute("select result ->> 'status' from runward.orders").fetchall()
    assert result == "completed"
