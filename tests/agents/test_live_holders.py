"""Who has a session now, as real agents leave it on disk: while they live, after a kill, and after the next start."""

import fcntl
from pathlib import Path

import pytest
from tests.agents.agents import CLAUDE, CODEX_NOW, Agent, Wish
from tests.agents.checks import StageFor
from tests.agents.homes import Run
from tests.agents.scenarios import Stage
from tests.agents.scripted_model import prompt
from tests.waiting import PATIENCE_S, wait_for

from runward.handlers.layouts.claude_code import read_pid_file
from runward.handlers.layouts.codex_records import lock_of, thread_of

pytestmark = [pytest.mark.agents, pytest.mark.timeout(400)]


def waiting(stage: Stage) -> Run:
    """A run that waits for its model, its prompt recorded."""
    run = stage.start(Wish(prompt("stalled")))
    assert stage.model.wait_until_stalled(PATIENCE_S), run.said()[-2000:]
    stage.wait_for_line(prompt("stalled").encode())
    return run


def start_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def is_locked(path: Path) -> bool:
    with path.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_claude_s_pid_file_names_the_process_and_its_session(stage_for: StageFor) -> None:
    stage = stage_for(CLAUDE)
    run = waiting(stage)
    (name,) = CLAUDE.holders(stage.home)
    said = read_pid_file((stage.home.home / ".claude" / "sessions" / name).read_bytes())
    assert said is not None
    assert name == f"{run.pid}.json"
    assert (said.pid, said.start_ticks) == (run.pid, start_ticks(run.pid))
    assert (said.headless, said.status) == (True, None)
    assert (said.cwd, said.version) == (str(stage.home.work), CLAUDE.pinned.version)
    assert CLAUDE.session_of(run.said()) == said.session_id


def test_codex_s_lock_is_held_as_long_as_its_writer_lives(stage_for: StageFor) -> None:
    stage = stage_for(CODEX_NOW)
    run = waiting(stage)
    session = CODEX_NOW.session_of(run.said())
    assert thread_of(CODEX_NOW.transcript(stage.home, session).name) == session
    named = lock_of(session)
    assert named is not None
    lock = stage.home.home / ".codex" / named
    assert CODEX_NOW.holders(stage.home) == {lock.name}
    assert is_locked(lock)
    run.process.kill()
    run.end()
    wait_for(
        lambda: not is_locked(lock), "the end of a child that was just starting with the lock in its hands"
    )
    assert CODEX_NOW.holders(stage.home) == {lock.name}


@pytest.mark.parametrize("agent", [pytest.param(CLAUDE, id="claude"), pytest.param(CODEX_NOW, id="codex")])
def test_the_next_start_takes_away_who_had_a_killed_session(agent: Agent, stage_for: StageFor) -> None:
    stage = stage_for(agent)
    run = waiting(stage)
    run.process.kill()
    run.end()
    (left,) = agent.holders(stage.home)
    stage.run(Wish(prompt("answer")))
    assert left not in agent.holders(stage.home)
