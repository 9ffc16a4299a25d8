"""What each command costs beside the two that people wait for most: `runward run`, and `session list`."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement, of_ratio, of_samples
from tests.bench.launcher import runward
from tests.bench.scratch import scratch

_PLAYBOOK = "name: report\nartifacts:\n  expected:\n    - {id: report, path: report.md, required: false}\n"
_WARM = 2
_RUN_WITH_PLAYBOOK: Final = Figure(
    "command-run-playbook", "`run --playbook` vs `run`, processor time", "x", Goal("at most", 1.9)
)
_OTHERS: Final = Goal("at most", 2.5)
_LIST: Final = ("session", "list")
_IMPORT_CLICK: Final = (sys.executable, "-c", "import click")
_IMPORT_DAEMON: Final = (sys.executable, "-c", "import runward.daemon.host.service")


def _against_list(*words: str) -> Figure:
    name = "-".join(word.lstrip("-") for word in words)
    return Figure(
        f"command-{name}", f"`{' '.join(words)}` vs `session list`, processor time", "x", _OTHERS,
        "more modules are imported than `session list` needs",
    )  # fmt: skip


_IMPORT: Final = Goal("at most", 1.6)
_LIST_ALONE: Final = Figure(
    "command-list",
    "`session list` vs `python -c 'import click'`, processor time",
    "x",
    _IMPORT,
    "modules of Runward: the keys of the settings, the tables that it reads, and the list itself",
)
_LIST_UNJUDGED: Final = Figure(
    "command-list-unjudged",
    "`session list` with a run that no daemon has judged vs `python -c 'import click'`, processor time",
    "x",
    _IMPORT,
    "what the run's own files say is read by modules that other lists do without",
)
_IMPORTS: Final = Figure(
    "daemon-imports", "the daemon's imports, processor time", "ms", Goal("at most", 350.0)
)
_COMMANDS: Final = {
    _against_list("log"): ("log",),
    _against_list("status"): ("status",),
    _against_list("why"): ("why", "first"),
    _against_list("session", "show"): ("session", "show", "first"),
    _against_list("session", "verify"): ("session", "verify", "first"),
    _against_list("contract", "verify"): ("contract", "verify", "--playbook", "report", "--root", "."),
    _against_list("play", "check"): ("play", "check", "report"),
    _against_list("daemon", "--check"): ("daemon", "--check"),
}
"""How each command is called."""


def _commands(conditions: Conditions) -> list[Measured]:
    """Processor time of each command as a ratio, taken in turn with what it is held against."""
    count = conditions.size(5, 1) * conditions.repeats
    with scratch(conditions.memory) as place:
        environment = _furnished(place.directory)
        run = [*runward(), "run", "--containment", "subreaper"]
        measured = [
            _against(figure, place.directory, environment, [*runward(), *words], [*runward(), *_LIST], count)
            for figure, words in _COMMANDS.items()
        ]
        listed = [*runward(), *_LIST]
        measured.append(_against(_LIST_ALONE, place.directory, environment, listed, _IMPORT_CLICK, count))
        imports = [_processor_ms(_IMPORT_DAEMON, place.directory, environment) for _ in range(count + _WARM)]
        measured.append(of_samples(_IMPORTS, imports[_WARM:]))
        # Last, for each run that no daemon judged costs `session list` some time.
        playbook = [*run, "--playbook", "report", "--", "true"]
        measured.append(
            _against(_RUN_WITH_PLAYBOOK, place.directory, environment, playbook, [*run, "--", "true"], count)
        )
        return measured


def _unjudged(conditions: Conditions) -> list[Measured]:
    count = conditions.size(5, 1) * conditions.repeats
    with scratch(conditions.memory) as place:
        environment = _furnished(place.directory)
        run = [*runward(), "run", "--containment", "subreaper", "--", "true"]
        subprocess.run(run, cwd=place.directory, env=environment, check=True, capture_output=True)
        listed = [*runward(), *_LIST]
        return [_against(_LIST_UNJUDGED, place.directory, environment, listed, _IMPORT_CLICK, count)]


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
    figure: Figure,
    cwd: Path,
    environment: Mapping[str, str],
    command: Sequence[str],
    other: Sequence[str],
    count: int,
) -> Measured:
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(count + _WARM):
        theirs.append(_processor_ms(other, cwd, environment))
        ours.append(_processor_ms(command, cwd, environment))
    ours, theirs = ours[_WARM:], theirs[_WARM:]
    beside = f"{sorted(ours)[len(ours) // 2]:.0f} ms against {sorted(theirs)[len(theirs) // 2]:.0f} of processor time"
    return of_ratio(figure, ours, theirs, beside)


def _processor_ms(command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> float:
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (used.ru_utime + used.ru_stime) * 1e3


MEASUREMENTS: Final = (
    Measurement(
        "commands",
        "processor time of each command, in turn with `session list`, or with `run`",
        (*_COMMANDS, _LIST_ALONE, _IMPORTS, _RUN_WITH_PLAYBOOK),
        _commands,
    ),
    Measurement(
        "command-list-unjudged",
        "processor time of `session list` where a run has ended that no daemon has judged",
        (_LIST_UNJUDGED,),
        _unjudged,
    ),
)
