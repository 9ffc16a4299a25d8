"""Files that chains name: which changes are told, and that each is told once."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import structlog

from runward.daemon.parts.changed_files import SETTLED, ChangedFiles
from runward.daemon.store.migrate import migrate
from runward.daemon.store.store import Store, connect
from runward.daemon.store.tables.table import Rows
from runward.daemon.store.transaction import Statement
from runward.daemon.watch.watched_directories import WatchedDirectories
from runward.handlers.chains.events import EventOccurred


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
    owed: list[Rows] = field(default_factory=list)
    watched_again: int = 0

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A daemon that knows what the store knows."""
        clock: Any = self.clock
        self.directories = WatchedDirectories()
        self.files = ChangedFiles(
            self.store, clock, structlog.get_logger(), lambda: self.globs, self._tell, self.directories,
            self._watch_again, lambda: 60.0,
        )  # fmt: skip

    def _tell(self, event: EventOccurred | None, rows: Any) -> None:
        if event is not None:
            path = Path(str(event.fields["path"]))
            self.told.append((str(event.fields["change"]), path.name))
        self.owed += rows

    def _watch_again(self) -> None:
        self.watched_again += 1

    async def look(self, later: float = 0.0) -> list[tuple[str, str]]:
        """What is told by a look so many seconds later."""
        self.clock.at += later
        self.told.clear()
        await self.files.look(self.globs)
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
    await watched.files.look(watched.globs)
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
    from runward.daemon.watch import matching_files

    await watched.changes()
    monkeypatch.setattr(matching_files, "MOST_FILES", 1)
    (watched.place / "new.md").write_text("n")
    assert await watched.changes() == []
    (said,) = watched.files.degraded()
    assert "matches more than 1 files" in said
    monkeypatch.undo()
    assert await watched.changes() == [("created", "new.md")]
    assert watched.files.degraded() == []
