"""The profile `ctcp` of an artifacts block, and of a contract's snapshot."""

import pytest

from runward.config.contract import (
    contract_from_json,
    contract_to_json,
    declared_artifacts,
    resolve_contract,
)
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint


def test_the_profile_becomes_ten_entries_before_those_that_are_listed_and_is_kept_in_the_snapshot() -> None:
    complaints: list[Complaint] = []
    block: JsonValue = {"profile": "ctcp", "expected": [{"id": "trace", "path": "TRACE.md"}]}
    declared = declared_artifacts(block, ("artifacts",), complaints)
    assert complaints == []
    contract = resolve_contract(playbook=declared, agent=None)
    assert contract is not None
    assert [entry.id for entry in contract.expected] == [*"ABCDEFGHIJ", "trace"]
    assert contract_from_json(contract_to_json(contract), "run.json").value == contract


@pytest.mark.parametrize(
    ("block", "severity"),
    [
        ({"profile": "other"}, "warning"),
        ({"profile": "ctcp", "expected": [{"id": "A", "path": "a"}]}, "error"),
    ],
)
def test_another_profile_is_warned_of_and_an_id_of_the_profile_is_taken(
    block: JsonValue, severity: str
) -> None:
    complaints: list[Complaint] = []
    declared_artifacts(block, ("artifacts",), complaints)
    assert [(each.loc, each.severity) for each in complaints] == [(("artifacts", "profile"), severity)]


@pytest.mark.parametrize(
    "entry",
    [
        {"id": "A", "path": "artifacts/PLAN.md", "profile": "ctcp"},
        {"id": "B", "path": "artifacts/guardrails.md", "profile": "ctcp"},
        {"id": "A", "path": "artifacts/guardrails.md", "profile": "other"},
        {"id": "A", "path": "artifacts/guardrails.md", "profile": 7},
        {"id": "A", "path": "artifacts/guardrails.md", "profile": "ctcp", "min_size": 9},
    ],
)
def test_a_hostile_snapshot_can_not_change_what_the_profile_means(entry: JsonValue) -> None:
    assert contract_from_json({"expected": [entry]}, "run.json").value is None
