"""Writing an outcome from inside a run, into the directory from which its outcomes are read."""

import os

from runward.daemon.disk.durable import write_durably
from runward.daemon.rundir.opening import DIRECTORY, opened
from runward.daemon.rundir.outcomes import OUTCOMES


def write_outcome(directory: str, name: str, content: bytes) -> None:
    """Put an outcome into the run's directory of outcomes as `name`, whole or not at all. Raises `OSError`."""
    with opened(directory, DIRECTORY) as within:
        try:
            os.mkdir(OUTCOMES, 0o700, dir_fd=within)
        except FileExistsError:
            pass  # whatever it is: it is opened as a directory
        folder = os.open(OUTCOMES, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        write_durably(folder, name, content)
    finally:
        os.close(folder)
