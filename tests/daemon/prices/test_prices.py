"""Sums of replies cost what the replies cost one by one, as the library prices them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices import Usage, calc_price
from hypothesis import given
from hypothesis import strategies as st

from runward.config.prices import ModelPrice
from runward.daemon.prices.kept import KeptPrices
from runward.daemon.prices.pricing import Prices
from runward.handlers.usage.counting import Counted, add, counted

AT = datetime(2026, 11, 26, 10, tzinfo=UTC).timestamp()
MODELS = ("claude-opus-4-8", "claude-sonnet-4-5", "gpt-5-codex", "gpt-5.4", "gemini-2.5-pro")


def reply(
    model: str,
    speed: str,
    fresh: int,
    read: int,
    five: int,
    hour: int,
    output: int,
    reported: int | None = None,
) -> Counted:
    return counted(
        AT,
        model,
        speed,
        fresh_input=fresh,
        cache_read=read,
        cache_write_5m=five,
        cache_write_1h=hour,
        output=output,
        reported_nanousd=reported,
    )


def by_the_library(one: Counted) -> Decimal:
    """What a single reply costs."""
    written = one.cache_write_5m + one.cache_write_1h
    usage = Usage(
        input_tokens=one.fresh_input + one.cache_read + written,
        cache_read_tokens=one.cache_read,
        cache_write_tokens=written,
        cache_write_1h_tokens=one.cache_write_1h,
        output_tokens=one.output,
    )
    at = datetime.fromtimestamp(one.hour * 3600, UTC)
    return calc_price(
        usage, one.model, genai_request_timestamp=at, price_context={"speed": one.speed}
    ).total_price


def by_itself(one: Counted) -> Decimal:
    """What a single reply costs: what the agent reported, else what the library says."""
    reported = one.reported_nanousd
    return by_the_library(one) if reported is None else Decimal(reported) / 10**9


def added(replies: Iterable[Counted]) -> list[Counted]:
    sums: list[Counted] = []
    for one in replies:
        add(sums, one)
    return sums


def cost(replies: Iterable[Counted], own: tuple[ModelPrice, ...] = ()) -> Decimal | None:
    prices, total = Prices(own, KeptPrices("/nowhere")), Decimal(0)
    for each in added(replies):
        priced = prices.cost(each)
        if priced is None:
            return None
        total += priced
    return total


@pytest.mark.parametrize(
    ("model", "speed", "tokens", "dollars"),
    [
        ("claude-opus-4-8", "standard", (1000, 0, 0, 0, 0), "0.005"),
        ("claude-opus-4-8", "standard", (0, 1000, 0, 0, 0), "0.0005"),
        ("claude-opus-4-8", "standard", (0, 0, 1000, 0, 0), "0.00625"),
        ("claude-opus-4-8", "standard", (0, 0, 0, 1000, 0), "0.01"),
        ("claude-opus-4-8", "standard", (0, 0, 0, 0, 1000), "0.025"),
        ("claude-opus-4-8", "fast", (1000, 0, 0, 0, 1000), "0.06"),
        ("claude-sonnet-4-5", "standard", (200_000, 0, 0, 0, 0), "0.6"),
        ("claude-sonnet-4-5", "standard", (200_001, 0, 0, 0, 0), "1.200006"),
        ("claude-sonnet-4-5", "standard", (1, 200_000, 0, 0, 1000), "0.142506"),
        ("gpt-5.4", "standard", (272_000, 0, 0, 0, 0), "0.68"),
        ("gpt-5.4", "standard", (272_001, 0, 0, 0, 0), "1.360005"),
        ("gpt-5-codex", "standard", (0, 1000, 1000, 0, 0), "0.001375"),
    ],
)
def test_each_kind_of_token_has_its_price(
    model: str, speed: str, tokens: tuple[int, int, int, int, int], dollars: str
) -> None:
    one = reply(model, speed, *tokens)
    assert cost([one]) == Decimal(dollars) == by_the_library(one)


TOKENS = st.sampled_from([0, 1, 3, 1_000, 120_000, 199_999, 272_001])


REPLY = st.builds(
    reply,
    st.sampled_from(MODELS),
    st.sampled_from(["standard", "fast"]),
    *[TOKENS] * 5,
    st.sampled_from([None, None, 0, 1, 7_000_000]),
)


@given(st.lists(st.tuples(REPLY, st.integers(0, 2)), max_size=12))
def test_a_sum_costs_what_its_replies_cost_in_whatever_groups_they_are_added(
    replies: list[tuple[Counted, int]],
) -> None:
    """Some have a cost that the agent reported, others in the same sum have none: those are not free."""
    one_by_one = sum((by_itself(one) for one, _ in replies), Decimal(0))
    assert cost(one for one, _ in replies) == one_by_one
    groups = [added(one for one, group in replies if group == wanted) for wanted in range(3)]
    assert cost(each for group in groups for each in group) == one_by_one


@given(st.lists(REPLY, max_size=6))
def test_what_is_taken_back_leaves_nothing(replies: list[Counted]) -> None:
    assert added([*replies, *(one.minus() for one in replies)]) == []


def test_a_model_without_a_price_costs_nobody_knows_what() -> None:
    assert cost([reply("mock-model", "standard", 1, 0, 0, 0, 1)]) is None
    assert cost([reply("", "standard", 1, 0, 0, 0, 1)]) is None


def test_a_price_of_ones_own_wins_over_the_list_and_a_reported_cost_over_both() -> None:
    own = (ModelPrice("claude-opus-4-8", input=1.1, output=2.0, cache_write=3.0),)
    one = reply("claude-opus-4-8", "standard", 10, 100, 1000, 10_000, 100_000)
    expected = Decimal("1.1") * 110 + Decimal(3) * 11_000 + Decimal(2) * 100_000
    assert cost([one], own) == expected / 1_000_000
    assert cost([one._replace(reported_nanousd=5)], own) == Decimal("0.000000005")
