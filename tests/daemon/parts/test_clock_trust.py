"""What the clock says is believed once its word has been of one piece for a while."""

from pathlib import Path

import pytest
from tests.daemon.in_process import StillClock

from runward.daemon.parts.retention import CLOCK, ClockTrust, Doubt, Noted, noted, patience

DAY = 86_400.0


@pytest.mark.parametrize(
    ("retention", "seconds"), [(365 * DAY, 7 * DAY), (28 * DAY, 7 * DAY), (4 * DAY, DAY), (40.0, 10.0)]
)
def test_a_leap_that_is_believed_loses_at_most_a_quarter(retention: float, seconds: float) -> None:
    assert patience(retention) == seconds


@pytest.mark.parametrize(
    ("before", "now", "after"),
    [
        (None, 50.0, Noted(50.0, 50.0)),
        (Noted(0.0, 50.0), 55.0, Noted(0.0, 55.0)),
        (Noted(0.0, 50.0), 45.0, Noted(0.0, 50.0)),
        (Noted(0.0, 50.0), 61.0, Noted(61.0, 61.0, 50.0)),
        (Noted(0.0, 50.0), 39.0, Noted(39.0, 39.0)),
        (Noted(61.0, 62.0, 50.0), 99.0, Noted(99.0, 99.0, 50.0)),
        (Noted(61.0, 75.0, 50.0), 99.0, Noted(99.0, 99.0, 75.0)),
    ],
)
def test_what_is_noted(before: Noted | None, now: float, after: Noted) -> None:
    assert noted(before, now, 10.0) == after


@pytest.mark.parametrize(
    "content", [None, b"", b"rubbish", b'{"since": 1}', b"[1e999, 2, null]", b"[[], 1, 1]"]
)
def test_a_note_that_is_not_there_or_none_has_the_clock_believed_after_a_while(
    tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / CLOCK).write_bytes(content)
    clock = StillClock()
    now = clock.wall
    assert ClockTrust(tmp_path, clock).doubt(28 * DAY) == Doubt(None, now + 7 * DAY)
    clock.move(6 * DAY)
    assert ClockTrust(tmp_path, clock).doubt(28 * DAY) == Doubt(None, now + 7 * DAY)
    clock.move(DAY)
    assert ClockTrust(tmp_path, clock).doubt(28 * DAY) is None
    assert (tmp_path / CLOCK).stat().st_mode & 0o777 == 0o600
