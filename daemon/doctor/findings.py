"""What a check works with: the installation that it examines, its patience, and what it finds."""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
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
    found: str
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
