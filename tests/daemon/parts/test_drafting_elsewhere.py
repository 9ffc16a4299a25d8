"""Bundles of large sessions, made in real processes: the same bundles, whatever becomes of the processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.native_runs import begin, finish
from tests.waiting import wait_for

from runward.config.bundle import BundleRules
from runward.daemon.disk.epoch import EpochPassed, write_epoch
from runward.daemon.parts import drafting_elsewhere
from runward.daemon.parts.bundles import AS_HASHED
from runward.daemon.parts.drafting import Made
from runward.daemon.parts.drafting_elsewhere import DIED, MOST_HERE, DraftingElsewhere, FailedElsewhere, Order
from runward.daemon.rundir.opening import Gone, Halted
from runward.handlers.model.bundle import BundleOrder, BundleRulesOf, Stretch, Verdict
from runward.handlers.model.files import Unreadable

PARTS = ("REPLAY.jsonl", "PR_SUMMARY.md", "RECEIPT.json")
EPOCH = 3


def bundled(session: BundleRulesOf) -> BundleRules:
    return BundleRules()


def trace(size: int) -> str:
    lines = []
    while size > 0:
        called = {"event": "ToolCall", "id": str(size), "tool": "Read", "params": {"path": "x"}}
        result = {"event": "ToolResult", "id": str(size), "output": {"content": f"{size} " * 10_000}}
        lines += [json.dumps(called), json.dumps(result)]
        size -= len(lines[-1])
    return "".join(f"{line}\n" for line in lines)


LARGE = trace(2 * MOST_HERE)


def worked(base: Path, name: str, calls: str) -> Path:
    directory = begin(base, name)
    (directory / "trace.jsonl").write_text(calls)
    finish(directory)
    return directory


async def settle(running: Daemon) -> None:
    await running.settle()
    await running.supervisor.assembly.bundles.drain()


def processes() -> set[int]:
    """Our children that make bundles."""
    named = f"-m\0{drafting_elsewhere.__name__}\0".encode()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    for each in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            children += (each / "children").read_text().split()
    found = set()
    for pid in children:
        with suppress(FileNotFoundError, ProcessLookupError):  # another child may end meanwhile
            if named in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.add(int(pid))
    return found


def started() -> int:
    """Our only child that makes bundles. For a moment after a process was started, the kernel has no words of it."""
    (pid,) = wait_for(processes, "the process that was started")
    return pid


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[DraftingElsewhere]:
    state = tmp_path / "state"
    state.mkdir(mode=0o700, exist_ok=True)
    with closing(DraftingElsewhere(state)) as made:
        yield made


def order(base: Path, calls: str = LARGE, epoch: int = EPOCH) -> Order:
    """An order to make the bundle of a run that is there."""
    write_epoch(base / "state", EPOCH)
    run = worked(base, "run", calls)
    return Order(bundle_of(run, run), is_again=False, is_being_shown=True, epoch=epoch, roots={})


def bundle_of(path: Path, directory: Path, layout: str = "native") -> BundleOrder:
    verdict = Verdict(1_790_000_000.0, "completed", "run.completed.ok", "", None, None)
    stretch = Stretch(0.0)
    return BundleOrder(
        "native:runs/run", "run", layout, str(path), str(directory), 1, stretch, verdict, BundleRules()
    )


def called(run: Path) -> list[str]:
    """What its parts say of its calls, without the hashes of the daemon's own events."""
    return [
        *(run / "REPLAY.jsonl").read_text().splitlines()[1:-1],
        *(run / "PR_SUMMARY.md").read_text().splitlines(),
    ]


def always(read: int) -> bool:
    return True


async def test_large_sessions_get_the_same_bundle_elsewhere(tmp_path: Path) -> None:
    made: dict[bool, list[list[str]]] = {}
    for is_elsewhere in (False, True):
        base = tmp_path / str(is_elsewhere)
        base.mkdir()
        before = processes()
        async with daemon(base, StillClock(), ToldProcesses(), bundled=bundled) as running:
            with closing(DraftingElsewhere(running.state)) as elsewhere:
                bundles = running.supervisor.assembly.bundles
                bundles.elsewhere = elsewhere if is_elsewhere else None
                small = worked(base, "small", trace(1000))
                await settle(running)
                assert processes() == before, "a small one isn't worth a process"
                large = worked(base, "large", LARGE)
                await settle(running)
                assert (processes() != before) == is_elsewhere
            assert processes() == before
        made[is_elsewhere] = [called(run) for run in (small, large)]
        assert not [each for each in large.iterdir() if each.name.startswith(".")]
    assert made[True] == made[False]


async def test_a_log_that_takes_long_is_left_to_the_loop_for_that_before_its_draft_begins(
    tmp_path: Path,
) -> None:
    log = tmp_path / "session.jsonl"
    log.write_text('{"type":"user"}\n' * (2 * MOST_HERE // 16))
    directory = tmp_path / "parts"
    directory.mkdir()
    told: list[int] = []

    def takes_long(count: int) -> bool:
        told.append(count)
        return count < log.stat().st_size

    before = processes()
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        with closing(DraftingElsewhere(running.state)) as elsewhere:
            bundles = running.supervisor.assembly.bundles
            bundles.elsewhere, bundles.go_on = elsewhere, takes_long
            with pytest.raises(Halted):
                bundles._make(bundle_of(log, directory, "claude-code"))
            assert processes() == before
    assert told[-1] == log.stat().st_size * AS_HASHED
    assert not [*directory.iterdir()]


async def test_a_process_that_died_costs_a_try_and_no_bundle(tmp_path: Path) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
        with closing(DraftingElsewhere(running.state)) as elsewhere:
            running.supervisor.assembly.bundles.elsewhere = elsewhere
            first = worked(tmp_path, "first", LARGE)
            await settle(running)
            (pid,) = processes()
            os.kill(pid, signal.SIGKILL)
            second = worked(tmp_path, "second", LARGE)
            await settle(running)
            assert await running.rows("select count(*) from receipts") == [(1,)]
            waiting = "select error from jobs where state = 'waiting'"
            assert [DIED in str(why) for (why,) in await running.rows(waiting)] == [True]
            clock.move(3600)
            await settle(running)
            assert await running.rows("select count(*) from receipts") == [(2,)]
    for run in (first, second):
        assert all((run / part).exists() for part in PARTS)
        assert not [each for each in run.iterdir() if each.name.startswith(".")]


def test_one_that_dies_in_the_middle_is_told_apart(tmp_path: Path, elsewhere: DraftingElsewhere) -> None:
    told = order(tmp_path)

    def stop_and_kill(read: int) -> bool:
        for pid in processes():
            os.kill(pid, signal.SIGKILL)
        return True

    elsewhere._give_back(elsewhere._take())
    os.kill(started(), signal.SIGSTOP)
    assert elsewhere.make(told, stop_and_kill) == Unreadable(DIED)
    assert processes() == set()
    assert isinstance(elsewhere.make(told, always), Made), "what it left is in nobody's way"


@pytest.mark.parametrize("changes", [(), ("x" * (1 << 20),)], ids=["its answer", "reading its order"])
def test_a_daemon_that_stops_does_not_wait_for(
    changes: tuple[str, ...], tmp_path: Path, elsewhere: DraftingElsewhere
) -> None:
    told = order(tmp_path)
    told = Order(told.order._replace(changes=changes), False, True, EPOCH, {})
    elsewhere._give_back(elsewhere._take())
    os.kill(started(), signal.SIGSTOP)
    with pytest.raises(Halted):
        elsewhere.make(told, lambda read: False)
    assert processes() == set()


def test_what_it_reads_is_told(tmp_path: Path, elsewhere: DraftingElsewhere) -> None:
    read: list[int] = []

    def add(count: int) -> bool:
        read.append(count)
        return True

    told = order(tmp_path, trace(MOST_HERE))
    assert isinstance(elsewhere.make(told, add), Made)
    assert max(read) > 0


def test_it_gives_way_and_is_used_again_until_it_was_idle_for_long(
    tmp_path: Path, elsewhere: DraftingElsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = order(tmp_path)
    assert isinstance(elsewhere.make(told, always), Made)
    (pid,) = processes()
    assert os.sched_getscheduler(pid) == os.SCHED_BATCH
    assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
    monkeypatch.setattr(drafting_elsewhere, "IDLE_S", 0.05)
    elsewhere._is_timed = False
    assert isinstance(elsewhere.make(told, always), Made)
    wait_for(lambda: not processes(), "it is ended")


def test_a_daemon_that_was_replaced_makes_nothing(tmp_path: Path, elsewhere: DraftingElsewhere) -> None:
    told = order(tmp_path, epoch=EPOCH - 1)
    with pytest.raises(EpochPassed):
        elsewhere.make(told, always)
    assert not [each for each in Path(told.order.path).iterdir() if each.name.startswith(".")]


def test_a_directory_that_is_gone_and_a_bug_are_told_apart(
    tmp_path: Path, elsewhere: DraftingElsewhere
) -> None:
    told = order(tmp_path)
    gone = told.order._replace(directory=str(tmp_path / "gone"))
    assert elsewhere.make(Order(gone, False, True, EPOCH, {}), always) == Gone()
    nobodys = told.order._replace(layout="nobody's")
    with pytest.raises(FailedElsewhere, match="KeyError"):
        elsewhere.make(Order(nobodys, False, True, EPOCH, {}), always)


def test_another_directory_in_the_place_of_a_root_is_not_read(
    tmp_path: Path, elsewhere: DraftingElsewhere
) -> None:
    told = order(tmp_path)
    roots: dict[str, str | None] = {str(tmp_path / "runs"): "another"}
    answer = elsewhere.make(Order(told.order, False, True, EPOCH, roots), always)
    assert isinstance(answer, Unreadable)
    assert "is not the one that is known" in answer.why


_HOLDS_ONE = """
import sys, time
from pathlib import Path
from runward.daemon.parts.drafting_elsewhere import DraftingElsewhere
process = DraftingElsewhere(Path(sys.argv[1]))._take()
print(process._process.pid, flush=True)
time.sleep(600)
"""


def test_it_ends_with_a_daemon_that_is_killed(tmp_path: Path) -> None:
    words = (sys.executable, "-c", _HOLDS_ONE, str(tmp_path))
    with subprocess.Popen(words, stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        pid = int(killed.stdout.readline())
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        killed.kill()
    wait_for(lambda: is_over(pid, started), "it ends, too")


def is_over(pid: int, started: str) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return True
    return fields[0] == "Z" or fields[19] != started
