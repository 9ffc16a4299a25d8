import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.duration import (
    DURATION_PATTERN,
    MAX_DURATION_S,
    DurationError,
    check_duration,
    parse_duration,
    render_duration,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("30 sec", 30),
        ("5min", 300),
        ("5m", 300),
        ("1h30m", 5400),
        ("1h 30min", 5400),
        ("1.5h", 5400),
        ("2d", 172_800),
        ("1w", 604_800),
        ("500ms", 0.5),
        ("1ms", 0.001),
        ("10us", 0.00001),
        ("10µs", 0.00001),
        ("1m30s", 90),
        ("1min1m", 120),
        ("2 days 3 hours 4 minutes 5 seconds", 183_845),
        (" 5s ", 5),
        ("36600d", MAX_DURATION_S),
        ("+5s", 5),
        ("1h +30min", 5400),
        (".5s", 0.5),
        ("+.25h", 900),
    ],
)
def test_a_duration_is_read_as_systemd_reads_it(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("90", "'90' has no unit"),
        ("1.5", "has no unit"),
        ("1h30", "is not a duration"),
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("3 months", "no fixed length"),
        ("1y", "no fixed length"),
        ("2M", "no fixed length"),
        ("5S", "is not a duration"),
        ("-5s", "is not a duration"),
        ("+-5s", "is not a duration"),
        (".s", "is not a duration"),
        ("1.s", "is not a duration"),
        ("1m 5.s", "is not a duration"),
        ("1..5s", "is not a duration"),
        ("5s\n", "is not a duration"),
        ("1hmin", "is not a duration"),
        ("1e3s", "is not a duration"),
        ("infinity", "is not a duration"),
        ("٣s", "is not a duration"),
        ("0s", "at least 1us"),
        ("0.0001us", "at least 1us"),
        ("36601d", "at most 36600d"),
        ("999999999999w", "at most 36600d"),
        ("1s" * 101, "202 characters long"),
    ],
)
def test_what_is_no_duration_is_refused_with_the_reason_and_a_fix(text: str, why: str) -> None:
    with pytest.raises(DurationError, match=re.escape(why)) as refused:
        parse_duration(text)
    assert refused.value.fix


@given(st.integers(1, int(MAX_DURATION_S * 1_000_000)))
def test_a_rendered_duration_reads_back_to_the_microsecond(microseconds: int) -> None:
    seconds = microseconds / 1_000_000
    assert parse_duration(render_duration(seconds)) == pytest.approx(seconds, abs=1e-7)


@pytest.mark.parametrize(
    ("seconds", "text"), [(90, "1min30s"), (0.5, "500ms"), (0, "0s"), (86400, "1d"), (0.001005, "1ms5us")]
)
def test_a_duration_is_rendered_with_the_largest_units_first(seconds: float, text: str) -> None:
    assert render_duration(seconds) == text


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_what_is_no_duration_is_not_rendered(seconds: float) -> None:
    with pytest.raises(DurationError):
        render_duration(seconds)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), MAX_DURATION_S + 1])
def test_a_number_out_of_bounds_is_no_duration(seconds: float) -> None:
    with pytest.raises(DurationError):
        check_duration(seconds)


@given(st.text(alphabet="0123456789.smhdinw u\n", max_size=12) | st.text())
def test_any_text_is_a_duration_or_refused_and_the_pattern_agrees(text: str) -> None:
    try:
        parse_duration(text)
    except DurationError as error:
        agrees = "must be" in str(error) or not re.fullmatch(DURATION_PATTERN[1:-1], text) or len(text) > 200
    else:
        agrees = re.search(DURATION_PATTERN, text) is not None
    assert agrees
