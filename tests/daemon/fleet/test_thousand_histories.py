"""A thousand histories of hosts that do by hand what a program does, over the double of the database: whatever is restored, given up or cut off.

They are quick, since a host here is only what it knows. Whole daemons play fewer of them (`test_two_hosts.py`).
"""

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.daemon.fleet import older_double
from tests.daemon.fleet.double import Content, Database
from tests.daemon.fleet.test_older_database import Host
from tests.daemon.fleet.test_older_double import DoubleFleet

from runward.daemon.fleet import orders
from runward.daemon.fleet.orders import Seen

DEEDS = 60
MOST_ROUNDS = 30
UNTIL_PEOPLE_SEE_TO_IT = 10


@dataclass
class Store:
    """What a host has recorded: its orders, how they ended, and what it did with its takes."""

    ordered: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    taken: dict[tuple[str, int], str] = field(default_factory=dict)
    events: int = 1


class Member:
    """A host: its connection and memory, its store, and beside it the inbox and the runs on its disk."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.store = Store()
        self.backup: Store | None = None
        self.inbox: list[tuple[str, int]] = []
        self.runs: set[tuple[str, int]] = set()
        self.was_restored = False

    def serve(self) -> Iterator[None]:
        """One round of a program. It may be cut off wherever this yields."""
        host, store = self.host, self.store
        host.reached = store.events
        host.connect()
        yield
        if host.must_say():
            yield from self._say_again()
            if host.must_say():
                return
        yield from self._tell()
        rows = [Seen(*row) for row in host.execute(orders._LOOK, host.number)]
        yield
        for each in rows:
            if each.is_own and each.state in ("ended", "declined", "withdrawn"):
                self._record(each.id, each.state)
            elif not each.is_own and (each.id, each.takes) not in store.taken and not each.is_doubted:
                self._put(each.id, each.takes)
            yield
        if host.name != "alice" and len(self.inbox) < 3:
            for take in host.take():
                yield
                self._put(*take)

    def _say_again(self) -> Iterator[None]:
        host, store = self.host, self.store
        wanted = [order for order, state in store.ordered.items() if state != "settled"]
        for order in wanted:
            self._place(order)
            yield
        host.still_wants(*wanted)
        yield
        for order, take in [
            *(each for each, state in store.taken.items() if state != "declined"),
            *self.inbox,
        ]:
            host.took(order, take)
            yield
        yield from self._tell()
        host.said_again()
        yield

    def _tell(self) -> Iterator[None]:
        """What the database lacks. Said twice it changes nothing."""
        host, store = self.host, self.store
        for order, state in store.ordered.items():
            if state != "settled":
                self._place(order)
            else:
                host.settle(order)
            yield
        for (order, take), state in [*store.taken.items()]:
            if state == "ended":
                host.end(order, take)
            elif state == "declined":
                host.give_back(order, take)
                yield
                del store.taken[order, take]
            yield

    def _place(self, order: str) -> None:
        """In one transaction, as nobody may take in between what is cancelled."""
        self.host.place(order)
        if self.store.ordered[order] == "cancelled":
            self.host.cancel(order)

    def _put(self, order: str, take: int) -> None:
        if (order, take) not in self.inbox:
            self.inbox.append((order, take))

    def _record(self, order: str, state: str) -> None:
        if order in self.store.ordered:
            self.store.ordered[order] = "settled"
            self.store.results.setdefault(order, state)
            self.store.events += 1


class Broken(AssertionError):
    """A law does not hold."""


class History:
    """What happens to the three hosts under this seed. Alice orders; Bob and Carol take."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.is_database = seed % 2 == 0
        """What is restored: the database, or the stores of those who take. What neither knows any more is known to nobody."""
        self.fleet = DoubleFleet()
        self.members = {name: Member(host) for name, host in self.fleet.hosts.items()}
        self.alice = self.members["alice"]
        self.copy: Content | None = None
        self.changes: Counter[str] = Counter()
        """The most changes of orders of each host that any database counted."""
        self.cancelled: set[str] = set()
        self.given_up: set[str] = set()
        self.began: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()

    def play(self) -> None:
        try:
            for _ in range(DEEDS):
                self._act()
            self._heal()
            self._hold_laws()
        finally:
            for host in self.fleet.hosts.values():
                host.close()

    def _act(self) -> None:
        dice = self.dice
        member = self.members[dice.choice([*self.members])]
        match dice.randrange(12):
            case 0 | 1 if len(self.alice.store.ordered) < 6:
                self.alice.store.ordered[f"o{len(self.alice.store.ordered)}"] = "placed"
                self.alice.store.events += 1
            case 2:
                self._cancel(dice.choice([*self.alice.store.ordered] or [""]))
            case 3 if dice.random() < 0.3:
                self._give_up(dice.choice([*self.fleet.double.rows] or [("", "")])[1])
            case 4 | 5:
                self._restore(member)
            case 6 | 7:
                self._work(member)
            case _:
                steps = dice.choice((1, 2, 4, 8, 1000))
                for _, _ in zip(range(steps), member.serve(), strict=False):
                    pass

    def _cancel(self, order: str) -> None:
        if self.alice.store.ordered.get(order) == "placed":
            self.alice.store.ordered[order] = "cancelled"
            self.cancelled.add(order)

    def _give_up(self, order: str) -> None:
        if self.fleet.double.give_up_order("admin", "alice", order, "lost") == "given_up":
            self.given_up.add(order)
            self.seen["given up"] += 1

    def _restore(self, member: Member) -> None:
        dice, double = self.dice, self.fleet.double
        if not self.is_database:
            if member is self.alice:
                return
            if member.backup is None or dice.random() < 0.5:
                member.backup = copy.deepcopy(member.store)
            else:
                member.store, member.was_restored = copy.deepcopy(member.backup), True
                member.host.restored += 1
                self.seen["store restored"] += 1
        elif self.copy is None or dice.random() < 0.4:
            self.copy = double.copy()
        else:
            # In its place, only if all have seen what is newer: else nobody can notice.
            for name, each in double.content.kept.items():
                self.changes[name] = max(self.changes[name], each.changes)
            all_know = all(
                host.changes.get(name, 0) >= count
                for host in self.fleet.hosts.values()
                for name, count in self.changes.items()
            )
            self.fleet.restore(self.copy, as_another=not all_know)
            self.seen["database replaced" if all_know else "database restored"] += 1

    def _work(self, member: Member) -> None:
        """The daemon decides on what is in its inbox, and runs end."""
        while member.inbox:
            order, take = member.inbox.pop(0)
            if (order, take) in member.store.taken:
                continue
            member.store.events += 1
            if self.dice.random() < 0.2 and (order, take) not in member.runs:
                member.store.taken[order, take] = "declined"
                continue
            member.store.taken[order, take] = "begun"
            if (order, take) not in member.runs:
                member.runs.add((order, take))
                self.began[order] += 1
        for each, state in member.store.taken.items():
            if state == "begun" and self.dice.random() < 0.7:
                member.store.taken[each] = "ended"
                member.store.events += 1

    def _heal(self) -> None:
        for turn in range(MOST_ROUNDS):
            for member in self.members.values():
                self._work(member)
                for _ in member.serve():
                    pass
            if turn == UNTIL_PEOPLE_SEE_TO_IT:
                # Its taker does not know whether it began, and says so. It may have given it back before a restore.
                for (_, order), row in self.fleet.double.rows.items():
                    if row.doubted:
                        self._give_up(order)
            if all(state == "settled" for state in self.alice.store.ordered.values()):
                return
        raise Broken(f"not over in the history of seed {self.seed}: {self.alice.store.ordered}")

    def _hold_laws(self) -> None:
        for order, result in self.alice.store.results.items():
            count = self.began[order]
            why = f"{order} is {result}, and began {count} times, in the history of seed {self.seed}"
            if count > 1:
                raise Broken(why)
            if order in self.given_up:
                continue
            expected = {"ended": {1}, "declined": {0}, "withdrawn": {0}}[result]
            if count not in expected or (result == "withdrawn" and order not in self.cancelled):
                raise Broken(why)
            self.seen[result] += 1


def _play(seeds: range) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        history = History(seed)
        history.play()
        seen += history.seen
    return seen


HAPPENS = (
    *("ended", "declined", "withdrawn", "given up"),
    *("database restored", "database replaced", "store restored"),
)


def test_nothing_is_begun_twice_or_lost_whatever_is_restored() -> None:
    _play(range(20))


@pytest.mark.prove
def test_nothing_is_begun_twice_or_lost_in_a_thousand_histories() -> None:
    seen = _play(range(1000))
    assert [what for what in HAPPENS if not seen[what]] == []


def _without_waiting(patch: pytest.MonkeyPatch) -> None:
    """A host takes orders before the others have said again what they took."""
    patch.setattr(older_double, "waited_for", lambda database: [])


def _without_saying_again(patch: pytest.MonkeyPatch) -> None:
    """A host tells an older database nothing of its takes."""
    patch.setattr(Database, "took_order", lambda *given: "claimed")


def _without_the_identity(patch: pytest.MonkeyPatch) -> None:
    """Nobody knows an older database."""
    patch.setattr(older_double, "_is_older", lambda *given: False)


def _without_doubt(patch: pytest.MonkeyPatch) -> None:
    """What a restored store does not know counts as new."""
    patch.setattr(older_double, "_doubt", lambda *given: None)


def _without_a_lasting_end(patch: pytest.MonkeyPatch) -> None:
    """What was given up is taken again."""

    def give_up(self: Database, own: str, origin: str, name: str, note: str) -> str | None:
        row = self.rows.get((origin, name))
        if row is not None and row.state == "taken":
            row.state, row.taken_by = "open", None
        return None if row is None else row.state

    patch.setattr(Database, "give_up_order", give_up)


@pytest.mark.parametrize(
    "mutation",
    [_without_waiting, _without_saying_again, _without_the_identity, _without_doubt, _without_a_lasting_end],
)
def test_without_a_guard_a_quick_history_breaks_a_law(
    monkeypatch: pytest.MonkeyPatch, mutation: Callable[[pytest.MonkeyPatch], Any]
) -> None:
    mutation(monkeypatch)
    with pytest.raises(Broken):
        _play(range(300))
