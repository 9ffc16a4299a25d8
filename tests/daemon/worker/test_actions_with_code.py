"""Actions for which code must run: how many at once, when one begins, and what becomes of them where none may."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.daemon.exchange.playing import RULES, AtOnce, StandIn
from tests.daemon.worker.in_process import StillClock, ToldProcesses, daemon
from tests.daemon.worker.test_exchange import append, begin, results, write
from tests.daemon.worker.test_killed_workers import principal, until_all_is_done

from runward.config.json_value import JsonValue
from runward.daemon.store.values import as_float
from runward.daemon.worker import actions_with_code
from runward.daemon.worker.actions_with_code import LONGEST_TURN_S, ActionsWithCode, failed
from runward.handlers.asking import Given
from runward.handlers.exchange.acting_with_code import Acted, ActedWithCode, Running, Worked
from runward.handlers.exchange.events import ActionRequested


def never(asked: ActedWithCode) -> Worked:
    raise AssertionError("code runs though there are no workers")


def asked(name: str, who: str) -> ActedWithCode:
    return ActedWithCode(ActionRequested(name, 1.0, who, "{}"), Given("sha256:0", 1.0))


def test_with_zero_workers_code_is_refused_at_once_and_nothing_is_charged() -> None:
    acted = ActionsWithCode(never, lambda: 0).answer(asked("r1", "a"))
    assert isinstance(acted, Acted)
    result = acted.worked.decided.result
    assert (result.success, result.error_code, acted.cpu_s) == (False, "not_configured", 0.0)
    assert "workers = 0" in result.message


def test_an_action_waits_for_its_principals_last_one_to_be_recorded_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began: list[str] = []
    now = [100.0]

    def work(action: ActedWithCode) -> Worked:
        began.append(action.event.key)
        return failed("killed", "as if")

    monkeypatch.setattr(actions_with_code, "threading", SimpleNamespace(Thread=AtOnce))
    monkeypatch.setattr(actions_with_code, "time", SimpleNamespace(monotonic=lambda: now[0]))
    actions = ActionsWithCode(work)
    first, second, other = asked("r1", "a"), asked("r2", "a"), asked("r3", "b")
    for each in (first, second, other):
        assert actions.answer(each) == Running(0.0)
    assert began == [first.event.key, other.event.key]
    now[0] += LONGEST_TURN_S
    assert actions.answer(second) == Running(0.0)
    assert began == [first.event.key, other.event.key, second.event.key], "the first one may be held"


async def test_the_code_of_actions_that_wait_together_runs_once_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions_with_code, "threading", SimpleNamespace(Thread=AtOnce))
    code = StandIn(tmp_path / "state")
    monkeypatch.setattr("runward.daemon.sandbox.workers.execute", code._execute)
    invoke: dict[str, JsonValue] = {
        "action_type": "invoke_artifact",
        "artifact_id": "code",
        "method": "run",
        "args": [],
    }
    async with daemon(
        tmp_path, StillClock(), ToldProcesses(), exchange=RULES, act_with_code=code.act
    ) as running:
        owner, run = begin(tmp_path, "owner", "writer"), begin(tmp_path, "run", "reader")
        append(owner, write("code", "", code="done 0.1", executable=True, price=2))
        principal(running, "reader", 10)
        await until_all_is_done(running, owner, 1)
        append(run, *[invoke] * 4)
        await until_all_is_done(running, run, 4)
        assert [each["result"]["data"]["price_paid"] for each in results(run)] == [2] * 4  # type: ignore[index,call-overload] # objects
        charged = await running.rows("select seconds from cpu_use where principal = 'reader'")
        assert [as_float(seconds) for (seconds,) in charged] == [0.1] * 4
