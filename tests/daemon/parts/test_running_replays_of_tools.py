"""The replays of other tools' sessions grow as their files do, and stay the beginning of the whole."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.handlers.layouts import adjutant_lines, codex_lines, ctcp_lines, lionagi_lines

from runward.config.bundle import BundleRules
from runward.config.json_value import JsonValue
from runward.config.root import Root
from runward.daemon.rundir.bundle_verifying import verify_bundle
from runward.handlers.journal.place import journal_directory


class Tool(NamedTuple):
    """How a tool writes a session with two calls: after the first call, after both, and when it is over.

    Each writes the session's files as they are then, into the root. `at` is the time of its first line.
    """

    layout: str
    at: float
    write: Callable[[Path, int], None]
    calls: tuple[str, str]


FIRST, BOTH, OVER = range(3)


def _lines(path: Path, lines: Sequence[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def codex(root: Path, stage: int) -> None:
    log = codex_lines.Log().meta().start(1).prompt("fix it", 1).call()
    if stage > FIRST:
        log.output().call().output()
    if stage == OVER:
        log.say().complete(1)
    _lines(root / "2026/11/21" / codex_lines.NAME, [codex_lines.write(each) for each in log.records])


def ctcp(root: Path, stage: int) -> None:
    lines = [*ctcp_lines.beginning(), ctcp_lines.event("patch_apply", "2026-03-01T10:01:01", rc=0)]
    if stage == FIRST:
        lines = lines[:-1]
    if stage == OVER:
        lines += ctcp_lines.verification(1, True)[-1:]
    _lines(root / "run-7/events.jsonl", lines)
    status = "pass" if stage == OVER else "running"
    (root / "run-7/RUN.json").write_text(json.dumps(ctcp_lines.run_json(status)))
    (root / "run-7/artifacts").mkdir(exist_ok=True)


def adjutant(root: Path, stage: int) -> None:
    lines = [*adjutant_lines.start("c"), *adjutant_lines.call("c", "tc_1")]
    if stage > FIRST:
        lines += adjutant_lines.call("c", "tc_2", 1)
    if stage == OVER:
        lines.append(adjutant_lines.end("c", "Success"))
    _lines(root / "sess_7/REPLAY.jsonl", lines)


LIONAGI_AT = 1_790_000_000.0


def lionagi(root: Path, stage: int) -> None:
    def said(kind: str, name: str, after: float, content: JsonValue) -> JsonValue:
        message = lionagi_lines.message(kind, LIONAGI_AT + after, content)
        assert isinstance(message, dict)
        return message | {"id": name}

    messages = [said("ActionRequest", "m1", 1, {"function": "search", "arguments": {"q": "x"}})]
    if stage > FIRST:
        messages += [
            said("ActionResponse", "m2", 2, {"action_request_id": "m1", "output": [1]}),
            said("ActionRequest", "m3", 3, {"function": "read", "arguments": {}}),
        ]
    over: dict[str, JsonValue] = {"ended_at": LIONAGI_AT + 9} if stage == OVER else {}
    run = lionagi_lines.run_json("completed" if over else "running", started_at=LIONAGI_AT, **over)
    directory = root / lionagi_lines.RUN_ID
    (directory / "branches").mkdir(parents=True, exist_ok=True)
    branch = lionagi_lines.branch(lionagi_lines.OWN, messages)
    (directory / f"branches/{lionagi_lines.OWN}.json").write_text(json.dumps(branch))
    (directory / "run.json").write_text(json.dumps(run))


TOOLS = (
    Tool("codex", codex_lines.BEGAN, codex, ("call_1", "call_2")),
    Tool("ctcp", 1_772_359_200.0, ctcp, ("find_local_run@2", "patch_apply@5")),
    Tool("adjutant", 1_768_298_400.0, adjutant, ("tc_1", "tc_2")),
    Tool("lionagi", LIONAGI_AT, lionagi, ("m1", "m3")),
)


async def write(running: Daemon, root: Path, tool: Tool, stage: int) -> None:
    """The tool goes on, and the daemon looks at its session."""
    running.clock.move(6.0)
    tool.write(root, stage)
    for path in root.rglob("*"):
        os.utime(path, (running.clock.wall, running.clock.wall))
    await look(running)


async def look(running: Daemon, seconds: float = 0.0) -> None:
    """Time goes by, and the daemon looks at what is due."""
    running.clock.move(seconds)
    running.supervisor.assembly.queue.may_be_due = True
    await running.settle()
    running.clock.move(3.0)
    await running.supervisor.assembly.running_replays.drain()


def events(replay: bytes) -> list[tuple[str, str | None]]:
    return [(each["event"], each.get("id")) for each in map(json.loads, replay.splitlines())]


@pytest.mark.parametrize("tool", TOOLS, ids=[each.layout for each in TOOLS])
async def test_a_tool_s_calls_are_shown_while_it_works_and_the_bundle_begins_with_them(
    tmp_path: Path, tool: Tool
) -> None:
    place, (first, second) = tmp_path / "sessions", tool.calls
    place.mkdir()
    clock = StillClock(wall=tool.at + 5)
    roots = (Root("tool", str(place), tool.layout),)
    async with daemon(
        tmp_path, clock, ToldProcesses(), roots=roots, bundled=lambda session: BundleRules()
    ) as running:
        await write(running, place, tool, FIRST)
        ((key, path),) = await running.rows("select key, path from sessions where status = 'running'")
        directory = running.state / journal_directory(tool.layout, str(key), str(path))
        at_first = (directory / "REPLAY.jsonl").read_bytes()
        assert events(at_first)[0] == ("SessionStart", None)
        assert ("ToolCall", first) in events(at_first)
        assert ("ToolCall", second) not in events(at_first)
        await write(running, place, tool, BOTH)
        then = (directory / "REPLAY.jsonl").read_bytes()
        assert then.startswith(at_first)
        assert ("ToolCall", second) in events(then)
        await write(running, place, tool, OVER)
        for _ in range(3):
            await look(running, 6.0)
        await running.supervisor.assembly.bundles.drain()
        ((problem, place_problem),) = await running.rows("select problem, place_problem from receipts")
        assert "had been" not in str(problem), "nobody says that the files changed"
        assert place_problem is None
        whole = (directory / "REPLAY.jsonl").read_bytes()
        assert whole.startswith(then)
        assert events(whole)[-1] == ("SessionEnd", None)
        calls = [name for event, name in events(whole) if event == "ToolCall"]
        assert calls == list(dict.fromkeys(calls)), "none is doubled"
        assert {first, second} <= set(calls)
    verified = verify_bundle(str(directory), 1, frozenset)
    assert verified is not None
    assert verified.problems == ()
