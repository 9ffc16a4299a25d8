"""A launcher that announces its run hears back only when launch, begin and session are recorded, and not before."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.daemon.in_process import ToldProcesses
from tests.daemon.inbox.test_launches import announcement
from tests.daemon.parts.test_starting import ROWS, ask, running

from runward.daemon.engine.queue import Queue, StoreTrouble
from runward.daemon.inbox.launches import load_launch
from runward.daemon.launch.record import Announcement
from runward.daemon.launch.ticket import name_of
from runward.daemon.processes.proc import ProcessIdentity
from runward.daemon.watch.hints import Target, Why
from runward.daemon.watch.keeping import Exits
from runward.daemon.world.processes import Announced, Begun, NotBegun
from runward.handlers.model.invocations import StartRun
from runward.handlers.model.sessions import RunLaunched

AT = 1_789_999_990.0
SESSIONS = "select key, status, contract_basis from sessions"


class Told:
    """The daemon's end of a channel. `events` is what the store knew when the launch was acknowledged."""

    def __init__(self, base: Path) -> None:
        self.acknowledged: list[tuple[object, ...]] = []
        self.is_closed = False
        self.over = anyio.Event()
        self._store = base / "state/runward.db"

    def acknowledge(self) -> None:
        # On a connection of its own: it sees what is committed, as a successor would.
        with sqlite3.connect(self._store) as outside:
            launches = outside.execute("select session_key from launches").fetchall()
            begun = outside.execute("select state from starts").fetchall()
            opened = outside.execute("select type from events where type = 'AttemptStarted'").fetchall()
        self.acknowledged.append((*launches, *begun, *opened))

    async def ended(self) -> None:
        await self.over.wait()

    async def freed(self) -> None:
        """It ends with its run."""

    def close(self) -> None:
        self.is_closed = True


class Announcing(ToldProcesses):
    """Launchers that write their `run.json`, announce it, and wait."""

    def __init__(self, base: Path) -> None:
        super().__init__()
        self.channels: list[Told] = []
        self.secrets: list[str] = []
        self._base = base

    def start(self, order: StartRun, epoch: int) -> Begun | Announced | NotBegun:
        self.started.append(order)
        if order.key in self.refuse:
            return self.refuse[order.key]
        directory = Path(order.root) / order.name
        directory.mkdir()
        contract = {"expected": [{"id": "a", "path": "a.md", "required": True}]}
        run = {"schema": "runward-run-v1", "contract": contract}
        (directory / "run.json").write_text(json.dumps(run))
        told = Announcement(
            state=str(self._base / "state"),
            session_key=order.session,
            at=AT,
            launcher=ProcessIdentity(100, 7, "this"),
            process=ProcessIdentity(101, 8, "this"),
            contract=run["contract"],  # type: ignore[arg-type]  # it is JSON
            timeout=60.0,
            grace=5.0,
            cgroup=None,
        )
        self.secrets.append(told.secret)
        launch = load_launch(told.content)
        assert isinstance(launch, RunLaunched)
        self.channels.append(Told(self._base))
        return Announced(launch, AT, self.channels[-1])


async def test_the_launch_the_begin_and_the_session_are_recorded_before_it_is_acknowledged(
    tmp_path: Path,
) -> None:
    processes = Announcing(tmp_path)
    async with running(tmp_path, processes) as served:
        name = ask(tmp_path, "one", target="all")
        await served.settle()
        (told,) = processes.channels
        key = f"native:runs/{name}"
        assert told.acknowledged == [((key,), ("begun",), ("AttemptStarted",))]
        assert await served.rows(ROWS) == [("one", "begun", None)]
        assert await served.rows("select ended_at from starts") == [(AT,)]
        assert await served.rows(SESSIONS) == [(key, "running", "launcher")]
        assert await served.rows("select lane from jobs where handler = 'sessions/deadline'") == [
            (f"timer:{key}",)
        ]
        assert len(processes.started) == 1, "it is not asked for again meanwhile"
        assert told.is_closed, "nobody listens in this process: its end is found otherwise"


async def test_nothing_is_acknowledged_while_the_store_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = Announcing(tmp_path)
    attempt = Queue._attempt

    async def full(queue: Queue, work: Any, name: str, happened: Any) -> None:
        if processes.channels:
            raise StoreTrouble("database or disk is full")
        await attempt(queue, work, name, happened)

    async with running(tmp_path, processes) as served:
        monkeypatch.setattr(Queue, "_attempt", full)
        ask(tmp_path, "one", target="all")
        worker = served.supervisor.assembly.worker
        worker.inbox_waits = True
        while await worker.turn():
            pass
        await served.supervisor.assembly.starts.carry_out()
        (told,) = processes.channels
        await worker.turn()
        assert told.acknowledged == []
        assert served.supervisor.report().degraded != []
        monkeypatch.setattr(Queue, "_attempt", attempt)
        await served.work()
        assert len(told.acknowledged) == 1


async def test_a_run_that_was_ordered_is_not_looked_at_before_its_launcher_announced_it(
    tmp_path: Path,
) -> None:
    processes = Announcing(tmp_path)
    processes.refuse["one"] = NotBegun("another launcher is about to begin it")
    async with running(tmp_path, processes) as served:
        name = ask(tmp_path, "one", target="all")
        await served.settle()
        directory = tmp_path / "runs" / name
        directory.mkdir()
        (directory / "run.json").write_text(json.dumps({"schema": "runward-run-v1"}))
        await served.settle()
        assert await served.rows(SESSIONS) == []
        processes.refuse["one"] = NotBegun("never", for_good=True)
        served.clock.move(60.0)
        await served.settle()
        await served.settle()
        assert await served.rows("select key, status from sessions") == [(f"native:runs/{name}", "running")]


async def test_nor_after_another_daemon_took_over(tmp_path: Path) -> None:
    first = Announcing(tmp_path)
    first.refuse["one"] = NotBegun("busy")
    async with running(tmp_path, first) as served:
        name = ask(tmp_path, "one", target="all")
        await served.settle()
    directory = tmp_path / "runs" / name
    directory.mkdir()
    (directory / "run.json").write_text(json.dumps({"schema": "runward-run-v1"}))
    second = Announcing(tmp_path)
    second.refuse["one"] = NotBegun("another launcher is about to begin it")
    async with running(tmp_path, second) as served:
        await served.settle()
        assert await served.rows(SESSIONS) == []
        announcement(tmp_path, name).put()
        second.refuse["one"] = Begun()  # what a launcher finds by then
        served.clock.move(60.0)
        served.supervisor.assembly.worker.inbox_waits = True
        await served.settle()
        await served.settle()
        assert await served.rows("select key, status from sessions") == [(f"native:runs/{name}", "running")]


async def test_the_end_of_a_run_is_looked_for_when_its_channel_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched: list[Target] = []
    monkeypatch.setattr(Exits, "watch", lambda exits, target, processes: watched.append(target))
    processes = Announcing(tmp_path)
    async with running(tmp_path, processes) as served:
        starts = served.supervisor.assembly.starts
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(starts.run)
            name = ask(tmp_path, "one", target="all")
            served.supervisor.assembly.worker.inbox_waits = True
            while not processes.channels or not processes.channels[0].acknowledged:
                await served.supervisor.assembly.worker.turn()
                await anyio.sleep(0.001)
            assert [each.is_closed for each in processes.channels] == [False]
            while await served.supervisor.assembly.worker.turn():
                pass
            assert len(served.supervisor.assembly.hints) == 0
            assert watched == [], "its channel says all that a descriptor of its launcher would"
            processes.channels[0].over.set()
            while not len(served.supervisor.assembly.hints):
                await anyio.sleep(0.001)
            assert served.supervisor.assembly.hints.take(10)[0][0] == ("runs", name)
            assert processes.channels[0].is_closed
            # Whatever was said, the run has not ended: from now on its launcher is watched like any other.
            served.supervisor.assembly.hints.add([("runs", name)], Why.PROCESS)
            while await served.supervisor.assembly.worker.turn():
                pass
            assert watched == [("runs", name)]
            tasks.cancel_scope.cancel()
        assert starts.announced == {}


@pytest.mark.parametrize("left", [None, b"", bytes(200), b'{"exit_code": 0, "cause": "exi'])
async def test_a_verdict_stays_when_a_power_cut_takes_the_end_that_was_told_before_it_was_synced(
    tmp_path: Path, left: bytes | None
) -> None:
    processes = Announcing(tmp_path)
    async with running(tmp_path, processes) as served:
        name = ask(tmp_path, "one", target="all")
        await served.settle()
        directory = tmp_path / "runs" / name
        (directory / "artifacts").mkdir()
        (directory / "artifacts/a.md").write_text("all is well")
        end = {"exit_code": 0, "cause": "exited", "secret": processes.secrets[0]}
        (directory / ".exit.tmp").write_text(json.dumps(end))
        (directory / ".exit.tmp").rename(directory / "exit.json")
        await served.settle()
        judged = await served.rows("select key, status, attempt from sessions")
        assert judged == [(f"native:runs/{name}", "completed", 1)]
    if left is None:
        (directory / "exit.json").unlink()
    else:
        (directory / "exit.json").write_bytes(left)
    rebooted = Announcing(tmp_path)
    rebooted.boot, rebooted.gone = "another boot", {100, 101}
    async with running(tmp_path, rebooted) as served:
        for _ in range(3):
            await served.settle()
            served.clock.move(30.0)
        assert await served.rows("select key, status, attempt from sessions") == judged
        problems = await served.rows("select path from problems")
        assert problems == ([] if left is None else [(f"{directory}/exit.json",)])


@pytest.mark.parametrize("mark", [None, b""])
@pytest.mark.parametrize("left", [None, b"", bytes(60), b'{"pid": 101, "start_ti'])
async def test_a_launch_that_was_acknowledged_is_not_begun_again_when_a_power_cut_takes_what_was_not_synced(
    tmp_path: Path, left: bytes | None, mark: bytes | None
) -> None:
    processes = Announcing(tmp_path)
    async with running(tmp_path, processes) as served:
        name = ask(tmp_path, "one", target="all")
        await served.settle()
        key = f"native:runs/{name}"
        assert len(processes.channels[0].acknowledged) == 1
        assert await served.rows(SESSIONS) == [(key, "running", "launcher")]
    # Its launcher waited for neither of the two files to be on the disk, and its command may have run.
    for path, content in (
        (tmp_path / "runs" / name / "process.json", left),
        (tmp_path / "state/starts" / name_of("one"), mark),
    ):
        if content is not None:
            path.write_bytes(content)
    rebooted = Announcing(tmp_path)
    rebooted.boot, rebooted.gone = "another boot", {100, 101}
    async with running(tmp_path, rebooted) as served:
        for _ in range(3):
            await served.settle()
            served.clock.move(30.0)
        assert rebooted.started == []
        assert await served.rows(ROWS) == [("one", "begun", None)]
        ended = await served.rows("select key, status, reason_code, attempt from sessions")
        assert ended == [(key, "aborted", "run.aborted.process_gone", 1)]
        verdicts = await served.rows("select count(*) from events where type = 'AttemptEnded'")
        assert verdicts == [(1,)]


async def test_a_launcher_that_goes_before_its_launch_is_recorded_is_asked_for_again(tmp_path: Path) -> None:
    processes = Announcing(tmp_path)
    async with running(tmp_path, processes) as served:
        starts = served.supervisor.assembly.starts
        async with anyio.create_task_group() as tasks:
            ask(tmp_path, "one", target="all")
            served.supervisor.assembly.worker.inbox_waits = True
            while await served.supervisor.assembly.worker.turn():
                pass
            tasks.start_soon(starts.run)
            while not processes.channels:
                await anyio.sleep(0.001)
            processes.refuse["one"] = Begun()  # what the next one finds
            processes.channels[0].over.set()
            while len(processes.started) < 2:
                await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()
        assert processes.channels[0].acknowledged == []
        await served.work()
        assert await served.rows(ROWS) == [("one", "begun", None)]
