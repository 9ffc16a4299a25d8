"""Contracts that ask for more than a file: from the run on disk to what people and programs are shown."""

import json
from pathlib import Path

from tests.daemon.cli.calling import Place

from runward.config.json_value import JsonValue

PASSED: JsonValue = {"id": "verdict", "kind": "outcome", "outcome_kind": "gate_verdict", "passed": True}
CONTRACT: JsonValue = {
    "expected": [
        {"id": "notes", "glob": "*.md", "min_count": 2, "mime_type": "text/markdown"},
        {"id": "report", "path": "report.json", "schema": {"required": ["findings"]}},
        PASSED,
    ]
}
VERDICT = {"outcome_kind": "gate_verdict", "summary": "fine", "gate_passed": True}
NOTES = {"a.md": "# a", "b.md": "# b"}


def test_a_run_that_keeps_every_rule_completes_and_each_file_of_a_glob_is_hashed(place: Place) -> None:
    files = {**NOTES, "report.json": '{"findings": []}', "outcome.json": json.dumps(VERDICT)}
    place.add_run("good", exit_code=0, contract=CONTRACT, files=files)
    place.daemon_once()
    shown = place.call("session", "show", "good", "--json").object()
    assert (shown["status"], shown["delivery"]) == ("completed", "passed")
    rules = shown["rules"]
    assert isinstance(rules, list)
    assert all(rule["holds"] is True for rule in rules if isinstance(rule, dict))
    assert {rule["rule"] for rule in rules if isinstance(rule, dict)} == {
        "min_count", "mime_type", "schema", "outcome_kind", "passed",
    }  # fmt: skip
    verification = shown["verification"]
    assert isinstance(verification, dict)
    assert set(verification) == {"status", "checked_at", "missing_required", "missing_optional", "produced"}
    files_shown = shown["files"]
    assert isinstance(files_shown, list)
    assert [each["id"] for each in files_shown if isinstance(each, dict) and each["sha256"]] == [
        "notes:a.md", "notes:b.md", "report",
    ]  # fmt: skip
    text = place.call("session", "show", "good").out
    assert "outcome:gate_verdict  OK" in text
    same = place.call("session", "verify", "good")
    assert same.code == 0, same.out
    (place.runs / "good/artifacts/b.md").write_text("# other")
    (place.runs / "good/artifacts/c.md").write_text("# new")
    changed = place.call("session", "verify", "good", "--json").object()
    artifacts = changed["artifacts"]
    assert isinstance(artifacts, list)
    assert [(each["id"], each["state"]) for each in artifacts if isinstance(each, dict)] == [
        ("notes:a.md", "same"), ("notes:b.md", "changed"), ("notes:c.md", "new"), ("report", "same"),
    ]  # fmt: skip


def test_a_run_that_breaks_rules_has_failed_and_is_told_which_where(place: Place) -> None:
    files = {
        "a.md": "# a",
        "report.json": "{\n}",
        "outcome.json": json.dumps({**VERDICT, "gate_passed": False}),
    }
    place.add_run("bad", exit_code=0, contract=CONTRACT, files=files)
    before = place.call("session", "show", "bad", "--json").object()
    place.daemon_once()
    shown = place.call("session", "show", "bad", "--json").object()
    assert (shown["status"], shown["delivery"]) == ("failed", "invalid")
    assert (before["status"], before["delivery"]) == (shown["status"], shown["delivery"])
    rules = shown["rules"]
    assert isinstance(rules, list)
    broken = [rule for rule in rules if isinstance(rule, dict) and not rule["holds"]]
    assert [(rule["id"], rule["rule"], rule["path"], rule["line"]) for rule in broken] == [
        ("notes", "min_count", "*.md", None),
        ("report", "schema", "report.json", 1),
        ("verdict", "passed", "outcome.json", None),
    ]
    why = place.call("why", "bad").out
    assert '"findings" is a required property' in why


def test_an_outcome_that_is_not_there_or_invalid_is_missing(place: Place) -> None:
    for name, files in (("none", {}), ("invalid", {"outcome.json": '{"outcome_kind": "gate_verdict"}'})):
        place.add_run(name, exit_code=0, contract={"expected": [PASSED]}, files=files)
    place.daemon_once()
    for name in ("none", "invalid"):
        shown = place.call("session", "show", name, "--json").object()
        assert (shown["status"], shown["delivery"]) == ("failed", "missing")


def test_an_outcome_beside_a_missing_artifacts_directory_is_delivered(place: Place) -> None:
    contracts: dict[str, JsonValue] = {
        "alone": {"expected": [PASSED]},
        "with-a-file": {"expected": [PASSED, {"id": "notes", "path": "a.md"}]},
        "with-an-optional-file": {"expected": [PASSED, {"id": "notes", "path": "a.md", "required": False}]},
        "without-it": {"expected": [PASSED]},
    }
    for name, contract in contracts.items():
        run = place.add_run(name, contract=contract)
        (run / "artifacts").rmdir()
        if name != "without-it":
            (run / "outcome.json").write_text(json.dumps(VERDICT))
        place.end_run(name, 0)
    place.daemon_once()
    shown = {name: place.call("session", "show", name, "--json").object() for name in contracts}
    assert {name: (each["status"], each["delivery"]) for name, each in shown.items()} == {
        "alone": ("completed", "passed"),
        "with-a-file": ("failed", "missing"),
        "with-an-optional-file": ("failed", "missing"),
        "without-it": ("failed", "missing"),
    }
    missing = shown["with-a-file"]["verification"]
    assert isinstance(missing, dict)
    assert isinstance(missing["missing_required"], list)
    assert [each["id"] for each in missing["missing_required"] if isinstance(each, dict)] == ["notes"]
    assert place.call("session", "verify", "alone").code == 0


def test_a_file_at_a_path_is_read_as_an_outcome_and_kept(place: Place) -> None:
    contract: JsonValue = {"expected": [{"id": "v", "path": "out/v.json", "outcome_kind": "gate_verdict"}]}
    run = place.add_run("named", exit_code=None, contract=contract)
    (run / "artifacts/out").mkdir()
    (run / "artifacts/out/v.json").write_text(json.dumps(VERDICT))
    place.end_run("named", 0)
    place.daemon_once()
    assert place.call("session", "show", "named", "--json").object()["delivery"] == "passed"
    (kept,) = place.call("artifact", "list", "--json").objects()
    assert (kept["kind"], kept["name"]) == ("gate_verdict", "v")


def test_a_playbook_names_a_schema_beside_it(place: Place) -> None:
    playbook = "artifacts: {expected: [{id: r, path: r.json, schema: r.schema.json}]}\n"
    beside = place.directory / "playbooks"
    (beside / "ruled.playbook.yaml").write_text(playbook)
    _out(place, "[]")
    missing = place.call("contract", "verify", "--playbook", "ruled", "--root", "out")
    assert (missing.code, "r.schema.json" in missing.err) == (2, True)
    (beside / "r.schema.json").write_text('{"type": "made up"}')
    wrong = place.call("contract", "verify", "--playbook", "ruled", "--root", "out")
    assert (wrong.code, "is not a JSON Schema" in wrong.err) == (2, True)
    (beside / "r.schema.json").write_text('{"type": "object"}')
    broken = place.call("contract", "verify", "--playbook", "ruled", "--root", "out")
    assert broken.code == 1
    assert 'r.json:1: r: schema: [] is not of type "object"' in broken.err
    _out(place, "{}")
    assert place.call("contract", "verify", "--playbook", "ruled", "--root", "out").code == 0


def test_the_launcher_holds_its_run_to_the_rules_as_the_daemon_does(place: Place) -> None:
    playbook = "artifacts: {expected: [{id: r, path: r.txt, min_size: 1KB, fresh: true}]}\n"
    (place.directory / "playbooks/ruled.playbook.yaml").write_text(playbook)
    script = 'echo short > "$RUNWARD_ARTIFACTS_DIR/r.txt"'
    process = place.start("run", "--playbook", "ruled", "--name", "short", "--", "sh", "-c", script)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "r (r.txt): min_size: 6 bytes, 1024 are required" in err
    place.daemon_once()
    shown = place.call("session", "show", "short", "--json").object()
    assert (shown["status"], shown["delivery"]) == ("failed", "invalid")


def _out(place: Place, text: str) -> Path:
    out = place.directory / "out"
    out.mkdir(exist_ok=True)
    (out / "r.json").write_text(text)
    return out
