"""What launchers announce is recorded once, however often it is announced, and nothing else suffers from it."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon

from runward.daemon.launch.record import Announcement
from runward.daemon.processes.proc import ProcessIdentity
from runward.daemon.store.store import Store
from runward.daemon.store.transaction import Statement

LAUNCHES = "select session_key, at from launches order by session_key"
DEADLINES = "select lane from jobs where handler = 'sessions/deadline' order by lane"


def announcement(base: Path, name: str) -> Announcement:
    return Announcement(
        state=str(base / "state"),
        session_key=f"native:runs/{name}",
        at=1_790_000_000.0,
        launcher=ProcessIdentity(100, 7, "this"),
        process=ProcessIdentity(101, 8, "this"),
        contract=None,
        timeout=60.0,
        grace=5.0,
        cgroup=None,
    )


class Transactions:
    """Counts the transactions that the store refused."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.refused: list[str] = []
        run = Store.run

        async def counted(store: Store, statements: Sequence[Statement], name: str) -> None:
            try:
                await run(store, statements, name)
            except BaseException:
                self.refused.append(name)
                raise

        patch.setattr(Store, "run", counted)


async def look(running: Daemon) -> None:
    running.supervisor.assembly.worker.inbox_waits = True
    await running.work()


async def test_a_launch_that_is_announced_again_has_no_transaction_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        transactions = Transactions(monkeypatch)
        together, apart = announcement(tmp_path, "together"), announcement(tmp_path, "apart")
        for _ in range(2):
            together.put()
        apart.put()
        await look(running)
        apart.put()
        announcement(tmp_path, "further").put()
        await look(running)
        assert transactions.refused == []
        expected = [(f"native:runs/{name}", 1_790_000_000.0) for name in ("apart", "further", "together")]
        assert await running.rows(LAUNCHES) == expected
        assert await running.rows(DEADLINES) == [(f"timer:{key}",) for key, _ in expected]
        assert list((tmp_path / "state/inbox").iterdir()) == []


async def test_a_launch_is_recorded_whole_beside_an_event_that_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        again = announcement(tmp_path, "again")
        again.put()
        await look(running)
        # As if it had been recorded after it was asked for: the store refuses the batch and leaves it out.
        monkeypatch.setattr("runward.daemon.engine.turn.known_events", nothing_is_known)
        again.put()
        announcement(tmp_path, "new").put()
        await look(running)
        assert [key for (key,) in await running.rows(DEADLINES)] == [
            "timer:native:runs/again",
            "timer:native:runs/new",
        ]


async def nothing_is_known(store: Store, keys: object) -> frozenset[str]:
    return frozenset()
