"""The double of the database is one after a restore, too: it passes the scenarios of the database, and answers whatever hosts ask as that does."""

import inspect
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.daemon.fleet import test_older_database
from tests.daemon.fleet.double import Content, Database, DoubleConnection
from tests.daemon.fleet.test_older_database import LABELS, Fleet, Host

fleet = test_older_database.fleet


class DoubleHost(Host):
    """A host with a connection to the double."""

    fleet: "DoubleFleet"

    def connect(self) -> None:
        self.close()
        self.connection = DoubleConnection(self.fleet.double, self.name)  # type: ignore[assignment] # as far as it is used
        self.number = int(self.value("select runward.greet(1, '1.0')"))
        self.compare()


class DoubleFleet(Fleet):
    """A fleet of the double, as the scenarios use one."""

    def __init__(self) -> None:
        self.double = Database({name: {*labels} for name, labels in LABELS.items()})
        self.hosts = {name: DoubleHost(self, name, "") for name in LABELS}

    def orders(self) -> dict[str, tuple[Any, ...]]:
        return {name: (row.state, row.taken_by, row.takes) for (_, name), row in self.double.rows.items()}

    def copy(self) -> Any:
        return self.double.copy()

    def restore(self, copy: Any, *, as_another: bool) -> None:
        assert isinstance(copy, Content)
        self.double.restore(copy, as_another=False)
        if as_another:
            self.double.content.known = "of the database that was dumped"
        for host in self.hosts.values():
            host.close()


@pytest.fixture
def double() -> Iterator[DoubleFleet]:
    made = DoubleFleet()
    yield made
    for host in made.hosts.values():
        host.close()


SCENARIOS: tuple[Callable[..., None], ...] = (
    test_older_database.test_nobody_takes_anything_until_every_taker_has_said_again_what_it_took,
    test_older_database.test_orders_of_an_origin_that_was_not_heard_are_not_taken,
    test_older_database.test_what_was_ordered_since_is_said_again_by_either_side_first,
    test_older_database.test_a_later_take_counts_where_the_database_knows_only_the_earlier_one,
    test_older_database.test_who_really_has_it_keeps_it_whatever_another_host_claims,
    test_older_database.test_nobody_claims_what_it_could_not_take,
    test_older_database.test_who_never_took_anything_is_not_waited_for_unless_it_did_something_since,
    test_older_database.test_each_host_counts_its_own_changes_alone,
    test_older_database.test_what_a_host_remembers_of_another_database_is_an_older_one,
)


@pytest.mark.parametrize("as_another", [True, False])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_double_passes_what_the_database_passes(
    double: DoubleFleet, scenario: Callable[..., None], as_another: bool
) -> None:
    known = {"fleet": double, "as_another": as_another, **double.hosts}
    scenario(**{name: known[name] for name in inspect.signature(scenario).parameters})


class Both:
    """The database and its double, of which the same is asked, in the order that dice say."""

    def __init__(self, real: Fleet, double: DoubleFleet, seed: int) -> None:
        self.real, self.double = real, double
        self.dice = random.Random(seed)
        self.admin = real.admin()
        self.copies: list[tuple[Any, Any]] = []
        self.said: list[str] = []

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            assert self._rows_of_real() == self._rows_of_double(), self.said

    def step(self) -> None:
        dice = self.dice
        name, order, take = dice.choice([*LABELS]), dice.choice("123"), dice.choice((1, 1, 2))
        wanted = dice.sample("123", dice.randrange(4))
        deeds: list[tuple[str, Callable[[Host], object]]] = [
            ("connect", lambda host: host.connect()),
            ("compare", lambda host: host.compare()),
            ("take", lambda host: host.take()),
            (f"take of {order}/{take} again", lambda host: host.took(order, take)),
            (f"end of {order}/{take}", lambda host: host.end(order, take)),
            (f"return of {order}/{take}", lambda host: host.give_back(order, take)),
            ("all said again", lambda host: host.said_again()),
        ]
        of_alice: list[tuple[str, Callable[[Host], object]]] = [
            (f"place {order}", lambda host: host.place(order, "bob" if order == "3" else None)),
            (f"cancel {order}", lambda host: host.cancel(order)),
            (f"settle {order}", lambda host: host.settle(order)),
            (f"still wants {wanted}", lambda host: host.still_wants(*wanted)),
        ]
        match dice.randrange(12):
            case 0:
                self.copies.append((self.real.copy(), self.double.copy()))
            case 1 if self.copies:
                self._restore(dice.choice(self.copies), dice.random() < 0.5)
            case 2 if dice.random() < 0.5:
                self._give_up(order)
            case 3 | 4 | 5:
                self._ask("alice", *dice.choice(of_alice))
            case _:
                self._ask(name, *dice.choice(deeds))

    def _ask(self, name: str, what: str, deed: Callable[[Host], object]) -> None:
        self.said.append(f"{name}: {what}")
        answers = [deed(each.hosts[name]) for each in (self.real, self.double)]
        assert answers[0] == answers[1], self.said

    def _restore(self, copies: tuple[Any, Any], as_another: bool) -> None:
        self.said.append(f"restored, as another database: {as_another}")
        names = self.dice.sample([*LABELS], len(LABELS))
        for each, copy in zip((self.real, self.double), copies, strict=True):
            each.restore(copy, as_another=as_another)
            for name in names:
                each.hosts[name].connect()

    def _give_up(self, order: str) -> None:
        self.said.append(f"given up: {order}")
        ((state,),) = self.admin.execute(
            "select runward.give_up_order('alice', %s, 'lost')", (order,)
        ).fetchall()
        assert state == self.double.double.give_up_order("admin", "alice", order, "lost"), self.said

    def _rows_of_real(self) -> list[tuple[Any, ...]]:
        return self.admin.execute(
            "select id, state, taken_by, takes, doubted, cancelled, settled_at is not null, result ->> 'status',"
            " given_up ->> 'host' from runward.orders order by id"
        ).fetchall()

    def _rows_of_double(self) -> list[tuple[Any, ...]]:
        return [
            (
                *(row.id, row.state, row.taken_by, row.takes, row.doubted, row.cancelled, row.settled),
                *(row.result and row.result["status"], row.given_up and row.given_up["host"]),
            )
            for row in sorted(self.double.double.rows.values(), key=lambda row: row.id)
        ]


def _plays(real: Fleet, seeds: range) -> None:
    empty = real.copy()
    for seed in seeds:
        double = DoubleFleet()
        real.restore(empty, as_another=False)
        for host in real.hosts.values():
            host.identity, host.changes = None, {}
            host.connect()
        both = Both(real, double, seed)
        try:
            both.play(60)
        finally:
            both.admin.close()
            for each in double.hosts.values():
                each.close()


@pytest.mark.prove
def test_the_double_answers_as_the_database_does(fleet: Fleet) -> None:
    _plays(fleet, range(8))


@pytest.mark.sweep
@pytest.mark.timeout(1800)
def test_the_double_answers_as_the_database_does_in_many_more_histories(fleet: Fleet) -> None:
    _plays(fleet, range(8, 500))
