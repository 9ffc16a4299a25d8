"""One run of a real agent: this happened to it, and this is told of it from what it left on disk."""

import signal
from typing import Final, NamedTuple

import pytest
from tests.agents import scenarios
from tests.agents.agents import CLAUDE, CLAUDE_2_0, CLAUDE_2_1_332, CODEX_BEFORE, CODEX_NOW, CODEX_OLD, Agent
from tests.agents.checks import StageFor, checked, cost
from tests.agents.scenarios import Glimpse, Scenario, Stage, Transcript, in_request, in_tool
from tests.waiting import wait_for

pytestmark = [pytest.mark.agents, pytest.mark.timeout(400)]

KILLED: Final = -signal.SIGKILL
TERMINATED: Final = -signal.SIGTERM


class Expected(NamedTuple):
    """What is told of a run after it is over: how its turn ended (None: it is open), and what was counted.

    `code` is the exit code, below 0 for a signal; `replies` are those of the model that the session's log has, None
    for as many as it gave.
    """

    code: int
    reason: str | None
    tool_calls: int = 0
    errors: int = 0
    replies: int | None = 0
    subagents: int = 0
    is_tool_left: bool = False


OK: Final = "run.completed.ok"
API_ERROR: Final = "run.failed.api_error"
LIMIT: Final = "run.failed.limit_reached"
INTERRUPTED: Final = "run.aborted.user"

CLAUDE_INTERRUPTED: Final = (
    Expected(1, INTERRUPTED, 1, 1, 1),
    Expected(0, INTERRUPTED, 1, 1, 1),
    Expected(0, None, 1, 0, 1),
)
"""What Claude Code leaves of an interrupted tool: mostly the first, on a busy machine the last in one of three runs.
It prints `aborted_tools` each time, but may end before it has written so, and before its exit code is set.
"""

CODEX_INTERRUPTED: Final = (Expected(1, INTERRUPTED, 1, 0, 1), Expected(1, INTERRUPTED, 1, 1, 1))
"""Codex writes after the turn's end that its tool has failed, in one of eight runs on a busy machine."""

TABLE: Final[list[tuple[str, Agent, Scenario, *tuple[Expected, ...]]]] = [
    ("claude answers", CLAUDE, scenarios.answered, Expected(0, OK, replies=1)),
    ("claude uses a tool", CLAUDE, scenarios.used_a_tool, Expected(0, OK, 1, replies=2)),
    ("claude is refused", CLAUDE, scenarios.refused, Expected(1, API_ERROR, errors=1)),
    ("claude runs out of turns", CLAUDE, scenarios.ran_out_of_turns, Expected(1, LIMIT, 3, replies=3)),
    ("claude delegates", CLAUDE, scenarios.delegated, Expected(0, OK, 2, replies=None, subagents=1)),
    ("claude, its tool terminated", CLAUDE, scenarios.tool_terminated, Expected(0, OK, 1, 1, 2)),
    ("claude, SIGINT in a tool", CLAUDE, in_tool(signal.SIGINT), *CLAUDE_INTERRUPTED),
    (
        "claude, SIGTERM in a tool",
        CLAUDE,
        in_tool(signal.SIGTERM),
        Expected(143, None, 1, 0, 1, is_tool_left=True),
    ),
    (
        "claude, SIGKILL in a tool",
        CLAUDE,
        in_tool(signal.SIGKILL),
        Expected(KILLED, None, 1, 0, 1, is_tool_left=True),
    ),
    ("claude, SIGINT in a request", CLAUDE, in_request(signal.SIGINT), Expected(0, None)),
    ("claude, SIGTERM in a request", CLAUDE, in_request(signal.SIGTERM), Expected(143, None)),
    ("claude, SIGKILL in a request", CLAUDE, in_request(signal.SIGKILL), Expected(KILLED, None)),
    (
        "claude 2.1.332, SIGINT in a request",
        CLAUDE_2_1_332,
        in_request(signal.SIGINT),
        Expected(0, INTERRUPTED),
    ),
    ("claude 2.0 uses a tool", CLAUDE_2_0, scenarios.used_a_tool, Expected(0, OK, 1, replies=2)),
    ("claude 2.0 runs out of turns", CLAUDE_2_0, scenarios.ran_out_of_turns, Expected(0, None, 2, replies=2)),
    ("claude 2.0 delegates", CLAUDE_2_0, scenarios.delegated, Expected(0, OK, 2, replies=None, subagents=1)),
    ("codex answers", CODEX_NOW, scenarios.answered, Expected(0, OK, replies=1)),
    ("codex uses a tool", CODEX_NOW, scenarios.used_a_tool, Expected(0, OK, 1, replies=2)),
    ("codex is refused", CODEX_NOW, scenarios.refused, Expected(1, API_ERROR, errors=1)),
    ("codex delegates", CODEX_NOW, scenarios.delegated, Expected(0, OK, 2, replies=None, subagents=1)),
    ("codex, its tool terminated", CODEX_NOW, scenarios.tool_terminated, Expected(0, OK, 1, 1, 2)),
    ("codex, SIGINT in a tool", CODEX_NOW, in_tool(signal.SIGINT), *CODEX_INTERRUPTED),
    (
        "codex, SIGTERM in a tool",
        CODEX_NOW,
        in_tool(signal.SIGTERM),
        Expected(TERMINATED, None, 1, 0, 1),
    ),
    (
        "codex, SIGKILL in a tool",
        CODEX_NOW,
        in_tool(signal.SIGKILL),
        Expected(KILLED, None, 1, 0, 1),
    ),
    ("codex, SIGINT in a request", CODEX_NOW, in_request(signal.SIGINT), Expected(1, INTERRUPTED)),
    ("codex, SIGTERM in a request", CODEX_NOW, in_request(signal.SIGTERM), Expected(TERMINATED, None)),
    ("codex, SIGKILL in a request", CODEX_NOW, in_request(signal.SIGKILL), Expected(KILLED, None)),
    ("codex 0.104 uses a tool", CODEX_BEFORE, scenarios.used_a_tool, Expected(0, OK, 1, replies=2)),
    ("codex 0.104 is refused", CODEX_BEFORE, scenarios.refused, Expected(1, API_ERROR, errors=1)),
    (
        "codex 0.104, SIGKILL in a tool",
        CODEX_BEFORE,
        in_tool(signal.SIGKILL),
        Expected(KILLED, None, 1, 0, 1),
    ),
    ("codex 0.98 uses a tool", CODEX_OLD, scenarios.used_a_tool, Expected(0, OK, 1, replies=2)),
    ("codex 0.98 is refused", CODEX_OLD, scenarios.refused, Expected(1, None)),
    ("codex 0.98, SIGINT in a tool", CODEX_OLD, in_tool(signal.SIGINT), Expected(0, INTERRUPTED, 1, 0, 1)),
    (
        "codex 0.98, SIGKILL in a tool",
        CODEX_OLD,
        in_tool(signal.SIGKILL),
        Expected(KILLED, None, 1, 0, 1),
    ),
]


@pytest.mark.parametrize(
    ("agent", "scenario", "possible"),
    [(agent, scenario, possible) for _, agent, scenario, *possible in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_what_happened_is_told(
    agent: Agent, scenario: Scenario, possible: list[Expected], stage_for: StageFor
) -> None:
    stage = stage_for(agent)
    seen = scenario(stage)
    (code,), (session,), (left,) = seen.codes, seen.sessions, seen.left
    told = checked(agent, left)
    reason = None if told.close is None else told.close.reason_code
    happened = (code, reason, told.counts.errors)
    assert happened in [(each.code, each.reason, each.errors) for each in possible]
    (expected,) = [each for each in possible if (each.code, each.reason, each.errors) == happened]

    assert (told.session_id, told.parent_session_id, told.is_subagent) == (session, None, False)
    assert (told.turn, told.attempt) == ("open" if reason is None else "closed", 1)
    assert (told.headless, told.waiting, told.declared) == (True, False, False)
    assert (told.version, told.cwd) == (agent.pinned.version, str(stage.home.work))
    assert told.counts[1:] == (expected.tool_calls, expected.errors, expected.subagents)
    assert told.usage == cost(
        stage.model.given["delegated"] if expected.replies is None else expected.replies
    )
    if expected.is_tool_left:
        assert_tool_goes_on(stage)
    else:
        assert_no_tool(stage)
    assert_inspected(seen.end, reason, session)
    if seen.midway is not None:
        assert_told_midway(agent, seen.midway, left)
        assert seen.end.holders == (seen.midway.holders if code < 0 else frozenset())


def assert_told_midway(agent: Agent, midway: Glimpse, left: Transcript) -> None:
    """Somebody looked before the end: it was open and never closed, and what was there stayed."""
    (then,) = midway.logs
    told = checked(agent, then)
    assert midway.alive
    assert (told.turn, told.close, told.attempt) == ("open", None, 1)
    assert left.content.startswith(then.content)
    assert_inspected(midway, None, told.session_id)


def assert_inspected(seen: Glimpse, reason: str | None, own: str | None) -> None:
    """`runward inspect` says the end that the log tells, else what the process tells, where the agent names it."""
    (session,) = [each for each in seen.inspected if each["session_id"] == own]
    standing = (session["state"], session["evidence"], session["reason_code"], session["activity"])
    if reason is not None:
        assert standing == (reason.split(".")[1], "declared", reason, None)
    elif not seen.holders:
        assert standing == ("unknown", None, "run.unknown.open_turn", None)
    elif seen.alive:
        assert standing == ("running", None, "run.started.ok", "active")
    else:
        assert standing == ("aborted", "process_gone", "run.aborted.process_gone", None)


def assert_tool_goes_on(stage: Stage) -> None:
    """The tool outlives its agent: it is there to be released."""
    stage.home.release()
    wait_for(stage.home.is_tool_through, "the end of the tool that its agent left")


def assert_no_tool(stage: Stage) -> None:
    """The tool that was held, if there was one, went with its agent or before it."""
    wait_for(lambda: not stage.home.is_tool_held(), "the end of the tool with its agent")
    assert not stage.home.is_tool_through()
