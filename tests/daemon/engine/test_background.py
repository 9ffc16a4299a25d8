"""Work in the background: hashes are taken after the verdict, once, for every produced file, and stand in nobody's way."""

import hashlib
import json
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.store.uncertain import Uncertain
from tests.waiting import PATIENCE_S

from runward.config.json_value import JsonValue
from runward.daemon.engine import background
from runward.daemon.parts import log_lines
from runward.daemon.rundir import hashes
from runward.daemon.rundir.opening import Halted
from runward.daemon.store.tables import jobs
from runward.daemon.world.files import Files
from runward.handlers.contracts.files import TRIES
from runward.handlers.model.files import FileHash, RootHashes, Unreadable

CONTRACT: JsonValue = {
    "expected": [{"id": "a", "path": "a.md"}, {"id": "b", "path": "b.md", "required": False}]
}
DONE = [("done",)]
ROWS = "select session_key, id, sha256, problem from files order by 1, 2"
STATES = "select state from jobs where handler = 'contracts/hashes' order by id"


def produce(base: Path, name: str, **files: bytes) -> Path:
    """A finished run that left these files, by the ids of its contract."""
    directory = base / "runs" / name
    (directory / "artifacts").mkdir(parents=True)
    for identifier, content in files.items():
        (directory / "artifacts" / f"{identifier}.md").write_bytes(content)
    run: JsonValue = {"schema": "runward-run-v1", "contract": CONTRACT}
    (directory / "run.json").write_text(json.dumps(run))
    (directory / "exit.json").write_text('{"exit_code": 0}')
    return directory / "artifacts"


def replaced(path: Path, put: Callable[[Path], object]) -> None:
    path.unlink()
    put(path)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def judge(running: Daemon) -> None:
    """Look and judge, and leave nothing undone but the work in the background."""
    await running.supervisor.assembly.rounds.check_roots()
    await running.supervisor.assembly.rounds.scan()
    while await running.supervisor.assembly.worker.turn():
        pass
    while await running.supervisor.assembly.outbox.carry_out():
        pass


@asynccontextmanager
async def at_work(running: Daemon, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The loops of the background beside the test, without their rests."""
    monkeypatch.setattr(background, "GATHER", 0.0)
    monkeypatch.setattr(log_lines, "REST", 0.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(running.supervisor.assembly.background.run)
        yield
        running.supervisor.assembly.background.halt()


async def until(running: Daemon, sql: str, expected: list[tuple[object, ...]]) -> None:
    """Until a query has this answer."""
    with anyio.fail_after(PATIENCE_S):
        while await running.rows(sql) != expected:
            await anyio.sleep(0.005)


class Gate:
    """Holds every reader of files back until it is opened, and tells how many there are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = threading.Semaphore(0)
        self.opened = threading.Event()
        self.most = self._now = 0
        self._lock = threading.Lock()
        real = Files.hashes

        def held(
            files: Files, root: str, within: str, paths: Sequence[str], go_on: Callable[[int], bool]
        ) -> RootHashes | Unreadable:
            with self._lock:
                self._now += 1
                self.most = max(self.most, self._now)
            self.reached.release()
            while go_on(0) and not self.opened.wait(0.001):
                pass
            with self._lock:
                self._now -= 1
            return real(files, root, within, paths, go_on)

        monkeypatch.setattr(Files, "hashes", held)

    async def wait_for(self, readers: int) -> None:
        """Until so many readers have come."""
        with anyio.fail_after(PATIENCE_S):
            for _ in range(readers):
                await anyio.to_thread.run_sync(self.reached.acquire)


async def test_what_was_produced_is_hashed_once_after_the_verdict(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        artifacts = produce(tmp_path, "r", a=b"one", b=b"two")
        await judge(running)
        assert await running.rows("select status, delivery from sessions") == [("completed", "passed")]
        assert await running.rows(ROWS) == []
        assert await running.rows(STATES) == [("waiting",)]
        await running.settle()
        assert await running.rows(ROWS) == [
            ("native:runs/r", "a", digest(b"one"), None),
            ("native:runs/r", "b", digest(b"two"), None),
        ]
        status = (artifacts / "a.md").stat()
        assert (
            await running.rows("select attempt, path, size, modified_ns from files where id = 'a'")
            == [(1, "a.md", 3, status.st_mtime_ns)]
            != []
        )
        await running.settle()
        assert await running.rows("select count(*) from files") == [(2,)]
        assert await running.rows(STATES) == DONE


async def test_a_run_that_produced_nothing_gets_no_job(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        produce(tmp_path, "lacks")
        produce(tmp_path, "empty", a=b"")
        await running.settle()
        assert await running.rows(STATES) == []
        assert await running.rows("select produced from attempts") == [(None,), (None,)]


async def test_each_attempt_keeps_the_hashes_of_its_own_files(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        artifacts = produce(tmp_path, "r", a=b"first")
        await running.settle()
        (artifacts / "a.md").write_bytes(b"second")
        (artifacts.parent / "exit.json").unlink()
        os.utime(artifacts.parent / "run.json", ns=(1, 1))
        await running.settle()
        (artifacts.parent / "exit.json").write_text('{"exit_code": 0, "error": null}')
        await running.settle()
        assert await running.rows("select attempt, sha256 from files order by 1") == [
            (1, digest(b"first")),
            (2, digest(b"second")),
        ]


@pytest.mark.parametrize(
    ("change", "problem", "hashed"),
    [
        (lambda path: path.unlink(), "gone", None),
        (lambda path: path.write_bytes(b""), "empty", None),
        (lambda path: path.write_bytes(b"other"), "changed", digest(b"other")),
        (lambda path: os.utime(path, ns=(1, 1)), "changed", digest(b"one")),
        (lambda path: replaced(path, lambda name: name.symlink_to("/etc/hostname")), "outside", None),
        (lambda path: replaced(path, os.mkfifo), "not_regular", None),
        (lambda path: path.parent.rename(path.parents[1] / "away"), "gone", None),
    ],
    ids=["gone", "empty", "changed", "touched", "outside", "fifo", "root gone"],
)
async def test_what_changed_since_the_verdict_is_recorded_with_its_problem(
    tmp_path: Path, change: Callable[[Path], object], problem: str, hashed: str | None
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        artifacts = produce(tmp_path, "r", a=b"one")
        await judge(running)
        change(artifacts / "a.md")
        await running.settle()
        assert await running.rows(ROWS) == [("native:runs/r", "a", hashed, problem)]
        assert await running.rows("select status, delivery from sessions") == [("completed", "passed")]
        told = await running.rows("select summary from decisions where handler = 'contracts/hashes'")
        assert len(told) == 1
        assert str(told[0][0]).startswith("a.md ")


async def test_a_file_of_any_time_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        os.utime(produce(tmp_path, "r", a=b"one") / "a.md", (4e11, 4e11))
        await running.settle()
        assert await running.rows(ROWS) == [("native:runs/r", "a", digest(b"one"), None)]


async def test_a_file_that_is_always_changing_is_given_up_after_some_tries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def changing(
        files: Files, root: str, within: str, paths: Sequence[str], go_on: Callable[[int], bool]
    ) -> RootHashes:
        tries.append(1)
        return RootHashes(True, (FileHash("changing"),))

    monkeypatch.setattr(Files, "hashes", changing)
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        produce(tmp_path, "r", a=b"one")
        await running.settle()
        assert (len(tries), await running.rows(STATES)) == (1, [("waiting",)])
        await running.work()
        assert len(tries) == 1, "it is tried again later, not at once"
        for _ in range(TRIES + 2):
            clock.move(60)
            await running.work()
        assert len(tries) == TRIES
        assert await running.rows(ROWS) == [("native:runs/r", "a", None, "changing")]
        assert await running.rows(STATES) == DONE


async def test_a_place_that_can_not_be_read_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = StillClock()
    with monkeypatch.context() as broken:
        broken.setattr(Files, "hashes", lambda *asked: Unreadable("Input/output error"))
        async with daemon(tmp_path, clock, ToldProcesses()) as running:
            produce(tmp_path, "r", a=b"one")
            for _ in range(3 * TRIES):
                await running.settle()
                clock.move(120)
            assert await running.rows(ROWS) == []
            broken.undo()
            await running.work()
            assert await running.rows(ROWS) == [("native:runs/r", "a", digest(b"one"), None)]


async def test_hashing_keeps_nothing_of_the_session_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        artifacts = produce(tmp_path, "r", a=b"one")
        await judge(running)
        async with at_work(running, monkeypatch):
            await gate.wait_for(1)
            (artifacts.parent / "exit.json").unlink()
            os.utime(artifacts.parent / "run.json", ns=(1, 1))
            await judge(running)
            (artifacts.parent / "exit.json").write_text('{"exit_code": 7}')
            await judge(running)
            assert await running.rows("select attempt, status from attempts") == [
                (1, "completed"),
                (2, "failed"),
            ]
            gate.opened.set()
            await until(running, "select attempt, problem from files", [(1, None), (2, None)])


async def test_two_files_are_hashed_at_a_time_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "MANY_BYTES", 1)  # so that no two of them go into one batch
    gate = Gate(monkeypatch)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        for number in range(5):
            produce(tmp_path, f"r{number}", a=b"one")
        await judge(running)
        async with at_work(running, monkeypatch):
            await gate.wait_for(2)
            gate.opened.set()
            await until(running, "select count(*) from files", [(5,)])
    assert gate.most == 2


async def test_giants_take_one_place_of_the_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LARGE", 100)
    monkeypatch.setattr(background, "MANY_BYTES", 1)
    read: list[str] = []
    reading, real = threading.Semaphore(0), Files.hashes
    released = threading.Event()

    def held(
        files: Files, root: str, within: str, paths: Sequence[str], go_on: Callable[[int], bool]
    ) -> RootHashes | Unreadable:
        read.append(root.split("/")[-2])
        if "-giant/" in root:
            reading.release()
            while go_on(0) and not released.wait(0.001):
                pass
        return real(files, root, within, paths, go_on)

    monkeypatch.setattr(Files, "hashes", held)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        for name in ("a-giant", "b-giant"):
            produce(tmp_path, name, a=b"x" * 101)
        for name in ("c", "d", "e"):
            produce(tmp_path, name, a=b"x" * 100)
        await judge(running)
        async with at_work(running, monkeypatch):
            await anyio.to_thread.run_sync(reading.acquire)
            await until(running, "select count(*) from files", [(3,)])
            assert sorted(name[2:] or name for name in read) == ["c", "d", "e", "giant"]
            released.set()
            await until(running, "select count(*) from files", [(5,)])


@pytest.mark.parametrize("by", ["bytes", "time"])
@pytest.mark.parametrize("most", [1, background.MOST_LONG])
async def test_a_job_whose_files_grew_since_its_verdict_is_put_back_and_done_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, most: int
) -> None:
    """Its event says that it has little to read, so both places would take it."""
    clock = StillClock()
    monkeypatch.setattr(background, "MOST_LONG", most)
    monkeypatch.setattr(jobs, "LARGE", 100)
    calls: list[str] = []
    reading, real = threading.Semaphore(0), Files.hashes
    released = threading.Event()

    def held(
        files: Files, root: str, within: str, paths: Sequence[str], go_on: Callable[[int], bool]
    ) -> RootHashes | Unreadable:
        name = root.split("/")[-2]
        calls.append(name)
        if name.endswith("-giant"):
            if by == "time":
                clock.move(background.SLOW + 1)
            if not go_on(101 if by == "bytes" else 1):
                raise Halted
            reading.release()
            while go_on(0) and not released.wait(0.001):
                pass
        return real(files, root, within, paths, go_on)

    monkeypatch.setattr(Files, "hashes", held)
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        for name in ("a-giant", "b-giant", "c", "d", "e"):
            produce(tmp_path, name, a=b"x")
        await judge(running)
        async with at_work(running, monkeypatch):
            await anyio.to_thread.run_sync(reading.acquire)
            await until(running, "select count(*) from files", [(3,)])
            assert sorted(Counter(calls).values()) == [1, 1, 1, 1, 2], "one was put back, and no other begun"
            assert sorted(name[2:] or name for name in calls) == ["c", "d", "e", "giant", "giant", "giant"]
            released.set()
            await until(running, "select count(*) from files", [(5,)])


async def test_a_job_that_has_run_for_a_minute_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, gate = StillClock(), Gate(monkeypatch)
    monkeypatch.setattr(background, "SLOW", 1e9)
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        produce(tmp_path, "r", a=b"one")
        await judge(running)
        async with at_work(running, monkeypatch):
            await gate.wait_for(1)
            assert running.supervisor.assembly.decider.degraded() == []
            clock.move(61)
            (said,) = running.supervisor.assembly.decider.degraded()
            assert said == "contracts/hashes in lane files:native:runs/r#1 has run for 1 min"
            assert said in running.supervisor.reporting.report().degraded
            gate.opened.set()
            await until(running, STATES, [("done",)])
            assert running.supervisor.assembly.decider.degraded() == []


async def test_verdicts_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    gate.opened.set()
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        waiting, asked = True, 0

        def busy() -> bool:
            nonlocal asked
            asked += 1
            return waiting

        monkeypatch.setattr(running.supervisor.assembly.background, "busy", busy)
        produce(tmp_path, "r", a=b"one")
        await judge(running)
        async with at_work(running, monkeypatch):
            with anyio.fail_after(PATIENCE_S):
                while asked < 5:
                    await anyio.sleep(0.005)
            assert await running.rows(STATES) == [("waiting",)]
            waiting = False
            await until(running, STATES, [("done",)])


async def test_hashes_begin_a_moment_after_the_last_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, looks = StillClock(), 0

    def look() -> bool:
        nonlocal looks
        looks += 1
        return False

    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        running.supervisor.assembly.background.busy = look
        produce(tmp_path, "r", a=b"one")
        await judge(running)
        async with at_work(running, monkeypatch):
            monkeypatch.setattr(log_lines, "REST", 0.1)
            with anyio.fail_after(PATIENCE_S):
                while looks < 5:
                    await anyio.sleep(0.005)
            assert await running.rows(STATES) == [("waiting",)], "another verdict may follow"
            clock.move(0.1)
            await until(running, STATES, [("done",)])


async def test_nobody_looks_for_a_pause_that_cannot_be_yet_and_a_stop_is_heard_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    def expected_for() -> float:
        nonlocal asked
        asked += 1
        return 1000.0

    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        work = running.supervisor.assembly.background
        monkeypatch.setattr(work, "expected_for", expected_for)
        with anyio.fail_after(PATIENCE_S / 2):
            async with at_work(running, monkeypatch):
                while asked < 4:
                    await anyio.sleep(0.005)
                for _ in range(20):
                    work.wake()
                    await anyio.sleep(0.01)
                assert asked == 4, "each of the two loops asks whether it must wait, and how long"


async def test_verdicts_that_keep_following_do_not_keep_hashes_back_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = StillClock()

    def expected_for() -> float:
        clock.move(0.5)
        return 0.001

    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        running.supervisor.assembly.background.expected_for = expected_for
        produce(tmp_path, "r", a=b"one")
        await judge(running)
        begin = clock.now()
        async with at_work(running, monkeypatch):
            await until(running, STATES, [("done",)])
        assert clock.now() - begin >= background.PATIENCE


async def test_verdicts_without_end_do_not_keep_hashes_back_for_ever(tmp_path: Path) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:

        def busy() -> bool:
            clock.move(1.0)
            return True

        running.supervisor.assembly.background.busy = busy
        produce(tmp_path, "r", a=b"one")
        await judge(running)
        begin = clock.now()
        assert await running.supervisor.assembly.background.drain()
        assert await running.rows(STATES) == DONE
        assert clock.now() - begin >= background.PATIENCE


async def test_under_verdicts_without_end_the_work_waits_for_a_gap_no_longer_than_it_takes_itself(
    tmp_path: Path,
) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        over = clock.now() + 1.0 + background.PATIENCE

        def busy() -> bool:
            clock.move(1.0 if clock.now() < over else background.STEP)
            return True

        running.supervisor.assembly.background.busy = busy
        for name in "abcdefgh":
            produce(tmp_path, name, a=b"one")
        await judge(running)
        assert await running.supervisor.assembly.background.drain()
        assert await running.rows(STATES) == DONE * 8
        assert clock.now() - over < 1.0, (
            "as long as runs keep ending, bundles that are made too slowly pile up"
        )


async def test_a_gap_between_verdicts_that_is_shorter_than_a_pause_does_not_begin_the_patience_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, asked = StillClock(), 0
    monkeypatch.setattr(background, "BATCH", 1)  # each file is a step then
    async with daemon(tmp_path, clock, ToldProcesses()) as running:

        def busy() -> bool:
            nonlocal asked
            asked += 1
            clock.move(0.5)
            return asked % 20 > 0

        running.supervisor.assembly.background.busy = busy
        for name in "abcdefgh":
            produce(tmp_path, name, a=b"one")
        await judge(running)
        begin = clock.now()
        assert await running.supervisor.assembly.background.drain()
        assert await running.rows(STATES) == DONE * 8
        assert clock.now() - begin < 2 * background.PATIENCE, "it would get a gap in ten seconds, and no more"


async def test_a_stop_ends_in_the_middle_of_a_file_and_puts_the_job_back_untried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashes, "CHUNK", 1)
    with monkeypatch.context() as slowly:
        gate = Gate(slowly)
        async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
            for name in ("r", "s", "t"):
                produce(tmp_path, name, a=b"one")
            await judge(running)
            async with at_work(running, slowly):
                await gate.wait_for(1)
                with anyio.fail_after(PATIENCE_S):
                    running.supervisor.stop()
                    await running.supervisor.assembly.background.ended.wait()
            assert (
                await running.rows("select state, token, tries from jobs where handler = 'contracts/hashes'")
                == [("waiting", None, 0)] * 3
            )
            assert await running.rows(ROWS) == []
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        assert running.supervisor.assembly.queue.tally.stolen == 0
        await running.work()
        assert await running.rows("select count(*) from files") == [(3,)]


async def test_a_daemon_that_dies_ends_in_the_middle_of_a_file_and_leaves_its_job_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as slowly:
        slowly.setattr(log_lines, "REST", 0.0)
        gate = Gate(slowly)
        async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
            produce(tmp_path, "r", a=b"one")
            await judge(running)
            with anyio.fail_after(PATIENCE_S):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(running.supervisor.assembly.background.run)
                    await gate.wait_for(1)
                    tasks.cancel_scope.cancel()
            assert await running.rows(STATES) == [("running",)]
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        assert running.supervisor.assembly.queue.tally.stolen == 1
        await running.work()
        assert await running.rows(ROWS) == [("native:runs/r", "a", digest(b"one"), None)]


async def test_a_store_that_refuses_is_tried_again_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "TROUBLED", 0.001)
    connections: list[Uncertain] = []

    def wrap(connection: object) -> Uncertain:
        connections.append(Uncertain(connection))  # type: ignore[arg-type] # what the daemon hands in
        return connections[-1]

    async with daemon(tmp_path, StillClock(), ToldProcesses(), wrap=wrap) as running:
        produce(tmp_path, "r", a=b"one")
        await judge(running)
        connections[0].commits = ["not done", "well", "not done", "done, but told to have failed"]
        assert await running.supervisor.assembly.background.drain()
        assert await running.rows(ROWS) == [("native:runs/r", "a", digest(b"one"), None)]
        assert await running.rows(STATES) == DONE


async def test_while_the_store_refuses_status_says_so_and_a_stop_is_not_held_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[Uncertain] = []

    def wrap(connection: object) -> Uncertain:
        connections.append(Uncertain(connection))  # type: ignore[arg-type] # what the daemon hands in
        return connections[-1]

    async with daemon(tmp_path, StillClock(), ToldProcesses(), wrap=wrap) as running:
        produce(tmp_path, "r", a=b"one")
        await judge(running)
        connections[0].commits = ["not done", "not done"]  # one for each of the two loops
        said: list[str] = []
        with anyio.fail_after(PATIENCE_S):
            async with at_work(running, monkeypatch):
                while not said:
                    await anyio.sleep(0.005)
                    said = [each for each in running.supervisor.report().degraded if "background" in each]
        assert said[0].startswith("background work is postponed: ")
        assert await running.rows(STATES) == [("waiting",)]


async def test_a_handler_that_fails_holds_its_own_job_and_the_others_are_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Files.hashes

    def buggy(
        files: Files, root: str, within: str, paths: Sequence[str], go_on: Callable[[int], bool]
    ) -> RootHashes | Unreadable:
        if "/bad/" in root:
            raise ZeroDivisionError("a bug of ours")
        return real(files, root, within, paths, go_on)

    monkeypatch.setattr(Files, "hashes", buggy)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        for name in ("bad", "good"):
            produce(tmp_path, name, a=b"one")
        await running.settle()
        assert await running.rows("select state from jobs where state != 'done'") == [("held",)]
        assert await running.rows(ROWS) == [("native:runs/good", "a", digest(b"one"), None)]
        assert await running.rows("select status from sessions") == [("completed",)] * 2
