"""Random declarations over random trees: merged, read and verified as ADR-0029's own reference does it."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.daemon.rundir.reference_verifier import Entry, Result, resolve, verify

from runward.config.contract import Contract, ExpectedArtifact, declared_artifacts, resolve_contract
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, has_errors
from runward.daemon.rundir.artifacts import artifact_facts
from runward.handlers.contracts import verify as verifying
from runward.handlers.contracts.snapshots import snapshot_of, stored_contract
from runward.handlers.model.files import RootFacts

IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

# Few names, so that declarations and links often meet what is there.
paths = st.sampled_from(["a", "b", "c", "a/a", "a/b", "b/a", "b/b", "a/b/a"])
declared_paths = paths | st.builds(
    lambda path, how: how.format(path), paths, st.sampled_from(["./{}", "{}/", "a/./{}", "b//{}"])
)
# Links that leave the root and come back are left out: Runward never follows one that leaves, the reference does.
targets = st.sampled_from(
    ["a", "b", "c", "a/b", "b/a", "./c", "../a", "../b", "../c", "../../b", "../../../a", "../../../../outside",
     "/etc/hostname", "/", ".", "..", "../outside", "missing",
     "INSIDE/a", "INSIDE/b", "INSIDE/c", "INSIDE/a/b", "INSIDE", "INSIDE-not/a"]
)  # fmt: skip
nodes = st.lists(
    st.one_of(
        st.tuples(st.just("file"), paths, st.sampled_from(["", "x", "work", "work"])),
        st.tuples(st.just("link"), paths, targets),
        st.tuples(st.just("directory"), paths, st.just("")),
        st.tuples(st.just("fifo"), paths, st.just("")),
    ),
    min_size=2,
    max_size=10,
)
entries = st.fixed_dictionaries(
    {"id": st.sampled_from(["one", "two", "three", "4-four", "_5"]), "path": declared_paths},
    optional={
        "required": st.booleans(),
        "description": st.sampled_from(["", "Ä 😀\n"]),
        "kind": st.just("report"),
    },
)
declarations = st.none() | st.lists(entries, max_size=4, unique_by=lambda entry: entry["id"])


def grow(base: Path, tree: list[tuple[str, str, str]]) -> str:
    """A run's artifacts as the nodes say; what can't be made where something else stands is left out."""
    top = base / "run" / "artifacts"
    top.mkdir(parents=True)
    (base / "run" / "outside").write_text("not delivered")
    (base / "outside").write_text("not delivered")
    for kind, path, what in tree:
        place = top / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.parent.resolve().is_relative_to(top):
                continue
            match kind:
                case "file":
                    place.write_text(what) if not place.is_symlink() and not place.exists() else None
                case "link":
                    place.symlink_to(what.replace("INSIDE", str(top)))
                case "directory":
                    place.mkdir()
                case _:
                    os.mkfifo(place)
        except OSError:
            continue
    return str(top)


def ours(contract: Contract, root: str, run: str) -> Result:
    facts = artifact_facts(root, run, tuple(entry.path for entry in contract.expected))
    assert isinstance(facts, RootFacts)
    found = verifying.verify(contract, facts, 1.0)
    said = json.loads(verifying.dump_verification(found))
    return Result(
        status=said["status"],
        missing_required=[entry["id"] for entry in said["missing_required"]],
        missing_optional=[entry["id"] for entry in said["missing_optional"]],
        produced=[(each["id"], each["path"], each["size"]) for each in said["produced"]],
        delivery=found.delivery,
    )


def artifacts(declared: list[Entry] | None) -> tuple[ExpectedArtifact, ...] | None:
    """The declaration as playbooks and profiles are read."""
    if declared is None:
        return None
    complaints: list[Complaint] = []
    block: JsonValue = json.loads(json.dumps({"expected": declared}))
    found = declared_artifacts(block, (), complaints)
    assert not has_errors(complaints)
    return found


def snapshotted(contract: Contract) -> Contract:
    """The contract as it comes back from the store."""
    text = snapshot_of(contract).text
    assert text is not None
    return stored_contract(text)


def check(
    playbook: list[Entry] | None, agent: list[Entry] | None, tree: list[tuple[str, str, str]] | None
) -> None:
    contract, expected = (
        resolve_contract(playbook=artifacts(playbook), agent=artifacts(agent)),
        resolve(playbook, agent),
    )
    assert (contract is None) == (expected is None)
    if contract is None or expected is None:
        return
    assert snapshotted(contract) == contract
    assert [(entry.id, entry.path, entry.required, entry.source) for entry in contract.expected] == [
        (entry["id"], entry["path"], entry.get("required", True), entry["source"]) for entry in expected
    ]
    with TemporaryDirectory(dir=IN_MEMORY) as directory:
        base = Path(directory).resolve()
        (base / "run").mkdir()
        root = str(base / "run" / "artifacts")
        if tree is not None:
            (base / "run").rmdir()
            root = grow(base, tree)
        assert ours(contract, root, str(base / "run")) == verify(expected, root)


trees = st.none() | nodes | nodes | nodes


@settings(max_examples=300)
@given(declarations, declarations, trees)
def test_declarations_are_merged_and_verified_as_the_reference_does(
    playbook: list[Entry] | None, agent: list[Entry] | None, tree: list[tuple[str, str, str]] | None
) -> None:
    check(playbook, agent, tree)


@pytest.mark.sweep
@pytest.mark.timeout(900)
@settings(max_examples=10_000)
@given(declarations, declarations, trees)
def test_declarations_are_merged_and_verified_as_the_reference_does_in_ten_thousand_cases(
    playbook: list[Entry] | None, agent: list[Entry] | None, tree: list[tuple[str, str, str]] | None
) -> None:
    check(playbook, agent, tree)
