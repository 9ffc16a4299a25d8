"""`runward outcome` and `artifact`: outcomes that are checked, and those that a real daemon recorded."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place, Recorded, Result
from tests.waiting import wait_for

REVIEW = {"outcome_kind": "review_verdict", "summary": "two bugs", "verdict": "REJECT", "passed": False}
JUNIT = '<testsuite><testcase name="a"/><testcase name="b"><failure message="no"/></testcase></testsuite>'


@pytest.fixture(scope="module")
def recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    place = Place(tmp_path_factory.mktemp("judged"))
    place.furnish()
    place.daemon_once()  # what was over before a root was first seen is history
    now = datetime.now(UTC).isoformat()
    run = place.add_run("run-1", started_at=now)
    (run / "artifacts/outcomes").mkdir(parents=True, exist_ok=True)
    (run / "artifacts/outcome.json").write_text(json.dumps(REVIEW))
    (run / "artifacts/outcomes/unit.xml").write_text(JUNIT)
    (run / "artifacts/outcomes/bad.json").write_text('{"outcome_kind": "gate_verdict", "summary": "s"}')
    place.end_run("run-1", 0, now)
    place.add_run("run-2", exit_code=0)
    place.daemon_once()
    return Recorded(place)


@pytest.fixture
def judged(recorded_once: Recorded) -> Place:
    """Two runs: one with three outcomes, of which one is invalid, and one without any."""
    return recorded_once.anew()


def test_a_right_outcome_is_valid(place: Place) -> None:
    (place.directory / "o.json").write_text(json.dumps(REVIEW))
    (place.directory / "t.xml").write_text(JUNIT)
    assert place.call("outcome", "check", "o.json").out == "valid: review_verdict: two bugs\n"
    assert place.call("outcome", "check", "t.xml", "--kind", "ci_result").out.startswith("valid: ci_result")
    shown = place.call("outcome", "check", "t.xml", "--json").object()
    assert (shown["valid"], shown["outcome_kind"], shown["problems"]) == (True, "test_result", [])
    assert shown["kind"] == "test_result"
    (place.directory / "o.json").write_text('{"summary": "s"}')
    assert place.call("outcome", "check", "o.json", "--kind", "ci_result").code == 0
    assert "an unregistered kind" in place.call("outcome", "check", "o.json", "--kind", "own").out


def test_a_large_report_is_checked_and_judged_like_a_small_one(place: Place) -> None:
    large = JUNIT.replace("<testcase", '<testcase name="a"/>' * 14_000 + "<testcase", 1)
    assert len(large) > 256 << 10
    (place.directory / "t.xml").write_text("\ufeff" + large)
    shown = place.call("outcome", "check", "t.xml", "--json").object()["outcome"]
    assert isinstance(shown, dict)
    assert (shown["passed"], shown["test_count"], shown["failed_count"]) == (False, 14_002, 1)
    place.daemon_once()  # what was over before a root was first seen is history
    now = datetime.now(UTC).isoformat()
    run = place.add_run("large", started_at=now)
    (run / "outcomes").mkdir()
    (run / "outcomes/unit.xml").write_text(large)
    place.end_run("large", 0, now)
    place.daemon_once()
    (listed,) = place.call("artifact", "list", "--json").objects()
    assert (listed["kind"], listed["passed"]) == ("test_result", False)


def test_an_invalid_outcome_ends_with_1_and_names_each_field(place: Place) -> None:
    (place.directory / "o.json").write_text(
        json.dumps({**REVIEW, "verdict": "MAYBE", "findings": [{"severity": "bad"}]})
    )
    ended = place.call("outcome", "check", "o.json", "--json")
    assert ended.code == 1
    assert [each["field"] for each in ended.items("problems")] == [
        *("verdict", "findings[0].severity", "findings[0].category", "findings[0].description")
    ]
    assert "findings[0].category: is missing" in place.call("outcome", "check", "o.json").out
    (place.directory / "o.json").write_text("{")
    assert place.call("outcome", "check", "o.json").code == 1
    assert place.call("outcome", "check", "gone.json").code == 3


def test_outcomes_are_kept_with_their_session_and_found_by_kind_and_result(judged: Place) -> None:
    listed = judged.call("artifact", "list", "--json").objects()
    assert {(each["kind"], each["name"], each["passed"]) for each in listed} == {
        ("review_verdict", "outcome", False),
        ("test_result", "unit", False),
    }
    wanted = ("artifact", "list", "--kind", "review_verdict", "--passed", "false", "--since", "7d", "--json")
    (found,) = judged.call(*wanted).objects()
    assert (found["session_id"], found["summary"]) == ("run-1", "two bugs")
    assert judged.call("artifact", "list", "--passed", "true").out == "no artifacts\n"
    assert judged.call("artifact", "list", "--session", "run-2", "--json").objects() == []
    shown = judged.call("artifact", "show", str(found["id"]))
    assert "REJECT" in shown.out
    assert judged.call("artifact", "show", "@last", "--json").object()["session_key"]
    assert judged.call("artifact", "show", "ar_none").code == 3


def test_a_session_shows_its_outcomes_and_why_says_what_is_wrong_with_the_others(judged: Place) -> None:
    shown = judged.call("session", "show", "run-1", "--json").items("artifacts")
    assert {each["kind"] for each in shown} == {"review_verdict", "test_result"}
    assert "two bugs" in judged.call("session", "show", "run-1").out
    causes = judged.call("why", "run-1", "--json").items("causes")
    (known,) = [each["known"] for each in causes if each.get("handler") == "sessions/ended"]
    assert isinstance(known, dict)
    assert known["invalid_outcomes"] == {"outcomes/bad.json": ["gate_passed: is missing"]}


def test_why_names_each_wrong_field_of_each_invalid_outcome_below_the_verdict(judged: Place) -> None:
    findings = [{"severity": "bad", "category": "c", "description": "d"}]
    run = judged.add_run("run-3")
    (run / "artifacts/outcomes").mkdir(parents=True)
    (run / "artifacts/outcomes/review.json").write_text(
        json.dumps({**REVIEW, "findings": findings, "round": 0})
    )
    (run / "artifacts/outcomes/torn.json").write_text("{")
    judged.end_run("run-3", 0)
    judged.daemon_once()
    lines = [line.strip() for line in judged.call("why", "run-3").out.splitlines()]
    decided = next(number for number, line in enumerate(lines) if "sessions/ended decided" in line)
    severity, round_, torn = lines[decided + 1 : decided + 4]
    assert severity.startswith("invalid outcome outcomes/review.json: findings[0].severity: Input should be ")
    assert round_.startswith("invalid outcome outcomes/review.json: round: Input should be ")
    assert torn.startswith("invalid outcome outcomes/torn.json: is not JSON")


def test_a_chain_is_tried_over_recorded_outcomes(judged: Place) -> None:
    (judged.directory / "playbooks/look.playbook.yaml").write_text("command: [look]\n")
    (judged.directory / "c.yaml").write_text(
        "name: c\ntrigger: {manual: true}\nsteps:\n  - {id: one, skill: look}\n"
        "  - {id: two, skill: look}\n"
        "  - {id: three, skill: look, condition: \"{{ steps.two.outcome.outcome_kind in ['review_verdict', 'test_result'] }}\"}\n"
        "  - {id: four, skill: look, condition: \"{{ steps.one.outcome.summary == 'x' }}\"}\n"
    )

    def would_run(*words: str) -> list[object]:
        steps = judged.call("chain", "fire", "c.yaml", "--dry-run", *words, "--json").items("steps")
        return [each["would_run"] for each in steps]

    for words in (["-", "run-1"], ["-", "--against", "run-1"]):
        assert would_run("--against", *words) == [True, True, True, False]
    assert would_run("--against", "run-2", "run-2", "pr=1") == [True, True, False, False]
    for words in (["--against", "a", "--against", "b", "c"], ["--against", "run-1", "--outcomes", "c.yaml"]):
        assert judged.call("chain", "fire", "c.yaml", "--dry-run", *words).code == 2
    assert judged.call("chain", "fire", "c.yaml", "--against", "run-1").code == 2
    assert judged.call("chain", "fire", "c.yaml", "--dry-run", "--against", "nobody").code == 3


def test_a_dry_run_sees_what_a_recorded_session_left(judged: Place) -> None:
    (judged.directory / "playbooks/look.playbook.yaml").write_text("command: [look, '{{ with.it }}']\n")
    (judged.directory / "c.yaml").write_text(
        "name: c\ntrigger: {manual: true}\nsteps:\n  - {id: one, skill: look, with: {it: 1}}\n"
        '  - {id: two, skill: look, with: {it: "{{ [steps.one.delivery, steps.one.exit_code, steps.one.session_id,'
        " steps.one.outcomes | map(attribute='outcome_kind') | list, steps.one.verification, steps.one.artifacts] | tojson }}\"}}\n"
    )
    _, two = judged.call("chain", "fire", "c.yaml", "--dry-run", "--against", "run-1", "--json").items(
        "steps"
    )
    shown = judged.call("session", "show", "run-1", "--json").object()
    argv = two["argv"]
    assert isinstance(argv, list), two["why"]
    delivery, code, session, kinds, verification, artifacts = json.loads(str(argv[1]))
    assert (delivery, code, session) == (shown["delivery"], 0, "run-1")
    assert sorted(kinds) == ["review_verdict", "test_result"]
    assert verification == shown["verification"]
    assert isinstance(artifacts, dict)


def found_in(place: Place) -> dict[object, tuple[object, object]]:
    listed = place.call("artifact", "list", "--json").objects()
    return {each["id"]: (each["session_id"], each["summary"]) for each in listed}


def write_outcome(run: Path, summary: str) -> None:
    """Write it as an agent does: whole, then renamed."""
    (run / "artifacts").mkdir(exist_ok=True)
    temporary = run / "artifacts/.outcome.json.tmp"
    temporary.write_text(json.dumps({**REVIEW, "summary": summary}))
    temporary.rename(run / "artifacts/outcome.json")


def test_an_outcome_is_found_while_its_run_goes_on_and_keeps_its_id_when_it_is_written_again(
    place: Place,
) -> None:
    with place.daemon():
        run = place.add_run("run-1")
        wait_for(lambda: place.call("session", "list", "--json").objects(), "the session")
        write_outcome(run, "one bug")
        wait_for(lambda: list(found_in(place).values()) == [("run-1", "one bug")], "the outcome")
        (known,) = found_in(place)
        write_outcome(run, "two bugs")
        wait_for(
            lambda: found_in(place) == {known: ("run-1", "two bugs")}, "the outcome that was written again"
        )
        assert place.call("session", "show", "run-1", "--json").object()["status"] == "running"
        assert "attempt 1 wrote outcomes" in place.call("why", "run-1").out
        write_outcome(run, "three bugs")
        place.end_run("run-1", 0)
        assert place.call("session", "wait", "run-1").code == 0, (
            "it is judged: what its files say is not enough"
        )
        assert found_in(place) == {known: ("run-1", "three bugs")}


def test_outcomes_that_were_written_while_no_daemon_ran_are_found_while_the_run_goes_on(place: Place) -> None:
    place.add_run("run-1")
    with place.daemon():
        wait_for(lambda: place.call("session", "list", "--json").objects(), "the session")
    write_outcome(place.runs / "run-1", "one bug")
    with place.daemon():
        wait_for(lambda: found_in(place), "the outcome")
        assert list(found_in(place).values()) == [("run-1", "one bug")]
        assert place.call("session", "show", "run-1", "--json").object()["status"] == "running"


def test_no_step_goes_by_an_outcome_that_the_verdict_of_its_run_found_invalid(place: Place) -> None:
    command = (
        "printf '%s' '" + json.dumps(REVIEW).replace("REJECT", "APPROVE") + "' > outcome.json;"
        " until test -e ../../go; do sleep 0.05; done; echo '{' > outcome.json"
    )
    (place.directory / "playbooks/judge.playbook.yaml").write_text(
        f"command: [sh, -c, {json.dumps('cd $RUNWARD_RUN_DIR; ' + command)}]\n"
    )
    (place.directory / "c.yaml").write_text(
        "name: c\ntrigger: {manual: true}\nsteps:\n  - {skill: judge}\n"
        "  - {skill: judge, condition: \"{{ outcome.verdict == 'APPROVE' }}\"}\n"
    )
    assert place.call("chain", "define", "c.yaml").code == 0
    with place.daemon():
        assert place.call("chain", "fire", "c").code == 0
        wait_for(lambda: found_in(place), "the outcome of the step that runs")
        (place.state / "go").touch()
        wait_for(
            lambda: place.call("chain", "runs", "--json").objects()[0]["status"] == "completed",
            "the end of the chain run",
        )
    steps = place.call("chain", "run", "show", "@last", "--json").items("steps")
    assert [(each["status"], each["outcome"]) for each in steps] == [("completed", None), ("skipped", None)]


def add(place: Place, *words: str, kind: str = "note", name: str = "one", session: str = "run-2") -> Result:
    return place.call("artifact", "add", "--kind", kind, "--name", name, "--session", session, *words)


def test_what_somebody_adds_to_a_session_is_kept_once_a_daemon_runs_and_a_second_one_keeps_the_id(
    judged: Place,
) -> None:
    (judged.directory / "c.json").write_text('{"summary": "s", "passed": true}')
    first = add(judged, "--content", "c.json")
    assert first.code == 0, first.err
    assert judged.call("artifact", "show", first.out.strip()).code == 3
    judged.daemon_once()
    shown = judged.call("artifact", "show", first.out.strip(), "--json").object()
    assert (shown["kind"], shown["session_id"], shown["summary"], shown["passed"]) == (
        "note",
        "run-2",
        "s",
        True,
    )
    with judged.daemon():
        second = add(judged, "--file", "logs/big.txt", "--json").object()
        assert (second["id"], second["status"]) == (first.out.strip(), "added")
        shown = judged.call("artifact", "show", first.out.strip(), "--json").object()
    assert (shown["content"], shown["file_path"]) == (None, "logs/big.txt")


@pytest.mark.parametrize(
    ("words", "changed", "code", "said"),
    [
        ((), {}, 2, "has a content, or a file"),
        (("--file", "a"), {"kind": ""}, 2, "a kind and a name"),
        (("--file", "a"), {"name": ""}, 2, "a kind and a name"),
        (("--file", "/etc/passwd"), {}, 1, "is an absolute path"),
        (("--file", "../a"), {}, 1, "'..'"),
        (("--file", "a"), {"kind": "review_verdict"}, 1, "is not a JSON object"),
        (("--content", "bad.json"), {"kind": "review_verdict"}, 1, "verdict: is missing"),
        (("--content", "gone.json"), {}, 3, "No such file"),
        (("--file", "a"), {"session": "nobody"}, 3, "nobody"),
    ],
)
def test_what_is_no_artifact_is_refused_before_it_is_asked_for(
    judged: Place, words: tuple[str, ...], changed: dict[str, str], code: int, said: str
) -> None:
    (judged.directory / "bad.json").write_text('{"summary": "s"}')
    ended = add(judged, *words, **changed)
    assert ended.code == code
    assert said in ended.err


def test_large_content_in_a_file_below_the_artifacts_is_hashed_and_nothing_outside_is(place: Place) -> None:
    place.daemon_once()  # what was over before a root was first seen is history
    run = place.add_run("run-1")
    (run / "artifacts/outcomes").mkdir(parents=True, exist_ok=True)
    (run / "artifacts/logs").mkdir()
    (run / "artifacts/logs/big.txt").write_bytes(b"much\n" * 100_000)
    (place.directory / "secret.txt").write_text("secret")
    (run / "artifacts/away.txt").symlink_to(place.directory / "secret.txt")
    paths = {"big": "logs/big.txt", "away": "away.txt", "gone": "gone.txt", "up": "../run.json", "none": None}
    for name, path in paths.items():
        said = {"outcome_kind": "ci_result", "summary": name, "file_path": path}
        (run / f"artifacts/outcomes/{name}.json").write_text(json.dumps(said))
    place.end_run("run-1", 0)
    place.daemon_once()
    listed = place.call("artifact", "list", "--json").objects()
    found = {each["name"]: (each["file_size"], each["file_sha256"], each["file_problem"]) for each in listed}
    assert found == {
        "big": (500_000, hashlib.sha256(b"much\n" * 100_000).hexdigest(), None),
        "away": (None, None, "outside"),
        "gone": (None, None, "gone"),
        "none": (None, None, None),
    }
    shown = {each["name"]: place.call("artifact", "show", str(each["id"])).out for each in listed}
    assert f", in logs/big.txt: 500000 bytes, sha256 {found['big'][1]}" in shown["big"]
    assert ", in away.txt, which leads outside the root" in shown["away"]
    assert ", from outcomes/none.json" in shown["none"]
    told = place.call("why", "run-1").out
    assert "invalid outcome outcomes/up.json: file_path: has a '..' in it" in told
    assert "gone.txt is gone" in told


def test_a_file_that_somebody_adds_is_hashed_too(judged: Place) -> None:
    artifacts = judged.runs / "run-2/artifacts"
    artifacts.mkdir(exist_ok=True)
    (artifacts / "big.txt").write_text("much")
    identifier = add(judged, "--file", "big.txt").out.strip()
    judged.daemon_once()
    shown = judged.call("artifact", "show", identifier, "--json").object()
    assert (shown["file_path"], shown["file_size"]) == ("big.txt", 4)
    assert shown["file_sha256"] == hashlib.sha256(b"much").hexdigest()
    (artifacts / "other.txt").write_text("other")
    assert add(judged, "--file", "other.txt").out.strip() == identifier
    judged.daemon_once()
    shown = judged.call("artifact", "show", identifier, "--json").object()
    assert shown["file_sha256"] == hashlib.sha256(b"other").hexdigest()


def test_what_looks_like_a_secret_in_an_outcome_is_not_shown(place: Place) -> None:
    run = place.add_run("leaky")
    (run / "artifacts/outcomes").mkdir()
    told = {"outcome_kind": "note", "summary": "DB_PASS=Zq8wLk9xYY", "name": "n", "token": "Zq8wLk9xYY"}
    (run / "artifacts/outcomes/note.json").write_text(json.dumps(told))
    place.end_run("leaky", 0)
    place.daemon_once()
    for words in (("list",), ("show", "@last"), ("list", "--json"), ("show", "@last", "--json")):
        shown = place.call("artifact", *words)
        assert (shown.code, "Zq8wLk9xYY" in shown.out, "[redacted]" in shown.out) == (0, False, True)
