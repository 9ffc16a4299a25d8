"""A daemon follows real agents that go on, that have something to deliver, and that run in a launched command."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from tests.agents import scenarios
from tests.agents.agents import CLAUDE, Agent, Wish
from tests.agents.following import (
    API_ERROR,
    AT_ONCE,
    EACH_AGENT,
    GONE,
    OK,
    RESUMED,
    STARTED,
    UNDELIVERED,
    FollowedStage,
    Session,
    homes,
)
from tests.agents.scripted_model import prompt
from tests.waiting import PATIENCE_S, wait_for

from runward.handlers.sessions.over import GRACE

pytestmark = [pytest.mark.agents, pytest.mark.timeout(400)]


def resumed_later(stage: FollowedStage) -> None:
    """An answered session is given a second prompt after its verdict."""
    first = stage.run(Wish(prompt("answer")))
    stage.wait_judged(1)
    stage.run(Wish(prompt("tool"), resumed=first))
    wait_for(lambda: len(stage.sessions()[0].attempts) == 2, "the second attempt")
    stage.wait_judged(1)


def killed_and_resumed(stage: FollowedStage) -> None:
    """A session whose agent was killed in a request is given a second prompt after its verdict."""
    run = stage.start(Wish(prompt("stalled")))
    assert stage.model.wait_until_stalled(PATIENCE_S), run.said()[-2000:]
    stage.wait_for_line(prompt("stalled").encode())
    stage.look()
    run.process.kill()
    run.end()
    stage.wait_judged(1)
    stage.run(Wish(prompt("tool"), resumed=stage.agent.session_of(run.said())))
    wait_for(lambda: len(stage.sessions()[0].attempts) == 2, "the second attempt")
    stage.wait_judged(1)


def launched(stage: FollowedStage, containment: str = "auto") -> None:
    """The agent is the command of `runward run`, which expects a file of it. It works for longer than the grace.

    Skips the test where there is no such containment.
    """
    terms = ("--playbook", "delivery", "--artifacts", str(stage.home.work), "--containment", containment)
    run = stage.start_in_launcher(terms, stage.command(Wish(prompt("slowly_made"))))
    wait_for(lambda: stage.home.has_tool_begun() or not run.is_alive(), "the tool")
    if not run.is_alive() and containment != "auto":
        pytest.skip(run.said().strip())
    stage.wait_for_line(stage.agent.call)
    stage.look()
    held_since = time.monotonic()
    wait_for(lambda: time.monotonic() - held_since > GRACE + 1, "more than the grace")
    (session,) = stage.sessions()
    assert session.history == (STARTED,)
    stage.home.release()
    assert run.end() == 0, run.said()
    stage.wait_judged(1)


def launched_and_refused(stage: FollowedStage) -> None:
    """The agent fails in a script under `runward run` that ends well all the same.

    Claude Code takes its pid file away before it writes that it was refused at once: then only its hook links it.
    """
    at_once = stage.is_hooked and stage.agent is CLAUDE
    refused = Wish(prompt("refused" if at_once else "slowly_refused"))
    script = ("sh", "-c", '"$@"; exit 0', "sh", *stage.command(refused))
    run = stage.start_in_launcher((), script)
    if not at_once:
        wait_for(stage.home.has_tool_begun, "the tool")
        stage.wait_for_line(stage.agent.call)
        stage.look()
        stage.home.release()
    assert run.end() == 0, run.said()
    stage.wait_judged(1)


CASES: Final[Mapping[str, Callable[[FollowedStage], object]]] = {
    "resumed": scenarios.resumed,
    "resumed-later": resumed_later,
    "killed-and-resumed": killed_and_resumed,
    "delivers": scenarios.used_a_tool,
    "does-not-deliver": scenarios.answered,
    "launched": launched,
    "launched-and-refused": launched_and_refused,
}
WITH_RULE: Final = frozenset({"delivers", "does-not-deliver", "launched"})
"""The cases in which a rule of the settings expects a file in the agent's working directory."""

PLAIN: Final = (
    "resumed",
    "delivers",
    "does-not-deliver",
    "launched",
    "launched-and-refused",
)
HOOKED: Final = ("resumed-later", "killed-and-resumed", "delivers", "launched", "launched-and-refused")

EXPECTED: Final = {
    "resumed": ((STARTED, OK, RESUMED, OK), ("declared", "declared"), None),
    "resumed-later": ((STARTED, OK, RESUMED, OK), ("declared", "declared"), None),
    "killed-and-resumed": ((STARTED, GONE, RESUMED, OK), ("process_gone", "declared"), None),
    "delivers": ((STARTED, OK), ("declared",), "passed"),
    "does-not-deliver": ((STARTED, UNDELIVERED), ("declared",), "missing"),
    "launched": ((STARTED, OK), ("declared",), None),
    "launched-and-refused": ((STARTED, API_ERROR), ("declared",), None),
}
"""The reasons that each session's status went through, the evidence of each attempt's end, and what was delivered."""

LAUNCHED: Final = {
    "launched": ((STARTED, OK), "passed"),
    "launched-and-refused": ((STARTED, API_ERROR), None),
}
"""Of the launcher's session, the reasons and what was delivered."""

RUNS: Final = sum(case in LAUNCHED for case in (*PLAIN, *HOOKED))


@EACH_AGENT
def test_a_daemon_judges_what_real_agents_are_part_of(agent: Agent, tmp_path: Path) -> None:
    with homes(agent, tmp_path) as watched:
        stages = watched.stages(PLAIN, HOOKED, WITH_RULE)
        with watched.place.serving(), ThreadPoolExecutor(AT_ONCE) as pool:
            running = [pool.submit(CASES[stage.case], stage) for stage in stages.values()]
            for each in running:
                each.result()
            launchers = {each.key: each for each in watched.wait_judged("runs", RUNS)}
            told: dict[str, Session] = {}
            for root, stage in stages.items():
                (told[root],) = stage.sessions()
        assert len(launchers) == RUNS
        for root, stage in stages.items():
            session = told[root]
            assert (root, session.history, session.attempts, session.delivery) == (
                root,
                *EXPECTED[stage.case],
            )
            assert session.status == session.history[-1].split(".")[1]
            early = {"hook"} if stage.is_hooked and agent is CLAUDE else {"first_look", "late"}
            assert session.contract_basis in (early if session.delivery else {None}), root
            if stage.case not in LAUNCHED:
                assert session.linked == (), root
                continue
            (key,) = session.linked
            assert launchers[key].linked == (session.key,)
            assert (root, launchers[key].history, launchers[key].delivery) == (root, *LAUNCHED[stage.case])
        assert watched.place.rows("select path, message from problems") == []


@EACH_AGENT
def test_an_agent_in_a_pid_namespace_lives_as_long_as_it_does(agent: Agent, tmp_path: Path) -> None:
    """Its own number is another one there, and that is what it writes down."""
    with homes(agent, tmp_path) as watched:
        (stage,) = watched.stages(["contained"], []).values()
        with watched.place.serving():
            launched(stage, "pidns")
            (launcher,) = watched.wait_judged("runs", 1)
        (session,) = stage.sessions()
        assert (session.history, session.linked) == ((STARTED, OK), (launcher.key,))
        assert (launcher.history, launcher.delivery) == ((STARTED, OK), "passed")
