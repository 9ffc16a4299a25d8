"""What each command costs beside the two that people wait for most: `runward run`, and `session list`."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.figure import Figure, Goal, of_ratio
from tests.bench.launcher import runward
from tests.bench.scratch import scratch

_PLAYBOOK = "name: report\nartifacts:\n  expected:\n    - {id: report, path: report.md, required: false}\n"
_WARM = 2
_RUN_WITH_PLAYBOOK = Goal("at most", 1.9)
_OTHERS = Goal("at most", 2.5)
_LIST = ("session", "list")
_COMMANDS = (
    ("log",),
    ("status",),
    ("why", "first"),
    ("session", "show", "first"),
    ("session", "verify", "first"),
    ("contract", "verify", "--playbook", "report", "--root", "."),
    ("play", "check", "report"),
    ("daemon", "--check"),
)


def commands(memory: Path, count: int, repeats: int) -> list[Figure]:
    """Processor time of each command as a ratio, taken in turn with what it is held against."""
    with scratch(memory) as place:
        environment = _furnished(place.directory)
        run = ["run", "--containment", "subreaper"]
        figures = []
        for words in _COMMANDS:
            named = " ".join(
                words[:2] if words[0] in ("session", "contract", "play", "daemon") else words[:1]
            )
            figures.append(
                _against(
                    f"`{named}` vs `session list`",
                    place.directory,
                    environment,
                    words,
                    _LIST,
                    count * repeats,
                    _OTHERS,
                )
            )
        # Last, for each run that no daemon judged costs `session list` some time.
        figures.append(
            _against(
                "`run --playbook` vs `run`",
                place.directory,
                environment,
                [*run, "--playbook", "report", "--", "true"],
                [*run, "--", "true"],
                count * repeats,
                _RUN_WITH_PLAYBOOK,
            )
        )
        return figures


def _furnished(directory: Path) -> Mapping[str, str]:
    """A place with a store, a playbook and one run."""
    (directory / "playbooks").mkdir()
    (directory / "playbooks" / "report.playbook.yaml").write_text(_PLAYBOOK)
    (directory / "runward.toml").write_text('state_dir = "state"\nplaybooks = ["playbooks"]\n')
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory)}
    for words in (
        ("run", "--name", "first", "--containment", "subreaper", "--playbook", "report", "--", "true"),
        ("daemon", "--once", "--quiet"),
    ):
        subprocess.run([*runward(), *words], cwd=directory, env=environment, check=True, capture_output=True)
    return environment


def _against(
    name: str,
    cwd: Path,
    environment: Mapping[str, str],
    command: Sequence[str],
    other: Sequence[str],
    count: int,
    goal: Goal,
) -> Figure:
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(count + _WARM):
        theirs.append(_processor_ms(other, cwd, environment))
        ours.append(_processor_ms(command, cwd, environment))
    ours, theirs = ours[_WARM:], theirs[_WARM:]
    beside = f"{sorted(ours)[len(ours) // 2]:.0f} ms against {sorted(theirs)[len(theirs) // 2]:.0f} of processor time"
    return of_ratio(name, ours, theirs, goal, beside, [])


def _processor_ms(words: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> float:
    process = subprocess.Popen(
        [*runward(), *words],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (used.ru_utime + used.ru_stime) * 1e3
