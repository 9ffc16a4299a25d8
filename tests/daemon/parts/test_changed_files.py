"""Files that chains name: which changes are told, and that each is told once."""

import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.in_process import SILENT

from runward.daemon.parts.changed_files import SETTLED, ChangedFiles
from runward.daemon.store.batch import Rows
from runward.daemon.store.connection import connect
from runward.daemon.store.schema import migrate
from runward.daemon.store.store import Store
from runward.daemon.store.transaction import Statement
from runward.daemon.watch.notifications import WatchedDirectories
from runward.handlers.model.chains import EventOccurred


@dataclass
class Hands:
    """A clock that is set by hand."""

    at: float = 1000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


@dataclass
class Watched:
    """`ChangedFiles` over a real store and disk; what it tells is put into the store at once, as the worker does."""

    place: Path
    store: Store
    globs: tuple[str, ...] = ()
    clock: Hands = field(default_factory=Hands)
    told: list[tuple[str, str]] = field(default_factory=list)
    by_run: str | None = None
    owed: list[Rows] = field(default_factory=list)
    watched_again: int = 0

    def __post_init__(self) -> None:
        self.restart()

    @property
    def named(self) -> dict[str, list[str]]:
        """The globs, each with the chains that name it."""
        return {glob: ["/chains/c.yaml"] for glob in self.globs}

    def restart(self) -> None:
        """A daemon that knows what the store knows."""
        clock: Any = self.clock
        self.directories = WatchedDirectories()
        self.files = ChangedFiles(
            self.store, clock, SILENT, lambda: self.named, self._tell, self.directories,
            self._watch_again, lambda: 60.0, str(self.place.parent / "state"),
        )  # fmt: skip

    def _tell(self, event: EventOccurred | None, rows: Any) -> None:
        if event is not None:
            path = Path(str(event.fields["path"]))
            self.told.append((str(event.fields["change"]), path.name))
            self.by_run = event.by_run
        self.owed += rows

    def cause(self) -> str | None:
        """The chain run that caused what was told last."""
        return self.by_run

    def _watch_again(self) -> None:
        self.watched_again += 1

    async def look(self, later: float = 0.0) -> list[tuple[str, str]]:
        """What is told by a look so many seconds later."""
        self.clock.at += later
        self.told.clear()
        await self.files.look(self.named)
        statements = [Statement(each.write.sql, each.rows) for each in self.owed if each.rows]
        self.owed.clear()
        if statements:
            await self.store.run(statements, "test")
        return list(self.told)

    async def changes(self) -> list[tuple[str, str]]:
        """What is told once everything has settled."""
        first = await self.look()
        return first + await self.look(SETTLED)


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/old.md").write_text("old")
    migrate(tmp_path / "runward.db")
    store = Store(await connect(tmp_path / "runward.db"))
    found = Watched(tmp_path / "work", store, (f"{tmp_path}/work/*.md",))
    yield found
    await store.close()


async def test_what_was_there_when_a_glob_was_first_seen_is_not_told(watched: Watched) -> None:
    assert await watched.changes() == []
    assert watched.directories.paths == {str(watched.place)}
    assert watched.watched_again == 1


async def test_a_change_is_told_once_when_the_file_has_been_unchanged_for_two_seconds(
    watched: Watched,
) -> None:
    await watched.changes()
    (watched.place / "new.md").write_text("n")
    assert await watched.look() == []
    assert await watched.look(1.9) == []
    (watched.place / "new.md").write_text("ne")
    assert await watched.look(1.9) == []
    assert await watched.look(1.9) == []
    assert await watched.look(0.2) == [("created", "new.md")]
    assert await watched.look(60.0) == []
    (watched.place / "old.md").write_text("changed")
    (watched.place / "new.md").unlink()
    assert await watched.changes() == [("deleted", "new.md"), ("modified", "old.md")]
    assert await watched.changes() == []


async def test_a_file_that_comes_and_goes_unsettled_is_not_told(watched: Watched) -> None:
    await watched.changes()
    (watched.place / "new.md").write_text("n")
    assert await watched.look() == []
    (watched.place / "new.md").unlink()
    assert await watched.look(SETTLED) == []


async def test_what_changed_while_no_daemon_ran_is_told_by_the_next_one(watched: Watched) -> None:
    await watched.changes()
    (watched.place / "new.md").write_text("n")
    (watched.place / "old.md").unlink()
    watched.restart()
    assert await watched.changes() == [("created", "new.md"), ("deleted", "old.md")]
    watched.restart()
    assert await watched.changes() == []


async def test_a_change_that_was_not_recorded_is_told_again(watched: Watched) -> None:
    await watched.changes()
    (watched.place / "new.md").write_text("n")
    await watched.look()
    watched.clock.at += SETTLED
    await watched.files.look(watched.named)
    assert watched.told == [("created", "new.md")]
    watched.owed.clear()  # the daemon died before its transaction
    watched.restart()
    assert await watched.changes() == [("created", "new.md")]


async def test_a_file_of_two_globs_is_told_of_once(watched: Watched) -> None:
    watched.globs = (*watched.globs, f"{watched.place}/n*")
    await watched.changes()
    (watched.place / "new.md").write_text("n")
    assert await watched.changes() == [("created", "new.md")]


async def test_a_glob_that_was_named_no_more_begins_anew(watched: Watched) -> None:
    globs = watched.globs
    await watched.changes()
    watched.globs = ()
    await watched.changes()
    (watched.place / "new.md").write_text("n")
    watched.globs = globs
    assert await watched.changes() == []
    watched.restart()
    assert await watched.changes() == []


async def test_a_glob_that_matches_too_much_is_a_problem_until_it_does_not(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runward.daemon.parts import changed_files

    await watched.changes()
    monkeypatch.setattr(changed_files, "MOST_FILES", 1)
    (watched.place / "new.md").write_text("n")
    assert await watched.changes() == []
    (said,) = watched.files.degraded()
    assert "matches more than 1 files" in said
    assert said.startswith("file.changed: /chains/c.yaml: "), "the chain that names it"
    monkeypatch.undo()
    assert await watched.changes() == [("created", "new.md")]
    assert watched.files.degraded() == []


async def begin_step(watched: Watched, run: str, depth: int, cwd: Path, at: float) -> None:
    """A step of this chain run begins in a directory of its own, and its command in `cwd`."""
    key, name = f"native:runs/{run}-0-1", f"{run}-0-1"
    directory = str(watched.place.parent / "runs" / name)
    rows: list[tuple[str, tuple[Any, ...]]] = [
        ("events (key, type, version, lane, at, recorded_at, payload, hash) values (?, 'E', 1, '', 1, 1, '{}', '')", (run,)),
        (("chain_runs (id, chain, event, fired_by, definition, trigger_event, status, reason_code, reason_summary, current_step,"
         " created_at, updated_at, depth) values (?, 'c', 1, ?, '{}', '{}', 'running', '', '', 0, 1, 1, ?)"), (run, run, depth)),
        ("chain_steps (run, step, attempt, status, session_key, started_at) values (?, 0, 1, 'running', ?, ?)", (run, key, at)),
        ("starts (key, event, session_key, name, directory, effect, state) values (?, 1, ?, ?, ?, ?, 'owed')",
         (run, key, name, directory, json.dumps({"cwd": str(cwd)}))),
        (("sessions (key, session_id, layout, root, path, kind, status, attempt, origin, started_at, reason_code, reason_summary,"
         " evidence_refs, artifacts_path) values (?, ?, 'native', 'runs', ?, 'agent', 'running', 1, 'live', ?, '', '', '[]', '')"),
         (key, name, directory, at)),
    ]  # fmt: skip
    await watched.store.run([Statement(f"insert into {sql}", [row]) for sql, row in rows], "test")


async def end_step(watched: Watched, run: str, at: float) -> None:
    """Its run ended, and was judged."""
    key = f"native:runs/{run}-0-1"
    ended = "update sessions set status = 'completed', finished_at = ?, ended_by = 'declared' where key = ?"
    judged = "update chain_steps set status = 'completed', finished_at = ? where run = ?"
    await watched.store.run([Statement(ended, [(at, key)]), Statement(judged, [(at, run)])], "test")


async def test_a_change_where_a_step_works_is_of_its_chain_run_until_five_seconds_after_its_end(
    watched: Watched,
) -> None:
    await watched.changes()
    watched.clock.at = os.stat(watched.place).st_ctime + 10
    (watched.place / "old.md").write_text("by nobody")
    await watched.changes()
    assert watched.cause() is None
    (watched.place.parent / "link").symlink_to(watched.place)
    await begin_step(watched, "cr_1", 1, watched.place.parent / "elsewhere", watched.clock.at)
    await begin_step(watched, "cr_2", 2, watched.place.parent / "link", watched.clock.at)
    await begin_step(watched, "cr_3", 3, watched.place.parent / "work/old", watched.clock.at)
    for depth, text in (("cr_2", "by the step"), ("cr_2", "once more")):
        (watched.place / "old.md").write_text(text)
        await watched.changes()
        assert watched.cause() == depth
    (watched.place / "old.md").unlink()
    await watched.look()
    await end_step(watched, "cr_2", watched.clock.at - 4.9)
    assert await watched.look(SETTLED) == [("deleted", "old.md")]
    assert watched.cause() == "cr_2", "it was removed less than 5 s after the end of the step"
    (watched.place / "new.md").write_text("later")
    watched.clock.at = os.stat(watched.place / "new.md").st_ctime + 100
    await watched.changes()
    assert watched.cause() == "cr_2", "the kernel knows when it was made, however late it is seen"
    await end_step(watched, "cr_1", os.stat(watched.place / "new.md").st_ctime - 100)
    watched.by_run = ""
    (watched.place / "new.md").unlink()
    await watched.changes()
    assert watched.cause() is None, "it was removed long after the end"


async def test_a_change_in_the_run_directory_or_the_worktree_of_a_step_is_of_its_chain_run(
    watched: Watched,
) -> None:
    place = watched.place.parent
    watched.globs = (f"{place}/runs/**/*.md", f"{place}/state/worktrees/**/*.md")
    await watched.changes()
    watched.clock.at = os.stat(place).st_ctime + 10
    await begin_step(watched, "cr_1", 1, place / "elsewhere", watched.clock.at)
    for directory in (place / "runs/cr_1-0-1/artifacts", place / "state/worktrees/cr_1-0-1/docs"):
        directory.mkdir(parents=True)
        (directory / "note.md").write_text("n")
        assert await watched.changes() == [("created", "note.md")]
        assert watched.cause() == "cr_1"
        watched.by_run = None


async def test_a_file_whose_name_is_not_utf_8_is_named(watched: Watched) -> None:
    await watched.changes()
    assert watched.files.degraded() == []
    name = os.fsencode(watched.place) + b"/caf\xe9.md"
    Path(os.fsdecode(name)).write_text("c")
    assert await watched.changes() == []
    assert watched.files.degraded() == [
        f"file.changed: the name of {watched.place}/caf\\xe9.md is not UTF-8, so its changes are not reported: rename it"
    ]
    Path(os.fsdecode(name)).unlink()
    await watched.changes()
    assert watched.files.degraded() == []
