"""Prices that were looked up once are kept for the next command, as long as the library's data are the same."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.daemon.prices.kept import FILE, KeptPrices
from runward.daemon.prices.list_prices import list_price
from runward.daemon.prices.price import Listed
from runward.handlers.usage.counting import SIZES


def hour(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp() // 3600)  # type: ignore[arg-type,misc] # year, month, day, hour


NOW = hour(2026, 11, 26, 10)
OPUS = ("claude-opus-4-8", "standard", 0, NOW)


def kept(state: Path) -> Listed:
    """The price that a first command looked up, in the file for the next one."""
    prices = KeptPrices(str(state))
    assert prices.find(*OPUS) is None
    found = prices.look_up(*OPUS)
    prices.keep()
    return found


def test_the_next_command_finds_what_this_one_looked_up(tmp_path: Path) -> None:
    found = kept(tmp_path)
    again = KeptPrices(str(tmp_path))
    assert (again.find(*OPUS), again.source) == (found, "genai-prices")
    assert again.find("claude-opus-4-8", "fast", 0, NOW) is None
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_that_a_model_has_no_price_is_kept_too(tmp_path: Path) -> None:
    prices = KeptPrices(str(tmp_path))
    assert prices.look_up("mock-model", "standard", 0, NOW) == Listed(None)
    prices.keep()
    assert KeptPrices(str(tmp_path)).find("mock-model", "standard", 0, NOW) == Listed(None)


def test_a_command_with_kept_prices_does_not_load_the_library(tmp_path: Path) -> None:
    kept(tmp_path)
    program = (
        "import sys; from runward.daemon.prices.kept import KeptPrices\n"
        f"assert KeptPrices({str(tmp_path)!r}).find(*{OPUS!r}).price is not None\n"
        "assert 'genai_prices' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def other_data(content: dict[str, object]) -> None:
    content["data"] = ["/elsewhere/data.py", 1, 1, 1, 1, 1]


def torn_price(content: dict[str, object]) -> None:
    content["prices"] = [
        {"model": "claude-opus-4-8", "speed": "standard", "size": 0, "usd_per_million": ["x"]}
    ]


def no_prices(content: dict[str, object]) -> None:
    del content["prices"]


@pytest.mark.parametrize("change", [other_data, torn_price, no_prices])
def test_a_file_of_another_library_or_with_a_fault_is_written_anew(
    tmp_path: Path, change: Callable[[dict[str, object]], None]
) -> None:
    kept(tmp_path)
    content = json.loads((tmp_path / FILE).read_text())
    change(content)
    (tmp_path / FILE).write_text(json.dumps(content))
    kept(tmp_path)
    assert KeptPrices(str(tmp_path)).find(*OPUS) is not None


def test_a_file_that_is_no_json_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b'{"source": \xff')
    found = kept(tmp_path)
    assert KeptPrices(str(tmp_path)).find(*OPUS) == found


def test_where_nothing_can_be_written_prices_are_looked_up_each_time(tmp_path: Path) -> None:
    assert kept(tmp_path / "nowhere").price is not None


def test_ever_new_models_don_t_make_it_grow_without_bound(tmp_path: Path) -> None:
    prices = KeptPrices(str(tmp_path))
    for number in range(1_200):
        prices.look_up(f"invented-{number}", "standard", 0, NOW)
    prices.look_up("x" * 1_000_000, "standard", 0, NOW)
    prices.keep()
    assert os.path.getsize(tmp_path / FILE) < 100_000


HOURS = st.integers(hour(2024, 1, 1, 0), hour(2027, 1, 1, 0))
MODELS = ("o3", "claude-opus-4-8", "gpt-5-codex", "gemini-2.5-pro", "deepseek-chat", "mock-model")


@given(st.sampled_from(MODELS), st.sampled_from(["standard", "fast"]), st.sampled_from(SIZES), HOURS, HOURS)
def test_a_price_is_that_of_all_hours_for_which_it_holds(
    model: str, speed: str, size: int, one: int, other: int
) -> None:
    listed = list_price(model, speed, size, one)
    assert listed.holds(one)
    if listed.holds(other):
        assert list_price(model, speed, size, other) == listed


def test_a_price_that_changed_holds_until_that_day() -> None:
    change = hour(2025, 6, 10, 0)
    before, after = (list_price("o3", "standard", 0, at) for at in (change - 1, change))
    assert (before.until, after.since) == (change, change)
    assert before.price != after.price


def test_a_price_by_the_time_of_day_is_that_of_each_hour(tmp_path: Path) -> None:
    prices = KeptPrices(str(tmp_path))
    day, night = (hour(2025, 8, 1, at) for at in (12, 20))
    dear, cheap = (prices.look_up("deepseek-chat", "standard", 0, at).price for at in (day, night))
    assert dear is not None
    assert cheap is not None
    assert cheap.output < dear.output
    assert [prices.find("deepseek-chat", "standard", 0, at) for at in (day + 1, night + 1)] == [None, None]
