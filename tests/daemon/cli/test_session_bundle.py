"""The bundle of a session by the commands: shown, exported, verified, compared, made on demand."""

import json
import os
import sqlite3
import time
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript, good_turn

from runward.config.json_value import JsonValue
from runward.daemon.views.bundles import CALLS_STORED
from runward.handlers.bundle.receipt import receipt_text, sealed
from runward.handlers.bundle.signatures import SecretKey, sign
from runward.handlers.bundle.summary import Summary

PARTS = ["PR_SUMMARY.md", "RECEIPT.json", "REPLAY.jsonl"]


def trace(*outputs: str) -> str:
    """Calls of the same command, with what came back each time."""
    lines = ['{"event":"SessionStart","issue_number":42}']
    for number, output in enumerate(outputs):
        second = f"2026-01-02T03:05:{2 * number:02}Z"
        call = {
            "event": "ToolCall",
            "id": f"c{number}",
            "tool": "Bash",
            "params": {"command": "pytest -q"},
            "t": second,
        }
        result = {"event": "ToolResult", "id": f"c{number}", "output": {"content": output}, "t": second}
        lines += [json.dumps(call), json.dumps(result)]
    return "\n".join(lines) + "\n"


def add(place: Place, name: str, *outputs: str, exit_code: int = 0) -> Path:
    run = place.add_run(name)
    (run / "trace.jsonl").write_text(trace(*outputs))
    place.end_run(name, exit_code)
    return run


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Three recorded runs; `one` and `same` did the same, `other` did not."""
    made = Place(tmp_path_factory.mktemp("worked"))
    made.furnish()
    add(made, "one", "1 failed, 3 passed in 0.1s", "4 passed in 0.1s")
    add(made, "same", "1 failed, 3 passed in 0.1s", "4 passed in 0.1s")
    add(made, "other", "1 failed, 3 passed in 0.1s", "3 passed, 1 failed in 0.1s", "4 passed", exit_code=1)
    made.daemon_once()
    return made


def test_a_bundle_that_its_run_prevented_is_found_by_the_commands(place: Place) -> None:
    run = place.add_run("sly")
    (run / "trace.jsonl").write_text(trace("4 passed in 0.1s"))
    (run / ".RECEIPT.json.x.tmp").mkdir()
    place.end_run("sly", 0)
    place.daemon_once()
    bundle = place.call("session", "show", "sly", "--json").object()["bundle"]
    assert isinstance(bundle, dict)
    assert (bundle["state"], bundle["valid"]) == ("written", True)
    assert "its parts are in Runward's state directory" in str(bundle["problem"])
    assert place.call("receipt", "verify", "sly").code == 0
    assert place.call("session", "export", "sly", "--output", "there").code == 0
    assert place.call("receipt", "verify", "there").code == 0


_ADDED = ("schema", "event_hash", "canonical_form", "files", "prev", "receipt_hash")


def downgrade(receipt: Path, **changes: JsonValue) -> None:
    """Make it a receipt in the seed's form, as other programs write it."""
    fields = json.loads(receipt.read_text()) | changes
    receipt.write_text(json.dumps({key: each for key, each in fields.items() if key not in _ADDED}))


def test_a_receipt_that_lost_our_additions_is_refused_wherever_the_store_knows_better(place: Place) -> None:
    run = add(place, "one", "4 passed in 0.1s")
    place.daemon_once()
    assert place.call("session", "export", "one", "--output", "there").code == 0
    for target in ("one", str(run), "there"):
        told = place.call("receipt", "verify", target, "--json").object()
        assert (told["valid"], told["compared"]) == (True, True)
        assert told["proves"] == ["consistent", "unchanged", "recorded"]
    downgrade(run / "RECEIPT.json")
    downgrade(place.directory / "there/RECEIPT.json")
    for target in ("one", str(run), "there"):
        answer = place.call("receipt", "verify", target)
        assert answer.code == 1, target
        assert answer.out.startswith("seed form: this proves less. ")
        assert "receipt_hash: the store recorded sha256:" in answer.out
    downgrade(run / "RECEIPT.json", session_id="two")
    told = place.call("receipt", "verify", str(run), "--json").object()
    assert (told["valid"], told["compared"]) == (False, True), "its place is known, whatever it calls itself"


def test_a_bundle_in_the_seed_s_form_says_first_that_it_proves_less_and_what(place: Place) -> None:
    add(place, "one", "4 passed in 0.1s")
    place.daemon_once()
    assert place.call("session", "export", "one", "--output", "there").code == 0
    downgrade(place.directory / "there/RECEIPT.json")
    (place.directory / "runward.toml").write_text('state_dir = "elsewhere"\n')
    answer = place.call("receipt", "verify", "there")
    assert answer.code == 0
    first, last = answer.out.splitlines()
    assert first == (
        "seed form: this proves less. Its parts are checked against each other, but anybody may have written or changed"
        " them, and the store doesn't know it"
    )
    assert last == (
        "+ valid: the receipt matches its files (0 hashes, 2 of values), not known to the store, not signed"
    )
    told = place.call("receipt", "verify", "there", "--json").object()
    assert (told["form"], told["proves"], told["compared"]) == ("seed", ["consistent"], False)


def test_what_was_recomputed_is_counted_also_for_a_bundle_without_calls(place: Place) -> None:
    place.add_run("idle", exit_code=0)
    place.daemon_once()
    said = place.call("receipt", "verify", "idle")
    assert said.out == "+ valid: the receipt matches its files (3 hashes), not signed\n"
    there = place.call("receipt", "verify", "idle", LANG="C.UTF-8").out
    assert there.startswith("✓ valid: ")


def test_a_receipt_of_a_run_s_own_counts_for_nothing_where_the_store_has_none(place: Place) -> None:
    run = add(place, "one", "4 passed in 0.1s")
    place.daemon_once()
    with sqlite3.connect(place.state / "runward.db") as store:
        store.execute("drop trigger receipts_are_facts")
        store.execute("update receipts set receipt_hash = null, prev = null, problem = 'the disk was full'")
    downgrade(run / "RECEIPT.json")
    for target in ("one", str(run)):
        answer = place.call("receipt", "verify", target)
        assert answer.code == 1
        assert "the store recorded that there is no receipt: the disk was full" in answer.out


def test_a_session_shows_its_bundle(worked: Place) -> None:
    bundle = worked.call("session", "show", "one", "--json").object()["bundle"]
    assert isinstance(bundle, dict)
    assert (bundle["state"], bundle["valid"], bundle["attempt"]) == ("written", True, 1)
    assert (bundle["directory"], bundle["problem"]) == (str(worked.runs / "one"), None)
    parts, summary = bundle["parts"], bundle["summary"]
    assert isinstance(parts, list)
    assert sorted(str(each["name"]) for each in parts if isinstance(each, dict)) == PARTS
    assert isinstance(summary, dict)
    assert summary["issue_number"] == 42
    assert summary["verification"] == [
        {"command": "pytest -q", "exit_code": 0, "tests_passed": 4, "tests_total": 4}
    ]
    shown = worked.call("session", "show", "one").out
    assert "\nCalls:     2\n" in shown
    assert "REPLAY.jsonl, PR_SUMMARY.md, RECEIPT.json, as recorded" in shown
    assert (summary["calls"], summary["failed_calls"]) == (2, 0)


def test_the_calls_are_where_a_stored_summary_has_them() -> None:
    assert list(Summary._fields)[CALLS_STORED] == ["calls", "failed_calls"]


def test_a_bundle_is_verified_where_it_lies_and_where_it_is_exported(worked: Place, tmp_path: Path) -> None:
    assert worked.call("receipt", "verify", "one").code == 0
    exported = worked.call("session", "export", "one", "--output", str(tmp_path / "b"), "--json")
    assert exported.code == 0
    assert exported.object()["on_demand"] is False
    assert sorted(each.name for each in (tmp_path / "b").iterdir()) == PARTS
    assert worked.call("receipt", "verify", str(tmp_path / "b")).code == 0
    for name in PARTS:
        before = (tmp_path / "b" / name).read_bytes()
        assert before == (worked.runs / "one" / name).read_bytes()
        (tmp_path / "b" / name).write_bytes(before.replace(b"4", b"5", 1))
        said = worked.call("receipt", "verify", str(tmp_path / "b"))
        assert said.code == 1, name
        (tmp_path / "b" / name).write_bytes(before)


def test_a_receipt_that_was_made_anew_is_not_the_one_that_the_store_recorded(worked: Place) -> None:
    receipt = worked.runs / "same/RECEIPT.json"
    before = receipt.read_bytes()
    fields = json.loads(before)
    try:
        receipt.write_bytes(sealed({**fields, "delivery": "skipped"}, fields["prev"], "seed").text)
        for target in ("same", str(worked.runs / "same")):
            said = worked.call("receipt", "verify", target, "--json")
            assert said.code == 1
            (problem,) = said.items("problems")
            assert (problem["part"], problem["field"]) == ("RECEIPT.json", "receipt_hash"), (
                "by itself it is right"
            )
            assert f"the store recorded {fields['receipt_hash']}" in str(problem["message"])
    finally:
        receipt.write_bytes(before)
    assert worked.call("receipt", "verify", "same", "--attempt", "1").code == 0


def test_another_bundle_in_the_place_of_a_sessions_own_is_found(worked: Place) -> None:
    kept = {name: (worked.runs / "same" / name).read_bytes() for name in PARTS}
    try:
        for name in PARTS:
            (worked.runs / "same" / name).write_bytes((worked.runs / "one" / name).read_bytes())
        said = worked.call("receipt", "verify", "same", "--json")
        assert said.code == 1
        assert {str(each["part"]) for each in said.items("problems")} == set(PARTS)
    finally:
        for name, content in kept.items():
            (worked.runs / "same" / name).write_bytes(content)


def test_a_sessions_receipt_and_replay_are_found_by_every_form_of_its_id(worked: Place) -> None:
    for form in ("one", "@last"):
        assert worked.call("receipt", "verify", form).code == 0
        checked = worked.call("replay", "check", form, "--json")
        assert (checked.code, checked.object()["valid"]) == (0, True)
        assert worked.call("replay", "check", form, "--attempt", "1").code == 0
    for command in (("receipt", "verify"), ("replay", "check")):
        assert worked.call(*command, "nobody").code == 3
        assert worked.call(*command, "one", "--attempt", "2").code == 3


def test_a_session_shows_what_the_signature_of_its_receipt_is_worth(worked: Place) -> None:
    receipt = worked.runs / "same/RECEIPT.json"
    before = receipt.read_bytes()
    states = []
    signed = sign(json.loads(before), SecretKey("ed25519", b"\7" * 32))["signature"]
    try:
        for signature in (None, "sig:ed25519:x", signed):
            receipt.write_bytes(receipt_text({**json.loads(before), "signature": signature}))
            shown = worked.call("session", "show", "same", "--json").object()["bundle"]
            assert isinstance(shown, dict)
            states.append(shown["signature"])
    finally:
        receipt.write_bytes(before)
    assert states == ["absent", "invalid", "unknown_key"]


def test_an_issue_stands_in_the_metadata_of_a_run_unless_its_trace_names_one(place: Place) -> None:
    for name, more in (("told", trace("1 passed")), ("kept", ""), ("text", "")):
        issue: JsonValue = "7" if name == "text" else 7
        run = place.add_run(name, metadata={"issue_number": issue})
        (run / "trace.jsonl").write_text(more)
        place.end_run(name, 0)
    place.daemon_once()
    issues = {
        name: json.loads((place.runs / name / "RECEIPT.json").read_text())["issue_number"]
        for name in ("told", "kept", "text")
    }
    assert issues == {"told": 42, "kept": 7, "text": None}


def test_an_export_replaces_nothing_without_force(worked: Place, tmp_path: Path) -> None:
    (tmp_path / "RECEIPT.json").write_text("mine")
    (tmp_path / "notes").write_text("mine, too")
    refused = worked.call("session", "export", "one", "--output", str(tmp_path))
    assert (refused.code, (tmp_path / "RECEIPT.json").read_text()) == (1, "mine")
    assert "--force" in refused.err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["RECEIPT.json", "notes"]
    assert worked.call("session", "export", "one", "--output", str(tmp_path), "--force").code == 0
    assert worked.call("session", "export", "one", "--output", str(tmp_path)).code == 0, "it is the same"
    assert (tmp_path / "notes").read_text() == "mine, too"


def test_sessions_are_compared_call_by_call(worked: Place) -> None:
    same = worked.call("session", "diff", "one", "same")
    assert (same.code, same.out) == (0, "identical\n")
    different = worked.call("session", "diff", "one", "other", "--json")
    said = different.object()
    assert (different.code, said["identical"]) == (1, False)
    assert said["calls"] == {"same": 1, "changed": 1, "left_only": 0, "right_only": 1}
    assert said["status"] == {"left": "completed", "right": "failed"}
    first = said["first_divergence"]
    assert isinstance(first, dict)
    assert first["index"] == 1
    assert worked.call("session", "diff", "one", "nobody").code == 3


def test_the_receipts_of_all_sessions_form_one_chain(worked: Place) -> None:
    said = worked.call("receipt", "chain", "--json").object()
    assert (said["valid"], said["receipts"], said["problems"]) == (True, 3, [])
    heads = [
        worked.call("session", "show", name, "--json").object()["bundle"] for name in ("one", "same", "other")
    ]
    assert said["head"] in [each["receipt_hash"] for each in heads if isinstance(each, dict)]


def test_training_data_has_a_line_for_each_call(worked: Place, tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    said = worked.call("training", "export", "--session", "one", "--output", str(file), "--json")
    assert said.object() == {"calls": 2, "sessions": 1}
    first, second = (json.loads(line) for line in file.read_text().splitlines())
    assert list(first) == [
        "signature",
        "session_id",
        "call_id",
        "tool",
        "inputs",
        "outputs",
        "step_utility",
        "verification_delta",
        "cost_tokens",
        "cost_tool_calls",
        "was_repeated",
    ]
    assert (first["signature"], first["inputs"], first["verification_delta"]) == (
        "ToolCallSignature",
        {"command": "pytest -q"},
        1,
    )
    assert (first["was_repeated"], second["was_repeated"]) == (False, True)
    assert worked.call("training", "export", "--output", str(file), "--json").object() == {
        "calls": 7,
        "sessions": 3,
    }


def test_without_bundles_they_are_made_on_demand(place: Place, tmp_path: Path) -> None:
    settings = place.directory / "runward.toml"
    settings.write_text(
        settings.read_text() + '[[roots]]\nname = "runs"\npath = "state/runs"\nbundle = false\n'
    )
    run = add(place, "r", "4 passed in 0.1s")
    place.daemon_once()
    assert not [name for name in PARTS if (run / name).exists()]
    bundle = place.call("session", "show", "r", "--json").object()["bundle"]
    assert isinstance(bundle, dict)
    assert (bundle["state"], bundle["valid"]) == ("on_demand", None)
    assert (
        "on demand: `runward session export ID --output DIRECTORY`" in place.call("session", "show", "r").out
    )
    exported = place.call("session", "export", "r", "--output", str(tmp_path / "b"), "--json")
    assert exported.object()["on_demand"] is True
    assert place.call("receipt", "verify", str(tmp_path / "b")).code == 0
    assert json.loads((tmp_path / "b" / "RECEIPT.json").read_text())["prev"] is None
    shown = place.call("replay", "r", "--json").out.splitlines()
    assert [json.loads(line) for line in shown] == [
        json.loads(line) for line in (tmp_path / "b" / "REPLAY.jsonl").read_text().splitlines()
    ]
    assert place.call("replay", "check", "r").code == 0
    assert not [name for name in PARTS if (run / name).exists()], "nothing is written where the run is"


def test_the_replay_of_history_is_made_on_demand_and_it_has_no_receipt(place: Place) -> None:
    transcripts = place.directory / "claude" / "-app"
    transcripts.mkdir(parents=True)
    two_days_ago = time.time() - 2 * 86_400
    transcript = Transcript(now=two_days_ago)
    good_turn(transcript)
    transcript.last_prompt()
    file = transcripts / f"{SESSION}.jsonl"
    file.write_bytes(transcript.content())
    os.utime(file, (two_days_ago, two_days_ago))
    settings = place.directory / "runward.toml"
    root = '[[roots]]\nname = "claude"\npath = "claude"\nlayout = "claude-code"\n'
    settings.write_text(f"{settings.read_text()}{root}")
    place.daemon_once()
    shown = [json.loads(line)["event"] for line in place.call("replay", SESSION, "--json").out.splitlines()]
    assert (shown[0], shown[-1]) == ("SessionStart", "SessionEnd")
    assert place.call("replay", "check", SESSION).code == 0
    refused = place.call("receipt", "verify", SESSION)
    assert refused.code == 3
    assert f"there is no receipt of attempt 1 of {SESSION}" in refused.err
    assert place.call("receipt", "sign", SESSION).code == 1
    rebuilt = place.call("doctor", "--rebuild", "--json").object()
    assert rebuilt["without_journal"] == {"history has no journal": 1}


def test_the_summary_of_an_agent_that_names_no_cost_has_an_estimate_and_the_receipt_none(
    place: Place, tmp_path: Path
) -> None:
    transcript = Transcript(now=time.time() - 100)
    good_turn(transcript)
    transcript.last_prompt()
    file = place.directory / "claude" / "-app" / f"{SESSION}.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(transcript.content())
    settings = place.directory / "runward.toml"
    root = '[[roots]]\nname = "claude"\npath = "claude"\nlayout = "claude-code"\n'
    settings.write_text(f"{settings.read_text()}{root}")
    place.daemon_once()
    in_all = place.call("usage", "--json").object()["total"]
    assert isinstance(in_all, dict)
    assert isinstance(in_all["cost_usd"], float)
    assert place.call("session", "export", SESSION, "--output", str(tmp_path / "b")).code == 0
    summary, receipt = ((tmp_path / "b" / name).read_text() for name in ("PR_SUMMARY.md", "RECEIPT.json"))
    cost = next(line for line in summary.splitlines() if line.startswith("- Cost: "))
    assert cost.startswith(f"- Cost: ~${in_all['cost_usd']:.4f} at list prices of ")
    assert cost.endswith("), an estimate")
    assert '"cost"' not in receipt
    assert "estimate" not in receipt
    assert place.call("receipt", "verify", str(tmp_path / "b")).code == 0


def test_a_running_session_is_shown_up_to_now(place: Place) -> None:
    run = place.add_run("r")
    lines = trace("4 passed in 0.1s").splitlines(keepends=True)
    (run / "trace.jsonl").write_text(lines[0])
    place.daemon_once()
    for known in (1, 2, 3):
        (run / "trace.jsonl").write_text("".join(lines[:known]))
        shown = [json.loads(line)["event"] for line in place.call("replay", "r", "--json").out.splitlines()]
        assert shown == [json.loads(line)["event"] for line in lines[:known]]


def test_the_replay_of_a_running_session_is_checked_and_said_to_lack_its_end(place: Place) -> None:
    place.add_run("r")
    place.daemon_once()
    checked = place.call("replay", "check", "r")
    assert (checked.code, checked.out.splitlines()) == (
        1,
        [
            "the replay of r: there is no SessionEnd",
            "invalid: 1 event",
            "the session is still running: its replay has no end yet",
        ],
    )


def test_a_session_is_found_by_its_key_with_a_slash_in_it(worked: Place) -> None:
    for command in (("receipt", "verify"), ("replay", "check"), ("replay", "show")):
        assert worked.call(*command, "native:runs/one").code == 0
    assert worked.call("replay", "check", "native/nothing").code == 3


def test_a_running_session_has_no_bundle_to_export(place: Place, tmp_path: Path) -> None:
    place.add_run("r")
    place.daemon_once()
    said = place.call("session", "export", "r", "--output", str(tmp_path / "b"))
    assert said.code == 1
    assert "still running" in said.err
    bundle = place.call("session", "show", "r", "--json").object()["bundle"]
    assert isinstance(bundle, dict)
    assert (bundle["state"], bundle["attempt"], bundle["parts"]) == ("growing", 1, [])


def test_the_settings_say_how_bundles_are_made(place: Place) -> None:
    settings = place.directory / "runward.toml"
    settings.write_text(
        settings.read_text()
        + '[bundle]\ncanonical_form = "rfc8785"\npolicy_bundle_id = "p1"\nverification = ["pytest*"]\n'
    )
    run = add(place, "r", "4 passed in 0.1s")
    place.daemon_once()
    receipt = json.loads((run / "RECEIPT.json").read_text())
    assert (receipt["canonical_form"], receipt["policy_bundle_id"]) == ("rfc8785", "p1")
    assert place.call("receipt", "verify", "r").code == 0


def test_a_wrong_setting_of_bundles_is_told_with_its_place(place: Place) -> None:
    (place.directory / "runward.toml").write_text('[bundle]\nredact = ["("]\ncanonical_form = "mine"\n')
    said = place.call("daemon", "--check")
    assert said.code != 0
    assert "runward.toml:2" in said.err + said.out
    assert "is not a regular expression" in said.err + said.out


def test_the_commands_know_actions_in_the_exchange_as_calls(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.furnish()
    for name, artifact in (("one", "gone"), ("same", "gone"), ("other", "lost")):
        run = place.add_run(name, agent="reader")
        (run / "trace.jsonl").write_text(trace("1 failed"))
        intent = {"action_type": "read_artifact", "artifact_id": artifact}
        (run / "intents.jsonl").write_text(f"{json.dumps(intent)}\n")
        place.end_run(name, 0)
    place.daemon_once()
    lines = [json.loads(line) for line in (place.runs / "one" / "REPLAY.jsonl").read_text().splitlines()]
    assert [each["tool"] for each in lines if each["event"] == "ToolCall"] == [
        "Bash",
        "exchange.read_artifact",
    ]
    assert place.call("replay", "check", "one", "--json").object()["problems"] == []
    assert place.call("receipt", "verify", "one", "--json").object()["valid"] is True
    assert place.call("session", "diff", "one", "same", "--json").object()["identical"] is True
    found = place.call("session", "diff", "one", "other", "--json")
    assert found.object()["first_divergence"]["index"] == 1  # type: ignore[index,call-overload] # an object
    (place.runs / "one" / "REPLAY.jsonl").unlink()
    made = place.call("session", "diff", "one", "same", "--json").object()
    assert made["identical"] is True, "it is made again from the run's files and the store"
