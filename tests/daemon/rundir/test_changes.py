"""Changes in a run directory: any below it is noticed, links are not followed, and a look is bounded."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_for

from runward.daemon.rundir import changes
from runward.daemon.rundir.changes import Changes


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    (directory / "artifacts/deep").mkdir(parents=True)
    (directory / "artifacts/report.md").write_text("a")
    return directory


@pytest.fixture
def seen(run: Path) -> Iterator[Changes]:
    descriptor = os.open(run, os.O_RDONLY | os.O_DIRECTORY)
    yield Changes(descriptor)
    os.close(descriptor)


def is_noticed(seen: Changes, change: Callable[[], object]) -> bool:
    """Whether a change is noticed. It is made until the clock of the file system has moved on."""
    try:
        wait_for(lambda: (change(), seen.newest())[1] is not None, "a change", 1.0)
    except AssertionError:
        return False
    return True


def test_what_changes_below_a_run_directory_is_noticed_once(run: Path, seen: Changes) -> None:
    assert seen.newest() is None
    report = run / "artifacts/report.md"
    for change in (
        lambda: report.write_text("b"),
        lambda: report.chmod(0o600),
        lambda: (run / "artifacts/deep/new").touch(),
    ):
        assert is_noticed(seen, change)
        assert seen.newest() is None
    (run / "artifacts/deep/new").unlink()
    newest = seen.newest()
    assert newest == (run / "artifacts/deep").stat().st_ctime_ns / 1e9


def test_what_runward_writes_is_no_change_and_what_the_run_writes_or_removes_is(
    run: Path, seen: Changes
) -> None:
    for name in ("REPLAY.jsonl", ".REPLAY.jsonl.ab.tmp", "PR_SUMMARY.md", "RECEIPT.2.json", "results.jsonl"):
        (run / name).write_text("ours")
        assert seen.newest() is None, name
        with (run / name).open("a") as file:
            file.write("more")
        assert seen.newest() is None, name
    (run / "REPLAY.jsonl").rename(run / "REPLAY.jsonl.before")
    (run / ".REPLAY.jsonl.ab.tmp").unlink()
    assert seen.newest() is None
    for name in ("events.jsonl", "note", "artifacts/REPLAY.jsonl"):
        assert is_noticed(seen, (run / name).touch), name
    before = time.time()
    (run / "note").unlink()
    removed = seen.newest()
    assert removed is not None
    assert removed >= before


def test_a_link_is_not_followed(tmp_path: Path, run: Path, seen: Changes) -> None:
    (tmp_path / "other").mkdir()
    (run / "link").symlink_to(tmp_path / "other")
    assert seen.newest() is not None
    (tmp_path / "other/file").touch()
    assert seen.newest() is None


def test_a_look_is_bounded(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_MOST", 2)
    for number in range(20):
        (run / f"{number:03}").touch()
    looked: list[object] = []
    real = os.stat
    descriptor = os.open(run, os.O_RDONLY | os.O_DIRECTORY)

    def counted(*arguments: Any, **named: Any) -> os.stat_result:
        looked.append(arguments)
        return real(*arguments, **named)

    monkeypatch.setattr(os, "stat", counted)
    Changes(descriptor)
    assert len(looked) <= 2
    os.close(descriptor)


def test_a_directory_that_can_not_be_read_counts_as_changed_once_at_most(run: Path) -> None:
    descriptor = os.open(run, os.O_RDONLY | os.O_DIRECTORY)
    seen = Changes(descriptor)
    os.close(descriptor)
    seen.newest()
    assert seen.newest() is None
