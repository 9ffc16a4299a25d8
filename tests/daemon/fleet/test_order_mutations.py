"""The model of the orders would notice: with any one guard taken out of a function of the database, a history contradicts it."""

from collections.abc import Iterable
from typing import NamedTuple

import psycopg
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.daemon.fleet import test_orders
from tests.daemon.fleet.attacked import without
from tests.daemon.fleet.test_orders import Fleet, Orders

pytestmark = [pytest.mark.prove, pytest.mark.timeout(400)]

fleet = test_orders.fleet


class Mutation(NamedTuple):
    """A guard of a function, and what stands in its place."""

    function: str
    guard: str
    instead: str = ""


MUTATIONS = {
    "an order is placed anew each time": Mutation(
        "place_order",
        "on conflict (origin, id) do nothing",
        "on conflict (origin, id) do update set state = 'open', taken_by = null, result = null",
    ),
    "what is taken is taken again": Mutation(
        "take_orders", "open.state = 'open'", "open.state in ('open', 'taken')"
    ),
    "what is too late is taken": Mutation(
        "take_orders", "and (open.begin_by is null or open.begin_by > clock_timestamp())"
    ),
    "the wanted host counts for nothing": Mutation("take_orders", "open.wanted_host = own or", "true or"),
    "labels count for nothing": Mutation("take_orders", "and open.wanted_labels <@ me.labels"),
    "one label is enough": Mutation(
        "take_orders", "open.wanted_labels <@ me.labels", "open.wanted_labels && me.labels"
    ),
    "who declined takes it again": Mutation("take_orders", "and not open.declined ? own"),
    "more is taken than was wanted": Mutation("take_orders", "limit most", "limit most + 1"),
    "the youngest is taken first": Mutation(
        "take_orders", "order by open.placed_at, open.origin, open.id", "order by open.placed_at desc"
    ),
    "takes are not counted": Mutation("take_orders", "takes = taken.takes + 1", "takes = 1"),
    "another than its taker says that it began": Mutation("begin_order", "and taken_by = own"),
    "an earlier take began": Mutation("begin_order", "and takes = take"),
    "what a program takes that doesn't say it counts as begun": Mutation(
        "take_orders", "(select me.says_begun from hosts me where me.name = own)", "true"
    ),
    "another than its taker gives it back": Mutation("give_back", "or its.taken_by <> own"),
    "an earlier take is given back": Mutation("give_back", "or its.takes <> take"),
    "what was given back stays with its taker alone": Mutation(
        "give_back", "and not refused ? other.name", "and false"
    ),
    "what nobody is left for stays open": Mutation("give_back", "and not refused ? other.name"),
    "what another host must have labels for stays open": Mutation(
        "give_back", "and its.wanted_labels <@ other.labels"
    ),
    "what is for one host stays open": Mutation("give_back", "its.wanted_host is null and"),
    "what was cancelled is given to others": Mutation(
        "give_back", "when its.cancelled then 'withdrawn'", "when false then 'withdrawn'"
    ),
    "another than its taker ends it": Mutation("end_order", "and taken_by = own"),
    "an earlier take is ended": Mutation("end_order", "and takes = take"),
    "a result is replaced": Mutation("end_order", "and state = 'taken'"),
    "another result counts as the same": Mutation("end_order", "and result = of_result"),
    "a cancellation withdraws what is taken": Mutation("cancel_order", "state = 'open' and not", "not"),
    "a cancellation leaves what is open": Mutation("cancel_order", "state = 'open' and not", "false and not"),
    "another than its origin cancels it": Mutation("cancel_order", "where origin = own and id", "where id"),
    "another than its origin settles it": Mutation("settle_order", "where origin = own and id", "where id"),
    "what goes on is settled": Mutation("settle_order", "and state in ('ended', 'declined', 'withdrawn')"),
    "nobody looks for what it ordered": Mutation(
        "pulse", "o.origin = own and o.settled_at is null and o.state <> 'open'", "false"
    ),
    "nobody looks for what it took": Mutation("pulse", "o.taken_by = own and o.state = 'taken'", "false"),
    "nobody looks for what it could take": Mutation("pulse", "where o.state = 'open'", "where false"),
    "an earlier program goes on": Mutation("own_name", "and connections = number"),
}

FEW = settings(
    stateful_step_count=50,
    max_examples=60,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.generate,),
    report_multiple_bugs=False,
)


def _play(fleet: Fleet) -> None:
    run_state_machine_as_test(lambda: Orders(fleet), settings=FEW)  # type: ignore[arg-type] # what makes one is as good as its class


SAMPLE = (
    "what is taken is taken again",
    "more is taken than was wanted",
    "another than its taker ends it",
    "nobody looks for what it could take",
)


def _unnoticed(fleet: Fleet, names: Iterable[str]) -> list[str]:
    """Those of these mutations that no history contradicts."""
    found = []
    for name in names:
        mutation = MUTATIONS[name]
        whole = without(fleet, mutation.guard, mutation.function, mutation.instead)
        # A history that a failure cut short may have left programs with an earlier number.
        for host in fleet.hosts.values():
            host.number = host.greet()
        try:
            _play(fleet)
        except (AssertionError, psycopg.Error, pytest.fail.Exception):
            pass
        else:
            found.append(name)
        with fleet.admin() as admin:
            admin.execute(whole.encode())
    return found


def test_the_model_misses_guards_that_are_taken_away(fleet: Fleet) -> None:
    assert _unnoticed(fleet, SAMPLE) == []


@pytest.mark.sweep
def test_the_model_misses_every_guard_that_is_taken_away(fleet: Fleet) -> None:
    assert _unnoticed(fleet, MUTATIONS) == []


POLICIES = {
    "nobody's policy": "drop policy of_origin_and_taker on runward.orders",
    "everybody's policy": "alter policy of_origin_and_taker on runward.orders using (true)",
    "the origin's alone": "alter policy of_origin_and_taker on runward.orders using"
    " (exists (select from runward.hosts own where own.login = session_user and own.name = origin))",
    "none that holds": "alter table runward.orders disable row level security",
}


@pytest.mark.parametrize("change", POLICIES.values(), ids=POLICIES)
def test_the_model_misses_the_policy_of_the_orders(fleet: Fleet, change: str) -> None:
    with fleet.admin() as admin:
        admin.execute(change.encode())
    with pytest.raises(AssertionError):
        _play(fleet)
