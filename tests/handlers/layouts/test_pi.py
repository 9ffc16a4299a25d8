"""What only Pi does: forks that copy, replies that say why they stop, and its own prices."""

import pytest
from tests.handlers.layouts.pi_lines import NAME, SESSION, Log, written
from tests.handlers.layouts.placed import told as calls_told
from tests.handlers.layouts.test_conversations import AGENTS

from runward.config.json_value import JsonValue
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
    assert len(paid) == 2
    assert sum(paid) == pytest.approx(0.00016)


@pytest.mark.parametrize("key", ["parentSession", "branchedFrom"])
def test_a_fork_counts_what_it_did_itself(key: str) -> None:
    origin, parent = Log().prompt().call().result().say(), SESSION.replace("e814", "0000")
    header = Log(**{key: f"/home/dev/.pi/agent/sessions/--a--/2026_{parent}.jsonl"}).records[0]
    header["timestamp"] = "2026-11-26T10:17:00.000Z"
    own: dict[str, JsonValue] = {"type": "message", "timestamp": "2026-11-26T10:17:01.000Z"}
    used: JsonValue = {"input": 7, "output": 1}
    said: JsonValue = {"role": "assistant", "content": [], "stopReason": "stop", "usage": used}
    asked: JsonValue = {"role": "user", "content": "and now?"}
    records: list[dict[str, JsonValue]] = [
        header,
        *origin.records[1:],
        {**own, "id": "own1", "message": asked},
        {**own, "id": "own2", "message": said},
    ]
    found = PI.told(written(records))
    assert found.parent_session_id == parent
    assert (found.prompt, found.counts.tool_calls, found.usage) == ("and now?", 0, (7, 1))
    assert calls_told("pi", NAME, written(records)) == []
