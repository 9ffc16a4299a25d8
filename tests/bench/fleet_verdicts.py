"""What a fleet costs the verdicts of a host: with its database up, down and silent; and what it costs hosts without one.

Those are held against the last commit before there were fleets, whose sources come out of the repository's history. What else
changed since then counts, too.
"""

import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Final

from tests.bench.bursts import burst_rate
from tests.bench.figure import (
    CannotMeasure,
    Conditions,
    Figure,
    Goal,
    Measured,
    Measurement,
    of_ratio,
    percentile,
)
from tests.bench.fleet_hosts import FleetOfBench, fleet_of_bench, nobody, silence
from tests.bench.latency import latencies
from tests.bench.product import daemon
from tests.bench.results import ROOT
from tests.bench.scratch import scratch

import runward.daemon

_RATE: Final = 50
_STATES: Final = ("up", "down", "silent")
_GIVES_WAY: Final = "the program that reports gives way, but takes its share of caches and of the disk"
_LATENCY: Final = {
    state: Figure(
        f"fleet-verdict-{state}",
        f"verdicts with a fleet whose database is {state}, p50 at {_RATE}/s",
        "x without",
        Goal("at most", 1.05),
        _GIVES_WAY,
    )
    for state in _STATES
}
_BURST: Final = {
    state: Figure(
        f"fleet-burst-{state}",
        f"burst of 1,000 with a fleet whose database is {state}",
        "x without",
        Goal("at least", 0.95),
        _GIVES_WAY,
    )
    for state in _STATES
}
_BEFORE: Final = "24cba03d^"
"""The last commit without fleets."""

_SINCE: Final = "other changes since then count, too"
_MEMORY, _READY, _SAME_BURST = (
    Figure(f"no-fleet-{name}", f"without a fleet, {what}", "x before there were fleets", Goal("at most", 1.01), _SINCE)
    for name, what in (("memory", "memory"), ("ready", "READY"), ("burst", "seconds of a burst of 1,000"))
)  # fmt: skip


@contextmanager
def _settings(fleet: FleetOfBench) -> Iterator[Mapping[str, str]]:
    """By the state of the database, the settings of a host of the fleet; and none."""
    of_host = fleet.joined("laptop")
    with silence() as silent:
        yield {
            "without": "",
            "up": of_host,
            "down": fleet.at_port(of_host, nobody()),
            "silent": fleet.at_port(of_host, silent),
        }


def _forget(fleet: FleetOfBench) -> None:
    """What an earlier daemon reported under the same keys: the next one has a store of its own."""
    with fleet.admin() as admin:
        admin.execute("truncate runward.sessions")


def _latencies(conditions: Conditions) -> list[Measured]:
    count = _RATE * conditions.size(5, 1)

    def p50(further: str, problems: list[str]) -> float:
        return percentile(latencies(conditions.disk, _RATE, count, problems, further), 0.5)

    return _against_none(conditions, _LATENCY, p50, "{:.2f} ms against {:.2f} ms")


def _bursts(conditions: Conditions) -> list[Measured]:
    count = conditions.size(1_000, 100)

    def rate(further: str, problems: list[str]) -> float:
        return burst_rate(conditions.disk, count, problems, further)

    return _against_none(conditions, _BURST, rate, "{:,.0f}/s against {:,.0f}/s")


def _against_none(
    conditions: Conditions,
    figures: Mapping[str, Figure],
    measure: Callable[[str, list[str]], float],
    beside: str,
) -> list[Measured]:
    """What is measured of hosts with further settings, by the state of their database, in turn with hosts without a fleet."""
    taken: dict[str, list[float]] = {}
    problems: list[str] = []
    with (
        scratch(conditions.disk) as place,
        fleet_of_bench(place.directory) as fleet,
        _settings(fleet) as settings,
    ):
        for _ in range(conditions.repeats):
            for state, further in settings.items():
                _forget(fleet)
                taken.setdefault(state, []).append(measure(further, problems))
                _check(fleet, state, problems)
    without = taken["without"]
    return [
        of_ratio(
            figure,
            taken[state],
            without,
            beside.format(percentile(taken[state], 0.5), percentile(without, 0.5)),
            problems,
        )
        for state, figure in figures.items()
    ]


def _check(fleet: FleetOfBench, state: str, problems: list[str]) -> None:
    """Whether the fleet heard of it, where it could."""
    with fleet.admin() as admin:
        ((count,),) = admin.execute("select count(*) from runward.sessions").fetchall()
    if (count != 0) != (state == "up"):
        problems.append(f"{count} sessions were reported while the database was {state}")


def _no_fleet(conditions: Conditions) -> list[Measured]:
    """Memory, READY and bursts, now and before, in turn."""
    problems: list[str] = []
    memory: dict[str, list[float]] = {}
    ready: dict[str, list[float]] = {}
    burst: dict[str, list[float]] = {}
    count = conditions.size(1_000, 100)
    with scratch(conditions.disk) as archive:
        commands = {
            "now": _command(Path(runward.daemon.__file__).parents[2]),
            "before": _command(_sources_before(archive.directory)),
        }
        for command in commands.values():  # compiled
            _alone(conditions, command)
        for _ in range(conditions.size(7, 1)):
            for when, command in commands.items():
                megabytes, seconds = _alone(conditions, command)
                memory.setdefault(when, []).append(megabytes)
                ready.setdefault(when, []).append(seconds)
        for _ in range(conditions.size(5, 1)):
            for when, command in commands.items():
                rate = burst_rate(conditions.disk, count, problems, command=command)
                burst.setdefault(when, []).append(count / rate)
    return [
        of_ratio(
            figure,
            of["now"],
            of["before"],
            f"{percentile(of['now'], 0.5):.3g} {unit} against {percentile(of['before'], 0.5):.3g}",
            problems,
        )
        for figure, of, unit in (
            (_MEMORY, memory, "MB"),
            (_READY, ready, "s"),
            (_SAME_BURST, burst, "s"),
        )
    ]


def _command(sources: Path) -> Sequence[str]:
    start = "from runward.daemon.cli import main; main()"
    return ("env", f"PYTHONPATH={sources}", sys.executable, "-c", start, "daemon")


def _sources_before(directory: Path) -> Path:
    """The sources of that commit. Raises `CannotMeasure` where there is no history."""
    done = subprocess.run(
        ["git", "archive", _BEFORE, "src", "config", "handlers", "daemon"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise CannotMeasure(
            f"the sources of {_BEFORE} are not in the history: {done.stderr.decode().strip()}"
        )
    with tarfile.open(fileobj=BytesIO(done.stdout)) as packed:
        packed.extractall(directory / "before", filter="tar")
    return directory / "before/src"


def _alone(conditions: Conditions, command: Sequence[str]) -> tuple[float, float]:
    """Memory (MB) of an idle daemon, and the seconds until it was ready."""
    with scratch(conditions.memory) as place, daemon(place, command=command) as running:
        running.wait_scanned()
        running.settle()
        return running.usage().rss_mb, running.ready_at - running.started_at


MEASUREMENTS: Final = (
    Measurement(
        "fleet-verdicts",
        f"from the rename of `exit.json` to the durable verdict while {_RATE} runs end a second, by hosts of a fleet and by others",
        tuple(_LATENCY.values()),
        _latencies,
    ),
    Measurement(
        "fleet-bursts",
        "verdicts a second on a burst of ends, by hosts of a fleet and by others",
        tuple(_BURST.values()),
        _bursts,
    ),
    Measurement(
        "no-fleet",
        "a host without a fleet, against the last commit before there were fleets",
        (_MEMORY, _READY, _SAME_BURST),
        _no_fleet,
    ),
)
