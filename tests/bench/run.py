"""`make bench`: measure the daemon against the least that any program must do, and hold it to its goals.

Every ratio is of medians that were measured in alternation on this machine, for absolute numbers swing with the
neighbours of its disk. Exit 1: a goal is missed, or a run was lost, doubled or judged wrongly. `--quick` measures little and
judges only the latter.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

# Run as a script, so that it needs no installed tests: the project's root is where `tests.bench` is found.
sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench.agreement import agreement
from tests.bench.beyond_watch_limit import beyond
from tests.bench.bundles import bundles
from tests.bench.bursts import in_one_look, known_before
from tests.bench.chains import chains
from tests.bench.commands import commands
from tests.bench.exchange import exchange
from tests.bench.figure import Figure
from tests.bench.hashing import hashing
from tests.bench.home import home
from tests.bench.hook import hook
from tests.bench.idle import idle
from tests.bench.latency import RATES, latency
from tests.bench.launcher import launcher
from tests.bench.memory import flat
from tests.bench.million import million
from tests.bench.product import DaemonFailed
from tests.bench.report import document, table
from tests.bench.schedules import schedules
from tests.bench.scratch import in_memory
from tests.bench.start import start
from tests.bench.storms import storms
from tests.bench.studio import studio
from tests.bench.transcript import transcript
from tests.bench.yardstick import YardstickFailed, reference

SECTIONS = (
    "agreement",
    "burst",
    "once",
    "latency",
    "storm",
    "idle",
    "start",
    "beyond",
    "memory",
    "launcher",
    "commands",
    "hash",
    "transcript",
    "bundles",
    "home",
    "hook",
    "chains",
    "schedules",
    "exchange",
    "studio",
    "million",
)


def _sections(
    disk: Path, quick: bool, repeats: int, sizes: list[int], sessions: int
) -> dict[str, Callable[[], list[Figure]]]:
    memory = in_memory(disk)
    count, large = min(sizes), max(sizes)
    return {
        "agreement": lambda: _agreement(disk, count, repeats if quick else max(9, repeats)),
        "burst": lambda: [figure for size in sizes for figure in known_before(disk, size, repeats)],
        "once": lambda: in_one_look(disk, count, repeats),
        "latency": lambda: [
            figure for rate in RATES for figure in latency(disk, rate, 2 if quick else 10, repeats)
        ],
        "storm": lambda: storms(disk, count, repeats),
        "idle": lambda: idle(memory, count, 10 if quick else 75, repeats),
        "start": lambda: start(memory, 1_000 if quick else 60_000, repeats),
        "beyond": lambda: beyond(memory, 1_000 if quick else 60_000, 10 if quick else 180, repeats),
        "memory": lambda: flat(memory, large, 2 if quick else 10),
        "launcher": lambda: launcher(memory, 3 if quick else 20, repeats),
        "commands": lambda: commands(memory, 1 if quick else 5, repeats),
        "hash": lambda: hashing(disk, 2 if quick else 8, repeats),
        "chains": lambda: chains(disk, 3 if quick else 25, 4 if quick else 1_000, repeats),
        "schedules": lambda: schedules(disk, 100 if quick else 10_000, 50 if quick else 1_000, repeats),
        "exchange": lambda: exchange(disk, 5 if quick else 50, 400 if quick else 10_000, repeats),
        "studio": lambda: studio(disk, memory, 3 if quick else 20, repeats),
        "transcript": lambda: transcript(disk, 20 if quick else 200, 20 if quick else 200, repeats),
        "bundles": lambda: bundles(disk, 2 if quick else 10, count, 1_000 if quick else 10_000, repeats),
        "home": lambda: home(disk, 300 if quick else 10_000, repeats),
        "hook": lambda: hook(disk, 5 if quick else 50, repeats),
        "million": lambda: million(memory, sessions, repeats),
    }


def _busy() -> str:
    """A word of warning where others use the machine: a neighbour costs the daemon's threads more than the baseline."""
    load = os.getloadavg()[0]
    return f" the machine is busy (load {load:.1f}): don't trust the ratios" if load > 1.5 else ""


def _agreement(disk: Path, count: int, repeats: int) -> list[Figure]:
    script = reference()
    if script is None:
        print(
            "agreement: left out, RUNWARD_TEST_MATERIAL names no directory with bench/raw_pipeline.py",
            file=sys.stderr,
        )
        return []
    return agreement(disk, script, count, repeats)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a smoke run of two minutes")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"some of {','.join(SECTIONS)}")
    parser.add_argument("--repeats", type=int, help="of each figure; default 3, or 1 with --quick")
    parser.add_argument(
        "--runs", type=int, action="append", metavar="N", help="size of a burst; may be repeated"
    )
    parser.add_argument(
        "--sessions",
        type=int,
        metavar="N",
        help="size of the large store; default 100,000, or 2,000 with --quick",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the JSON there instead of printing it"
    )
    parser.add_argument(
        "--scratch", type=Path, default=Path("/var/tmp"), help="a directory on the disk to measure"
    )
    given = parser.parse_args()
    wanted = given.only.split(",")
    if unknown := set(wanted) - set(SECTIONS):
        parser.error(f"--only knows {', '.join(SECTIONS)}, not {', '.join(sorted(unknown))}")
    repeats = given.repeats or (1 if given.quick else 3)
    sizes = given.runs or ([200, 400] if given.quick else [1_000, 10_000])
    sessions = given.sessions or (2_000 if given.quick else 100_000)
    # Told to stop, it still stops the daemon that it started and removes what it made.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    figures: list[Figure] = []
    broken: list[str] = []
    for name, measure in _sections(given.scratch, given.quick, repeats, sizes, sessions).items():
        if name in wanted:
            print(f"{name} …{_busy()}", file=sys.stderr, flush=True)
            try:
                figures += measure()
            except (DaemonFailed, YardstickFailed) as failure:
                broken.append(f"{name} could not be measured: {failure}")
    print("\n".join([table(figures, judged=not given.quick), *broken]))
    text = json.dumps(document(figures, given.quick), indent=2, ensure_ascii=False)
    if given.json:
        given.json.write_text(text + "\n")
    else:
        print(text)
    missed = any(figure.problems or not (given.quick or figure.met) for figure in figures)
    return 1 if missed or broken else 0


if __name__ == "__main__":
    sys.exit(main())
