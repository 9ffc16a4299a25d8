"""Flows from end to end: `runward run`, its exit code, and what the daemon says of the same run."""

from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place, Result
from tests.waiting import PATIENCE_S, wait_for

from runward.config.json_value import JsonValue

CRITIC = """\
---
name: critic
artifact_defaults:
  expected:
    - {id: review, path: review.md, description: what is wrong}
    - {id: notes, path: deep/notes.md, required: false}
---
You criticise.
"""
PLAN = (
    '{"legs": [{"id": "first", "agent": "critic"}, {"id": "last", "agent": "reviewer", "path": "legs/last"}]}'
)
WRITE_PLAN = f"printf %s '{PLAN}' > \"$RUNWARD_RUN_DIR/flow.json\""
GO = 'cd "$RUNWARD_ARTIFACTS_DIR"; mkdir -p first/deep legs/last'
FIRST = "echo fine > first/review.md; echo more > first/deep/notes.md"
LAST = "echo all > legs/last/report.md"
LATER = "sleep 0.05"
"""Longer than a tick of any file system's clock."""


@pytest.fixture
def flows(place: Place) -> Place:
    """A furnished place with one agent more."""
    (place.directory / "agents/critic.md").write_text(CRITIC)
    return place


def run(place: Place, *script: str, options: tuple[str, ...] = ()) -> Result:
    """`runward run` of a shell script, as the session `flow`."""
    command = ("sh", "-ec", "; ".join(script))
    process = place.start("run", "--name", "flow", *options, "--", *command)
    out, err = process.communicate(timeout=PATIENCE_S)
    return Result(process.returncode, out, err)


def shown(place: Place) -> dict[str, JsonValue]:
    """The session as the store has it once a daemon has looked."""
    place.daemon_once()
    return place.call("session", "show", "flow", "--json").object()


def expected(session: dict[str, JsonValue]) -> list[tuple[JsonValue, JsonValue, JsonValue]]:
    contract = session["contract"]
    if contract is None:
        return []
    assert isinstance(contract, dict)
    entries = contract["expected"]
    assert isinstance(entries, list)
    return [(each["id"], each["path"], each["source"]) for each in entries if isinstance(each, dict)]


LEGS = [
    ("first__review", "first/review.md", "role_default"),
    ("first__notes", "first/deep/notes.md", "role_default"),
    ("last__report", "legs/last/report.md", "role_default"),
]


def test_a_flow_that_delivers_what_its_legs_owe_is_completed(flows: Place) -> None:
    result = run(flows, WRITE_PLAN, GO, FIRST, LAST)
    assert (result.code, result.err) == (0, "")
    session = shown(flows)
    assert (session["status"], session["delivery"], session["contract_basis"]) == (
        "completed",
        "passed",
        "late",
    )
    assert expected(session) == LEGS
    assert session["contract_problem"] is None


def test_a_flow_that_lacks_what_a_leg_owes_ends_1_and_is_failed(flows: Place) -> None:
    result = run(flows, WRITE_PLAN, GO, FIRST)
    assert result.code == 1
    assert result.err.splitlines()[:2] == [
        "Run failed: missing required artifacts.",
        "  last__report (legs/last/report.md) — role_default",
    ]
    session = shown(flows)
    assert (session["status"], session["delivery"]) == ("failed", "partial")
    reason = session["reason"]
    assert isinstance(reason, dict)
    assert reason["code"] == "run.failed.missing_artifact"


def test_what_the_playbook_expects_comes_first_and_is_kept(flows: Place) -> None:
    result = run(flows, WRITE_PLAN, GO, FIRST, LAST, options=("--playbook", "review"))
    assert result.code == 1
    assert "  review (review.md) — playbook" in result.err
    session = shown(flows)
    assert session["contract_basis"] == "launcher"
    own = [
        ("report", "report.md", "agent_profile"),
        ("review", "review.md", "playbook"),
        ("notes", "notes.md", "playbook"),
    ]
    assert expected(session) == own + LEGS


def test_artifacts_elsewhere_have_their_legs_there(flows: Place) -> None:
    outside = flows.directory / "out"
    result = run(flows, WRITE_PLAN, GO, LAST, options=("--artifacts", str(outside)))
    assert result.code == 1
    assert "first__review (first/review.md) — role_default" in result.err
    assert (outside / "legs/last/report.md").exists()
    assert expected(shown(flows)) == LEGS


REFUSED = {
    "late": (
        (GO, FIRST, LATER, WRITE_PLAN),
        "it came after a leg worked: in 'first' lies ",
    ),
    "an unknown agent": (
        (WRITE_PLAN.replace("critic", "nobody"), GO),
        "leg first: there is no agent 'nobody' in ",
    ),
    "a path for an agent": (
        (WRITE_PLAN.replace("critic", "../agents/critic"), GO),
        "leg first: '../agents/critic' is a ",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_plan_that_is_refused_is_said_and_holds_nobody_to_anything(flows: Place, name: str) -> None:
    script, why = REFUSED[name]
    result = run(flows, *script)
    assert result.code == 0
    assert result.err.startswith(f"runward run: flow.json: its legs are not in the contract: {why}")
    session = shown(flows)
    assert (session["status"], session["contract"]) == ("completed", None)
    assert str(session["contract_problem"]).startswith(f"flow.json: {why}")
    people = flows.call("session", "show", "flow").out
    assert f"none: flow.json: {why}" in people
    causes = flows.call("why", "flow").out
    assert f"contracts/planned refused: the plan's legs are not folded into the contract: {why}" in causes
    assert "FlowPlanned: a flow was planned, with the legs first, last" in causes
    told = flows.call("why", "flow", "--json").items("not_done")
    assert [(each["what"], each["why"]) for each in told] == [
        ("it has no contract", session["contract_problem"])
    ]


def test_a_plan_that_is_none_is_said_by_both(flows: Place) -> None:
    result = run(flows, WRITE_PLAN.replace("first", "a b"), GO)
    assert result.code == 0
    assert "flow.json: its legs are not in the contract: legs[0].id: 'a b' is not an id (use " in result.err
    assert shown(flows)["contract"] is None
    (problem,) = flows.call("why", "flow", "--json").items("not_done")
    assert str(problem["what"]).endswith("/flow/flow.json")
    assert problem["why"] == "legs[0].id: 'a b' is not an id"


def test_settings_that_became_wrong_meanwhile_are_said_and_the_snapshot_holds(flows: Place) -> None:
    spoil = f"echo nonsense = 1 > '{flows.directory}/runward.toml'"
    result = run(flows, WRITE_PLAN, spoil, options=("--playbook", "review"))
    assert result.code == 1
    assert "flow.json: its legs are not in the contract: " in result.err
    assert "runward.toml:1:1" in result.err
    assert "  review (review.md) — playbook" in result.err


def test_verification_can_be_left_out_of_a_flow_too(flows: Place) -> None:
    result = run(flows, WRITE_PLAN, options=("--no-verify",))
    assert (result.code, result.err) == (0, "")


def test_a_flow_that_fails_by_itself_keeps_its_own_code(flows: Place) -> None:
    result = run(flows, WRITE_PLAN, "exit 7")
    assert (result.code, result.err) == (7, "")
    session = shown(flows)
    reason = session["reason"]
    assert isinstance(reason, dict)
    assert (reason["code"], session["delivery"]) == ("run.failed.exit_nonzero", "missing")


UNTIL_FOLDED = (
    f"timeout {PATIENCE_S / 2} sh -c "
    "'until grep -qs contract_folded \"$RUNWARD_RUN_DIR/events.jsonl\"; do sleep 0.01; done'"
)


def wait_judged(place: Place) -> None:
    """Until the daemon has seen the end of the session `flow`, which comes after that of its launcher."""
    wait_for(lambda: place.rows("select 1 from sessions where status = 'completed'"), "the verdict")


def test_a_daemon_that_watches_folds_while_the_flow_runs(flows: Place) -> None:
    with flows.daemon():
        result = run(flows, WRITE_PLAN, UNTIL_FOLDED, GO, FIRST, LAST)
        assert (result.code, result.err) == (0, "")
        wait_judged(flows)
    session = flows.call("session", "show", "flow", "--json").object()
    assert (session["status"], session["contract_basis"]) == ("completed", "first_look")
    assert expected(session) == LEGS
    people = flows.call("session", "show", "flow").out
    assert "fixed (first_look), with the legs of flow.json" in people
    assert "declared by: role_default" in people
    causes = flows.call("why", "flow").out
    assert "contracts/planned decided: 3 artifacts of 2 legs folded into the contract (first_look)" in causes


def test_a_plan_that_is_written_again_makes_launcher_and_daemon_judge_by_the_same_one(flows: Place) -> None:
    harder = WRITE_PLAN.replace('"legs/last"', '"legs/more"')
    with flows.daemon():
        result = run(flows, WRITE_PLAN, UNTIL_FOLDED, harder, GO, FIRST, LAST)
        assert (result.code, result.err) == (0, "")
        wait_judged(flows)


def test_a_second_plan_is_said_beside_the_contract_that_holds(flows: Place) -> None:
    another = WRITE_PLAN.replace("first", "another")
    problem = "select contract_problem from sessions where contract_problem is not null"
    with flows.daemon():
        result = run(flows, WRITE_PLAN, UNTIL_FOLDED, GO, FIRST, LAST, LATER, another)
        assert (result.code, result.err) == (0, ""), "the launcher goes by the plan that the daemon saw first"
        wait_for(lambda: flows.rows(problem), "the second plan's refusal")
        wait_judged(flows)
        wait_for(lambda: not flows.rows("select 1 from jobs where state <> 'done'"), "the last job")
    session = flows.call("session", "show", "flow", "--json").object()
    assert expected(session) == LEGS
    assert session["status"] == "completed"
    assert (
        "not folded: flow.json: it is not the plan whose legs are in the contract"
        in flows.call("session", "show", "flow").out
    )
    told = flows.call("why", "flow", "--json").items("not_done")
    assert [each["what"] for each in told] == ["a plan's legs are not in its contract"]


def test_inspect_reads_a_flow_like_any_run(flows: Place) -> None:
    run(flows, WRITE_PLAN, GO, FIRST, LAST)
    (found,) = flows.call("inspect", str(flows.runs / "flow"), "--json").objects()
    assert (found["state"], found["problems"]) == ("completed", [])
    Path(flows.runs / "flow/flow.json").write_text("{")
    (found,) = flows.call("inspect", str(flows.runs / "flow"), "--json").objects()
    assert found["problems"]


def test_the_schema_of_a_flow_is_printed(flows: Place) -> None:
    schema = flows.call("schema", "flow").object()
    assert schema["title"] == "Runward flow"
    assert schema["required"] == ["legs"]
