"""How fast many finished runs are judged: those that were known before, and those that start and end in one look."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement, names, of_ratio
from tests.bench.fixtures import finish, lacks_nothing, make, playbook_text
from tests.bench.product import Daemon, daemon
from tests.bench.scratch import Scratch, scratch
from tests.bench.yardstick import ONE_A_COMMIT, TWO_STAGES, baseline_burst, fixture

_BESIDE_PYTHON: Final = "a run costs the daemon 0.42 to 0.5 ms of processor time, almost all of it Python under one lock; the baseline 0.14 ms"
_TWO_STAGES: Final = Goal("at least", 0.4, aim=0.5)
_ONE_A_COMMIT: Final = Goal("at least", 2.0)
_ONE_LOOK: Final = Goal("at least", 0.3)
_UNIT: Final = "x baseline"


@dataclass(frozen=True, slots=True)
class _Known:
    """The figures of a burst of so many runs that the daemon knows."""

    count: int
    two_stages: Figure
    one_a_commit: Figure


def _known(count: int) -> _Known:
    name, what = f"burst-{count}", f"burst of {count:,}, known before"
    return _Known(
        count,
        Figure(f"{name}-two-stages", f"{what}, vs two stages, watchfiles 5/20", _UNIT, _TWO_STAGES, _BESIDE_PYTHON),
        Figure(f"{name}-one-a-commit", f"{what}, vs one commit a run", _UNIT, _ONE_A_COMMIT, _BESIDE_PYTHON),
    )  # fmt: skip


_THOUSAND: Final = _known(1_000)
_LARGE: Final = _known(4_000)
_IN_ONE_LOOK: Final = Figure(
    "burst-in-one-look", "burst of 1,000, started and finished in one look", _UNIT, _ONE_LOOK, _BESIDE_PYTHON
)
_WITH_PLAYBOOKS: Final = Figure(
    "burst-with-playbooks",
    "burst of 1,000 directories renamed in, naming a playbook",
    _UNIT,
    _ONE_LOOK,
    _BESIDE_PYTHON,
)
_METRICS: Final = Figure(
    "burst-metrics",
    "burst of 1,000 with a file of metrics",
    "x without",
    Goal("at least", 0.97),
    "the process that writes the file starts while the burst is judged",
)
# What was committed when the store was looked at cannot have been committed later; clocks are read a little apart.
_CLOCK_SLACK_S = 0.001


@dataclass(slots=True)
class _Samples:
    """One sample of each a repeat: runs a second of the daemon, and of the baselines."""

    daemon: list[float] = field(default_factory=list)
    two_stages: list[float] = field(default_factory=list)
    one_a_commit: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    creation_us: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    spread: bool = True

    def beside(self) -> str:
        median = {name: sorted(values)[len(values) // 2] for name, values in self._shown().items()}
        shown = ", ".join(f"{name} {value:,.0f}/s" for name, value in median.items())
        cpu, creation = sorted(self.cpu_ms), sorted(self.creation_us)
        return (
            f"{shown}; {cpu[len(cpu) // 2]:.2f} ms CPU a run; a new file costs {creation[len(creation) // 2]:.0f} us"
            f"{'' if self.spread else ' (chattr +T refused)'}"
        )

    def _shown(self) -> dict[str, list[float]]:
        shown = {"daemon": self.daemon, "baseline": self.two_stages}
        return {
            name: values for name, values in (shown | {"one a commit": self.one_a_commit}).items() if values
        }


def _known_before(conditions: Conditions, burst: _Known) -> list[Measured]:
    """A burst of ends of runs that the daemon knows, against both baselines."""
    samples, disk = _Samples(), conditions.disk
    count = conditions.size(burst.count, burst.count // 10)
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        for _ in range(conditions.repeats):
            samples.two_stages.append(baseline_burst(place, TWO_STAGES, count))
            _known_sample(disk, count, samples)
            samples.one_a_commit.append(baseline_burst(place, ONE_A_COMMIT, count))
    beside, problems = samples.beside(), samples.problems
    return [
        of_ratio(burst.two_stages, samples.daemon, samples.two_stages, beside, problems),
        of_ratio(burst.one_a_commit, samples.daemon, samples.one_a_commit, beside, problems),
    ]


def _in_one_look(conditions: Conditions) -> list[Measured]:
    """Bursts of runs that appear when they are over already, each by one rename, against the same baseline."""
    own, named = _Samples(), _Samples()
    disk, count = conditions.disk, conditions.size(1_000, 100)
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        for _ in range(conditions.repeats):
            for samples, playbook in ((own, None), (named, "bench")):
                samples.two_stages.append(baseline_burst(place, TWO_STAGES, count))
                _one_look_sample(disk, count, samples, playbook)
    return [
        of_ratio(figure, samples.daemon, samples.two_stages, samples.beside(), samples.problems)
        for figure, samples in ((_IN_ONE_LOOK, own), (_WITH_PLAYBOOKS, named))
    ]


def burst_rate(
    disk: Path, count: int, problems: list[str], further: str = "", command: Sequence[str] = ()
) -> float:
    """Verdicts a second on a burst of runs that the daemon knows. `further` are its settings, `command` is its program."""
    samples = _Samples()
    _known_sample(disk, count, samples, further=further, command=command)
    problems += samples.problems
    return samples.daemon[0] if samples.daemon else math.nan


def _known_sample(
    disk: Path,
    count: int,
    samples: _Samples,
    *,
    has_metrics: bool = False,
    further: str = "",
    command: Sequence[str] = (),
) -> None:
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        samples.creation_us.append(place.creation_us(place.runs))
        settings = f'[metrics]\ntextfile = "{place.directory}/runward.prom"\n' if has_metrics else further
        with daemon(place, settings, command) as running:
            running.wait_running(count)
            _measure(running, count, lambda: fixture("finish", place.runs, count), samples)
        _check(place, running, count, samples)


def _with_metrics(conditions: Conditions) -> list[Measured]:
    """The same burst by daemons that have a file of metrics written, and by others. Both say what needs a person."""
    with_file, without = _Samples(), _Samples()
    count = conditions.size(1_000, 100)
    for _ in range(conditions.size(8, 1)):
        _known_sample(conditions.disk, count, without)
        _known_sample(conditions.disk, count, with_file, has_metrics=True)
    problems = [*with_file.problems, *without.problems]
    return [of_ratio(_METRICS, with_file.daemon, without.daemon, with_file.beside(), problems)]


def _one_look_sample(disk: Path, count: int, samples: _Samples, playbook: str | None) -> None:
    with scratch(disk) as place:
        hidden = place.parent_of_runs("hidden")
        if playbook is not None:
            (place.directory / "playbooks").mkdir()
            (place.directory / "playbooks" / f"{playbook}.playbook.yaml").write_text(playbook_text())
        make(str(hidden), range(count), playbook)
        finish(str(hidden), range(count))
        samples.creation_us.append(place.creation_us(hidden))
        with daemon(place) as running:
            _measure(running, count, lambda: fixture("show", place.runs, count, hidden=hidden), samples)
        _check(place, running, count, samples)


def _measure(running: Daemon, count: int, burst: Callable[[], dict[str, int]], samples: _Samples) -> None:
    cpu, begin = running.usage().cpu_s, time.time()
    first = min(burst().values()) / 1e9
    incomplete_at = running.wait_judged(count)
    samples.cpu_ms.append((running.usage().cpu_s - cpu) / count * 1e3)
    running.settle()
    log = running.record.log(since=begin)
    if len(log.committed_at) != count:
        samples.problems.append(f"the log tells {len(log.committed_at)} verdicts of {count}")
        return
    last = max(log.committed_at.values())
    if last < incomplete_at - _CLOCK_SLACK_S:
        samples.problems.append(
            f"the log says that all was committed {incomplete_at - last:.3f} s before the store had it"
        )
    timed = [at for run, at in log.committed_at.items() if lacks_nothing(run)]
    samples.daemon.append(len(timed) / (max(timed) - first))


def _check(place: Scratch, stopped: Daemon, count: int, samples: _Samples) -> None:
    samples.spread = samples.spread and place.spread
    samples.problems += stopped.record.problems(names(count))
    samples.problems += stopped.record.journal_problems(place.runs, names(count))


MEASUREMENTS: Final = (
    *(
        Measurement(
            f"burst-{burst.count}",
            "verdicts a second when runs that the daemon knows end all at once, with their hashes and bundles on the way",
            (burst.two_stages, burst.one_a_commit),
            partial(_known_before, burst=burst),
        )
        for burst in (_THOUSAND, _LARGE)
    ),
    Measurement(
        "burst-metrics",
        "verdicts a second by daemons that have a file of metrics written, against others",
        (_METRICS,),
        _with_metrics,
    ),
    Measurement(
        "burst-in-one-look",
        "verdicts a second on finished run directories that are renamed in; the ones bring a contract, the others name a playbook",
        (_IN_ONE_LOOK, _WITH_PLAYBOOKS),
        _in_one_look,
    ),
)
