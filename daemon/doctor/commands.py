"""Other programs that a check runs: each ends in time."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from runward.daemon.doctor.findings import OutOfTime, Patience

_TURN_S: Final = 0.1
_GRACE_S: Final = 3.0


class Ended(NamedTuple):
    """How a program ended, and what it printed."""

    code: int
    out: str
    err: str


def is_there(program: str, environment: Mapping[str, str]) -> bool:
    """Whether there is such a program on the PATH."""
    return shutil.which(program, path=environment.get("PATH")) is not None


def end_of(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    patience: Patience,
    within: float,
    cwd: Path | None = None,
) -> Ended:
    """Run a program to its end, for at most `within` seconds. Raises `OSError`, and `OutOfTime` once it is killed."""
    process = start(arguments, environment, cwd)
    return finish(process, patience, within)


def start(
    arguments: Sequence[str], environment: Mapping[str, str], cwd: Path | None = None
) -> subprocess.Popen[str]:
    """Start a program whose output is read by `finish`. Raises `OSError`."""
    return subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="backslashreplace",
        cwd=cwd,
        env=environment,
    )


def finish(process: subprocess.Popen[str], patience: Patience, within: float) -> Ended:
    """Wait for a program that was started. Raises `OutOfTime` once it is killed."""
    own = Patience(within)
    while True:
        try:
            turn = min(_TURN_S, patience.left(), own.left())
            out, err = process.communicate(timeout=turn)
            return Ended(process.returncode, out, err)
        except subprocess.TimeoutExpired:
            continue
        except OutOfTime:
            end(process)
            raise


def end(process: subprocess.Popen[str]) -> None:
    """End a program that was started: in order, because a launcher ends its command then; by force if that takes long.

    What is left of it may still hold its pipes, so they are just closed.
    """
    process.terminate()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
