"""Random histories of several principals, through the real handlers and a real store, against the plain rules.

The plain rules say what must come of each action, what everybody holds afterwards, and who owns what.
"""

from collections import Counter
from typing import Final

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from tests.daemon.exchange.histories import BEGINNING, Act, Round, act, histories
from tests.daemon.exchange.playing import play

MET: Final = {
    None,
    "not_found",
    "not_authorized",
    "insufficient_funds",
    "quota_exceeded",
    "invalid_argument",
    "invalid_type",
    "runtime_error",
    "DELETED",
    "rate_limited",
    "not_configured",
}
"""What becomes of actions in many histories: success, or a refusal with one of these codes."""

NEW_Z: Final = {"action_type": "write_artifact", "artifact_id": "z"}


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(histories(4))
def test_what_comes_of_each_action_is_what_the_rules_say(rounds: list[Round]) -> None:
    anyio.run(play, rounds)


@pytest.mark.sweep
@pytest.mark.longest
@pytest.mark.timeout(900)
def test_a_thousand_histories_follow_the_rules_and_meet_all_kinds_of_refusals() -> None:
    met: Counter[str | None] = Counter()

    @settings(max_examples=1000, suppress_health_check=list(HealthCheck))
    @given(histories(4))
    def one(rounds: list[Round]) -> None:
        met.update(anyio.run(play, rounds))

    one()
    assert set(met) == MET


FOUND: Final = {
    "who pays the mint's account would destroy scrip": (
        act("c", False, artifact_id="mint", action_type="write_artifact"),
        act(
            "b",
            False,
            action_type="invoke_artifact",
            artifact_id="genesis_ledger",
            method="transfer",
            args=["b", "mint", 5],
        ),
    ),
    "a principal that its first action makes is one of all principals": (
        act(
            "d",
            True,
            action_type="invoke_artifact",
            artifact_id="genesis_store",
            method="list_principals",
            args=[],
        ),
    ),
    "an artifact can't depend on a genesis artifact that does not exist": (
        act("c", False, **NEW_Z, depends_on=["genesis_none"]),
        act("c", False, **NEW_Z, depends_on=["genesis_store"]),
    ),
    "two invocations that are decided together share one window of CPU time": (
        act("c", False, **NEW_Z, executable=True, price=0, code="succeed 2"),
        act("c", False, action_type="invoke_artifact", artifact_id="x", method="run"),
        act("c", False, action_type="invoke_artifact", artifact_id="z", method="run"),
    ),
    "code that ran is charged though its artifact was deleted meanwhile": (
        act("c", False, action_type="invoke_artifact", artifact_id="x", method="run"),
        act("a", True, action_type="delete_artifact", artifact_id="x"),
    ),
}
"""Histories that once broke a rule."""


@pytest.mark.parametrize("found", FOUND.values(), ids=FOUND)
async def test_what_once_broke_a_rule_no_longer_does(found: tuple[Act, ...]) -> None:
    await play([BEGINNING, ([], list(found), 1.0)])
