"""Progress: on a terminal, after a while, and gone at the end."""

import io
import sys

import pytest

from runward.daemon.cli.terminal import live as shown
from runward.daemon.cli.terminal.live import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(shown, "time", clock)
    return clock


def test_long_work_is_counted_in_place_and_the_line_is_taken_away(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress() as reading:
        for _ in range(1100):
            clock.now += 1 / 1024
            reading.session()
        assert terminal.getvalue() == "\r\x1b[K1,024 sessions, 0 B read"
        clock.now = 2.0
        reading.read(3 << 20)
        assert terminal.getvalue().endswith("\r\x1b[K1,100 sessions, 3.0 MB read")
    assert terminal.getvalue().endswith("read\r\x1b[K")


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress() as reading:
        reading.session()
    assert terminal.getvalue() == ""


def test_where_nobody_looks_nothing_is_shown(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with progress() as reading:
        clock.now = 100.0
        reading.session()
    assert pipe.getvalue() == ""
