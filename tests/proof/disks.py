"""Small file systems of their own, to fill and to forbid writing on. Needs root."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(path: Path, size: str) -> Iterator["Disk"]:
    """A tmpfs of `size` at `path`. Skips the test, with the reason, where this user may not mount."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system to fill")
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "runward-proof", str(path)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"this machine lets nobody mount: {mounted.stderr.strip()}")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


class Disk:
    """A small file system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, leaving: int = 0) -> None:
        """Take all the space that is left, but for so many bytes."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
        if leaving:
            os.truncate(self._ballast, self._ballast.stat().st_size - leaving)

    def free(self) -> None:
        """Give the space back."""
        self._ballast.unlink()

    def forbid_writing(self) -> None:
        """Mount it read-only."""
        subprocess.run(["mount", "-o", "remount,ro", str(self.path)], check=True)
