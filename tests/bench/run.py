"""`make bench`: measure the daemon against the least that any program must do, and hold it to its goals.

Every ratio is of medians that were measured in alternation on this machine, for absolute numbers swing with the
neighbours of its disk. Where others use the machine, before or after, a figure is "not measured". `--quick` measures
little, on a loaded machine too, and judges only whether runs were lost, doubled or judged wrongly.

Exit 0: all goals are met. 1: a goal is missed, or a run was lost, doubled or judged wrongly, or something failed.
2: a wrong option. 3: nothing of that, but a figure was not measured.
"""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.bench.figure import CannotMeasure, Conditions, Measured, Measurement, NotMeasured, Outcome
from tests.bench.measurements import MEASUREMENTS
from tests.bench.peers import without_peer
from tests.bench.product import DaemonFailed
from tests.bench.quiet import LOADED, busy_processors
from tests.bench.report import listing, table
from tests.bench.results import ROOT, Load, Result, merge, result
from tests.bench.scratch import in_memory
from tests.bench.yardstick import YardstickFailed

MISSED: Final = 1
NOT_MEASURED: Final = 3
LIMIT_S: Final = 180.0
"""A measurement that takes longer says so."""


def chosen(only: str | None, measurements: Sequence[Measurement]) -> list[Measurement]:
    """Those of these names, or with figures of these names. Raises `ValueError` on a name that there isn't."""
    if only is None:
        return list(measurements)
    wanted = [name.strip() for name in only.split(",")]
    named = {each.name: each.name for each in measurements}
    named |= {figure.name: each.name for each in measurements for figure in each.figures}
    if unknown := [name for name in wanted if name not in named]:
        raise ValueError(f"there is nothing named {', '.join(unknown)}; --list tells what there is")
    return [each for each in measurements if each.name in {named[name] for name in wanted}]


def outcomes_of(measurement: Measurement, conditions: Conditions) -> tuple[list[Outcome], Load | None]:
    """What became of each figure. Raises `DaemonFailed` or `YardstickFailed` where it could not do its work."""
    absent = [without_peer(figure) for figure in measurement.figures]
    if all(absent):
        return [each for each in absent if each is not None], None
    if conditions.is_quick:
        return _measured(measurement, conditions), None
    before = busy_processors()
    if before >= LOADED:
        return _none(measurement, _loaded("before it began", before)), Load(before=before, after=before)
    outcomes = _measured(measurement, conditions)
    load = Load(before=round(before, 2), after=round(busy_processors(), 2))
    if load.after >= LOADED:
        return _none(measurement, _loaded("when it had ended", load.after)), load
    return outcomes, load


def _measured(measurement: Measurement, conditions: Conditions) -> list[Outcome]:
    try:
        outcomes = list(measurement.measure(conditions))
    except CannotMeasure as missing:
        return _none(measurement, str(missing))
    assert [each.figure for each in outcomes] == list(measurement.figures), measurement.name
    return outcomes


def _none(measurement: Measurement, why: str) -> list[Outcome]:
    return [NotMeasured(figure, why) for figure in measurement.figures]


def _loaded(when: str, busy: float) -> str:
    return f"the machine was loaded {when}: others kept {busy:.1f} processors busy"


def main(arguments: Sequence[str] | None = None, measurements: Sequence[Measurement] = MEASUREMENTS) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="print what can be measured, and the goals")
    parser.add_argument("--only", metavar="A,B", help="these measurements, or those with these figures")
    parser.add_argument("--quick", action="store_true", help="a smoke run: little of each, nothing is judged")
    parser.add_argument("--repeats", type=int, help="of each figure; default 3, or 1 with --quick")
    parser.add_argument(
        "--json",
        type=Path,
        default=ROOT / "build" / "bench.json",
        metavar="FILE",
        help="where results are kept; those of other figures stay there (default build/bench.json)",
    )
    parser.add_argument(
        "--scratch", type=Path, default=Path("/var/tmp"), help="a directory on the disk to measure"
    )
    given = parser.parse_args(arguments)
    if given.list:
        print(listing(measurements))
        return 0
    try:
        wanted = chosen(given.only, measurements)
    except ValueError as unknown:
        parser.error(str(unknown))
    # Told to stop, it still stops the daemon that it started and removes what it made.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    repeats = given.repeats or (1 if given.quick else 3)
    conditions = Conditions(given.scratch, in_memory(given.scratch), repeats, given.quick)
    outcomes: list[Outcome] = []
    broken: list[str] = []
    for measurement in wanted:
        print(f"{measurement.name} …", file=sys.stderr, end=" ", flush=True)
        begin = time.monotonic()
        try:
            new, load = outcomes_of(measurement, conditions)
        except (DaemonFailed, YardstickFailed) as failure:
            broken.append(f"{measurement.name} could not be measured: {failure}")
            continue
        finally:
            took = time.monotonic() - begin
            late = f", longer than {LIMIT_S:.0f} s" if took > LIMIT_S and not given.quick else ""
            print(f"{took:.0f} s{late}", file=sys.stderr, flush=True)
        outcomes += new
        if not given.quick:
            _keep(given.json, [result(each, load, took) for each in new], measurements)
    print("\n".join([table(outcomes, is_judged=not given.quick), *broken]))
    return MISSED if broken else exit_code(outcomes, is_judged=not given.quick)


def exit_code(outcomes: Sequence[Outcome], is_judged: bool) -> int:
    """What was missed weighs more than what was not measured."""
    measured = [each for each in outcomes if isinstance(each, Measured)]
    if any(each.problems or (is_judged and not each.met) for each in measured):
        return MISSED
    return 0 if len(measured) == len(outcomes) else NOT_MEASURED


def _keep(file: Path, results: Sequence[Result], measurements: Sequence[Measurement]) -> None:
    """At once, so that nothing is lost where a later measurement fails."""
    merge(file, results, [figure.name for each in measurements for figure in each.figures])


if __name__ == "__main__":
    sys.exit(main())
