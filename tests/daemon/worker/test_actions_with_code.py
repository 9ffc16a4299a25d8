"""Actions for which code must run: how many at once, and what becomes of them where none may."""

from runward.daemon.worker.actions_with_code import ActionsWithCode
from runward.handlers.asking import Given
from runward.handlers.exchange.acting_with_code import Acted, ActedWithCode, Worked
from runward.handlers.exchange.events import ActionRequested


def never(asked: ActedWithCode) -> Worked:
    raise AssertionError("code runs though there are no workers")


def test_with_zero_workers_code_is_refused_at_once_and_nothing_is_charged() -> None:
    asked = ActedWithCode(ActionRequested("r1", 1.0, "a", "{}"), Given("sha256:0", 1.0))
    acted = ActionsWithCode(never, lambda: 0).answer(asked)
    assert isinstance(acted, Acted)
    result = acted.worked.decided.result
    assert (result.success, result.error_code, acted.cpu_s) == (False, "not_configured", 0.0)
    assert "workers = 0" in result.message
