"""A daemon follows a real Claude Code that a program gives one prompt after another, as the SDK does."""

import json
import subprocess
import time
from pathlib import Path

import pytest
from tests.agents.agents import CLAUDE_2_1_332
from tests.agents.following import OK, STARTED, homes
from tests.agents.installed import program
from tests.agents.scripted_model import prompt
from tests.waiting import wait_for

from runward.handlers.sessions.over import SETTLE

pytestmark = [pytest.mark.agents, pytest.mark.timeout(400)]

ACTIVITY = "select activity from cursors"
_OPTIONS = ("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")


def rest() -> None:
    """Nothing happens, for longer than it takes until an end is believed."""
    since = time.monotonic()
    wait_for(lambda: time.monotonic() - since > SETTLE + 1, "some rest")


def test_a_driven_session_waits_between_its_prompts_and_is_one_attempt(tmp_path: Path) -> None:
    with homes(CLAUDE_2_1_332, tmp_path) as watched:
        (stage,) = watched.stages(["driven"], []).values()
        home = stage.home
        home.variables["CLAUDE_CODE_ENTRYPOINT"] = "sdk-py"
        command = [*program(CLAUDE_2_1_332.pinned), *_OPTIONS]
        with (
            watched.place.serving(),
            subprocess.Popen(
                command, cwd=home.work, env=home.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as agent,
        ):
            assert agent.stdin is not None
            assert agent.stdout is not None
            for _ in range(2):
                message = {"type": "user", "message": {"role": "user", "content": prompt("answer")}}
                agent.stdin.write(json.dumps(message).encode() + b"\n")
                agent.stdin.flush()
                for line in agent.stdout:
                    if json.loads(line).get("type") == "result":
                        break
                wait_for(lambda: watched.place.rows(ACTIVITY) == [("idle",)], "an idle session")
                rest()
                (session,) = stage.sessions()
                assert (session.status, session.attempts) == ("running", (None,))
            agent.stdin.close()
            agent.wait()
            (session,) = stage.wait_judged(1)
        assert (session.history, session.attempts) == ((STARTED, OK), ("declared",))
