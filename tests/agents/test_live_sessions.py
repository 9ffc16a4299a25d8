"""Sessions of real agents that more than one run works on, or that are not alone."""

import pytest
from tests.agents import scenarios
from tests.agents.agents import CLAUDE, CLAUDE_2_1_332, CODEX_NOW, Agent
from tests.agents.checks import StageFor, checked, cost
from tests.agents.scenarios import Glimpse, Transcript
from tests.agents.scripted_model import prompt
from tests.handlers.usage.naive import claude_code_replies

from runward.config.json_value import JsonValue
from runward.daemon.rundir.call_reading import told_by
from runward.daemon.rundir.session_reading import read_session
from runward.handlers.calls import Paid
from runward.handlers.layouts.registry import LAYOUTS

pytestmark = [pytest.mark.agents, pytest.mark.timeout(400)]
BOTH = pytest.mark.parametrize(
    "agent", [pytest.param(CLAUDE, id="claude"), pytest.param(CODEX_NOW, id="codex")]
)


def inspected(seen: Glimpse) -> dict[JsonValue, tuple[JsonValue, ...]]:
    """State, attempt and origin of each session that `runward inspect` printed, by its id."""
    keys = ("state", "attempt", "parent_session_id")
    return {session["session_id"]: tuple(session[key] for key in keys) for session in seen.inspected}


def paid(log: Transcript) -> list[float | None]:
    """What each process added to the session's cost, by its own account."""
    found = told_by("claude-code", str(log.path), lambda read: True)
    return [each.usd for each in found if isinstance(each, Paid)]


@BOTH
def test_a_resumed_session_goes_on_in_its_file_as_its_second_attempt(
    agent: Agent, stage_for: StageFor
) -> None:
    seen = scenarios.resumed(stage_for(agent))
    assert seen.midway is not None
    (then,), (left,) = seen.midway.logs, seen.left
    assert seen.codes == (0, 0)
    assert len(seen.sessions) == 1
    assert then.path == left.path
    assert left.content.startswith(then.content)

    first, both = checked(agent, then), checked(agent, left)
    assert first.attempt == 1
    assert both.attempt == 2
    assert first.close is not None
    assert both.close is not None
    assert (first.close.reason_code, both.close.reason_code) == ("run.completed.ok", "run.completed.ok")
    assert both.prompt == first.prompt == prompt("answer")
    assert both.usage == cost(3)
    (begun,) = agent.reading.hear(left.path.name, left.content).resumed
    assert (begun.attempt, begun.before) == (2, first.close)
    assert inspected(seen.end) == {seen.sessions[0]: ("completed", 2, None)}
    assert begun.started_at == both.started_at
    assert first.close.at is not None
    assert both.started_at is not None
    assert first.close.at < both.started_at


@pytest.mark.parametrize(
    ("agent", "replies"),
    [pytest.param(CLAUDE_2_1_332, 3, id="claude"), pytest.param(CODEX_NOW, 2, id="codex")],
)
def test_a_fork_is_another_session_and_leaves_its_origin_as_it_was(
    agent: Agent, replies: int, stage_for: StageFor
) -> None:
    """Claude Code copies the origin's records, and names it in those of its replies. Codex names it and copies none."""
    seen = scenarios.forked(stage_for(agent))
    assert seen.midway is not None
    (then,), (origin, fork) = seen.midway.logs, seen.left
    assert seen.codes == (0, 0)
    assert origin == then

    before, told = checked(agent, origin), checked(agent, fork)
    assert told.session_id == seen.sessions[1] != before.session_id == seen.sessions[0]
    assert told.parent_session_id == before.session_id
    assert sum(each.replies for each in told.counted) == 2, "the copied reply counts in its origin"
    assert (told.turn, told.attempt, told.counts.tool_calls) == ("closed", 1, 1)
    assert (told.prompt, told.usage) == (prompt("tool"), cost(replies))
    assert before.moved_at is not None
    assert told.started_at is not None
    assert before.moved_at < told.started_at

    assert inspected(seen.end) == {
        seen.sessions[0]: ("completed", 1, None),
        seen.sessions[1]: ("completed", 1, told.parent_session_id),
    }

    if agent is CLAUDE_2_1_332:
        (spent,), (added,) = paid(origin), paid(fork)
        assert spent is not None
        assert added == pytest.approx(2 * spent), "its account goes on with its origin's"

    heard = list(agent.reading.follow(fork.path.name, fork.content))
    assert not any(each.resumed for each in heard)
    ends = {each.told.close for each in heard}
    assert ends == {None, told.close}, "no copied end of the origin's ends the fork"


@BOTH
def test_two_runs_in_one_directory_are_two_sessions(agent: Agent, stage_for: StageFor) -> None:
    seen = scenarios.two_at_once(stage_for(agent))
    assert seen.codes == (0, 0)
    assert seen.midway is not None
    assert seen.midway.alive
    assert len(set(seen.sessions)) == 2
    assert not seen.others
    then = {log.path: checked(agent, log) for log in seen.midway.logs}
    held, answered = (checked(agent, log) for log in seen.left)
    assert (then[seen.left[0].path].turn, then[seen.left[1].path].turn) == ("open", "closed")
    assert (held.turn, held.counts.tool_calls, held.usage) == ("closed", 1, cost(2))
    assert (answered.turn, answered.counts.tool_calls, answered.usage) == ("closed", 0, cost(1))
    assert held.cwd == answered.cwd
    assert (held.session_id, answered.session_id) == seen.sessions
    assert inspected(seen.midway) == {
        held.session_id: ("running", 1, None),
        answered.session_id: ("completed", 1, None),
    }
    assert {state for state, _, _ in inspected(seen.end).values()} == {"completed"}


@BOTH
def test_a_sub_agent_s_file_says_whose_it_is(agent: Agent, stage_for: StageFor) -> None:
    """Claude Code keeps it in a directory of the session's, Codex among the sessions."""
    seen = scenarios.delegated(stage_for(agent))
    (beside,), (session,) = seen.others, seen.sessions
    told = agent.reading.hear(beside.name, beside.read_bytes()).told
    assert told.session_id is not None
    assert told.session_id != session
    assert told.parent_session_id == session
    assert (told.is_subagent, told.works_for) == ((True, None) if agent is CLAUDE else (False, session))
    own = {} if agent is CLAUDE else {told.session_id: ("completed", 1, session)}
    assert inspected(seen.end) == {session: ("completed", 1, None), **own}
    assert (f"{seen.sessions[0]}/subagents" in beside.parent.as_posix()) == (agent is CLAUDE)
    if agent is CLAUDE:
        counted = read_session(LAYOUTS.named("claude-code"), str(seen.left[0].path)).told.counted
        by_file = [
            len(claude_code_replies(seen.sessions[0], path.read_bytes().splitlines()))
            for path in (seen.left[0].path, beside)
        ]
        assert min(by_file) > 0
        assert sum(each.replies for each in counted) == sum(by_file)
