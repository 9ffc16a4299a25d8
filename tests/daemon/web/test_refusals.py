"""What anybody can cause fills no log."""

from types import SimpleNamespace

import pytest
from structlog.testing import CapturingLogger

from runward.daemon.web import server
from runward.daemon.web.server import Refusals


def test_one_refusal_a_second_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.2)
    monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=lambda: clock.now))
    log = CapturingLogger()
    said = Refusals(log, "refused")
    for at in (0.2, 0.3, 1.1, 1.2, 1.3, 2.3):
        clock.now = at
        said.say(at=at)
    assert [(call.method_name, call.args, call.kwargs["at"]) for call in log.calls] == [
        ("info", ("refused",), at) for at in (0.2, 1.2, 2.3)
    ]
