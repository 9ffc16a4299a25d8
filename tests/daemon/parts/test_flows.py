"""Flows in a whole daemon: the legs of a plan are folded into the contract once, before any of them works."""

import json
import os
from pathlib import Path

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon

from runward.config.contract import ExpectedArtifact
from runward.config.json_value import JsonValue
from runward.handlers.model.contracts import Declarations

PLAYBOOK = Declarations((ExpectedArtifact("summary", "summary.md", True, "of all"),), None)
AGENTS = {
    "reviewer": Declarations(None, (ExpectedArtifact("review", "review.md", True, "the verdict"),)),
    "critic": Declarations(None, (ExpectedArtifact("notes", "deep/notes.md", False),)),
    "silent": Declarations(None, None),
}
LEGS: JsonValue = [{"id": "one", "agent": "reviewer"}, {"id": "two", "agent": "critic", "path": "legs/two"}]
PLAN: JsonValue = {"legs": LEGS}
FLOW: JsonValue = {"schema": "runward-run-v1", "kind": "flow", "playbook": "review"}
BARE: JsonValue = {"schema": "runward-run-v1"}
NOT_FOLDED = "the plan's legs are not folded into the contract: "


def declared(playbook: str | None, agent: str | None) -> Declarations:
    if agent is None:
        return PLAYBOOK if playbook is not None else Declarations(None, None)
    return AGENTS.get(agent, Declarations(None, None, f"there is no agent {agent!r}"))


def write(directory: Path, name: str, value: JsonValue) -> None:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / ".tmp").write_text(json.dumps(value))
    (path.parent / ".tmp").rename(path)


def begin(base: Path, run: JsonValue = FLOW, name: str = "a") -> Path:
    write(base / "runs" / name, "run.json", run)
    return base / "runs" / name


def deliver(directory: Path, *paths: str) -> None:
    for path in paths:
        write(directory / "artifacts", path, "delivered")


def finish(directory: Path) -> None:
    write(directory, "exit.json", {"exit_code": 0})


async def contract(running: Daemon) -> list[tuple[str, str, bool, str, str]]:
    """What the one session's contract expects: id, path, required, description, source."""
    ((text,),) = await running.rows("select artifact_contract_json from sessions")
    if text is None:
        return []
    return [tuple(entry.values()) for entry in json.loads(str(text))["expected"]]


async def one(running: Daemon, columns: str) -> tuple[object, ...]:
    (row,) = await running.rows(f"select {columns} from sessions")
    return row


async def refusals(running: Daemon) -> list[str]:
    rows = await running.rows(
        "select summary from decisions where handler = 'contracts/planned' and verdict = 'refused' order by id"
    )
    return [str(summary).removeprefix(NOT_FOLDED) for (summary,) in rows]


def journal(directory: Path, event: str) -> list[dict[str, JsonValue]]:
    path = directory / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [found for line in lines if (found := json.loads(line))["event"] == event]


def only_the_refusal_came(directory: Path, before: bytes) -> str:
    """The problem of the one line that came behind what stood in the journal before."""
    now = (directory / "events.jsonl").read_bytes()
    assert now.startswith(before)
    (line,) = now.removeprefix(before).splitlines()
    refused = json.loads(line)
    assert (refused["event"], refused["path"]) == ("contract_not_folded", "flow.json")
    return str(refused["problem"])


SUMMARY = ("summary", "summary.md", True, "of all", "playbook")
FOLDED = [
    SUMMARY,
    ("one__review", "one/review.md", True, "the verdict", "role_default"),
    ("two__notes", "legs/two/deep/notes.md", False, "", "role_default"),
]


@pytest.mark.parametrize("looks", [1, 2, 3])
async def test_the_legs_of_a_flow_are_expected_with_what_their_agents_declare(
    tmp_path: Path, looks: int
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path)
        if looks > 2:
            await running.settle()
        write(directory, "flow.json", PLAN)
        if looks > 1:
            await running.settle()
        deliver(directory, "summary.md", "one/review.md", "legs/two/deep/notes.md")
        finish(directory)
        await running.settle()
        assert await contract(running) == FOLDED
        assert await one(running, "status, delivery, folded, contract_problem") == (
            "completed",
            "passed",
            1,
            None,
        )
        assert await refusals(running) == []
        (line,) = journal(directory, "contract_folded")
        assert line["path"] == "flow.json"
        assert line["legs"] == [
            {"id": "one", "agent": "reviewer", "path": "one"},
            {"id": "two", "agent": "critic", "path": "legs/two"},
        ]
        assert line["expected"] == [
            {"id": "one__review", "path": "one/review.md", "required": True, "source": "role_default"},
            {
                "id": "two__notes",
                "path": "legs/two/deep/notes.md",
                "required": False,
                "source": "role_default",
            },
        ]
        names = [json.loads(text)["event"] for text in (directory / "events.jsonl").read_text().splitlines()]
        assert names.index("contract_snapshotted") < names.index("contract_folded")
        assert names.index("contract_folded") < names.index("artifact_verified")


async def test_a_flow_fails_for_what_a_leg_left_out(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path)
        write(directory, "flow.json", PLAN)
        await running.settle()
        deliver(directory, "summary.md", "legs/two/deep/notes.md", "review.md")
        finish(directory)
        await running.settle()
        assert await one(running, "status, reason_code, delivery") == (
            "failed",
            "run.failed.missing_artifact",
            "partial",
        )
        ((evidence,),) = await running.rows("select evidence_refs from sessions")
        assert json.loads(str(evidence)) == [
            {"kind": "expected_artifact", "id": "one__review", "label": "one/review.md"}
        ]


@pytest.mark.parametrize("kind", ["agent", "flow", "step"])
async def test_whoever_plans_legs_is_a_flow_whatever_kind_it_says_it_is(tmp_path: Path, kind: str) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path, {"schema": "runward-run-v1", "kind": kind, "playbook": "review"})
        write(directory, "flow.json", PLAN)
        await running.settle()
        assert await contract(running) == FOLDED


@pytest.mark.parametrize(("seen_over", "basis"), [(False, "first_look"), (True, "late")])
async def test_a_session_without_a_contract_gets_one_by_the_fold(
    tmp_path: Path, seen_over: bool, basis: str
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path, BARE)
        write(directory, "flow.json", PLAN)
        if not seen_over:
            await running.settle()
        finish(directory)
        await running.settle()
        assert await contract(running) == FOLDED[1:]
        assert await one(running, "status, contract_basis") == ("failed", basis)
        assert [line["basis"] for line in journal(directory, "contract_folded")] == [basis]


@pytest.mark.parametrize("explicit", [False, True])
async def test_a_snapshot_in_run_json_stays_with_the_legs_behind_it(tmp_path: Path, explicit: bool) -> None:
    snapshot: JsonValue = None if explicit else {"expected": [{"id": "own", "path": "own.md"}]}
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path, {"schema": "runward-run-v1", "contract": snapshot})
        await running.settle()
        write(directory, "flow.json", PLAN)
        await running.settle()
        own = [] if explicit else [("own", "own.md", True, "", "playbook")]
        assert await contract(running) == own + FOLDED[1:]
        assert await one(running, "contract_basis") == ("first_look",)


async def test_legs_whose_agents_declare_nothing_change_nothing_and_the_plan_counts_all_the_same(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path, BARE)
        write(directory, "flow.json", {"legs": [{"id": "one", "agent": "silent"}]})
        await running.settle()
        assert await one(running, "artifact_contract_json, contract_basis, folded") == (None, None, 1)
        write(directory, "flow.json", PLAN)
        await running.settle()
        assert await contract(running) == []
        assert len(await refusals(running)) == 1


async def test_a_plan_that_is_touched_or_written_alike_is_no_second_one(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path)
        write(directory, "flow.json", PLAN)
        await running.settle()
        os.utime(directory / "flow.json", (5.0, 5.0))
        await running.settle()
        assert isinstance(LEGS, list)
        finished: list[JsonValue] = [{**leg, "state": "done"} for leg in LEGS if isinstance(leg, dict)]
        write(directory, "flow.json", {"legs": finished, "note": "all done"})
        await running.settle()
        rows = await running.rows("select count(*) from events where type = 'FlowPlanned'")
        assert rows == [(1,)]
        assert await refusals(running) == []


async def test_a_second_plan_is_an_event_of_its_own_and_refused(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path)
        write(directory, "flow.json", PLAN)
        await running.settle()
        before = (directory / "events.jsonl").read_bytes()
        write(directory, "flow.json", {"legs": [{"id": "three", "agent": "reviewer"}]})
        await running.settle()
        assert await contract(running) == FOLDED
        why = "it is not the plan whose legs are in the contract, and only one plan counts"
        assert await refusals(running) == [why]
        assert await one(running, "contract_problem") == (f"flow.json: {why}",)
        assert only_the_refusal_came(directory, before) == f"flow.json: {why}"
        write(directory, "flow.json", PLAN)
        await running.settle()
        rows = await running.rows("select count(*) from events where type = 'FlowPlanned'")
        assert rows == [(2,)]


async def test_plans_without_end_are_no_events_without_end(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path)
        for number in range(12):
            write(directory, "flow.json", {"legs": [{"id": f"l{number}", "agent": "reviewer"}]})
            await running.settle()
        assert await running.rows("select count(*) from events where type = 'FlowPlanned'") == [(8,)]
        problems = await running.rows("select message from problems")
        assert problems == [("was rewritten too many times",)]


@pytest.mark.parametrize("thing", ["one/review.md", "legs/two/deep/notes.md", "one/.cache/x"])
@pytest.mark.parametrize("looked", [False, True])
async def test_a_plan_that_comes_after_a_leg_worked_is_refused(
    tmp_path: Path, thing: str, looked: bool
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path)
        deliver(directory, "summary.md", thing)
        if looked:
            await running.settle()
        wait_for_a_tick(directory)
        write(directory, "flow.json", PLAN)
        await running.settle()
        assert await contract(running) == [SUMMARY]
        (why,) = await refusals(running)
        assert why.startswith("it came after a leg worked: ")
        assert await one(running, "contract_problem, folded") == (f"flow.json: {why}", 0)
        assert journal(directory, "contract_folded") == []
        finish(directory)
        await running.settle()
        assert await one(running, "status, delivery") == ("completed", "passed")


async def test_directories_that_were_made_for_the_legs_are_no_work_of_theirs(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path)
        (directory / "artifacts/one/out").mkdir(parents=True)
        (directory / "artifacts/legs/two").mkdir(parents=True)
        deliver(directory, "plan-draft.md", "legs/index.md", "one-more/x.md")
        await running.settle()
        wait_for_a_tick(directory)
        write(directory, "flow.json", PLAN)
        await running.settle()
        assert await contract(running) == FOLDED


async def test_a_leg_that_was_seen_at_work_counts_though_it_covers_its_tracks(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path)
        deliver(directory, "one/review.md")
        await running.settle()
        (directory / "artifacts/one/review.md").unlink()
        write(directory, "flow.json", PLAN)
        deliver(directory, "one/review.md")
        await running.settle()
        assert await refusals(running) == [
            "it came after a leg worked: there was something in 'one' before it"
        ]


async def test_an_agent_that_is_missing_is_the_operators_to_mend_and_fails_nobody(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path)
        write(directory, "flow.json", {"legs": [*list_of(LEGS), {"id": "x", "agent": "nobody"}]})
        await running.settle()
        assert await contract(running) == [SUMMARY]
        assert await one(running, "contract_problem") == ("flow.json: leg x: there is no agent 'nobody'",)
        deliver(directory, "summary.md")
        finish(directory)
        await running.settle()
        assert await one(running, "status") == ("completed",)


async def test_a_plan_that_was_refused_may_be_mended_before_a_leg_works(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path)
        write(directory, "flow.json", {"legs": [{"id": "x", "agent": "nobody"}]})
        await running.settle()
        write(directory, "flow.json", PLAN)
        await running.settle()
        assert await contract(running) == FOLDED
        assert len(await refusals(running)) == 1


async def test_a_plan_that_comes_after_the_end_is_refused(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path)
        deliver(directory, "summary.md")
        finish(directory)
        await running.settle()
        before = (directory / "events.jsonl").read_bytes()
        write(directory, "flow.json", PLAN)
        await running.settle()
        assert await contract(running) == [SUMMARY]
        assert await refusals(running) == ["it came after the session was over (completed)"]
        assert only_the_refusal_came(directory, before).endswith(
            "it came after the session was over (completed)"
        )
        assert await one(running, "status, folded") == ("completed", 0)


async def test_a_further_attempt_goes_on_under_the_contract_of_the_first(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path)
        finish(directory)
        await running.settle()
        (directory / "exit.json").unlink()
        write(directory, "run.json", FLOW)
        write(directory, "flow.json", PLAN)
        await running.settle()
        assert await one(running, "status, attempt") == ("running", 2)
        assert await contract(running) == [SUMMARY]
        assert await refusals(running) == ["an earlier attempt was held to the contract already"]


async def test_a_plan_is_folded_into_no_contract_that_could_not_be_read(tmp_path: Path) -> None:
    wrong = Declarations(None, None, "review.playbook.yaml:1:1: it is wrong")

    def asked(playbook: str | None, agent: str | None) -> Declarations:
        return wrong if playbook is not None else declared(playbook, agent)

    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=asked) as running:
        directory = begin(tmp_path)
        write(directory, "flow.json", PLAN)
        await running.settle()
        assert await one(running, "artifact_contract_json, contract_problem") == (None, wrong.problem)
        (why,) = await refusals(running)
        assert why == f"there is no contract that it could be folded into: {wrong.problem}"


async def test_ids_that_collide_are_refused_and_named(tmp_path: Path) -> None:
    own: JsonValue = {"expected": [{"id": "one__review", "path": "own.md"}]}
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path, {"schema": "runward-run-v1", "contract": own})
        write(directory, "flow.json", PLAN)
        await running.settle()
        assert await contract(running) == [("one__review", "own.md", True, "", "playbook")]
        (why,) = await refusals(running)
        assert "'one__review' is already the id of entry 0" in why


async def test_a_plan_that_is_no_plan_is_a_problem_and_counts_once_it_is_fixed(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = begin(tmp_path)
        write(directory, "flow.json", {"legs": [{"id": "one", "agent": "reviewer", "path": "../out"}]})
        await running.settle()
        ((path, message, fix),) = await running.rows("select path, message, mend from problems")
        assert path == f"{directory}/flow.json"
        assert message == "legs[0].path: '../out' has a '..' in it"
        assert fix
        assert await refusals(running) == []
        write(directory, "flow.json", PLAN)
        await running.settle()
        assert await running.rows("select count(*) from problems") == [(0,)]
        assert await contract(running) == FOLDED


async def test_a_plan_without_a_run_waits_for_it(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=declared) as running:
        directory = tmp_path / "runs" / "a"
        write(directory, "flow.json", PLAN)
        await running.settle()
        assert await running.rows("select count(*) from events") == [(0,)]
        begin(tmp_path)
        await running.settle()
        assert await contract(running) == FOLDED


def list_of(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, list)
    return value


def wait_for_a_tick(directory: Path) -> None:
    """Until the file system's clock has moved on: what changes within one of its ticks looks simultaneous."""
    marker = directory / ".tick"
    marker.write_text("")
    before = marker.stat().st_ctime_ns
    while marker.stat().st_ctime_ns == before:
        marker.write_text("")
    marker.unlink()
