"""A turn held between claim and commit goes on after another daemon finished the work: one effect.

Both daemons live in this process, each with its own connection; the first one's handler waits for an answer until the
second one is done. With the epoch's check taken out the token refuses, and with both taken out the job is done twice.
"""

import threading
from pathlib import Path

import anyio
import pytest
from tests.daemon.in_process import StillClock, ToldProcesses, daemon
from tests.proof.fences import FENCES
from tests.proof.place import Place
from tests.proof.processes import Forks

from runward.config.contract import ExpectedArtifact
from runward.daemon.store.store import Store
from runward.daemon.store.tables import all as tables
from runward.daemon.store.tables import jobs
from runward.daemon.store.transaction import EpochRefused, Fenced
from runward.handlers import route
from runward.handlers.model.contracts import Declarations

DECLARED = Declarations((ExpectedArtifact("report", "report.md"),), None)


def _declared(playbook: str | None, agent: str | None) -> Declarations:
    return DECLARED


class Held:
    """A playbook that nobody gets to read until it is let go."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.let_go = threading.Event()

    def __call__(self, playbook: str | None, agent: str | None) -> Declarations:
        self.asked.set()
        assert self.let_go.wait(30)
        return DECLARED


@pytest.fixture(autouse=True)
def nothing_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn is held between its two transactions; of what is foreseen, everything is in the first one."""
    monkeypatch.setattr(route, "foreseeing", lambda event: None)


async def _hold_and_go_on(base: Path, ended: list[BaseException | None]) -> None:
    """Hold the first daemon's turn, have a second one do the work, then let the first go on to its end."""
    held = Held()
    async with daemon(base, StillClock(), ToldProcesses(), declared=held) as first:

        async def turn() -> None:
            try:
                await first.settle()
            except Exception as error:
                ended.append(error)
            else:
                ended.append(None)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            assert await anyio.to_thread.run_sync(held.asked.wait, 30)
            try:
                async with daemon(base, StillClock(), ToldProcesses(), declared=_declared) as second:
                    assert second.supervisor.assembly.queue.tally.stolen == 2, "the start and the end"
                    await second.settle()
                    await second.supervisor.assembly.outbox.sweep()
            finally:
                held.let_go.set()


def _prepared(tmp_path: Path, forks: Forks) -> Place:
    place = Place(tmp_path, forks)
    run = place.start_run("delivers", playbook="any")
    (run / "artifacts" / "report.md").write_text("done\n")
    place.finish_run(run)
    return place


def _told(place: Place) -> dict[str, object]:
    return {
        "history": place.rows("select attempt, status, reason_code from status_history order by id"),
        "jobs": place.rows("select handler, state, error from jobs order by id"),
        "files": place.rows("select attempt, id, problem from files order by session_key, attempt, id"),
        "finished": place.rows("select count(*) from events where type = 'SessionFinished'"),
        "lines": place.journal("delivers"),
    }


RIGHT = {
    "history": [(1, "running", "run.started.ok"), (1, "completed", "run.completed.ok")],
    "jobs": [
        ("sessions/opened", "done", None),
        ("sessions/ended", "done", None),
        ("contracts/hashes", "done", None),
    ],
    "files": [(1, "report", None)],
    "finished": [(1,)],
    "lines": [
        "session_started",
        "contract_snapshotted",
        "artifact_verified",
        "status_changed",
        "session_finished",
    ],
}


async def test_a_held_turn_that_was_superseded_does_nothing(tmp_path: Path, forks: Forks) -> None:
    place, ended = _prepared(tmp_path, forks), []  # type: ignore[var-annotated] # as _hold_and_go_on declares it
    await _hold_and_go_on(tmp_path, ended)
    assert [type(each) for each in ended] == [EpochRefused]
    assert _told(place) == RIGHT


async def test_without_the_epoch_the_token_refuses_the_held_turn(
    tmp_path: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "_check_epoch", Store._check_epoch)  # restored afterwards
    FENCES["epoch of the store"]()
    place, ended = _prepared(tmp_path, forks), []  # type: ignore[var-annotated] # as _hold_and_go_on declares it
    await _hold_and_go_on(tmp_path, ended)
    assert [type(each) for each in ended] == [Fenced]
    assert _told(place) == RIGHT


async def test_without_epoch_and_token_the_held_turn_has_its_effect_too(
    tmp_path: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name in ((Store, "_check_epoch"), (jobs, "FINISH"), (tables, "WRITES")):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # restored afterwards
    FENCES["epoch of the store"]()
    FENCES["token of the job"]()
    place, ended = _prepared(tmp_path, forks), []  # type: ignore[var-annotated] # as _hold_and_go_on declares it
    await _hold_and_go_on(tmp_path, ended)
    assert ended == [None], "it believes that all is well"
    assert _told(place) != RIGHT, "what was done is done again"
