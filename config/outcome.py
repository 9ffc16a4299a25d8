"""Typed outcomes: what a session found out, in a form that the next step can use.

Fields that a kind does not name are kept. An unknown kind is kept as it is. Others add kinds with the entry point
`runward.outcomes`: its name is the kind, and it refers to a subclass of `Outcome`.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from runward.config.path_rule import PathRuleError, relative_parts

ENTRY_POINT: Final = "runward.outcomes"
MOST_PROBLEMS: Final = 20
_KIND: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


def _relative(path: str) -> str:
    if not path or path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise ValueError("is not a relative path inside the directory")
    return path


def _below_the_artifacts(path: str) -> str:
    try:
        relative_parts(path)
    except PathRuleError as error:
        raise ValueError(str(error)) from None
    return path


def _verdict_word(value: object) -> object:
    return re.sub(r"[ -]+", "_", value.strip()).upper() if isinstance(value, str) else value


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


Count: TypeAlias = Annotated[int, Field(ge=0)]
Line: TypeAlias = Annotated[int, Field(ge=1)]
File: TypeAlias = Annotated[str, AfterValidator(_relative)]
Seconds: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Severity: TypeAlias = Annotated[Literal["critical", "high", "medium", "low", "info"], BeforeValidator(_lower)]
Verdict: TypeAlias = Annotated[
    Literal["APPROVE", "APPROVE_WITH_SUGGESTIONS", "REQUEST_CHANGES", "REJECT"],
    BeforeValidator(_verdict_word),
]


# What fields mean that several kinds or parts have.
_PASSED: Final = "Whether it passed; null if nothing was decided."
_NAME: Final = "Its name among the session's outcomes. Default: the file's name. Of a part: the part's name."
_FINDINGS: Final = "What was found, one by one."
_FINDING_COUNT: Final = "How many findings there are, where only some are listed."
_DESCRIPTION: Final = "What it is, in words."
_FILE: Final = "The file that it is about, relative to the directory."
_LINE: Final = "The line in the file, from 1."
_TEST_COUNT: Final = "How many tests ran."
_FAILURE_SUMMARY: Final = "What failed, in a sentence."
_DURATION_S: Final = "How long it took, in seconds."


class _Part(BaseModel):
    """Something inside an outcome."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, defer_build=True)


class Outcome(_Part):
    """What all outcomes have. `passed` is None if nothing was decided.

    `file_path` names a file, below the session's artifacts, with content that is too large for the outcome.
    """

    outcome_kind: str = Field(
        description="Which kind of outcome this is, as in review_verdict; an unknown kind is kept as it is."
    )
    summary: str = Field(description="What was found, in a sentence.")
    passed: bool | None = Field(None, description=_PASSED)
    name: str | None = Field(None, description=_NAME)
    file_path: Annotated[str, AfterValidator(_below_the_artifacts)] | None = Field(
        None,
        description="A file with content that is too large for the outcome, relative to the session's artifacts.",
    )


class Finding(_Part):
    """One thing that a review found."""

    severity: Severity = Field(description="How severe it is.")
    category: str = Field(description="What sort of finding it is.")
    description: str = Field(description=_DESCRIPTION)
    file: File | None = Field(None, description=_FILE)
    line: Line | None = Field(None, description=_LINE)
    suggestion: str | None = Field(None, description="What to do about it.")
    title: str | None = Field(None, description="A short title.")
    evidence: str | None = Field(None, description="What shows it.")
    required: bool | None = Field(None, description="Whether it must be fixed.")


class ReviewVerdict(Outcome):
    """What a review decided. Whether it `passed` is independent of the verdict."""

    verdict: Verdict = Field(description="What the review decided.")
    findings: list[Finding] = Field([], description=_FINDINGS)
    finding_count: Count | None = Field(None, description=_FINDING_COUNT)
    round: Line = Field(1, description="Which round of the review this is, from 1.")


class Criterion(_Part):
    name: str = Field(description=_NAME)
    passed: bool | None = Field(None, description=_PASSED)


class GateVerdict(Outcome):
    """Whether a gate opens. `passed` follows from `gate_passed`, and never contradicts it."""

    gate_passed: bool = Field(description="Whether the gate opens; passed follows from it.")
    feedback: str | None = Field(None, description="What to do better.")
    notes: str | None = Field(None, description="What else is worth knowing.")
    criteria: list[Criterion] = Field([], description="What was looked at, each with its result.")
    blocking_reason: str | None = Field(None, description="Why the gate stays shut.")
    next_action: str | None = Field(None, description="What to do next.")

    @model_validator(mode="after")
    def _agree(self) -> "GateVerdict":
        if self.passed is not None and self.passed != self.gate_passed:
            raise ValueError("passed contradicts gate_passed")
        self.passed = self.gate_passed
        return self


class Check(_Part):
    name: str = Field(description=_NAME)
    passed: bool | None = Field(None, description=_PASSED)
    count: Count | None = Field(None, description="How many of them passed.")
    total: Count | None = Field(None, description="How many there are.")


class RanCommand(_Part):
    command: str = Field(description="The command.")
    exit_code: int | None = Field(None, description="What it exited with.")
    duration_s: Seconds | None = Field(None, description=_DURATION_S)


class CiResult(Outcome):
    """What a build found. None means that this was not run."""

    lint_passed: bool | None = Field(None, description="Whether linters passed; null: not run.")
    tests_passed: bool | None = Field(None, description="Whether tests passed; null: not run.")
    build_passed: bool | None = Field(None, description="Whether the build passed; null: not run.")
    typecheck_passed: bool | None = Field(None, description="Whether type checks passed; null: not run.")
    test_count: Count | None = Field(None, description=_TEST_COUNT)
    failure_summary: str | None = Field(None, description=_FAILURE_SUMMARY)
    checks: list[Check] = Field([], description="What was checked, each with its result.")
    commands: list[RanCommand] = Field([], description="What was run.")


class LintResult(Outcome):
    tool: str | None = Field(None, description="The tool that found it.")
    errors: Count | None = Field(None, description="How many errors there are.")
    warnings: Count | None = Field(None, description="How many warnings there are.")
    findings: list[Finding] = Field([], description=_FINDINGS)
    finding_count: Count | None = Field(None, description=_FINDING_COUNT)


class Failure(_Part):
    name: str = Field(description=_NAME)
    message: str | None = Field(None, description="What it said.")
    file: str | None = Field(None, description=_FILE)
    line: Line | None = Field(None, description=_LINE)


class TestResult(Outcome):
    __test__ = False
    test_count: Count | None = Field(None, description=_TEST_COUNT)
    failed_count: Count | None = Field(None, description="How many tests failed.")
    skipped_count: Count | None = Field(None, description="How many tests were skipped.")
    duration_s: Seconds | None = Field(None, description=_DURATION_S)
    failure_summary: str | None = Field(None, description=_FAILURE_SUMMARY)
    failures: list[Failure] = Field([], description="The tests that failed.")


class ResearchAnalysis(Outcome):
    question: str | None = Field(None, description="What was asked.")
    findings: list[str] = Field([], description=_FINDINGS)
    sources: list[str] = Field([], description="Where it comes from.")
    confidence: str | float | None = Field(None, description="How certain this is.")


class Affected(_Part):
    path: File = Field(description="The path, relative to the directory.")
    risk: str | None = Field(None, description="How risky it is.")
    description: str | None = Field(None, description=_DESCRIPTION)


class ImpactReport(Outcome):
    affected: list[Affected] = Field([], description="What is affected.")
    breaking: bool | None = Field(None, description="Whether it breaks anything.")


class PlannedPlay(_Part):
    name: str = Field(description=_NAME)
    depends_on: list[str] = Field([], description="The names of the plays that it depends on.")


class ShowPlan(Outcome):
    topic: str | None = Field(None, description="What the show is about.")
    plays: list[PlannedPlay] = Field([], description="The plays of the show.")


class FlowPlan(Outcome):
    steps: list[JsonValue] = Field([], description="The steps of the flow.")
    should_continue: bool | None = Field(None, description="Whether the flow continues.")
    reason: str | None = Field(None, description="Why.")
    next_steps: list[str] = Field([], description="What comes next.")


KINDS: Final[Mapping[str, type[Outcome]]] = {
    "review_verdict": ReviewVerdict,
    "gate_verdict": GateVerdict,
    "ci_result": CiResult,
    "lint_result": LintResult,
    "test_result": TestResult,
    "research_analysis": ResearchAnalysis,
    "impact_report": ImpactReport,
    "show_plan": ShowPlan,
    "flow_plan": FlowPlan,
}


class FieldProblem(NamedTuple):
    """What is wrong with a field of an outcome. `field` has the form `findings[1].severity`."""

    field: str
    message: str


class CheckedOutcome(NamedTuple):
    """A valid outcome. `is_known` says whether its kind is registered; `value` is the outcome as it is kept.

    `file_path` is where its large content is, below the session's artifacts, if it has any.
    """

    kind: str
    name: str | None
    summary: str
    passed: bool | None
    value: dict[str, JsonValue]
    is_known: bool
    file_path: str | None = None


@cache
def kinds() -> Mapping[str, type[Outcome]]:
    """All registered kinds. An entry point that can't be loaded, or takes the name of one of our kinds, is left out."""
    registered: dict[str, type[Outcome]] = {}
    for each in entry_points(group=ENTRY_POINT):
        try:
            model = each.load()
        except Exception:  # noqa: BLE001, S112 - somebody else's code; its kind is then unknown, and kept as it is
            continue
        if isinstance(model, type) and issubclass(model, Outcome) and _KIND.fullmatch(each.name):
            registered[each.name] = model
    # Ours come last: an entry point must not replace a kind that Runward judges by.
    return {**registered, **KINDS}


def check_outcome(value: JsonValue, kind: str | None = None) -> CheckedOutcome | tuple[FieldProblem, ...]:
    """The outcome, or everything that is wrong with it. With a `kind` it may omit its kind, but not name another."""
    if not isinstance(value, dict):
        return (FieldProblem("", "is not a JSON object"),)
    named = value.get("outcome_kind", kind)
    if not isinstance(named, str) or not _KIND.fullmatch(named):
        return (FieldProblem("outcome_kind", "must be a name such as review_verdict"),)
    if kind is not None and named != kind:
        return (FieldProblem("outcome_kind", f"is {named}, not {kind}"),)
    model = kinds().get(named)
    try:
        read = (model or Outcome).model_validate({**value, "outcome_kind": named})
    except ValidationError as error:
        errors = error.errors(include_url=False)[:MOST_PROBLEMS]
        return tuple(
            FieldProblem(_field(each["loc"]), _message(each["type"], each["msg"])) for each in errors
        )
    kept = {**value, "outcome_kind": named}
    # Validation gives some fields their one form (a verdict in capitals), and the outcome is kept in it.
    for name, field in read.model_dump(mode="json", exclude_unset=True).items():
        kept[name] = field
    if model is not None:
        # Defaults of the kind are kept with it, so a reader of the stored outcome needs no model.
        assumed = {
            name for name in model.model_fields.keys() - kept.keys() if getattr(read, name) is not None
        }
        kept |= {"passed": None, **kept, **read.model_dump(mode="json", include=assumed)}
    if read.passed is not None:
        kept["passed"] = read.passed
    return CheckedOutcome(
        kind=named,
        name=read.name,
        summary=read.summary,
        passed=read.passed,
        value=kept,
        is_known=model is not None,
        file_path=read.file_path,
    )


def _field(loc: tuple[int | str, ...]) -> str:
    text = ""
    for each in loc:
        if isinstance(each, int):
            text += f"[{each}]"
        elif not each.startswith(("literal[", "function-")):
            text += f".{each}" if text else each
    return text


def _message(kind: str, message: str) -> str:
    return "is missing" if kind == "missing" else message.removeprefix("Value error, ")[:200]


def outcome_schema() -> dict[str, JsonValue]:
    """What an outcome may look like, as JSON Schema: all registered kinds, including those that others registered."""
    definitions: dict[str, JsonValue] = {}
    chosen: list[JsonValue] = []
    for kind, model in kinds().items():
        shape = model.model_json_schema(ref_template="#/$defs/{model}")
        inner = shape.pop("$defs", {})
        definitions |= {name: _described_last(each) for name, each in inner.items()}
        definitions[kind] = _described_last(shape)
        named: JsonValue = {"const": kind, "description": f"Has the fields of a {kind}."}
        is_it: JsonValue = {"properties": {"outcome_kind": named}, "required": ["outcome_kind"]}
        chosen.append({"if": is_it, "then": {"$ref": f"#/$defs/{kind}"}})
    common: dict[str, dict[str, JsonValue]] = {
        "outcome_kind": {"type": "string", "pattern": f"^{_KIND.pattern}$"},
        "summary": {"type": "string"},
        "passed": {"type": ["boolean", "null"]},
        "name": {"type": ["string", "null"]},
        "file_path": {"type": ["string", "null"]},
    }
    meanings = {name: field.description for name, field in Outcome.model_fields.items()}
    return {
        "title": "Runward outcome",
        "type": "object",
        "required": ["outcome_kind", "summary"],
        "properties": {name: {**shape, "description": meanings[name]} for name, shape in common.items()},
        "allOf": chosen,
        "$defs": definitions,
    }


def _described_last(shape: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The shape of a kind, or of a part of one. What a field means stands after its type."""
    properties = shape.get("properties")
    if not isinstance(properties, dict):
        return dict(shape)
    ordered: dict[str, JsonValue] = {}
    for name, each in properties.items():
        assert isinstance(each, dict), "pydantic describes each field as an object"
        last = {"description": each["description"]} if "description" in each else {}
        ordered[name] = {**{key: value for key, value in each.items() if key not in last}, **last}
    return {**shape, "properties": ordered}
