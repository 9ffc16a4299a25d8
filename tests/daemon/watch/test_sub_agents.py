"""Sub-agents that are sessions of their own: judged for themselves, linked with what they are part of."""

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.handlers.layouts.codex_lines import PARENT, THREAD, Log

from runward.config.contract import ExpectedArtifact
from runward.config.root import Root
from runward.handlers.model.contracts import Declarations, Ruled
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.sessions.over import Writer

ORIGIN, WORKER = f"codex:{PARENT}", f"codex:{THREAD}"
PROCESS = RecordedProcess(4711, 100, "boot")
SPAWNED = {"source": {"subagent": {"thread_spawn": {"parent_thread_id": PARENT}}}}


class Home:
    """Codex's home and the runs of a launcher, in whose run `night` Codex may work."""

    def __init__(self, base: Path) -> None:
        self.base, self.root = base, base / "sessions"
        self.root.mkdir()
        self.clock, self.processes = StillClock(), ToldProcesses()
        self.processes.writing |= {
            PARENT: Writer("alive", None, PROCESS),
            THREAD: Writer("alive", None, PROCESS),
        }

    def open(self) -> AbstractAsyncContextManager[Daemon]:
        return daemon(
            self.base,
            self.clock,
            self.processes,
            declared=lambda playbook, agent: Declarations((ExpectedArtifact("review", "review.md"),), None),
            ruled=lambda question: Ruled("feature", None, "runward.toml:9:1"),
            roots=(Root("codex", str(self.root), "codex", "live"),),
        )

    def write(self, *logs: Log) -> None:
        for log in logs:
            content = b"".join(line.content + b"\n" for line in log.lines())
            (self.root / f"rollout-2026-11-21T08-37-55-{log.thread}.jsonl").write_bytes(content)

    async def rest(self, running: Daemon) -> None:
        for _ in range(4):
            await running.supervisor.assembly.rounds.scan()
            await running.settle()
            self.clock.move(6)
            running.supervisor.assembly.queue.may_be_due = True  # as when a wait for it ends


async def told(running: Daemon) -> dict[str, str]:
    rows = await running.rows("select key, reason_code from sessions order by key")
    return {str(key): str(reason) for key, reason in rows}


async def test_neither_a_sub_agent_nor_its_origin_says_how_the_other_ended(tmp_path: Path) -> None:
    home = Home(tmp_path)
    origin = Log(PARENT).meta().start(1).prompt("share it", 1).call("spawn_agent").output("{}")
    worker = Log().meta(**SPAWNED).start(1).prompt("do it", 1)
    home.write(origin, worker)
    async with home.open() as running:
        await home.rest(running)
        assert await told(running) == {ORIGIN: "run.started.ok", WORKER: "run.started.ok"}
        assert await running.rows("select linked, launcher from links") == [(WORKER, ORIGIN)]
        home.write(worker.complete(1, None, error={"message": "refused"}))
        await home.rest(running)
        assert await told(running) == {ORIGIN: "run.started.ok", WORKER: "run.failed.api_error"}
        home.write(worker.start(2).prompt("try again", 2), origin.say().complete(1))
        await home.rest(running)
        assert await told(running) == {ORIGIN: "run.failed.missing_artifact", WORKER: "run.started.resumed"}
        home.processes.writing.clear()
        home.processes.gone.add(PROCESS.pid)
        await home.rest(running)
        assert await told(running) == {
            ORIGIN: "run.failed.missing_artifact",
            WORKER: "run.aborted.process_gone",
        }
        held = await running.rows("select key, playbook, contract_basis from sessions order by key")
    assert held == [(ORIGIN, "feature", "first_look"), (WORKER, None, None)], "the origin has the contract"


@pytest.mark.parametrize("ended", ["well", "badly"])
async def test_a_launched_run_is_judged_by_the_agent_in_it_and_not_by_its_sub_agents(
    tmp_path: Path, ended: str
) -> None:
    home = Home(tmp_path)
    home.processes.launchers[PROCESS.pid] = "night"
    run = tmp_path / "runs" / "night"
    worker = Log().meta(**SPAWNED).start(1).prompt("do it", 1)
    error = None if ended == "well" else {"message": "refused"}
    origin = Log(PARENT).meta().start(1).prompt("share it", 1)
    home.write(origin, worker)
    async with home.open() as running:
        run.mkdir(parents=True)
        (run / "run.json").write_text(json.dumps({"schema": "runward-run-v1", "session_id": "night"}))
        await home.rest(running)
        home.write(worker.complete(1, None, error={"message": "lost"}), origin.say().complete(1, error=error))
        (run / "exit.json").write_text(json.dumps({"exit_code": 0, "cause": "exited"}))
        home.processes.writing.clear()
        home.processes.gone.add(PROCESS.pid)
        await home.rest(running)
        links = await running.rows("select linked, launcher from links order by linked")
        assert links == [(ORIGIN, "native:runs/night"), (WORKER, ORIGIN)]
        reason = "run.completed.ok" if ended == "well" else "run.failed.api_error"
        assert await told(running) == {
            ORIGIN: reason,
            WORKER: "run.failed.api_error",
            "native:runs/night": reason,
        }
