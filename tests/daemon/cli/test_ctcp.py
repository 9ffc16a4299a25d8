"""`runward ctcp check`, and the profile `ctcp` of a contract, as people and programs meet them."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.rundir.ctcp_runs import (
    CONTRACT_REVIEW,
    DRAFT,
    EVENTS,
    GUARDRAILS,
    PATCH,
    PLAN,
    REPORT,
    RUN,
    TRACE,
    WEB,
    passing,
    write_run,
)

from runward.config.json_value import JsonValue

BLOCKED = b"Verdict: BLOCK\nBlocking Reasons: cost\nRequired Fix/Artifacts: less\n"
PLAYBOOK = "name: ctcp\nartifacts:\n  profile: ctcp\n  expected:\n    - {id: trace, path: TRACE.md}\n"


def rules(found: JsonValue) -> list[tuple[str, str]]:
    assert isinstance(found, list)
    return [(str(each["rule"]), str(each["severity"])) for each in found if isinstance(each, dict)]


def test_a_run_that_holds_to_its_contracts_passes(place: Place) -> None:
    write_run(place.directory / "run", {})
    told = place.call("ctcp", "check", "run", "--json")
    assert (told.code, told.json()) == (0, {"result": "PASS", "findings": []})
    assert place.call("ctcp", "check", "run").out == "PASS: 0 errors, 0 warnings\n"


def test_a_warning_alone_passes_and_an_error_fails(place: Place) -> None:
    write_run(place.directory / "run", {CONTRACT_REVIEW: BLOCKED})
    told = place.call("ctcp", "check", "run", "--json")
    assert (told.code, told.object()["result"]) == (0, "PASS")
    assert rules(told.object()["findings"]) == [("G.block", "warning")]
    (place.directory / "run" / GUARDRAILS).write_text("find_mode: x\x1b[31m\n")
    told = place.call("ctcp", "check", "run", "--only", "A", "--json")
    assert (told.code, told.object()["result"]) == (1, "FAIL")
    assert told.object()["findings"] == [
        {
            "contract": "A",
            "path": GUARDRAILS,
            "rule": "A.find_mode",
            "severity": "error",
            "message": "find_mode is 'x\\x1b[31m'; write resolver_only or resolver_plus_web",
            "line": 1,
        },
        *(
            {
                "contract": "A",
                "path": GUARDRAILS,
                "rule": "A.field",
                "severity": "error",
                "message": f"'{key}' is missing",
                "line": None,
            }
            for key in ("max_files", "max_total_bytes", "max_iterations")
        ),
    ]
    said = place.call("ctcp", "check", "run", "--only", "a,g")
    assert said.code == 1
    assert said.out.split("\n")[0] == (
        f"run/{GUARDRAILS}:1: error: A.find_mode: find_mode is 'x\\x1b[31m'; write resolver_only or resolver_plus_web"
    )
    assert said.out.endswith("\nFAIL: 4 errors, 1 warning\n")
    assert "\x1b" not in said.out


def test_only_the_letters_that_are_named_are_checked_and_others_are_refused(place: Place) -> None:
    write_run(place.directory / "run", {PLAN: None, EVENTS: None})
    assert rules(place.call("ctcp", "check", "run", "--only", "J,A", "--json").object()["findings"]) == [
        ("J.missing", "error")
    ]
    for letters in ("K", "A,Z", "", "AB"):
        told = place.call("ctcp", "check", "run", "--only", letters)
        assert (told.code, told.out) == (2, "")
        assert "write letters from A to J" in told.err


def test_a_directory_that_does_not_exist_is_not_found(place: Place) -> None:
    write_run(place.directory / "run", {})
    for arguments in (("nowhere",), (f"run/{PLAN}",), ("run", "--tree", "nowhere")):
        told = place.call("ctcp", "check", *arguments, "--json")
        assert (told.code, told.out) == (3, "")
        assert "there is no directory" in told.err


def test_missing_files_are_passed_over_when_asked(place: Place) -> None:
    (place.directory / "run").mkdir()
    told = place.call("ctcp", "check", "run", "--json")
    assert told.code == 1
    assert {rule[2:] for rule, _ in rules(told.object()["findings"])} == {"missing", "no_trace"}
    told = place.call("ctcp", "check", "run", "--allow-missing", "--json")
    assert (told.code, told.json()) == (0, {"result": "PASS", "findings": []})


def git(tree: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=tree, check=True, capture_output=True)


@pytest.fixture
def tree(place: Place) -> Path:
    """A work tree whose repository would run a program for whatever touches its files."""
    tree = place.directory / "tree"
    (tree / "docs").mkdir(parents=True)
    git(tree, "init", "-q")
    trap = f"touch {place.directory}/ran; cat"
    for key in ("filter.trap.clean", "filter.trap.smudge", "filter.trap.process", "core.fsmonitor"):
        git(tree, "config", key, trap)
    (tree / ".gitattributes").write_text("* filter=trap\n")
    (tree / "docs/x").write_text("a\n")
    return tree


def test_git_is_asked_whether_the_patch_applies_and_runs_nothing(place: Place, tree: Path) -> None:
    text = b"diff --git a/docs/x b/docs/x\n--- a/docs/x\n+++ b/docs/x\n@@ -1 +1 @@\n-a\n+b\n"
    write_run(place.directory / "run", {PATCH: text})
    arguments = ("ctcp", "check", "run", "--only", "H", "--tree", "tree", "--json")
    assert place.call(*arguments).json() == {"result": "PASS", "findings": []}
    assert (tree / "docs/x").read_text() == "a\n"
    (tree / "docs/x").write_text("other\n")
    told = place.call(*arguments)
    assert told.code == 1
    assert told.object()["findings"] == [
        {
            "contract": "H",
            "path": PATCH,
            "rule": "H.does_not_apply",
            "severity": "error",
            "message": "error: patch failed: docs/x:1",
            "line": None,
        }
    ]
    assert not (place.directory / "ran").exists()
    subprocess.run(["git", "apply", "--check"], cwd=tree, input=text, check=False, capture_output=True)
    assert (place.directory / "ran").exists(), "the trap must work, or this test shows nothing"


def test_a_patch_that_leads_out_of_the_tree_is_not_handed_to_git(place: Place, tree: Path) -> None:
    text = b"diff --git a/../x b/../x\n--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n"
    write_run(place.directory / "run", {PATCH: text})
    told = place.call("ctcp", "check", "run", "--tree", "tree", "--json", PATH="/nowhere")
    assert rules(told.object()["findings"]) == [("H.path", "error")]


def test_without_git_the_tree_can_not_be_asked(place: Place, tree: Path) -> None:
    write_run(place.directory / "run", {})
    told = place.call("ctcp", "check", "run", "--tree", "tree", PATH="/nowhere")
    assert (told.code, told.out) == (2, "")
    assert "install git" in told.err


def test_a_recorded_run_has_the_faults_that_its_files_show(place: Place, material: Path) -> None:
    told = place.call("ctcp", "check", str(material / "samples/ctcp-run-pass"), "--json")
    assert told.code == 1
    found = told.object()["findings"]
    assert isinstance(found, list)
    assert [(each["rule"], each["line"]) for each in found if isinstance(each, dict)] == [
        ("B.mode", 29),  # it asks for a file in the mode "weird"
        ("F.later_key", None),
        ("H.scope", 1),  # the plan allows README.md, and the patch adds a file below docs/
    ]


def contract(place: Place) -> None:
    (place.directory / "playbooks/ctcp.playbook.yaml").write_text(PLAYBOOK)


def test_a_directory_is_verified_against_the_profile(place: Place) -> None:
    contract(place)
    write_run(
        place.directory / "run", {WEB: None, GUARDRAILS: passing()[GUARDRAILS].replace(b"plus_web", b"only")}
    )
    arguments = ("contract", "verify", "--playbook", "ctcp", "--root", "run")
    told = place.call(*arguments, "--json")
    assert (told.code, told.err) == (0, "")
    verification = told.object()
    assert (verification["status"], verification["missing_required"]) == ("passed", [])
    produced = verification["produced"]
    assert isinstance(produced, list)
    assert [each["id"] for each in produced if isinstance(each, dict)] == [*"ABCDFGHIJ", "trace"]
    assert re.search(r"REQUIRED  E +artifacts/find_web.json +OK\n", place.call(*arguments).out)
    (place.directory / "run" / PLAN).write_text("Status: DRAFT\n")
    (place.directory / "run" / EVENTS).unlink()
    told = place.call(*arguments)
    assert told.code == 1
    assert f"{PLAN}:1: F: F.status: 'Status' is 'DRAFT'; write SIGNED" in told.err
    assert "MISSING" in told.out
    assert f"NOT DELIVERED ({PLAN}: F.status on line 1" in told.out


def ctcp_run(place: Place, name: str, **files: bytes | None) -> Path:
    """A native run with a CTCP run directory as its artifacts."""
    run = place.runs / name
    write_run(run / "artifacts", files)
    said = {
        "schema": "runward-run-v1",
        "started_at": "2026-01-02T03:04:05Z",
        "playbook": "ctcp",
    }
    (run / "run.json").write_text(json.dumps(said))
    place.end_run(name, 0)
    return run


def test_a_session_with_the_profile_is_held_to_the_ten_contracts_at_its_end(place: Place) -> None:
    contract(place)
    ctcp_run(place, "good")
    ctcp_run(place, "bad", **{CONTRACT_REVIEW: b"Verdict: MAYBE\n", DRAFT: None, TRACE: None})
    place.daemon_once()
    good = place.call("session", "show", "good", "--json").object()
    assert (good["status"], good["delivery"]) == ("completed", "passed")
    snapshot = good["contract"]
    assert isinstance(snapshot, dict)
    entries = snapshot["expected"]
    assert isinstance(entries, list)
    assert [(each["id"], each.get("profile")) for each in entries if isinstance(each, dict)] == [
        *((letter, "ctcp") for letter in "ABCDEFGHIJ"),
        ("trace", None),
    ]
    bad = place.call("session", "show", "bad", "--json").object()
    reason = bad["reason"]
    assert isinstance(reason, dict)
    assert (bad["status"], reason["code"]) == ("failed", "run.failed.missing_artifact")
    assert bad["delivery"] == "partial"
    verification = bad["verification"]
    assert isinstance(verification, dict)
    missing = verification["missing_required"]
    assert isinstance(missing, list)
    assert [each["id"] for each in missing if isinstance(each, dict)] == ["F", "G", "trace"]
    broken = bad["rules"]
    assert isinstance(broken, list)
    assert [
        (each["id"], each["rule"], each["path"], each["line"])
        for each in broken
        if isinstance(each, dict) and not each["holds"]
    ] == [("F", "F.missing", DRAFT, None), ("G", "G.verdict", CONTRACT_REVIEW, 1)]
    assert "G.verdict on line 1" in place.call("why", "bad").out
    assert place.call("session", "verify", "good").code == 0


def test_the_reason_names_the_file_that_is_at_fault(place: Place) -> None:
    contract(place)
    ctcp_run(place, "unsigned", **{PLAN: b"Status: DRAFT\n"})
    place.daemon_once()
    reason = place.call("session", "show", "unsigned", "--json").object()["reason"]
    assert isinstance(reason, dict)
    assert f"F ({PLAN}): F.status on line 1: 'Status' is 'DRAFT'; write SIGNED" in str(reason["summary"])
    assert DRAFT not in str(reason)
    (known,) = [
        each["known"]
        for each in place.call("why", "unsigned", "--json").items("causes")
        if each.get("handler") == "sessions/ended"
    ]
    assert isinstance(known, dict)
    assert known["not_delivered"] == {PLAN: "F.status on line 1: 'Status' is 'DRAFT'; write SIGNED"}
    assert f"{PLAN}: F.status on line 1: " in place.call("why", "unsigned").out
    assert DRAFT not in place.call("why", "unsigned").out.partition("delivered in")[2].partition("\n")[2]
    assert (
        f"NOT DELIVERED ({PLAN}: F.status on line 1: 'Status'"
        in place.call("session", "show", "unsigned").out
    )


def test_inspect_names_the_lines_that_check_names(place: Place) -> None:
    lines = [
        b'{"ts": "2026-01-01T00:00:00", "role": "r", "event": "run_created", "path": ""}',
        b"[]",
        b"{",
        b'{"role": "r", "event": "blocked", "path": ""}',
        b'{"ts": "x", "ts": "y", "role": "r", "event": "e", "path": ""}',
    ]
    write_run(
        place.directory / "run",
        {EVENTS: b"\n".join(lines), RUN: b'{"schema_version": "ctcp-run-v1", "status": "running"}'},
    )
    (session,) = place.call("inspect", "run", "--json").objects()
    problems = session["problems"]
    assert isinstance(problems, list)
    checked = place.call("ctcp", "check", "run", "--only", "J", "--json").object()["findings"]
    assert isinstance(checked, list)
    named = [each["line"] for each in checked if isinstance(each, dict)]
    assert [each["line"] for each in problems if isinstance(each, dict)] == named == [2, 3, 4, 5]


def test_a_run_directory_whose_rights_are_taken_away_is_told_of(place: Place) -> None:
    write_run(place.directory / "run", {})
    os.chmod(place.directory / "run" / REPORT, 0)
    told = place.call("ctcp", "check", "run", "--only", "I", "--json")
    if os.geteuid() == 0:
        assert told.code == 0
    else:
        assert rules(told.object()["findings"]) == [("I.missing", "error")]
