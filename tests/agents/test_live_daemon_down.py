"""Real agents go on, end and are killed while the daemon that follows them is down: the next one tells the same."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from tests.agents.agents import Agent, Wish
from tests.agents.following import AT_ONCE, EACH_AGENT, GONE, OK, RESUMED, STARTED, FollowedStage, homes
from tests.agents.homes import Run
from tests.agents.scripted_model import prompt
from tests.waiting import PATIENCE_S, wait_for

pytestmark = [pytest.mark.agents, pytest.mark.timeout(400)]

UP: Final = {
    "answered-before": "answer",
    "ends-meanwhile": "held",
    "killed-meanwhile": "stalled",
    "killed-and-its-traces-swept": "stalled",
    "goes-on": "held",
}
"""The scripts of the runs that begin before the daemon goes down."""

DOWN: Final = {"comes-and-goes": "tool", "comes-and-is-killed": "stalled"}
"""The scripts of those that begin while it is down."""

PLAIN: Final = ("answered-before", "killed-and-its-traces-swept", "goes-on", "comes-and-is-killed")
HOOKED: Final = ("ends-meanwhile", "killed-meanwhile", "comes-and-goes", "comes-and-is-killed")

EXPECTED: Final[Mapping[str, Sequence[tuple[tuple[str, ...], tuple[str, ...]]]]] = {
    "answered-before": [((STARTED, OK, RESUMED, OK), ("declared", "declared"))],
    "ends-meanwhile": [((STARTED, OK), ("declared",))],
    "killed-meanwhile": [((STARTED, GONE), ("process_gone",))],
    "killed-and-its-traces-swept": [((STARTED, GONE), ("process_gone",)), ((STARTED, OK), ("declared",))],
    "goes-on": [((STARTED, OK), ("declared",))],
    "comes-and-goes": [((STARTED, OK), ("declared",))],
    "comes-and-is-killed": [((STARTED, GONE), ("process_gone",))],
}
"""The reasons that each session's status went through in the end, and the evidence of each attempt's end."""


def begun(stage: FollowedStage, script: str) -> Run:
    """A run that has come as far as its script lets it."""
    run = stage.start(Wish(prompt(script)))
    if script == "held":
        wait_for(stage.home.is_tool_held, "the tool")
        stage.wait_for_line(stage.agent.call)
    elif script == "stalled":
        assert stage.model.wait_until_stalled(PATIENCE_S), run.said()[-2000:]
        stage.wait_for_line(prompt(script).encode())
    else:
        run.end()
    return run


def known(stage: FollowedStage, script: str) -> Run:
    """A run that has come so far, and that the daemon knows as what it is."""
    run = begun(stage, script)
    stage.look()
    if script == "answer":
        stage.wait_judged(1)
    return run


def meanwhile(stage: FollowedStage, run: Run) -> None:
    """What happens to a run while the daemon is down."""
    match stage.case:
        case "answered-before":
            stage.run(Wish(prompt("tool"), resumed=stage.agent.session_of(run.said())))
        case "ends-meanwhile":
            stage.home.release()
            run.end()
        case "killed-meanwhile" | "comes-and-is-killed":
            run.process.kill()
            run.end()
        case "killed-and-its-traces-swept":
            run.process.kill()
            run.end()
            stage.run(Wish(prompt("answer")))
        case _:
            pass


def is_resumed(stage: FollowedStage) -> bool:
    (session,) = stage.sessions()
    return len(session.attempts) == 2


@EACH_AGENT
def test_what_happened_while_no_daemon_ran_is_told_by_the_next_one(agent: Agent, tmp_path: Path) -> None:
    with homes(agent, tmp_path) as watched, ThreadPoolExecutor(AT_ONCE) as pool:
        stages = watched.stages(PLAIN, HOOKED)
        up = {root: each for root, each in stages.items() if each.case in UP}
        with watched.place.serving():
            starting = {root: pool.submit(known, each, UP[each.case]) for root, each in up.items()}
            runs = {root: each.result() for root, each in starting.items()}
            for stage in up.values():
                (session,) = stage.sessions()
                assert session.status == ("completed" if stage.case == "answered-before" else "running")

        down = {root: each for root, each in stages.items() if each.case in DOWN}
        starting = {root: pool.submit(begun, each, DOWN[each.case]) for root, each in down.items()}
        runs |= {root: each.result() for root, each in starting.items()}
        for happened in [pool.submit(meanwhile, stages[root], run) for root, run in runs.items()]:
            happened.result()

        with watched.place.serving():
            for stage in stages.values():
                if stage.case == "goes-on":
                    stage.home.release()
                elif stage.case == "answered-before":
                    wait_for(partial(is_resumed, stage), "the second attempt")
            for stage in stages.values():
                told = stage.wait_judged(len(EXPECTED[stage.case]))
                ways = [(each.history, each.attempts) for each in told]
                assert (stage.root, ways) == (stage.root, EXPECTED[stage.case])
        assert watched.place.rows("select path, message from problems") == []
