"""A soak at 20 runs a second with deletions: what the daemon holds of the machine stays as it is.

Two minutes in `make prove`, twenty in `make soak`, which shows the table. The last third is held against the second: in
the first the runs that stand at a time become as many as they stay.
"""

import os
from pathlib import Path

import pytest
from tests.proof.place import Place
from tests.proof.processes import Forks
from tests.proof.soak import Soak, table, thirds
from tests.waiting import wait_for

MINUTES = float(os.environ.get("RUNWARD_SOAK_MINUTES", "2"))


@pytest.mark.prove
@pytest.mark.longest
@pytest.mark.timeout(MINUTES * 60 + 600)
def test_what_the_daemon_holds_stays_the_same_over_runs_that_come_end_and_are_deleted(
    in_memory: Path, forks: Forks
) -> None:
    place = Place(in_memory / "soak", forks)
    with place.serving() as daemon:
        soak = Soak(place, daemon)
        soak.go_on(MINUTES * 60)
        soak.finish()
        wait_for(
            lambda: place.rows("select count(*) from sessions where status = 'completed'") == [(soak.begun,)],
            f"the verdicts of {soak.begun} runs",
        )
    told = f"{soak.begun} runs in {MINUTES:g} minutes, {soak.deleted} deleted\n{table(soak.samples)}"
    print(told)
    assert soak.deleted > soak.begun / 2, told
    _, before, after = thirds(soak.samples)
    # A tenth of memory and some, for the C library keeps what it likes; what leaks by the run grows by far more.
    assert after.memory_mb <= before.memory_mb * 1.1 + 4, told
    assert after.descriptors <= before.descriptors + 8, told
    assert after.threads <= before.threads + 6, told
    assert after.wal_mb <= before.wal_mb * 1.5 + 2, told
    assert max(each.stray for each in soak.samples) == 0, told
