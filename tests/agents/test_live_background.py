"""A headless Claude Code whose last reply leaves something running in the background is not over before that is."""

import time
from pathlib import Path

import pytest
from tests.agents.agents import CLAUDE_2_1_332, Wish
from tests.agents.following import OK, STARTED, homes
from tests.agents.scripted_model import prompt
from tests.waiting import wait_for

from runward.handlers.sessions.over import SETTLE

pytestmark = [pytest.mark.agents, pytest.mark.timeout(400)]


@pytest.mark.parametrize(("script", "waits"), [("in_background", False), ("delegated_in_background", True)])
def test_a_session_is_not_over_before_its_background_task(script: str, waits: bool, tmp_path: Path) -> None:
    """Claude Code waits for an agent however long, and for a command for five seconds: then it may have ended it."""
    with homes(CLAUDE_2_1_332, tmp_path) as watched:
        (stage,) = watched.stages(["background"], []).values()
        with watched.place.serving():
            run = stage.start(Wish(prompt(script)))
            wait_for(stage.home.has_tool_begun, "the tool")
            stage.wait_for_line(b'"stop_reason":"end_turn"')
            wait_for(stage.sessions, "the session")
            since = time.monotonic()
            wait_for(lambda: time.monotonic() - since > SETTLE + 1, "more than an end is waited for")
            (session,) = stage.sessions()
            is_held = stage.home.is_tool_held()
            assert is_held or not waits
            assert session.history == (STARTED,) or not is_held
            stage.home.release()
            assert run.end() == 0, run.said()
            (session,) = stage.wait_judged(1)
        assert (session.history, session.attempts) == ((STARTED, OK), ("declared",))
        log = stage.agent.transcript(stage.home, session.session_id)
        content = log.read_bytes()
        lines = content.splitlines(keepends=True)
        closed = [heard.told.close is not None for heard in stage.agent.reading.follow(log.name, content)]
        before = b"".join(lines[: closed.index(True) + 1])
        assert b"<task-notification>" in before or b'"type":"cost-state"' in before
