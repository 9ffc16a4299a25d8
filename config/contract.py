"""The artifact contract (ADR-0029): what a run must leave behind, judged by the text alone.

It reads the declarations of playbooks and agent profiles, merges them, and turns contracts into their snapshot
and back. Whether an artifact is there is for `runward.handlers` to say. Plain Python on purpose: the launcher
imports this module within its start-up budget, and a snapshot in a run directory is read once for every run.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue, is_text
from runward.config.path_rule import MAX_PATH_BYTES, PATH_PATTERN, PathRuleError, relative_parts
from runward.config.problem import (
    MAX_PROBLEMS,
    Complaint,
    Location,
    Parsed,
    extra_key,
    has_errors,
    quoted,
    unknown_key,
    wrong_kind,
)

if TYPE_CHECKING:
    from runward.config.artifact_rules import ArtifactRules

Source: TypeAlias = Literal["playbook", "agent_profile", "role_default"]

SOURCES: Final[tuple[Source, ...]] = ("playbook", "agent_profile", "role_default")
MAX_ID = 200
MAX_DESCRIPTION = 4000
MAX_EXPECTED = 1000
MAX_DECLARED = MAX_EXPECTED // 2
"""The most entries in one declaration: a playbook's and an agent's make one contract."""

ID_PATTERN: Final = "^[-_]*[A-Za-z0-9][A-Za-z0-9_-]*$"

_NAMING: Final[Mapping[str, JsonValue]] = {
    "id": {
        "type": "string",
        "pattern": ID_PATTERN,
        "maxLength": MAX_ID,
        "description": "Names the artifact wherever it is spoken of; "
        "a playbook's entry replaces the agent's with the same id.",
    },
    "path": {
        "type": "string",
        "pattern": PATH_PATTERN,
        "maxLength": MAX_PATH_BYTES,
        "description": "The file, relative to the run's artifacts: no leading /, no .., no globs.",
    },
}
_DESCRIBING: Final[Mapping[str, JsonValue]] = {
    "required": {
        "type": "boolean",
        "default": True,
        "description": "Whether the run fails without it; a missing optional one is only a warning.",
    },
    "description": {
        "type": "string",
        "default": "",
        "maxLength": MAX_DESCRIPTION,
        "description": "What it is, for those who read the verdict.",
    },
}
_PLAIN_KEYS: Final = (*_NAMING, *_DESCRIBING)
"""The keys of an entry that `artifact_rules` doesn't read."""

_BLOCK_KEYS: Final = ("expected", "profile")
_SOURCE: Final = "source"


class ExpectedArtifact(NamedTuple):
    """One declared artifact. `path` is as it was written, relative to the run's artifacts directory.

    If `rules` ask for the files of a glob or for an outcome, `path` is the name shown for them.
    """

    id: str
    path: str
    required: bool = True
    description: str = ""
    rules: "ArtifactRules | None" = None


class ContractEntry(NamedTuple):
    """One artifact of a contract in force, and who declared it."""

    id: str
    path: str
    required: bool
    description: str
    source: Source
    rules: "ArtifactRules | None" = None


class Contract(NamedTuple):
    """What a run must leave behind. Nothing expected is not the same as no contract."""

    expected: tuple[ContractEntry, ...]


def declaration_schema() -> dict[str, JsonValue]:
    """What `declared_artifacts` accepts, as JSON Schema for editors."""
    from runward.config.artifact_rules import RULE_SCHEMAS

    artifact: JsonValue = {
        "type": "object",
        "required": ["id"],
        "oneOf": [{"required": ["path"]}, {"required": ["glob"]}, {"required": ["kind"]}],
        "properties": {**_NAMING, **RULE_SCHEMAS, **_DESCRIBING},
    }
    return {
        "type": ["object", "null"],
        "properties": {
            "profile": {
                "type": "string",
                "description": "ctcp: the ten CTCP contracts A to J, each an entry, in addition to those in 'expected'.",
            },
            "expected": {
                "type": "array",
                "maxItems": MAX_DECLARED,
                "description": "The artifacts, each a file. [] is a contract that expects nothing.",
                "items": artifact,
            },
        },
    }


def resolve_contract(
    *, playbook: tuple[ExpectedArtifact, ...] | None, agent: tuple[ExpectedArtifact, ...] | None
) -> Contract | None:
    """ADR-0029's `resolve_artifact_contract`: the union by id, the playbook's entry replacing the agent's whole.

    The agent's entries come first, and a replaced one keeps its position. None if neither side declares
    anything; a declaration that lists nothing gives a contract that expects nothing.
    """
    if playbook is None and agent is None:
        return None
    by_id = {artifact.id: _entry(artifact, "agent_profile") for artifact in agent or ()}
    # A key that is there keeps its position.
    by_id.update({artifact.id: _entry(artifact, "playbook") for artifact in playbook or ()})
    return Contract(tuple(by_id.values()))


def contract_to_json(contract: Contract) -> JsonValue:
    """The snapshot, as `run.json`, the store and `--json` hold it."""
    return {"expected": [entry_to_json(entry) for entry in contract.expected]}


def entry_to_json(entry: ContractEntry) -> JsonValue:
    """One entry of the snapshot."""
    plain: dict[str, JsonValue] = {
        "id": entry.id,
        "path": entry.path,
        "required": entry.required,
        "description": entry.description,
        "source": entry.source,
    }
    if entry.rules is None:
        return plain
    from runward.config.artifact_rules import rules_to_json

    if entry.rules.path is not None:
        del plain["path"]
    return {**plain, **rules_to_json(entry.rules)}


def contract_from_json(value: JsonValue, name: str) -> Parsed[Contract]:
    """The contract in a snapshot found in file `name` (a `run.json`); the snapshot may be hostile.

    An entry without a `source`, as in a `run.json` written by hand, counts as the playbook's.
    """
    complaints: list[Complaint] = []
    loc: Location = ("contract",)
    if not isinstance(value, dict):
        complaints.append(wrong_kind(loc, value, "an object", 'write {"expected": […]}'))
        value = {}
    entries: list[ContractEntry] = []
    for index, spec, artifact in _artifacts(value, loc, complaints, is_snapshot=True):
        source = _source(spec, (*loc, "expected", index, _SOURCE), complaints)
        if artifact is not None and source is not None:
            entries.append(_entry(artifact, source))
    if "expected" not in value and not has_errors(complaints):
        complaints.append(Complaint(loc, "has no 'expected'", "list the expected artifacts, or leave it out"))
    problems = tuple(complaint.problem(name) for complaint in complaints)
    return Parsed(None if has_errors(problems) else Contract(tuple(entries)), problems)


def declared_artifacts(
    value: JsonValue, loc: Location, complaints: list[Complaint]
) -> tuple[ExpectedArtifact, ...] | None:
    """What an `artifacts` or `artifact_defaults` block at `loc` declares. None if it declares nothing.

    Complaints are added to the given list; the result is valid if none of them is an error.
    """
    # As in ADR-0029: an empty block declares nothing. Any other declares its `expected`, even if that is only [].
    if value is None or value == {}:
        return None
    if not isinstance(value, dict):
        complaints.append(wrong_kind(loc, value, "a table of keys", "list the artifacts under 'expected'"))
        return None
    before = len(complaints)
    listed = _artifacts(value, loc, complaints, is_snapshot=False)
    artifacts = [artifact for _, _, artifact in listed if artifact is not None]
    if not any(key in value for key in _BLOCK_KEYS) and not has_errors(complaints[before:]):
        complaints.append(Complaint(loc, "has no 'expected'", "list the artifacts there; [] expects none"))
    return (*_of_profile(value.get("profile"), artifacts, loc, complaints), *artifacts)


def _of_profile(
    profile: JsonValue, listed: Sequence[ExpectedArtifact], loc: Location, complaints: list[Complaint]
) -> tuple[ExpectedArtifact, ...]:
    """The entries of a block's profile."""
    if profile is None:
        return ()
    from runward.config.artifact_rules import CTCP, ENTRIES, ArtifactRules

    if profile != CTCP:
        message = f"{quoted(profile)} is not a supported profile"
        complaints.append(Complaint((*loc, "profile"), message, f"write {CTCP!r}, or remove it", "warning"))
        return ()
    taken = {each.id for each in listed} & {entry.id for entry in ENTRIES}
    if taken:
        message = f"already has an entry {quoted(min(taken))}, which 'expected' has too"
        complaints.append(Complaint((*loc, "profile"), message, "give that artifact another id"))
    rules = ArtifactRules(profile=CTCP)
    return tuple(
        ExpectedArtifact(entry.id, entry.path, True, f"CTCP contract: {entry.description}", rules)
        for entry in ENTRIES
    )


def _artifacts(
    block: Mapping[str, JsonValue], loc: Location, complaints: list[Complaint], *, is_snapshot: bool
) -> Iterator[tuple[int, Mapping[str, JsonValue], ExpectedArtifact | None]]:
    """Each table in `expected` with its index and, unless something is wrong with it, its artifact."""
    _check_extra_keys(block, loc, _BLOCK_KEYS, complaints, is_snapshot=is_snapshot)
    expected = block.get("expected", [])
    loc = (*loc, "expected")
    most = MAX_EXPECTED if is_snapshot else MAX_DECLARED
    if not isinstance(expected, list):
        complaints.append(wrong_kind(loc, expected, "a list", "list the artifacts; [] expects none"))
        return
    if len(expected) > most:
        complaints.append(Complaint(loc, f"has more than {most} entries", "expect fewer artifacts"))
        return
    first_index: dict[str, int] = {}
    for index, spec in enumerate(expected):
        if len(complaints) > MAX_PROBLEMS and has_errors(complaints):
            return
        if not isinstance(spec, dict):
            complaints.append(wrong_kind((*loc, index), spec, "a table of keys", "write {id: …, path: …}"))
            continue
        identifier = spec.get("id")
        if isinstance(identifier, str) and first_index.setdefault(identifier, index) != index:
            message = f"{quoted(identifier)} is already the id of entry {first_index[identifier]}"
            complaints.append(Complaint((*loc, index, "id"), message, "give each artifact its own id"))
        yield index, spec, _artifact(spec, (*loc, index), complaints, is_snapshot=is_snapshot)


def _artifact(
    spec: Mapping[str, JsonValue], loc: Location, complaints: list[Complaint], *, is_snapshot: bool
) -> ExpectedArtifact | None:
    before = len(complaints)
    identifier = _text(spec, "id", loc, complaints)
    rules = _rules(spec, loc, complaints, is_snapshot=is_snapshot)
    path = rules.path if rules is not None else None
    if path is None and not has_errors(complaints[before:]):
        path = _text(spec, "path", loc, complaints)
        if path is not None:
            _check_path(path, (*loc, "path"), complaints)
    required, description = spec.get("required", True), spec.get("description", "")
    if identifier is not None:
        check_id(identifier, (*loc, "id"), complaints)
    if not isinstance(required, bool):
        complaints.append(
            wrong_kind((*loc, "required"), required, "true or false", "write it without quotes")
        )
    if not isinstance(description, str):
        complaints.append(wrong_kind((*loc, "description"), description, "a text", "put it in quotes"))
    elif len(description) > MAX_DESCRIPTION or not is_text(description):
        message = f"must be valid text of at most {MAX_DESCRIPTION} characters"
        complaints.append(Complaint((*loc, "description"), message, "shorten it"))
    if not _is_plain(spec, is_snapshot=is_snapshot):
        _check_extra_keys(spec, loc, _known_keys(is_snapshot), complaints, is_snapshot=is_snapshot)
    if identifier is None or path is None or has_errors(complaints[before:]):
        return None
    assert isinstance(required, bool)
    assert isinstance(description, str)
    return ExpectedArtifact(identifier, path, required, description, rules)


def _rules(
    spec: Mapping[str, JsonValue], loc: Location, complaints: list[Complaint], *, is_snapshot: bool
) -> "ArtifactRules | None":
    if _is_plain(spec, is_snapshot=is_snapshot):
        return None
    from runward.config.artifact_rules import read_rules

    return read_rules(spec, loc, complaints, is_snapshot=is_snapshot)


def _is_plain(spec: Mapping[str, JsonValue], *, is_snapshot: bool) -> bool:
    # Most contracts expect files and nothing else. Then `artifact_rules` is not imported: it would cost the launcher
    # more than this whole module.
    return all(key in _PLAIN_KEYS or (is_snapshot and key == _SOURCE) for key in spec)


def _known_keys(is_snapshot: bool) -> tuple[str, ...]:
    from runward.config.artifact_rules import RULE_KEYS

    return (*_PLAIN_KEYS, *RULE_KEYS, *((_SOURCE, "profile") if is_snapshot else ()))


def check_id(identifier: str, loc: Location, complaints: list[Complaint]) -> None:
    """Add a complaint if `identifier` is not an id."""
    plain = identifier.replace("-", "").replace("_", "")
    if not (plain.isascii() and plain.isalnum()):
        message = f"{quoted(identifier)} is not an id"
        complaints.append(
            Complaint(loc, message, "use ASCII letters, digits, '-' and '_', as in 'pr-review'")
        )
    elif len(identifier) > MAX_ID:
        complaints.append(Complaint(loc, f"is longer than {MAX_ID} characters", "shorten it"))


def _check_path(path: str, loc: Location, complaints: list[Complaint]) -> None:
    try:
        plain = "/".join(relative_parts(path))
    except PathRuleError as error:
        complaints.append(error.complaint(loc, path))
        return
    if plain != path:
        message = f"{quoted(path)} is read as {quoted(plain)}"
        complaints.append(Complaint(loc, message, f"write {quoted(plain)}", "warning"))


def _text(spec: Mapping[str, JsonValue], key: str, loc: Location, complaints: list[Complaint]) -> str | None:
    if key not in spec:
        complaints.append(Complaint(loc, f"has no '{key}'", f"add '{key}: …'"))
        return None
    value = spec[key]
    if isinstance(value, str):
        return value
    complaints.append(wrong_kind((*loc, key), value, "a text", "put it in quotes"))
    return None


def _source(spec: Mapping[str, JsonValue], loc: Location, complaints: list[Complaint]) -> Source | None:
    value = spec.get(_SOURCE, "playbook")
    for source in SOURCES:
        if value == source:
            return source
    message = f"{quoted(value)} is not a source"
    complaints.append(Complaint(loc, message, f"one of {', '.join(SOURCES)}"))
    return None


def _entry(artifact: ExpectedArtifact, source: Source) -> ContractEntry:
    return ContractEntry(
        id=artifact.id,
        path=artifact.path,
        required=artifact.required,
        description=artifact.description,
        source=source,
        rules=artifact.rules,
    )


def _check_extra_keys(
    table: Mapping[str, JsonValue],
    loc: Location,
    known: tuple[str, ...],
    complaints: list[Complaint],
    *,
    is_snapshot: bool,
) -> None:
    for key in table:
        if key in known or len(complaints) >= MAX_PROBLEMS:
            continue
        # A typo is an error where people declare. In a snapshot it is not: the rest of the contract is valid.
        complaints.append(
            unknown_key((*loc, key), known, "warning") if is_snapshot else extra_key((*loc, key), known)
        )
