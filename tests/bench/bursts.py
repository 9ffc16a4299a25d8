"""How fast many finished runs are judged: those that were known before, and those that start and end in one look."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.figure import Figure, Goal, names, of_ratio
from tests.bench.fixtures import finish, make, playbook_text
from tests.bench.product import Daemon, daemon
from tests.bench.scratch import Scratch, scratch
from tests.bench.yardstick import ONE_A_COMMIT, TWO_STAGES, baseline_burst, fixture

_KNOWN = Goal("at least", 0.4, aim=0.5)
_KNOWN_ONE_A_COMMIT = Goal("at least", 2.0)
_ONE_LOOK = Goal("at least", 0.3)
# What was committed when the store was looked at cannot have been committed later; clocks are read a little apart.
_CLOCK_SLACK_S = 0.001


@dataclass(slots=True)
class _Samples:
    """One sample of each a repeat: runs a second of the daemon, until its journals are written too, and of the baselines."""

    daemon: list[float] = field(default_factory=list)
    with_journals: list[float] = field(default_factory=list)
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
        shown = {"daemon": self.daemon, "journals written": self.with_journals, "baseline": self.two_stages}
        return {
            name: values for name, values in (shown | {"one a commit": self.one_a_commit}).items() if values
        }


def known_before(disk: Path, count: int, repeats: int) -> list[Figure]:
    """A burst of ends of runs that the daemon knows, against both baselines."""
    samples = _Samples()
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        for _ in range(repeats):
            samples.two_stages.append(baseline_burst(place, TWO_STAGES, count))
            _known_sample(disk, count, samples)
            samples.one_a_commit.append(baseline_burst(place, ONE_A_COMMIT, count))
    beside, problems = samples.beside(), samples.problems
    name = f"burst of {count:,}, known before"
    return [
        of_ratio(
            f"{name}, vs two stages, watchfiles 5/20",
            samples.daemon,
            samples.two_stages,
            _KNOWN,
            beside,
            problems,
        ),
        of_ratio(
            f"{name}, vs one commit a run",
            samples.daemon,
            samples.one_a_commit,
            _KNOWN_ONE_A_COMMIT,
            beside,
            problems,
        ),
    ]


def in_one_look(disk: Path, count: int, repeats: int) -> list[Figure]:
    """Bursts of runs that appear when they are over already, each by one rename, against the same baseline.

    Those of the one bring their contracts, those of the other name a playbook.
    """
    own, named = _Samples(), _Samples()
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        for _ in range(repeats):
            for samples, playbook in ((own, None), (named, "bench")):
                samples.two_stages.append(baseline_burst(place, TWO_STAGES, count))
                _one_look_sample(disk, count, samples, playbook)
    name = f"burst of {count:,}, started and finished in one look"
    return [
        of_ratio(each, samples.daemon, samples.two_stages, _ONE_LOOK, samples.beside(), samples.problems)
        for each, samples in ((name, own), (f"{name}, naming a playbook", named))
    ]


def _known_sample(disk: Path, count: int, samples: _Samples) -> None:
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        samples.creation_us.append(place.creation_us(place.runs))
        with daemon(place) as running:
            running.wait_running(count)
            _measure(running, count, lambda: fixture("finish", place.runs, count), samples)
        _check(place, running, count, samples)


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
            running.settle()
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
    samples.daemon.append(count / (last - first))
    if log.journals_end is not None:
        samples.with_journals.append(count / (max(log.journals_end, last) - first))


def _check(place: Scratch, stopped: Daemon, count: int, samples: _Samples) -> None:
    samples.spread = samples.spread and place.spread
    samples.problems += stopped.record.problems(names(count))
    samples.problems += stopped.record.journal_problems(place.runs, names(count))
