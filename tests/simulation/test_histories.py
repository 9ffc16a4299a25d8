"""The whole daemon, from the watch to the outbox, in simulated histories: the laws hold in all of them.

`RUNWARD_SEED=17 pytest tests/simulation` plays the history of that seed alone, and twice.
"""

import fcntl
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
from tests.simulation.laws import RARE_ROWS
from tests.simulation.simulation import IN_CI, SEEDS, run
from tests.simulation.tally import Tally

FEW: Final = 3
"""Histories of `make test`; CI plays the others of its share afterwards."""
COMPARED: Final = (1, 2)
"""Those of them that the comparison of bytes plays: the laws are checked in whatever is played."""

RAREST: Final = (71, 76, 101, 221, 242)
"""Later histories that take the paths that none of CI's share takes. They save all the others before them, until a change shifts them."""

PARTS: Final = 2
"""Tests that play CI's share side by side: one after the other takes minutes of processor time."""

ONE: Final = os.environ.get("RUNWARD_SEED")
pytestmark = pytest.mark.timeout(900)  # a busy machine takes its time, and time is not what is tested here
only_chunks = pytest.mark.skipif(ONE is not None, reason="RUNWARD_SEED asks for one history")


def play(seeds: Iterable[int]) -> Tally:
    """Play these histories; returns what was reached in them all together."""
    tally = Tally()
    for seed in seeds:
        tally.add(run(seed).tally)
    return tally


@only_chunks
@pytest.mark.prove
@pytest.mark.longest
@pytest.mark.parametrize("part", range(PARTS))
def test_the_laws_hold_in_every_history_and_every_fault_and_rare_path_was_met(
    part: int, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tally, seeds = Tally(), (*IN_CI[FEW:], *RAREST)
    if _parts_in(request) < PARTS:  # it was asked for alone
        tally = play(seeds)
    else:
        whole = _together(part, play(seeds[part::PARTS]), tmp_path_factory)
        if whole is None:
            return  # the part that ends last looks at what all of them met
        tally = whole
    for seed in SEEDS[len(IN_CI) :]:  # each change shifts the histories, and what is rarest may come later
        if not tally.never_struck() and not tally.never_reached():
            break
        tally.add(run(seed).tally)
    assert tally.never_struck() == [], "no fault ever struck at these points"
    assert tally.never_reached() == [], "these rare paths were never taken"


def _parts_in(request: pytest.FixtureRequest) -> int:
    """How many of the parts this session of tests has."""
    name = request.node.name.partition("[")[0]
    return sum(each.name.partition("[")[0] == name for each in request.session.items)


def _together(part: int, tally: Tally, shared: pytest.TempPathFactory) -> Tally | None:
    """What all parts met, for the last of them; None for the others."""
    place = shared.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent  # each worker has a directory of its own in it
    with (place / "histories.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (place / f"histories-{part}").write_bytes(pickle.dumps(tally))
        told = list(place.glob("histories-[0-9]*"))
        if len(told) < PARTS:
            return None
        whole = Tally()
        for each in told:
            whole.add(pickle.loads(each.read_bytes()))
        return whole


@only_chunks
def test_rare_paths_are_known_by_words_that_handlers_still_say() -> None:
    handlers = Path(__file__).parents[2] / "handlers"
    said = "".join(each.read_text() for each in handlers.rglob("*.py"))
    quoted = {words for question in RARE_ROWS.values() for words in re.findall(r"like '%?([^'%]+)", question)}
    assert quoted
    assert {words for words in quoted if words not in said} == set()


@only_chunks
@pytest.mark.parametrize("seed", [seed for seed in range(FEW) if seed not in COMPARED])
@pytest.mark.longest
def test_the_laws_hold_in_some_histories(seed: int) -> None:
    run(seed)


@only_chunks
@pytest.mark.sweep
@pytest.mark.longest
@pytest.mark.parametrize("part", range(PARTS))
def test_the_laws_hold_in_many_more_histories(part: int) -> None:
    play(SEEDS[len(IN_CI) :][part::PARTS])


@pytest.mark.skipif(ONE is None, reason="RUNWARD_SEED names no history to play again")
def test_the_history_that_was_asked_for_holds_the_laws() -> None:
    seed = int(ONE or 0)
    first, second = run(seed), run(seed)
    assert first.digest == second.digest


@only_chunks
def test_the_same_seed_gives_the_same_bytes_also_in_another_process_that_hashes_otherwise() -> None:
    first, second = map(run, COMPARED)
    assert first.digest != second.digest
    assert _digests_elsewhere(COMPARED[1]) == [second.digest], "there it is the first that is played"


def _digests_elsewhere(*seeds: int) -> list[str]:
    """What becomes of these histories in a process whose hashes of text are neither this one's nor those of chance."""
    program = f"from tests.simulation.simulation import run; print(*(run(seed).digest for seed in {seeds}))"
    here = Path(__file__).parents[2]
    played = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": f"{here / 'src'}:{here}", "PYTHONHASHSEED": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return played.stdout.split()
