"""Soaks with deletions: what the daemon holds of the machine stays as it is.

One has 20 runs a second that are written by hand, for two minutes in `make prove` and twenty in `make soak`, which shows the
table. The last third is held against the second: in the first the runs that stand at a time become as many as they stay.

In the other the daemon starts the runs: 600 in `make prove`, and 100,000 within twenty minutes in `make soak`, if the
machine keeps up. What it holds when all are over is held against what it held after the first tenth, at most a thousand, and
its memory also against that after the first ten thousand: by then as many runs have stood at a time as ever will, because
bundles wait for a pause, so what grows after that leaks by the run.
"""

import os
import time
from pathlib import Path

import pytest
from tests.proof.place import Place
from tests.proof.processes import Forks
from tests.proof.soak import LaunchedSoak, Soak, table, thirds
from tests.waiting import wait_for

MINUTES = float(os.environ.get("RUNWARD_SOAK_MINUTES", "2"))
LAUNCHED = int(os.environ.get("RUNWARD_SOAK_LAUNCHED", "600"))
LEAST_RATE = 10.0
SETTLED_S = 3.0
"""Seconds after the last run until what it had is given back: a thread that idles, memory, a checkpoint."""


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


@pytest.mark.prove
@pytest.mark.longest
@pytest.mark.timeout(MINUTES * 60 * 3 + 600)
def test_what_the_daemon_holds_stays_the_same_over_runs_that_it_launches(
    in_memory: Path, forks: Forks
) -> None:
    place = Place(in_memory / "soak", forks)
    with place.serving() as daemon:
        soak = LaunchedSoak(place, daemon)
        first, settled = min(1_000, LAUNCHED // 10), min(10_000, LAUNCHED // 2)
        rate = max(LEAST_RATE, LAUNCHED / (MINUTES * 60))
        soak.go_on(first, rate)
        soak.run_many_at_once()
        time.sleep(SETTLED_S)
        before = soak.sample()
        soak.go_on(settled - first, rate)
        time.sleep(SETTLED_S)
        then = soak.sample()
        soak.go_on(LAUNCHED - settled, rate)
        soak.run_many_at_once()
        time.sleep(SETTLED_S)
        after = soak.sample()
        statuses = place.rows("select status, count(*) from sessions group by status")
        refused = place.rows(
            "select count(*) from starts where session_key not in (select key from sessions)"
        )
        asked = soak.asked
        soak.begin_one_that_lasts()
        wait_for(lambda: soak.sample().processes > after.processes, "a run that is seen while it runs")
    told = f"{LAUNCHED} launched runs\n{table(soak.samples)}\n" + "\n".join(
        f"after {count}: {sample}" for count, sample in ((first, before), (settled, then), (LAUNCHED, after))
    )
    print(told)
    assert statuses == [("completed", asked)], told
    assert refused == [(0,)]
    assert after.memory_mb <= then.memory_mb * 1.05 + 2, told
    assert after.memory_mb <= before.memory_mb * 1.1 + 4, told
    assert after.descriptors <= before.descriptors + 4, told
    assert after.threads <= before.threads + 8, told
    assert after.processes <= before.processes, told
    assert after.cgroups <= before.cgroups, told
    assert after.stray == 0, told
