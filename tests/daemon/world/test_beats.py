"""All who wake in the same period wake at the same moments."""

import anyio
import pytest

from runward.daemon.world.clock import until_beat


@pytest.mark.parametrize(
    ("now", "period", "left"),
    [(10.25, 1.0, 0.75), (10.25, 5.0, 4.75), (11.0, 1.0, 1.0), (10.9999, 1.0, 1.0)],
    ids=["a second", "five seconds", "at the moment itself", "a timer that fired a hair early"],
)
def test_a_wait_ends_at_the_next_moment_of_its_period(
    monkeypatch: pytest.MonkeyPatch, now: float, period: float, left: float
) -> None:
    monkeypatch.setattr(anyio, "current_time", lambda: now)
    assert until_beat(period) == pytest.approx(left)
