"""A start looks only at runs that are open or changed: those that are over and as they were need no look."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from tests.contract_json import entry
from tests.daemon.in_process import StillClock, ToldProcesses, daemon

from runward.daemon.rundir.opening import Gone
from runward.daemon.rundir.run_directories import Sight
from runward.daemon.world.files import Files
from runward.handlers.model.files import Signature, Unreadable

LONG_AGO = 1_700_000_000


def _run(root: Path, name: str, ended: bool = True) -> Path:
    """A run whose files are old."""
    run = root / name
    run.mkdir()
    contract = {"expected": [entry("report.md", True)]}
    said = {
        "schema": "runward-run-v1",
        "session_id": name,
        "started_at": "2026-02-03T04:05:06Z",
        "contract": contract,
    }
    (run / "run.json").write_text(json.dumps(said))
    if ended:
        _end(run, 0)
    _age(run)
    return run


def _end(run: Path, code: int) -> None:
    said = {"exit_code": code, "signal": None, "cause": "exited", "finished_at": "2026-02-03T04:06:07Z"}
    (run / "exit.json").write_text(json.dumps(said))


def _age(run: Path) -> None:
    for path in (*run.iterdir(), run):
        os.utime(path, (LONG_AGO, LONG_AGO))


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The run directories that were looked into, in order."""
    names: list[str] = []
    look = Files.look

    def noted(
        self: Files, root: str, directory: str, documents: Sequence[str], known: Mapping[str, Signature]
    ) -> Sight | Unreadable | Gone:
        names.append(directory)
        return look(root, directory, documents, known)

    monkeypatch.setattr(Files, "look", noted)
    return names


async def _known(tmp_path: Path, *names: str) -> Path:
    """A root with runs that a daemon before saw to their end, more than a minute before its own."""
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as first:
        for name in names:
            _run(first.root, name)
        await first.settle()
        clock.move(61.0)
        _run(first.root, "goes-on", ended=False)
        await first.settle()
        await first.stop()
    for name in names:
        os.utime(tmp_path / "runs" / name, (LONG_AGO, LONG_AGO))  # journals were written
    return tmp_path / "runs"


async def _started_again(tmp_path: Path, looked: list[str]) -> list[str]:
    """What a second daemon looks into, an hour later."""
    looked.clear()
    async with daemon(tmp_path, StillClock(StillClock.wall + 3600.0), ToldProcesses()) as second:
        await second.settle()
        await second.stop()
    return sorted(set(looked))


async def test_a_start_looks_only_at_what_is_open(tmp_path: Path, looked: list[str]) -> None:
    await _known(tmp_path, "one", "two")
    assert await _started_again(tmp_path, looked) == ["goes-on"]


def _end_otherwise_in_place(run: Path) -> None:
    """The file that says how it ended is written over, and the directory shows nothing of it."""
    _end(run, 3)
    os.utime(run, (LONG_AGO, LONG_AGO))


def _end_otherwise_with_its_size_and_time(run: Path) -> None:
    """Likewise, and neither its size nor its time of modification shows it."""
    before = (run / "exit.json").stat()
    while (run / "exit.json").stat().st_ctime_ns == before.st_ctime_ns:
        _end(run, 3)
    _age(run)
    assert (run / "exit.json").stat().st_size == before.st_size


def _name_a_process(run: Path) -> None:
    (run / "process.json").write_text("{}")
    os.utime(run, (LONG_AGO, LONG_AGO))


def _take_the_end_away(run: Path) -> None:
    (run / "exit.json").unlink()


@pytest.mark.parametrize(
    "change",
    [_end_otherwise_in_place, _end_otherwise_with_its_size_and_time, _name_a_process, _take_the_end_away],
)
async def test_a_start_looks_at_a_finished_run_of_which_a_document_changed(
    tmp_path: Path, looked: list[str], change: Callable[[Path], None]
) -> None:
    root = await _known(tmp_path, "one", "two")
    change(root / "two")
    assert await _started_again(tmp_path, looked) == ["goes-on", "two"]


async def test_a_run_with_a_complaint_is_looked_at_again(tmp_path: Path, looked: list[str]) -> None:
    root = await _known(tmp_path, "one")
    (root / "one" / "process.json").write_text("{")
    await _started_again(tmp_path, looked)
    assert await _started_again(tmp_path, looked) == ["goes-on", "one"]


async def test_what_changes_after_the_start_is_found_by_the_scan(tmp_path: Path, looked: list[str]) -> None:
    root = await _known(tmp_path, "one", "two")
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as second:
        await second.settle()
        looked.clear()
        _end(root / "two", 3)
        (root / "two" / "further").write_text("x")
        await second.settle()
    assert "two" in looked
    assert "one" not in looked
