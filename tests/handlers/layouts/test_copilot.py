"""What only Copilot does: its program says that it shut down as usual, whatever happened, and sub-agents write into the log."""

from tests.handlers.layouts.copilot_lines import SESSION, Log
from tests.handlers.layouts.test_conversations import AGENTS

COPILOT = AGENTS["copilot"]


def test_an_error_counts_although_the_shutdown_is_routine() -> None:
    close = COPILOT.told(Log().prompt().fail().put("session.shutdown", shutdownType="routine").lines()).close
    assert close is not None
    assert close.reason_code == "run.failed.api_error"


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
    assert [each.id for each in COPILOT.calls(log.lines())] == ["call_1", "call_1"]


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
