"""`runward session show`: one session for people and for programs, and how its id may be written."""

import hashlib
import json
import os
import time

import pytest
from tests.daemon.cli.calling import CONTRACT, SETTINGS, Place
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript

from runward.config.json_value import JsonValue
from runward.handlers.times import moment_of


def test_the_json_has_contract_verification_and_history_in_their_promised_shapes(recorded: Place) -> None:
    session = recorded.call("session", "show", "silent", "--json").object()
    assert session["contract"] == CONTRACT
    assert (session["contract_basis"], session["contract_problem"]) == ("late", None)
    verification = session["verification"]
    assert isinstance(verification, dict)
    assert list(verification) == ["status", "checked_at", "missing_required", "missing_optional", "produced"]
    assert verification["produced"] == [{"id": "report", "path": "report.md", "size": 1}]
    digest = hashlib.sha256(b"r").hexdigest()
    assert session["files"] == [
        {"id": "report", "path": "report.md", "size": 1, "sha256": digest, "problem": None}
    ]
    assert session["delivery"] == "invalid"
    assert session["history"] == [
        {
            "at": "2026-01-02T03:04:05.000Z",
            "status": "running",
            "reason_code": "run.started.ok",
            "source": "daemon",
        },
        {
            "at": "2026-01-02T03:14:05.000Z",
            "status": "failed",
            "reason_code": "run.failed.missing_artifact",
            "source": "daemon",
        },
    ]
    reason = session["reason"]
    assert isinstance(reason, dict)
    assert reason["evidence_refs"] == [{"kind": "expected_artifact", "id": "review", "label": "review.md"}]
    assert session["artifacts"] == []


def test_without_a_contract_contract_and_verification_are_null(recorded: Place) -> None:
    session = recorded.call("session", "show", "plain", "--json").object()
    assert (session["contract"], session["verification"], session["delivery"]) == (None, None, None)


def test_the_expected_artifacts_stand_beside_what_became_of_them(recorded: Place) -> None:
    lines = recorded.call("session", "show", "silent").out.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("Expected artifacts"))
    assert lines[begin : begin + 12] == [
        "Expected artifacts                          Verified: failed",
        "",
        "  REQUIRED  review  review.md  NOT DELIVERED (empty)",
        "            description: Reviewer verdict and findings",
        "            declared by: playbook",
        "",
        "  REQUIRED  report  report.md  OK (1 B)",
        "            declared by: agent_profile",
        "",
        "  OPTIONAL  notes   notes.md   MISSING",
        "            description: Supplementary observations",
        "            declared by: playbook",
    ]


def test_a_file_size_is_shown_as_people_read_it(recorded: Place) -> None:
    assert "OK (1.3 KB)" in recorded.call("session", "show", "delivered").out


def test_silence_where_no_contract_was_declared(recorded: Place) -> None:
    shown = recorded.call("session", "show", "plain").out
    assert "Expected artifacts" not in shown
    assert "Contract" not in shown


@pytest.mark.parametrize(
    ("session", "said"),
    [
        ("crashed", "it failed, although all required artifacts are there"),
        ("careless", "it completed, but optional artifacts are missing"),
    ],
)
def test_both_signals_are_shown_where_status_and_verification_disagree(
    recorded: Place, session: str, said: str
) -> None:
    assert f"Status and verification differ: {said}." in recorded.call("session", "show", session).out


@pytest.mark.parametrize("session", ["delivered", "silent", "plain", "open"])
def test_one_signal_is_enough_where_they_agree(recorded: Place, session: str) -> None:
    assert "Status and verification differ" not in recorded.call("session", "show", session).out


def test_a_failure_of_its_own_keeps_its_cause_and_names_what_is_missing(place: Place) -> None:
    place.add_run("both", exit_code=7, contract=CONTRACT)
    place.daemon_once()
    shown = place.call("session", "show", "both").out
    assert "failed (run.failed.exit_nonzero)" in shown
    assert (
        "it failed for another reason; it also did not deliver review (review.md), report (report.md)"
        in shown
    )


def test_times_are_local_with_their_zone(recorded: Place) -> None:
    assert "2026-01-02 04:04:05 CET" in recorded.call("session", "show", "silent", TZ="CET-1").out


def test_a_wrong_playbook_is_shown_as_the_contract_problem(place: Place) -> None:
    run = place.add_run("held", exit_code=0)
    said = json.loads((run / "run.json").read_text())
    del said["contract"]
    (run / "run.json").write_text(json.dumps(said | {"playbook": "nowhere"}))
    place.daemon_once()
    session = place.call("session", "show", "held", "--json").object()
    assert (session["status"], session["contract"]) == ("completed", None)
    assert "there is no playbook 'nowhere'" in str(session["contract_problem"])
    assert "Contract:  none: there is no playbook 'nowhere'" in place.call("session", "show", "held").out
    listed = place.call("session", "list")
    assert " contract? " in listed.out
    assert "contract?: the contract that the run names can't be used" in " ".join(listed.err.split())


def files(place: Place) -> list[dict[str, JsonValue]]:
    return place.call("session", "show", "r", "--json").items("files")


def test_the_files_of_a_session_have_their_hashes(place: Place) -> None:
    place.add_run("r", exit_code=0, contract=CONTRACT, files={"review.md": "fine\n", "report.md": "done\n"})
    place.daemon_once()
    digests = [hashlib.sha256(content).hexdigest() for content in (b"fine\n", b"done\n")]
    assert [each["sha256"] for each in files(place)] == digests
    shown = place.call("session", "show", "r").out
    assert f"  review.md  5 B  sha256 {digests[0]}\n" in shown
    assert place.call("session", "list", "--json").objects()[0]["files"] == files(place)


def test_a_hash_that_is_still_to_be_taken_is_null(place: Place) -> None:
    place.add_run("r", exit_code=0, contract=CONTRACT, files={"review.md": "fine\n", "report.md": "done\n"})
    place.daemon_once()
    place.change_store("delete from files where id = 'review'")
    assert [(each["id"], each["sha256"] is None) for each in files(place)] == [
        ("review", True),
        ("report", False),
    ]
    assert "  review.md  5 B  not hashed yet\n" in place.call("session", "show", "r").out


def test_a_file_without_a_hash_says_why_and_one_that_was_changed_has_both(place: Place) -> None:
    place.add_run("r", exit_code=0, contract=CONTRACT, files={"review.md": "fine\n", "report.md": "done\n"})
    place.daemon_once()
    place.change_store("delete from files")
    row = "insert into files values ('native:runs/r', 1, ?, ?, ?, 7, ?, ?, 1.0)"
    place.change_store(row, "review", "review.md", 5, None, "gone")
    place.change_store(row, "report", "report.md", 9, "ab" * 32, "changed")
    assert [(each["size"], each["sha256"], each["problem"]) for each in files(place)] == [
        (5, None, "gone"),
        (9, "ab" * 32, "changed"),
    ]
    shown = place.call("session", "show", "r").out
    assert "  review.md  5 B  not hashed: it is gone\n" in shown
    changed = "it was changed between its verification and its hash"
    assert f"  report.md  9 B  sha256 {'ab' * 32} ({changed})\n" in shown


def test_a_resumed_session_began_with_its_first_attempt_in_every_command(place: Place) -> None:
    roots = '[[roots]]\nname = "c"\npath = "projects"\nlayout = "claude-code"\nhistory = "live"\n'
    (place.directory / "runward.toml").write_text(SETTINGS + roots)
    transcript = Transcript(now=time.time() - 100)
    transcript.prompt("fix it")
    transcript.text("fixed")
    transcript.now += 60
    transcript.queued("and the tests")
    transcript.prompt("and the tests")
    transcript.text("fixed, too")
    path = place.directory / f"projects/-app/{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(transcript.content())
    os.utime(path, (time.time() - 10,) * 2)
    place.daemon_once()
    shown = place.call("session", "show", SESSION, "--json").object()
    (inspected,) = place.call("inspect", str(path), "--json").objects()
    assert (shown["attempt"], inspected["attempt"]) == (2, 2)
    began, ended = _moment(shown["started_at"]), _moment(shown["finished_at"])
    assert inspected["started_at"] == shown["started_at"]
    assert shown["duration_s"] == pytest.approx(ended - began, abs=0.01)


def _moment(text: JsonValue) -> float:
    at = moment_of(text)
    assert at is not None
    return at
