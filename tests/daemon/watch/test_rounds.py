"""The rounds: what the watch lost is found, and what is asked for while a scan goes on is not lost with it."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.daemon.in_process import SILENT, StillClock

from runward.config.root import Root
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.rundir.opening import Gone
from runward.daemon.rundir.run_directories import UNTRUSTED, Listing, mark
from runward.daemon.watch.hints import Coverage, Hints, Target, Why
from runward.daemon.watch.look import state_of_documents
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.watch.rounds import ASKED, RESTING_SCANS, Rounds
from runward.daemon.world.clock import SystemClock
from runward.daemon.world.files import Files
from runward.daemon.world.starting import StartingProcesses
from runward.handlers.layouts.places import shape_of
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.model.files import Unreadable, signature_of
from runward.handlers.model.processes import RecordedProcess


class ListedJustBefore(Files):
    """Right after the first listing a run appears, and the watch that stands from then on asks for a scan."""

    rounds: Rounds
    listed = 0

    def list_root(self, root: str) -> Listing | Unreadable | Gone:
        listing = super().list_root(root)
        self.listed += 1
        if self.listed == 1:
            Path(root, "late").mkdir()
            self.rounds.request_scan()
        return listing


def rounds_over(files: Files, hints: Hints, state: Path, root: WatchedRoot) -> Rounds:
    return Rounds(
        files,
        StartingProcesses(state),
        SystemClock(),
        hints,
        Coverage(),
        SILENT,
        {root.name: root},
        period=3600.0,
        watch_again=lambda: None,
        time_leapt=lambda: None,
        look_in_inbox=lambda: None,
    )


@pytest.fixture
def root(tmp_path: Path) -> WatchedRoot:
    (tmp_path / "runs").mkdir()
    return WatchedRoot(Root("runs", str(tmp_path / "runs"), "native"))


def running(root: WatchedRoot, *names: str) -> None:
    """Sessions that run, whose directories were looked at and have not changed since."""
    for name in names:
        directory = Path(root.path, name)
        directory.mkdir()
        root.open[name] = ()
        root.seen[name] = mark(signature_of(os.stat(directory)))


def hinted(hints: Hints) -> set[str]:
    return {name for (_, name), why in hints.take(1000) if why == Why.SCAN}


async def test_a_scan_that_is_requested_during_a_scan_is_made_after_it(
    tmp_path: Path, root: WatchedRoot
) -> None:
    files, hints = ListedJustBefore(tmp_path), Hints(lambda: None)
    files.rounds = rounds = rounds_over(files, hints, tmp_path, root)
    assert await rounds.scan() == 0
    assert rounds.scan_is_due()
    assert await rounds.scan() == 1
    assert not rounds.scan_is_due()


async def test_an_end_that_nobody_told_is_found_without_a_scan(tmp_path: Path, root: WatchedRoot) -> None:
    hints = Hints(lambda: None)
    rounds = rounds_over(Files(tmp_path), hints, tmp_path, root)
    await rounds.learn_roots()
    running(root, "quiet", "ended")
    assert await rounds.check() == 0
    Path(root.path, "ended", "exit.json").write_text("{}")
    assert await rounds.check() == 1
    assert hinted(hints) == {"ended"}


async def test_a_run_in_which_only_other_files_appeared_is_not_looked_at_but_they_are(
    tmp_path: Path, root: WatchedRoot
) -> None:
    hints, files = Hints(lambda: None), Files(tmp_path)
    rounds = rounds_over(files, hints, tmp_path, root)
    await rounds.learn_roots()
    beside: list[Target] = []
    rounds.changed_beside = beside.append
    running(root, "grows", "ends", "unknown")
    for name in ("grows", "ends"):
        root.documents[name] = state_of_documents(partial(files.signature, root.path, name))
    for name in ("grows", "unknown"):
        Path(root.path, name, "REPLAY.jsonl").write_text("{}\n")
        os.utime(Path(root.path, name), (1, 1))
    Path(root.path, "ends", "exit.json").write_text("{}")
    assert await rounds.check() == 2
    assert hinted(hints) == {"ends", "unknown"}
    assert beside == [("runs", "grows")]


async def test_a_scan_looks_at_no_run_in_which_only_other_files_appeared(
    tmp_path: Path, root: WatchedRoot
) -> None:
    hints, files = Hints(lambda: None), Files(tmp_path)
    rounds = rounds_over(files, hints, tmp_path, root)
    running(root, "run")
    root.documents["run"] = state_of_documents(partial(files.signature, root.path, "run"))
    assert await rounds.scan() == 1, "the first one looks at everything"
    Path(root.path, "run", "REPLAY.jsonl").write_text("{}\n")
    assert await rounds.scan() == 0
    Path(root.path, "run", "exit.json").write_text("{}")
    assert await rounds.scan() == 1


async def test_a_directory_that_changed_while_it_was_looked_at_is_looked_at_again(
    tmp_path: Path, root: WatchedRoot
) -> None:
    hints = Hints(lambda: None)
    rounds = rounds_over(Files(tmp_path), hints, tmp_path, root)
    await rounds.learn_roots()
    Path(root.path, "empty-yet").mkdir()
    root.seen["empty-yet"] = UNTRUSTED
    root.unsettled.add("empty-yet")
    await rounds.check()
    assert hinted(hints) == {"empty-yet"}


async def test_each_of_many_running_sessions_gets_its_turn(tmp_path: Path, root: WatchedRoot) -> None:
    hints = Hints(lambda: None)
    rounds = rounds_over(Files(tmp_path), hints, tmp_path, root)
    await rounds.learn_roots()
    names = [f"run-{number}" for number in range(2 * ASKED + 20)]
    running(root, *names)
    for name in names:
        Path(root.path, name, "exit.json").write_text("{}")
    found = [await rounds.check() for _ in range(3)]
    assert found == [ASKED, ASKED, 20]
    assert hinted(hints) == set(names)
    assert await rounds.check() == ASKED, "and from the first one on again"


async def test_a_directory_that_can_not_be_reached_is_nobodys_hint(tmp_path: Path, root: WatchedRoot) -> None:
    hints = Hints(lambda: None)
    rounds = rounds_over(Files(tmp_path), hints, tmp_path, root)
    await rounds.learn_roots()
    running(root, "gone")
    Path(root.path).rename(tmp_path / "away")
    assert await rounds.check() == 0


async def test_sessions_of_a_root_that_was_replaced_are_left_to_the_scan_of_the_new_one(
    tmp_path: Path, root: WatchedRoot
) -> None:
    hints = Hints(lambda: None)
    rounds = rounds_over(Files(tmp_path), hints, tmp_path, root)
    await rounds.learn_roots()
    running(root, "old")
    Path(root.path).rename(tmp_path / "away")
    Path(root.path, "old").mkdir(parents=True)
    assert await rounds.check() == 0
    assert root.stands is not None


async def test_roots_and_running_sessions_are_checked_in_one_thread(
    tmp_path: Path, root: WatchedRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = rounds_over(Files(tmp_path), Hints(lambda: None), tmp_path, root)
    await rounds.learn_roots()
    running(root, "quiet")
    handed_over: list[object] = []

    async def counted(read: Callable[..., object], *arguments: object) -> object:
        handed_over.append(read)
        return await in_thread(read, *arguments)

    monkeypatch.setattr("runward.daemon.watch.rounds.in_thread", counted)
    assert await rounds.check() == 0
    assert len(handed_over) == 1


async def test_a_root_that_leaves_the_settings_while_processes_are_checked_is_passed_over(
    tmp_path: Path, root: WatchedRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.open["run"] = (RecordedProcess(1, 2, "this"),)
    rounds = rounds_over(Files(tmp_path), Hints(lambda: None), tmp_path, root)

    def leave(self: Rounds, asked: object) -> list[object]:
        self.roots.clear()
        return []

    monkeypatch.setattr(Rounds, "_gone", leave)
    assert await rounds.check_processes() == 0


@pytest.mark.parametrize(("machine", "wall", "leapt"), [(1.0, 1.0, 0), (60.0, 60.0, 1), (1.0, 61.0, 1)])
async def test_after_a_suspend_and_a_step_of_the_clock_whoever_waits_measures_again(
    tmp_path: Path, root: WatchedRoot, machine: float, wall: float, leapt: int
) -> None:
    rounds = rounds_over(Files(tmp_path), Hints(lambda: None), tmp_path, root)
    clock, told = StillClock(), []
    rounds.clock, rounds.time_leapt = clock, lambda: told.append(True)
    last, before = clock.monotonic(), clock.now()
    clock.move(machine)
    clock.wall += wall - machine
    rounds._note_gap(last, before)
    assert len(told) == leapt


def over(root: WatchedRoot, names: Sequence[str]) -> None:
    """Sessions that are over, whose logs were looked at and have not changed since."""
    for name in names:
        log = Path(root.path, name)
        log.write_text("{}\n")
        root.seen[name] = mark(signature_of(os.stat(log)))


def missed(root: WatchedRoot, name: str) -> None:
    """What nobody told of."""
    with Path(root.path, name).open("a") as log:
        log.write("{}\n")


@pytest.fixture
def logs(root: WatchedRoot) -> WatchedRoot:
    root.shape = shape_of(LAYOUTS.named("claude-code"))
    return root


async def _found(rounds: Rounds, *, is_periodic: bool) -> set[str]:
    await rounds.scan(is_periodic=is_periodic)
    found: set[str] = set()
    while rounds.hints:
        found |= {name for (_, name), _ in rounds.hints.take(1000)}
    return found


async def test_sessions_that_are_over_take_turns_in_periodic_scans(tmp_path: Path, logs: WatchedRoot) -> None:
    rounds = rounds_over(Files(tmp_path), Hints(lambda: None), tmp_path, logs)
    names = {f"{number}.jsonl" for number in range(60)}
    over(logs, sorted(names))
    for name in names:
        missed(logs, name)
    found = [await _found(rounds, is_periodic=True) for _ in range(RESTING_SCANS)]
    assert sorted(name for each in found for name in each) == sorted(names)
    assert max(map(len, found)) < len(names)


async def test_a_requested_scan_leaves_no_session_out(tmp_path: Path, logs: WatchedRoot) -> None:
    rounds = rounds_over(Files(tmp_path), Hints(lambda: None), tmp_path, logs)
    over(logs, ["a.jsonl", "b.jsonl", "c.jsonl"])
    missed(logs, "b.jsonl")
    assert await _found(rounds, is_periodic=False) == {"b.jsonl"}


@pytest.mark.parametrize("why", ["it runs", "it may change again", "it can't be read", "flat", "shared"])
async def test_a_session_does_not_rest_if(
    tmp_path: Path, logs: WatchedRoot, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = rounds_over(Files(tmp_path), Hints(lambda: None), tmp_path, logs)
    names = [f"{number}.jsonl" for number in range(20)]
    over(logs, names)
    match why:
        case "it runs":
            logs.open |= dict.fromkeys(names, ())
        case "it may change again":
            logs.seen |= dict.fromkeys(names, UNTRUSTED)
        case "it can't be read":
            logs.unread |= dict.fromkeys(names, "why")
        case "flat":
            rounds.flat[logs.name] = "too many directories"
        case "shared":
            monkeypatch.setattr(Files, "is_local", lambda files, path: False)
    for name in names:
        missed(logs, name)
    assert await _found(rounds, is_periodic=True) == set(names)


async def test_a_session_that_rests_is_missed_when_it_goes_and_new_ones_are_found(
    tmp_path: Path, logs: WatchedRoot
) -> None:
    rounds = rounds_over(Files(tmp_path), Hints(lambda: None), tmp_path, logs)
    over(logs, [f"{number}.jsonl" for number in range(20)])
    for number in range(10):
        Path(logs.path, f"{number}.jsonl").unlink()
    Path(logs.path, "new.jsonl").write_text("{}\n")
    gone = {f"{number}.jsonl" for number in range(10)}
    assert await _found(rounds, is_periodic=True) == {*gone, "new.jsonl"}
