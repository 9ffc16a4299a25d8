"""What only Kimi does: one record ends a turn, a reply is several records, and reminders are written as messages of the user."""

import pytest
from tests.handlers.layouts.kimi_lines import Log
from tests.handlers.layouts.test_conversations import AGENTS

from runward.config.json_value import JsonValue

KIMI = AGENTS["kimi"]


def test_only_the_turns_own_end_ends_it() -> None:
    log = Log().prompt().say()
    end = log.records.pop()
    log.event("step.end", uuid="u3", finishReason="end_turn").put("prompt.completed", reason="completed")
    log.put("agent.turn.ended", turnId=0, outcome="done", kind="event")
    assert KIMI.told(log.lines()).turn == "open"
    log.records.append(end)
    assert KIMI.told(log.lines()).turn == "closed"


@pytest.mark.parametrize(
    ("reason", "told"),
    [("cancelled", "run.aborted.user"), ("failed", "run.failed.exception"), ("new", None), (7, None)],
)
def test_the_reason_of_the_end_decides(reason: str | int, told: str | None) -> None:
    close = KIMI.told(Log().prompt().put("turn.ended", turnId=0, reason=reason).lines()).close
    assert (None if close is None else close.reason_code) == told


def test_a_failed_turn_says_what_the_api_said() -> None:
    close = KIMI.told(Log().prompt().fail("400 mock 400").lines()).close
    assert close is not None
    assert "400 mock 400" in close.reason_summary


def test_a_reminder_is_no_prompt() -> None:
    reminder: JsonValue = {
        "role": "user",
        "content": [{"type": "text", "text": "Today"}],
        "origin": {"kind": "injection"},
    }
    log = Log().put("context.append_message", message=reminder).prompt("go").say()
    log.put("context.append_message", message=reminder)
    found = KIMI.told(log.lines())
    assert (found.prompt, found.turn, found.turns) == ("go", "closed", 1)


def test_a_resumed_session_has_a_further_turn() -> None:
    log = Log().prompt("first").say().put("profile.bind", modelAlias="mock").prompt("second")
    found = KIMI.told(log.lines())
    assert (found.prompt, found.turn, found.turns, found.cwd) == ("first", "open", 2, "/home/dev/app")


def test_a_delegated_task_is_counted() -> None:
    found = KIMI.told(Log().prompt().call(tool="Agent").result().say().lines())
    assert (found.counts.subagents, found.counts.tool_calls, found.usage) == (1, 1, (200, 20))
