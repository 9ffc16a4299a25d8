"""The whole daemon, from the watch to the outbox, in simulated histories: the laws hold in all of them.

`RUNWARD_SEED=17 pytest tests/simulation` plays the history of that seed alone, and twice.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.simulation.laws import RARE_ROWS
from tests.simulation.simulation import IN_CI, SEEDS, run
from tests.simulation.tally import Tally

FEW: Final = 6
"""Histories of `make test`; CI plays the others of its share afterwards."""
COMPARED: Final = (1, 2)
"""Those of them that the comparison of bytes plays: the laws are checked in whatever is played."""

ONE: Final = os.environ.get("RUNWARD_SEED")
pytestmark = pytest.mark.timeout(900)  # a busy machine takes its time, and time is not what is tested here
only_chunks = pytest.mark.skipif(ONE is not None, reason="RUNWARD_SEED asks for one history")


def play(seeds: range) -> Tally:
    """Play these histories; returns what was reached in them all together."""
    tally = Tally()
    for seed in seeds:
        tally.add(run(seed).tally)
    return tally


@only_chunks
@pytest.mark.prove
@pytest.mark.longest
def test_the_laws_hold_in_every_history_and_every_fault_and_rare_path_was_met() -> None:
    tally = play(IN_CI[FEW:])
    for seed in SEEDS[len(IN_CI) :]:  # each change shifts the histories, and what is rarest may come later
        if not tally.never_struck() and not tally.never_reached():
            break
        tally.add(run(seed).tally)
    assert tally.never_struck() == [], "no fault ever struck at these points"
    assert tally.never_reached() == [], "these rare paths were never taken"


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
def test_the_laws_hold_in_many_more_histories() -> None:
    play(SEEDS[len(IN_CI) :])


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
