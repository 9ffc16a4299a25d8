"""What a contract's entry may require of its artifact, beyond a file that is not empty.

`contract` imports this module only where an entry has one of these keys, so that others cost the launcher nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.config.ctcp_profile import BY_PATH, CTCP
from runward.config.glob_rule import GlobError, check_path_glob
from runward.config.json_value import JsonValue, is_text
from runward.config.path_rule import MAX_PATH_BYTES, PathRuleError, relative_parts
from runward.config.problem import Complaint, Location, has_errors, kind, quoted
from runward.config.shape import size_of

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


class ArtifactRules(NamedTuple):
    """The rules of one entry.

    It requires the file at the entry's path, `min_count` to `max_count` files that match `glob`, or, with `is_outcome`,
    an outcome. With a `profile` it is one of that profile's contracts. `schema` is a JSON Schema as text; `schema_file`
    is the file that a declaration names for it.
    """

    glob: str | None = None
    min_count: int = 1
    max_count: int | None = None
    is_outcome: bool = False
    outcome_kind: str | None = None
    passed: bool = False
    min_size: int = 0
    mime_type: str | None = None
    schema: str | None = None
    schema_file: str | None = None
    fresh: bool = False
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


def read_rules(
    spec: Mapping[str, JsonValue], loc: Location, complaints: list[Complaint], *, is_snapshot: bool
) -> ArtifactRules | None:
    """The rules in an entry, None if it has none. Also None if one is wrong; the faults are added to `complaints`.

    A declaration names the file of its schema, a snapshot contains the schema itself.
    """
    reader = _Reader(spec, loc, complaints)
    before = len(complaints)
    is_outcome = reader.is_outcome()
    rules = ArtifactRules(
        glob=reader.glob(),
        min_count=reader.count("min_count", 1) or 1,
        max_count=reader.count("max_count", None),
        is_outcome=is_outcome,
        outcome_kind=reader.text("outcome_kind"),
        passed=reader.flag("passed"),
        min_size=reader.size(),
        mime_type=reader.mime_type(),
        schema=reader.schema() if is_snapshot else None,
        schema_file=None if is_snapshot else reader.schema_file(),
        fresh=reader.flag("fresh"),
        profile=reader.profile() if is_snapshot else None,
    )
    reader.check_together(rules)
    return None if has_errors(complaints[before:]) or rules == ArtifactRules() else rules


def rules_to_json(rules: ArtifactRules) -> dict[str, JsonValue]:
    """The keys of a snapshot's entry that express these rules."""
    said: dict[str, JsonValue] = {
        "kind": OUTCOME if rules.is_outcome else None,
        "glob": rules.glob,
        "min_count": rules.min_count if rules.glob is not None else None,
        "max_count": rules.max_count,
        "outcome_kind": rules.outcome_kind,
        "passed": rules.passed or None,
        "min_size": rules.min_size or None,
        "mime_type": rules.mime_type,
        "schema": None if rules.schema is None else json.loads(rules.schema),
        "fresh": rules.fresh or None,
        "profile": rules.profile,
    }
    return {key: value for key, value in said.items() if value is not None}


@dataclass(frozen=True, slots=True)
class _Reader:
    spec: Mapping[str, JsonValue]
    loc: Location
    complaints: list[Complaint]

    def refuse(self, key: str, message: str, fix: str) -> None:
        self.complaints.append(Complaint((*self.loc, key), message, fix))

    def is_outcome(self) -> bool:
        found = self.spec.get("kind")
        if found is None or found == OUTCOME:
            return found is not None
        message = f"{quoted(found)} is not a supported kind"
        fix = "write 'outcome', or remove it: the entry is a file"
        self.complaints.append(Complaint((*self.loc, "kind"), message, fix, "warning"))
        return False

    def text(self, key: str) -> str | None:
        found = self.spec.get(key)
        if found is None:
            return None
        if isinstance(found, str) and found and len(found) <= MAX_PATH_BYTES and is_text(found):
            return found
        self.refuse(key, f"must be a text, not {kind(found)}", "put it in quotes")
        return None

    def flag(self, key: str) -> bool:
        found = self.spec.get(key, False)
        if isinstance(found, bool):
            return found
        self.refuse(key, f"must be true or false, not {kind(found)}", "write it without quotes")
        return False

    def profile(self) -> str | None:
        found = self.spec.get("profile")
        if found is None:
            return None
        path = self.spec.get("path")
        entry = BY_PATH.get(path) if isinstance(path, str) else None
        if found != CTCP or entry is None or self.spec.get("id") != entry.id:
            self.refuse("profile", f"{quoted(found)} has no such entry", "leave it to 'profile' of the block")
            return None
        return CTCP

    def count(self, key: str, default: int | None) -> int | None:
        found = self.spec.get(key, default)
        if found is None or (
            isinstance(found, int) and not isinstance(found, bool) and 1 <= found <= MAX_COUNT
        ):
            return found
        self.refuse(
            key, f"must be a whole number from 1 to {MAX_COUNT}", "write how many files there must be"
        )
        return None

    def size(self) -> int:
        found = self.spec.get("min_size")
        if found is None:
            return 0
        size = size_of(found) if isinstance(found, str) else found
        if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 1 << 62:
            return size
        self.refuse("min_size", f"{quoted(found)} is not a size", "write it with its unit, as in 2KB")
        return 0

    def glob(self) -> str | None:
        found = self.text("glob")
        if found is None:
            return None
        try:
            check_path_glob(found)
        except GlobError as error:
            self.refuse("glob", f"{quoted(found)} {error}", error.fix)
            return None
        if found.startswith("/") or "\0" in found or len(found.encode()) > MAX_PATH_BYTES:
            self.refuse(
                "glob", f"{quoted(found)} is not relative", "write it relative to the run's artifacts"
            )
            return None
        return found

    def mime_type(self) -> str | None:
        found = self.text("mime_type")
        if found is None:
            return None
        major, slash, minor = found.partition("/")
        if not (slash and major and minor) or found != found.lower():
            self.refuse(
                "mime_type", f"{quoted(found)} is not a type", "write it as in text/markdown or image/*"
            )
        elif major != "text" and minor != "*" and found not in TEXT_TYPES and found not in _told_by_content():
            self.refuse(
                "mime_type", f"{quoted(found)} can't be detected from a file's content", "leave it out"
            )
        return found

    def schema(self) -> str | None:
        found = self.spec.get("schema")
        if found is None:
            return None
        text = json.dumps(found, sort_keys=True, separators=(",", ":"))
        if isinstance(found, dict | bool) and len(text) <= MAX_SCHEMA:
            return text
        self.refuse("schema", "is not a JSON Schema of at most 64 KiB", "write an object, or true or false")
        return None

    def schema_file(self) -> str | None:
        found = self.text("schema")
        if found is None:
            return None
        try:
            relative_parts(found)
        except PathRuleError as error:
            self.refuse("schema", f"{quoted(found)} {error}", error.fix)
        return found

    def check_together(self, rules: ArtifactRules) -> None:
        """Complain about keys that mean nothing in combination with the others."""
        one = [key for key, is_there in (
            ("path", "path" in self.spec), ("glob", rules.glob is not None), ("kind", rules.is_outcome)
        ) if is_there]  # fmt: skip
        if len(one) > 1:
            self.refuse(
                one[1],
                f"can't be combined with '{one[0]}'",
                "an entry has exactly one of path, glob and kind",
            )
        for key in _GLOB_KEYS:
            if key in self.spec and "glob" not in self.spec:
                self.refuse(key, "counts the files of a glob", "add 'glob', or remove it")
        for key in _FILE_KEYS:
            if key in self.spec and rules.is_outcome:
                self.refuse(key, "is a rule for files", "remove it")
        if rules.is_outcome and rules.outcome_kind is None:
            self.refuse("kind", "does not say which outcome", "add 'outcome_kind', as in review_verdict")
        if rules.outcome_kind is not None and rules.glob is not None and not rules.is_outcome:
            self.refuse("outcome_kind", "is not a rule for globs", "give the entry a path, or kind: outcome")
        if rules.passed and rules.outcome_kind is None:
            self.refuse("passed", "applies only to outcomes", "add 'outcome_kind'")
        if rules.profile is not None and rules != ArtifactRules(profile=rules.profile):
            self.refuse("profile", "can't be combined with other rules", "remove them")
        if rules.max_count is not None and rules.max_count < rules.min_count:
            self.refuse("max_count", "is less than min_count", "raise it")


def _told_by_content() -> frozenset[str]:
    import filetype

    return frozenset(each.mime for each in filetype.types)
