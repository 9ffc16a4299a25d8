"""The hash chain: each link covers the one before it and every fact of its own event."""

import pytest

from runward.daemon.store.hash_chain import GENESIS, Head, event_hash, link
from runward.handlers.model.requests import ScanRequested

FACTS: dict[str, str | int | float | None] = {
    "previous": GENESIS, "key": "k", "kind": "t", "version": 1, "recorded_at": 1.5, "cause": None, "depth": 0, "payload": "{}",
}  # fmt: skip
CHANGED: dict[str, str | int | float | None] = {
    "previous": "1" * 64, "key": "l", "kind": "u", "version": 2, "recorded_at": 1.25, "cause": "c", "depth": 1, "payload": "[]",
}  # fmt: skip


def test_links_follow_one_another() -> None:
    first = link(Head(0, GENESIS), ScanRequested("a", 1.0), 2.0, None, 0)
    second = link(Head(first.seq, first.hash), ScanRequested("b", 1.0), 2.0, "a", 1)
    assert (first.seq, second.seq) == (1, 2)
    assert second.hash == event_hash(first.hash, "b", "ScanRequested", 1, 2.0, "a", 1, second.payload)
    assert first.hash != second.hash


@pytest.mark.parametrize("fact", FACTS)
def test_a_change_of_any_fact_changes_the_hash(fact: str) -> None:
    original = event_hash(**FACTS)  # type: ignore[arg-type] # by name, each of its own type
    changed = event_hash(**{**FACTS, fact: CHANGED[fact]})  # type: ignore[arg-type] # by name, each of its own type
    assert len(original) == 64
    assert original != changed
