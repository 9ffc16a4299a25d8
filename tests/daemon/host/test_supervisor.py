"""The end of a daemon: what is owed is carried out as far as there is time, and the store is left clean."""

from pathlib import Path

import anyio
import pytest
from tests.daemon.in_process import StillClock, ToldProcesses, daemon
from tests.waiting import PATIENCE_S

from runward.daemon.host import supervisor


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines without an end are owed, and nothing interrupts the writing of one."""

    async def carry_out(self: object) -> bool:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: None)
        return True

    monkeypatch.setattr("runward.daemon.engine.outbox.Outbox.carry_out", carry_out)


@pytest.mark.usefixtures("endless")
async def test_an_end_leaves_what_there_is_no_time_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "OWED_PATIENCE", 0.2)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        with anyio.fail_after(PATIENCE_S):
            running.supervisor.stop()
            await running.stop()
        assert await running.rows("select stopped_cleanly from daemon") == [(1,)]


@pytest.mark.usefixtures("endless")
async def test_a_second_request_to_stop_leaves_all_that_is_owed(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        with anyio.fail_after(PATIENCE_S):
            running.supervisor.stop()
            running.supervisor.stop()
            await running.stop()
        assert await running.rows("select stopped_cleanly from daemon") == [(1,)]
