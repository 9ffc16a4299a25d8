"""Simulated histories in which runs and people use the exchange, under all the faults of the others.

Whatever befell the daemon, the ledger, the artifacts and all results are what the plain rules make of the same actions. In
every other history, code of artifacts invokes further artifacts, and contracts decide (`trees.py`).
"""

import os
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest
from tests.simulation.broken import Broken
from tests.simulation.simulation import HistoryFailed, run
from tests.simulation.tally import Tally

from runward.daemon.parts.intents import Intents, _Reading
from runward.daemon.store.batch import Rows
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world.files import Files
from runward.handlers import route
from runward.handlers.exchange.reading import Reading
from runward.handlers.layouts.native import RunName
from runward.handlers.model.asking import Asking

FEW: Final = 1
SOME: Final = (*range(FEW, 6), 25, 35, 44)
"""The histories of CI: everything of `MET` happens in the first, and the last three show guards that are missing (`TELLING`)."""

MANY: Final = 32
"""The histories in which a guard must be missed, and of which a sweep plays those that CI leaves out."""

MET: Final = (
    "a run whose intents were all carried out",
    "a run whose results stand in order",
    "a run of a trader that was copied",
    "a run of a trader that was moved",
    "a run whose copies were read, too",
    "a run of a trader that says anew who it is",
    "a run of a trader that was copied or moved under its later name",
    "an intent of a run that does not say who it is",
    "an action that became None",
    "an action that became not_authorized",
    "an action that became not_found",
    "an action that became invalid_argument",
    "an action that became insufficient_funds",
    "an action that became DELETED",
    "a call tree that became None",
    "a call tree that became not_authorized",
    "a call tree that became insufficient_funds",
    "a call tree that became runtime_error",
    "a call tree that became DELETED",
    "code that ran again",
)
"""What must happen at least once, or the histories don't prove what they seem to."""

pytestmark = [
    pytest.mark.timeout(900),  # a busy machine takes its time, and time is not what is tested here
    pytest.mark.skipif("RUNWARD_SEED" in os.environ, reason="RUNWARD_SEED asks for one history"),
]


def play(seeds: Iterable[int]) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.add(run(seed, trades=True).tally)
    return tally


def test_the_laws_hold_in_some_histories_with_an_exchange() -> None:
    play(range(FEW))


@pytest.mark.prove
@pytest.mark.longest
def test_the_laws_hold_in_many_more_histories_with_an_exchange() -> None:
    tally = play(SOME)
    assert [name for name in MET if not tally.reached[name]] == []


@pytest.mark.sweep
@pytest.mark.longest
def test_the_laws_hold_in_all_further_histories_with_an_exchange() -> None:
    play(sorted({*range(MANY)} - {*range(FEW), *SOME}))


@pytest.mark.prove
def test_the_same_seed_gives_the_same_bytes_with_an_exchange() -> None:
    assert run(1, trades=True).digest == run(1, trades=True).digest


def without_one_order_of_all_principals(patch: pytest.MonkeyPatch) -> None:
    """What one principal does is decided beside what another one does."""
    patch.setattr(route, "decided_in_order_with", lambda lane: lane)


def without_what_is_owed_at_the_end_of_a_run(patch: pytest.MonkeyPatch) -> None:
    """Nobody remembers that a run's intents weren't read to their end."""
    patch.setattr(Intents, "at_end", lambda self, *run: ())


def without_a_look_at_what_code_read(patch: pytest.MonkeyPatch) -> None:
    """What code decided counts, whatever others changed meanwhile."""

    def holds(reading: Reading) -> Asking[bool]:
        yield from ()
        return True

    patch.setattr(Reading, "holds", holds)


def without_a_memory_of_runs(patch: pytest.MonkeyPatch) -> None:
    """A run is known by its place, so a copy is another run."""

    async def is_new(self: Intents, *run: object, **how: object) -> tuple[RunName, ...]:
        return ()

    patch.setattr(Intents, "_recognize", is_new)


def without_the_question_who_a_run_is(patch: pytest.MonkeyPatch) -> None:
    """Intents are carried out for a run of which nothing tells a copy apart."""
    recognize = Intents._recognize

    async def for_anybody(
        self: Intents, key: str, reading: _Reading, *seen: Any, **how: Any
    ) -> tuple[RunName, ...]:
        names = await recognize(self, key, reading, *seen, **how)
        reading.is_nameless = False
        return names

    patch.setattr(Intents, "_recognize", for_anybody)


def without_a_wait_for_a_root_that_is_missing(patch: pytest.MonkeyPatch) -> None:
    """While a root is missing, everything in it counts as removed."""
    patch.setattr(Files, "_check_root_of", lambda self, path: None)


def without_the_end_of_a_file_that_was_removed(patch: pytest.MonkeyPatch) -> None:
    """Only a file that is still there is read to its end."""
    at_end = Intents.at_end

    def of_files(self: Intents, root: WatchedRoot, directory: str, attempt: int) -> tuple[Rows, ...]:
        is_there = self.files.has_intents(f"{root.path}/{directory}")
        return at_end(self, root, directory, attempt) if is_there else ()

    patch.setattr(Intents, "at_end", of_files)


Mutation = Callable[[pytest.MonkeyPatch], None]

TELLING: Final[dict[Mutation, int]] = {
    without_a_memory_of_runs: 25,
    without_the_question_who_a_run_is: 25,
    without_a_wait_for_a_root_that_is_missing: 44,
    without_the_end_of_a_file_that_was_removed: 5,
    without_one_order_of_all_principals: 35,
    without_what_is_owed_at_the_end_of_a_run: 44,
    without_a_look_at_what_code_read: 35,
}
"""Guards, and the history that shows its absence. It is played first; if a change has shifted it, all are."""

FURTHER: Final = (25, 35, 44, 64, 110, 203)
"""Histories that show much."""


@pytest.mark.prove
@pytest.mark.parametrize("mutation", TELLING)
def test_the_histories_notice_a_guard_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, mutation: Mutation
) -> None:
    mutation(monkeypatch)
    with pytest.raises(HistoryFailed) as failed:
        play(dict.fromkeys((TELLING[mutation], *FURTHER, *range(MANY))))
    assert isinstance(failed.value.why, Broken)
