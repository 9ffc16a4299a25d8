"""A user's systemd of its own, beside the machine's own init; skips where there can be none."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from tests.waiting import wait_for

SCRIPT: Final = Path(__file__).with_name("user_systemd.sh")
NEEDED: Final = ("unshare", "busctl", "systemctl", "dbus-daemon", "/lib/systemd/systemd")
CANNOT_START: Final = 77
"""What the script ends with where systemd doesn't start."""


@dataclass(frozen=True, slots=True)
class UserSystemd:
    """`home` is the scratch directory of its user `uid`, `cgroup` where all of it is held."""

    uid: int
    home: Path
    cgroup: str

    def argv(self, *command: str) -> list[str]:
        """The words that run a command beside it."""
        return ["unshare", "--mount", "bash", str(SCRIPT), *self._place(), *command]

    def _place(self) -> tuple[str, str, str]:
        return str(self.uid), str(self.home), self.cgroup

    def check(self, code: int, complaints: str) -> None:
        """Skip where it could not be started."""
        if code == CANNOT_START:
            pytest.skip(f"systemd --user doesn't start here: {complaints}")


@contextmanager
def user_systemd(home: Path, uid: int = 0) -> Iterator[UserSystemd]:
    """What is needed to start one for the user `uid`; nothing is left of it."""
    mounts = Path("/proc/mounts").read_text().splitlines()
    mount = next((line.split()[1] for line in mounts if " cgroup2 " in line), None)
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if os.getuid() != 0 or mount is None or missing:
        pytest.skip(f"needs root, cgroups of version 2 and {', '.join(missing) or 'nothing more'}")
    cgroup = Path(mount) / f"runward-test-{uuid4().hex}"
    yield UserSystemd(uid, home, cgroup.name)
    if cgroup.exists():
        wait_for(lambda: "populated 0" in (cgroup / "cgroup.events").read_text(), "the end of systemd")
        for directory, _, _ in os.walk(cgroup, topdown=False):
            os.rmdir(directory)
