"""A change of an order wakes the programs of the hosts that it concerns, and says nothing to those that it doesn't."""

from collections.abc import Callable

import pytest
from psycopg import sql
from tests.daemon.fleet.attacked import Connection, without
from tests.daemon.fleet.test_orders import Fleet, fleet

__all__ = ["fleet"]


def _listening(fleet: Fleet) -> Callable[[], set[str]]:
    """Have each host listen to its own channel; returns who was woken since the last call."""
    for name, host in fleet.hosts.items():
        host.connection.execute(sql.SQL("listen {}").format(sql.Identifier(f"runward_orders_{name}")))

    def woken() -> set[str]:
        return {name for name, host in fleet.hosts.items() if _notices(host.connection)}

    return woken


def _notices(connection: Connection) -> list[str]:
    """The payloads that arrived. A statement that follows a commit brings what that commit told."""
    connection.execute("select 1")
    found = list(connection.notifies(timeout=0))
    assert all(each.payload == "" for each in found), "nothing is said of an order"
    return [each.payload for each in found]


def test_whom_a_change_of_an_order_concerns_is_woken_and_nobody_else(fleet: Fleet) -> None:
    alice, bob, carol = fleet.hosts.values()
    woken = _listening(fleet)
    carol.place("1", None, ["gpu"])
    assert woken() == {"alice", "bob"}, "both may take it"
    carol.place("1", None, ["gpu"])
    assert woken() == set(), "nothing changed"
    (order,) = alice.take(9)
    assert woken() == {"carol"}, "it is taken"
    assert alice.give_back(*order)
    assert woken() == {"bob"}, "alice never takes it again"
    (order,) = bob.take(9)
    assert woken() == {"carol"}
    carol.cancel("1")
    assert woken() == {"carol", "bob"}, "its taker is to end it"
    carol.cancel("1")
    assert woken() == set(), "nothing changed"
    assert bob.end(*order, "completed")
    assert woken() == {"carol"}, "it is over"
    carol.settle("1")
    assert woken() == set(), "nobody waits for that"
    carol.place("2", "alice", [])
    assert woken() == {"alice"}, "only alice is wanted"
    (order,) = alice.take(9)
    woken()
    assert alice.give_back(*order)
    assert woken() == {"carol"}, "nobody is left"


def test_a_host_that_has_not_joined_or_was_removed_is_not_spoken_of(fleet: Fleet) -> None:
    with fleet.admin() as admin:
        admin.execute("update runward.hosts set joined_at = null where name = 'alice'")
        admin.execute("update runward.hosts set removed_at = now() where name = 'bob'")
    woken = _listening(fleet)
    fleet.hosts["carol"].place("1", None, ["gpu"])
    assert woken() == set()


def test_who_listens_to_the_channel_of_another_host_learns_nothing_of_its_orders(fleet: Fleet) -> None:
    alice, _, carol = fleet.hosts.values()
    carol.connection.execute("listen runward_orders_alice")
    fleet.hosts["bob"].place("secret", "alice", [])
    assert _notices(carol.connection) == [""]
    assert carol.seen() == set()
    # It is the empty payload that says nothing.
    without(fleet, "host.name, ''", "tell_of_order", "host.name, new.id")
    fleet.hosts["bob"].place("secret, too", "alice", [])
    with pytest.raises(AssertionError, match="nothing is said"):
        _notices(carol.connection)
    assert alice.take(9)


WRONGLY_WOKEN = {
    "bob": (
        "and (new.wanted_host = host.name or new.wanted_host is null and new.wanted_labels <@ host.labels)",
        "",
    ),
    "carol": ("new.wanted_host is null and new.wanted_labels <@ host.labels", "true"),
}
"""By a host that is not wanted: the condition that leaves it out."""


@pytest.mark.parametrize("name", WRONGLY_WOKEN)
def test_an_order_wakes_only_the_hosts_that_may_take_it(fleet: Fleet, name: str) -> None:
    woken = _listening(fleet)
    fleet.hosts["alice"].place("1", "alice", [])
    assert woken() == {"alice"}
    without(fleet, WRONGLY_WOKEN[name][0], "tell_of_order", WRONGLY_WOKEN[name][1])
    fleet.hosts["alice"].place("2", "alice", [])
    assert name in woken()
