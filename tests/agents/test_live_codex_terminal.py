"""A real Codex with a person before it: it is over when they leave, and not before.

`--no-daemon`: else Codex puts its sessions into a server of its own, which outlives the terminal.
"""

import os
import signal
from pathlib import Path
from typing import Final

import pytest
from tests.agents.agent_in_terminal import InTerminal, Seat, seated
from tests.agents.agents import CODEX_NOW
from tests.agents.following import INTERRUPTED, OK, STARTED
from tests.agents.homes import Home
from tests.agents.scenarios import Stage
from tests.agents.terminal import ESCAPE
from tests.waiting import wait_for

pytestmark = [pytest.mark.agents, pytest.mark.timeout(400)]

CTRL_C: Final = b"\x03"


def welcome(home: Home) -> None:
    with (home.home / ".codex/config.toml").open("a") as settings:
        settings.write(f'\n[projects."{home.work}"]\ntrust_level = "trusted"\n')


IN_TERMINAL: Final = InTerminal(
    CODEX_NOW,
    ("--no-daemon", "-c", "check_for_update_on_startup=false"),
    b'"type":"task_complete"',
    welcome,
)


def inspected(seat: Seat) -> tuple[object, ...]:
    """What `runward inspect` makes of the one session, without the daemon."""
    (session,) = Stage.inspect(seat.stage)
    return session["state"], session["reason_code"], session["evidence"], session["activity"]


@pytest.mark.parametrize("farewell", ["/quit", "Ctrl-C", "killed"])
def test_a_person_s_session_is_idle_between_their_turns_and_over_when_they_leave(
    farewell: str, tmp_path: Path
) -> None:
    """Codex takes its lock away when it ends: then only who saw its process knows. Killed, it leaves the lock."""
    with seated(IN_TERMINAL, tmp_path) as seat:
        seat.asks("answer")
        seat.waits_for(1)
        wait_for(lambda: seat.activity() == "idle", "an idle session")
        seat.stays()
        assert seat.session().status == "running"
        assert inspected(seat) == ("running", STARTED, None, "idle")
        seat.asks("tool")
        seat.waits_for(2)
        wait_for(lambda: seat.activity() == "idle", "an idle session")
        process = seat.screen.process
        match farewell:
            case "/quit":
                seat.screen.type(farewell, lambda: process.poll() is not None, "the end")
            case "Ctrl-C":
                seat.screen.press(CTRL_C, lambda: process.poll() is not None, "the end")
            case _:
                os.killpg(process.pid, signal.SIGKILL)
        (session,) = seat.stage.wait_judged(1)
        assert (session.history, session.attempts) == ((STARTED, OK), ("process_gone",))
        process.wait()
        if farewell == "killed":
            assert inspected(seat) == ("completed", OK, "process_gone", None)
        else:
            assert inspected(seat) == ("unknown", "run.unknown.no_process", None, None)


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
        assert (session.history, session.attempts) == ((STARTED, INTERRUPTED), ("process_gone",))
