"""What only Pi does: forks that copy, replies that say why they stop, and its own prices."""

import pytest
from tests.handlers.layouts.pi_lines import NAME, PARENT, USAGE, Log
from tests.handlers.layouts.placed import told as calls_told
from tests.handlers.layouts.test_conversations import AGENTS

from runward.handlers.calls import Paid

PI = AGENTS["pi"]


@pytest.mark.parametrize(
    ("stop", "reason"), [("aborted", "run.aborted.user"), ("length", "run.failed.limit_reached")]
)
def test_a_reply_says_why_it_stopped(stop: str, reason: str) -> None:
    close = PI.told(Log().prompt().reply(stop, {"type": "text", "text": "and"}).lines()).close
    assert close is not None
    assert close.reason_code == reason


def test_the_cost_is_what_pi_reports() -> None:
    (sums,) = PI.told(Log().prompt().call().result().say().lines()).counted
    assert (sums.replies, sums.reported_nanousd) == (2, 160_000)


def test_what_each_reply_cost_is_told_with_its_calls() -> None:
    lines = Log().prompt().call().result().say().lines()
    paid = [each.usd for each in calls_told("pi", NAME, lines) if isinstance(each, Paid)]
    assert paid == pytest.approx([0.00008, 0.00008])
    log = Log().prompt().reply("stop", usage={**USAGE, "cost": {"total": 0}})
    assert [each.usd for each in calls_told("pi", NAME, log.lines()) if isinstance(each, Paid)] == [None]


@pytest.mark.parametrize("key", ["parentSession", "branchedFrom"])
def test_a_fork_names_its_origin_in_one_of_two_ways(key: str) -> None:
    assert PI.told(Log().prompt().say().fork(key).lines()).parent_session_id == PARENT
