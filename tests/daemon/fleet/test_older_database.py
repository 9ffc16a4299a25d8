"""A database that was restored, or a replica that was promoted, has forgotten who took what. Nobody takes anything until all have said it again.

Here hosts call the functions of the database, and each guard is also taken away. Whole programs are in `test_restored_fleet.py`.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.attacked import Connection, without
from tests.daemon.fleet.database import Server
from tests.daemon.fleet.places import invited

from runward.daemon.fleet.invitation import invitation_of

LABELS = {"alice": (), "bob": ("gpu",), "carol": ("gpu",)}
"""The hosts. Alice orders; Bob and Carol take."""


class Host:
    """A connection of a host, what it remembers, and what its own store knows of takes: what a restore can't change."""

    def __init__(self, fleet: "Fleet", name: str, secret: str) -> None:
        self.fleet, self.name, self.secret = fleet, name, secret
        self.identity: str | None = None
        self.changes: dict[str, int] = {}
        self.restored = 0
        self.reached = 1
        self.found: tuple[str | None, dict[str, int]] = (None, {})
        self.connection: Connection | None = None
        self.connect()

    def connect(self) -> None:
        self.close()
        self.connection = psycopg.connect(
            user=f"host_{self.name}",
            password=self.secret,
            host=str(self.fleet.server.directory),
            port=self.fleet.server.port,
            dbname=self.fleet.database,
            autocommit=True,
        )
        self.number = int(self.value("select runward.greet(1, '1.0')"))
        self.compare()

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def value(self, statement: str, *given: object) -> Any:
        ((value,),) = self.execute(statement, *given)
        return value

    def execute(self, statement: str, *given: object) -> list[tuple[Any, ...]]:
        assert self.connection is not None
        return self.connection.execute(statement.encode(), given).fetchall()

    def compare(self) -> tuple[bool, list[str]]:
        """Whether it has to say again what it knows, and for whom all wait."""
        facts = (self.number, self.name != "alice", self.restored, self.reached)
        seen = (self.identity, Jsonb(self.changes))
        ((identity, since, waits_for, changes),) = self.execute(
            "select * from runward.compare_record(%s, %s, %s, %s, %s, %s)", *facts, *seen
        )
        self.found = identity, changes
        if since is None:
            self.identity, self.changes = self.found
        return since is not None, waits_for

    def must_say(self) -> bool:
        return self.compare()[0]

    def place(self, order: str, host: str | None = None) -> str:
        labels = [] if host else ["gpu"]
        given = (self.number, order, host, labels, "train", Jsonb({"secret": order}), None)
        return str(self.value("select runward.place_order(%s, %s, %s, %s, %s, %s, %s)", *given))

    def take(self) -> list[tuple[str, int]]:
        self.compare()
        rows = self.execute("select id, takes from runward.take_orders(%s, %s)", self.number, 10)
        return [(str(order), int(take)) for order, take in rows]

    def took(self, order: str, take: int = 1) -> str:
        return str(self.value("select runward.took_order(%s, %s, %s, %s)", self.number, "alice", order, take))

    def end(self, order: str, take: int = 1) -> bool:
        given = (self.number, "alice", order, take, Jsonb({"status": "completed"}))
        return bool(self.value("select runward.end_order(%s, %s, %s, %s, %s)", *given))

    def give_back(self, order: str, take: int = 1) -> bool:
        given = (self.number, "alice", order, take, "no")
        return bool(self.value("select runward.give_back(%s, %s, %s, %s, %s)", *given))

    def settle(self, order: str) -> bool:
        return bool(self.value("select runward.settle_order(%s, %s)", self.number, order))

    def cancel(self, order: str) -> str:
        return str(self.value("select runward.cancel_order(%s, %s)", self.number, order))

    def still_wants(self, *orders: str) -> None:
        self.value("select runward.still_wanted(%s, %s)", self.number, list(orders))

    def said_again(self) -> None:
        self.compare()
        self.identity, self.changes = self.found
        self.value("select runward.said_again(%s)", self.number)


class Fleet:
    def __init__(self, server: Server, database: str) -> None:
        self.server, self.database = server, database
        self.hosts: dict[str, Host] = {}

    def admin(self) -> Connection:
        return self.server.admin(self.database)

    def orders(self) -> dict[str, tuple[Any, ...]]:
        with self.admin() as admin:
            rows = admin.execute("select id, state, taken_by, takes from runward.orders").fetchall()
        return {str(order): tuple(rest) for order, *rest in rows}

    def copy(self) -> "Copy":
        """All of the database as it stands, to be restored later."""
        tables = ("hosts", "orders", "identity", "unheard", "claims")
        with self.admin() as admin:
            return {
                table: admin.execute(f"select to_jsonb(t) from runward.{table} t".encode()).fetchall()
                for table in tables
            }

    def restore(self, copy: "Copy", *, as_another: bool) -> None:
        """Bring it to what it was. `as_another`: as a dump is restored, in another database; else as a copy of its files."""
        with self.admin() as admin:
            admin.execute("truncate runward.orders, runward.claims, runward.unheard, runward.sessions")
            admin.execute("delete from runward.hosts; delete from runward.identity")
            for table, rows in copy.items():
                for (row,) in rows:
                    names = ", ".join(row)
                    admin.execute(
                        f"insert into runward.{table} ({names}) select {names} from jsonb_populate_record(null::runward.{table}, %s)".encode(),
                        (Jsonb(row),),
                    )
            if as_another:
                admin.execute("update runward.identity set known = 'of the database that was dumped'")
        for host in self.hosts.values():
            host.close()


Copy = dict[str, list[Any]]


@pytest.fixture
def fleet(postgresql: Server, database: str, office: Place) -> Iterator[Fleet]:
    made = Fleet(postgresql, database)
    secrets = {
        name: invitation_of(
            invited(office, name, *(word for each in labels for word in ("--label", each)))
        ).secret
        for name, labels in LABELS.items()
    }
    with made.admin() as admin:
        admin.execute("update runward.hosts set joined_at = now()")
    made.hosts |= {name: Host(made, name, secret) for name, secret in secrets.items()}
    yield made
    for host in made.hosts.values():
        host.close()


@pytest.fixture
def alice(fleet: Fleet) -> Host:
    return fleet.hosts["alice"]


@pytest.fixture
def bob(fleet: Fleet) -> Host:
    return fleet.hosts["bob"]


@pytest.fixture
def carol(fleet: Fleet) -> Host:
    return fleet.hosts["carol"]


def _restored_after_a_take(fleet: Fleet, as_another: bool) -> None:
    """Bob took an order that Alice placed. Then the database is restored to before that."""
    alice, bob, carol = fleet.hosts.values()
    assert alice.place("one") == "open"
    copy = fleet.copy()
    assert bob.take() == [("one", 1)]
    carol.compare()
    fleet.restore(copy, as_another=as_another)
    assert fleet.orders()["one"] == ("open", None, 0)


RESTORED = pytest.mark.parametrize(
    "as_another", [True, False], ids=["another database", "a copy in its place"]
)


@RESTORED
def test_nobody_takes_anything_until_every_taker_has_said_again_what_it_took(
    fleet: Fleet, alice: Host, bob: Host, carol: Host, as_another: bool
) -> None:
    _restored_after_a_take(fleet, as_another)
    carol.connect()
    assert carol.compare() == (True, ["bob", "carol"])
    assert carol.take() == []
    carol.said_again()
    assert carol.take() == [], "bob may have taken it"
    alice.connect()
    alice.still_wants("one")
    alice.said_again()
    assert carol.take() == []
    bob.connect()
    assert bob.must_say()
    assert bob.took("one") == "taken"
    bob.said_again()
    assert carol.compare() == (False, [])
    assert carol.take() == []
    assert fleet.orders()["one"] == ("taken", "bob", 1)
    assert bob.end("one")
    # From here on all is as before.
    alice.place("two")
    assert carol.take() == [("two", 1)]
    for host in fleet.hosts.values():
        assert not host.must_say()


def test_without_the_identity_another_host_begins_what_was_taken(
    fleet: Fleet, bob: Host, carol: Host
) -> None:
    carol.changes = {}
    without(fleet, "exists (select from identity where known <> identity_here())", "is_older", "false")
    without(fleet, "known is null or known = identity_here()", "take_orders", "true")
    carol.identity = None
    _restored_after_a_take(fleet, as_another=True)
    carol.changes, carol.identity = {}, None
    carol.connect()
    assert carol.take() == [("one", 1)]


def test_without_the_counters_another_host_begins_what_was_taken(fleet: Fleet, carol: Host) -> None:
    without(fleet, "hosts.changes < value::bigint", "is_older", "false")
    _restored_after_a_take(fleet, as_another=False)
    carol.connect()
    assert carol.take() == [("one", 1)]


@pytest.mark.parametrize(
    "guard",
    ["exists (select waited_for())", "exists (select from unheard where host = own)"],
)
def test_without_waiting_another_host_begins_what_was_taken(
    fleet: Fleet, alice: Host, bob: Host, carol: Host, guard: str
) -> None:
    _restored_after_a_take(fleet, as_another=True)
    for host in (alice, carol):
        host.connect()
    alice.said_again()
    if "unheard" in guard:
        # Nobody is waited for; this one has not said anything itself.
        with fleet.admin() as admin:
            admin.execute("update runward.unheard set is_left_out = true")
    else:
        carol.said_again()
    assert carol.take() == []
    without(fleet, guard, "take_orders", "false")
    assert carol.take() == [("one", 1)]


def test_a_program_of_the_previous_format_takes_nothing_either(fleet: Fleet, carol: Host) -> None:
    _restored_after_a_take(fleet, as_another=True)
    with psycopg.connect(
        user="host_carol",
        password=carol.secret,
        host=str(fleet.server.directory),
        port=fleet.server.port,
        dbname=fleet.database,
        autocommit=True,
    ) as login:
        ((number,),) = login.execute("select runward.greet(1, '0.9')").fetchall()
        assert login.execute("select id from runward.take_orders(%s, 10)", (number,)).fetchall() == []
        without(fleet, "known is null or known = identity_here()", "take_orders", "true")
        assert login.execute("select id from runward.take_orders(%s, 10)", (number,)).fetchall() == [("one",)]


def test_a_host_is_left_out_by_a_person_alone_and_its_orders_with_it(
    fleet: Fleet, office: Place, alice: Host, bob: Host, carol: Host
) -> None:
    _restored_after_a_take(fleet, as_another=True)
    for host in (alice, carol):
        host.connect()
        host.said_again()
    told = office.call("fleet", "resume")
    assert told.code == 0
    assert "hosts take no steps until these have said again what they took:\n  bob  heard of " in told.out
    told = office.call("fleet", "resume", "--without", "carol")
    assert (told.code, "the fleet does not wait for 'carol', but for bob" in told.err) == (3, True)
    assert carol.take() == []
    told = office.call("fleet", "resume", "--without", "bob")
    assert (told.code, told.out) == (0, "nobody is waited for: hosts take steps\n")
    assert office.call("fleet", "resume").out == told.out
    assert carol.take() == [("one", 1)], "which may run twice now"
    # Once it is back, it says again what it knows all the same.
    bob.connect()
    assert bob.must_say()
    assert bob.took("one") == "lost"
    assert bob.take() == []
    bob.said_again()
    assert not bob.must_say()
    assert fleet.orders()["one"] == ("taken", "carol", 1)


def test_orders_of_an_origin_that_was_not_heard_are_not_taken(
    fleet: Fleet, alice: Host, bob: Host, carol: Host
) -> None:
    """It may have seen the end of one that the database has as open."""
    alice.place("one")
    copy = fleet.copy()
    bob.take()
    bob.end("one")
    alice.settle("one")
    fleet.restore(copy, as_another=True)
    for host in (bob, carol):
        host.connect()
        host.said_again()  # Bob's record of it was pruned
    assert carol.compare() == (False, [])
    assert carol.take() == []
    alice.connect()
    alice.still_wants()
    alice.said_again()
    assert carol.take() == []
    assert fleet.orders()["one"] == ("withdrawn", None, 0)


def test_what_was_ordered_since_is_said_again_by_either_side_first(
    fleet: Fleet, alice: Host, bob: Host, carol: Host
) -> None:
    copy = fleet.copy()
    for order in ("first", "second"):
        alice.place(order)
        assert bob.take() == [(order, 1)]
    fleet.restore(copy, as_another=True)
    bob.connect()
    assert bob.took("first") == "claimed"
    assert bob.took("second") == "claimed"
    assert bob.end("second")
    assert bob.end("second"), "again"
    bob.said_again()
    carol.connect()
    carol.said_again()
    assert carol.take() == []
    alice.connect()
    assert alice.place("first") == "taken"
    assert alice.place("second") == "ended"
    alice.still_wants("first", "second")
    alice.said_again()
    assert carol.take() == []
    assert fleet.orders() == {"first": ("taken", "bob", 1), "second": ("ended", "bob", 1)}


def test_a_later_take_counts_where_the_database_knows_only_the_earlier_one(
    fleet: Fleet, alice: Host, bob: Host, carol: Host
) -> None:
    """Bob took it, and gave it back; then Carol took it. The database knows only the first."""
    for carol_first in (True, False):
        order = f"order-{carol_first}"
        alice.place(order)
        assert bob.take() == [(order, 1)]
        copy = fleet.copy()
        assert bob.give_back(order)
        assert carol.take() == [(order, 2)]
        fleet.restore(copy, as_another=True)
        carol.connect()
        bob.connect()
        alice.connect()
        alice.still_wants(order)
        alice.said_again()
        if carol_first:
            assert carol.took(order, 2) == "claimed"
            carol.said_again()
            assert fleet.orders()[order] == ("taken", "bob", 1)
            bob.said_again()  # knows nothing of this take any more
        else:
            bob.said_again()
            assert fleet.orders()[order] == ("taken", "bob", 1), "nobody else says that it has it"
            assert carol.took(order, 2) == "taken"
            carol.said_again()
        assert fleet.orders()[order] == ("taken", "carol", 2)
        assert carol.end(order, 2)


def test_who_really_has_it_keeps_it_whatever_another_host_claims(
    fleet: Fleet, alice: Host, bob: Host, carol: Host
) -> None:
    alice.place("one")
    assert bob.take() == [("one", 1)]
    fleet.restore(fleet.copy(), as_another=True)
    for host in (carol, bob):
        host.connect()
    assert carol.took("one", 9) == "claimed"
    assert bob.took("one") == "taken"
    bob.said_again()
    carol.said_again()
    assert fleet.orders()["one"] == ("taken", "bob", 1)
    # Who has nothing to say again claims nothing.
    assert carol.took("one", 9) == "lost"
    alice.connect()
    alice.place("two", "bob")
    assert carol.took("two", 9) == "lost"


def test_no_claim_leaves_other_hosts_without_a_number_for_their_take(
    fleet: Fleet, alice: Host, bob: Host, carol: Host
) -> None:
    alice.place("one")
    fleet.restore(fleet.copy(), as_another=True)
    highest = 2**31 - 1
    bob.connect()
    assert bob.took("one", highest) == "lost"
    bob.said_again()
    alice.connect()
    alice.still_wants("one")
    alice.said_again()
    carol.connect()
    carol.said_again()
    assert not bob.give_back("one", highest)
    assert carol.take() == [("one", 1)]


def _give_up(fleet: Fleet, order: str) -> Any:
    with fleet.admin() as admin:
        ((state,),) = admin.execute("select runward.give_up_order('alice', %s, 'lost')", (order,)).fetchall()
    return state


def _restored_after_a_later_take(fleet: Fleet) -> None:
    """Bob took an order and gave it back; then Carol took it. The database knows only the first, and Bob is not heard."""
    alice, bob, carol = fleet.hosts.values()
    alice.place("one")
    assert bob.take() == [("one", 1)]
    copy = fleet.copy()
    assert bob.give_back("one")
    assert carol.take() == [("one", 2)]
    fleet.restore(copy, as_another=True)
    carol.connect()
    assert carol.must_say()


@pytest.mark.parametrize("is_guarded", [True, False])
def test_what_was_given_up_since_the_restore_is_lost_to_a_later_taker(
    fleet: Fleet, carol: Host, is_guarded: bool
) -> None:
    _restored_after_a_later_take(fleet)
    assert _give_up(fleet, "one") == "given_up"
    if not is_guarded:
        without(fleet, "or its.given_up is not null", "took_order")
    # It has to know: its step goes on there, and its origin went on without it.
    assert carol.took("one", 2) == ("lost" if is_guarded else "claimed")
    carol.said_again()
    assert fleet.orders()["one"] == ("declined", None, 1)


@pytest.mark.parametrize("is_guarded", [True, False])
def test_what_somebody_claims_can_be_given_up_all_the_same(
    fleet: Fleet, carol: Host, is_guarded: bool
) -> None:
    _restored_after_a_later_take(fleet)
    assert carol.took("one", 2) == "claimed"
    if not is_guarded:
        with fleet.admin() as admin:
            ((trigger,),) = admin.execute(
                "select pg_get_triggerdef(oid) from pg_trigger where tgname = 'heed_claim'"
            ).fetchall()
            mutated = str(trigger).replace("new.given_up IS NULL", "true")
            assert mutated != trigger
            admin.execute("drop trigger heed_claim on runward.orders")
            admin.execute(mutated.encode())
        with pytest.raises(psycopg.errors.CheckViolation):
            _give_up(fleet, "one")
        return
    assert _give_up(fleet, "one") == "given_up"
    carol.said_again()
    assert fleet.orders()["one"] == ("declined", None, 1)


def test_nobody_claims_what_it_could_not_take(fleet: Fleet, alice: Host, bob: Host, carol: Host) -> None:
    fleet.restore(fleet.copy(), as_another=True)
    for host in (carol, alice):
        host.connect()
    assert carol.took("one", 9) == "claimed"
    assert alice.place("one", "bob") == "open"
    bob.connect()
    for host in (alice, bob, carol):
        host.said_again()
    assert bob.take() == [("one", 1)]


def test_what_is_cancelled_meanwhile_is_withdrawn_only_once_all_were_heard(
    fleet: Fleet, alice: Host, bob: Host, carol: Host
) -> None:
    alice.place("one")
    alice.place("two")
    copy = fleet.copy()
    bob.execute("select id from runward.take_orders(%s, 1)", bob.number)
    fleet.restore(copy, as_another=True)
    alice.connect()
    # It may have begun: Bob has it.
    assert alice.cancel("one") == "open"
    assert alice.cancel("two") == "open"
    alice.still_wants("one", "two")
    alice.said_again()
    for host in (carol, bob):
        host.connect()
    carol.said_again()
    bob.took("one")
    bob.said_again()
    assert fleet.orders() == {"one": ("taken", "bob", 1), "two": ("withdrawn", None, 0)}
    with fleet.admin() as admin:
        assert admin.execute("select cancelled from runward.orders where id = 'one'").fetchall() == [(True,)]


def test_a_host_that_the_database_has_forgotten_is_waited_for(
    fleet: Fleet, office: Place, bob: Host, carol: Host
) -> None:
    copy = fleet.copy()
    copy["hosts"] = [row for row in copy["hosts"] if row[0]["name"] != "bob"]
    carol.compare()
    fleet.restore(copy, as_another=False)
    carol.connect()
    carol.said_again()
    assert carol.compare() == (False, ["bob"])
    assert carol.take() == []
    assert "  bob  never heard of\n" in office.call("fleet", "resume").out
    assert office.call("fleet", "resume", "--without", "bob").code == 0
    assert carol.compare() == (False, [])


def test_who_never_took_anything_is_not_waited_for_unless_it_did_something_since(
    fleet: Fleet, alice: Host, bob: Host, carol: Host
) -> None:
    copy = fleet.copy()
    fleet.restore(copy, as_another=True)
    for host in (carol, bob):
        host.connect()
        host.said_again()
    assert bob.compare() == (False, [])
    alice.connect()
    alice.said_again()
    copy = fleet.copy()
    alice.place("one")
    bob.compare()
    fleet.restore(copy, as_another=True)
    for host in (carol, bob):
        host.connect()
        host.said_again()
    assert bob.compare() == (False, ["alice"])


def test_each_host_counts_its_own_changes_alone(fleet: Fleet, alice: Host, bob: Host) -> None:
    def counts() -> tuple[int, ...]:
        bob.compare()
        return tuple(bob.changes[name] for name in ("alice", "bob", "carol"))

    assert counts() == (0, 0, 0)
    alice.place("one")
    alice.place("one")
    assert counts() == (1, 0, 0)
    bob.take()
    bob.take()
    assert counts() == (1, 1, 0)
    bob.end("one")
    alice.settle("one")
    assert counts() == (2, 2, 0)


def test_a_restored_store_doubts_what_it_took_and_a_sound_one_does_not(
    fleet: Fleet, alice: Host, bob: Host
) -> None:
    def doubted() -> list[tuple[Any, ...]]:
        with fleet.admin() as admin:
            return admin.execute("select id from runward.orders where doubted order by 1").fetchall()

    alice.place("one")
    bob.take()
    bob.reached = 7
    bob.connect()
    assert doubted() == []
    bob.reached, bob.restored = 8, 3
    bob.compare()
    assert doubted() == [("one",)]
    alice.place("two")
    bob.take()
    bob.connect()
    assert doubted() == [("one",)], "what was taken since the restore is known"
    # A copy of the whole machine says nothing of a restore.
    bob.reached = 5
    bob.connect()
    assert doubted() == [("one",), ("two",)]


def test_what_a_host_remembers_of_another_database_is_an_older_one(fleet: Fleet, bob: Host) -> None:
    bob.identity = "the promoted replica"
    assert bob.must_say()
