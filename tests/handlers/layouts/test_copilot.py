"""What only Copilot does: its program says that it shut down as usual, whatever happened, and sub-agents write into the log."""

import pytest
from tests.handlers.layouts.copilot_lines import PARENT, SESSION, Log
from tests.handlers.layouts.test_conversations import AGENTS

from runward.config.json_value import JsonValue

COPILOT = AGENTS["copilot"]


def test_an_error_counts_although_the_shutdown_is_routine() -> None:
    close = COPILOT.told(Log().prompt().fail().put("session.shutdown", shutdownType="routine").lines()).close
    assert close is not None
    assert close.reason_code == "run.failed.api_error"


@pytest.mark.parametrize("name", ["{}", '"make a file" ({})', f'"Forked from {SESSION}" ({{}})'])
def test_a_fork_says_where_it_comes_from(name: str) -> None:
    assert COPILOT.told(Log().prompt().say().fork(name).lines()).parent_session_id == PARENT


@pytest.mark.parametrize("said", [f"Forked this session into {PARENT}.", "Forked from here.", 7])
def test_what_else_is_said_about_forks_makes_none(said: JsonValue) -> None:
    log = Log().prompt().say().put("session.info", infoType="fork", message=said)
    found = COPILOT.told(log.lines())
    assert (found.parent_session_id, found.turn, found.usage) == (None, "closed", (100, 10))


def test_a_clock_that_is_set_back_makes_no_copies_of_what_follows() -> None:
    log = Log().prompt().say().prompt().call()
    for record in log.records[5:]:
        record["timestamp"] = "2026-11-26T10:15:00.000Z"
    found = COPILOT.told(log.lines())
    assert (found.turn, found.turns, found.counts.tool_calls, found.usage) == ("open", 2, 1, (200, 20))


def test_an_abort_ends_the_turn_and_the_end_of_a_models_call_does_not() -> None:
    log = Log().prompt().call().put("assistant.turn_end", turnId="0")
    assert COPILOT.told(log.lines()).turn == "open"
    close = COPILOT.told(log.put("abort", reason="user_abort").lines()).close
    assert close is not None
    assert close.reason_code == "run.aborted.user"


def test_what_a_sub_agent_does_is_its_own() -> None:
    log = Log().prompt().call().put("subagent.started")
    before = len(log.records)
    log.call("call_2").result("call_2").say("The sub-agent is done.")
    for record in log.records[before:]:
        record["agentId"] = "a1"
    found = COPILOT.told(log.result().say().lines())
    assert (found.counts.subagents, found.counts.tool_calls, found.usage) == (1, 1, (200, 20))
    assert [(each.replies, each.fresh_input, each.output) for each in found.counted] == [(4, 240, 40)]
    assert [each.id for each in COPILOT.calls(log.lines())] == ["call_1", "call_1"]


@pytest.mark.parametrize(
    ("status", "credits_used", "nanousd"),
    [
        ("complete", {"totalNanoAiu": 1_510_000_000}, 15_100_000),
        ("complete", {"totalNanoAiu": 0}, 0),
        ("partial", {"totalNanoAiu": 1_510_000_000}, None),
        ("unavailable", {"totalNanoAiu": 0}, None),
        ("complete", {}, None),
        ("complete", {"totalNanoAiu": True}, None),
        ("complete", {"totalNanoAiu": -1}, None),
        ("complete", {"totalNanoAiu": 10**400}, None),
    ],
)
def test_a_reply_costs_its_ai_credits_if_all_of_them_are_known(
    status: str, credits_used: JsonValue, nanousd: int | None
) -> None:
    log = Log().prompt().say()
    data = log.records[-2]["data"]
    assert isinstance(data, dict)
    usage = data["usage"]
    assert isinstance(usage, dict)
    usage |= {"aiCreditsStatus": status, "copilotUsage": credits_used, "cost": 1.0}
    (sums,) = COPILOT.told(log.lines()).counted
    assert (sums.replies, sums.reported_nanousd) == (1, nanousd)


def test_the_programs_end_settles_a_closed_turn_alone_until_somebody_resumes_it() -> None:
    def declared(log: Log) -> bool:
        return COPILOT.told(log.lines()).declared

    log = Log().prompt().call().put("session.shutdown")
    assert not declared(log)
    log.prompt().say()
    assert not declared(log)
    assert declared(log.put("session.shutdown"))
    assert declared(log.put("session.resume", sessionId=SESSION))
    assert not declared(log.prompt())
    assert not declared(log.say())
