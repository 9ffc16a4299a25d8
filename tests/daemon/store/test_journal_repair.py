"""After an unclean stop: what a crash took from our journals is written again, and what somebody changed is said."""

import shutil
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from tests.daemon.in_process import SILENT, Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.native_runs import begin, finish
from tests.daemon.store.damaged_journals import (
    EVENTS,
    THEIRS,
    cut,
    lines_of,
    live,
    repair,
    values,
)
from tests.waiting import PATIENCE_S

from runward.config.root import Root
from runward.config.settings import Settings
from runward.daemon.host.assembly import World
from runward.daemon.host.supervisor import Supervisor
from runward.daemon.parts.answering import InForce
from runward.daemon.rundir.journal_reading import Compared, compare
from runward.daemon.rundir.journals import StandingLines
from runward.daemon.rundir.opening import Gone
from runward.daemon.store import journals
from runward.daemon.store.connection import connect
from runward.daemon.store.journals import SETTLE_PERIOD
from runward.daemon.store.store import Store
from runward.daemon.watch.hints import Target
from runward.daemon.watch.notifications import Watching
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world.clock import SystemRandomness
from runward.daemon.world.files import Files
from runward.handlers.model.contracts import Declarations
from runward.handlers.model.files import Unreadable


async def damage(running: Daemon) -> list[str]:
    """The journals that were ever found damaged."""
    rows = await running.rows(
        "select json_extract(payload, '$.directory') from events where type = 'JournalDamaged'"
    )
    return [Path(str(directory)).name for (directory,) in rows]


def told(directory: Path) -> list[dict[str, object]]:
    """The repairs that a run's `events.jsonl` tells of."""
    return [each for each in values(directory) if each.get("event") == "journal_repaired"]


async def test_a_repair_is_told_with_what_was_done_and_the_hash_of_its_event(tmp_path: Path) -> None:
    (directory,) = await live(tmp_path)
    ours = lines_of(directory)
    cut(directory, EVENTS, sum(map(len, ours[:-1])) + 10)
    assert await repair(tmp_path) == [("run-00000", EVENTS, 1, 10, 0, 0)]
    (line,) = told(directory)
    assert list(line)[:5] == ["ts", "role", "event", "path", "hash"]
    assert (line["role"], line["path"]) == ("runward", EVENTS)
    assert (line["lines_written_again"], line["lines_changed"], line["bytes_torn"]) == (1, 0, 10)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        hashes = await running.rows("select hash from events where type = 'JournalDamaged'")
        decided = await running.rows(
            "select subject, summary from decisions where handler = 'journal/repair' and verdict = 'decided'"
        )
    assert hashes == [(line["hash"],)]
    assert decided == [
        (
            "native:runs/run-00000",
            "events.jsonl: 1 of Runward's lines was missing (10 bytes of a torn one are left), written again",
        )
    ]


async def test_after_a_stop_in_order_nothing_is_compared(tmp_path: Path) -> None:
    (directory,) = await live(tmp_path)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await running.work()
        await running.stop()
    left = cut(directory, EVENTS, 0)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        assert running.store.after_clean_stop
        await running.work()
        assert await running.rows("select * from uncompared") == []
        await running.stop()
    assert (directory / EVENTS).read_bytes() == left
    async with daemon(tmp_path, StillClock(), ToldProcesses(boot="the next boot")) as running:
        assert not running.store.after_clean_stop, "a disk may have lied about what the power took"
        await running.work()
    assert len(told(directory)) == 1


async def test_whoever_takes_over_has_not_stopped_yet(tmp_path: Path) -> None:
    (directory,) = await live(tmp_path)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await running.work()
        await running.stop()
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        assert running.store.after_clean_stop
        assert await running.rows("select stopped_cleanly from daemon") == [(0,)]
    cut(directory, EVENTS, 0)
    assert len(await repair(tmp_path)) == 1


async def test_a_daemon_that_ended_before_it_knew_what_to_compare_leaves_that_to_the_next(
    tmp_path: Path,
) -> None:
    (directory,) = await live(tmp_path)
    cut(directory, EVENTS, 0)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await running.stop()
    assert len(await repair(tmp_path)) == 1


async def test_a_line_that_somebody_changed_is_left_and_said_and_the_true_one_appended(
    tmp_path: Path,
) -> None:
    (directory,) = await live(tmp_path)
    ours = lines_of(directory)
    changed = [line.replace(b'"completed"', b'"COMPLETED"') for line in ours]
    (directory / EVENTS).write_bytes(b"".join(changed))
    assert await repair(tmp_path) == [("run-00000", EVENTS, 0, 0, 2, 0)]
    lines = lines_of(directory)
    assert lines[: len(changed)] == changed
    assert lines[len(changed) : -1] == [
        line for line, other in zip(ours, changed, strict=True) if line != other
    ]
    assert told(directory)[0]["lines_changed"] == 2
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        ((path, message),) = await running.rows("select path, message from problems")
    assert path == str(directory / EVENTS)
    assert "2 of Runward's lines were changed or removed by somebody" in str(message)


async def test_a_journal_that_was_deleted_is_written_again_as_a_whole(tmp_path: Path) -> None:
    (directory,) = await live(tmp_path)
    events = lines_of(directory)
    (directory / EVENTS).unlink()
    assert len(await repair(tmp_path)) == 1
    assert lines_of(directory)[: len(events)] == events


async def test_lines_that_somebody_moved_within_the_file_are_found_and_not_doubled(tmp_path: Path) -> None:
    (directory,) = await live(tmp_path)
    before = THEIRS + (directory / EVENTS).read_bytes()
    (directory / EVENTS).write_bytes(before)
    found = await repair(tmp_path)
    assert [each[2:5] for each in found] == [(0, 0, 0)]
    assert (directory / EVENTS).read_bytes() == before, (
        "where they stand is known again, and there is nothing to tell"
    )


@pytest.mark.parametrize("kind", ["a link", "a directory"])
async def test_where_a_journal_was_replaced_by_something_else_its_lines_are_given_up(
    tmp_path: Path, kind: str
) -> None:
    (directory,) = await live(tmp_path)
    (directory / EVENTS).unlink()
    if kind == "a link":
        (tmp_path / "elsewhere").write_text("not a journal\n")
        (directory / EVENTS).symlink_to(tmp_path / "elsewhere")
    else:
        (directory / EVENTS).mkdir()
    for _ in range(2):
        assert [each[:3] for each in await repair(tmp_path)] == [("run-00000", EVENTS, 5)], "and only once"
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        rows = await running.rows(f"select distinct why is null from journal_lines where name = '{EVENTS}'")
    assert rows == [(0,)]
    if kind == "a link":
        assert (tmp_path / "elsewhere").read_text() == "not a journal\n"


async def test_of_a_run_that_is_gone_nothing_is_written_again(tmp_path: Path) -> None:
    gone, stays = await live(tmp_path, runs=2)
    shutil.rmtree(gone)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await running.work()
        assert await running.rows("select * from uncompared") == []
        assert await damage(running) == []
    assert not gone.exists()
    assert stays.exists()


async def test_journals_of_a_root_that_is_away_wait_and_so_do_their_further_lines(tmp_path: Path) -> None:
    (directory,) = await live(tmp_path, ended=False)
    ours = lines_of(directory)
    cut(directory, EVENTS, 0)
    (tmp_path / "runs").rename(tmp_path / "away")
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        await running.work()
        assert len(running.supervisor.assembly.comparison.degraded()) == 1
        assert "can't be compared: its root is missing" in running.supervisor.report().degraded[0]
        (tmp_path / "away").rename(tmp_path / "runs")
        finish(directory)
        await running.settle()
        assert (directory / EVENTS).read_bytes() == b"", "no line gets before those that are missing"
        clock.move(31)
        await running.settle()
        assert running.supervisor.assembly.comparison.degraded() == []
    assert lines_of(directory)[: len(ours)] == ours
    assert [each["event"] for each in values(directory)][len(ours) :] == [
        "artifact_verified",
        "status_changed",
        "session_finished",
        "journal_repaired",
    ]


async def test_what_is_left_to_compare_is_remembered_over_a_stop_in_order(tmp_path: Path) -> None:
    (directory,) = await live(tmp_path)
    ours = lines_of(directory)
    cut(directory, EVENTS, 0)
    (tmp_path / "runs").rename(tmp_path / "away")
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await running.work()
        await running.stop()
    (tmp_path / "away").rename(tmp_path / "runs")
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        assert running.store.after_clean_stop
        await running.work()
    assert lines_of(directory)[: len(ours)] == ours


async def test_while_a_run_is_in_the_middle_of_a_line_its_journals_repair_waits(tmp_path: Path) -> None:
    (directory,) = await live(tmp_path, ended=False)
    ours = lines_of(directory)
    left = cut(directory, EVENTS, 0, b"they are")
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        await running.work()
        assert (directory / EVENTS).read_bytes() == left
        with (directory / EVENTS).open("ab") as file:
            file.write(b" done\n")
        clock.move(31)
        await running.work()
    assert lines_of(directory)[: 1 + len(ours)] == [b"they are done\n", *ours]


async def test_what_was_marked_long_ago_is_not_compared(tmp_path: Path) -> None:
    """A start after a crash looks at what the crash may have reached, however many runs are on record."""
    clock = StillClock()
    old = (await live(tmp_path, runs=20))[0]
    for _ in range(2):
        async with daemon(tmp_path, clock, ToldProcesses()) as running:
            await running.work()
            clock.move(SETTLE_PERIOD + 1)
            await running.work()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        young, going = begin(tmp_path, "young"), begin(tmp_path, "going")
        finish(young)
        await running.settle()
        await running.supervisor.assembly.outbox.sweep()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        await running.supervisor.assembly.comparison.step()
        listed = {Path(str(each)).name for (each,) in await running.rows("select directory from uncompared")}
    assert listed == {young.name, going.name}
    cut(old, EVENTS, 0)
    cut(young, EVENTS, 0)
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        await running.work()
        assert await damage(running) == [young.name]


async def test_a_line_that_is_marked_late_is_as_new_as_any(tmp_path: Path) -> None:
    clock = StillClock()
    directory = begin(tmp_path / "nowhere", "late")
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        directory = Path(shutil.move(directory, tmp_path / "runs" / "late"))
        (directory / EVENTS).write_bytes(THEIRS[:9])
        await running.settle()
        await running.supervisor.assembly.outbox.sweep()
        for _ in range(3):
            clock.move(SETTLE_PERIOD + 1)
            await running.supervisor.assembly.comparison.step()
        assert running.supervisor.assembly.outbox.settled > 0
        with (directory / EVENTS).open("ab") as file:
            file.write(THEIRS[9:])
        await running.work()
        await running.supervisor.assembly.outbox.sweep()
        finish(directory)
        await running.settle()
        await running.supervisor.assembly.outbox.sweep()
    ours = lines_of(directory)
    cut(directory, EVENTS, len(THEIRS))
    await repair(tmp_path)
    assert lines_of(directory)[: len(ours)] == ours


class SlowToCompare(Files):
    """Files whose comparison takes until it may."""

    def __init__(self, state: Path) -> None:
        super().__init__(state)
        self.may = threading.Event()
        self.begun = threading.Event()

    def compare(
        self, directory: str, name: str, lines: Sequence[StandingLines]
    ) -> Compared | Gone | Unreadable:
        self.begun.set()
        assert self.may.wait(PATIENCE_S)
        return super().compare(directory, name, lines)


class Standing:
    """A watch that stands, and says nothing."""

    async def watch(
        self,
        roots: Sequence[WatchedRoot],
        standing: Callable[[Watching], None],
        hint: Callable[[list[Target]], None],
        inbox: Callable[[], None],
    ) -> None:
        standing(Watching(1, ()))
        await anyio.sleep_forever()


async def test_neither_readiness_nor_verdicts_wait_for_the_comparison(tmp_path: Path) -> None:
    directories = await live(tmp_path, ended=False, runs=3)
    ours = [lines_of(each) for each in directories]
    for each in directories:
        cut(each, EVENTS, 0)
    state = tmp_path / "state"
    files, ready = SlowToCompare(state), anyio.Event()
    world = World(
        StillClock(),
        files,
        ToldProcesses(),
        SystemRandomness(),
        Standing(),
        InForce(lambda playbook, agent: Declarations(None, None)),
    )
    settings = Settings(str(state), roots=(Root("runs", str(tmp_path / "runs")),))
    store = Store(await connect(state / "runward.db"))
    supervisor = Supervisor(state, settings, world, store, SILENT)
    try:
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(PATIENCE_S):
                tasks.start_soon(supervisor.run, ready.set)
                await ready.wait()
                await anyio.to_thread.run_sync(files.begun.wait, PATIENCE_S)
                for each in directories:
                    finish(each)
                supervisor.assembly.rounds.request_scan(everything=True)
                while supervisor.assembly.verdicts.count < 3:
                    await anyio.sleep(0.01)
                assert [(each / EVENTS).read_bytes() for each in directories] == [b""] * 3
                files.may.set()
                while supervisor.assembly.outbox.owed or await store.read("select * from uncompared"):
                    await anyio.sleep(0.01)
                supervisor.stop()
    finally:
        files.may.set()
        await store.close()
    for directory, before in zip(directories, ours, strict=True):
        assert lines_of(directory)[: len(before)] == before
        assert [each["event"] for each in values(directory)][-2:] == ["session_finished", "journal_repaired"]


async def test_the_journals_of_one_session_can_be_compared_on_demand(tmp_path: Path) -> None:
    sound, damaged = await live(tmp_path, runs=2)
    ours = lines_of(damaged)
    whole = sum(map(len, ours[:-1]))
    cut(damaged, EVENTS, whole)
    found = {}
    with closing(sqlite3.connect(tmp_path / "state" / "runward.db")) as connection:
        for run in (sound, damaged):
            for journal, lines in journals.read_standing_lines(connection, f"native:runs/{run.name}").items():
                found[journal] = compare(*journal, lines)
    answer = found.pop((str(damaged), EVENTS))
    assert isinstance(answer, Compared)
    assert [(each.state, each.offset, each.content) for each in answer.altered] == [("gone", whole, ours[-1])]
    assert found == {(str(sound), EVENTS): Compared(())}
