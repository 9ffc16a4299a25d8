"""A daemon follows a real Claude Code with a person before it: it is over when they leave, and not before."""

import json
import os
import signal
from pathlib import Path
from typing import Final

import pytest
from tests.agents.agent_in_terminal import InTerminal, seated
from tests.agents.agents import CLAUDE, KEY
from tests.agents.following import GONE, INTERRUPTED, OK
from tests.agents.homes import Home
from tests.agents.scripted_model import prompt
from tests.agents.terminal import ESCAPE
from tests.waiting import wait_for

from runward.config.json_value import JsonValue

pytestmark = [pytest.mark.agents, pytest.mark.timeout(400)]


def welcome(home: Home) -> None:
    trusted: JsonValue = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    told: JsonValue = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": {str(home.work): trusted},
    }
    (home.home / ".claude.json").write_text(json.dumps(told))


IN_TERMINAL: Final = InTerminal(CLAUDE, ("--allowedTools", "Bash"), b'"subtype":"turn_duration"', welcome)


def test_a_person_s_session_is_idle_between_their_turns_and_over_when_they_leave(tmp_path: Path) -> None:
    with seated(IN_TERMINAL, tmp_path) as seat:
        seat.asks("answer")
        seat.waits_for(1)
        wait_for(lambda: seat.activity() == "idle", "an idle session")
        seat.stays()
        assert seat.session().status == "running"
        seat.asks("tool")
        seat.waits_for(2)
        wait_for(lambda: seat.activity() == "idle", "an idle session")
        seat.screen.type("/exit", lambda: seat.screen.process.poll() is not None, "the end")
        (session,) = seat.stage.wait_judged(1)
        assert (session.history[-1], session.attempts) == (OK, ("process_gone",))


def test_a_prompt_that_waits_for_its_turn_is_a_turn_and_no_attempt(tmp_path: Path) -> None:
    with seated(IN_TERMINAL, tmp_path) as seat:
        seat.asks("held")
        wait_for(seat.stage.home.has_tool_begun, "the tool")
        seat.asks("answer")
        wait_for(lambda: seat.activity() == "active", "a session at work")
        seat.stage.home.release()
        wait_for(lambda: seat.activity() == "idle", "an idle session")
        seat.stays()
        assert (seat.session().status, seat.session().attempts) == ("running", (None,))
        os.killpg(seat.screen.process.pid, signal.SIGKILL)
        (session,) = seat.stage.wait_judged(1)
        assert session.history[-1] in (OK, GONE), "it may have been killed while it wrote its last words"
        assert session.attempts == ("process_gone",)


def test_a_command_that_the_program_answers_itself_is_no_turn(tmp_path: Path) -> None:
    with seated(IN_TERMINAL, tmp_path) as seat:
        seat.asks("answer")
        seat.waits_for(1)
        answers = b'"content":"<local-command-stdout>'
        for count, command in enumerate(("/context", "/rename elsewhere"), 1):
            seat.screen.type(command, lambda count=count: seat.count(answers) >= count, command)  # type: ignore[misc] # bound
        wait_for(lambda: seat.count(b'"isMeta":true') >= 2, "what it tells the model of them")
        os.killpg(seat.screen.process.pid, signal.SIGKILL)
        (session,) = seat.stage.wait_judged(1)
        assert (session.history[-1], session.attempts) == (OK, ("process_gone",))


def test_escape_ends_a_turn_and_not_the_session(tmp_path: Path) -> None:
    with seated(IN_TERMINAL, tmp_path) as seat:
        seat.asks("held")
        wait_for(seat.stage.home.has_tool_begun, "the tool")
        wait_for(lambda: seat.session().status == "running", "a session that runs")
        seat.screen.press(ESCAPE, lambda: seat.activity() == "idle", "an idle session")
        seat.stays()
        assert seat.session().status == "running"
        os.killpg(seat.screen.process.pid, signal.SIGTERM)
        (session,) = seat.stage.wait_judged(1)
        is_marked = seat.count(b"[Request interrupted")
        assert session.history[-1] == INTERRUPTED if is_marked else session.history[-1] in (OK, GONE)
        assert session.attempts == ("process_gone",)


def test_a_cleared_session_is_over_though_its_program_goes_on(tmp_path: Path) -> None:
    with seated(IN_TERMINAL, tmp_path) as seat:
        seat.asks("answer")
        seat.waits_for(1)
        wait_for(lambda: seat.activity() == "idle", "an idle session")
        cleared = seat.session()
        (pid_file,) = tmp_path.rglob(f"sessions/{seat.screen.process.pid}.json")
        seat.screen.type(
            "/clear",
            lambda: cleared.session_id not in pid_file.read_text(),
            "another session in its pid file",
        )
        wait_for(lambda: any(each.attempts == ("process_gone",) for each in seat.stage.sessions()), "its end")
        assert seat.screen.process.poll() is None
        (over,) = [each for each in seat.stage.sessions() if each.session_id == cleared.session_id]
        assert (over.history[-1], over.attempts) == (OK, ("process_gone",))


def test_a_branched_session_is_over_and_its_branch_goes_on_with_what_is_its_own(tmp_path: Path) -> None:
    with seated(IN_TERMINAL, tmp_path) as seat:
        seat.asks("answer")
        seat.waits_for(1)
        wait_for(lambda: seat.activity() == "idle", "an idle session")
        origin = seat.session()
        (pid_file,) = tmp_path.rglob(f"sessions/{seat.screen.process.pid}.json")
        seat.screen.type(
            "/branch",
            lambda: origin.session_id not in pid_file.read_text(),
            "another session in its pid file",
        )
        seat.asks("tool")
        branch = json.loads(pid_file.read_text())["sessionId"]
        log = seat.stage.agent.transcript(seat.stage.home, branch)
        wait_for(
            lambda: seat.turn_ends_in(log.read_bytes()) == 2, "the end of its turn, beside the copied one"
        )
        wait_for(lambda: any(each.attempts == ("process_gone",) for each in seat.stage.sessions()), "an end")
        (over,) = [each for each in seat.stage.sessions() if each.attempts == ("process_gone",)]
        assert (over.session_id, over.history[-1]) == (origin.session_id, OK)
        seat.screen.type("/exit", lambda: seat.screen.process.poll() is not None, "the end")
        both = seat.stage.wait_judged(2)
        assert [(each.history[-1], each.attempts) for each in both] == [(OK, ("process_gone",))] * 2
        told = seat.stage.agent.reading.hear(log.name, log.read_bytes()).told
        assert (told.session_id, told.parent_session_id) == (branch, origin.session_id)
        # Claude Code calls it by its first prompt, too, which is a copy.
        assert (told.counts.tool_calls, told.prompt) == (1, prompt("answer"))
