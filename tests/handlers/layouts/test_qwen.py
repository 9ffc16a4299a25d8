"""What only Qwen Code does: a tool that a person cancels ends the turn, and what sub-agents do is partly in the session's log."""

from typing import Final

import pytest
from tests.handlers.layouts.qwen_lines import Log
from tests.handlers.layouts.test_conversations import AGENTS

from runward.config.json_value import JsonValue
from runward.handlers.layouts.places import LogShape, shape_of
from runward.handlers.layouts.qwen import LOG
from runward.handlers.layouts.registry import LAYOUTS

QWEN = AGENTS["qwen"]


def test_a_cancelled_tool_ends_the_turn_until_something_follows() -> None:
    cancelled = Log().prompt().call().result(failed=True, status="cancelled")
    close = QWEN.told(cancelled.lines()).close
    assert close is not None
    assert close.reason_code == "run.aborted.user"
    assert QWEN.told(cancelled.prompt("go on").lines()).turn == "open"
    assert QWEN.told(cancelled.say().lines()).turn == "closed"


UNREADABLE: Final[dict[str, JsonValue]] = {
    "an empty call": [{"functionCall": {}}],
    "a call of another type": [{"functionCall": 7}],
    "a call that is null": [{"functionCall": None}, {"text": "Bye."}],
    "parts that are a text": "Bye.",
    "parts that are missing": None,
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_reply_whose_calls_cannot_be_read_leaves_the_turn_open(name: str) -> None:
    log = Log().prompt().say()
    parts = UNREADABLE[name]
    log.records[-1]["message"] = {"role": "model"} if parts is None else {"role": "model", "parts": parts}
    assert QWEN.told(log.lines()).turn == "open"


def test_a_thought_is_not_part_of_the_message() -> None:
    (line,) = Log().say("Bye.").lines()
    said = LOG.message_in(line)
    assert said is not None
    assert said.text == "Bye."


def test_a_sub_agent_is_counted_and_its_error_is_not_the_session_s() -> None:
    log = (
        Log().prompt().reply({"functionCall": {"id": "call_1", "name": "agent", "args": {"prompt": "look"}}})
    )
    log.result().fail()
    payload = log.records[-1]["systemPayload"]
    assert isinstance(payload, dict)
    event = payload["uiEvent"]
    assert isinstance(event, dict)
    event["subagent_id"] = "general-purpose-call_1"
    found = QWEN.told(log.lines())
    assert (found.turn, found.counts.subagents, found.counts.errors) == ("open", 1, 0)
    del event["subagent_id"]
    assert QWEN.told(log.lines()).turn == "closed"


def test_a_sub_agent_s_log_is_not_a_session() -> None:
    log = Log().prompt().say()
    assert not QWEN.told(log.lines()).is_subagent
    log.records[0]["isSidechain"] = True
    assert QWEN.told(log.lines()).is_subagent
    shape = shape_of(LAYOUTS.named("qwen"))
    assert isinstance(shape, LogShape)
    assert shape.place_of("work/chats/5d0f8a52.jsonl") is not None
    assert shape.place_of("work/subagents/5d0f8a52/agent-general-purpose-call_1.jsonl") is None
