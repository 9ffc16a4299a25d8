"""A daemon follows real agents while all of this happens to them, with their hooks and without."""

import json
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.agents import scenarios
from tests.agents.agents import CLAUDE, Agent
from tests.agents.checks import checked
from tests.agents.following import (
    API_ERROR,
    AT_ONCE,
    EACH_AGENT,
    GONE,
    INTERRUPTED,
    LIMIT,
    OK,
    STARTED,
    FollowedStage,
    Session,
    homes,
)
from tests.agents.scenarios import Seen, in_request, in_tool

from runward.daemon.rundir.bundle_verifying import verify_bundle

pytestmark = [pytest.mark.agents, pytest.mark.timeout(400)]


class Case(NamedTuple):
    """What happens, and the verdicts that may come of it, by the reasons; `needs` limits it to one agent."""

    happens: Callable[[FollowedStage], Seen]
    reasons: frozenset[str]
    needs: Agent | None = None


def case(happens: Callable[[FollowedStage], Seen], *reasons: str, needs: Agent | None = None) -> Case:
    return Case(happens, frozenset(reasons), needs)


CASES: Final[Mapping[str, Case]] = {
    "answers": case(scenarios.answered, OK),
    "uses-a-tool": case(scenarios.used_a_tool, OK),
    "is-refused": case(scenarios.refused, API_ERROR),
    "runs-out-of-turns": case(scenarios.ran_out_of_turns, LIMIT, needs=CLAUDE),
    "delegates": case(scenarios.delegated, OK),
    "int-in-tool": case(in_tool(signal.SIGINT), INTERRUPTED, GONE),
    "term-in-tool": case(in_tool(signal.SIGTERM), GONE, OK),  # Claude Code may go on with what the tool left
    "kill-in-tool": case(in_tool(signal.SIGKILL), GONE),
    "int-in-request": case(in_request(signal.SIGINT), INTERRUPTED, GONE),
    "term-in-request": case(in_request(signal.SIGTERM), GONE),
    "kill-in-request": case(in_request(signal.SIGKILL), GONE),
    "two-at-once": case(scenarios.two_at_once, OK),
    "forked": case(scenarios.forked, OK),
}
"""What happens to sessions that have one attempt each."""


def true_to(agent: Agent, seen: Seen, session: Session) -> tuple[str, str | None]:
    """The reason and the evidence that a session's log demands: its own end, or that its process is gone."""
    index = seen.sessions.index(session.session_id)
    close = checked(agent, seen.left[index]).close
    return (GONE, "process_gone") if close is None else (close.reason_code, "declared")


def assert_hooked(stage: FollowedStage, session: Session) -> None:
    """Claude Code's hook speaks of every session, Codex's after good turns."""
    speaks = stage.is_hooked and (stage.agent is CLAUDE or session.history[-1] == OK)
    assert (session.hooked is not None) == speaks, stage.root


def assert_bundled(stage: FollowedStage, seen: Seen, session: Session) -> None:
    """Its bundle is proven, and has the calls of its log, none of those of a sub-agent or of a fork's origin."""
    directory = stage.watched.bundle_of(session)
    verified = verify_bundle(str(directory), 1, frozenset)
    assert verified is not None, stage.root
    assert verified.problems == (), stage.root
    replay = [json.loads(line) for line in (directory / "REPLAY.jsonl").read_bytes().splitlines()]
    called = [each for each in replay if each["event"] == "ToolCall"]
    log = seen.left[seen.sessions.index(session.session_id)]
    assert len(called) == checked(stage.agent, log).counts.tool_calls, stage.root
    if stage.case in ("uses-a-tool", "forked") and called:
        (call,) = called
        (result,) = [each for each in replay if each["event"] == "ToolResult"]
        assert "echo made > out.txt" in json.dumps(call["params"])
        assert isinstance(call["params"], dict)
        assert result["output"]["success"], result
        assert result["exit_code"] == 0
        assert result["latency_ms"] >= 0


@EACH_AGENT
def test_a_daemon_judges_what_happens_to_a_real_agent(agent: Agent, tmp_path: Path) -> None:
    with homes(agent, tmp_path) as watched:
        cases = [name for name, each in CASES.items() if each.needs in (None, agent)]
        stages = watched.stages(cases, cases)
        with watched.place.serving(), ThreadPoolExecutor(AT_ONCE) as pool:
            running = {root: pool.submit(CASES[stage.case].happens, stage) for root, stage in stages.items()}
            seen = {root: each.result() for root, each in running.items()}
            told = {root: stage.sessions() for root, stage in stages.items()}
            watched.wait_bundled()
        for root, stage in stages.items():
            own = [session for session in told[root] if session.session_id in seen[root].sessions]
            assert len(own) == len(seen[root].sessions), root
            workers = [session for session in told[root] if session not in own]
            assert len(workers) == (agent is not CLAUDE and stage.case == "delegates"), root
            for worker in workers:
                assert (worker.history, worker.linked) == ((STARTED, OK), (own[0].key,)), root
            for session in own:
                reason, evidence = true_to(agent, seen[root], session)
                assert (root, session.history) == (root, (STARTED, reason))
                assert (root, session.status) == (root, reason.split(".")[1])
                assert (root, session.attempts) == (root, (evidence,))
                assert reason in CASES[stage.case].reasons, root
                assert session.linked == tuple(worker.key for worker in workers)
                assert_hooked(stage, session)
                assert_bundled(stage, seen[root], session)
            midway = seen[root].midway
            if midway is not None and midway.alive:
                assert "running" in {session["state"] for session in midway.inspected}, root
        assert watched.place.rows("select path, message from problems") == []
