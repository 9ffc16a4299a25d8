"""Each attempt's bundle has the calls of its own stretch, whatever the clock said: it was set back between two attempts."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.handlers.layouts import adjutant_lines
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript

from runward.config.bundle import BundleRules
from runward.config.root import Root
from runward.handlers.journal.place import journal_directory

HOUR = 3600.0


def call(name: str, minute: str) -> str:
    """A call in a trace, and its result a second later."""
    said = (
        {"event": "ToolCall", "id": name, "tool": "Read", "params": {}, "t": f"2026-02-03T{minute}:01Z"},
        {"event": "ToolResult", "id": name, "output": {"content": "y"}, "t": f"2026-02-03T{minute}:02Z"},
    )
    return "".join(json.dumps(line) + "\n" for line in said)


def begin(run: Path, minute: str) -> None:
    """A run begins, in the same directory as one before."""
    run.mkdir(exist_ok=True)
    (run / "exit.json").unlink(missing_ok=True)
    (run / "run.json").write_text(
        json.dumps({"schema": "runward-run-v1", "started_at": f"2026-02-03T{minute}:00Z"})
    )


def finish(run: Path, minute: str) -> None:
    (run / ".exit.tmp").write_text(json.dumps({"exit_code": 0, "finished_at": f"2026-02-03T{minute}:59Z"}))
    (run / ".exit.tmp").rename(run / "exit.json")


def appended(trace: Path, lines: str) -> None:
    with trace.open("a") as file:
        file.write(lines)


def replaced(trace: Path, lines: str) -> None:
    trace.with_suffix(".new").write_text(lines)
    trace.with_suffix(".new").rename(trace)


async def bundles(running: Daemon, *, low: bool = False) -> None:
    """Make the bundles that are waiting, unless the disk is low on space."""
    running.supervisor.assembly.bundles.low_disk = lambda: "little is free" if low else None
    running.clock.move(120.0)
    running.supervisor.assembly.queue.may_be_due = True
    await running.settle()
    await running.supervisor.assembly.bundles.drain()


def calls(directory: Path) -> list[list[str]]:
    """The ids of the calls in the replays of the first and the second attempt, as their receipts have them, too."""
    found = []
    for number in ("", ".2"):
        lines = map(json.loads, (directory / f"REPLAY{number}.jsonl").read_text().splitlines())
        found.append([line["id"] for line in lines if line["event"] == "ToolCall"])
        receipt = json.loads((directory / f"RECEIPT{number}.json").read_text())
        assert [each["id"] for each in receipt["tool_calls"]] == found[-1]
    return found


@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "after the second attempt"])
@pytest.mark.parametrize(("write", "first"), [(appended, ["a"]), (replaced, [])])
async def test_each_attempt_of_a_run_has_its_own_calls(
    tmp_path: Path, write: Callable[[Path, str], None], first: list[str], is_late: bool
) -> None:
    run = tmp_path / "runs" / "run"
    async with daemon(
        tmp_path, StillClock(), ToldProcesses(), bundled=lambda session: BundleRules()
    ) as running:
        begin(run, "04:05")
        (run / "trace.jsonl").write_text(call("a", "04:05"))
        finish(run, "04:05")
        await bundles(running, low=is_late)
        begin(run, "03:07")
        write(run / "trace.jsonl", call("b", "03:07"))
        finish(run, "03:07")
        await bundles(running)
        assert await running.rows("select attempt from attempts") == [(1,), (2,)]
        assert calls(run) == [first if is_late else ["a"], ["b"]]


async def test_a_trace_whose_end_a_power_cut_took_still_gives_each_attempt_its_own_calls(
    tmp_path: Path,
) -> None:
    run = tmp_path / "runs" / "run"
    async with daemon(
        tmp_path, StillClock(), ToldProcesses(), bundled=lambda session: BundleRules()
    ) as running:
        begin(run, "04:05")
        (run / "trace.jsonl").write_text(call("a", "04:05"))
        finish(run, "04:05")
        await bundles(running)
        os.truncate(run / "trace.jsonl", call("a", "04:05").index("\n") + 1)
        begin(run, "05:07")
        await running.settle()
        appended(run / "trace.jsonl", call("b", "05:07"))
        finish(run, "05:07")
        await bundles(running)
        assert calls(run) == [["a"], ["b"]]


async def test_a_trace_that_could_not_be_looked_at_when_its_run_ended_was_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "runs" / "run"
    stat = os.stat

    def failing(path: str, **options: Any) -> os.stat_result:  # those of os.stat
        if str(path).endswith("trace.jsonl"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return stat(path, **options)

    async with daemon(
        tmp_path, StillClock(), ToldProcesses(), bundled=lambda session: BundleRules()
    ) as running:
        begin(run, "04:05")
        (run / "trace.jsonl").write_text(call("a", "04:05"))
        finish(run, "04:05")
        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", failing)
            await running.settle()
        await bundles(running)
        begin(run, "05:07")
        appended(run / "trace.jsonl", call("b", "05:07"))
        finish(run, "05:07")
        await bundles(running)
        assert calls(run) == [["a"], ["b"]]


def adjutant(root: Path, goes_on: bool) -> None:
    def stretch(call: str, hour: int) -> list[bytes]:
        at = f"2026-01-13T{hour:02d}:00:0"
        return [
            *adjutant_lines.start("c", f"{at}0Z")[-1:],
            adjutant_lines.record("c", "ToolCall", f"{at}2Z", id=call, tool="shell", params={}),
            adjutant_lines.record("c", "SessionEnd", f"{at}9Z", status="Success"),
        ]

    lines = [*stretch("first", 10), *(stretch("second", 9) if goes_on else [])]
    (root / "sess_7").mkdir(exist_ok=True)
    (root / "sess_7/REPLAY.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


def claude_code(root: Path, goes_on: bool) -> None:
    transcript = Transcript(now=1_789_990_000.0)
    for name in ("first", "second")[: 1 + goes_on]:
        transcript.prompt("fix it")
        transcript.said([{"type": "tool_use", "id": name, "name": "Bash", "input": {}}], "tool_use")
        transcript.result(name)
        transcript.text("fixed")
        transcript.now -= HOUR
    (root / "-home-dev-app").mkdir(exist_ok=True)
    (root / "-home-dev-app" / f"{SESSION}.jsonl").write_bytes(transcript.content())


@pytest.mark.parametrize("is_late", [False, True], ids=["seen one by one", "seen together"])
@pytest.mark.parametrize(("layout", "write"), [("adjutant", adjutant), ("claude-code", claude_code)])
async def test_each_attempt_of_another_tool_s_session_has_its_own_calls(
    tmp_path: Path, layout: str, write: Callable[[Path, bool], None], is_late: bool
) -> None:
    place, clock = tmp_path / "sessions", StillClock()
    place.mkdir()

    async def see(running: Daemon, goes_on: bool) -> None:
        write(place, goes_on)
        for path in place.rglob("*"):
            os.utime(path, (clock.wall, clock.wall))
        for _ in range(3):
            await bundles(running)

    async with daemon(
        tmp_path,
        clock,
        ToldProcesses(),
        roots=(Root("tool", str(place), layout),),
        bundled=lambda session: BundleRules(),
    ) as running:
        if not is_late:
            await see(running, goes_on=False)
            clock.wall -= HOUR
        await see(running, goes_on=True)
        ((key, path),) = await running.rows("select key, path from sessions")
        assert await running.rows("select attempt from attempts") == [(1,), (2,)]
        directory = running.state / journal_directory(layout, str(key), str(path))
        assert calls(directory) == [["first"], ["second"]]
