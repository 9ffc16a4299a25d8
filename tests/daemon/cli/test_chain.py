"""`runward chain` and `event`: chains that are defined, tried and fired."""

import json
import time

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.launching import members
from tests.waiting import wait_for

from runward.config.json_value import JsonValue
from runward.daemon.configuration.offers import HostKnown, write_offers
from runward.daemon.store.ownership import prepare

LOOK = 'command: ["look", "--pr", "{{ with.pr }}"]\n'
CHAIN = """\
name: pr-review
trigger: {event: pr.opened, filter: {base: main}}
steps:
  - id: look
    skill: look
    with: {pr: "{{ trigger.pr }}", unused: [1, "{{ trigger.pr }}"]}
  - id: again
    skill: look
    with: {pr: "{{ steps.look.outcome.round + 1 }}"}
    condition: "{{ outcome.verdict == 'APPROVE' }}"
"""


@pytest.fixture
def chains(place: Place) -> Place:
    (place.directory / "playbooks/look.playbook.yaml").write_text(LOOK)
    (place.directory / "c.yaml").write_text(CHAIN)
    return place


REVIEW = """\
command:
  - sh
  - -c
  - 'echo "{\\"outcome_kind\\": \\"review_verdict\\", \\"summary\\": \\"s\\", \\"verdict\\": \\"$0\\"}" > "$RUNWARD_ARTIFACTS_DIR/outcome.json"'
  - "{{ with.verdict }}"
artifacts: {expected: [{id: verdict, path: outcome.json}]}
"""
TWO_STEPS = """\
name: two
trigger: {event: asked, filter: {wanted: true}}
steps:
  - {id: review, skill: judge, with: {verdict: "{{ trigger.verdict }}"}}
  - id: merge
    skill: touch
    condition: "{{ steps.review.outcome.verdict == 'APPROVE' and steps.review.outcomes[0].findings == []
      and steps.review.exit_code == 0 and steps.review.delivery == 'passed' and steps.review.try == 1
      and steps.review.verification.status == 'passed' and steps.review.artifacts.verdict is string }}"
"""


@pytest.fixture
def firing(place: Place) -> Place:
    (place.directory / "playbooks/judge.playbook.yaml").write_text(REVIEW)
    (place.directory / "playbooks/touch.playbook.yaml").write_text("command: [touch, merged]\n")
    (place.directory / "two.yaml").write_text(TWO_STEPS)
    assert place.call("chain", "define", "two.yaml").code == 0
    return place


def runs_of(place: Place) -> list[dict[str, JsonValue]]:
    return place.call("chain", "runs", "--json").objects()


def over(place: Place, count: int) -> bool:
    """Whether so many chain runs are over."""
    return sum(each["status"] not in ("running", "waiting_approval") for each in runs_of(place)) == count


def steps_of(place: Place) -> list[tuple[object, object]]:
    steps = place.call("chain", "run", "show", "@last", "--json").items("steps")
    return [(each["id"], each["status"]) for each in steps]


def test_an_event_runs_two_steps_the_second_on_the_outcome_of_the_first(firing: Place) -> None:
    emitted = firing.call("event", "emit", "asked", "wanted:=true", "verdict=APPROVE", "--id", "one")
    assert (emitted.code, emitted.out) == (0, "asked one\n")
    assert emitted.err == "runward: no daemon is running: chains see it when one starts\n"
    assert firing.call("event", "emit", "asked", "wanted:=true", "verdict=APPROVE", "--id", "one").code == 0
    assert firing.call("event", "emit", "asked", "wanted:=false").code == 0
    with firing.daemon():
        wait_for(lambda: over(firing, 1), "the chain run")
        assert steps_of(firing) == [("review", "completed"), ("merge", "completed")]
        said = firing.call("event", "emit", "asked", "wanted:=true", "verdict=REJECT", "--json").object()
        recorded = f"select type from events where key = '{said['request']}'"
        assert firing.rows(recorded) == [("EventOccurred",)], "it is recorded when the command returns"
        wait_for(lambda: over(firing, 2), "the second chain run")
        assert steps_of(firing) == [("review", "completed"), ("merge", "skipped")]
        assert (
            firing.call("event", "emit", "asked", "wanted:=true", "verdict=APPROVE", "--id", "one").code == 0
        )
        fired = firing.call("chain", "fire", "two", "verdict=APPROVE").out.strip()
        wait_for(lambda: over(firing, 3), "the third chain run")
    newest = runs_of(firing)[0]
    assert (newest["chain_run_id"], newest["chain"], newest["status"]) == (fired, "two", "completed")
    told = firing.call("why", fired).out
    assert "asked to fire the chain two" in told
    assert "step merge is started as" in told
    assert "ChainRunFinished: the chain run ended completed: chain.completed.ok" in told.splitlines()[-2]
    shown = firing.call("chain", "run", "show", fired[:8]).out
    assert "1  merge   touch  completed" in shown
    assert len(list(firing.runs.glob("cr_*"))) == 5


@pytest.mark.parametrize(("command", "code"), [("[sleep, '0.2']", 0), ("['false']", 1)])
def test_a_person_waits_for_the_end_of_a_chain_run(firing: Place, command: str, code: int) -> None:
    (firing.directory / "playbooks/touch.playbook.yaml").write_text(f"command: {command}\n")
    (firing.directory / "one.yaml").write_text(
        "name: one\ntrigger: {manual: true}\nsteps: [{skill: touch}]\n"
    )
    assert firing.call("chain", "define", "one.yaml").code == 0
    with firing.daemon():
        fired = firing.call("chain", "fire", "one", "--wait")
        assert fired.code == code, fired.err
        (run,) = runs_of(firing)
        assert fired.out.strip() == run["chain_run_id"]
        assert str(run["status"]) in fired.err
        taken_up = firing.call("chain", "fire", "one", "--json").object()
        assert taken_up["status"] in ("running", run["status"])
    dry = firing.call("chain", "fire", "one", "--wait", "--dry-run")
    assert dry.code == 2
    waiting = firing.call("chain", "fire", "one", "--wait")
    assert (waiting.code, waiting.out) == (75, "")
    assert "no daemon is running, so nothing was requested" in waiting.err
    assert not [each for each in (firing.state / "inbox").iterdir() if not each.name.startswith("launch-")]


ECHO = """\
name: echo
trigger: {event: session.finished, filter: {playbook: judge, outcome.verdict: REJECT}}
steps:
  - {skill: touch, condition: "{{ trigger.status == 'completed' }}"}
"""


def test_the_verdict_of_a_session_fires_the_chains_that_listen_to_it(firing: Place) -> None:
    (firing.directory / "echo.yaml").write_text(ECHO)
    assert firing.call("chain", "define", "echo.yaml").code == 0
    with firing.daemon():
        firing.call("event", "emit", "asked", "wanted:=true", "verdict=APPROVE")
        firing.call("event", "emit", "asked", "wanted:=true", "verdict=REJECT")
        wait_for(lambda: over(firing, 3), "three chain runs")
    chains = sorted(str(each["chain"]) for each in runs_of(firing))
    assert chains == ["echo", "two", "two"]
    echoed = next(each for each in runs_of(firing) if each["chain"] == "echo")
    event = firing.call("chain", "run", "show", str(echoed["chain_run_id"]), "--json").object()[
        "trigger_event"
    ]
    assert isinstance(event, dict)
    assert set(event) == {
        *(
            "session_id",
            "key",
            "layout",
            "status",
            "reason_code",
            "delivery",
            "playbook",
            "agent",
            "cwd",
            "outcome",
        )
    }
    assert event["outcome"]["verdict"] == "REJECT"  # type: ignore[call-overload,index] # an object
    assert event["cwd"] == f"{firing.runs}/{event['session_id']}/artifacts"
    assert echoed["status"] == "completed"
    told = firing.call("why", str(echoed["chain_run_id"])).out
    assert "EventOccurred: Runward reported that session.finished happened, as " in told
    rejected = str(event["session_id"]).partition("-")[0]
    (obstacle,) = firing.call("why", rejected, "--json").items("not_done")
    assert obstacle["what"] == "step 1 (merge) was skipped"
    assert str(obstacle["why"]).startswith(
        "step.skipped.condition_false, its condition {{ steps.review.outcome"
    )
    assert "is false; steps.review.outcome.verdict is 'REJECT', " in str(obstacle["why"])


def test_a_session_that_began_and_ended_in_one_look_fires_with_its_working_directory(firing: Place) -> None:
    (firing.directory / "echo.yaml").write_text(
        "name: echo\ntrigger: {event: session.finished, filter: {session_id: done}}\nsteps: [{skill: touch}]\n"
    )
    assert firing.call("chain", "define", "echo.yaml").code == 0
    firing.add_run("done", exit_code=0, cwd="/work/app")
    firing.daemon_once()
    (run,) = runs_of(firing)
    shown = firing.call("chain", "run", "show", str(run["chain_run_id"]), "--json").object()
    assert isinstance(shown["trigger_event"], dict)
    assert shown["trigger_event"]["cwd"] == "/work/app"


@pytest.mark.prove
def test_a_chain_that_fires_itself_ends_at_the_eighth_run(firing: Place) -> None:
    (firing.directory / "loop.yaml").write_text(
        "name: loop\ntrigger: {event: session.finished}\nsteps: [{skill: touch}]\n"
    )
    assert firing.call("chain", "define", "loop.yaml").code == 0
    with firing.daemon():
        firing.call("chain", "fire", "loop")
        wait_for(lambda: over(firing, 9), "nine chain runs")
    reasons = [str(each["reason"]["code"]) for each in runs_of(firing)]  # type: ignore[call-overload,index] # an object
    assert sorted(reasons) == ["chain.completed.ok"] * 8 + ["chain.failed.depth"]


def test_a_step_whose_run_directory_is_taken_ends_its_chain_run(firing: Place) -> None:
    fired = firing.call("chain", "fire", "two", "verdict=APPROVE").out.strip()
    taken = firing.runs / f"{fired}-0-1"
    taken.mkdir(parents=True)
    (taken / "somebodys.txt").touch()
    with firing.daemon():
        wait_for(lambda: over(firing, 1), "the chain run")
    shown = firing.call("chain", "run", "show", fired, "--json").object()
    assert (shown["status"], shown["reason"]["code"]) == ("failed", "chain.failed.step_failed")  # type: ignore[call-overload,index] # an object
    assert steps_of(firing)[0] == ("review", "failed")
    assert "is not started: its run directory can't be made" in firing.call("why", fired).out


@pytest.mark.parametrize(
    "patience", [0.05, *(pytest.param(each, marks=pytest.mark.prove) for each in (0.0, 0.15, 0.3))]
)
def test_a_daemon_that_is_killed_anywhere_loses_and_doubles_no_step(firing: Place, patience: float) -> None:
    assert firing.call("chain", "fire", "two", "verdict=APPROVE").code == 0
    with firing.daemon() as daemon:
        time.sleep(patience)
        daemon.kill()
        daemon.wait()
    with firing.daemon():
        wait_for(lambda: over(firing, 1), "the chain run")
    assert steps_of(firing) == [("review", "completed"), ("merge", "completed")]
    assert len(list(firing.runs.glob("cr_*"))) == 2


def test_a_step_that_fails_ends_the_chain(firing: Place) -> None:
    (firing.directory / "playbooks/judge.playbook.yaml").write_text(
        'command: ["sh", "-c", "exit 3", "{{ with.verdict }}"]\n'
    )
    with firing.daemon():
        assert firing.call("chain", "fire", "two", "verdict=x").code == 0
        wait_for(lambda: over(firing, 1), "the chain run")
    (row,) = runs_of(firing)
    assert (row["status"], row["reason"]) == (
        "failed",
        {"code": "chain.failed.step_failed", "summary": "step review ended failed (run.failed.exit_nonzero)"},
    )
    assert steps_of(firing) == [("review", "failed"), ("merge", "pending")]
    told = firing.call("why", "chain:@last", "--json")
    assert told.object()["subject"] == {"noun": "chain run", "id": row["chain_run_id"]}
    assert told.items("not_done") == [
        {
            "what": "step 0 (review) ended failed",
            "why": "run.failed.exit_nonzero, exited with 3",
            "fix": f"`runward why {row['chain_run_id']}-0-1` says more",
        },
        {
            "what": "step 1 (merge) never began",
            "why": "the run was over before: step review ended failed (run.failed.exit_nonzero)",
            "fix": None,
        },
    ]
    assert firing.call("why", "@last", "--json").object()["subject"] == {
        "noun": "session",
        "id": f"native:runs/{row['chain_run_id']}-0-1",
    }


def test_why_a_chain_did_not_fire_is_told_by_its_own_word(firing: Place) -> None:
    fired = firing.call("chain", "fire", "two", "verdict=x").out.strip()
    assert firing.call("why", "chain:@last", "--json").object()["subject"] == {
        "noun": "chain run",
        "id": fired,
    }
    (firing.state / "inbox").rename(firing.state / "elsewhere")
    firing.daemon_once()
    assert firing.call("why", "chain:two").out.startswith(
        "chain two: active: nothing has fired it yet: it waits for asked\n"
    )
    assert firing.call("chain", "pause", "two", "--note", "a freeze").code == 0
    assert firing.call("event", "emit", "asked", "wanted:=true").code == 0
    firing.daemon_once()
    for text in ("chain:two", "chain two"):
        told = firing.call("why", text, "--json")
        assert told.object()["subject"] == {"noun": "chain", "id": "two"}
        assert "asked" in str(told.object()["summary"])
        assert "is skipped: it is paused" in str(told.object()["summary"])
        (obstacle,) = told.items("not_done")
        assert str(obstacle["why"]).endswith("asked: a freeze")
        assert obstacle["fix"] == "`runward chain resume two`"
    assert firing.call("why", "chain:tow").code == 3


def test_chain_runs_that_are_not_there(place: Place) -> None:
    assert place.call("chain", "runs").out == "no chain runs\n"
    for text in ("@last", "cr_1"):
        assert place.call("chain", "run", "show", text).code == 3
    assert place.call("event", "emit", "no name").code == 2


def tried(place: Place, *words: str, outcomes: str = "[]") -> list[dict[str, object]]:
    (place.directory / "outcomes.json").write_text(outcomes)
    result = place.call(
        "chain", "fire", "c.yaml", *words, "--dry-run", "--outcomes", "outcomes.json", "--json"
    )
    assert result.code == 0, result.err
    return [dict(each) for each in result.items("steps")]


def test_a_chain_is_defined_listed_shown_and_replaced(chains: Place) -> None:
    assert chains.call("chain", "list").out.startswith("no chains in ")
    first = chains.call("chain", "define", "c.yaml", "--json").object()
    assert first == {
        "name": "pr-review",
        "file": f"{chains.directory}/chains/pr-review.yaml",
        "replaced": False,
    }
    assert chains.call("chain", "define", "c.yaml").out.startswith("pr-review is replaced: ")
    assert (chains.directory / "chains/pr-review.yaml").read_text() == CHAIN
    assert "pr-review  pr.opened  2      ok" in chains.call("chain", "list").out
    (listed,) = chains.call("chain", "list", "--json").objects()
    assert (listed["name"], listed["problems"]) == ("pr-review", [])
    shown = chains.call("chain", "show", "pr-review").out
    assert "pr-review: fired by the event pr.opened" in shown
    assert "1  again: look if {{ outcome.verdict == 'APPROVE' }}" in shown
    assert [path.name for path in (chains.directory / "chains").iterdir()] == ["pr-review.yaml"]


def test_a_wrong_chain_changes_nothing_and_is_named_with_its_place(chains: Place) -> None:
    chains.call("chain", "define", "c.yaml")
    (chains.directory / "c.yaml").write_text(
        CHAIN.replace('skill: look\n    with: {pr: "{{ t', 'skill: loook\n    with: {pr: "{{ t')
    )
    refused = chains.call("chain", "define", "c.yaml")
    assert refused.code == 2
    assert "c.yaml:5:12: steps[0].skill: there is no playbook 'loook' (did you mean 'look'?)" in refused.err
    assert (chains.directory / "chains/pr-review.yaml").read_text() == CHAIN
    (chains.directory / "chains/other.yaml").write_text("name: other\n")
    assert "wrong: `runward chain show other` says why" in chains.call("chain", "list").out
    assert chains.call("chain", "show", "other").code == 2


def test_a_name_that_another_file_has_is_refused(chains: Place) -> None:
    (chains.directory / "chains").mkdir()
    (chains.directory / "chains/older.yaml").write_text(CHAIN)
    refused = chains.call("chain", "define", "c.yaml")
    assert (refused.code, "is used by older.yaml" in refused.err) == (2, True)


def test_a_dry_run_shows_which_steps_would_run_and_with_what(chains: Place) -> None:
    look, again = tried(chains, "pr=12", outcomes='[{"verdict": "APPROVE", "round": 3}]')
    assert (look["would_run"], look["argv"]) == (True, ["look", "--pr", "12"])
    assert (again["would_run"], again["value"], again["argv"]) == (True, True, ["look", "--pr", "4"])
    assert "unused     unused" in chains.call("chain", "fire", "c.yaml", "pr=12", "--dry-run").out


ELSEWHERE = """\
name: elsewhere
trigger: {manual: true}
steps:
  - {id: train, skill: train, host: {label: gpu}}
  - {id: there, skill: train, host: gpu-box, condition: "{{ steps.train.status == 'completed' }}"}
  - {id: later, skill: train, host: "{{ trigger.machine }}"}
"""
FLEET = """
[fleet]
host = "laptop"
database = "postgresql://host_laptop@db.example/runward"
password_file = "fleet.secret"
"""


def _dry(place: Place) -> list[tuple[object, ...]]:
    told = place.call("chain", "fire", "e.yaml", "machine=big", "--dry-run", "--json")
    assert told.code == 0, told.err
    steps = json.loads(told.out)["steps"]
    return [(each["would_run"], each["host"], each["warning"]) for each in steps]


def test_steps_of_other_hosts_that_nobody_is_known_to_accept_are_warned_of(chains: Place) -> None:
    (chains.directory / "e.yaml").write_text(ELSEWHERE)
    alone = chains.call("chain", "define", "e.yaml")
    assert (alone.code, alone.err.count("this one is in no fleet")) == (0, 3)
    settings = chains.directory / "runward.toml"
    settings.write_text(settings.read_text() + FLEET)
    told = chains.call("chain", "define", "e.yaml")
    assert (
        "step train: no host is known with the label gpu that accepts the skill train from this one"
        in told.err
    )
    assert "step there: gpu-box is not known to accept the skill train from this one" in told.err
    assert "step later: no host is known that accepts the skill train from this one" in told.err
    assert [warning is None for _, _, warning in _dry(chains)] == [False, False, False]
    prepare(chains.state)
    write_offers(chains.state, {"gpu-box": HostKnown(("gpu",), 1.0, 1, {"train": "0" * 64}, {})})
    told = chains.call("chain", "define", "e.yaml")
    assert (told.code, told.err) == (0, "")
    assert _dry(chains) == [
        (True, "a host with the label gpu", None),
        (True, "gpu-box", None),
        (True, "big", "big is not known to accept the skill train from this one"),
    ]
    shown = chains.call("chain", "fire", "e.yaml", "machine=big", "--dry-run").out
    assert "host       gpu-box" in shown
    assert "warning    big is not known" in shown


@pytest.mark.parametrize(
    ("outcomes", "reason", "why"),
    [
        ("[]", "step.skipped.undefined", "outcome.verdict is not there: outcome is null"),
        ('[{"verdict": "REJECT"}]', "step.skipped.condition_false", "its condition"),
        ('[{"verdict": "APPROVE"}]', "run.failed.not_started", "steps.look.outcome.round is not there"),
        ('["APPROVE"]', "step.skipped.undefined", "outcome.verdict is not there: outcome is null"),
    ],
)
def test_what_would_not_run_says_why(chains: Place, outcomes: str, reason: str, why: str) -> None:
    _, again = tried(chains, "pr=12", outcomes=outcomes)
    assert (again["would_run"], again["reason"], again["argv"]) == (False, reason, None)
    assert why in str(again["why"])


def test_a_dry_run_sees_of_a_step_what_a_real_run_sees(chains: Place) -> None:
    contract = "artifacts: {expected: [{id: report, path: r.md}]}\n"
    (chains.directory / "playbooks/look.playbook.yaml").write_text(LOOK + contract)
    seen = {
        "delivery": "steps.look.delivery == 'passed'",
        "verification": "steps.look.verification.status == 'passed'",
        "exit_code": "steps.look.exit_code == 0",
        "artifacts": "steps.look.artifacts.report is string",
        "outcomes": "steps.look.outcomes | length == 1",
        "try": "steps.look.try == 1",
        "session_id": "steps.look.session_id is string",
        "reason": "steps.look.reason == 'run.completed.ok'",
        "chain": "chain.fired_at is string and chain.event_id is string and chain.events == []",
        "default": "outcome.findings == [] and outcome.round == 1 and outcome.passed is none",
    }
    step = '  - {id: FIELD, skill: look, with: {pr: 1}, condition: "{{ WANTED }}"}\n'
    text = CHAIN[: CHAIN.index("  - id: again")]
    for field, wanted in seen.items():
        text += step.replace("FIELD", f"see_{field}").replace("WANTED", wanted)
    (chains.directory / "c.yaml").write_text(text)
    outcome = '[{"outcome_kind": "review_verdict", "summary": "s", "verdict": "APPROVE"}]'
    steps = tried(chains, "pr=12", outcomes=outcome)
    assert {each["id"]: each["why"] for each in steps if not each["would_run"]} == {}


def test_a_value_that_would_be_read_as_an_option_keeps_the_step_from_starting(chains: Place) -> None:
    (chains.directory / "playbooks/look.playbook.yaml").write_text(LOOK.replace('"--pr", ', ""))
    look, again = tried(chains, "pr=-rf")
    assert (look["reason"], again["reason"]) == ("run.failed.not_started", "run.failed.not_started")
    assert "begins with '-'" in str(look["why"])
    (chains.directory / "playbooks/look.playbook.yaml").write_text(LOOK.replace('"--pr"', '"--"'))
    assert tried(chains, "pr=-rf")[0]["argv"] == ["look", "--", "-rf"]


def test_the_events_fields_come_from_a_file_and_the_command_line(chains: Place) -> None:
    (chains.directory / "event.json").write_text(json.dumps({"pr": 1, "other": 2}))
    result = chains.call("chain", "fire", "c.yaml", "--dry-run", "--event", "event.json", "pr:=7", "--json")
    assert result.items("steps")[0]["argv"] == ["look", "--pr", "7"]
    (chains.directory / "event.json").write_text("[1]")
    refused = chains.call("chain", "fire", "c.yaml", "--dry-run", "--event", "event.json")
    assert (refused.code, "contains a list, not an object" in refused.err) == (2, True)


def test_a_chain_that_is_not_there(chains: Place) -> None:
    for words in (("show", "nobody"), ("fire", "nobody", "--dry-run"), ("define", "nobody.yaml")):
        assert chains.call("chain", *words).code == 3


SLEEPY = """\
name: sleepy
trigger: {manual: true}
steps:
  - {id: rest, skill: rest, with: {for: "{{ trigger.for }}"}, timeout: 10m, grace: 1s}
  - {id: merge, skill: touch}
on_failure:
  - {id: note, skill: touch, condition: "{{ steps.rest.status in ['timed_out', 'cancelled'] }}"}
"""


@pytest.fixture
def sleepy(firing: Place) -> Place:
    rest = 'command: [sh, -c, "sleep $0 & wait", "{{ with.for }}"]\n'
    (firing.directory / "playbooks/rest.playbook.yaml").write_text(rest)
    (firing.directory / "sleepy.yaml").write_text(SLEEPY)
    assert firing.call("chain", "define", "sleepy.yaml").code == 0
    return firing


def rests(place: Place) -> bool:
    """Whether the first step's command runs."""
    return bool(list(place.runs.glob("cr_*/process.json"))) and bool(members(str(place.runs)))


def test_a_chain_run_that_no_daemon_has_fired_yet_can_be_cancelled(sleepy: Place) -> None:
    fired = sleepy.call("chain", "fire", "sleepy", "for=1000").out.strip()
    cancelled = sleepy.call("chain", "run", "cancel", fired, "--reason", "never mind")
    assert (cancelled.code, cancelled.out) == (0, f"{fired} is to be cancelled\n")
    assert "no daemon is running" in cancelled.err
    with sleepy.daemon():
        wait_for(lambda: over(sleepy, 1), "the end of the chain run")
        wait_for(lambda: "running" not in dict(steps_of(sleepy)).values(), "the end of its step")
        wait_for(lambda: not members(str(sleepy.runs)), "the end of its processes")
    assert runs_of(sleepy)[0]["status"] == "cancelled"
    assert "never mind" in sleepy.call("why", fired).out


def test_a_chain_run_is_cancelled_with_the_process_tree_of_its_step(sleepy: Place) -> None:
    fired = sleepy.call("chain", "fire", "sleepy", "for=1000").out.strip()
    for name in (fired, "@last"):
        asked = sleepy.call("chain", "run", "show", name)
        assert f"chain run {fired} of sleepy: asked\n" in asked.out, "it is known before any daemon runs"
    assert "no daemon is running" in asked.out
    assert "no daemon is running" in sleepy.call("why", fired).out
    told = sleepy.call("chain", "run", "show", fired, "--json").object()
    assert (told["status"], told["trigger_event"]) == ("asked", {"for": "1000"})
    with sleepy.daemon():
        wait_for(lambda: rests(sleepy), "the step")
        wait_for(lambda: len(runs_of(sleepy)) == 1, "the chain run")
        cancelled = sleepy.call("chain", "run", "cancel", fired, "--reason", "enough")
        assert (cancelled.code, cancelled.out) == (0, f"{fired} is cancelled\n")
        wait_for(lambda: over(sleepy, 1), "the end of the chain run")
        wait_for(lambda: not members(str(sleepy.runs)), "the end of its processes")
        wait_for(lambda: steps_of(sleepy)[0] == ("rest", "cancelled"), "the end of its step")
        again = sleepy.call("chain", "run", "cancel", fired)
        assert (again.code, again.err) == (1, f"runward: {fired} is cancelled already\n")
    assert [status for _, status in steps_of(sleepy)] == ["cancelled", "pending", "pending"]
    assert set(told) == set(sleepy.call("chain", "run", "show", fired, "--json").object())
    assert "enough" in sleepy.call("why", fired).out


def test_a_chain_run_whose_time_is_over_is_dead_and_its_steps_of_on_failure_run(sleepy: Place) -> None:
    (sleepy.directory / "sleepy.yaml").write_text("timeout: 1s\n" + SLEEPY)
    assert sleepy.call("chain", "define", "sleepy.yaml").code == 0
    assert sleepy.call("chain", "fire", "sleepy", "for=1000").code == 0
    with sleepy.daemon():
        wait_for(lambda: len(runs_of(sleepy)) == 1 and over(sleepy, 1), "the end of the chain run")
        assert members(str(sleepy.runs)) == []
    (run,) = runs_of(sleepy)
    assert (run["status"], run["reason"]) == (
        "timed_out",
        {"code": "chain.timed_out.deadline", "summary": "the time limit of the whole run has passed"},
    )
    assert steps_of(sleepy) == [("rest", "timed_out"), ("merge", "pending"), ("note", "completed")]


def test_a_paused_chain_skips_what_comes_and_fires_again_once_it_is_resumed(firing: Place) -> None:
    assert firing.call("chain", "pause", "two", "--note", "a freeze").out == "two is paused from now on\n"
    assert firing.call("event", "emit", "asked", "wanted:=true", "verdict=REJECT").code == 0
    with firing.daemon():
        wait_for(
            lambda: firing.call("chain", "list", "--json").objects()[0]["status"] == "paused", "the pause"
        )
        refused = firing.call("chain", "fire", "two", "verdict=REJECT")
        assert (refused.code, refused.err) == (
            1,
            "runward: two is paused: `runward chain resume two` lets it fire again\n",
        )
        assert "paused: `runward chain resume two` lets it" in firing.call("chain", "show", "two").out
        assert firing.call("chain", "resume", "two").code == 0
        assert firing.call("event", "emit", "asked", "wanted:=true", "verdict=REJECT").code == 0
        wait_for(lambda: over(firing, 1), "the chain run of the second event")
    (listed,) = firing.call("chain", "list", "--json").objects()
    assert (listed["status"], listed["last_run"]["status"]) == ("active", "completed")  # type: ignore[call-overload,index] # an object
    assert len(runs_of(firing)) == 1
    told = firing.call("why", "chain two").out
    assert "is skipped: it is paused, as" in told
    assert "asked: a freeze" in told
    assert firing.call("why", "chain nobody").code == 3


COMPOSITE = """\
name: both
trigger: {all_of: [{event: ci.passed, filter: {pr: 7}}, {sequence: [{event: asked}, {event: done}], within: 1h}]}
steps:
  - {skill: touch, condition: "{{ chain.events[0].fields.by == 'ann' and trigger.pr == 7 }}"}
"""


def test_events_fire_a_chain_together_over_a_restart_of_the_daemon(firing: Place) -> None:
    (firing.directory / "both.yaml").write_text(COMPOSITE)
    assert firing.call("chain", "define", "both.yaml").code == 0
    listed = firing.call("chain", "list").out
    assert "ci.passed + (asked > done)" in listed

    def seen() -> list[object]:
        return [each["event"] for each in firing.call("chain", "show", "both", "--json").items("seen")]

    assert firing.call("event", "emit", "asked", "by=ann", "--id", "a").code == 0
    assert firing.call("event", "emit", "ci.passed", "pr:=8").code == 0
    with firing.daemon():
        wait_for(lambda: seen() == ["asked"], "the first event to be seen")
        assert firing.call("event", "emit", "done").code == 0
        wait_for(lambda: seen() == ["asked", "done"], "the second event to be seen")
        shown = firing.call("chain", "show", "both").out
        assert "all of these within 1d, in any order" in shown
        assert "- the event asked: seen a at " in shown
    with firing.daemon():
        assert firing.call("event", "emit", "ci.passed", "pr:=7").code == 0
        wait_for(lambda: over(firing, 1), "the chain run")
    (run,) = runs_of(firing)
    assert (run["chain"], run["status"]) == ("both", "completed")
    assert steps_of(firing) == [("step0", "completed")]
    assert seen() == []
    assert "asked, done, ci.passed fire it together" in firing.call("why", "chain both").out


def test_a_changed_file_fires_a_chain_also_where_it_changed_while_no_daemon_ran(firing: Place) -> None:
    work = firing.directory / "work"
    work.mkdir()
    (work / "old.md").write_text("old")
    (firing.directory / "files.yaml").write_text(
        f"name: files\ntrigger: {{event: file.changed, path: '{work}/*.md'}}\n"
        "steps:\n  - {skill: touch, condition: \"{{ trigger.change == 'created' }}\"}\n"
    )
    assert firing.call("chain", "define", "files.yaml").code == 0
    assert f"fired by changes of {work}/*.md" in firing.call("chain", "show", "files").out
    firing.daemon_once()
    (work / "new.md").write_text("new")
    firing.daemon_once()
    assert len(runs_of(firing)) == 1
    assert steps_of(firing) == [("step0", "completed")]
    with firing.daemon():
        (work / "new.md").unlink()
        wait_for(lambda: over(firing, 2), "the second chain run")
    shown = firing.call("chain", "run", "show", "@last", "--json").object()
    assert shown["trigger_event"] == {"path": f"{work}/new.md", "change": "deleted"}


SLOW = """\
name: NAME
trigger: {event: asked}
steps:
  - {id: one, skill: hold, start_within: WITHIN}
  - {id: two, skill: hold}
"""
HOLD = """\
command: [sh, -c, 'cd ../../../..; echo + >> said; while [ -e held ]; do sleep 0.02; done; echo - >> said']
"""


def slow_chains(place: Place, within: str = "1h") -> Place:
    """Three chains that one event fires, whose steps go on for as long as a file is there; one runs at a time."""
    settings = place.directory / "runward.toml"
    settings.write_text("steps_at_once = 1\n" + settings.read_text())
    (place.directory / "playbooks/hold.playbook.yaml").write_text(HOLD)
    (place.directory / "held").touch()
    for name in ("a", "b", "c"):
        (place.directory / "c.yaml").write_text(SLOW.replace("NAME", name).replace("WITHIN", within))
        assert place.call("chain", "define", "c.yaml").code == 0
    return place


def steps(place: Place) -> object:
    return place.call("status", "--json").object()["steps"]


@pytest.mark.prove
def test_as_many_steps_run_at_once_as_may_and_each_runs_once_also_after_a_kill(place: Place) -> None:
    slow_chains(place)
    assert place.call("event", "emit", "asked").code == 0
    with place.daemon() as daemon:
        wait_for(lambda: steps(place) == {"running": 1, "waiting": 2}, "steps that wait")
        waiting = next(each for each in runs_of(place) if "waits for a slot" in str(each["reason"]))
        assert "waits for a slot" in place.call("why", str(waiting["chain_run_id"])).out
        daemon.kill()
    with place.daemon():
        (place.directory / "held").unlink()
        wait_for(lambda: over(place, 3), "three chain runs")
        assert steps(place) == {"running": 0, "waiting": 0}
    assert {each["status"] for each in runs_of(place)} == {"completed"}
    assert (place.directory / "said").read_text() == "+\n-\n" * 6


def test_a_step_that_waits_too_long_for_a_slot_is_timed_out(place: Place) -> None:
    slow_chains(place, "300ms")
    assert place.call("event", "emit", "asked").code == 0
    with place.daemon():
        wait_for(lambda: over(place, 2), "two runs that are late")
        late = next(each for each in runs_of(place) if each["status"] == "timed_out")
        (place.directory / "held").unlink()
        wait_for(lambda: over(place, 3), "the run that began")
    assert sorted(str(each["status"]) for each in runs_of(place)) == ["completed", "timed_out", "timed_out"]
    (shown,) = place.call("chain", "run", "show", str(late["chain_run_id"]), "--json").items("steps")[:1]
    assert (shown["status"], shown["reason"]) == (
        "timed_out",
        {
            "code": "step.timed_out.start_within",
            "summary": "step one could not begin within 0.3 s (start_within)",
        },
    )


def test_one_event_fires_hundreds_of_chains_once_each(place: Place) -> None:
    (place.directory / "chains").mkdir()
    for number in range(200):
        (place.directory / f"chains/c{number}.yaml").write_text(
            f"name: c{number}\ntrigger: {{event: asked}}\nsteps: [{{skill: review, condition: '{{{{ false }}}}'}}]\n"
        )
    for _ in range(2):
        assert place.call("event", "emit", "asked", "--id", "one").code == 0
    place.daemon_once()
    counted = "select count(*), count(distinct chain) from chain_runs where status = 'completed'"
    assert place.rows(counted) == [(200, 200)]


@pytest.mark.prove
def test_a_step_that_writes_what_its_own_chain_watches_does_not_fire_it_for_ever(place: Place) -> None:
    (place.directory / "notes").mkdir()
    (place.directory / "playbooks/add.playbook.yaml").write_text("command: [sh, -c, 'echo more >> a.md']\n")
    (place.directory / "c.yaml").write_text(
        "name: loop\ntrigger: {event: file.changed, path: notes/*.md}\n"
        f"steps: [{{skill: add, cwd: {place.directory}/notes}}]\n"
    )
    assert place.call("chain", "define", "c.yaml").code == 0
    with place.daemon():
        wait_for(lambda: place.rows("select 1 from watched_globs") != [], "the glob")
        (place.directory / "notes/a.md").write_text("by a person")
        too_deep = "select 1 from chain_runs where reason_code = 'chain.failed.depth'"
        wait_for(lambda: place.rows(too_deep) != [], "the end of the loop", 90)
        assert place.rows("select depth from chain_runs order by depth") == [(each,) for each in range(1, 10)]
