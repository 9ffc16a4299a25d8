"""Looks for faults that the fixed seeds do not show, for as long as it is given: `make explore MINUTES=60`.

One thread plays histories of the simulation: first those of the fixed seeds that CI leaves out, then new ones. Beside
it, a second one runs the quick tests again and again, each time in a new order and with new Hypothesis examples. A third
one plays the sweeps of `tests/proof` and `tests/daemon/fleet`, of which CI takes samples: kills, freezes and full disks at
every point, in a new order each time. What fails is printed at once with the command that plays it again: make it a test. Ends with 1 if
anything failed. `RUNWARD_EXPLORE=SEED` sets the first seed.
"""

import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from itertools import chain, count
from pathlib import Path
from typing import Final, TypeVar

from tests.simulation.simulation import IN_CI, SEEDS

ROOT: Final = Path(__file__).parents[2]
PLAY: Final = "import sys; from tests.simulation.simulation import run; run(int(sys.argv[1]))"
PROOFS: Final = ("tests/proof/", "tests/daemon/fleet/")
SWEEPS: Final = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "sweep")
QUICK: Final = ("-q", "-n", "1", "-m", "not prove", "-p", "no:cacheprovider", "--hypothesis-profile=explore")


def history(seed: int) -> tuple[list[str], str]:
    """What plays one history, and what a person types to play it again."""
    return [sys.executable, "-c", PLAY, str(seed)], f"RUNWARD_SEED={seed} python -m pytest tests/simulation"


def quick_tests(seed: int) -> tuple[list[str], str]:
    """What runs the quick tests in the order and with the examples of this seed, and how to do so again."""
    options = [*QUICK, f"--randomly-seed={seed}", f"--hypothesis-seed={seed}"]
    return [sys.executable, "-m", "pytest", *options], shlex.join(["python", "-m", "pytest", *options])


def sweeps_of_proofs() -> list[str]:
    """The tests of real processes that try every single point of what CI samples, by their ids."""
    words = [sys.executable, "-m", "pytest", *SWEEPS, "--collect-only", *PROOFS]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if told.returncode != 0:
        raise RuntimeError(
            f"the sweeps of {' and '.join(PROOFS)} can't be collected:\n{told.stdout}{told.stderr}"
        )
    return [line for line in told.stdout.splitlines() if line.startswith(PROOFS)]


def sweep(test: str) -> tuple[list[str], str]:
    """What plays one of these tests, and how to do so again."""
    return [sys.executable, "-m", "pytest", *SWEEPS, test], shlex.join(["python", "-m", "pytest", test])


Each = TypeVar("Each")


class Explored:
    """What was played, and the commands that show a fault."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self.played = 0
        self.found: list[str] = []

    def all_of(self, given: Iterable[Each], kind: Callable[[Each], tuple[list[str], str]]) -> None:
        """Play this kind of thing for one after the other, most often a seed, until the time is up."""
        for each in given:
            if time.monotonic() >= self._until:
                break
            command, again = kind(each)
            said = self._said_by(command)
            if said is not None:
                self.found.append(again)
                print(said[-20_000:], f"FOUND, play it again: {again}", sep="\n", flush=True)

    def _said_by(self, command: list[str]) -> str | None:
        """What a command that failed said; none if it passed. At the end of the time it is interrupted."""
        place = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        started = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **place},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        interrupted = False
        try:
            said, _ = started.communicate(timeout=max(1.0, self._until - time.monotonic()))
        except subprocess.TimeoutExpired:
            interrupted = True
            os.killpg(started.pid, signal.SIGINT)
            said, _ = started.communicate()
        self.played += not interrupted
        failed = " failed" in said if interrupted else started.returncode != 0
        return said if failed else None


def main(minutes: float) -> int:
    """The exit code: 1 if a fault was found."""
    first = int(os.environ.get("RUNWARD_EXPLORE") or random.SystemRandom().randrange(10**6, 10**9))
    print(
        f"exploring for {minutes:g} minutes from seed {first} (RUNWARD_EXPLORE={first} does the same)",
        flush=True,
    )
    sweeps = sweeps_of_proofs()
    random.Random(first).shuffle(sweeps)
    explored = {
        name: Explored(minutes * 60)
        for name in ("histories", "rounds of the quick tests", "sweeps of proofs")
    }
    histories, rounds, proofs = explored.values()
    threads = [
        threading.Thread(target=histories.all_of, args=(chain(SEEDS[len(IN_CI) :], count(first)), history)),
        threading.Thread(target=rounds.all_of, args=(count(first), quick_tests)),
        threading.Thread(target=proofs.all_of, args=(sweeps, sweep)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("played", ", ".join(f"{each.played} {name}" for name, each in explored.items()))
    found = [again for each in explored.values() for again in each.found]
    print(*(found or ["nothing was found"]), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 10))
