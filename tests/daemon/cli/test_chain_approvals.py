"""Actions, tries and approvals of chains, with a real daemon and real commands."""

import json
import sqlite3
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.test_chain import over, runs_of, steps_of
from tests.daemon.cli.test_chain_worktrees import git
from tests.waiting import wait_for

from runward.config.json_value import JsonValue

REVIEW = """\
command: [sh, -c, 'printf "%s" "{\\"outcome_kind\\": \\"review_verdict\\", \\"summary\\": \\"s\\", \\"verdict\\": \\"$0\\"}" > outcome.json', "{{ with.verdict }}"]
"""
ACTIONS = """
[actions.merge]
command = "echo $WITH_PR-$MODE-$(pwd) >> $OUT"
shell = true

[actions.flaky]
command = ["sh", "-c", 'echo x >> "$0"; test $(wc -l < "$0") -ge 3', "{{ with.file }}"]
"""
MERGE = """\
name: merge
trigger: {manual: true}
steps:
  - {skill: judge, with: {verdict: "{{ trigger.verdict }}"}}
  - action: merge
    condition: "{{ steps[0].outcome.verdict == 'APPROVE' }}"
    with: {pr: "{{ trigger.pr }}"}
    env: {MODE: "{{ trigger.mode }}", OUT: "{{ trigger.out }}"}
    cwd: "{{ trigger.cwd }}"
    requires_approval: true
    approval: {APPROVAL}
on_failure:
  - {id: note, action: merge, with: {pr: none}, env: {MODE: failed, OUT: "{{ trigger.out }}"}}
"""


@pytest.fixture
def merging(place: Place) -> Place:
    return furnished(place, "{}")


def furnished(place: Place, approval: str) -> Place:
    (place.directory / "playbooks/judge.playbook.yaml").write_text(REVIEW)
    settings = place.directory / "runward.toml"
    text = settings.read_text()
    if "actions.merge" not in text:
        settings.write_text(text + ACTIONS)
    (place.directory / "merge.yaml").write_text(MERGE.replace("{APPROVAL}", approval))
    defined = place.call("chain", "define", "merge.yaml")
    assert defined.code == 0, defined.err
    return place


def fire(place: Place) -> str:
    words = ("verdict=APPROVE", "pr:=7", "mode=fast", f"cwd={place.directory}", f"out={out(place)}")
    return place.call("chain", "fire", "merge", *words).out.strip()


def out(place: Place) -> Path:
    return place.directory / "merged.txt"


def waiting(place: Place) -> list[dict[str, JsonValue]]:
    return place.call("chain", "approvals", "--json").objects()


def waits(place: Place) -> dict[str, JsonValue]:
    """The approval that is asked for. One that is void is gone before the next one is asked for."""
    (asked,) = wait_for(lambda: asked if len(asked := waiting(place)) == 1 else None, "the approval")
    return asked


def test_an_approved_step_runs_once_as_it_was_shown(merging: Place) -> None:
    with merging.daemon():
        fired = fire(merging)
        asked = waits(merging)
        assert asked["chain_run_id"] == fired
        assert asked["shown"]["argv"] == ["sh", "-c", "echo $WITH_PR-$MODE-$(pwd) >> $OUT"]  # type: ignore[call-overload,index] # an object
        assert runs_of(merging)[0]["status"] == "waiting_approval"
        assert "step1" in merging.call("chain", "approvals").out
        assert merging.completed("chain", "approve", "") == [asked["approval_id"]]
        fix = f"`runward chain approve {asked['approval_id']}`"
        assert fix in merging.call("chain", "run", "show", fired).out
        (obstacle,) = merging.call("why", fired, "--json").items("not_done")
        assert (obstacle["what"], str(obstacle["fix"]).startswith(fix)) == ("step 1 has not begun", True)
        assert merging.completed("chain", "run", "show", "cr_") == [fired]
        status = merging.call("status", "--json").object()
        assert (status["approvals"], status["waiting"]) == (1, 1)
        assert status["chain_runs"] == {"waiting_approval": 1}
        (named,) = merging.call("status", "--json").items("waiting_approvals")
        assert (named["chain_run_id"], named["chain"], named["step"]) == (fired, "merge", "step1")
        assert named["command"] == "sh -c 'echo $WITH_PR-$MODE-$(pwd) >> $OUT'"
        assert "1 step of chains waits for a person" in merging.call("status").out
        approved = merging.call("chain", "approve", "@last", "--note", "looks right")
        assert (approved.code, approved.out) == (0, f"{asked['approval_id']} of {fired} is approved\n")
        wait_for(lambda: over(merging, 1), "the end of the chain run")
        again = merging.call("chain", "approve", fired)
        assert again.code == 1
        assert "is approved already" in again.err
    assert steps_of(merging) == [("step0", "completed"), ("step1", "completed"), ("note", "pending")]
    assert out(merging).read_text() == f"7-fast-{merging.directory}\n"
    of_approval = merging.call("why", str(asked["approval_id"])).out
    assert f"step 1 of {fired} (merge): approved by" in of_approval
    assert "looks right" in of_approval.splitlines()[0]
    assert "is approved by root: looks right" in merging.call("why", fired).out.replace(
        json.loads(json.dumps(said_by(merging, fired))), "root"
    )


def said_by(place: Place, run: str) -> str:
    """Who approved it, by the log of the decisions."""
    lines = place.call("why", run).out.splitlines()
    (line,) = [each for each in lines if "is approved by" in each]
    return line.rpartition("is approved by ")[2].partition(":")[0]


SHOWN_OF_RUN = {
    *(
        "chain_run_id",
        "chain",
        "status",
        "reason",
        "current_step",
        "created_at",
        "updated_at",
        "trigger_event",
    ),
    *("fired_by", "invocation_id", "depth", "deadline", "step_outcomes", "steps"),
}
SHOWN_OF_STEP = {
    *(
        "index",
        "id",
        "kind",
        "name",
        "status",
        "try",
        "session_id",
        "host",
        "taken_at",
        "began_there",
        "invocation_id",
        "condition",
        "value",
        "reason",
    ),
    *("outcome", "delivery", "approval_id", "started_at", "finished_at"),
}


def test_a_chain_run_shows_its_depth_and_what_each_step_delivered_and_by_which_approval_it_runs(
    merging: Place,
) -> None:
    playbook = merging.directory / "playbooks/judge.playbook.yaml"
    contract = "artifacts: {expected: [{id: o, path: outcome.json}, {id: n, path: n.md, required: false}]}\n"
    written = REVIEW.replace("> outcome.json", "> $RUNWARD_ARTIFACTS_DIR/outcome.json")
    playbook.write_text(written + contract)
    (merging.directory / "after.yaml").write_text(
        "name: after\ntrigger: {event: chain.finished, filter: {chain: merge}}\nsteps: [{skill: judge, with: {verdict: x}}]\n"
    )
    defined = merging.call("chain", "define", "after.yaml")
    assert defined.code == 0, defined.err
    with merging.daemon():
        fired = fire(merging)
        asked = waits(merging)
        shown = merging.call("chain", "run", "show", fired, "--json")
        assert (set(shown.object()), shown.object()["depth"]) == (SHOWN_OF_RUN, 1)
        steps = shown.items("steps")
        assert all(set(each) == SHOWN_OF_STEP for each in steps)
        assert [each["delivery"] for each in steps] == ["passed", None, None]
        assert [each["approval_id"] for each in steps] == [None, asked["approval_id"], None]
        assert [each["try"] for each in steps] == [1, 0, 0]
        assert merging.call("chain", "approve", fired).code == 0
        wait_for(lambda: over(merging, 2), "the end of both chain runs")
    steps = merging.call("chain", "run", "show", fired, "--json").items("steps")
    assert [each["approval_id"] for each in steps] == [None, asked["approval_id"], None]
    depths = {str(each["chain"]): each["chain_run_id"] for each in runs_of(merging)}
    assert merging.call("chain", "run", "show", str(depths["after"]), "--json").object()["depth"] == 2


def test_a_denied_chain_run_is_aborted_and_its_steps_of_on_failure_run(merging: Place) -> None:
    with merging.daemon():
        fired = fire(merging)
        waits(merging)
        assert merging.call("chain", "deny", fired, "--reason", "a freeze").code == 0
        wait_for(lambda: over(merging, 1), "the end of the chain run")
    (run,) = runs_of(merging)
    assert (run["status"], run["reason"]["code"]) == ("aborted", "chain.aborted.denied")  # type: ignore[call-overload,index] # an object
    assert out(merging).read_text().startswith("none-failed-")


def test_what_has_changed_since_it_was_shown_is_asked_for_again(merging: Place) -> None:
    with merging.daemon():
        fired = fire(merging)
        first = waits(merging)
        outcome = next(merging.runs.glob("cr_*-0-1/**/outcome.json"))
        outcome.write_text('{"outcome_kind": "review_verdict", "verdict": "APPROVE", "by": "somebody else"}')
        refused = merging.call("chain", "approve", fired)
        assert refused.code == 1
        assert "has changed; a new approval is asked for" in refused.err
        wait_for(lambda: waits(merging)["approval_id"] != first["approval_id"], "another approval")
        second = waits(merging)
        assert (second["asked_before"], out(merging).exists()) == (1, False)
        assert merging.call("chain", "approve", str(second["approval_id"])).code == 0
        wait_for(lambda: over(merging, 1), "the end of the chain run")
    assert runs_of(merging)[0]["status"] == "completed"


def test_large_content_that_has_changed_since_it_was_shown_is_asked_for_again(merging: Place) -> None:
    said = json.dumps(
        {"outcome_kind": "review_verdict", "summary": "s", "verdict": "APPROVE", "file_path": "big.txt"}
    )
    script = f"cd $RUNWARD_ARTIFACTS_DIR; echo much > big.txt; printf %s '{said}' > outcome.json"
    (merging.directory / "playbooks/judge.playbook.yaml").write_text(
        f"command: [sh, -c, {json.dumps(script)}, '{{{{ with.verdict }}}}']\n"
    )
    with merging.daemon():
        fired = fire(merging)
        first = waits(merging)
        assert shown_in(first)["big.txt"]["state"] == "hashed"
        next(merging.runs.glob("cr_*-0-1/**/big.txt")).write_text("more")
        refused = merging.call("chain", "approve", fired)
        assert refused.code == 1
        assert "has changed; a new approval is asked for" in refused.err
        wait_for(lambda: waits(merging)["approval_id"] != first["approval_id"], "another approval")
        assert merging.call("chain", "approve", fired).code == 0
        wait_for(lambda: over(merging, 1), "the end of the chain run")
    assert out(merging).exists()


def test_an_answer_without_a_daemon_counts_once_one_runs_and_two_run_the_step_once(merging: Place) -> None:
    with merging.daemon():
        fired = fire(merging)
        waits(merging)
    for _ in range(2):
        answered = merging.call("chain", "approve", fired)
        assert (answered.code, "the answer is stored" in answered.err) == (0, True)
    with merging.daemon():
        wait_for(lambda: over(merging, 1), "the end of the chain run")
    assert out(merging).read_text().count("\n") == 1


def test_nobody_decides_in_time(place: Place) -> None:
    furnished(place, "{expires: 300ms}")
    with place.daemon():
        fire(place)
        wait_for(lambda: over(place, 1), "the end of the chain run")
    assert runs_of(place)[0]["reason"]["code"] == "chain.aborted.approval_expired"  # type: ignore[call-overload,index] # an object


def test_who_fired_a_chain_may_be_kept_from_approving_it(place: Place) -> None:
    furnished(place, "{not_by_launcher: true}")
    with place.daemon():
        fired = fire(place)
        waits(place)
        refused = place.call("chain", "approve", fired)
        assert refused.code == 1
        assert "fired the chain" in refused.err
        assert place.call("chain", "run", "cancel", fired).code == 0
        wait_for(lambda: over(place, 1), "the end of the chain run")
        assert waiting(place) == []


FLAKY = """\
name: flaky
trigger: {manual: true}
steps:
  - {id: try, action: flaky, with: {file: "{{ trigger.file }}"}, retry: {attempts: ATTEMPTS, backoff: 20ms}}
"""


@pytest.mark.parametrize(("attempts", "status"), [(3, "completed"), (2, "failed")])
def test_a_step_that_fails_is_tried_again(merging: Place, attempts: int, status: str) -> None:
    (merging.directory / "flaky.yaml").write_text(FLAKY.replace("ATTEMPTS", str(attempts)))
    assert merging.call("chain", "define", "flaky.yaml").code == 0
    tries = merging.directory / "tries"
    with merging.daemon():
        fired = merging.call("chain", "fire", "flaky", f"file={tries}").out.strip()
        wait_for(lambda: over(merging, 1), "the end of the chain run")
    assert steps_of(merging) == [("try", status)]
    assert tries.read_text() == "x\n" * attempts
    assert f"try 2 of {attempts}" in merging.call("why", fired).out
    assert len(list(merging.runs.glob(f"{fired}-0-*"))) == attempts


def test_a_dry_run_says_what_a_person_would_be_asked(merging: Place) -> None:
    (merging.directory / "outcomes.json").write_text(
        '[{"outcome_kind": "review_verdict", "summary": "fine", "verdict": "APPROVE"}]'
    )
    words = ("verdict=APPROVE", "pr:=7", "mode=fast", "cwd=/tmp", "out=/tmp/out")
    tried = merging.call(
        "chain", "fire", "merge", *words, "--dry-run", "--outcomes", "outcomes.json", "--json"
    )
    second = tried.items("steps")[1]
    assert (second["name"], second["needs_approval"], second["would_run"]) == ("merge", True, True)


def shown_in(asked: dict[str, JsonValue]) -> dict[str, dict[str, JsonValue]]:
    """The files that an approval shows, by their paths."""
    shown = asked["shown"]
    assert isinstance(shown, dict)
    files = shown["artifacts"]
    assert isinstance(files, list)
    return {str(each["path"]): each for each in files if isinstance(each, dict)}


def test_an_approval_covers_what_no_contract_names_and_what_is_too_large_to_be_hashed(merging: Place) -> None:
    (merging.directory / "playbooks/judge.playbook.yaml").write_text(
        REVIEW.replace("> outcome.json", "> outcome.json; echo x > undeclared; truncate -s 256G giant")
    )
    with merging.daemon():
        fired = fire(merging)
        files = shown_in(waits(merging))
        assert (files["undeclared"]["state"], files["undeclared"]["id"]) == ("hashed", None)
        assert files["giant"]["state"] == "too_large"
        identity = files["giant"]["identity"]
        giant = next(merging.runs.glob("cr_*-0-1/**/giant"))
        assert isinstance(identity, dict)
        assert (identity["inode"], identity["size"]) == (giant.stat().st_ino, 256 << 30)
        for change in ("undeclared", "giant"):
            before = waits(merging)["approval_id"]
            with next(merging.runs.glob(f"cr_*-0-1/**/{change}")).open("r+b") as file:
                file.write(b"another")
            refused = merging.call("chain", "approve", fired)
            assert refused.code == 1
            assert "has changed; a new approval is asked for" in refused.err
            wait_for(lambda before=before: waits(merging)["approval_id"] != before, "another approval")  # type: ignore[misc] # a default of a lambda
        assert merging.call("chain", "approve", fired).code == 0
        wait_for(lambda: over(merging, 1), "the end of the chain run")


def test_what_an_approval_can_not_cover_is_named_and_left_out_in_words(merging: Place) -> None:
    deep = "/".join(["d"] * 45)
    (merging.directory / "playbooks/judge.playbook.yaml").write_text(
        REVIEW.replace("> outcome.json", f"> outcome.json; mkdir -p {deep}; echo x > {deep}/hidden")
    )
    path = "/".join(["d"] * 40)
    with merging.daemon():
        fired = fire(merging)
        assert shown_in(waits(merging))[path]["state"] == "not_listed"
        assert f"--without {path}" in merging.call("chain", "approvals").err
        refused = merging.call("chain", "approve", fired)
        assert refused.code == 1
        assert f"approve without: --without {path}" in refused.err
        assert merging.call("chain", "approve", fired, "--without", "d").code == 2
        assert merging.call("chain", "approve", fired, "--without", path).code == 0
        wait_for(lambda: over(merging, 1), "the end of the chain run")
    assert f"is approved without {path}" in merging.call("why", fired).out


WORK = """\
name: work
trigger: {manual: true}
steps:
  - {id: there, skill: write, cwd: "{{ trigger.cwd }}"}
  - {id: kept, skill: write, worktree: {repo: "{{ trigger.repo }}", ref: main, keep: always}}
  - {id: removed, skill: write, worktree: {repo: "{{ trigger.repo }}", ref: main, keep: never}}
  - {id: publish, action: merge, requires_approval: true}
"""


def test_an_approval_covers_what_steps_left_in_a_directory_of_others_and_in_a_kept_worktree(
    merging: Place,
) -> None:
    repo, shared = merging.directory / "repo", merging.directory / "shared"
    git(merging.directory, "init", "--quiet", "--initial-branch=main", str(repo))
    (repo / "source").write_text("x")
    git(repo, "add", ".")
    git(repo, "commit", "--quiet", "-m", "first")
    shared.mkdir()
    (shared / "of-others").write_text("x")
    playbook = "command: [sh, -c, 'echo x > made; touch $RUNWARD_ARTIFACTS_DIR/done']\n"
    (merging.directory / "playbooks/write.playbook.yaml").write_text(playbook)
    (merging.directory / "work.yaml").write_text(WORK)
    assert merging.call("chain", "define", "work.yaml").code == 0
    with merging.daemon():
        fired = merging.call("chain", "fire", "work", f"cwd={shared}", f"repo={repo}").out.strip()
        files = shown_in(waits(merging))
        worktree = merging.state / "worktrees" / f"{fired}-1-1"
        assert {
            path: (each["step"], each["state"]) for path, each in files.items() if path.startswith("/")
        } == {
            f"{worktree}": (1, "commit"),
            f"{worktree}/made": (1, "hashed"),
            f"{worktree}/.": (1, "many"),
            f"{shared}/made": (0, "hashed"),
        }
        shown = merging.call("chain", "approvals").out
        assert f"is a worktree at commit {git(repo, 'rev-parse', 'HEAD').strip()}" in shown
        assert "but not what steps did elsewhere" in shown
        (shared / "of-others").write_text("others work there")
        for change in (worktree / "source", shared / "made"):
            before = waits(merging)["approval_id"]
            change.write_text("another")
            assert merging.call("chain", "approve", fired).code == 1
            wait_for(lambda before=before: waits(merging)["approval_id"] != before, "another approval")  # type: ignore[misc] # a default of a lambda
        (shared / "new").write_text("x")
        assert merging.call("chain", "approve", fired).code == 0


def test_a_run_that_asks_for_nothing_can_not_be_approved(merging: Place) -> None:
    (merging.directory / "flaky.yaml").write_text(FLAKY.replace("ATTEMPTS", "1"))
    assert merging.call("chain", "define", "flaky.yaml").code == 0
    with merging.daemon():
        fired = merging.call("chain", "fire", "flaky", f"file={merging.directory / 'tries'}").out.strip()
        wait_for(lambda: over(merging, 1), "the end of the chain run")
        refused = merging.call("chain", "approve", fired)
        assert refused.code == 1
        assert "does not wait for approval: it is failed" in refused.err
        assert merging.call("chain", "deny", fired).code == 1
        assert merging.call("chain", "approve", "cr_nosuch").code == 3


def test_a_chain_run_waits_for_a_person_once_there_is_something_to_approve(merging: Place) -> None:
    with merging.daemon():
        fired = fire(merging)
        waits(merging)
    with sqlite3.connect(merging.state / "runward.db") as store:
        store.execute("delete from approvals")
    store.close()
    shown = merging.call("chain", "run", "show", fired, "--json").object()
    assert shown["status"] == "running"
    steps = merging.call("chain", "run", "show", fired, "--json").items("steps")
    assert [each["status"] for each in steps] == ["completed", "waiting", "pending"]
    assert merging.call("chain", "runs", "--status", "waiting_approval", "--json").objects() == []
    assert merging.call("status", "--json").object()["chain_runs"] == {"running": 1}
    refused = merging.call("chain", "approve", fired)
    assert (refused.code, "it is running" in refused.err) == (1, True)
