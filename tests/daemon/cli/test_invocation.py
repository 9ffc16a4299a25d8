"""`runward invocation`: chain runs, the tries of their steps, and playbooks that people ran."""

import json

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.test_chain import REVIEW, over
from tests.waiting import wait_for

from runward.config.json_value import JsonValue

CHAIN = """\
name: pr
trigger: {event: asked}
steps:
  - {id: review, skill: judge, with: {verdict: "{{ trigger.verdict }}"}}
  - {id: flaky, skill: fails, retry: {attempts: 2, backoff: 1ms}, continue_on_failure: true}
"""
LISTENER = """\
name: heeds
trigger: {event: invocation.completed, filter: {skill: judge, outcome.verdict: REJECT}}
steps: [{skill: touch}]
"""


@pytest.fixture
def invoking(place: Place) -> Place:
    (place.directory / "playbooks/judge.playbook.yaml").write_text(REVIEW)
    (place.directory / "playbooks/touch.playbook.yaml").write_text("command: [touch, merged]\n")
    (place.directory / "playbooks/fails.playbook.yaml").write_text("command: ['false']\n")
    for name, text in (("pr", CHAIN), ("heeds", LISTENER)):
        (place.directory / f"{name}.yaml").write_text(text)
        assert place.call("chain", "define", f"{name}.yaml").code == 0
    return place


def listed(place: Place, *words: str) -> list[dict[str, JsonValue]]:
    return place.call("invocation", "list", *words, "--json").objects()


def shown(place: Place, identifier: JsonValue) -> dict[str, JsonValue]:
    return place.call("invocation", "show", str(identifier), "--json").object()


def test_a_chain_run_and_each_try_of_its_steps_are_invocations_with_their_sessions_and_outcomes(
    invoking: Place,
) -> None:
    with invoking.daemon():
        assert invoking.call("event", "emit", "asked", "verdict=APPROVE").code == 0
        wait_for(lambda: over(invoking, 1), "the chain run")
        wait_for(lambda: all(each["ended_at"] for each in listed(invoking)), "the ends of all invocations")
    run = invoking.call("chain", "run", "show", "@last", "--json").object()
    found = listed(invoking, "--chain-run", str(run["chain_run_id"]))
    by_place = {(each["step_index"], each["try"]): each for each in found}
    assert {place: (each["skill"], each["status"]) for place, each in by_place.items()} == {
        (None, None): ("chain", "completed"),
        (0, 1): ("judge", "completed"),
        (1, 1): ("fails", "failed"),
        (1, 2): ("fails", "failed"),
    }
    review, root = by_place[0, 1], by_place[None, None]
    steps = run["steps"]
    assert isinstance(steps, list)
    assert [each["invocation_id"] for each in steps if isinstance(each, dict)] == [
        review["invocation_id"],
        by_place[1, 2]["invocation_id"],
    ]
    assert run["invocation_id"] == root["invocation_id"]
    session = invoking.call("session", "show", str(review["session_id"]), "--json").object()
    assert session["invocation_id"] == review["invocation_id"]
    said = json.loads((invoking.runs / str(review["session_id"]) / "run.json").read_text())
    assert (said["kind"], said["invocation_id"]) == ("step", review["invocation_id"])
    assert {key: said["metadata"][key] for key in ("chain_run_id", "step_index", "try", "with")} == {
        "chain_run_id": run["chain_run_id"],
        "step_index": 0,
        "try": 1,
        "with": {"verdict": "APPROVE"},
    }
    (outcome,) = invoking.call("invocation", "show", str(review["invocation_id"]), "--json").items(
        "artifacts"
    )
    assert outcome["kind"] == "review_verdict"
    metadata = shown(invoking, root["invocation_id"])["node_metadata"]
    assert isinstance(metadata, dict)
    assert metadata["definition"]["name"] == "pr"  # type: ignore[call-overload,index] # an object
    assert metadata["state"]["status"] == "completed"  # type: ignore[call-overload,index] # an object
    assert "step 0, try 1" in invoking.call("invocation", "show", str(review["invocation_id"])).out


def test_a_chain_listens_to_the_end_of_an_invocation_whose_outcome_it_asks_for(invoking: Place) -> None:
    with invoking.daemon():
        invoking.call("event", "emit", "asked", "verdict=APPROVE")
        invoking.call("event", "emit", "asked", "verdict=REJECT")
        wait_for(lambda: over(invoking, 3), "three chain runs")
    (heard,) = invoking.call("chain", "runs", "heeds", "--json").objects()
    run = invoking.call("chain", "run", "show", str(heard["chain_run_id"]), "--json").object()
    event = run["trigger_event"]
    assert isinstance(event, dict)
    assert (event["skill"], event["chain"], event["status"]) == ("judge", "pr", "completed")


def test_a_playbook_that_a_person_runs_is_an_invocation_with_what_was_given(invoking: Place) -> None:
    with invoking.daemon():
        ended = invoking.call("play", "run", "judge", "verdict=APPROVE", "--wait", "--json").object()
        wait_for(lambda: listed(invoking)[0]["ended_at"] is not None, "the invocation's end")
    (found,) = listed(invoking, "--skill", "judge")
    assert (found["session_id"], found["status"], found["chain_run_id"]) == (
        ended["session_id"],
        "completed",
        None,
    )
    metadata = shown(invoking, "@last")["node_metadata"]
    assert isinstance(metadata, dict)
    assert metadata["with"] == {"verdict": "APPROVE"}


def test_a_run_that_names_an_invocation_itself_belongs_to_none(invoking: Place) -> None:
    with invoking.daemon():
        invoking.call("play", "run", "judge", "verdict=APPROVE", "--wait")
        (ordered,) = listed(invoking)
        directory = invoking.runs / "forged"
        directory.mkdir()
        (directory / "exit.json").write_text(
            json.dumps({"schema": "runward-exit-v1", "exit_code": 0, "ended_at": "2026-11-20T10:00:01Z"})
        )
        run = json.loads((invoking.runs / str(ordered["session_id"]) / "run.json").read_text())
        run = {**run, "session_id": "forged", "metadata": {}}
        (directory / "run.json").write_text(json.dumps(run))
        wait_for(lambda: invoking.call("session", "show", "forged").code == 0, "the session")
        forged = invoking.call("session", "show", "forged", "--json").object()
    assert forged["invocation_id"] is None
    assert shown(invoking, ordered["invocation_id"])["session_id"] == ordered["session_id"]


def test_an_invocation_that_is_not_there_is_said(invoking: Place) -> None:
    with invoking.daemon():
        assert invoking.call("invocation", "list").out == "no invocations\n"
    assert invoking.call("invocation", "show", "inv_none").code == 3
    assert invoking.call("invocation", "show", "@last").code == 3


def test_what_a_step_adds_by_a_command_is_its_outcome_and_fires_who_listens(invoking: Place) -> None:
    (invoking.directory / "gate.json").write_text(json.dumps({"summary": "fine", "gate_passed": True}))
    settings, gate = (str(invoking.directory / name) for name in ("runward.toml", "gate.json"))
    command = json.dumps(
        invoking.argv(
            *(
                "--config",
                settings,
                "artifact",
                "add",
                "--kind",
                "gate_verdict",
                "--name",
                "gate",
                "--content",
            ),
            gate,
        )
    )
    (invoking.directory / "playbooks/gate.playbook.yaml").write_text(f"command: {command}\n")
    (invoking.directory / "gated.yaml").write_text(
        "name: gated\ntrigger: {manual: true}\nsteps:\n  - {id: gate, skill: gate}\n"
        '  - {skill: touch, condition: "{{ steps.gate.outcome.gate_passed }}"}\n'
    )
    (invoking.directory / "added.yaml").write_text(
        "name: added\ntrigger: {event: artifact.added, filter: {kind: gate_verdict, outcome.passed: true}}\n"
        "steps: [{skill: touch}]\n"
    )
    for name in ("gated", "added"):
        assert invoking.call("chain", "define", f"{name}.yaml").code == 0
    with invoking.daemon():
        assert invoking.call("chain", "fire", "gated").code == 0
        wait_for(lambda: over(invoking, 2), "both chain runs", within=60.0)
    runs = {str(each["chain"]): each for each in invoking.call("chain", "runs", "--json").objects()}
    assert {chain: each["status"] for chain, each in runs.items()} == {
        "gated": "completed",
        "added": "completed",
    }
    steps = invoking.call("chain", "run", "show", str(runs["gated"]["chain_run_id"]), "--json").items("steps")
    assert [each["status"] for each in steps] == ["completed", "completed"]
    (artifact,) = invoking.call(
        "artifact", "list", "--chain-run", str(runs["gated"]["chain_run_id"]), "--json"
    ).objects()
    assert (artifact["kind"], artifact["name"]) == ("gate_verdict", "gate")
