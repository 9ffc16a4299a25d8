"""Composite triggers: which events fire a chain together, against plain models and laws."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runward.config.trigger import Composite, Trigger
from runward.handlers.chains.gather import Seen, fold

HOUR = 3600.0


def leaf(name: str) -> Trigger:
    return Trigger(event=name)


def composite(kind: Composite, *items: Trigger | str, within: float = 24 * HOUR) -> Trigger:
    found = tuple(leaf(each) if isinstance(each, str) else each for each in items)
    return Trigger(composite=kind, items=found, within=within)


@dataclass
class Life:
    """A chain's trigger, fed with one event after another as the handler feeds it."""

    trigger: Trigger
    held: tuple[Seen, ...] = ()
    seen: int = 0
    at: dict[str, float] = field(default_factory=dict)

    def see(self, name: str, at: float | None = None) -> list[str]:
        """The keys of the events that fire the chain with this one, as in a0, b1; the number is the event's."""
        key = f"{name}{self.seen}"
        at = float(self.seen) if at is None else at
        self.at[key] = at
        self.seen += 1
        items = tuple(number for number, each in enumerate(self.trigger.leaves) if each.event == name)
        folded = fold(self.trigger, [*self.held, Seen(key, at, items)])
        self.held = folded.held
        return [each.key for each in folded.fired]


def firings(trigger: Trigger, names: str) -> list[str]:
    """What fires the trigger where these events happen a second apart."""
    life = Life(trigger)
    return [" ".join(found) for each in names if (found := life.see(each))]


ALL = composite("all_of", "a", "b")
ROW = composite("sequence", "a", "b")


@pytest.mark.parametrize(
    ("trigger", "names", "fired"),
    [
        (ALL, "ab", ["a0 b1"]),
        (ALL, "ba", ["b0 a1"]),
        (ALL, "aa", []),
        (ALL, "aabb", ["a0 b2", "a1 b3"]),
        (ALL, "abb", ["a0 b1"]),
        (composite("all_of", "a", "a"), "aa", ["a0", "a1"]),
        (ROW, "ab", ["a0 b1"]),
        (ROW, "ba", []),
        (ROW, "bab", ["a1 b2"]),
        (ROW, "aabb", ["a0 b2", "a1 b3"]),
        (composite("sequence", "a", "a"), "aaaa", ["a0 a1", "a2 a3"]),
        (composite("sequence", "a", "b", "c"), "acbc", ["a0 b2 c3"]),
        (composite("any_of", "a", "b"), "abc", ["a0", "b1"]),
        (composite("any_of", ALL, composite("all_of", "a", "c")), "abc", ["a0 b1"]),
        (composite("any_of", composite("all_of", "a", "b"), "a"), "ab", ["a0"]),
        (composite("sequence", "a", composite("all_of", "b", "c")), "bacb", ["a1 c2 b3"]),
        (composite("sequence", composite("any_of", "a", "b"), "c"), "bc", ["b0 c1"]),
        (composite("all_of", ROW, "c"), "acb", ["a0 c1 b2"]),
        (composite("all_of", composite("sequence", "a", composite("any_of", "b", "c")), "d"), "dac", ["d0 a1 c2"]),
        (composite("all_of", "a"), "aa", ["a0", "a1"]),
        (composite("sequence", "a"), "aa", ["a0", "a1"]),
    ],
)  # fmt: skip
def test_the_oldest_events_fire_it_together_and_each_is_used_once(
    trigger: Trigger, names: str, fired: list[str]
) -> None:
    assert firings(trigger, names) == fired


@pytest.mark.parametrize("kind", ["all_of", "sequence"])
def test_what_is_older_than_within_does_not_count(kind: Composite) -> None:
    for gap, fired in ((HOUR, ["a0", "b1"]), (HOUR + 1, [])):
        life = Life(composite(kind, "a", "b", within=HOUR))
        life.see("a", 0.0)
        assert life.see("b", gap) == fired
    life = Life(composite(kind, "a", "b", within=HOUR))
    life.see("a", 0.0)
    life.see("a", 1800.0)
    assert life.see("b", HOUR + 60) == ["a1", "b2"]


def test_an_inner_composite_does_not_reach_further_back_than_the_one_around_it() -> None:
    inner = composite("all_of", "a", "b")
    life = Life(composite("all_of", inner, "c", within=HOUR))
    for name, at in (("a", 0.0), ("a", 7200.0), ("b", 7201.0)):
        assert life.see(name, at) == []
    assert life.see("c", 7202.0) == ["a1", "b2", "c3"]


def test_what_does_not_count_is_not_held() -> None:
    life = Life(ROW)
    life.see("b")
    assert life.held == ()
    life.see("a")
    life.see("b")
    assert life.held == ()


def test_a_clock_that_was_set_back_does_not_keep_what_happened_in_the_future() -> None:
    life = Life(composite("all_of", "a", "b", within=HOUR))
    life.see("a", 1e9)
    assert life.see("b", 0.0) == []
    assert life.see("a", 1.0) == ["b1", "a2"]


EVENTS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 40)), max_size=40)
"""Names of events, each with the seconds since the one before."""


def moments(steps: Sequence[tuple[str, int]]) -> list[tuple[str, float]]:
    at, found = 0.0, []
    for name, gap in steps:
        at += gap
        found.append((name, at))
    return found


@given(EVENTS, st.integers(1, 3), st.integers(1, 100))
def test_all_of_different_events_is_one_queue_for_each(
    steps: list[tuple[str, int]], count: int, within: int
) -> None:
    names = "abc"[:count]
    life = Life(composite("all_of", *names, within=float(within)))
    queues: dict[str, deque[str]] = {name: deque() for name in names}
    for number, (name, at) in enumerate(moments(steps)):
        expected: list[str] = []
        for queue in queues.values():
            while queue and life.at[queue[0]] < at - within:
                queue.popleft()
        if name in queues:
            queues[name].append(f"{name}{number}")
            life.at[f"{name}{number}"] = at
            if all(queues.values()):
                expected = [queue.popleft() for queue in queues.values()]
        assert sorted(life.see(name, at)) == sorted(expected)
        assert {each.key for each in life.held} == {key for queue in queues.values() for key in queue}


@given(EVENTS, st.integers(1, 100))
def test_a_sequence_of_different_events_takes_its_oldest_match_a_step_on(
    steps: list[tuple[str, int]], within: int
) -> None:
    life = Life(composite("sequence", "a", "b", "c", within=float(within)))
    matches: list[list[str]] = []
    for number, (name, at) in enumerate(moments(steps)):
        key = f"{name}{number}"
        life.at[key] = at
        matches = [match for match in matches if life.at[match[0]] >= at - within]
        waiting = [match for match in matches if "abc"[len(match)] == name]
        expected: list[str] = []
        if name == "a":
            matches.append([key])
        elif waiting:
            waiting[0].append(key)
            if len(waiting[0]) == 3:
                expected = waiting[0]
                matches.remove(expected)
        assert life.see(name, at) == expected


TRIGGERS = st.recursive(
    st.sampled_from("abcd").map(leaf),
    lambda inner: st.builds(
        lambda kind, items, within: Trigger(composite=kind, items=tuple(items), within=float(within)),
        st.sampled_from(["all_of", "sequence", "any_of"]),
        st.lists(inner, min_size=1, max_size=3),
        st.integers(1, 120),
    ),
    max_leaves=8,
).filter(lambda each: each.composite is not None)


@settings(max_examples=300)
@given(TRIGGERS, EVENTS)
def test_every_firing_uses_each_event_once_within_its_time_and_ends_with_the_last(
    trigger: Trigger, steps: list[tuple[str, int]]
) -> None:
    life = Life(trigger)
    used: set[str] = set()
    for number, (name, at) in enumerate(moments(steps)):
        fired = life.see(name, at)
        keys = [each.key for each in life.held]
        assert len(set(keys)) == len(keys)
        assert not used & set(keys), "what was used does not count again"
        if not fired:
            continue
        assert fired[-1] == f"{name}{number}"
        assert not used & set(fired), "an event fires a chain once"
        used |= set(fired)
        assert not set(fired) & set(keys)
        assert satisfied(trigger, fired, life.at)


def satisfied(trigger: Trigger, keys: Sequence[str], at: dict[str, float]) -> bool:
    """Whether exactly these events, in this order, make up the trigger: told by trying every way to share them out."""
    if trigger.composite is None:
        return len(keys) == 1 and keys[0][0] == trigger.event
    if trigger.composite == "any_of":
        return any(satisfied(item, keys, at) for item in trigger.items)
    if any(at[keys[-1]] - at[key] > trigger.within for key in keys):
        return False
    if trigger.composite == "sequence":
        return _in_a_row(trigger.items, list(keys), at)
    return _in_any_order(trigger.items, tuple(keys), frozenset(), at)


def _in_a_row(items: Sequence[Trigger], keys: list[str], at: dict[str, float]) -> bool:
    if not items:
        return not keys
    return any(
        satisfied(items[0], keys[:cut], at) and _in_a_row(items[1:], keys[cut:], at)
        for cut in range(1, len(keys) + 1)
    )


def _in_any_order(
    items: Sequence[Trigger], keys: tuple[str, ...], covered: frozenset[str], at: dict[str, float]
) -> bool:
    """Each item has some of the events; one event may count for several items, and none is left over."""
    if not items:
        return covered == set(keys)
    subsets = (
        tuple(key for place, key in enumerate(keys) if mask >> place & 1) for mask in range(1, 1 << len(keys))
    )
    return any(
        satisfied(items[0], subset, at) and _in_any_order(items[1:], keys, covered | set(subset), at)
        for subset in subsets
    )
