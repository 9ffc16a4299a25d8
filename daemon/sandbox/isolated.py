"""A process that is isolated from the machine: what every kind of sandbox provides."""

from collections.abc import Mapping
from subprocess import Popen
from typing import Final, Protocol

from runward.config.json_value import JsonValue

NOBODY: Final = 65534
"""The user that code runs as if the daemon is root."""

MOST_FILES: Final = 10_000
"""The number of files that code may make. Nothing else bounds the kernel's memory for them."""

REFUSED: Final = "code of the exchange is refused: "
"""How the daemon says in its report that it can't run code, before the reason and the fix."""

END_S: Final = 2.0
"""Seconds within which a killed process must end."""


class NoSandbox(Exception):
    """This machine can't provide the sandbox: why, and what to do."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.fix = fix


class Isolated(Protocol):
    """The process of one worker. It must be ended in any case."""

    process: Popen[bytes]
    """The process that was started: the worker itself, or the program that isolates it."""

    outer: int
    """A handle of this process."""

    inner: int | None
    """A handle of the worker, once `find` has found it."""

    @property
    def means(self) -> str:
        """What isolates it, in the words of recorded results."""

    @property
    def fix(self) -> str:
        """What to do if it doesn't start."""

    @property
    def has_namespaces(self) -> bool:
        """Whether it sees nothing of the machine; if not, the filter of system calls must forbid more."""

    @property
    def threads(self) -> int:
        """The limit of threads that is set in the kernel."""

    @property
    def setup(self) -> Mapping[str, JsonValue]:
        """What the worker needs to know to isolate itself."""

    def find(self, deadline: float) -> int | None:
        """The worker's process id; None if it doesn't start before the deadline (monotonic seconds)."""

    def watch(self) -> None:
        """The worker has isolated itself, and `overfull` is called from now on. May raise `OSError`."""

    def is_current(self) -> bool:
        """Whether its limits still fit the machine, however long it has waited for its job."""

    def overfull(self) -> str | None:
        """Which bound its files exceed; None if they are within their bounds."""

    def end(self) -> float:
        """Kill it with all that it started, and remove its traces; returns the CPU seconds of its whole life."""
