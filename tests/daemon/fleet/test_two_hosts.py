"""Two hosts order steps of each other, whatever fails in between: each order has one result, and each command runs at most once.

The histories would notice: without any one guard, some of them break a law.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.daemon.fleet.double import Database, Row
from tests.daemon.fleet.two_hosts import Broken, play

from runward.daemon.fleet.orders import Orders, Seen
from runward.daemon.fleet.telling_orders import Call, OrdersTold
from runward.daemon.store.tables import fleet_outbox
from runward.daemon.store.tables.fleet_outbox import TAKEN
from runward.handlers.fleet import ordering
from runward.handlers.model.chains import BeganThere, StepStanding
from runward.handlers.model.fleet import RemoteStepOver

pytestmark = [pytest.mark.prove, pytest.mark.timeout(600)]

HAPPENS = (
    *("ended", "declined", "withdrawn", "cancelled", "failed", "fenced", "killed", "daemon killed"),
    *("store restored", "database restored", "database replaced", "given up"),
    *("timed out", "began: yes", "began: no"),
)
TAKEN_AGAIN = 34
"""In this history, a host declines an order, the database forgets that, and the host takes the order again."""

TWO_DAYS = 2 * 86_400.0


def test_every_order_has_one_result_and_every_command_runs_at_most_once(tmp_path: Path) -> None:
    seen = play(tmp_path, [*range(8), TAKEN_AGAIN])
    assert [what for what in HAPPENS if not seen[what]] == []


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(100, 300, 20))
def test_every_order_has_one_result_in_further_histories(tmp_path: Path, first: int) -> None:
    play(tmp_path, range(first, first + 20))


def test_clocks_that_are_four_days_apart_decide_nothing(tmp_path: Path) -> None:
    """One is two days ahead of the database, the other two days behind it."""
    right: list[list[tuple[object, ...]]] = []
    wrong: list[list[tuple[object, ...]]] = []
    (tmp_path / "right").mkdir()
    (tmp_path / "wrong").mkdir()
    play(tmp_path / "right", range(3), came_to=right)
    play(tmp_path / "wrong", range(3), {"north": TWO_DAYS, "south": -TWO_DAYS}, wrong)
    assert right == wrong
    assert any("step.timed_out.start_within" in str(each) for each in right), "something had to begin in time"


Mutation = Callable[[pytest.MonkeyPatch], None]


def without_adoption_at_connect(patch: pytest.MonkeyPatch) -> None:
    """What was taken right before a crash is not looked for."""
    patch.setattr(Orders, "_tell_taker", lambda *given: None)


def without_the_guard_of_the_take(patch: pytest.MonkeyPatch) -> None:
    """An order that is taken can be taken again."""

    def take(self: Database, own: str, most: int) -> list[Row]:
        for row in self.rows.values():
            if row.state == "taken" and row.taken_by != own and row.is_for(own, self.labels[own]):
                row.state = "open"
        return whole(self, own, most)

    whole = Database.take_orders
    patch.setattr(Database, "take_orders", take)


def without_waiting_for_the_commit(patch: pytest.MonkeyPatch) -> None:
    """What was said counts as delivered before the database has it."""
    whole = OrdersTold._tell

    def tell(self: OrdersTold, connection: Any, calls: list[Call]) -> None:
        with suppress(psycopg.OperationalError):
            whole(self, connection, calls)

    patch.setattr(OrdersTold, "_tell", tell)


def without_owing_results(patch: pytest.MonkeyPatch) -> None:
    """The end of a step of another host is not owed."""
    # What is owed at its begin would bring the end along.
    declined = ("after insert on main.orders_taken when new.state = 'declined'", TAKEN, fleet_outbox._OF_TAKE)
    left = {name: owed for name, owed in fleet_outbox.TRIGGERS.items() if name != "fleet_take_over"}
    patch.setattr(fleet_outbox, "TRIGGERS", {**left, "fleet_take_decided": declined})


def without_the_record_before_a_return(patch: pytest.MonkeyPatch) -> None:
    """A program gives back what its daemon has not decided on: it may begin all the same."""
    whole = Orders._tell_taker

    def tell(self: Orders, connection: Any, new: Sequence[Seen], *given: Any) -> None:
        whole(self, connection, new, *given)
        for each in new:
            connection.execute(
                "select runward.give_back(%s, %s, %s, %s, %s)", (self._number, *each.take, "too busy")
            )

    patch.setattr(Orders, "_tell_taker", tell)


def without_saying_again_what_it_took(patch: pytest.MonkeyPatch) -> None:
    """A host tells an older database nothing of its takes."""
    patch.setattr(Database, "took_order", lambda *given: "claimed")


def without_doubt(patch: pytest.MonkeyPatch) -> None:
    """What is told to end counts as never begun."""
    whole = ordering._became_known

    def known(event: RemoteStepOver, standing: StepStanding) -> tuple[BeganThere, str]:
        began, why = whole(event, standing)
        return "no" if began == "yes" else began, why

    patch.setattr(ordering, "_became_known", known)


def without_telling_the_origin(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks what became of the orders of this host."""
    patch.setattr(Orders, "_tell_origin", lambda *given: None)


@pytest.mark.parametrize(
    ("mutation", "known"),
    [
        (without_adoption_at_connect, 0),
        (without_the_guard_of_the_take, 0),
        pytest.param(without_waiting_for_the_commit, 0, marks=pytest.mark.sweep),
        (without_owing_results, 0),
        (without_telling_the_origin, 0),
        (without_doubt, 22),
        (without_the_record_before_a_return, 0),
        (without_saying_again_what_it_took, 13),
    ],
)
def test_without_a_guard_a_history_breaks_a_law(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutation: Mutation, known: int
) -> None:
    """The one that is known to is played first, as most take as long without the guard as with it."""
    mutation(monkeypatch)
    with pytest.raises(Broken):
        play(tmp_path, [known, *range(60)])
