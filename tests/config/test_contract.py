from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.contract import (
    MAX_DECLARED,
    Contract,
    ContractEntry,
    ExpectedArtifact,
    contract_from_json,
    contract_to_json,
    declared_artifacts,
    resolve_contract,
)
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
artifacts = st.builds(
    ExpectedArtifact,
    id=st.sampled_from(["a", "b", "c", "d-1", "e_2"]),
    path=st.sampled_from(["a.md", "b/c.txt", "d"]),
    required=st.booleans(),
    description=st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)
declarations = st.none() | st.lists(artifacts, max_size=5, unique_by=lambda artifact: artifact.id).map(tuple)


def resolve_as_the_adr_does(playbook: JsonValue, agent: JsonValue) -> JsonValue:
    """`resolve_artifact_contract` of ADR-0029, over plain dicts."""
    if not playbook and not agent:
        return None
    by_id: dict[JsonValue, JsonValue] = {}
    for source, block in (("agent_profile", agent), ("playbook", playbook)):
        specs = block.get("expected", []) if isinstance(block, dict) else []
        for spec in specs if isinstance(specs, list) else []:
            assert isinstance(spec, dict)
            by_id[spec["id"]] = {**spec, "source": source}
    return {"expected": list(by_id.values())}


def _spec(artifact: ExpectedArtifact) -> JsonValue:
    spec = dict(artifact._asdict())
    del spec["rules"]
    return spec


def block(declared: tuple[ExpectedArtifact, ...] | None) -> JsonValue:
    return None if declared is None else {"expected": [_spec(artifact) for artifact in declared]}


@given(declarations, declarations)
def test_contracts_resolve_as_the_adrs_own_code_does(
    playbook: tuple[ExpectedArtifact, ...] | None, agent: tuple[ExpectedArtifact, ...] | None
) -> None:
    contract = resolve_contract(playbook=playbook, agent=agent)
    expected = resolve_as_the_adr_does(block(playbook), block(agent))
    assert (None if contract is None else contract_to_json(contract)) == expected


def test_a_playbooks_entry_replaces_the_agents_whole_and_in_its_position() -> None:
    agent = (
        ExpectedArtifact("a", "old.md", required=False, description="old"),
        ExpectedArtifact("b", "b.md"),
    )
    playbook = (ExpectedArtifact("c", "c.md"), ExpectedArtifact("a", "new.md"))
    assert resolve_contract(playbook=playbook, agent=agent) == Contract(
        (
            ContractEntry("a", "new.md", True, "", "playbook"),
            ContractEntry("b", "b.md", True, "", "agent_profile"),
            ContractEntry("c", "c.md", True, "", "playbook"),
        )
    )


@pytest.mark.parametrize(
    ("playbook", "agent", "contract"),
    [(None, None, None), ((), None, Contract(())), (None, (), Contract(())), ((), (), Contract(()))],
)
def test_declaring_nothing_is_no_contract_and_an_empty_list_is_an_empty_one(
    playbook: tuple[ExpectedArtifact, ...] | None,
    agent: tuple[ExpectedArtifact, ...] | None,
    contract: Contract | None,
) -> None:
    assert resolve_contract(playbook=playbook, agent=agent) == contract


def test_the_largest_playbook_and_the_largest_profile_make_a_contract_that_can_be_read_back() -> None:
    def declared(letter: str, number: int) -> tuple[tuple[ExpectedArtifact, ...], list[str]]:
        complaints: list[Complaint] = []
        entries: list[JsonValue] = [{"id": f"{letter}{each}", "path": "a.md"} for each in range(number)]
        found = declared_artifacts({"expected": entries}, ("artifacts",), complaints)
        assert found is not None
        return found, [complaint.message for complaint in complaints]

    assert declared("a", MAX_DECLARED + 1) == ((), [f"has more than {MAX_DECLARED} entries"])
    (playbook, none), (agent, _) = declared("a", MAX_DECLARED), declared("b", MAX_DECLARED)
    assert none == []
    contract = resolve_contract(playbook=playbook, agent=agent)
    assert contract is not None
    assert len(contract.expected) == 2 * MAX_DECLARED
    assert contract_from_json(contract_to_json(contract), "run.json").value == contract


@given(declarations, declarations)
def test_a_snapshot_reads_back_as_it_was_written(
    playbook: tuple[ExpectedArtifact, ...] | None, agent: tuple[ExpectedArtifact, ...] | None
) -> None:
    contract = resolve_contract(playbook=playbook, agent=agent) or Contract(())
    parsed = contract_from_json(contract_to_json(contract), "run.json")
    assert (parsed.value, parsed.problems) == (contract, ())


def test_a_snapshot_written_by_hand_may_leave_out_what_has_a_default() -> None:
    parsed = contract_from_json({"expected": [{"id": "a", "path": "a.md"}]}, "run.json")
    assert parsed.value == Contract((ContractEntry("a", "a.md", True, "", "playbook"),))


def test_a_path_is_kept_as_it_was_written_and_its_plain_form_is_advised() -> None:
    parsed = contract_from_json({"expected": [{"id": "a", "path": "./x//a.md"}]}, "run.json")
    assert parsed.value is not None
    assert parsed.value.expected[0].path == "./x//a.md"
    assert [problem.render() for problem in parsed.problems] == [
        "run.json: warning: contract.expected[0].path: './x//a.md' is read as 'x/a.md' (write 'x/a.md')"
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "contract: must be an object, not nothing"),
        ([], "contract: must be an object, not a list"),
        ({}, "contract: has no 'expected'"),
        ({"note": []}, "contract: has no 'expected'"),
        ({"expect": []}, "contract: has no 'expected'"),
        ({"expected": None}, "contract.expected: must be a list, not nothing"),
        ({"expected": ["a"]}, "contract.expected[0]: must be a table of keys, not a text"),
        ({"expected": [{"id": "a", "path": "a"}] * 1001}, "contract.expected: has more than 1000 entries"),
        ({"expected": [{"path": "a"}]}, "contract.expected[0]: has no 'id'"),
        ({"expected": [{"id": "a"}]}, "contract.expected[0]: has no 'path'"),
        ({"expected": [{"id": "", "path": "a"}]}, "contract.expected[0].id: '' is not an id"),
        ({"expected": [{"id": "-_", "path": "a"}]}, "contract.expected[0].id: '-_' is not an id"),
        ({"expected": [{"id": "é", "path": "a"}]}, "contract.expected[0].id: 'é' is not an id"),
        ({"expected": [{"id": "a b", "path": "a"}]}, "contract.expected[0].id: 'a b' is not an id"),
        ({"expected": [{"id": "a\n", "path": "a"}]}, "contract.expected[0].id: 'a\\n' is not an id"),
        ({"expected": [{"id": "²", "path": "a"}]}, "contract.expected[0].id: '²' is not an id"),
        (
            {"expected": [{"id": "a" * 201, "path": "a"}]},
            "contract.expected[0].id: is longer than 200 characters",
        ),
        ({"expected": [{"id": 1, "path": "a"}]}, "contract.expected[0].id: must be a text, not a number"),
        ({"expected": [{"id": "a", "path": "/a"}]}, "contract.expected[0].path: '/a' is an absolute path"),
        ({"expected": [{"id": "a", "path": "../a"}]}, "contract.expected[0].path: '../a' has a '..' in it"),
        ({"expected": [{"id": "a", "path": "."}]}, "contract.expected[0].path: '.' is the directory itself"),
        (
            {"expected": [{"id": "a", "path": "a*"}]},
            "contract.expected[0].path: 'a*' has a glob character in it: *",
        ),
        (
            {"expected": [{"id": "a", "path": "a\0"}]},
            "contract.expected[0].path: 'a\\x00' has a NUL character in it",
        ),
        ({"expected": [{"id": "a", "path": None}]}, "contract.expected[0].path: must be a text, not nothing"),
        (
            {"expected": [{"id": "a", "path": "a", "required": "no"}]},
            "contract.expected[0].required: must be true or false, not a text",
        ),
        (
            {"expected": [{"id": "a", "path": "a", "required": 1}]},
            "contract.expected[0].required: must be true or false, not a number",
        ),
        (
            {"expected": [{"id": "a", "path": "a", "description": 1}]},
            "contract.expected[0].description: must be a text, not a number",
        ),
        (
            {"expected": [{"id": "a", "path": "a", "description": "\ud800"}]},
            "contract.expected[0].description: must be valid text of at most 4000 characters",
        ),
        (
            {"expected": [{"id": "a", "path": "a", "source": "me"}]},
            "contract.expected[0].source: 'me' is not a source",
        ),
        (
            {"expected": [{"id": "a", "path": "a"}, {"id": "a", "path": "b"}]},
            "contract.expected[1].id: 'a' is already the id of entry 0",
        ),
    ],
)
def test_a_hostile_snapshot_is_refused_with_the_reason_and_a_fix(value: JsonValue, message: str) -> None:
    parsed = contract_from_json(value, "run.json")
    assert parsed.value is None
    assert [problem.message for problem in parsed.errors] == [message]
    assert all(problem.fix and problem.file == "run.json" for problem in parsed.problems)


def test_unknown_keys_and_kinds_are_warned_of_and_stop_nothing() -> None:
    value: JsonValue = {"expected": [{"id": "a", "path": "a", "requird": True, "kind": "y"}], "kind": "x"}
    parsed = contract_from_json(value, "run.json")
    assert parsed.value == Contract((ContractEntry("a", "a", True, "", "playbook"),))
    assert [(problem.message, problem.fix) for problem in parsed.warnings] == [
        ("contract.kind: unknown key", "known here: expected, profile"),
        (
            "contract.expected[0].kind: 'y' is not a supported kind",
            "write 'outcome', or remove it: the entry is a file",
        ),
        ("contract.expected[0].requird: unknown key", "did you mean 'required'?"),
    ]


def test_all_complaints_come_at_once_and_never_without_end() -> None:
    spec: JsonValue = {"id": "a b", "path": "/x", "required": 3}
    parsed = contract_from_json({"expected": [spec] * 1000}, "run.json")
    assert 100 < len(parsed.problems) < 110
    extra: dict[str, JsonValue] = {f"key{number}": 1 for number in range(5000)}
    snapshots: list[JsonValue] = [
        {"expected": [{"id": "a", "path": "a", **extra}]},
        {"expected": [], **extra},
    ]
    for value in snapshots:
        parsed = contract_from_json(value, "run.json")
        assert parsed.value is not None
        assert len(parsed.problems) == 100


@given(json_values | st.fixed_dictionaries({"expected": json_values | st.lists(json_values, max_size=3)}))
def test_any_snapshot_is_a_contract_or_complaints(value: JsonValue) -> None:
    parsed = contract_from_json(value, "run.json")
    assert (parsed.value is None) == bool(parsed.errors)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"id": st.text(max_size=4), "path": st.text(max_size=6)},
            optional={"required": st.booleans(), "source": st.sampled_from(["playbook", "x"])},
        ),
        max_size=4,
    )
)
def test_an_accepted_snapshot_holds_only_safe_paths_and_ids_once(
    specs: list[Mapping[str, JsonValue]],
) -> None:
    parsed = contract_from_json({"expected": [dict(spec) for spec in specs]}, "run.json")
    entries = parsed.value.expected if parsed.value else ()
    assert len({entry.id for entry in entries}) == len(entries)
    assert not any(entry.path.startswith("/") or ".." in entry.path.split("/") for entry in entries)


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        (None, None),
        ({}, None),
        ({"expected": []}, ()),
        ({"profile": "x"}, ()),
        ({"expected": [{"id": "a", "path": "a"}]}, (ExpectedArtifact("a", "a"),)),
    ],
)
def test_an_empty_block_declares_nothing_and_any_other_its_list(
    value: JsonValue, declared: tuple[ExpectedArtifact, ...] | None
) -> None:
    complaints: list[Complaint] = []
    assert declared_artifacts(value, ("artifacts",), complaints) == declared
    assert not [complaint for complaint in complaints if complaint.severity == "error"]


def test_a_source_belongs_into_no_declaration() -> None:
    complaints: list[Complaint] = []
    declared_artifacts({"expected": [{"id": "a", "path": "a", "source": "x"}]}, ("artifacts",), complaints)
    assert [(complaint.loc, complaint.severity) for complaint in complaints] == [
        (("artifacts", "expected", 0, "source"), "warning")
    ]
