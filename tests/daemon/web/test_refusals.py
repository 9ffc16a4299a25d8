"""What anybody can cause fills no log."""

from types import SimpleNamespace

import pytest

from runward.daemon.log import log_into
from runward.daemon.web import server
from runward.daemon.web.server import Refusals


def test_one_refusal_a_second_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.2)
    monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=lambda: clock.now))
    lines: list[dict[str, object]] = []
    said = Refusals(log_into(lines.append), "refused")
    for at in (0.2, 0.3, 1.1, 1.2, 1.3, 2.3):
        clock.now = at
        said.say(at=at)
    assert lines == [{"at": at, "event": "refused", "level": "info"} for at in (0.2, 1.2, 2.3)]
