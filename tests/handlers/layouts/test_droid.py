"""What only Droid does: a record ends each turn, and messages of the user's role are mostly not the user's."""

from typing import Final

import pytest
from tests.handlers.layouts.droid_lines import NAME, SESSION, Log
from tests.handlers.layouts.pi_lines import BEGAN
from tests.handlers.layouts.test_conversations import AGENTS

from runward.config.json_value import JsonValue
from runward.handlers.layouts.droid import LOG

DROID = AGENTS["droid"]

ENDS: Final[dict[str, tuple[JsonValue, str | None]]] = {
    "well": ("completed", "run.completed.ok"),
    "with a plan for another session": ("spec_handoff", "run.completed.ok"),
    "by a person": ("cancelled", "run.aborted.user"),
    "by the model's provider": ("model_rate_limited", "run.failed.api_error"),
    "without a permission": ("permission_rejected", "run.failed.exception"),
    "by its process": ("process_exit", "run.failed.exception"),
    "in a way that is not known yet": ("flooded", "run.failed.exception"),
    "by something else than a word": (["completed"], None),
    "by nothing": ("", None),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_outcome_says_how_the_turn_ended(name: str) -> None:
    reason, wanted = ENDS[name]
    found = DROID.told(Log().prompt().reply({"type": "text", "text": "Done."}).outcome(reason).lines())
    assert (None if found.close is None else found.close.reason_code) == wanted
    assert found.turn == ("open" if wanted is None else "closed")


def test_a_reply_alone_ends_nothing() -> None:
    assert DROID.told(Log().prompt().reply({"type": "text", "text": "Done."}).lines()).turn == "open"


def test_what_hooks_and_droid_say_is_no_prompt_and_ends_no_turn() -> None:
    log = Log().hook("SessionStart").prompt().say().hook("SessionEnd")
    log.message("user", [{"type": "text", "text": "a notice"}], visibility="user_only")
    log.message("user", "a reminder", visibility="llm_only")
    found = DROID.told(log.lines())
    assert (found.turn, found.turns, found.prompt) == ("closed", 1, "make a file")
    last = [said for line in log.lines() if (said := LOG.message_in(line)) is not None][-2:]
    assert [(each.role, each.text) for each in last] == [("system", "a notice"), ("system", "a reminder")]
    assert LOG.final_message(reversed(log.lines())) == "Done."


def test_a_prompt_may_be_a_text() -> None:
    log = Log()
    log.message("user", "make a file", visibility="both")
    assert (DROID.told(log.lines()).turn, DROID.told(log.lines()).prompt) == ("open", "make a file")


def test_a_resumed_session_goes_on_in_its_file() -> None:
    log = Log().prompt().say().hook("SessionEnd").hook("SessionStart").prompt("go on")
    assert (DROID.told(log.lines()).turn, DROID.told(log.lines()).turns) == ("open", 2)
    found = DROID.told(log.say().lines())
    assert (found.turn, found.turns, found.prompt) == ("closed", 2, "make a file")


def test_an_end_is_as_old_as_the_last_record_with_a_time() -> None:
    found = DROID.told(Log().prompt().say().lines())
    assert found.close is not None
    assert found.close.at == found.moved_at == BEGAN + 2


def test_a_sub_agents_session_is_not_one_of_its_own() -> None:
    assert not DROID.told(Log().prompt().lines()).is_subagent
    assert DROID.told(Log(callingSessionId="other", callingToolUseId="call_1").prompt().lines()).is_subagent
    assert DROID.told(Log().prompt().call(tool="Task").call("call_2").lines()).counts.subagents == 1


def test_a_fork_names_its_origin() -> None:
    assert DROID.told(Log(parent="origin").prompt().lines()).parent_session_id == "origin"


UNREADABLE: Final[dict[str, JsonValue]] = {
    "no content": None,
    "a number": 7,
    "parts of another type": [7],
    "a result without a call": [{"type": "tool_result", "content": "fine"}],
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_message_that_cannot_be_read_completes_nothing(name: str) -> None:
    log = Log().prompt().call()
    log.message("user", UNREADABLE[name])
    assert DROID.told(log.lines()).turn == "open"


@pytest.mark.parametrize(
    "record",
    [
        '{"type":"session_start"}',
        '{"type":"session_start","id":7,"title":"t","owner":"o"}',
        f'{{"type":"session","id":"{SESSION}","title":"t","owner":"o"}}',
        f'{{"type":"user","sessionId":"{SESSION}","uuid":"u","message":{{"role":"user","content":"hi"}}}}',
    ],
)
def test_a_log_that_does_not_begin_with_its_id_is_another_tools(record: str) -> None:
    assert not DROID.recognises(NAME, record.encode() + b"\n")
