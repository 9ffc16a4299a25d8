"""A daemon follows the threads of real app-servers of Codex: one process hosts several, and each is a session."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.agents.agents import CODEX_NOW
from tests.agents.app_server import app_server
from tests.agents.following import GONE, INTERRUPTED, OK, STARTED, homes
from tests.agents.installed import program
from tests.waiting import PATIENCE_S, wait_for

pytestmark = [pytest.mark.agents, pytest.mark.timeout(400)]

ACTIVITIES = "select key, activity from cursors"


def test_each_thread_of_an_app_server_is_a_session_that_its_own_log_judges(tmp_path: Path) -> None:
    """Two servers in one home: one is killed, the other one ends with its client."""
    with homes(CODEX_NOW, tmp_path) as watched:
        (stage,) = watched.stages(["hosted"], []).values()
        home, work = stage.home, str(stage.home.work)
        with watched.place.serving(), ExitStack() as servers:
            killed, closed = (
                servers.enter_context(app_server(home, *program(CODEX_NOW.pinned))) for _ in range(2)
            )
            answered, held, stalled = (killed.begin(work) for _ in range(3))
            of_other = closed.begin(work)
            killed.turn(answered, "answer")
            killed.wait_completed()
            killed.turn(held, "held")
            turn = killed.turn(stalled, "stalled")
            assert stage.model.wait_until_stalled(PATIENCE_S)
            killed.ask("turn/interrupt", threadId=stalled, turnId=turn)
            killed.wait_completed()
            wait_for(home.is_tool_held, "the tool")
            closed.turn(of_other, "answer")
            closed.wait_completed()
            doing = {answered: "idle", held: "active", stalled: "idle", of_other: "idle"}
            known = {(f"codex:{thread}", activity) for thread, activity in doing.items()}
            wait_for(lambda: set(watched.place.rows(ACTIVITIES)) == known, f"{known}")
            assert {each.history for each in stage.sessions()} == {(STARTED,)}
            killed.process.kill()
            closed.close()
            told = {each.session_id: each for each in stage.wait_judged(4)}
        ends = {answered: OK, held: GONE, stalled: INTERRUPTED, of_other: OK}
        assert {thread: each.history for thread, each in told.items()} == {
            thread: (STARTED, end) for thread, end in ends.items()
        }
        assert {each.attempts for each in told.values()} == {("process_gone",)}
        assert {each.linked for each in told.values()} == {()}
        assert watched.place.rows("select path, message from problems") == []
