"""The real watcher: what it tells, and what it keeps within.

Files in new directories are lost, and a tree that is moved in is told as one entry. Hints name run directories, so a
look finds what is in them.
"""

import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.waiting import PATIENCE_S

from runward.config.root import Root
from runward.daemon.watch import notifications
from runward.daemon.watch.directories import Directories, Overflow
from runward.daemon.watch.hints import Target
from runward.daemon.watch.notifications import Inotify, Plan, Pulse, Watching, plan_watches
from runward.daemon.watch.roots import WatchedRoot


class Told:
    """What the watcher told so far."""

    def __init__(self) -> None:
        self.targets: set[Target] = set()
        self.inbox = 0
        self.watching: Watching | None = None
        self.stands = anyio.Event()
        self._more = anyio.Event()

    def stand(self, watching: Watching) -> None:
        self.watching = watching
        self.stands.set()

    def hint(self, targets: list[Target]) -> None:
        self.targets.update(targets)
        self._turn()

    def in_inbox(self) -> None:
        self.inbox += 1
        self._turn()

    def _turn(self) -> None:
        self._more.set()
        self._more = anyio.Event()

    async def wait(self, fact: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENCE_S):
            while not fact():
                await self._more.wait()


@asynccontextmanager
async def watching(
    tmp_path: Path, *roots: WatchedRoot, limit_share: float = 0.5, plan_period: float = 30.0
) -> AsyncIterator[Told]:
    """A watcher over the roots and an inbox, until the block ends."""
    inbox = tmp_path / "inbox"
    inbox.mkdir(exist_ok=True)
    told = Told()
    watcher = Inotify(inbox, 5, 20, limit_share, plan_period)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watcher.watch, roots, told.stand, told.hint, told.in_inbox)
        with anyio.fail_after(PATIENCE_S):
            await told.stands.wait()
        yield told
        tasks.cancel_scope.cancel()


@pytest.fixture
def root(tmp_path: Path) -> WatchedRoot:
    (tmp_path / "runs").mkdir()
    return WatchedRoot(Root("runs", str(tmp_path / "runs"), "native"))


async def test_every_new_directory_is_hinted_at_although_the_files_in_it_are_not_told(
    tmp_path: Path, root: WatchedRoot
) -> None:
    # Nobody tells of files that are written into a directory before its watch stands there.
    async with watching(tmp_path, root) as told:
        for number in range(200):
            deep = Path(root.path) / f"run-{number}" / "a" / "b"
            deep.mkdir(parents=True)
            (deep / "file").write_text("x")
        await told.wait(lambda: len(told.targets) == 200)
    assert told.targets == {("runs", f"run-{number}") for number in range(200)}


async def test_a_tree_that_is_moved_in_is_a_hint_at_its_directory(tmp_path: Path, root: WatchedRoot) -> None:
    # One entry is told for the whole tree, and nothing of the files inside.
    outside = tmp_path / "made-elsewhere"
    outside.mkdir()
    (outside / "exit.json").write_text("{}")
    async with watching(tmp_path, root) as told:
        outside.rename(Path(root.path) / "moved-in")
        await told.wait(lambda: ("runs", "moved-in") in told.targets)
        told.targets.clear()
        (Path(root.path) / "moved-in" / "exit.json").write_text("{} ")
        await told.wait(lambda: ("runs", "moved-in") in told.targets)
    assert told.targets == {("runs", "moved-in")}


@pytest.mark.parametrize(
    "name", ["x.swp", "z~", "node_modules", "__pycache__", "venv", "x.pyc", "flycheck_x", "idea"]
)
async def test_no_name_is_hidden_by_a_default_filter(tmp_path: Path, root: WatchedRoot, name: str) -> None:
    async with watching(tmp_path, root) as told:
        (Path(root.path) / name).mkdir()
        await told.wait(lambda: ("runs", name) in told.targets)
    assert told.targets == {("runs", name)}


@pytest.mark.parametrize("parent", [".git", "node_modules", ".venv", "__pycache__"])
async def test_a_root_below_a_directory_that_the_default_filter_hides_is_watched(
    tmp_path: Path, parent: str
) -> None:
    path = tmp_path / parent / "runs"
    path.mkdir(parents=True)
    async with watching(tmp_path, WatchedRoot(Root("runs", str(path), "native"))) as told:
        (path / "a").mkdir()
        await told.wait(lambda: ("runs", "a") in told.targets)
    assert told.targets == {("runs", "a")}


async def test_a_request_in_the_inbox_is_told(tmp_path: Path, root: WatchedRoot) -> None:
    async with watching(tmp_path, root) as told:
        (tmp_path / "inbox" / "1.json").write_text("{}")
        await told.wait(lambda: told.inbox > 0)
        assert told.targets == set()


async def test_cancelling_does_not_wait_for_the_thread(tmp_path: Path, root: WatchedRoot) -> None:
    async with watching(tmp_path, root):
        began = time.monotonic()
    assert time.monotonic() - began < 3.0


async def test_a_root_that_is_not_there_keeps_nobody_else_from_being_watched(
    tmp_path: Path, root: WatchedRoot
) -> None:
    missing = WatchedRoot(Root("missing", str(tmp_path / "missing"), "native"))
    async with watching(tmp_path, missing, root) as told:
        (Path(root.path) / "a").mkdir()
        await told.wait(lambda: ("runs", "a") in told.targets)
    assert told.targets == {("runs", "a")}


async def test_a_root_with_more_directories_than_allowed_is_watched_flat_and_the_others_are_not(
    tmp_path: Path, root: WatchedRoot
) -> None:
    large = WatchedRoot(Root("large", str(tmp_path / "large"), "native"))
    for number in range(30):
        (tmp_path / "large" / f"run-{number}").mkdir(parents=True)
    limit = int(Path("/proc/sys/fs/inotify/max_user_watches").read_text())
    async with watching(tmp_path, large, root, limit_share=20.5 / limit) as told:
        assert told.watching is not None
        assert told.watching.flat == ("large",)
        assert told.watching.watched <= 20
        (Path(large.path) / "new").mkdir()
        (Path(root.path) / "known").mkdir()
        await told.wait(lambda: {("large", "new"), ("runs", "known")} <= told.targets)


@pytest.mark.parametrize("target", ["/", "../..", "../beside", ".", "nowhere"])
async def test_a_link_below_a_root_is_not_followed(tmp_path: Path, root: WatchedRoot, target: str) -> None:
    (Path(root.path) / "beside").mkdir()
    run = Path(root.path) / "run"
    run.mkdir()
    (run / "link").symlink_to(target)
    assert plan_watches([root], 1000).watches == 4
    async with watching(tmp_path, root) as told:
        assert told.watching == Watching(4, ())
        (run / "another").symlink_to(target)
        (run / "exit.json").write_text("{}")
        await told.wait(lambda: ("runs", "run") in told.targets)


def maze(directory: Path, depth: int = 24) -> None:
    """Directories with two links each to the next one: more paths than anybody can go."""
    for number in range(depth):
        (directory / f"d{number}").mkdir(parents=True)
        for name in ("left", "right"):
            (directory / f"d{number}" / name).symlink_to(f"../d{number + 1}")


@pytest.mark.parametrize("when", ["before", "moved in", "made"])
async def test_a_maze_of_links_holds_nobody_up(tmp_path: Path, root: WatchedRoot, when: str) -> None:
    if when == "before":
        maze(Path(root.path) / "run" / "artifacts")
    async with watching(tmp_path, root) as told:
        if when == "moved in":
            maze(tmp_path / "elsewhere" / "artifacts")
            (tmp_path / "elsewhere").rename(Path(root.path) / "run")
        elif when == "made":
            maze(Path(root.path) / "run" / "artifacts")
        (Path(root.path) / "another").mkdir()
        await told.wait(lambda: ("runs", "another") in told.targets)
        told.targets.clear()
        (Path(root.path) / "another" / "exit.json").write_text("{}")
        await told.wait(lambda: ("runs", "another") in told.targets)


def test_a_directory_that_may_not_be_listed_needs_no_watch(tmp_path: Path, root: WatchedRoot) -> None:
    closed = Path(root.path) / "closed"
    closed.mkdir()
    closed.chmod(0)
    try:
        assert plan_watches([root], 10).deep == (root,)
    finally:
        closed.chmod(0o700)


@pytest.mark.parametrize("are_too_many", [False, True], ids=["all of them watched", "too many"])
async def test_the_roots_are_walked_again_only_where_there_are_too_many_directories(
    tmp_path: Path, root: WatchedRoot, monkeypatch: pytest.MonkeyPatch, are_too_many: bool
) -> None:
    walks: list[Sequence[WatchedRoot]] = []

    def walk(roots: Sequence[WatchedRoot], *rest: Any) -> Plan:
        walks.append(roots)
        return plan_watches(roots, *rest)

    monkeypatch.setattr(notifications, "plan_watches", walk)
    monkeypatch.setattr(notifications, "TIMEOUT_MS", 10)
    # Else one walk that was slow would put off the next by a minute.
    monkeypatch.setattr(notifications, "FLAT_COST_FACTOR", 1.0)
    for number in range(10 if are_too_many else 0):
        (Path(root.path) / f"run-{number}").mkdir()
    limit = int(Path("/proc/sys/fs/inotify/max_user_watches").read_text())
    share = 5.5 / limit if are_too_many else 0.5
    async with watching(tmp_path, root, limit_share=share, plan_period=0.0) as told:
        (Path(root.path) / "a").mkdir()
        await told.wait(lambda: ("runs", "a") in told.targets)
        walks.clear()
        if are_too_many:
            with anyio.fail_after(PATIENCE_S):
                while not walks:
                    await anyio.sleep(0.01)
        else:
            await anyio.sleep(0.5)
            assert walks == []


@pytest.mark.parametrize("where", ["runs", "runs/run", "runs/run/artifacts", "inbox"])
async def test_a_name_that_is_no_utf_8_ends_no_watch(tmp_path: Path, root: WatchedRoot, where: str) -> None:
    (tmp_path / "runs" / "run" / "artifacts").mkdir(parents=True)
    async with watching(tmp_path, root) as told:
        os.mkdir(os.fsencode(tmp_path / where) + b"/\xe9")
        os.mkdir(os.fsencode(tmp_path / where) + b"/\xe9/below")
        (Path(root.path) / "good").mkdir()
        await told.wait(lambda: ("runs", "good") in told.targets)
        assert told.watching is not None
        assert told.watching.lost is None
    assert told.targets <= {("runs", "good"), ("runs", "run")}


async def test_an_overflow_of_the_kernels_queue_is_reported_and_the_watch_set_up_again(
    tmp_path: Path, root: WatchedRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overflow(*arguments: object) -> set[str]:
        monkeypatch.undo()
        raise Overflow("the kernel's queue of notifications was full")

    monkeypatch.setattr(Directories, "wait", overflow)
    async with watching(tmp_path, root) as told:
        with anyio.fail_after(PATIENCE_S):
            while told.watching is None or told.watching.lost is None:
                await anyio.sleep(0.01)
        assert told.watching.lost == "the kernel's queue of notifications was full"
        (Path(root.path) / "new").mkdir()
        await told.wait(lambda: ("runs", "new") in told.targets)


async def test_a_change_in_a_directory_beside_the_roots_is_told_and_counts_as_a_watch(
    tmp_path: Path, root: WatchedRoot
) -> None:
    beside, inside = tmp_path / "beside", Path(root.path) / "inside"
    for each in (beside, inside):
        each.mkdir()
    (tmp_path / "inbox").mkdir()
    told = Told()
    changes: list[int] = []
    watcher = Inotify(tmp_path / "inbox", 5, 20, 0.5, 30.0)
    watcher.directories.paths = frozenset({str(beside), str(inside)})

    def changed() -> None:
        changes.append(1)
        told.in_inbox()

    watcher.directories.changed = changed
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watcher.watch, [root], told.stand, told.hint, told.in_inbox)
        with anyio.fail_after(PATIENCE_S):
            await told.stands.wait()
        for number, each in enumerate((beside, inside)):
            (each / "file").write_text("x")
            await told.wait(lambda: len(changes) > number)  # noqa: B023 - it is awaited here
            changes[:] = [1] * (number + 1)
        await told.wait(lambda: ("runs", "inside") in told.targets)
        tasks.cancel_scope.cancel()
    plan, _ = watcher.plan([root], Pulse())
    directories, watching, _ = watcher.set_up([root], Pulse())
    directories.close()
    assert watching.watched == plan.watches + 1, "the one inside a root is watched with the root"
