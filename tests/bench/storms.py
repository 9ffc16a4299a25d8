"""Whether anything is lost or doubled when runs are made and finished at once: while it works, is frozen, or is down."""

import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.figure import Figure, Goal, names, of_samples
from tests.bench.product import Daemon, daemon
from tests.bench.scratch import Scratch, scratch
from tests.bench.yardstick import fixture

_WITHIN = Goal("at most", 2.0)
_FROZEN_S = 3.0


def storms(disk: Path, count: int, repeats: int) -> list[Figure]:
    """Seconds until all are judged, from the last rename, from SIGCONT and from READY."""
    held = {
        "while it works, from the last rename": _while_it_works,
        "while it is frozen, from SIGCONT": _while_it_is_frozen,
        "while it is down, from READY": _while_it_is_down,
    }
    return [_storm(disk, count, repeats, name, each) for name, each in held.items()]


def _storm(
    disk: Path, count: int, repeats: int, name: str, held: Callable[[Scratch, int], tuple[float, Daemon]]
) -> Figure:
    samples: list[float] = []
    problems: list[str] = []
    for _ in range(repeats):
        with scratch(disk) as place:
            seconds, stopped = held(place, count)
            samples.append(seconds)
            problems += stopped.record.problems(names(count))
            problems += stopped.record.journal_problems(place.runs, names(count))
    beside = "" if problems else "none lost, none doubled, every verdict right"
    return of_samples(f"storm of {count:,} {name}", samples, "s", _WITHIN, beside, problems)


def _while_it_works(place: Scratch, count: int) -> tuple[float, Daemon]:
    with daemon(place) as running:
        running.settle()
        last = max(fixture("storm", place.runs, count).values()) / 1e9
        return _judged_at(running, count) - last, running


def _while_it_is_frozen(place: Scratch, count: int) -> tuple[float, Daemon]:
    with daemon(place) as running:
        running.settle()
        running.freeze()
        frozen_at = time.monotonic()
        fixture("storm", place.runs, count)
        time.sleep(max(0.0, frozen_at + _FROZEN_S - time.monotonic()))
        thawed_at = time.time()
        running.thaw()
        return _judged_at(running, count) - thawed_at, running


def _while_it_is_down(place: Scratch, count: int) -> tuple[float, Daemon]:
    with daemon(place) as before:
        before.settle()
    fixture("storm", place.runs, count)
    with daemon(place) as running:
        return _judged_at(running, count) - running.ready_at, running


def _judged_at(running: Daemon, count: int) -> float:
    """When the last verdict was committed (Unix seconds), by the log or, if that is later, by the store.

    Never, where the log doesn't tell them all.
    """
    incomplete_at = running.wait_judged(count)
    running.settle()
    committed_at = running.record.log(since=0.0).committed_at
    return max(incomplete_at, *committed_at.values()) if len(committed_at) == count else float("inf")
