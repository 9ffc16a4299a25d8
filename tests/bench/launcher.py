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

from tests.bench.figure import Figure, Goal, of_samples
from tests.bench.scratch import scratch
from tests.bench.usage import usage

_TIME = Goal("at most", 40.0)
_TIME_IN_A_SCOPE = Goal("at most", 75.0)
_MEMORY = Goal("at most", 6.0)
_BARE = (sys.executable, "-c", "pass")
_SLEEP_S = "1000"
_WARM = 3
_PLAYBOOK = "name: report\nartifacts:\n  expected:\n    - {id: report, path: report.md, required: false}\n"


def launcher(memory: Path, count: int, repeats: int) -> list[Figure]:
    """Milliseconds and megabytes more than a bare interpreter takes; `count` launches of each kind a repeat."""
    with scratch(memory) as place:
        environment = clean_environment(place.directory)
        return [
            _time(
                "`runward run -- true`, subreaper",
                place.directory,
                [*runward(), "run", "--containment", "subreaper", "--", "true"],
                environment,
                count * repeats,
                _TIME,
            ),
            *_in_a_scope(place.directory, environment, count * repeats),
            *_with_files(place.directory, environment, count * repeats),
            _waiting(place.directory, environment, repeats),
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
    name: str,
    cwd: Path,
    command: Sequence[str],
    environment: Mapping[str, str],
    count: int,
    goal: Goal | None,
) -> Figure:
    """Median milliseconds of `command` beyond those of a bare interpreter, taken in turn."""
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(count + _WARM):
        bare.append(_milliseconds(_BARE, cwd, environment))
        ours.append(_milliseconds(command, cwd, environment))
    bare, ours = bare[_WARM:], ours[_WARM:]
    return beyond(name, ours, bare, "ms", goal, f"n = {count}")


def beyond(
    name: str, ours: list[float], bare: list[float], unit: str, goal: Goal | None, further: str = ""
) -> Figure:
    """The difference of two medians; the spread is that of pairs that were measured next to each other."""
    pairs = [mine - theirs for mine, theirs in zip(ours, bare, strict=True)]
    mine, theirs = of_samples("", ours, unit, None).value, of_samples("", bare, unit, None).value
    beside = f"{mine:.1f} {unit} against {theirs:.1f}" + (f", {further}" if further else "")
    return Figure(name, mine - theirs, f"{unit} more", (min(pairs), max(pairs)), goal, beside)


def _milliseconds(command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, check=True, capture_output=True
    )
    return (time.perf_counter() - begin) * 1000


def _in_a_scope(cwd: Path, environment: Mapping[str, str], count: int) -> list[Figure]:
    command = [*runward(), "run", "--containment", "scope", "--", "true"]
    tried = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, check=False)
    if tried.returncode != 0:
        print(f"launcher: no scope is measured: {tried.stderr.decode().strip()}", file=sys.stderr)
        return []
    return [_time("`runward run -- true`, systemd scope", cwd, command, environment, count, _TIME_IN_A_SCOPE)]


def _with_files(directory: Path, environment: Mapping[str, str], count: int) -> list[Figure]:
    """What people write has to be read, which takes libraries: told, and held to nothing."""
    cwd = directory / "with-files"
    (cwd / "playbooks").mkdir(parents=True)
    (cwd / "playbooks" / "report.playbook.yaml").write_text(_PLAYBOOK)
    (cwd / "runward.toml").write_text('state_dir = "state"\nplaybooks = ["playbooks"]\n')
    plain = {name: value for name, value in environment.items() if name != "RUNWARD_STATE_DIR"}
    run = [*runward(), "run", "--containment", "subreaper"]
    return [
        _time("the same with a settings file", cwd, [*run, "--", "true"], plain, count, None),
        _time(
            "the same with a playbook", cwd, [*run, "--playbook", "report", "--", "true"], plain, count, None
        ),
    ]


def _waiting(cwd: Path, environment: Mapping[str, str], repeats: int) -> Figure:
    """Megabytes (PSS) of a launcher that waits for its command, beyond those of an interpreter that sleeps."""
    run = [*runward(), "run", "--containment", "subreaper", "--", shutil.which("sleep") or "sleep", _SLEEP_S]
    sleeping = [sys.executable, "-c", f"import time; print(flush=True); time.sleep({_SLEEP_S})"]
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(max(3, repeats)):
        bare.append(_megabytes(sleeping, cwd, environment, lambda process: process.stdout.readline()))  # type: ignore[union-attr]  # it is a pipe
        ours.append(_megabytes(run, cwd, environment, lambda process: _wait_for_command(process.pid)))
    return beyond("`runward run` while its command runs, memory", ours, bare, "MB", _MEMORY, "PSS")


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
