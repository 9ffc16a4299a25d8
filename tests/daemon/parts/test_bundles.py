"""Bundles in the worker: written once, chained, put in place, and made again where a crash took a part."""

import errno
import hashlib
import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.native_runs import begin, finish

from runward.config.bundle import BundleRules
from runward.daemon import faults
from runward.daemon.backup import have_parts_looked_for
from runward.daemon.engine.queue import Queue, StoreTrouble
from runward.daemon.parts.bundles import REFUSED_FOR, Bundles, Placing
from runward.daemon.rundir import call_reading
from runward.daemon.store.batch import Claim, JobResult
from runward.daemon.store.tables.receipts import UnplacedBundle
from runward.daemon.world.files import Files
from runward.handlers.model.bundle import BundleRulesOf, NoDraft, RecordReceipt, Sealed, load_order
from runward.handlers.model.files import Unreadable

TRACE = (
    '{"event":"ToolCall","id":"a","tool":"Read","params":{"path":"x"},"t":"2026-02-03T04:05:07Z"}\n'
    '{"event":"ToolResult","id":"a","output":{"content":"y"},"t":"2026-02-03T04:05:08Z"}\n'
)
PARTS = ("REPLAY.jsonl", "PR_SUMMARY.md", "RECEIPT.json")


class Killed(BaseException):
    """The daemon ends here, as by `kill -9`."""


def bundled(session: BundleRulesOf) -> BundleRules:
    return BundleRules()


def worked(base: Path, name: str, trace: str = TRACE) -> Path:
    directory = begin(base, name)
    (directory / "trace.jsonl").write_text(trace)
    finish(directory)
    return directory


async def settle(running: Daemon) -> None:
    await running.settle()
    await running.supervisor.assembly.bundles.drain()


def hashes(directory: Path, names: tuple[str, ...] = PARTS) -> dict[str, str]:
    return {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in names}


async def recorded(running: Daemon, run: str) -> dict[str, str]:
    ((parts,),) = await running.rows(f"select parts from receipts where session_key = 'native:runs/{run}'")
    return {name: digest for name, _, digest, _ in json.loads(str(parts))}


async def test_each_run_gets_its_parts_and_receipts_form_one_chain(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        runs = [worked(tmp_path, f"run-{number}") for number in range(12)]
        await settle(running)
        for run in runs:
            assert hashes(run) == await recorded(running, run.name)
            assert not [each for each in run.iterdir() if each.name.startswith(".")]
        rows = await running.rows("select prev, receipt_hash from receipts order by seq")
    assert len(rows) == 12
    assert [prev for prev, _ in rows] == [None, *(digest for _, digest in rows[:-1])]
    receipt = json.loads((runs[0] / "RECEIPT.json").read_text())
    assert [(each["id"], each["latency_ms"]) for each in receipt["tool_calls"]] == [("a", 1000)]


async def test_the_summary_of_a_run_in_a_git_work_tree_says_what_changed_there(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for command in (("init", "-q"), (*who, "commit", "-q", "--allow-empty", "-m", "Fix the _lamp_")):
        subprocess.run(("git", *command), cwd=tree, check=True)
    (tree / "lamp").write_text("on\n")
    subprocess.run(("git", "add", "lamp"), cwd=tree, check=True)
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        run = begin(tmp_path, "run")
        said = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps(said | {"cwd": str(tree)}))
        finish(run)
        await settle(running)
        ((facts,),) = await running.rows("select facts from receipts")
    text = (run / "PR_SUMMARY.md").read_text()
    assert "## Changes Made\n- Fix the \\_lamp\\_\n" in text
    assert "## Files Modified\n- `lamp` (1 lines changed)\n" in text
    kept = load_order(str(facts)).work_tree
    assert kept is not None
    assert kept.commits == ("Fix the _lamp_",), "a part that is lost is made again from what git said then"


async def test_where_little_is_free_on_the_disk_a_bundle_waits_until_there_is_more(tmp_path: Path) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
        bundles = running.supervisor.assembly.bundles
        bundles.low_disk = lambda: "little is free"
        run = worked(tmp_path, "run")
        await settle(running)
        assert await running.rows("select count(*) from receipts") == [(0,)]
        assert not [name for name in PARTS if (run / name).exists()]
        bundles.low_disk = lambda: None
        clock.move(3600)
        await settle(running)
        assert hashes(run) == await recorded(running, "run")


async def test_a_bundle_waits_while_its_sessions_files_can_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(within: int, name: str) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO), name)

    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        with monkeypatch.context() as patch:
            patch.setattr(call_reading, "open_regular", broken)
            run = worked(tmp_path, "run")
            await settle(running)
            assert await running.rows("select * from receipts") == []
            ((why,),) = await running.rows("select error from jobs where handler = 'bundle/write'")
            assert "trace.jsonl can't be read: Input/output error" in str(why)
        running.clock.move(120.0)
        running.supervisor.assembly.queue.may_be_due = True
        await settle(running)
        assert await running.rows("select problem from receipts") == [(None,)]
        assert [each["id"] for each in json.loads((run / "RECEIPT.json").read_text())["tool_calls"]] == ["a"]


async def test_bundles_are_recorded_and_count_as_in_place_only_when_they_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync, complete = Files.sync_parts, Queue.complete
    synced: set[tuple[str, str]] = set()
    named: list[set[str]] = []

    def syncing(files: Files, written: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
        synced.update((directory, name) for directory, names in written.items() for name in names or ("",))
        return sync(files, written)

    async def completing(
        queue: Queue, claim: Claim, results: Sequence[JobResult], done: list[JobResult]
    ) -> None:
        effects = [each for result in results for each in result.effects if isinstance(each, RecordReceipt)]
        for each in effects:
            assert each.draft is not None
            assert each.sealed is not None
            for part in (*each.draft.parts, each.sealed.part):
                assert (each.order.directory, part.temporary) in synced
        await complete(queue, claim, results, done)

    def marked(name: str) -> None:
        if name == "commit.place.before":
            named.append({directory for directory, name in synced if not name})

    monkeypatch.setattr(Files, "sync_parts", syncing)
    monkeypatch.setattr(Queue, "complete", completing)
    faults.install(marked)
    try:
        async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
            runs = {str(worked(tmp_path, f"run-{number}")) for number in range(12)}
            await settle(running)
            assert await running.rows("select count(*) from receipts where placed_at > 0") == [(12,)]
    finally:
        faults.install(lambda name: None)
    assert named == [runs], "one mark for all of them, and before it each directory is synced"


async def test_bundles_that_the_disk_did_not_take_are_made_again_and_the_chain_has_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = Files.sync_parts
    refused: list[str] = []

    def syncing(files: Files, written: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
        if not refused and len(written) == 6:
            refused.append(list(written)[2])
            return {refused[0]: "not synced: Input/output error"}
        return sync(files, written)

    monkeypatch.setattr(Files, "sync_parts", syncing)
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        runs = [worked(tmp_path, f"run-{number}") for number in range(6)]
        await settle(running)
        assert await running.rows("select count(*) from receipts") == [(2,)]
        waiting = await running.rows("select error from jobs where state = 'waiting'")
        assert waiting == [("not synced: Input/output error",)] * 4
        running.clock.move(120.0)
        running.supervisor.assembly.queue.may_be_due = True
        await settle(running)
        rows = await running.rows("select prev, receipt_hash from receipts order by seq")
        assert [prev for prev, _ in rows] == [None, *(digest for _, digest in rows[:-1])]
        assert len(rows) == 6
        for run in runs:
            assert hashes(run) == await recorded(running, run.name)


async def test_a_bundle_whose_names_the_disk_did_not_take_is_put_in_place_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: dict[str, str] = {}
    sync = Files.sync_parts

    def syncing(files: Files, written: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
        return {**sync(files, written), **refused} if () in written.values() else sync(files, written)

    monkeypatch.setattr(Files, "sync_parts", syncing)
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        first, second = worked(tmp_path, "first"), worked(tmp_path, "second")
        refused[str(first)] = "not synced: Input/output error"
        await settle(running)
        waiting = "select session_key from receipts where placed_at is null"
        assert await running.rows(waiting) == [("native:runs/first",)]
        assert "Input/output error" in running.supervisor.assembly.bundles.degraded()[0]
        refused.clear()
        await settle(running)
        assert await running.rows(waiting) == []
        for run in (first, second):
            assert hashes(run) == await recorded(running, run.name)


async def test_bundles_that_are_refused_hold_no_others_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Bundles._place_all
    refused = {f"native:runs/run-{number}" for number in range(3)}

    def refusing(bundles: Bundles, bundle: UnplacedBundle) -> Placing:
        return Unreadable("it is away") if bundle.key in refused else place(bundles, bundle)

    monkeypatch.setattr(Bundles, "_place_all", refusing)
    monkeypatch.setattr("runward.daemon.parts.bundles.BATCH", 2)
    waiting = "select session_key from receipts where placed_at is null order by seq"
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        for number in range(6):
            worked(tmp_path, f"run-{number}")
        await settle(running)
        assert {str(key) for (key,) in await running.rows(waiting)} == refused
        assert "it is away" in running.supervisor.assembly.bundles.degraded()[0]
        refused.clear()
        await settle(running)
        assert await running.rows(waiting) == []
        assert running.supervisor.assembly.bundles.degraded() == []


async def test_a_receipt_that_the_disk_refused_while_the_store_was_locked_is_made_when_both_are_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal, complete = Bundles._seal_body, Queue.complete
    troubles = ["the disk", "the store"]

    def sealing(bundles: Bundles, *given: Any) -> Sealed | NoDraft | str:
        if "the disk" in troubles:
            troubles.remove("the disk")
            return "Input/output error"
        return seal(bundles, *given)

    async def completing(
        queue: Queue, claim: Claim, results: Sequence[JobResult], done: list[JobResult]
    ) -> None:
        if "the disk" not in troubles and "the store" in troubles:
            troubles.remove("the store")
            raise StoreTrouble("database is locked")
        await complete(queue, claim, results, done)

    monkeypatch.setattr(Bundles, "_seal_body", sealing)
    monkeypatch.setattr(Queue, "complete", completing)
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        run = worked(tmp_path, "run")
        await settle(running)
        assert troubles == []
        assert hashes(run) == await recorded(running, "run")


def with_a_directory_in_its_way(run: Path) -> None:
    (run / ".REPLAY.jsonl.x.tmp").mkdir()


def with_every_name_taken(run: Path) -> None:
    for name in (
        "RECEIPT.json",
        "RECEIPT.json.before",
        *(f"RECEIPT.json.before.{each}" for each in range(2, 101)),
    ):
        (run / name).write_text("mine")


@pytest.mark.parametrize("prevent", [with_a_directory_in_its_way, with_every_name_taken])
async def test_a_run_that_refuses_its_bundle_has_it_in_our_state_directory(
    tmp_path: Path, prevent: Callable[[Path], None]
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        run = begin(tmp_path, "run")
        (run / "trace.jsonl").write_text(TRACE)
        prevent(run)
        before = {each.name for each in run.iterdir()}
        finish(run)
        await settle(running)
        ((directory, problem, placed),) = await running.rows(
            "select directory, problem, placed_at from receipts"
        )
        assert placed is not None
        assert str(directory).startswith("sessions/native/")
        assert str(problem).endswith("its parts are in Runward's state directory")
        own = tmp_path / "state" / str(directory)
        assert hashes(own) == await recorded(running, "run")
        assert [each["id"] for each in json.loads((own / "RECEIPT.json").read_text())["tool_calls"]] == ["a"]
        assert {each.name for each in run.iterdir()} - before == {"events.jsonl", "exit.json"}


def not_writable(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may write to the directory any more: for root, permissions don't say so."""
    real = os.rename, os.unlink

    def is_there(descriptor: int | None) -> bool:
        return descriptor is not None and os.readlink(f"/proc/self/fd/{descriptor}") == str(run)

    def rename(
        source: str, name: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        if is_there(dst_dir_fd):
            raise PermissionError(errno.EACCES, "Permission denied", name)
        real[0](source, name, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def unlink(name: str, *, dir_fd: int | None = None) -> None:
        if is_there(dir_fd):
            raise PermissionError(errno.EACCES, "Permission denied", name)
        real[1](name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "unlink", unlink)


def with_its_parts_replaced_by_directories(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in [each for each in run.iterdir() if each.name.startswith(".")]:
        each.unlink()
        each.mkdir()


@pytest.mark.parametrize("refuse", [not_writable, with_its_parts_replaced_by_directories])
async def test_a_run_that_refuses_its_recorded_bundle_has_it_in_our_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuse: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
        run = worked(tmp_path, "run")
        await running.settle()
        refuse(run, monkeypatch)
        await settle(running)
        waiting = await running.rows("select 1 from receipts where placed_at is null")
        assert bool(waiting) == (refuse is not_writable), "permissions may come back"
        if waiting:
            assert "nothing can be written" in running.supervisor.assembly.bundles.degraded()[0]
            clock.move(REFUSED_FOR)
            await settle(running)
        ((directory, problem),) = await running.rows("select directory, place_problem from receipts")
        assert str(directory).startswith("sessions/native/")
        assert str(problem).endswith("its parts are in Runward's state directory")
        assert hashes(tmp_path / "state" / str(directory)) == await recorded(running, "run")
        assert running.supervisor.assembly.bundles.degraded() == []


async def test_a_run_that_takes_every_name_meanwhile_has_its_bundle_all_the_same(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        run = worked(tmp_path, "run")
        await running.settle()
        with_every_name_taken(run)
        await settle(running)
        assert hashes(run) == await recorded(running, "run")
        ((problem,),) = await running.rows("select place_problem from receipts")
        assert str(problem).startswith("the file that had its name is kept as RECEIPT.json.before.")


async def test_where_the_settings_want_no_bundle_there_is_none(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = worked(tmp_path, "run")
        await settle(running)
        assert await running.rows("select * from receipts") == []
        assert await running.rows("select * from jobs where state <> 'done'") == []
    assert not [name for name in PARTS if (run / name).exists()]


POINTS = (
    "bundle.replay.after",
    "bundle.summary.after",
    "bundle.receipt.after",
    "bundle.sync.before",
    "bundle.sync.after",
    "commit.apply.before",
    "commit.apply.after",
    "bundle.rename.before",
    "bundle.rename.after",
    "commit.place.before",
    "commit.place.after",
)


def killing(point: str) -> Callable[[str], None]:
    """Ends the daemon at a point, once the first bundle is begun."""
    begun = False

    def pass_point(name: str) -> None:
        nonlocal begun
        begun = begun or name.startswith("bundle.")
        if begun and name == point:
            raise Killed

    return pass_point


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_any_point_leaves_what_an_undisturbed_daemon_leaves(
    tmp_path: Path, point: str
) -> None:
    def bundled(session: BundleRulesOf) -> BundleRules:
        return BundleRules(sign="ed25519")

    worked(tmp_path, "run")
    faults.install(killing(point))
    try:
        with pytest.raises((Killed, BaseExceptionGroup)):
            async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
                await settle(running)
    finally:
        faults.install(lambda name: None)
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        await settle(running)
        assert hashes(tmp_path / "runs" / "run") == await recorded(running, "run")
        assert await running.rows("select prev, place_problem, placed_at is null from receipts") == [
            (None, None, 0)
        ]
    assert not [each.name for each in (tmp_path / "runs" / "run").iterdir() if each.name.startswith(".")]


@pytest.mark.parametrize("lost", [PARTS, PARTS[:1], PARTS[2:]])
async def test_parts_that_a_crash_took_are_made_again_as_they_were(
    tmp_path: Path, lost: tuple[str, ...]
) -> None:
    run = worked(tmp_path, "run")
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        await running.settle()
        before = await recorded(running, "run")
    for each in list(run.iterdir()):
        if any(each.name.startswith(f".{name}.") for name in lost):
            each.unlink()
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        await settle(running)
        assert hashes(run) == before == await recorded(running, "run")


@pytest.mark.parametrize(
    "point",
    [
        "bundle.replay.after",
        "bundle.receipt.after",
        "bundle.rename.before",
        "bundle.rename.after",
        "commit.place.before",
        "commit.place.after",
    ],
)
async def test_a_kill_while_parts_are_looked_for_after_a_restore_leaves_no_bundle_without_them(
    tmp_path: Path, point: str
) -> None:
    runs = [worked(tmp_path, f"run-{number}") for number in range(3)]
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        await settle(running)
        before = {run: await recorded(running, run.name) for run in runs}
    with closing(sqlite3.connect(tmp_path / "state" / "runward.db", isolation_level=None)) as connection:
        have_parts_looked_for(connection)
    for run in runs:
        for name in PARTS:
            (run / name).unlink()
    faults.install(killing(point))
    try:
        with pytest.raises((Killed, BaseExceptionGroup)):
            async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
                await running.supervisor.assembly.restored_bundles.drain()
    finally:
        faults.install(lambda name: None)
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        await running.supervisor.assembly.restored_bundles.drain()
        assert {run: hashes(run) for run in runs} == before
        assert await running.rows("select place_problem, placed_at is null from receipts") == [(None, 0)] * 3
    assert not [each.name for run in runs for each in run.iterdir() if each.name.startswith(".")]


async def test_parts_that_can_not_be_made_again_as_they_were_are_said(tmp_path: Path) -> None:
    run = worked(tmp_path, "run")
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        await running.settle()
    for each in list(run.iterdir()):
        if each.name.startswith("."):
            each.unlink()
    (run / "trace.jsonl").write_text(TRACE.replace('"x"', '"z"'))
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        await settle(running)
        ((problem,),) = await running.rows("select place_problem from receipts")
    assert "the session's files have changed since" in str(problem)
    assert not [name for name in PARTS if (run / name).exists()]


async def test_a_lost_receipt_that_another_key_would_sign_is_said_to_be_that(tmp_path: Path) -> None:
    def signed(session: BundleRulesOf) -> BundleRules:
        return BundleRules(sign="ed25519")

    run = worked(tmp_path, "run")
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=signed) as running:
        await running.settle()
    (lost,) = run.glob(".RECEIPT.json.*")
    lost.unlink()
    (tmp_path / "state" / "keys" / "receipt-ed25519").unlink()
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=signed) as running:
        await settle(running)
        ((problem,),) = await running.rows("select place_problem from receipts")
    assert "the signing key has changed" in str(problem)
    assert not (run / "RECEIPT.json").exists()


def make_directory(path: Path) -> None:
    path.mkdir()


def make_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def make_file(path: Path) -> None:
    path.write_text("mine\n")


@pytest.mark.parametrize("make", [make_directory, make_link, make_file])
async def test_what_has_the_name_of_a_part_is_kept_aside_and_reported(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    run = worked(tmp_path, "run")
    make(run / "RECEIPT.json")
    before = (run / "RECEIPT.json").lstat()
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        await settle(running)
        assert hashes(run) == await recorded(running, "run")
        ((problem,),) = await running.rows("select place_problem from receipts")
    assert problem == "the file that had its name is kept as RECEIPT.json.before"
    assert (run / "RECEIPT.json.before").lstat().st_ino == before.st_ino


async def test_our_own_files_in_a_finished_run_cause_no_other_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    look = Files.look

    def counted(files: Files, root: str, directory: str, *rest: Any) -> Any:
        looked.append(directory)
        return look(root, directory, *rest)

    monkeypatch.setattr(Files, "look", counted)
    clock = StillClock(wall=time.time() + 3600)  # so that what a look saw is old enough to be trusted
    async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
        run, other = worked(tmp_path, "run"), worked(tmp_path, "other")
        before = run.stat().st_mtime_ns
        await settle(running)
        assert sorted(looked) == ["other", "run"]
        assert hashes(run) == await recorded(running, "run")
        assert run.stat().st_mtime_ns != before
        await settle(running)
        assert len(looked) == 2
        (run / "exit.json").unlink()
        finish(run)
        await settle(running)
        assert sorted(looked) == ["other", "run", "run"], "the run's own files do"
        (other / "note").touch()
        assert await running.supervisor.assembly.rounds.scan() == 0


async def test_a_run_whose_directory_is_gone_has_a_row_that_says_so_and_the_chain_goes_on(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    def goes(session: BundleRulesOf) -> BundleRules:
        """It goes between the verdict and its bundle, which both ask."""
        asked.append(session.path)
        if session.path.endswith("/first") and asked.count(session.path) == 2:
            Path(session.path).rename(tmp_path / "elsewhere")
        return BundleRules()

    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=goes) as running:
        worked(tmp_path, "first")
        await settle(running)
        worked(tmp_path, "second")
        await settle(running)
        rows = await running.rows("select receipt_hash is null, prev, problem from receipts order by seq")
    assert rows == [(1, None, "its directory is gone"), (0, None, None)]


async def test_a_store_refuses_a_receipt_that_does_not_follow_and_one_that_is_changed(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        worked(tmp_path, "run")
        await settle(running)
    with closing(sqlite3.connect(tmp_path / "state" / "runward.db")) as connection:
        row = "('k', 1, 'sha256:x', {}, 'd', '[]', '[]', null, null, 1.0, 1.0, null)"
        insert = (
            "insert into receipts (session_key, attempt, receipt_hash, prev, directory, parts, facts, summary, problem,"
            " recorded_at, placed_at, place_problem) values "
        )
        for wrong in (
            insert + row.format("null"),
            insert + row.format("'sha256:y'"),
            "update receipts set receipt_hash = 'sha256:z'",
            "update receipts set prev = 'sha256:z'",
            "update receipts set placed_at = 9.0",
            "delete from receipts",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(wrong)
