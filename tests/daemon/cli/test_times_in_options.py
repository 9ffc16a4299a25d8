"""Moments and durations as people write them in options."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.daemon.cli.calling import Place

from runward.daemon.cli.terminal.options import MomentError, parse_moment

NOW = datetime(2026, 3, 10, 12, 30, tzinfo=UTC).timestamp()


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time is an hour ahead of UTC."""
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("30min", NOW - 1800),
        ("1h30m", NOW - 5400),
        ("-2h", NOW - 7200),
        ("2 hours ago", NOW - 7200),
        ("today", NOW - 13.5 * 3600),
        ("Yesterday", NOW - 37.5 * 3600),
        ("@1700000000", 1700000000.0),
        ("2026-03-10T12:00:00Z", NOW - 1800),
        ("2026-03-10T14:00:00+02:00", NOW - 1800),
        ("2026-03-10 13:00", NOW - 1800),
        ("2026-03-10", NOW - 13.5 * 3600),
    ],
)
def test_a_moment_may_be_written_in_many_ways(text: str, expected: float) -> None:
    assert parse_moment(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "soon", "90", "2026-13-01", "@", "@-5", "1 month", "\x1b[2J"])
def test_what_is_no_moment_is_refused_with_examples(text: str) -> None:
    with pytest.raises(MomentError, match="is not a time: write how long ago"):
        parse_moment(text, NOW)


@given(st.text(max_size=30))
def test_whatever_is_written_it_is_a_moment_or_refused(text: str) -> None:
    try:
        moment = parse_moment(text, NOW)
    except MomentError:
        return
    assert isinstance(moment, float)


def test_a_wrong_moment_on_the_command_line_is_wrong_usage(recorded: Place) -> None:
    told = recorded.call("session", "list", "--since", "soon")
    assert told.code == 2
    assert "Invalid value for '--since': 'soon' is not a time" in told.err
    assert told.err.count("\n") == 1


def test_a_wrong_duration_on_the_command_line_is_wrong_usage(recorded: Place) -> None:
    told = recorded.call("queue", "retry", "1", "--timeout", "90")
    assert told.code == 2
    assert "'90' has no unit" in told.err
