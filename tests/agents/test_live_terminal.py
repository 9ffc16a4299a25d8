"""A daemon follows a real Claude Code with a person before it: it is over when they leave, and not before."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.agents.agents import CLAUDE, KEY
from tests.agents.following import GONE, INTERRUPTED, OK, FollowedStage, Session, homes
from tests.agents.homes import NOWHERE
from tests.agents.installed import program
from tests.agents.scripted_model import prompt
from tests.agents.terminal import ESCAPE, Terminal, terminal
from tests.waiting import wait_for

from runward.config.json_value import JsonValue
from runward.handlers.sessions.over import GRACE, SETTLE

pytestmark = [pytest.mark.prove, pytest.mark.timeout(400)]


class Seat:
    """A person's seat before Claude Code, and what the daemon says of the one session there."""

    def __init__(self, stage: FollowedStage, screen: Terminal) -> None:
        self.stage = stage
        self.screen = screen

    def asks(self, script: str) -> None:
        """Give a prompt, and see it taken up or queued."""
        self.screen.type(prompt(script), lambda: self._has(script), f"the prompt {script}")

    def waits_for(self, count: int) -> None:
        """Until so many turns are over, by what Claude Code says of itself in a terminal."""
        wait_for(lambda: self._count("turn_duration") >= count, f"the end of {count} turns")

    def stays(self) -> None:
        """Nothing happens, for longer than anything is waited for."""
        since = time.monotonic()
        wait_for(lambda: time.monotonic() - since > GRACE + SETTLE + 1, "some rest")

    def session(self) -> Session:
        (only,) = wait_for(self.stage.sessions, "the session")
        return only

    def activity(self) -> object:
        ((activity,),) = self.stage.watched.place.rows(
            "select activity from cursors where session_key = ?", self.session().key
        )
        return activity

    def records(self) -> list[dict[str, JsonValue]]:
        lines = b"".join(log.content for log in self.stage.logs()).split(b"\n")[:-1]
        return [json.loads(line) for line in lines]

    def _count(self, subtype: str) -> int:
        return sum(record.get("subtype") == subtype for record in self.records())

    def _has(self, script: str) -> bool:
        kinds = ("user", "queue-operation")
        return any(
            each.get("type") in kinds and prompt(script) in json.dumps(each) for each in self.records()
        )


@contextmanager
def seated(directory: Path) -> Iterator[Seat]:
    with homes(CLAUDE, directory) as watched:
        (stage,) = watched.stages(["seated"], []).values()
        home = stage.home
        trusted: JsonValue = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        told: JsonValue = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
            "projects": {str(home.work): trusted},
        }
        (home.home / ".claude.json").write_text(json.dumps(told))
        variables = {"HOME": str(home.home), "HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE}
        variables |= {"NO_PROXY": "127.0.0.1", **home.variables}
        command = (*program(CLAUDE.pinned), "--allowedTools", "Bash")
        with watched.place.serving(), terminal(command, home.work, variables) as screen:
            wait_for(lambda: screen.shows("shortcuts"), "the prompt")
            yield Seat(stage, screen)


def test_a_person_s_session_is_idle_between_their_turns_and_over_when_they_leave(tmp_path: Path) -> None:
    with seated(tmp_path) as seat:
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
    with seated(tmp_path) as seat:
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


def test_escape_ends_a_turn_and_not_the_session(tmp_path: Path) -> None:
    with seated(tmp_path) as seat:
        seat.asks("held")
        wait_for(seat.stage.home.has_tool_begun, "the tool")
        wait_for(lambda: seat.session().status == "running", "a session that runs")
        seat.screen.press(ESCAPE, lambda: seat.activity() == "idle", "an idle session")
        seat.stays()
        assert seat.session().status == "running"
        os.killpg(seat.screen.process.pid, signal.SIGTERM)
        (session,) = seat.stage.wait_judged(1)
        is_marked = "[Request interrupted" in json.dumps(seat.records())
        assert session.history[-1] == INTERRUPTED if is_marked else session.history[-1] in (OK, GONE)
        assert session.attempts == ("process_gone",)
