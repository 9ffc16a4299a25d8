"""What only Qwen Code does: a tool that a person cancels ends the turn."""

from tests.handlers.layouts.qwen_lines import Log
from tests.handlers.layouts.test_conversations import AGENTS

from runward.handlers.layouts.qwen import LOG

QWEN = AGENTS["qwen"]


def test_a_cancelled_tool_ends_the_turn_until_something_follows() -> None:
    cancelled = Log().prompt().call().result(failed=True, status="cancelled")
    close = QWEN.told(cancelled.lines()).close
    assert close is not None
    assert close.reason_code == "run.aborted.user"
    assert QWEN.told(cancelled.prompt("go on").lines()).turn == "open"
    assert QWEN.told(cancelled.say().lines()).turn == "closed"


def test_a_thought_is_no_message() -> None:
    (line,) = Log().say("Bye.").lines()
    said = LOG.message_in(line)
    assert said is not None
    assert said.text == "Bye."
