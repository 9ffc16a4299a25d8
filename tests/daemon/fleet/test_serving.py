"""In which order the program does what it has to: what somebody waits for goes first, and reports go once a second."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.daemon.fleet.test_bringing_orders import Host, Stopped, host

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.fleet.serving import REPORT_PERIOD_S, Serving
from runward.daemon.fleet.session_reports import SessionReports
from runward.daemon.fleet.telling_orders import OrdersTold

__all__ = ["host"]


def _serve(host: Host, wait: Callable[[Serving, float], None]) -> list[bool]:
    """Have a connection served until `wait` has seen enough; returns when it gave way, and when no longer."""
    given: list[bool] = []
    connection, _ = host.connected()
    settings = Settings(state_dir=str(host.place.state))

    def nothing(said: JsonValue) -> None:
        """The daemon marks nothing."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Serving, "_wait", wait)
        serving = Serving(host.place.state, settings, host.settings, 1, connection, nothing, given.append)
        with pytest.raises(Stopped):
            serving.serve(lambda: None)
    return given


@pytest.mark.parametrize("is_first", [True, False])
def test_an_order_that_comes_while_reports_are_told_goes_before_the_rest_of_them(
    host: Host, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    placed: list[list[tuple[Any, ...]]] = []

    def say(self: SessionReports, connection: object) -> Iterator[list[int]]:
        host.owes("cr_1-0-1")
        yield []
        placed.append(host.states())

    def wait(self: Serving, longest: float) -> None:
        if longest > 0.0:
            raise Stopped
        self._is_owed = True

    monkeypatch.setattr(SessionReports, "say", say)
    if not is_first:
        monkeypatch.setattr(Serving, "_look_up", lambda self: None)
    given = _serve(host, wait)
    assert placed == [[("cr_1-0-1", "open")] if is_first else []]
    # It gives way while it reports, but not while it tells of the order.
    assert given[:3] == ([True, False, True] if is_first else [True, False])
    assert given[-1] is False


def test_however_often_it_is_hinted_orders_are_told_at_once_and_reports_once_a_second(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, told = 1000.0, {OrdersTold: 0, SessionReports: 0}
    for part in told:
        monkeypatch.setattr(part, "say", _counted(told, part))
    monkeypatch.setattr(time, "monotonic", lambda: at)

    def wait(self: Serving, longest: float) -> None:
        nonlocal at
        if longest > 0.0 or self._is_owed:
            at += REPORT_PERIOD_S / 10
            if at > 1000.0 + 3.5 * REPORT_PERIOD_S:
                raise Stopped
            self._is_owed = self._is_reporting = True

    _serve(host, wait)
    assert told[SessionReports] == 4
    assert told[OrdersTold] >= 35


def _counted(told: dict[Any, int], part: type[Any]) -> Callable[[Any, object], Iterator[list[int]]]:
    def say(self: object, connection: object) -> Iterator[list[int]]:
        told[part] += 1
        yield from ()

    return say
