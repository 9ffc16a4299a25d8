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


class _Part(BaseModel):
    """Something inside an outcome."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, defer_build=True)


class Outcome(_Part):
    """What all outcomes have. `passed` is None if nothing was decided.

    `file_path` names a file, below the session's artifacts, with content that is too large for the outcome.
    """

    outcome_kind: str
    summary: str
    passed: bool | None = None
    name: str | None = None
    file_path: Annotated[str, AfterValidator(_below_the_artifacts)] | None = None


class Finding(_Part):
    """One thing that a review found."""

    severity: Severity
    category: str
    description: str
    file: File | None = None
    line: Line | None = None
    suggestion: str | None = None
    title: str | None = None
    evidence: str | None = None
    required: bool | None = None


class ReviewVerdict(Outcome):
    """What a review decided. Whether it `passed` is independent of the verdict."""

    verdict: Verdict
    findings: list[Finding] = []
    finding_count: Count | None = None
    round: Line = 1


class Criterion(_Part):
    name: str
    passed: bool | None = None


class GateVerdict(Outcome):
    """Whether a gate opens. `passed` follows from `gate_passed`, and never contradicts it."""

    gate_passed: bool
    feedback: str | None = None
    notes: str | None = None
    criteria: list[Criterion] = []
    blocking_reason: str | None = None
    next_action: str | None = None

    @model_validator(mode="after")
    def _agree(self) -> "GateVerdict":
        if self.passed is not None and self.passed != self.gate_passed:
            raise ValueError("passed contradicts gate_passed")
        self.passed = self.gate_passed
        return self


class Check(_Part):
    name: str
    passed: bool | None = None
    count: Count | None = None
    total: Count | None = None


class RanCommand(_Part):
    command: str
    exit_code: int | None = None
    duration_s: Seconds | None = None


class CiResult(Outcome):
    """What a build found. None means that this was not run."""

    lint_passed: bool | None = None
    tests_passed: bool | None = None
    build_passed: bool | None = None
    typecheck_passed: bool | None = None
    test_count: Count | None = None
    failure_summary: str | None = None
    checks: list[Check] = []
    commands: list[RanCommand] = []


class LintResult(Outcome):
    tool: str | None = None
    errors: Count | None = None
    warnings: Count | None = None
    findings: list[Finding] = []
    finding_count: Count | None = None


class Failure(_Part):
    name: str
    message: str | None = None
    file: str | None = None
    line: Line | None = None


class TestResult(Outcome):
    __test__ = False
    test_count: Count | None = None
    failed_count: Count | None = None
    skipped_count: Count | None = None
    duration_s: Seconds | None = None
    failure_summary: str | None = None
    failures: list[Failure] = []


class ResearchAnalysis(Outcome):
    question: str | None = None
    findings: list[str] = []
    sources: list[str] = []
    confidence: str | float | None = None


class Affected(_Part):
    path: File
    risk: str | None = None
    description: str | None = None


class ImpactReport(Outcome):
    affected: list[Affected] = []
    breaking: bool | None = None


class PlannedPlay(_Part):
    name: str
    depends_on: list[str] = []


class ShowPlan(Outcome):
    topic: str | None = None
    plays: list[PlannedPlay] = []


class FlowPlan(Outcome):
    steps: list[JsonValue] = []
    should_continue: bool | None = None
    reason: str | None = None
    next_steps: list[str] = []


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
    found: dict[str, type[Outcome]] = {}
    for each in entry_points(group=ENTRY_POINT):
        try:
            model = each.load()
        except Exception:  # noqa: BLE001, S112 - somebody else's code; its kind is then unknown, and kept as it is
            continue
        if isinstance(model, type) and issubclass(model, Outcome) and _KIND.fullmatch(each.name):
            found[each.name] = model
    return {**found, **KINDS}


def check_outcome(value: JsonValue, kind: str | None = None) -> CheckedOutcome | tuple[FieldProblem, ...]:
    """The outcome, or everything that is wrong with it. With a `kind` it may omit its kind, but not name another."""
    if not isinstance(value, dict):
        return (FieldProblem("", "is not a JSON object"),)
    said = value.get("outcome_kind", kind)
    if not isinstance(said, str) or not _KIND.fullmatch(said):
        return (FieldProblem("outcome_kind", "must be a name such as review_verdict"),)
    if kind is not None and said != kind:
        return (FieldProblem("outcome_kind", f"is {said}, not {kind}"),)
    model = kinds().get(said)
    try:
        read = (model or Outcome).model_validate({**value, "outcome_kind": said})
    except ValidationError as error:
        found = [
            FieldProblem(_field(each["loc"]), _said(each["type"], each["msg"]))
            for each in error.errors(include_url=False)
        ]
        return tuple(found[:MOST_PROBLEMS])
    kept = {**value, "outcome_kind": said}
    for name, field in read.model_dump(mode="json", exclude_unset=True).items():
        kept[name] = field
    if model is not None:
        assumed = {
            name for name in model.model_fields.keys() - kept.keys() if getattr(read, name) is not None
        }
        kept |= {"passed": None, **kept, **read.model_dump(mode="json", include=assumed)}
    if read.passed is not None:
        kept["passed"] = read.passed
    return CheckedOutcome(said, read.name, read.summary, read.passed, kept, model is not None, read.file_path)


def _field(loc: tuple[int | str, ...]) -> str:
    text = ""
    for each in loc:
        if isinstance(each, int):
            text += f"[{each}]"
        elif not each.startswith(("literal[", "function-")):
            text += f".{each}" if text else each
    return text


def _said(kind: str, message: str) -> str:
    return "is missing" if kind == "missing" else message.removeprefix("Value error, ")[:200]
