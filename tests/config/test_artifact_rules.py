"""What an entry of a contract may ask for beyond a file that is not empty, and what is refused."""

import pytest

from runward.config.artifact_rules import ArtifactRules
from runward.config.contract import (
    Contract,
    contract_from_json,
    contract_to_json,
    declared_artifacts,
    resolve_contract,
)
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint


def declared(**spec: JsonValue) -> tuple[ArtifactRules | None, list[Complaint]]:
    complaints: list[Complaint] = []
    found = declared_artifacts({"expected": [{"id": "a", **spec}]}, (), complaints)
    return (found[0].rules if found else None), complaints


@pytest.mark.parametrize(
    ("spec", "rules"),
    [
        ({"path": "a.md"}, None),
        ({"path": "a.md", "min_size": "2KB"}, ArtifactRules(min_size=2048)),
        ({"path": "a.md", "mime_type": "text/markdown"}, ArtifactRules(mime_type="text/markdown")),
        ({"path": "a.png", "mime_type": "image/*"}, ArtifactRules(mime_type="image/*")),
        ({"path": "a.png", "mime_type": "image/png"}, ArtifactRules(mime_type="image/png")),
        ({"path": "a.json", "schema": "a.schema.json"}, ArtifactRules(schema_file="a.schema.json")),
        ({"path": "a.md", "fresh": True}, ArtifactRules(fresh=True)),
        ({"glob": "notes/*.md"}, ArtifactRules(glob="notes/*.md")),
        ({"glob": "**/*.md", "min_count": 2, "max_count": 9}, ArtifactRules("**/*.md", 2, 9)),
        (
            {"kind": "outcome", "outcome_kind": "review_verdict", "passed": True},
            ArtifactRules(is_outcome=True, outcome_kind="review_verdict", passed=True),
        ),
        ({"path": "v.json", "outcome_kind": "ci_result"}, ArtifactRules(outcome_kind="ci_result")),
    ],
)
def test_the_rules_of_an_entry_are_read(spec: dict[str, JsonValue], rules: ArtifactRules | None) -> None:
    assert declared(**spec) == (rules, [])


@pytest.mark.parametrize(
    ("spec", "key", "message"),
    [
        ({"path": "a", "glob": "b"}, "glob", "can't be combined with 'path'"),
        ({"path": "a", "kind": "outcome", "outcome_kind": "x"}, "kind", "can't be combined with 'path'"),
        ({"glob": "a", "kind": "outcome", "outcome_kind": "x"}, "kind", "can't be combined with 'glob'"),
        ({"kind": "outcome"}, "kind", "does not say which outcome"),
        ({"kind": "outcome", "outcome_kind": "x", "min_size": "1KB"}, "min_size", "is a rule for files"),
        ({"path": "a", "min_count": 2}, "min_count", "counts the files of a glob"),
        ({"glob": "a", "outcome_kind": "x"}, "outcome_kind", "is not a rule for globs"),
        ({"path": "a", "passed": True}, "passed", "applies only to outcomes"),
        ({"glob": "a", "min_count": 3, "max_count": 2}, "max_count", "is less than min_count"),
        ({"glob": "a", "min_count": 0}, "min_count", "must be a whole number from 1 to 1000"),
        ({"glob": "a", "min_count": True}, "min_count", "must be a whole number from 1 to 1000"),
        ({"glob": "/etc/*"}, "glob", "'/etc/*' is not relative"),
        ({"glob": "../*"}, "glob", "'../*' has a '..' in it"),
        ({"glob": "[a"}, "glob", "'[a' has a '[' that is never closed"),
        ({"path": "a", "min_size": "big"}, "min_size", "'big' is not a size"),
        ({"path": "a", "min_size": -1}, "min_size", "-1 is not a size"),
        ({"path": "a", "mime_type": "markdown"}, "mime_type", "'markdown' is not a type"),
        ({"path": "a", "mime_type": "Text/Plain"}, "mime_type", "'Text/Plain' is not a type"),
        (
            {"path": "a", "mime_type": "application/x-made-up"},
            "mime_type",
            "can't be detected from a file's content",
        ),
        ({"path": "a", "schema": {}}, "schema", "must be a text, not a table"),
        ({"path": "a", "schema": "../up.json"}, "schema", "'../up.json' has a '..' in it"),
        ({"path": "a", "fresh": "yes"}, "fresh", "must be true or false, not a text"),
    ],
)
def test_what_says_nothing_or_two_things_is_refused_in_one_line(
    spec: dict[str, JsonValue], key: str, message: str
) -> None:
    rules, complaints = declared(**spec)
    assert rules is None
    (complaint,) = complaints
    assert complaint.severity == "error"
    assert complaint.loc == ("expected", 0, key)
    assert message in complaint.message


def test_another_kind_is_warned_of_and_checks_nothing() -> None:
    rules, (complaint,) = declared(path="a", kind="report")
    assert rules is None
    assert complaint.severity == "warning"


@pytest.mark.parametrize(
    "entry",
    [
        {
            "id": "a",
            "glob": "n/*.md",
            "min_count": 2,
            "max_count": 3,
            "mime_type": "text/plain",
            "fresh": True,
        },
        {"id": "a", "path": "r.json", "min_size": 5, "schema": {"type": "object"}},
        {"id": "a", "path": "r.json", "schema": False},
        {"id": "a", "kind": "outcome", "outcome_kind": "review_verdict", "passed": True},
        {"id": "a", "path": "v.json", "outcome_kind": "ci_result"},
    ],
)
def test_a_snapshot_says_the_same_again(entry: dict[str, JsonValue]) -> None:
    read = contract_from_json({"expected": [entry]}, "run.json")
    assert read.problems == ()
    assert isinstance(read.value, Contract)
    said = contract_to_json(read.value)
    assert contract_from_json(said, "run.json").value == read.value
    assert said == {"expected": [{"required": True, "description": "", "source": "playbook", **entry}]}


def test_what_stands_for_the_path_is_the_glob_or_the_outcome() -> None:
    complaints: list[Complaint] = []
    found = declared_artifacts(
        {
            "expected": [
                {"id": "a", "glob": "*.md"},
                {"id": "b", "kind": "outcome", "outcome_kind": "ci_result"},
            ]
        },
        (),
        complaints,
    )
    contract = resolve_contract(playbook=found, agent=None)
    assert contract is not None
    assert [entry.path for entry in contract.expected] == ["*.md", "outcome:ci_result"]
