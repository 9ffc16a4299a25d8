"""Cron expressions mean what Debian's cron means by them: a table from the field, and one of the times that cronsim gives."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.schedule import CronError, parse_cron

ZONES = (
    *("Europe/Riga", "America/New_York", "Europe/London", "Asia/Kathmandu", "America/Sao_Paulo"),
    *("Africa/Casablanca", "Asia/Tehran", "Pacific/Apia", "America/Havana", "UTC"),
)
EXPRESSIONS = (
    *("0 3 * * *", "15 3 * * *", "0 1-5 * * *", "0 1,2,3,4,5 * * *", "30 1,2 * * *", "0 * * * *"),
    *("*/15 * * * *", "* 1-6 * * *", "0 */2 * * *", "*/20 2 * * *", "30 1 * * *", "0 0 13 * 5"),
    *("0 0 */2 * 1", "0 0 29 2 *", "30 23 * * 0", "0 2,3 1-7 * */7", "59 23 31 * *", "0 0 1 1 *"),
    *("0 12 * jan-mar mon-fri", "5 4 * * sun", "0 0 * * 7", "*/100,30 2 * * *"),
)


def times(expression: str, zone: str, first: datetime, last: datetime) -> Iterator[float]:
    cron, moment = parse_cron(expression), first.timestamp()
    while (found := cron.next_after(moment, ZoneInfo(zone))) is not None and found < last.timestamp():
        yield found
        moment = found


TIMES: Final = [
    tuple(line.split(" | "))
    for line in Path(__file__).with_name("cron_times.txt").read_text().splitlines()
    if not line.startswith("#")
]


def minutes(text: str) -> Iterator[int]:
    """The minutes of a row of the table."""
    for run in text.split():
        first, _, rest = run.partition("-")
        last, _, step = rest.partition("/")
        yield from range(int(first), int(last or first) + 1, int(step or 1))


def test_the_table_has_every_expression_in_every_zone() -> None:
    assert {(zone, expression) for zone, expression, *_ in TIMES} == {
        (zone, expression) for zone in ZONES for expression in EXPRESSIONS
    }


@pytest.mark.parametrize("zone", ZONES)
def test_every_night_in_which_the_clock_is_set_is_as_cronsim_has_it(zone: str) -> None:
    for _, expression, begin, end, text in (row for row in TIMES if row[0] == zone):
        first, last = (datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)) for day in (begin, end))
        expected = [first.timestamp() + 60 * minute for minute in minutes(text)]
        assert list(times(expression, zone, first, last)) == expected, f"{expression} from {begin}"


@pytest.mark.parametrize(
    ("expression", "zone", "night", "at"),
    [
        ("0 3 * * *", "Europe/Riga", "2026-10-25", ["03:00+03:00"]),
        ("0 3 * * *", "Europe/Riga", "2026-03-29", ["04:00+03:00"]),
        ("15,45 3 * * *", "Europe/Riga", "2026-03-29", ["04:00+03:00"]),
        ("*/30 3 * * *", "Europe/Riga", "2026-10-25", ["03:00+03:00", "03:30+03:00", "03:00+02:00", "03:30+02:00"]),
        ("*/30 3 * * *", "Europe/Riga", "2026-03-29", []),
        ("0 */2 * * *", "America/New_York", "2026-03-08", ["00:00-05:00", "04:00-04:00"]),
        ("0 2 * * *", "Australia/Lord_Howe", "2026-04-05", ["02:00+10:30"]),
    ],
)  # fmt: skip
def test_a_night_in_which_the_clock_is_set(expression: str, zone: str, night: str, at: list[str]) -> None:
    first = datetime.fromisoformat(f"{night}T00:00").replace(tzinfo=ZoneInfo(zone))
    found = times(expression, zone, first.replace(second=0), first.replace(hour=5))
    begun = [first.timestamp()] if expression.startswith("0 */2") else []
    shown = [datetime.fromtimestamp(each, ZoneInfo(zone)).isoformat()[11:] for each in (*begun, *found)]
    assert [each[:5] + each[8:] for each in shown] == at


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("R * * * *", "'r' is not understood in the minute", 0),
        ("H 3 * * *", "'h' is not understood in the minute", 0),
        ("0 5-1 * * *", "'5-1' is a reversed range in the hour", 2),
        ("* * * * * *", "has 6 fields, not five", 0),
        ("0 0 L * *", "'l' is not understood in the day of the month", 4),
        ("0 0 15W * *", "'15w' is not understood", 4),
        ("0 0 * * mon#1", "'mon#1' is not understood", 8),
        ("? * * * *", "'?' is not understood", 0),
        ("1,60 * * * *", "'60' is not in the minute: 0 to 59", 2),
        ("0 0 0 * *", "'0' is not in the day of the month", 4),
        ("0 0 * foo *", "'foo' is not in the month", 6),
        ("*/0 * * * *", "has a step of 0", 0),
        ("1/5 * * * *", "has a step without a range", 0),
        ("@reboot", "is not one of @hourly", 0),
        ("", "has 0 fields", 0),
    ],
)
def test_what_is_random_reversed_or_impossible_is_refused_with_its_place(
    text: str, message: str, at: int
) -> None:
    with pytest.raises(CronError, match=message.replace("?", r"\?")) as refused:
        parse_cron(text)
    assert refused.value.at == at


def test_a_day_that_never_comes_is_never_due() -> None:
    assert parse_cron("0 0 30 2 *").next_after(0.0, ZoneInfo("UTC")) is None
    leap = parse_cron("0 0 29 2 */7").next_after(datetime(2026, 1, 1).timestamp(), ZoneInfo("UTC"))  # noqa: DTZ001
    assert leap is not None
    assert datetime.fromtimestamp(leap, ZoneInfo("UTC")).date().isoformat() == "2032-02-29"


@given(
    st.sampled_from(EXPRESSIONS),
    st.sampled_from(ZONES),
    st.floats(0.0, 4e9, allow_nan=False),
)
def test_the_next_time_is_later_and_none_lies_between(expression: str, zone: str, moment: float) -> None:
    cron = parse_cron(expression)
    found = cron.next_after(moment, ZoneInfo(zone))
    assert found is not None
    assert found > moment
    assert cron.next_after((moment + found) / 2, ZoneInfo(zone)) in (
        found,
        cron.next_after(found, ZoneInfo(zone)),
    )
    assert cron.next_after(found - 0.5, ZoneInfo(zone)) == found
