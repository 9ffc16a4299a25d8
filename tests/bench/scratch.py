"""Where the benchmark's directories lie, and what making a file costs there.

On the disk where durability is the subject, in memory (tmpfs) where it is not. On ext4 a directory whose block group has
run out of free inodes makes each new file cost half a millisecond instead of some microseconds, and with it whatever
creates one file a run. `chattr +T` spreads sub-directories over the groups, so it is set on every parent of run
directories where the file system knows it, and the cost is measured and printed beside the figures.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
"""A tmpfs on every Linux that has one; the disk is used where it is missing."""
_CREATES = 200


class Scratch:
    """An empty directory of the benchmark's own: `runs/`, a root to watch, and room for others."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.spread = True
        self.runs = self.parent_of_runs("runs")

    def parent_of_runs(self, name: str) -> Path:
        """Make a directory that is to hold run directories."""
        parent = self.directory / name
        parent.mkdir()
        done = (
            subprocess.run(["chattr", "+T", str(parent)], capture_output=True, check=False)
            if _has_chattr()
            else None
        )
        self.spread = self.spread and done is not None and done.returncode == 0
        return parent

    def fresh(self, name: str) -> Path:
        """Make an empty directory, in place of what was there under this name."""
        directory = self.directory / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o700)
        return directory

    def creation_us(self, parent: Path) -> float:
        """Microseconds that a new file in a run directory under `parent` costs, over at most 200 of them, which are removed."""
        files = [directory / "created" for directory in sorted(parent.iterdir())[:_CREATES]]
        begin = time.perf_counter()
        for file in files:
            file.touch()
        cost = (time.perf_counter() - begin) / len(files) * 1e6
        for file in files:
            file.unlink()
        return cost


@contextmanager
def scratch(base: Path) -> Iterator[Scratch]:
    """Lend an empty directory below `base`, and remove it with all that was put into it."""
    directory = Path(tempfile.mkdtemp(prefix="runward-bench-", dir=base))
    try:
        yield Scratch(directory)
    finally:
        shutil.rmtree(directory)


def in_memory(disk: Path) -> Path:
    """The base for what is not about durability."""
    return MEMORY if MEMORY.is_dir() else disk


def _has_chattr() -> bool:
    return shutil.which("chattr") is not None
