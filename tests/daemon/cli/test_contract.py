"""`runward contract verify`: any directory held against a contract."""

import json

import pytest
from tests.daemon.cli.calling import CONTRACT, Place

from runward.config.json_value import JsonValue


def _expected(identifier: str) -> JsonValue:
    """An entry of the contract that the playbook and its agent make, in its snapshot's form."""
    described = {"review": "Reviewer verdict and findings", "report": "", "notes": ""}
    entries = CONTRACT["expected"] if isinstance(CONTRACT, dict) else None
    assert isinstance(entries, list)
    (entry,) = (each for each in entries if isinstance(each, dict) and each["id"] == identifier)
    return {**entry, "description": described[identifier]}


@pytest.mark.parametrize(
    ("files", "code", "status"),
    [
        (("review.md", "report.md", "notes.md"), 0, "passed"),
        (("review.md", "report.md"), 0, "warning"),
        (("review.md", "notes.md"), 1, "failed"),
        ((), 1, "failed"),
    ],
)
def test_the_exit_code_and_the_verification_say_what_the_directory_holds(
    place: Place, files: tuple[str, ...], code: int, status: str
) -> None:
    (place.directory / "out").mkdir()
    for name in files:
        (place.directory / "out" / name).write_text("text")
    held = place.call("contract", "verify", "--playbook", "review", "--root", "out", "--json")
    verification = held.object()
    assert held.code == code
    assert list(verification) == ["status", "checked_at", "missing_required", "missing_optional", "produced"]
    assert verification["status"] == status
    assert isinstance(verification["checked_at"], float)
    missing = [each for each in ("report", "review") if f"{each}.md" not in files]
    assert verification["missing_required"] == [_expected(each) for each in missing]
    assert verification["missing_optional"] == ([] if "notes.md" in files else [_expected("notes")])


def test_a_missing_directory_is_a_failed_verification(place: Place) -> None:
    held = place.call("contract", "verify", "--playbook", "review", "--root", "nowhere", "--json")
    assert (held.code, held.object()["status"], held.object()["produced"]) == (1, "failed", [])
    assert "there is no directory" in held.err


def test_without_a_contract_there_is_nothing_to_verify(place: Place) -> None:
    held = place.call("contract", "verify", "--playbook", "plain", "--root", ".", "--json")
    assert (held.code, held.json()) == (0, None)
    assert place.call("contract", "verify", "--playbook", "plain", "--root", ".").code == 0


def test_a_contract_that_is_none_exits_2_and_names_the_place(place: Place) -> None:
    held = place.call("contract", "verify", "--playbook", "wrong", "--root", ".", "--json")
    assert (held.code, held.out) == (2, "")
    assert "wrong.playbook.yaml:3:26: artifacts.expected[0].path: '../review.md' has a '..' in it" in held.err


def test_an_unknown_playbook_or_agent_exits_3_with_the_nearest(place: Place) -> None:
    held = place.call("contract", "verify", "--playbook", "reveiw", "--root", ".")
    assert held.code == 3
    assert "did you mean 'review'?" in held.err
    held = place.call("contract", "verify", "--playbook", "review", "--agent", "nobody", "--root", ".")
    assert held.code == 3


def test_an_agent_alone_makes_a_contract(place: Place) -> None:
    held = place.call("contract", "verify", "--agent", "reviewer", "--root", ".", "--json")
    assert held.code == 1
    assert held.object()["missing_required"] == [_expected("report")]


def test_a_file_may_be_named_instead(place: Place) -> None:
    (place.directory / "own.yaml").write_text("artifacts: {expected: [{id: toml, path: runward.toml}]}\n")
    for name in ("own.yaml", "./own.yaml", "playbooks/../own.yaml"):
        assert place.call("contract", "verify", "--playbook", name, "--root", ".").code == 0


def test_a_link_that_leads_outside_was_not_delivered_and_it_is_said(place: Place) -> None:
    (place.directory / "out").mkdir()
    (place.directory / "out/report.md").write_text("r")
    (place.directory / "secret").write_text("s")
    (place.directory / "out/review.md").symlink_to(place.directory / "secret")
    held = place.call("contract", "verify", "--playbook", "review", "--root", "out")
    assert held.code == 1
    assert "NOT DELIVERED (leads outside the root)" in held.out


@pytest.mark.parametrize("arguments", [("--root", "."), ("--playbook", "review")])
def test_a_contract_and_a_directory_must_be_named(place: Place, arguments: tuple[str, ...]) -> None:
    assert place.call("contract", "verify", *arguments).code == 2


def test_it_reads_no_store_and_makes_none(place: Place) -> None:
    place.call("contract", "verify", "--playbook", "review", "--root", ".")
    assert not place.state.exists()


def test_the_json_is_one_value_on_one_line(place: Place) -> None:
    out = place.call("contract", "verify", "--playbook", "review", "--root", ".", "--json").out
    assert out.count("\n") == 1
    assert json.loads(out)
