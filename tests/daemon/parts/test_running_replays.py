"""Replays that grow while their sessions run: what was shown stays the beginning of the whole."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.native_runs import begin, finish
from tests.daemon.watch.test_following import KEY, Home

from runward.config.bundle import BundleRules
from runward.daemon import faults
from runward.daemon.parts.running_replays import QUIET_PERIOD
from runward.daemon.rundir.bundle_verifying import verify_bundle
from runward.daemon.store.store import Store
from runward.daemon.store.tables import replays
from runward.daemon.world.files import Files
from runward.handlers.journal.place import journal_directory
from runward.handlers.model.bundle import BundleRulesOf


def bundled(session: BundleRulesOf) -> BundleRules:
    return BundleRules()


def call(name: str, second: int, **more: object) -> str:
    said = {"event": "ToolCall", "id": name, "tool": "Read", "params": {"path": name}, **more}
    return json.dumps(said | {"t": f"2026-02-03T04:05:{second:02}Z"}) + "\n"


def result(name: str, second: int) -> str:
    said = {"event": "ToolResult", "id": name, "output": {"content": f"of {name}"}}
    return json.dumps(said | {"t": f"2026-02-03T04:05:{second:02}Z"}) + "\n"


def add(run: Path, *lines: str) -> None:
    with (run / "trace.jsonl").open("a") as trace:
        trace.write("".join(lines))


async def grow(running: Daemon, seconds: float = 3.0) -> None:
    """Let the time pass that it may take until a call is shown."""
    running.clock.move(seconds)
    await running.supervisor.assembly.running_replays.drain()


async def settle(running: Daemon) -> None:
    await running.settle()
    await running.supervisor.assembly.bundles.drain()


def shown(run: Path) -> bytes:
    path = run / "REPLAY.jsonl"
    return path.read_bytes() if path.exists() else b""


def told(replay: bytes) -> list[tuple[str, object]]:
    return [(each["event"], each.get("id")) for each in map(json.loads, replay.splitlines())]


async def test_calls_are_shown_while_the_run_goes_on_and_the_bundle_begins_with_them(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        run = begin(tmp_path, "run")
        await settle(running)
        await grow(running)
        assert not (run / "REPLAY.jsonl").exists(), "it called nothing yet"
        add(run, call("a", 7))
        await grow(running)
        assert told(shown(run)) == [("SessionStart", None), ("ToolCall", "a")]
        add(run, result("a", 8), call("b", 9), call("c", 10)[:20])
        await grow(running)
        assert told(shown(run))[2:] == [("ToolResult", "a"), ("ToolCall", "b")]
        before = shown(run)
        ((length, digest),) = await running.rows("select length, sha256 from replays")
        assert (length, digest) == (len(before), hashlib.sha256(before).hexdigest())
        add(run, call("c", 10)[20:])
        finish(run)
        await settle(running)
        assert shown(run).startswith(before)
        assert told(shown(run))[-2:] == [("ToolCall", "c"), ("SessionEnd", None)]
        assert not (run / "REPLAY.jsonl.before").exists()
        assert await running.rows("select problem, place_problem from receipts") == [(None, None)]
        assert await running.rows("select count(*) from replays") == [(0,)]


LINES = (call("a", 7), result("a", 8), call("b", 9), result("b", 10))


_UNDISTURBED: list[bytes] = []


async def undisturbed(base: Path) -> bytes:
    """The whole replay of a run that nothing disturbed."""
    if _UNDISTURBED:
        return _UNDISTURBED[0]
    base.mkdir()
    async with daemon(base, StillClock(), ToldProcesses(), bundled=bundled) as running:
        run = begin(base, "run")
        await settle(running)
        await grow(running)
        for line in LINES:
            add(run, line)
            await grow(running)
        finish(run)
        await settle(running)
    _UNDISTURBED.append(timeless(shown(run)))
    return _UNDISTURBED[0]


def timeless(replay: bytes) -> bytes:
    """Without the hashes of the record's own events, which differ from store to store."""
    lines = [json.loads(line) for line in replay.splitlines()]
    return b"".join(json.dumps(line | {"hash": None}).encode() + b"\n" for line in lines)


DISTURBED: dict[str, Callable[[Path], object]] = {
    "nothing": lambda run: None,
    "lines that a crash lost": lambda run: os.truncate(run / "REPLAY.jsonl", 30),
    "the whole file was lost": lambda run: (run / "REPLAY.jsonl").unlink(),
    "the file is empty": lambda run: os.truncate(run / "REPLAY.jsonl", 0),
}
FOREIGN: dict[str, Callable[[Path], object]] = {
    "the run changed a line": lambda run: (run / "REPLAY.jsonl").write_bytes(
        shown(run).replace(b"of a", b"of z")
    ),
    "the run appended a line": lambda run: (run / "REPLAY.jsonl").write_bytes(shown(run) + b"{}\n"),
    "the run shortened and changed it": lambda run: (run / "REPLAY.jsonl").write_text("mine\n"),
}


async def test_a_wait_for_verdicts_does_not_count_as_work_and_calls_are_shown_in_time(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        run = begin(tmp_path, "run")
        await settle(running)
        waits = iter((True,))

        def busy() -> bool:
            running.clock.move(0.5)
            return next(waits, False)

        running.supervisor.assembly.running_replays.busy = busy
        add(run, call("a", 7))
        await grow(running)
        assert told(shown(run)) == [("SessionStart", None), ("ToolCall", "a")]
        add(run, call("b", 8))
        await grow(running)
        assert told(shown(run))[2:] == [("ToolCall", "b")]


@pytest.mark.parametrize("disturb", [*DISTURBED, *FOREIGN])
async def test_after_a_restart_the_replay_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, disturb: str
) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
        run = begin(tmp_path, "run")
        await settle(running)
        add(run, *LINES[:2])
        await grow(running)
    (DISTURBED | FOREIGN)[disturb](run)
    async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
        await settle(running)
        await grow(running)
        add(run, *LINES[2:])
        await grow(running)
        assert [name for _, name in told(shown(run))] == [None, "a", "a", "b", "b"]
        before = shown(run)
        finish(run)
        await settle(running)
        assert shown(run).startswith(before)
        assert timeless(shown(run)) == await undisturbed(tmp_path / "other")
        assert await running.rows("select problem from receipts") == [(None,)]
    assert (run / "REPLAY.jsonl.before").exists() == (disturb in FOREIGN)


class Killed(BaseException):
    """The daemon ends here, as by `kill -9`."""


POINTS = (
    ("commit.grow.begin", 2),
    ("commit.grow.before", 1),
    ("commit.grow.after", 2),
    ("replay.write.before", 1),
    ("replay.write.after", 2),
    ("bundle.replay.after", 1),
    ("bundle.rename.before", 1),
    ("bundle.rename.after", 1),
    ("commit.place.after", 1),
)
"""Where the daemon ends, and the time that it comes there, counted from 1."""


@pytest.mark.parametrize(("point", "time"), POINTS)
async def test_a_kill_at_any_point_of_growing_leaves_what_an_undisturbed_daemon_leaves(
    tmp_path: Path, point: str, time: int
) -> None:
    passed = 0

    def strike(name: str) -> None:
        nonlocal passed
        passed += name == point
        if passed == time and name == point:
            raise Killed

    clock = StillClock()
    run = begin(tmp_path, "run")
    add(run, *LINES[:2])
    faults.install(strike)
    seen: list[bytes] = []
    killed = False
    lines = [LINES[2], LINES[3]]
    for _ in range(2):
        try:
            async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
                await settle(running)
                await grow(running)
                seen.append(shown(run))
                while lines:
                    add(run, lines.pop(0))
                    await grow(running)
                    seen.append(shown(run))
                if not (run / "exit.json").exists():
                    finish(run)
                await settle(running)
        except (Killed, BaseExceptionGroup):
            killed = True
    faults.install(lambda name: None)
    assert killed
    assert all(shown(run).startswith(each) for each in seen), "what was shown stays"
    assert timeless(shown(run)) == await undisturbed(tmp_path / "other")
    assert sorted(each.name for each in run.iterdir() if each.name.startswith((".", "REPLAY"))) == [
        "REPLAY.jsonl"
    ]


async def test_a_frozen_daemon_that_wakes_up_later_writes_nothing_twice(tmp_path: Path) -> None:
    clock = StillClock()
    run = begin(tmp_path, "run")
    add(run, *LINES[:2])
    frozen: list[tuple[str, str, int, bytes]] = []
    async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
        await settle(running)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Files, "write_lines", lambda self, *call: frozen.append(call))
            await grow(running)
    files = Files(tmp_path / "state")
    async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
        await settle(running)
        await grow(running)
        for line in LINES[2:]:
            before = shown(run)
            assert files.write_lines(*frozen[0]) is None
            assert shown(run) == before
            add(run, line)
            await grow(running)
        finish(run)
        await settle(running)
        whole = shown(run)
        assert files.write_lines(*frozen[0]) is None
        assert shown(run) == whole
    assert timeless(whole) == await undisturbed(tmp_path / "other")


async def test_each_attempt_shows_the_calls_of_its_own_time(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.bundled = bundled
    home.transcript.prompt("fix it")
    first_call = home.transcript.call(command="ls")
    home.write()
    async with home.open() as running:
        await running.settle()
        await grow(running)
        ((place,),) = await running.rows("select path from sessions")
        own = running.state / journal_directory("claude-code", KEY, str(place))
        first = shown(own)
        assert [each for each, _ in told(first)] == ["SessionStart", "ToolCall"]
        home.transcript.result(first_call)
        home.write()
        await grow(running)
        assert shown(own) == first, "only what was looked at is shown"
        home.transcript.text("fixed")
        home.write()
        await home.rest(running)
        await running.supervisor.assembly.bundles.drain()
        assert shown(own).startswith(first)
        assert [each for each, _ in told(shown(own))][2:] == ["ToolResult", "SessionEnd"]
        home.transcript.now = home.clock.wall
        home.transcript.prompt("go on")
        home.transcript.call(command="pwd")
        home.write()
        await running.settle()
        await grow(running)
        again = (own / "REPLAY.2.jsonl").read_bytes()
        assert [each for each, _ in told(again)] == ["SessionStart", "ToolCall"]


async def test_a_file_of_the_run_under_the_replays_name_is_kept_aside(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        run = begin(tmp_path, "run")
        (tmp_path / "secret").write_text("do not touch\n")
        (run / "REPLAY.jsonl").symlink_to(tmp_path / "secret")
        add(run, LINES[0])
        await settle(running)
        await grow(running)
        assert told(shown(run)) == [("SessionStart", None), ("ToolCall", "a")]
        assert not (run / "REPLAY.jsonl").is_symlink()
        assert (run / "REPLAY.jsonl.before").is_symlink()
    assert (tmp_path / "secret").read_text() == "do not touch\n"


CHANGES: dict[str, Callable[[Path], object]] = {
    "replaced": lambda run: (
        (run / "new").write_text(LINES[2] + LINES[3]),
        (run / "new").rename(run / "trace.jsonl"),
    ),
    "rewritten": lambda run: (run / "trace.jsonl").write_text(
        (LINES[0] + LINES[1]).replace("of a", "of z") + LINES[2] + LINES[3]
    ),
    "removed": lambda run: (run / "trace.jsonl").unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_noticed", [True, False])
async def test_what_was_shown_stays_if_the_run_changes_its_trace_and_a_problem_says_so(
    tmp_path: Path, change: str, is_noticed: bool
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        run = begin(tmp_path, "run")
        await settle(running)
        add(run, *LINES[:2])
        await grow(running)
        before = shown(run)
        CHANGES[change](run)
        if is_noticed:
            await grow(running)
            assert shown(run) == before
            assert await running.rows("select problem is not null from replays") == [(1,)]
        finish(run)
        await settle(running)
        assert shown(run).startswith(before)
        calls = [each for each in told(shown(run)) if each[0].startswith("Tool")]
        after = [] if change == "removed" else [("ToolCall", "b"), ("ToolResult", "b")]
        assert calls == [("ToolCall", "a"), ("ToolResult", "a"), *after], "no call is lost or doubled"
        ((problem,),) = await running.rows("select problem from receipts")
        assert "changed after its replay had been shown" in str(problem)
        assert not (run / "REPLAY.jsonl.before").exists()
        verified = verify_bundle(str(run), 1, frozenset)
        assert verified is not None
        assert verified.problems == ()


async def test_what_was_shown_stays_if_a_crash_came_before_the_next_lines_and_then_the_trace_changed(
    tmp_path: Path,
) -> None:
    clock, run = StillClock(), begin(tmp_path, "run")
    seen: list[bytes] = []

    def strike(name: str) -> None:
        if name == "replay.write.before":
            raise Killed

    async def work() -> None:
        async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
            await settle(running)
            add(run, *LINES[:2])
            await grow(running)
            seen.append(shown(run))
            add(run, LINES[2])
            faults.install(strike)
            await grow(running)

    with pytest.raises((Killed, BaseExceptionGroup)):
        await work()
    (before,) = seen
    faults.install(lambda name: None)
    assert shown(run) == before
    (run / "trace.jsonl").write_text("".join(LINES).replace("of a", "of z"))
    finish(run)
    async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
        await settle(running)
        assert shown(run).startswith(before)
        assert [name for _, name in told(shown(run))] == [None, "a", "a", "b", "b", None]
        ((problem,),) = await running.rows("select problem from receipts")
        assert "what was shown stays, but its last lines, if they were shown, were lost" in str(problem)
    assert not (run / "REPLAY.jsonl.before").exists()


async def test_a_bundle_waits_while_what_is_shown_of_its_replay_may_be_in_writing(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        run = begin(tmp_path, "run")
        await settle(running)
        add(run, *LINES[:2])
        await grow(running)
        before = shown(run)
        CHANGES["rewritten"](run)
        finish(run)
        async with running.supervisor.assembly.bundles.placing:
            await running.settle()
            assert await running.rows("select count(*) from receipts") == [(0,)]
        running.clock.move(60)
        await settle(running)
        assert shown(run).startswith(before)
        assert (run / "RECEIPT.json").exists()


async def test_a_replay_that_was_begun_gets_its_end_though_its_root_has_no_bundles_any_more(
    tmp_path: Path,
) -> None:
    rules: list[BundleRules | None] = [BundleRules()]
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=lambda session: rules[-1]) as running:
        run = begin(tmp_path, "run")
        await settle(running)
        add(run, LINES[0])
        await grow(running)
        before = shown(run)
        rules.append(None)
        later = begin(tmp_path, "later")
        add(run, LINES[1])
        await settle(running)
        await grow(running)
        assert told(shown(run))[-1] == ("ToolResult", "a")
        finish(run)
        finish(later)
        await settle(running)
        assert shown(run).startswith(before)
        assert told(shown(run))[-1] == ("SessionEnd", None)
        verified = verify_bundle(str(run), 1, frozenset)
        assert verified is not None
        assert verified.problems == ()
    assert not [each.name for each in later.iterdir() if each.name.startswith(("REPLAY", "RECEIPT", "PR_"))]


async def test_a_run_that_calls_nothing_new_costs_the_store_nothing_until_one_of_its_files_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    real = replays.running_replays

    async def counted(store: Store, places: Iterable[str]) -> list[replays.RunningReplay]:
        asked.append(list(places))
        return await real(store, asked[-1])

    monkeypatch.setattr(replays, "running_replays", counted)

    async def shown_events(run: Path, rounds: int = 3) -> list[tuple[str, object]]:
        for _ in range(rounds):
            trace = run / "trace.jsonl"
            if trace.exists() and trace.stat().st_mtime != 1:
                os.utime(trace, (1, 1))  # it did not change just now
            await grow(running, QUIET_PERIOD)
        return told(shown(run))

    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        run = begin(tmp_path, "run")
        await settle(running)
        assert await shown_events(run) == []
        asked.clear()
        await shown_events(run)
        assert asked == []
        add(run, call("a", 7))  # a new file
        await grow(running, QUIET_PERIOD)
        assert told(shown(run))[-1:] == [("ToolCall", "a")]
        await shown_events(run)
        asked.clear()
        await shown_events(run)
        assert asked == []
        add(run, call("b", 8))  # a file that grows: nothing reports that
        assert (await shown_events(run, 1))[-1:] == [("ToolCall", "b")]


async def test_what_is_reported_while_a_run_is_read_has_it_read_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    real = replays.running_replays

    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        part = running.supervisor.assembly.running_replays

        async def reported_once(*asked: Any) -> object:
            nonlocal reads
            reads += 1
            if reads == 1:
                part.look(("runs", "run"))
            return await real(*asked)

        monkeypatch.setattr(replays, "running_replays", reported_once)
        begin(tmp_path, "run")
        await settle(running)
        for _ in range(3):
            await grow(running, QUIET_PERIOD)
        assert reads == 2
