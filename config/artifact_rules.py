"""What a contract's entry may require of its artifact, beyond a file that is not empty.

`contract` imports this module only where an entry has one of these keys, so that others cost the launcher nothing.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

from runward.config.glob_rule import GlobError, check_path_glob
from runward.config.json_value import JsonValue, is_text
from runward.config.keys import Key, known_keys, read_keys, schemas, values_by_key
from runward.config.path_rule import MAX_PATH_BYTES, PathRuleError, relative_parts
from runward.config.problem import Complaint, Location, has_errors, quoted, wrong_kind
from runward.config.shape import Complain, size_of

CTCP: Final = "ctcp"


class ProfileEntry(NamedTuple):
    """A contract of the profile `ctcp`: its letter, its first file, and a description."""

    id: str
    path: str
    description: str


ENTRIES: Final = (
    ProfileEntry("A", "artifacts/guardrails.md", "guardrails"),
    ProfileEntry("B", "artifacts/file_request.json", "file request"),
    ProfileEntry("C", "artifacts/context_pack.json", "context pack"),
    ProfileEntry("D", "artifacts/find_result.json", "find result"),
    ProfileEntry("E", "artifacts/find_web.json", "web findings, which may be absent"),
    ProfileEntry("F", "artifacts/PLAN_draft.md", "draft and signed plan"),
    ProfileEntry("G", "reviews/review_contract.md", "the two reviews"),
    ProfileEntry("H", "artifacts/diff.patch", "patch"),
    ProfileEntry("I", "artifacts/verify_report.json", "verification report"),
    ProfileEntry("J", "events.jsonl", "events"),
)

BY_PATH: Final = {entry.path: entry for entry in ENTRIES}

OUTCOME: Final = "outcome"
"""The only `kind` that an entry may have. Without one it is a file."""

MAX_COUNT: Final = 1000
"""Files that one glob may find."""

MAX_SCHEMA: Final = 64 << 10
"""Bytes of a JSON Schema, in its file and in the snapshot."""

TEXT_TYPES: Final = ("application/json", "application/xml", "image/svg+xml")
"""Text types other than `text/…`."""

_FILE_KEYS: Final = ("min_size", "mime_type", "schema", "fresh")
_GLOB_KEYS: Final = ("min_count", "max_count")


class _InEntry:
    """Takes the complaints about one entry. The readers of its keys learn from it where the entry stands."""

    # Not a dataclass: importing those takes the launcher longer than all other modules that read a playbook, except yaml.
    def __init__(self, complaints: list[Complaint], is_snapshot: bool) -> None:
        self._complaints, self.is_snapshot = complaints, is_snapshot

    def __call__(self, complaint: Complaint) -> None:
        self._complaints.append(complaint)


def _is_outcome(value: JsonValue, loc: Location, complain: Complain) -> bool:
    if value is None or value == OUTCOME:
        return value is not None
    message = f"{quoted(value)} is not a supported kind"
    fix = "write 'outcome', or remove it: the entry is a file"
    complain(Complaint(loc, message, fix, "warning"))
    return False


def _text(value: JsonValue, loc: Location, complain: Complain) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and value and len(value) <= MAX_PATH_BYTES and is_text(value):
        return value
    complain(wrong_kind(loc, value, "a text", "put it in quotes"))
    return None


def _flag(value: JsonValue, loc: Location, complain: Complain) -> bool:
    if isinstance(value, bool):
        return value
    complain(wrong_kind(loc, value, "true or false", "write it without quotes"))
    return False


def _count(value: JsonValue, loc: Location, complain: Complain) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_COUNT):
        return value
    message = f"must be a whole number from 1 to {MAX_COUNT}"
    complain(Complaint(loc, message, "write how many files there must be"))
    return None


def _size(value: JsonValue, loc: Location, complain: Complain) -> int:
    if value is None:
        return 0
    size = size_of(value) if isinstance(value, str) else value
    if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 1 << 62:
        return size
    complain(Complaint(loc, f"{quoted(value)} is not a size", "write it with its unit, as in 2KB"))
    return 0


def _glob(value: JsonValue, loc: Location, complain: Complain) -> str | None:
    glob = _text(value, loc, complain)
    if glob is None:
        return None
    try:
        check_path_glob(glob)
    except GlobError as error:
        complain(error.complaint(loc, glob))
        return None
    if glob.startswith("/") or "\0" in glob or len(glob.encode()) > MAX_PATH_BYTES:
        fix = "write it relative to the run's artifacts"
        complain(Complaint(loc, f"{quoted(glob)} is not relative", fix))
        return None
    return glob


def _mime_type(value: JsonValue, loc: Location, complain: Complain) -> str | None:
    text = _text(value, loc, complain)
    if text is None:
        return None
    major, slash, minor = text.partition("/")
    if not (slash and major and minor) or text != text.lower():
        fix = "write it as in text/markdown or image/*"
        complain(Complaint(loc, f"{quoted(text)} is not a type", fix))
    elif major != "text" and minor != "*" and text not in TEXT_TYPES and text not in _told_by_content():
        complain(Complaint(loc, f"{quoted(text)} can't be detected from a file's content", "leave it out"))
    return text


def _told_by_content() -> frozenset[str]:
    import filetype

    return frozenset(each.mime for each in filetype.types)


def _schema(value: JsonValue, loc: Location, entry: _InEntry) -> str | None:
    """The schema itself as text in a snapshot; in a declaration the name of its file."""
    if not entry.is_snapshot:
        return _schema_file(value, loc, entry)
    if value is None:
        return None
    # One text for one schema, so that equal contracts have equal snapshots.
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    if isinstance(value, dict | bool) and len(text) <= MAX_SCHEMA:
        return text
    entry(Complaint(loc, "is not a JSON Schema of at most 64 KiB", "write an object, or true or false"))
    return None


def _schema_file(value: JsonValue, loc: Location, complain: Complain) -> str | None:
    file = _text(value, loc, complain)
    if file is None:
        return None
    try:
        relative_parts(file)
    except PathRuleError as error:
        complain(error.complaint(loc, file))
    return file


class ArtifactRules(NamedTuple):
    """The rules of one entry.

    It requires the file at the entry's path, `min_count` to `max_count` files that match `glob`, or, with `is_outcome`,
    an outcome. With a `profile` it is one of that profile's contracts. `schema` is a JSON Schema as text; `schema_file`
    is the file that a declaration names for it.
    """

    glob: Annotated[
        str | None,
        Key(
            {
                "type": "string",
                "maxLength": MAX_PATH_BYTES,
                "description": "Files below the run's artifacts that match, in place of a path.",
            },
            _glob,
        ),
    ] = None
    min_count: Annotated[
        int,
        Key(
            {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_COUNT,
                "default": 1,
                "description": "The minimum number of files that the glob must match.",
            },
            _count,
        ),
    ] = 1
    max_count: Annotated[
        int | None,
        Key(
            {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_COUNT,
                "description": "The maximum number of files that the glob may match.",
            },
            _count,
        ),
    ] = None
    is_outcome: Annotated[
        bool,
        Key(
            {"const": OUTCOME, "description": "An outcome of the session, in place of a path."},
            _is_outcome,
            name="kind",
            rank=-1,
        ),
    ] = False
    outcome_kind: Annotated[
        str | None,
        Key({"type": "string", "description": "The kind of the outcome, as in review_verdict."}, _text),
    ] = None
    passed: Annotated[
        bool, Key({"type": "boolean", "description": "Whether the outcome must have passed."}, _flag)
    ] = False
    min_size: Annotated[
        int,
        Key(
            {"type": ["string", "integer"], "description": "The minimum size of each file, as in 2KB."}, _size
        ),
    ] = 0
    mime_type: Annotated[
        str | None,
        Key(
            {
                "type": "string",
                "description": "The type of each file by its content, as in text/markdown or image/*.",
            },
            _mime_type,
        ),
    ] = None
    schema: Annotated[
        str | None,
        Key(
            {
                "type": "string",
                "description": "The JSON Schema that each file must match: a file next to this one.",
            },
            _schema,
        ),
    ] = None
    schema_file: str | None = None
    fresh: Annotated[
        bool,
        Key(
            {
                "type": "boolean",
                "description": "Whether each file must have been written after the session started.",
            },
            _flag,
        ),
    ] = False
    profile: str | None = None

    @property
    def path(self) -> str | None:
        """What is used as the path of an entry that has none."""
        if self.glob is not None:
            return self.glob
        return f"{OUTCOME}:{self.outcome_kind}" if self.is_outcome else None

    @property
    def reads_outcomes(self) -> bool:
        """Whether the entry can only be judged by the session's outcomes."""
        return self.outcome_kind is not None


RULE_SCHEMAS: Final = schemas(ArtifactRules)
RULE_KEYS: Final = known_keys(ArtifactRules)
"""The keys of an entry that require more than a file that is not empty."""


def read_rules(
    spec: Mapping[str, JsonValue], loc: Location, complaints: list[Complaint], *, is_snapshot: bool
) -> ArtifactRules | None:
    """The rules in an entry, None if it has none. Also None if one is wrong; the faults are added to `complaints`.

    A declaration names the file of its schema, a snapshot contains the schema itself.
    """
    before = len(complaints)
    read = read_keys(ArtifactRules, spec, loc, _InEntry(complaints, is_snapshot))
    if not is_snapshot:
        read["schema_file"] = read.pop("schema", None)
    profile = _profile(spec, loc, complaints.append) if is_snapshot else None
    rules = ArtifactRules(**read, profile=profile)
    _check_together(rules, spec, loc, complaints)
    # Keys that only repeat the defaults make no rules: the entry stays a plain file.
    return None if has_errors(complaints[before:]) or rules == ArtifactRules() else rules


def rules_to_json(rules: ArtifactRules) -> dict[str, JsonValue]:
    """The keys of a snapshot's entry that express these rules."""
    written = {key: value or None for key, value in values_by_key(ArtifactRules, rules).items()}
    written["kind"] = OUTCOME if rules.is_outcome else None
    if rules.glob is None:
        del written["min_count"]
    if rules.schema is not None:
        written["schema"] = json.loads(rules.schema)
    written["profile"] = rules.profile
    return {key: value for key, value in written.items() if value is not None}


def _profile(spec: Mapping[str, JsonValue], loc: Location, complain: Complain) -> str | None:
    value = spec.get("profile")
    if value is None:
        return None
    path = spec.get("path")
    entry = BY_PATH.get(path) if isinstance(path, str) else None
    if value != CTCP or entry is None or spec.get("id") != entry.id:
        fix = "leave it to 'profile' of the block"
        complain(Complaint((*loc, "profile"), f"{quoted(value)} has no such entry", fix))
        return None
    return CTCP


def _check_together(
    rules: ArtifactRules, spec: Mapping[str, JsonValue], loc: Location, complaints: list[Complaint]
) -> None:
    """Complain about keys that mean nothing in combination with the others."""

    def refuse(key: str, message: str, fix: str) -> None:
        complaints.append(Complaint((*loc, key), message, fix))

    one = [key for key, is_there in (
        ("path", "path" in spec), ("glob", rules.glob is not None), ("kind", rules.is_outcome)
    ) if is_there]  # fmt: skip
    if len(one) > 1:
        fix = "an entry has exactly one of path, glob and kind"
        refuse(one[1], f"can't be combined with '{one[0]}'", fix)
    for key in _GLOB_KEYS:
        if key in spec and "glob" not in spec:
            refuse(key, "counts the files of a glob", "add 'glob', or remove it")
    for key in _FILE_KEYS:
        if key in spec and rules.is_outcome:
            refuse(key, "is a rule for files", "remove it")
    if rules.is_outcome and rules.outcome_kind is None:
        refuse("kind", "does not say which outcome", "add 'outcome_kind', as in review_verdict")
    if rules.outcome_kind is not None and rules.glob is not None and not rules.is_outcome:
        refuse("outcome_kind", "is not a rule for globs", "give the entry a path, or kind: outcome")
    if rules.passed and rules.outcome_kind is None:
        refuse("passed", "applies only to outcomes", "add 'outcome_kind'")
    if rules.profile is not None and rules != ArtifactRules(profile=rules.profile):
        refuse("profile", "can't be combined with other rules", "remove them")
    if rules.max_count is not None and rules.max_count < rules.min_count:
        refuse("max_count", "is less than min_count", "raise it")
