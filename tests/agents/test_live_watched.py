"""Somebody looks all the time while a real agent works, at whatever it has just half written."""

import itertools

import pytest
from tests.agents.agents import CLAUDE, CODEX_NOW, Agent, Wish
from tests.agents.checks import StageFor
from tests.agents.replies import JsonObject
from tests.agents.scripted_model import prompt

pytestmark = [pytest.mark.agents, pytest.mark.timeout(400)]


@pytest.mark.parametrize("agent", [pytest.param(CLAUDE, id="claude"), pytest.param(CODEX_NOW, id="codex")])
@pytest.mark.parametrize(
    ("script", "end"),
    [
        ("answer", "run.completed.ok"),
        ("tool", "run.completed.ok"),
        ("delegated", "run.completed.ok"),
        ("refused", "run.failed.api_error"),
    ],
)
def test_a_run_is_never_seen_in_a_state_that_it_is_not_in(
    agent: Agent, script: str, end: str, stage_for: StageFor
) -> None:
    """It runs until it ends. Claude Code takes its pid file away before it writes its last lines: nobody knows then."""
    stage = stage_for(agent)
    (stage.home.home / agent.sessions).mkdir(parents=True)
    run = stage.start(Wish(prompt(script)))
    seen: list[JsonObject] = []
    while run.is_alive():
        seen += stage.inspect()
    seen += stage.inspect()
    sessions: dict[str, list[object]] = {str(session["session_id"]): [] for session in seen}
    for session in seen:
        sessions[str(session["session_id"])].append(session["reason_code"])
    assert len(sessions) == 1 + (script == "delegated" and agent is CODEX_NOW), "a sub-agent of Codex is one"
    for codes in sessions.values():
        reasons = [key for key, _ in itertools.groupby(codes)]
        assert reasons[-1] == end
        assert set(reasons[:-1]) <= {"run.started.ok", "run.unknown.open_turn"}
    assert all(session["problems"] == [] for session in seen)
