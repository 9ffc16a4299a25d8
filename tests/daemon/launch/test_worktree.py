"""A step's worktree: what is checked out is older than anything that its command leaves there."""

import os
import subprocess
from pathlib import Path

from runward.daemon.launch.worktree import make
from runward.daemon.processes.kernel import file_time


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
        ages.append(file_time() - os.stat(worktree / "source").st_mtime)
    assert min(ages) > 0, "a command that writes now leaves a younger file"


def test_the_time_of_files_divides_what_was_written_before_from_what_is_written_after(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for _ in range(100):
        with before.open("w") as file:
            file.write("x")
            file.flush()
            os.fstat(file.fileno())  # somebody has seen that time: the next change gets a finer one
            file.write("y")
        now = file_time()
        after.write_text("z")
        assert before.stat().st_mtime <= now <= after.stat().st_mtime
