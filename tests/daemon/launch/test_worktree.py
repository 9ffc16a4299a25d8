"""A step's worktree: what is checked out is older than anything that its command leaves there."""

import os
import subprocess
import time
from pathlib import Path
from typing import Final

from runward.daemon.launch.worktree import make

_CLOCK_REALTIME_COARSE: Final = 5


def test_what_is_checked_out_is_older_than_the_launch(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    subprocess.run(["git", "init", "--quiet", str(repo)], check=True)
    (repo / "source").write_text("x")
    for command in (("add", "."), ("commit", "--quiet", "-m", "first")):
        subprocess.run(
            ["git", "-C", str(repo), "-c", "user.name=t", "-c", "user.email=t@t", *command], check=True
        )
    ages = []
    for number in range(5):
        worktree = tmp_path / "state" / f"{number}"
        make(str(repo), "HEAD", str(worktree))
        ages.append(time.clock_gettime(_CLOCK_REALTIME_COARSE) - os.stat(worktree / "source").st_mtime)
    assert min(ages) > 0, "a command that writes now leaves a younger file"
