"""When run directories last changed."""

import os
from pathlib import Path

from runward.daemon.rundir.changes import last_change


def _run(path: Path) -> Path:
    path.mkdir()
    (path / "run.json").write_text("{}")
    return path


def test_the_last_change_is_that_of_the_newest_entry(tmp_path: Path) -> None:
    run = _run(tmp_path / "run")
    (run / "old").write_text("")
    os.utime(run / "run.json", (2000, 2000))
    os.utime(run / "old", (1000, 1000))
    assert last_change(str(run)) == 2000
    assert last_change(str(tmp_path / "nowhere")) is None
