"""What only Qwen Code does: a tool that a person cancels ends the turn."""

from typing import Final

import pytest
from tests.handlers.layouts.qwen_lines import Log
from tests.handlers.layouts.test_conversations import AGENTS

from runward.config.json_value import JsonValue
from runward.handlers.layouts.qwen import LOG

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
