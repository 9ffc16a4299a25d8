"""By what a daemon is known to be alive, and that it gives the sign."""

import json
from pathlib import Path

import pytest
from tests.daemon.in_process import StillClock, ToldProcesses, daemon

from runward.daemon.host import report
from runward.daemon.host.report import Report, read_report
from runward.daemon.views.daemon_report import BEAT, STALLED_AFTER, stalled_s


@pytest.mark.parametrize(
    ("told_at", "now", "silent"),
    [
        (None, 1000.0, None),
        (1000.0, 1000.0, None),
        (1000.0, 1000.0 + STALLED_AFTER, None),
        (1000.0, 1000.5 + STALLED_AFTER, STALLED_AFTER + 0.5),
        (2000.0, 1000.0, None),
    ],
)
def test_a_daemon_that_told_nothing_for_long_is_stalled(
    told_at: float | None, now: float, silent: float | None
) -> None:
    assert stalled_s(told_at, now) == silent


def test_a_few_signs_may_be_late_before_a_daemon_counts_as_stalled() -> None:
    assert STALLED_AFTER > 3 * BEAT


async def test_a_daemon_tells_of_itself_again_though_nothing_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as started:
        monkeypatch.setattr(report, "BEAT", 1e9)
        tell = started.supervisor.reporting.tell
        await tell()
        first = read_report(started.state)
        await tell()
        assert read_report(started.state) == first
        assert _told_at(started.state) == _of(first)
        monkeypatch.setattr(report, "BEAT", 0.0)
        await tell()
        again = read_report(started.state)
        assert again == first, "nothing else is new"
        assert _of(again) > _of(first)


def _told_at(state: Path) -> float:
    value: float = json.loads((state / "status.json").read_text())["told_at"]
    return value


def _of(report: Report | None) -> float:
    assert report is not None
    assert report.told_at is not None
    return report.told_at
