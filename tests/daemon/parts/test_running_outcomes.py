"""Outcomes of runs that go on: when their files are compared, and what is told of them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.in_process import SILENT

from runward.config.root import Root
from runward.daemon.parts.running_outcomes import MOST_TOLD, RunningOutcomes
from runward.daemon.store.tables import sessions
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world.files import Files
from runward.handlers.model.outcomes import OutcomesChanged
from runward.handlers.model.sessions import Session

RUN = ("runs", "a")
KEY = "native:runs/a"


@dataclass
class Hands:
    """A clock whose hands somebody sets."""

    at: float = 100.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


@dataclass
class Running:
    """A run, and what is told of it."""

    run: Path
    part: RunningOutcomes
    clock: Hands
    known: dict[str, Session]
    told: list[OutcomesChanged] = field(default_factory=list)

    def write(self, content: str) -> None:
        (self.run / "artifacts/outcome.json").write_text(content)

    async def looks(self, later: float = 0.0) -> int:
        """How often something was told by now, after a look at the run."""
        self.clock.at += later
        self.part.look(RUN)
        await self.part.drain()
        return len(self.told)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    run = tmp_path / "a"
    (run / "artifacts").mkdir(parents=True)
    session = Session(
        KEY, "a", "native", str(run), "running", 1, str(run / "artifacts"), None, None, None, 1.0, "live"
    )
    known = {KEY: session}

    async def of_store(store: object, keys: Iterable[str]) -> dict[str, Session]:
        return {key: known[key] for key in keys if key in known}

    monkeypatch.setattr(sessions, "known", of_store)
    clock, store = Hands(), object()
    told: list[OutcomesChanged] = []
    roots = {"runs": WatchedRoot(Root("runs", str(tmp_path), "native"))}
    anything: Any = store
    hands: Any = clock
    part = RunningOutcomes(anything, hands, SILENT, Files(tmp_path), roots, told.append)
    return Running(run, part, clock, known, told)


async def test_a_run_without_outcomes_has_nothing_told_and_is_not_looked_at_again(running: Running) -> None:
    assert await running.looks() == 0
    assert running.part.pause() is None


async def test_each_change_is_told_once_under_a_key_of_its_own(running: Running) -> None:
    running.write("{}")
    assert await running.looks() == 1
    assert await running.looks(2.0) == 1
    running.write("{} ")
    assert await running.looks(2.0) == 2
    first, second = running.told
    assert first.key.startswith(f"{KEY}#1/outcomes/")
    assert first.key != second.key


async def test_a_flood_of_changes_is_told_at_most_once_a_second(running: Running) -> None:
    for number in range(50):
        running.write("{}" + " " * number)
        await running.looks(0.1)
    assert 4 <= len(running.told) <= 6


async def test_a_change_is_followed_by_another_look_a_second_later(running: Running) -> None:
    running.write("{}")
    assert await running.looks() == 1
    running.write("{ }")
    assert running.part.pause() == 1.0
    running.clock.at += 1.0
    await running.part.drain()
    assert len(running.told) == 2


async def test_a_run_whose_session_is_not_known_yet_is_told_of_once_it_is(running: Running) -> None:
    session = running.known.pop(KEY)
    running.write("{}")
    assert await running.looks() == 0
    running.known[KEY] = session
    assert await running.looks(1.0) == 1


async def test_a_run_that_is_over_is_forgotten(running: Running) -> None:
    running.write("{}")
    running.part.look(RUN)
    running.part.forget(RUN)
    await running.part.drain()
    assert running.told == []
    assert running.part.pause() is None


async def test_the_changes_of_one_run_that_are_told_are_bounded(running: Running) -> None:
    for number in range(MOST_TOLD + 5):
        running.write("{}" + " " * (number % 7) + "\n" * (number % 11))
        await running.looks(1.0)
    assert len(running.told) == MOST_TOLD
    assert await running.looks(5.0) == MOST_TOLD
