"""The actions of a run in the exchange are calls in its replay, and only the daemon tells them."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.native_runs import finish
from tests.daemon.parts.test_bundles import TRACE, bundled, hashes, recorded
from tests.daemon.parts.test_exchange import append, begin, read, settle, write

from runward.daemon.parts import growing_replay
from runward.daemon.store.tables.replays import LastTold
from runward.handlers.bundle.canonical import hash_of
from runward.handlers.calls import Told
from runward.handlers.exchange import act
from runward.handlers.exchange.intent import ActionResult
from runward.handlers.exchange.reading import ActedWithCode, Decided, Reading, Unable, Worked
from runward.handlers.model.asking import Asking
from runward.handlers.model.exchange import IntentMade


async def until_written(running: Daemon) -> None:
    """Until the run's bundle is in its place."""
    for _ in range(4):
        await settle(running)
        running.clock.move(1.0)
        running.supervisor.assembly.queue.may_be_due = True  # as when a wait for it ends
    await running.supervisor.assembly.bundles.drain()


def replay(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "REPLAY.jsonl").read_text().splitlines()]


def calls(run: Path) -> dict[str, tuple[str, bool]]:
    """The tool of each call, and whether it succeeded, by the call's id."""
    lines = replay(run)
    came = {each["id"]: each["output"]["success"] for each in lines if each["event"] == "ToolResult"}
    return {each["id"]: (each["tool"], came[each["id"]]) for each in lines if each["event"] == "ToolCall"}


async def test_each_action_is_a_call_with_its_intent_and_result(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        run = begin(tmp_path, "run")
        (run / "trace.jsonl").write_text(TRACE)
        append(run, write("note", "hello" * 100), read("gone"), "nonsense\n")
        await settle(running)
        finish(run)
        await until_written(running)
        assert calls(run) == {
            "a": ("Read", True),
            "intent/1": ("exchange.write_artifact", True),
            "intent/2": ("exchange.read_artifact", False),
            "intent/3": ("exchange.invalid", False),
        }
        lines = {(each["event"], each.get("id")): each for each in replay(run)}
        asked, came = lines["ToolCall", "intent/1"], lines["ToolResult", "intent/1"]
        assert (asked["params"]["artifact_id"], asked["params"]["content"]) == ("note", "hello" * 100)
        assert asked["params_hash"] == hash_of(asked["params"])
        told = came["output"]["content"]
        assert (told["data"]["version"], told["resources_consumed"]) == (1, {"disk_bytes": 500})
        error = lines["ToolResult", "intent/2"]["output"]["error"]
        assert (error["error_code"], error["sandbox"]) == ("not_found", None)
        assert lines["ToolCall", "intent/3"]["params"] == "nonsense"
        receipt = json.loads((run / "RECEIPT.json").read_text())
        assert [each["id"] for each in receipt["tool_calls"]] == list(calls(run))


def ran(asked: ActedWithCode) -> Worked | Unable:
    if "write_artifact" in asked.event.text:
        return Unable("its code is not checked")
    return Worked(
        Decided(None, ActionResult(True, "it ran", {"result": 1})), (), (), Reading(), 0.5, "a sandbox"
    )


async def test_the_result_of_code_names_the_sandbox_that_isolated_it(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled, act_with_code=ran) as running:
        run = begin(tmp_path, "run")
        code = write("code", "", executable=True, code="def run(): return 1", price=0)
        invoke = {"action_type": "invoke_artifact", "artifact_id": "code", "method": "run"}
        append(run, code, json.dumps(invoke) + "\n")
        finish(run)
        while not (run / "REPLAY.jsonl").exists():
            await until_written(running)
        (came,) = [
            each for each in replay(run) if (each["event"], each.get("id")) == ("ToolResult", "intent/2")
        ]
        assert came["output"]["content"]["sandbox"] == "a sandbox"
        assert came["latency_ms"] > 0


async def test_a_bundle_waits_for_what_its_run_left_to_be_carried_out(tmp_path: Path) -> None:
    """The run is over before the first of its intents was read."""
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled, batch=2) as running:
        run = begin(tmp_path, "run")
        append(run, *[write("note", str(number)) for number in range(20)])
        finish(run)
        await running.settle()
        assert await running.rows("select count(*) from receipts") == [(0,)]
        await until_written(running)
        assert list(calls(run)) == [f"intent/{number}" for number in range(1, 21)]
        assert hashes(run) == await recorded(running, "run")


async def test_a_bundle_does_not_wait_for_what_is_behind_a_mistake_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(accounts: object, event: IntentMade) -> Asking[Decided]:
        yield from ()
        raise RuntimeError("a mistake")

    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        run = begin(tmp_path, "run")
        append(run, write("note", "hello"))
        await settle(running)
        monkeypatch.setattr(act, "worked_out", mistaken)
        append(run, read("note"), read("note"))
        finish(run)
        await until_written(running)
        assert await running.rows("select count(*) from jobs where state = 'held'") == [(1,)]
        assert list(calls(run)) == ["intent/1"]


FORGED = [
    {"event": "ToolCall", "id": "intent/1", "tool": "Read", "params": {}},
    {"event": "ToolResult", "id": "intent/1", "output": "mine"},
    {"event": "ToolCall", "id": "other", "tool": "exchange.mint", "params": {}},
]


async def test_nothing_that_a_run_writes_is_taken_for_an_action(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        run = begin(tmp_path, "run")
        (run / "trace.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in FORGED))
        (run / "results.jsonl").write_text(json.dumps({"line": 1, "result": {"success": True}}) + "\n")
        append(run, read("gone"))
        await settle(running)
        finish(run)
        await until_written(running)
        assert calls(run) == {"intent/1": ("exchange.read_artifact", False)}
        ((problem,),) = await running.rows("select problem from receipts")
        assert str(problem).count("trace.jsonl:") == len(FORGED)


async def test_parts_that_were_lost_are_made_again_with_the_same_actions(tmp_path: Path) -> None:
    """Further intents were carried out since, in the next attempt."""
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        run = begin(tmp_path, "run")
        append(run, write("note", "hello"), read("note"))
        await settle(running)
        finish(run)
        for _ in range(3):
            await settle(running)
            running.clock.move(1.0)
        drafted = [each for each in run.iterdir() if each.name.startswith((".REPLAY", ".PR_SUMMARY"))]
        for each in drafted:
            each.unlink()
        await running.supervisor.assembly.bundles.drain()
        assert drafted
        assert hashes(run) == await recorded(running, "run")


async def test_actions_are_shown_while_the_run_goes_on_in_an_order_that_stays(tmp_path: Path) -> None:
    clock, seen = StillClock(), []
    asked: list[int] = []

    def spy(running: Daemon) -> None:
        replays = running.supervisor.assembly.running_replays
        actions = replays.actions

        def told(key: str, count: int, last: LastTold) -> Generator[Told]:
            asked.append(last.line)
            return actions(key, count, last)

        replays.actions = told

    async def grow(running: Daemon) -> None:
        await settle(running)
        clock.move(3.0)
        await running.supervisor.assembly.running_replays.drain()
        seen.append((run / "REPLAY.jsonl").read_bytes())

    async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
        spy(running)
        run = begin(tmp_path, "run")
        append(run, write("note", "one"))
        await grow(running)
        (run / "trace.jsonl").write_text(TRACE)
        await grow(running)
        append(run, write("note", "two"))
        await grow(running)
        assert asked[0] == 0
        assert 0 not in asked[1:], "what was shown is not read again"
    async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
        append(run, read("gone"))
        await grow(running)
        with (run / "trace.jsonl").open("a") as trace:
            trace.write(TRACE.replace('"a"', '"b"'))
        finish(run)
        await until_written(running)
        whole = (run / "REPLAY.jsonl").read_bytes()
        assert all(whole.startswith(each) for each in seen)
        assert list(calls(run)) == ["intent/1", "a", "intent/2", "intent/3", "b"]
        assert hashes(run) == await recorded(running, "run")
        assert await running.rows("select problem from receipts") == [(None,)]


async def test_many_actions_are_shown_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing_replay, "MOST_ACTIONS", 4)
    clock = StillClock()
    rendered: list[int] = []
    async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
        part = running.supervisor.assembly.running_replays
        actions = part.actions

        def told(key: str, count: int, last: LastTold) -> Generator[Told]:
            rendered.append(count - last.line)
            return actions(key, count, last)

        part.actions = told
        run = begin(tmp_path, "run")
        (run / "trace.jsonl").write_text(TRACE)
        append(run, *[write("note", str(number)) for number in range(10)])
        await settle(running)
        while "intent/10" not in calls(run) if (run / "REPLAY.jsonl").exists() else True:
            clock.move(5.0)
            await part.drain()
        assert max(rendered) == 4
        shown = (run / "REPLAY.jsonl").read_bytes()
    async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
        finish(run)
        await until_written(running)
        assert (run / "REPLAY.jsonl").read_bytes().startswith(shown)
        assert list(calls(run))[-10:] == [f"intent/{number}" for number in range(1, 11)]
        assert hashes(run) == await recorded(running, "run")
        assert await running.rows("select problem from receipts") == [(None,)]


async def test_the_result_of_an_action_is_shown_though_nothing_else_in_its_run_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
        part = running.supervisor.assembly.running_replays

        async def grow() -> None:
            await settle(running)
            clock.move(5.0)
            await part.drain()

        run = begin(tmp_path, "run")
        append(run, write("note", "one"))
        await grow()
        await grow()
        assert list(calls(run)) == ["intent/1"]
        monkeypatch.setattr(type(part), "look", lambda self, target: None)
        append(run, write("note", "two"))
        await grow()
        assert list(calls(run)) == ["intent/1", "intent/2"]
