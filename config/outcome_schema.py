"""What an outcome may look like, as JSON Schema for those who write them. The module `outcome` decides."""

from collections.abc import Mapping
from typing import Final

from runward.config.json_value import JsonValue
from runward.config.outcome import KINDS, kinds

_MEANINGS: Final = {
    "outcome_kind": "Which kind of outcome this is, as in review_verdict; an unknown kind is kept as it is.",
    "summary": "What was found, in a sentence.",
    "passed": "Whether it passed; null if nothing was decided.",
    "name": "Its name among the session's outcomes. Default: the file's name. Of a part: the part's name.",
    "file_path": "A file with content that is too large for the outcome, relative to the session's artifacts.",
    "verdict": "What the review decided.",
    "findings": "What was found, one by one.",
    "finding_count": "How many findings there are, where only some are listed.",
    "round": "Which round of the review this is, from 1.",
    "severity": "How severe it is.",
    "category": "What sort of finding it is.",
    "description": "What it is, in words.",
    "file": "The file that it is about, relative to the directory.",
    "line": "The line in the file, from 1.",
    "suggestion": "What to do about it.",
    "title": "A short title.",
    "evidence": "What shows it.",
    "required": "Whether it must be fixed.",
    "gate_passed": "Whether the gate opens; passed follows from it.",
    "feedback": "What to do better.",
    "notes": "What else is worth knowing.",
    "criteria": "What was looked at, each with its result.",
    "blocking_reason": "Why the gate stays shut.",
    "next_action": "What to do next.",
    "lint_passed": "Whether linters passed; null: not run.",
    "tests_passed": "Whether tests passed; null: not run.",
    "build_passed": "Whether the build passed; null: not run.",
    "typecheck_passed": "Whether type checks passed; null: not run.",
    "test_count": "How many tests ran.",
    "failure_summary": "What failed, in a sentence.",
    "checks": "What was checked, each with its result.",
    "commands": "What was run.",
    "count": "How many of them passed.",
    "total": "How many there are.",
    "command": "The command.",
    "exit_code": "What it exited with.",
    "duration_s": "How long it took, in seconds.",
    "tool": "The tool that found it.",
    "errors": "How many errors there are.",
    "warnings": "How many warnings there are.",
    "failed_count": "How many tests failed.",
    "skipped_count": "How many tests were skipped.",
    "failures": "The tests that failed.",
    "message": "What it said.",
    "question": "What was asked.",
    "sources": "Where it comes from.",
    "confidence": "How certain this is.",
    "affected": "What is affected.",
    "breaking": "Whether it breaks anything.",
    "path": "The path, relative to the directory.",
    "risk": "How risky it is.",
    "topic": "What the show is about.",
    "plays": "The plays of the show.",
    "depends_on": "The names of the plays that it depends on.",
    "steps": "The steps of the flow.",
    "should_continue": "Whether the flow continues.",
    "reason": "Why.",
    "next_steps": "What comes next.",
}
"""What each field of our own kinds means, wherever it occurs."""


def outcome_schema() -> dict[str, JsonValue]:
    """The schema of all registered kinds, including those that others registered."""
    definitions: dict[str, JsonValue] = {}
    chosen: list[JsonValue] = []
    for kind, model in kinds().items():
        shape = model.model_json_schema(ref_template="#/$defs/{model}")
        inner = shape.pop("$defs", {})
        definitions |= {name: _described(each, is_ours=kind in KINDS) for name, each in inner.items()}
        definitions[kind] = _described(shape, is_ours=kind in KINDS)
        named: JsonValue = {"const": kind, "description": f"Has the fields of a {kind}."}
        is_it: JsonValue = {"properties": {"outcome_kind": named}, "required": ["outcome_kind"]}
        chosen.append({"if": is_it, "then": {"$ref": f"#/$defs/{kind}"}})
    common: dict[str, JsonValue] = {
        "outcome_kind": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$"},
        "summary": {"type": "string"},
        "passed": {"type": ["boolean", "null"]},
        "name": {"type": ["string", "null"]},
        "file_path": {"type": ["string", "null"]},
    }
    described = _described({"properties": common}, is_ours=True)
    return {
        "title": "Runward outcome",
        "type": "object",
        "required": ["outcome_kind", "summary"],
        **described,
        "allOf": chosen,
        "$defs": definitions,
    }


def _described(shape: Mapping[str, JsonValue], *, is_ours: bool) -> dict[str, JsonValue]:
    """The shape of a kind, or of a part of one, with what each of its fields means."""
    properties = shape.get("properties")
    if not is_ours or not isinstance(properties, dict):
        return dict(shape)
    found: dict[str, JsonValue] = {}
    for name, each in properties.items():
        found[name] = {**each, "description": _MEANINGS[name]} if isinstance(each, dict) else each
    return {**shape, "properties": found}
