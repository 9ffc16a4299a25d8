"""Schedules: when they are due, and by how much a firing is put off."""

from datetime import UTC, datetime

import pytest

from runward.config.schedule import Schedule, ScheduleError, parse_times

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()


def test_a_period_is_counted_from_the_moment_at_which_it_was_first_read() -> None:
    times = parse_times("every 6h", "UTC")
    assert times.next_after(NOON, NOON) == NOON + 6 * 3600
    assert times.next_after(NOON + 5, NOON) == NOON + 6 * 3600
    assert times.next_after(NOON + 6 * 3600, NOON) == NOON + 12 * 3600
    assert times.next_after(NOON - 100, NOON) == NOON + 6 * 3600, "a clock that was set back"


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("at 2026-01-31T12:00", "UTC", NOON),
        ("at 2026-01-31T14:00", "Europe/Riga", NOON),
        ("at 2026-01-31 12:00:00Z", "Europe/Riga", NOON),
        ("at 2026-01-31T12:00+01:00", "UTC", NOON - 3600),
    ],
)
def test_a_moment_comes_once(text: str, zone: str, moment: float) -> None:
    times = parse_times(text, zone)
    assert times.next_after(moment - 1, 0.0) == moment
    assert times.next_after(moment, 0.0) is None


@pytest.mark.parametrize(
    ("text", "at"),
    [("every 6", 6), ("every 1ms", 6), ("at noon", 3), ("at 2026-02-30T12:00", 3), ("0 5-1 * * *", 2), ("soon", 0), ("at 9999-12-31T23:59", 3), ("at 0001-01-01T00:00", 3),
     ("at 9999-12-31T23:59-23:59", 3), ("at 1969-12-31T23:59Z", 3)],
)  # fmt: skip
def test_what_says_no_times_is_refused_with_its_place(text: str, at: int) -> None:
    for zone in ("UTC", "America/New_York", "Pacific/Kiritimati"):
        with pytest.raises(ScheduleError) as refused:
            parse_times(text, zone)
    assert refused.value.at == at
    assert refused.value.fix


def test_a_firing_is_put_off_by_the_same_seconds_each_time_and_never_past_the_next_one() -> None:
    schedule = Schedule(parse_times("every 1min", "UTC"), jitter=3600.0)
    found = [schedule.put_off("a", NOON + 60 * n, NOON + 60 * (n + 1)) for n in range(50)]
    assert all(0.0 <= each < 60.0 for each in found)
    assert len(set(found)) == 50
    assert found[7] == schedule.put_off("a", NOON + 420, NOON + 480)
    assert Schedule(parse_times("every 1min", "UTC")).put_off("a", NOON, None) == 0.0
