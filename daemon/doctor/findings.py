"""What a check works with: the installation that it examines, its patience, what it finds, and programs that end in time."""

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.problem import Problem
from runward.config.settings import Settings
from runward.daemon.users import name_of, run_as

Result: TypeAlias = Literal["ok", "warning", "failed", "skipped"]
"""`warning`: it works, and a person should know. `failed`: it doesn't. `skipped`: it can't be examined here."""

SCRATCH: Final = ".runward-doctor-"
"""What the names of the directories begin with in which things are tried out."""


class Finding(NamedTuple):
    """One thing that a check found, and what to do about it."""

    result: Result
    message: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Installation:
    """What is examined. `settings` are those in force, or if they are broken the defaults (`is_broken`).

    `problems` are all complaints about what the operator wrote; `environment` is the command's own.
    """

    settings: Settings
    is_broken: bool
    problems: tuple[Problem, ...]
    environment: Mapping[str, str]

    @property
    def state(self) -> Path:
        """The state directory."""
        return Path(self.settings.state_dir)

    @property
    def owner(self) -> int:
        """The user whose daemon works there: the one that the state directory belongs to, or else the caller."""
        try:
            return self.state.stat().st_uid
        except OSError:
            return os.geteuid()

    @property
    def is_anothers(self) -> bool:
        """Whether the state directory belongs to another user than the caller."""
        return self.owner != os.geteuid()

    def as_owner(self, words: str) -> str:
        """The command line that runs `runward WORDS` as the state directory's user."""
        return run_as(name_of(self.owner), self.settings.state_dir, words)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A directory for trial files, in the state directory, or where that would be made. Raises `OSError`."""
        place = self.state
        while not place.is_dir() and place != place.parent:
            place = place.parent
        made = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=place))
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)


class OutOfTime(Exception):
    """The check's time is up, or nothing waits for it now."""


@dataclass(slots=True)
class Patience:
    """How long a check may still take."""

    seconds: float
    _began: float = field(default_factory=time.monotonic)
    _given_up: threading.Event = field(default_factory=threading.Event)

    def left(self) -> float:
        """The seconds that are left. Raises `OutOfTime`."""
        left = self._began + self.seconds - time.monotonic()
        if left <= 0 or self._given_up.is_set():
            raise OutOfTime
        return left

    def pause(self, seconds: float) -> None:
        """Wait for a moment. Raises `OutOfTime`."""
        left = self.left()
        if self._given_up.wait(min(seconds, left)) or seconds >= left:
            raise OutOfTime

    def give_up(self) -> None:
        """Make the check end at its next look."""
        self._given_up.set()


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
) -> Ended:
    """Run a program to its end, for at most `within` seconds. Raises `OSError`, and `OutOfTime` once it is killed."""
    return finish(start(arguments, environment), patience, within)


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
