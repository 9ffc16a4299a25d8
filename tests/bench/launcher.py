"""What `runward run` costs beside a bare interpreter: time until a command that does nothing has ended, and memory while it waits.

Both are of this interpreter, with the byte code of all modules cached, as an installation has it.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.bench.figure import (
    Conditions,
    Figure,
    Goal,
    Measured,
    Measurement,
    NotMeasured,
    Outcome,
    of_difference,
    percentile,
)
from tests.bench.scratch import scratch
from tests.bench.usage import usage

_MORE: Final = "ms more"
_TIME: Final = Figure(
    "run-subreaper",
    "`runward run -- true`, subreaper, against a bare interpreter",
    _MORE,
    Goal("at most", 15.0, aim=8.0),
    "modules are imported, and the announcement and the end are synced",
)
_TIME_OF_TRUE: Final = Figure(
    "run-true",
    "`runward run -- true`, subreaper, against `true`",
    _MORE,
    Goal("at most", 15.0, aim=8.0),
    "an interpreter starts, which takes 9 ms by itself; modules are imported, and the announcement and the end are synced",
)
_TIME_IN_A_SCOPE: Final = Figure(
    "run-scope",
    "`runward run -- true`, systemd scope, against a bare interpreter",
    _MORE,
    Goal("at most", 15.0),
    "a user's systemd makes the scope: a call over D-Bus and its answer",
)
_WITH_SETTINGS: Final = Figure("run-settings", "`runward run -- true` with a settings file", _MORE)
_WITH_PLAYBOOK: Final = Figure("run-playbook", "`runward run -- true` with a playbook", _MORE)
_MEMORY: Final = Figure(
    "run-memory", "`runward run` while its command runs, memory", "MB more", Goal("at most", 6.0)
)
_BARE = (sys.executable, "-c", "pass")
_TRUE: Final = ("true",)
_SLEEP_S = "1000"
_WARM = 3
_PLAYBOOK = "name: report\nartifacts:\n  expected:\n    - {id: report, path: report.md, required: false}\n"


def _launcher(conditions: Conditions) -> list[Outcome]:
    count = conditions.size(20, 3) * conditions.repeats
    run = [*runward(), "run", "--containment", "subreaper", "--", "true"]
    with scratch(conditions.memory) as place:
        environment = clean_environment(place.directory)
        return [
            _time(_TIME, place.directory, run, environment, count),
            _time(_TIME_OF_TRUE, place.directory, run, environment, count, _TRUE),
            _in_a_scope(place.directory, environment, count),
            *_with_files(place.directory, environment, count),
            _waiting(place.directory, environment, conditions.repeats),
        ]


def runward() -> list[str]:
    """The command as it is installed beside this interpreter."""
    installed = Path(sys.executable).parent / "runward"
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "runward.daemon.cli"]


def clean_environment(home: Path) -> dict[str, str]:
    """Nothing of the caller's but the way to programs and to a user's systemd: Python shall cache its byte code."""
    kept = {name: os.environ[name] for name in ("PATH", "XDG_RUNTIME_DIR") if name in os.environ}
    return {**kept, "HOME": str(home), "RUNWARD_STATE_DIR": str(home / "state")}


def _time(
    figure: Figure,
    cwd: Path,
    command: Sequence[str],
    environment: Mapping[str, str],
    count: int,
    yardstick: Sequence[str] = _BARE,
) -> Measured:
    """Median milliseconds of `command` beyond those of the yardstick, taken in turn."""
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(count + _WARM):
        bare.append(_milliseconds(yardstick, cwd, environment))
        ours.append(_milliseconds(command, cwd, environment))
    return beyond(figure, ours[_WARM:], bare[_WARM:], "ms", f"n = {count}")


def beyond(
    figure: Figure,
    ours: Sequence[float],
    bare: Sequence[float],
    unit: str,
    further: str,
    problems: Sequence[str] = (),
) -> Measured:
    """The difference of two medians, which stand beside it."""
    beside = f"{percentile(ours, 0.5):.1f} {unit} against {percentile(bare, 0.5):.1f}, {further}"
    return of_difference(figure, ours, bare, beside, problems)


def _milliseconds(command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, check=True, capture_output=True
    )
    return (time.perf_counter() - begin) * 1000


def _in_a_scope(cwd: Path, environment: Mapping[str, str], count: int) -> Outcome:
    command = [*runward(), "run", "--containment", "scope", "--", "true"]
    tried = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, check=False)
    if tried.returncode != 0:
        return NotMeasured(_TIME_IN_A_SCOPE, tried.stderr.decode().strip())
    return _time(_TIME_IN_A_SCOPE, cwd, command, environment, count)


def _with_files(directory: Path, environment: Mapping[str, str], count: int) -> list[Measured]:
    """What people write has to be read, which takes libraries: told, and held to nothing."""
    cwd = directory / "with-files"
    (cwd / "playbooks").mkdir(parents=True)
    (cwd / "playbooks" / "report.playbook.yaml").write_text(_PLAYBOOK)
    (cwd / "runward.toml").write_text('state_dir = "state"\nplaybooks = ["playbooks"]\n')
    plain = {name: value for name, value in environment.items() if name != "RUNWARD_STATE_DIR"}
    run = [*runward(), "run", "--containment", "subreaper"]
    return [
        _time(_WITH_SETTINGS, cwd, [*run, "--", "true"], plain, count),
        _time(_WITH_PLAYBOOK, cwd, [*run, "--playbook", "report", "--", "true"], plain, count),
    ]


def _waiting(cwd: Path, environment: Mapping[str, str], repeats: int) -> Measured:
    """Megabytes (PSS) of a launcher that waits for its command, beyond those of an interpreter that sleeps."""
    run = [*runward(), "run", "--containment", "subreaper", "--", shutil.which("sleep") or "sleep", _SLEEP_S]
    sleeping = [sys.executable, "-c", f"import time; print(flush=True); time.sleep({_SLEEP_S})"]
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(max(3, repeats)):
        bare.append(_megabytes(sleeping, cwd, environment, lambda process: process.stdout.readline()))  # type: ignore[union-attr]  # it is a pipe
        ours.append(_megabytes(run, cwd, environment, lambda process: _wait_for_command(process.pid)))
    return beyond(_MEMORY, ours, bare, "MB", "PSS")


def _megabytes(
    command: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    wait: Callable[["subprocess.Popen[bytes]"], object],
) -> float:
    with subprocess.Popen(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        try:
            wait(process)
            return usage(process.pid, family=False).pss_mb
        finally:
            process.terminate()


def _wait_for_command(launcher: int) -> None:
    """Until the launcher's child has become its command: from then on it only waits."""
    give_up = time.monotonic() + 10
    while time.monotonic() < give_up:
        for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
            if Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[0].endswith(b"sleep"):
                return
        time.sleep(0.01)
    raise TimeoutError(f"launcher {launcher} has no command")


MEASUREMENTS: Final = (
    Measurement(
        "launcher",
        "milliseconds until a command that does nothing has ended, and memory while one runs, beyond those of a yardstick",
        (_TIME, _TIME_OF_TRUE, _TIME_IN_A_SCOPE, _WITH_SETTINGS, _WITH_PLAYBOOK, _MEMORY),
        _launcher,
    ),
)
