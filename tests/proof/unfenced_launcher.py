"""A launcher as the daemon starts it, with fences taken out: their names are its first argument, with commas between.

What follows is what every such launcher gets: the state directory, the epoch, the run's name.
"""

import os
import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Final

from runward.daemon.launch import detached, ticket, worktree
from runward.daemon.launch.record import LOGS, RunDirectory


def _epoch() -> None:
    """The epoch isn't read."""
    vars(ticket).update(read_epoch=lambda state: int(sys.argv[2]))


def _lock() -> None:
    """Nobody is kept out by a lock."""
    vars(ticket).update(fcntl=SimpleNamespace(LOCK_EX=0, LOCK_NB=0, flock=lambda descriptor, how: None))


def _mark() -> None:
    """What stands in the ticket says nothing."""
    ticket.Ticket.has_begun = property(lambda self: False)  # type: ignore[method-assign,assignment] # to take it out is the purpose


def _run_json() -> None:
    """A run directory that is there is taken as it is, but for the logs: they are made anew."""

    def adopt(root: str, name: str, start: str) -> RunDirectory:
        path = os.path.join(root, name)
        for log in LOGS:
            os.unlink(os.path.join(path, log))
        return RunDirectory(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    vars(ticket).update(adopt_run_directory=adopt)


def _hooks() -> None:
    """git runs the repository's hooks when it makes a worktree."""
    vars(worktree).update(_GIT=("git",))


FENCES: Final[Mapping[str, Callable[[], None]]] = {
    "epoch": _epoch,
    "lock": _lock,
    "mark": _mark,
    "run.json": _run_json,
    "hooks": _hooks,
}

if __name__ == "__main__":
    for fence in sys.argv.pop(1).split(","):
        FENCES[fence]()
    detached.main()
