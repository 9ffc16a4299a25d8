"""What a batch of looks at native runs asks of the store."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.engine.test_daemon_in_process import begin
from tests.daemon.in_process import StillClock, ToldProcesses, daemon

from runward.daemon.store.store import Store
from runward.daemon.store.tables import starts
from runward.daemon.store.transaction import Reader
from runward.daemon.watch.hints import Why
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.sessions import Launch

ANNOUNCED = Launch(1.0, "0" * 64, None, RecordedProcess(100, 7, "this"), RecordedProcess(101, 8, "this"))


async def test_a_batch_of_looks_asks_the_store_once_and_not_for_launches_that_it_knows_from_their_launchers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    queried: list[list[str]] = []
    consult, last_launches = Store.consult, starts.last_launches

    async def counted(store: Store, *arguments: Any) -> Any:
        asked.append("read")
        raise AssertionError("a look reads everything in one go")

    async def consulted(store: Store, ask: Callable[[Reader], Any]) -> Any:
        asked.append("consult")
        return await consult(store, ask)

    async def launches(store: Reader, keys: Iterable[str]) -> dict[str, Launch]:
        queried.append([*keys])
        return await last_launches(store, queried[-1])

    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        for name in ("one", "two"):
            begin(tmp_path, name)
        await running.settle()
        looks = running.supervisor.assembly.worker.looks
        monkeypatch.setattr(looks, "announced", {"native:runs/one": ANNOUNCED})
        with monkeypatch.context() as counting:
            counting.setattr(Store, "read", counted)
            counting.setattr(Store, "consult", consulted)
            counting.setattr(starts, "last_launches", launches)
            found = await looks.at([(("runs", name), Why.AGAIN) for name in ("one", "two")], 10)
        assert {look.place for look in found.looked} == {"one", "two"}
        assert asked == ["consult"]
        assert queried == [["native:runs/two"]]
