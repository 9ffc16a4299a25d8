"""Durable writes: what a verdict waits for."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from runward.daemon.doctor.findings import Finding, Installation, Patience

WRITES: Final = 7
SLOW_S: Final = 0.1
"""Seconds from which on a durable write is slow: each verdict waits for two."""

_PAGE: Final = b"runward\n" * 512


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Write, sync, rename, sync the directory, read back; several times."""
    took: list[float] = []
    with installation.scratch() as scratch:
        for number in range(WRITES):
            patience.left()
            began = time.monotonic()
            _write(scratch, number)
            took.append(time.monotonic() - began)
            if (scratch / "file").read_bytes() != _PAGE + b"%d" % number:
                yield Finding(
                    "failed",
                    f"{scratch.parent} returned something other than what was written",
                    "replace the disk",
                )
                return
    usual = median(took)
    said = f"a write in {scratch.parent} is durable after {usual * 1000:.1f} ms (the slowest: {max(took) * 1000:.1f} ms)"
    if usual < SLOW_S:
        yield Finding("ok", said)
    else:
        yield Finding("warning", f"{said}: each verdict waits for two", "put state_dir on a faster disk")


def _write(scratch: Path, number: int) -> None:
    descriptor = os.open(scratch / "new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, _PAGE + b"%d" % number)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    (scratch / "new").rename(scratch / "file")
    directory = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
