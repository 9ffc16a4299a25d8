"""SARIF logs by the standard: what counts as an error, what proves that a scan was done, and where findings are."""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runward.config.outcome import CheckedOutcome, check_outcome
from runward.handlers.outcomes import sarif, sarif_run, sarif_stream
from runward.handlers.outcomes.findings import LARGEST_OUTCOME, MOST_FINDINGS, NotAReport
from runward.handlers.outcomes.sarif import outcomes_of_sarif, placed
from runward.handlers.outcomes.sarif_stream import Shape

Json: TypeAlias = Any
"""What a test writes down as JSON."""
Test = TypeVar("Test", bound=Callable[..., None])

DRIVER = {"name": "scan"}
ERROR = {"ruleId": "r", "level": "error", "message": {"text": "x"}}


def run_of(*results: Json, **members: Json) -> Json:
    return {"tool": {"driver": DRIVER}, "results": list(results), **members}


def outcome_of(*runs: Json, kind: str = "lint_result", home: str | None = None, **members: Json) -> Json:
    """The outcome of a log with these runs, which must be valid."""
    log = {"version": "2.1.0", "runs": list(runs), **members}
    outcome = placed(outcomes_of_sarif(lambda: (json.dumps(log).encode(),))[kind], home)
    checked = check_outcome(outcome)
    assert isinstance(checked, CheckedOutcome), checked
    return checked.value


def finding_of(result: Json, *, home: str | None = None, **members: Json) -> Json:
    [finding] = outcome_of(run_of(result, **members), home=home)["findings"]
    return finding


RULES = {
    "name": "scan",
    "rules": [
        {"id": "A", "defaultConfiguration": {"level": "error"}},
        {
            "id": "B",
            "guid": "6F9619FF-8B86-D011-B42D-00CF4FC964FF",
            "defaultConfiguration": {"level": "note"},
        },
        {"id": "C"},
    ],
}
OVERRIDES = [
    {"executionSuccessful": True, "ruleConfigurationOverrides": [{"descriptor": {"id": "A"}, "configuration": {"level": "note"}}]},
    {"executionSuccessful": True, "ruleConfigurationOverrides": [{"descriptor": {"index": 2}, "configuration": {"level": "error"}}]},
    {"executionSuccessful": True},
]  # fmt: skip
EXTENSION = {
    "name": "plugin",
    "guid": "a0",
    "rules": [{"id": "X", "defaultConfiguration": {"level": "error"}}],
}


@pytest.mark.parametrize(
    ("result", "severity"),
    [
        ({"ruleId": "A"}, "high"),
        ({"ruleIndex": 0}, "high"),
        ({"rule": {"index": 0}}, "high"),
        ({"rule": {"id": "A"}}, "high"),
        ({"ruleId": "A/sub/part"}, "high"),
        ({"ruleId": "A", "ruleIndex": 1}, "high"),
        ({"ruleId": "A", "ruleIndex": 99}, "high"),
        ({"ruleId": "A", "ruleIndex": -1}, "high"),
        ({"ruleId": "A", "level": "note"}, "low"),
        ({"ruleIndex": 1}, "low"),
        ({"rule": {"guid": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"}}, "low"),
        ({"ruleId": "C"}, "medium"),
        ({"ruleId": "unknown"}, "medium"),
        ({}, "medium"),
        ({"ruleId": "A", "kind": "fail"}, "high"),
        ({"ruleId": "A", "kind": "review"}, "info"),
        ({"ruleId": "A", "kind": "open"}, "info"),
        ({"ruleId": "A", "kind": "informational"}, "info"),
        ({"ruleId": "A", "provenance": {"invocationIndex": 0}}, "low"),
        ({"ruleId": "A", "provenance": {"invocationIndex": 1}}, "high"),
        ({"ruleId": "C", "provenance": {"invocationIndex": 1}}, "high"),
        ({"ruleId": "C", "provenance": {"invocationIndex": -1}}, "medium"),
        ({"ruleId": "A", "provenance": {"invocationIndex": 2}}, "high"),
        ({"ruleId": "X"}, "high"),
        ({"rule": {"index": 0, "toolComponent": {"index": 0}}}, "high"),
        ({"ruleId": "X", "rule": {"toolComponent": {"name": "plugin"}}}, "high"),
        ({"ruleIndex": 0, "rule": {"toolComponent": {"guid": "A0"}}}, "high"),
        ({"ruleId": "A", "rule": {"toolComponent": {"index": 0}}}, "medium"),
        ({"ruleId": "A", "rule": {"toolComponent": {"index": 7}}}, "medium"),
    ],
)  # fmt: skip
def test_the_level_follows_from_the_result_its_invocation_and_its_rule(result: Json, severity: str) -> None:
    tool = {"driver": RULES, "extensions": [EXTENSION]}
    found = finding_of({"message": {"text": "x"}, **result}, tool=tool, invocations=OVERRIDES)
    assert found["severity"] == severity


@pytest.mark.parametrize(
    ("changed", "errors", "passed"),
    [
        ({"kind": "pass"}, 0, True),
        ({"kind": "notApplicable"}, 0, True),
        ({"baselineState": "absent"}, 0, True),
        ({"baselineState": "unchanged"}, 1, False),
        ({"baselineState": "new"}, 1, False),
        ({"suppressions": []}, 1, False),
        ({"suppressions": [{"kind": "inSource"}]}, 0, True),
        ({"suppressions": [{"kind": "external", "status": "accepted"}]}, 0, True),
        ({"suppressions": [{"kind": "external", "status": "underReview"}]}, 1, False),
        ({"suppressions": [{"kind": "external", "status": "rejected"}]}, 1, False),
        ({"suppressions": [{"kind": "inSource"}, {"kind": "external", "status": "rejected"}]}, 1, False),
        ({"level": None}, 0, True),
    ],
)
def test_only_results_that_stand_are_errors(changed: Json, errors: int, passed: bool) -> None:
    outcome = outcome_of(run_of({**ERROR, **changed}))
    assert (outcome["errors"], outcome["passed"]) == (errors, passed)


FAILED = {"executionSuccessful": False}
NOTED = {
    "executionSuccessful": True,
    "toolExecutionNotifications": [{"level": "error", "message": {"text": "no"}}],
}
DESCRIBED = {
    "driver": {"name": "s", "notifications": [{"id": "N", "defaultConfiguration": {"level": "error"}}]}
}
CONFIGURED = {
    "executionSuccessful": True,
    "toolConfigurationNotifications": [{"descriptor": {"id": "N"}, "message": {"text": "no"}}],
}


INLINE_0 = {"location": {"uri": "sarif:/inlineExternalProperties/0"}}
INLINE = {"inlineExternalProperties": [{"guid": "A", "artifacts": [{"location": {"uri": "a.py"}}]}]}


@pytest.mark.parametrize(
    ("run", "members"),
    [
        ({"tool": {"driver": DRIVER}}, {}),
        ({"tool": {"driver": DRIVER}, "results": None}, {}),
        (run_of(invocations=[FAILED]), {}),
        (run_of(invocations=[{"executionSuccessful": True}, FAILED]), {}),
        (run_of(invocations=[NOTED]), {}),
        (run_of(invocations=[CONFIGURED], tool=DESCRIBED), {}),
        (run_of(externalPropertyFileReferences={"results": [{"location": {"uri": "r.sarif"}}]}), {}),
        (run_of(externalPropertyFileReferences={"driver": {"location": {"uri": "d.sarif"}}}), {}),
        (run_of(), {"inlineExternalProperties": [{"results": [ERROR]}]}),
        (run_of(externalPropertyFileReferences={"results": [{"guid": "b"}]}), INLINE),
        (run_of(externalPropertyFileReferences={"invocations": [INLINE_0]}), INLINE),
        (run_of(externalPropertyFileReferences={"driver": INLINE_0}), INLINE),
        (run_of("nonsense"), {}),
    ],
)
def test_a_scan_that_may_not_have_been_done_passes_nothing(run: Json, members: Json) -> None:
    outcome = outcome_of(run, **members)
    assert (outcome["passed"], outcome["errors"]) == (None, 0)
    assert outcome["summary"].startswith("0 errors, 0 warnings; ")
    assert outcome_of(run_of(), run, **members)["passed"] is None
    assert outcome_of(run_of(ERROR), run, **members)["passed"] is False
    review = outcome_of(run, kind="review_verdict", **members)
    assert (review["verdict"], review["passed"]) == ("REQUEST_CHANGES", None)


def test_an_empty_array_of_results_is_the_evidence_of_a_scan() -> None:
    assert outcome_of(run_of())["passed"] is True
    assert outcome_of()["passed"] is None
    assert outcome_of(run_of(invocations=[{"executionSuccessful": True, "exitCode": 1}]))["passed"] is True
    assert (
        outcome_of(run_of(externalPropertyFileReferences={"artifacts": [{}], "results": []}))["passed"]
        is True
    )


OUTSIDE: Json = {
    "guid": "11111111-AAAA-1111-8888-555566667777",
    "results": [
        ERROR,
        {"ruleId": "A", "locations": [{"physicalLocation": {"artifactLocation": {"index": 1}}}]},
    ],
    "driver": {"rules": RULES["rules"]},
    "artifacts": [{"location": {"uri": "src/b.py"}}],
    "invocations": [{"executionSuccessful": True}],
    "extensions": [EXTENSION],
}
BY_PLACE = {"location": {"uri": "sarif:/inlineExternalProperties/1"}}
BY_GUID = {"guid": OUTSIDE["guid"].lower()}


@pytest.mark.parametrize("reference", [BY_PLACE, BY_GUID, {**BY_PLACE, "guid": "x"}])
@pytest.mark.parametrize("comes_first", ["runs", "inlineExternalProperties"])
def test_parts_of_a_run_that_are_elsewhere_in_the_log_count_as_if_they_were_in_it(
    reference: Json, comes_first: str
) -> None:
    names = ("results", "extensions", "invocations", "artifacts")
    references = {"driver": reference, **{name: [reference] for name in names}}
    own = {"artifacts": [{"location": {"uri": "a.py"}}], "externalPropertyFileReferences": references}
    members = {
        "runs": [{"tool": {"driver": DRIVER}, **own}, run_of({"ruleId": "X"})],
        "inlineExternalProperties": [{"guid": "other"}, OUTSIDE],
    }
    log = {"version": "2.1.0", comes_first: members[comes_first], **members}
    outcome = outcomes_of_sarif(lambda: (json.dumps(log).encode(),))["lint_result"]
    assert (outcome["errors"], outcome["warnings"], outcome["passed"]) == (2, 1, False)
    assert outcome["summary"] == "2 errors, 1 warnings"
    findings: Json = outcome["findings"]
    assert [each["file"] for each in findings if "file" in each] == ["src/b.py"]
    empty = {**members["inlineExternalProperties"][1], "results": []}
    log["inlineExternalProperties"], log["runs"] = [{}, empty], members["runs"][:1]
    assert outcomes_of_sarif(lambda: (json.dumps(log).encode(),))["lint_result"]["passed"] is True
    empty["invocations"] = [FAILED]
    assert outcomes_of_sarif(lambda: (json.dumps(log).encode(),))["lint_result"]["passed"] is None


def test_results_that_several_runs_share_are_counted_once_and_pass_nothing() -> None:
    shared = [run_of(externalPropertyFileReferences={"results": [INLINE_0]}) for _ in range(2)]
    note = {"level": "note"}
    outcome = outcome_of(*shared, inlineExternalProperties=[{"results": [note]}])
    assert (outcome["finding_count"], outcome["passed"]) == (1, None)
    assert "several runs share results" in outcome["summary"]
    one = run_of(externalPropertyFileReferences={"results": [INLINE_0, INLINE_0]})
    outcome = outcome_of(one, inlineExternalProperties=[{"results": [note]}])
    assert (outcome["finding_count"], outcome["passed"]) == (1, True)


def test_many_runs_that_share_much_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "MOST_KEPT", 100_000)
    many = [run_of(externalPropertyFileReferences={"artifacts": [INLINE_0] * 50}) for _ in range(100)]
    part = {"artifacts": [{"location": {"uri": "a"}}] * 20}
    with pytest.raises(NotAReport, match="runs share more than"):
        outcome_of(*many, inlineExternalProperties=[part])
    assert outcome_of(*many[:5], inlineExternalProperties=[part])["passed"] is True


def test_whole_numbers_of_any_size_are_passed_over() -> None:
    properties = {"small": -(2**63), "large": 2**64, "long": 10**400, "real": 1.5e300}
    assert outcome_of(run_of(ERROR, properties=properties), properties=properties)["errors"] == 1


def at(**location: Json) -> Json:
    return {
        **ERROR,
        "locations": [{"physicalLocation": {"artifactLocation": location, "region": {"startLine": 3}}}],
    }


BASES = {
    "SRC": {"uri": "src/"},
    "ROOT": {"uri": "file:///w/app/"},
    "LIB": {"uri": "lib", "uriBaseId": "ROOT"},
    "A": {"uri": "a/", "uriBaseId": "B"},
    "B": {"uri": "b/", "uriBaseId": "A"},
    "HERE": {"description": {"text": "where it was started"}},
}


@pytest.mark.parametrize(
    ("location", "home", "file"),
    [
        ({"uri": "src/my%20file.py"}, None, "src/my file.py"),
        ({"uri": "./src/../lib//a.py"}, None, "lib/a.py"),
        ({"uri": "src/a.py#L3"}, None, "src/a.py"),
        ({"uri": "src/%C3%BC.py"}, None, "src/ü.py"),
        ({"uri": "a.py", "uriBaseId": "SRC"}, None, "src/a.py"),
        ({"uri": "a.py", "uriBaseId": "LIB"}, None, "lib/a.py"),
        ({"uri": "a.py", "uriBaseId": "LIB"}, "/w", "app/lib/a.py"),
        ({"uri": "a.py", "uriBaseId": "LIB"}, "/elsewhere", "lib/a.py"),
        ({"uri": "a.py", "uriBaseId": "HERE"}, None, "a.py"),
        ({"uri": "a.py", "uriBaseId": "%SRCROOT%"}, None, "a.py"),
        ({"uri": "file:///w/app/src/a.py"}, None, "src/a.py"),
        ({"uri": "file://localhost/w/app/src/a.py"}, "/w/app/src", "a.py"),
        ({"uri": "/w/app/src/a.py"}, "/w/app/", "src/a.py"),
        ({"index": 0}, None, "src/a.py"),
        ({"index": 1}, None, "src/b.py"),
        ({"uri": "c.py", "index": 0}, None, "c.py"),
    ],
)
def test_a_place_is_a_path_below_the_sources(location: Json, home: str | None, file: str) -> None:
    files = [{"location": {"uri": "src/a.py"}}, {"location": {"uri": "b.py", "uriBaseId": "SRC"}}]
    found = finding_of(at(**location), home=home, originalUriBaseIds=BASES, artifacts=files)
    assert (found["file"], found["line"]) == (file, 3)
    assert "evidence" not in found


@pytest.mark.parametrize(
    ("location", "evidence"),
    [
        ({"uri": "../a.py"}, None),
        ({"uri": "%2e%2e/a.py"}, None),
        ({"uri": "a%00.py"}, None),
        ({"uri": "a%ff.py"}, None),
        ({"uri": "x" * 1001}, None),
        ({"uri": "a.py", "uriBaseId": "A"}, None),
        ({"index": 7}, None),
        ({"uri": "file:///etc/passwd"}, "/etc/passwd:3"),
        ({"uri": "https://example.com/a.py"}, "https://example.com/a.py:3"),
        ({"uri": "file:///C:/a.py"}, "file:///C:/a.py:3"),
    ],
)
def test_a_place_outside_the_sources_is_no_path_but_evidence(location: Json, evidence: str | None) -> None:
    found = finding_of(at(**location), originalUriBaseIds=BASES)
    assert "file" not in found
    assert "line" not in found
    assert found.get("evidence") == evidence


TEXTS = {
    "driver": {
        "name": "s",
        "globalMessageStrings": {"g": {"text": "global {0}"}},
        "rules": [{"id": "r", "messageStrings": {"m": {"text": "use of {0} in {1}, {{not {0}}}, {9}"}}}],
    }
}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"text": "plain"}, "plain"),
        ({"id": "m", "arguments": ["x", "y"]}, "use of x in y, {not x}, {9}"),
        ({"id": "g", "arguments": ["{0}"]}, "global {0}"),
        ({"text": "own {0}", "arguments": ["x"]}, "own x"),
        ({"id": "gone"}, "gone"),
        ({"markdown": "*only*"}, "*only*"),
        ({}, ""),
        ({"text": "x" * 900}, "x" * 500),
    ],
)
def test_a_message_may_be_a_text_of_its_rule_with_arguments(message: Json, text: str) -> None:
    assert finding_of({"ruleId": "r", "message": message}, tool=TEXTS)["description"] == text


def test_a_finding_has_the_id_of_its_rule_as_its_category() -> None:
    tool = {"driver": {"name": "s", "rules": [{"id": "R1"}]}}
    assert finding_of({"ruleIndex": 0}, tool=tool)["category"] == "R1"
    assert finding_of({"ruleId": "R1/sub"}, tool=tool)["category"] == "R1/sub"
    assert finding_of({})["category"] == "unknown"


def test_the_thousand_most_severe_findings_are_kept_and_all_are_counted() -> None:
    rule = {"id": "ranked", "defaultConfiguration": {"rank": 90.0}}
    tool = {"driver": {"name": "s", "rules": [rule]}}
    noise = [{"ruleId": f"n{number}", "level": "note", "message": {"text": "n"}} for number in range(1500)]
    few = [{"ruleId": "first", "rank": 10.5}, {"ruleId": "ranked"}, {"ruleId": "third", "level": "error"}]
    outcome = outcome_of(run_of(*noise, *few, tool=tool))
    assert outcome["finding_count"] == 1503
    assert outcome["summary"] == (
        "1 errors, 2 warnings; 1,000 of 1,503 findings are kept, the most severe first"
    )
    kept = [each["category"] for each in outcome["findings"]]
    assert kept == ["third", "ranked", "first", *(f"n{number}" for number in range(997))]


def test_an_outcome_is_never_larger_than_an_outcome_may_be() -> None:
    long = {"uri": "d/" * 400 + "ü" * 50}
    wordy = [{**at(**long), "ruleId": "r" * 900, "message": {"text": "\x01ü" * 400}} for _ in range(1200)]
    for results, least in ((wordy, 100), ([{**ERROR, "message": {"text": "w" * 600}}] * 1200, MOST_FINDINGS)):
        outcome = outcome_of(run_of(*results))
        assert len(json.dumps(outcome, ensure_ascii=False).encode()) <= LARGEST_OUTCOME
        assert len(outcome["findings"]) >= least
        assert outcome["finding_count"] == 1200


@pytest.mark.parametrize(
    ("log", "problem"),
    [
        ("[]", "is not a SARIF log: it must be an object"),
        ("{}", "is not a SARIF log: it has no list of runs"),
        ('{"runs": 7}', "is not a SARIF log: it has no list of runs"),
        ('{"version": "1.0.0", "runs": []}', "is not a SARIF log of version 2.1.0, but of '1.0.0'"),
        ('{"runs": [7]}', "runs[0] must be an object"),
        ('{"runs": [{"results": {}}]}', "runs[0].results must be a list"),
        ('{"runs": [{"results": [{"level": "fatal"}]}]}', "runs[0].results[0].level must be one of error,"),
        ('{"runs": [{"results": [{"kind": 7}]}]}', "runs[0].results[0].kind must be one of pass,"),
        ('{"runs": [{"results": [{"suppressions": true}]}]}', "runs[0].results[0].suppressions must be a list"),
        ('{"runs": [{"results": [{"ruleIndex": "0"}]}]}', "runs[0].results[0].ruleIndex must be a number"),
        ('{"runs": [{"invocations": [{"executionSuccessful": "no"}]}]}', "must be true or false"),
        ('{"runs": [{"results": [], "results": []}]}', "results appears twice"),
        ('{"runs": [{"results": [{"level": "error", "level": "note"}]}]}', "runs[0].results[0].level appears twice"),
        ('{"runs": []} x', "is not JSON: "),
        ('{"runs": [', "is not JSON: "),
        ('{"runs": [], "x": NaN}', "is not JSON: "),
        ('{"runs": [], "x": ' + "9" * 5000 + "}", "is not JSON: "),
        ('{"runs": [], "x": 1E99999999999999999999}', "is not JSON: "),
        ("", "is not JSON: "),
        ('{"x":' * 100, "nested more than 64 levels deep"),
        ('{"runs": [' + "{}," * 1001 + "{}]}", "more than 1000 runs"),
    ],
)  # fmt: skip
def test_what_is_no_log_says_why(log: str, problem: str) -> None:
    with pytest.raises(NotAReport, match=re.escape(problem)):
        outcomes_of_sarif(lambda: (log.encode(),))


def test_a_log_that_grows_while_it_is_read_is_refused_in_words() -> None:
    contents = iter([b'{"runs": []}', json.dumps({"runs": [run_of(ERROR)]}).encode()])
    with pytest.raises(NotAReport, match="changes while it is read"):
        outcomes_of_sarif(lambda: (next(contents),))


def test_a_log_with_too_many_values_or_too_much_to_keep_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sarif_stream, "MOST_VALUES", 1000)
    with pytest.raises(NotAReport, match="values"):
        outcome_of(run_of(properties={"x": [[] for _ in range(600)]}))
    monkeypatch.setattr(sarif_stream, "MOST_VALUES", 1 << 20)
    monkeypatch.setattr(sarif_stream, "MOST_KEPT", 10_000)
    with pytest.raises(NotAReport, match="take more than"):
        outcome_of(run_of(artifacts=[{"location": {"uri": "a"}} for _ in range(100)]))
    assert outcome_of(run_of(*[ERROR] * 200))["errors"] == 200


# What is read, against the published schema.

SCHEMA: Json = json.loads(Path(__file__).with_name("sarif-schema-2.1.0.json").read_text())
ROOTS: dict[str, Shape] = {
    "run": sarif_run.RUN,
    "result": sarif._RESULT,
    "externalProperties": sarif_run.OUTSIDE,
}
"""What the reader keeps of these objects, by their names in the schema."""


def schema_of(value: Json) -> Json:
    """The schema itself, or the definition that it refers to."""
    return SCHEMA["definitions"][value["$ref"].rpartition("/")[2]] if "$ref" in value else value


def agree(shape: Shape, schema: Json, place: str) -> None:
    """What the reader expects at a place is what the schema says of it."""
    schema = schema_of(schema)
    kinds = {schema["type"]} if isinstance(schema.get("type"), str) else {*schema.get("type", ())}
    match shape:
        case sarif_stream.Word(words=words):
            assert {*words} == {*schema["enum"]}, place
        case sarif_stream.ListOf(item=item):
            assert "array" in kinds, place
            agree(item, schema["items"], f"{place}[]")
        case sarif_stream.MapOf(value=value):
            agree(value, schema["additionalProperties"], f"{place}.*")
        case sarif_stream.Scalar(kind=kind):
            assert kinds & {"list": {"array"}, "number": {"integer", "number"}}.get(kind, {kind}), place
        case _:
            for name, inner in shape.items():
                assert name in schema["properties"], f"{place}.{name}"
                agree(inner, schema["properties"][name], f"{place}.{name}")


@pytest.mark.parametrize("name", ROOTS)
def test_the_members_that_are_read_are_those_of_the_published_schema(name: str) -> None:
    agree(ROOTS[name], SCHEMA["definitions"][name], name)


# Random logs, against a plain reading of the whole log.
#
# They have a strategy of their own: hypothesis-jsonschema (0.23.1) uses internals that Hypothesis no longer has, and can't
# resolve the recursive references of the published schema. Its logs would also rarely name a rule that they declare.
# This strategy makes most members that the verdict depends on, and leaves out what the schema requires. References by guid
# or by the name of a component, overrides of notifications, and texts of messages have tests of their own above.
# Each log is checked against the schema: it must differ from it by gaps alone.

LEVELS = ("error", "warning", "note", "none")
KINDS = ("pass", "open", "informational", "notApplicable", "review", "fail")


def maybe(**members: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """An object with any of these members."""
    return st.fixed_dictionaries({}, optional=members)


IDS = st.sampled_from(["r0", "r1", "r2", "r0/sub", "x0", "é"])
CONFIGURATIONS = maybe(level=st.sampled_from(LEVELS), enabled=st.booleans(), rank=st.floats(0, 100))
REFERENCES = maybe(id=IDS, index=st.integers(-1, 3), toolComponent=maybe(index=st.integers(-1, 1)))
MESSAGES = maybe(
    text=st.text(max_size=20),
    id=st.sampled_from(["m", "none"]),
    arguments=st.lists(st.text(max_size=5), max_size=2),
)
DESCRIPTORS = maybe(
    defaultConfiguration=CONFIGURATIONS,
    messageStrings=st.just({"m": {"text": "{0}"}}),
    properties=st.dictionaries(
        st.text(max_size=3), st.integers() | st.lists(st.text(max_size=2), max_size=2)
    ),
)
NOTIFICATIONS = st.lists(
    maybe(
        level=st.sampled_from(LEVELS), descriptor=maybe(id=st.sampled_from(["r0", "r1"])), message=MESSAGES
    ),
    max_size=2,
)
INVOCATIONS = st.lists(
    maybe(
        executionSuccessful=st.sampled_from([True, True, True, False]),
        ruleConfigurationOverrides=st.lists(
            st.fixed_dictionaries({"descriptor": REFERENCES, "configuration": CONFIGURATIONS}), max_size=2
        ),
        toolExecutionNotifications=NOTIFICATIONS,
        toolConfigurationNotifications=NOTIFICATIONS,
        exitCode=st.integers(),
    ),
    max_size=2,
)
RESULTS = maybe(
    kind=st.sampled_from(KINDS),
    level=st.sampled_from(LEVELS),
    ruleId=IDS,
    ruleIndex=st.integers(-1, 3),
    rule=REFERENCES,
    message=MESSAGES,
    baselineState=st.sampled_from(["new", "unchanged", "updated", "absent"]),
    suppressions=st.lists(maybe(status=st.sampled_from(["accepted", "underReview", "rejected"])), max_size=2),
    provenance=maybe(invocationIndex=st.integers(-1, 2)),
    rank=st.floats(-1, 100),
    locations=st.lists(
        maybe(
            physicalLocation=maybe(
                artifactLocation=maybe(
                    uri=st.text(max_size=12), uriBaseId=st.text(max_size=2), index=st.integers(-1, 2)
                ),
                region=maybe(startLine=st.integers(1, 9)),
            )
        ),
        max_size=2,
    ),
)


@st.composite
def components(draw: st.DrawFn, name: str) -> Json:
    many = st.integers(0, 3)
    return {
        "name": name,
        "rules": [{"id": f"{name}{number}", **draw(DESCRIPTORS)} for number in range(draw(many))],
        "notifications": [{"id": f"r{number}", **draw(DESCRIPTORS)} for number in range(draw(many))],
    }


RUNS = st.builds(
    lambda driver, extensions, rest: {"tool": {"driver": driver, "extensions": extensions}, **rest},
    components("r"),
    st.lists(components("x"), max_size=1),
    maybe(
        results=st.none() | st.lists(RESULTS, max_size=6),
        invocations=INVOCATIONS,
        artifacts=st.lists(maybe(location=maybe(uri=st.text(max_size=5))), max_size=2),
        originalUriBaseIds=st.dictionaries(st.text(max_size=2), maybe(uri=st.text(max_size=5)), max_size=2),
        externalPropertyFileReferences=maybe(results=st.lists(st.just({"guid": "a"}), max_size=1)),
    ),
)
LOGS = st.fixed_dictionaries({"runs": st.lists(RUNS, max_size=3), "version": st.just("2.1.0")})


def rules_named(run: Json, reference: Json) -> Iterator[Json]:
    """The rules that a reference may mean, the most certain first."""
    parts = [run["tool"]["driver"], *run["tool"]["extensions"]]
    number = reference.get("toolComponent", {}).get("index", -1)
    if number >= 0:
        parts = parts[1 + number : 2 + number]
    wanted, index = reference.get("id"), reference.get("index", -1)
    for part in parts[:1]:
        if 0 <= index < len(part["rules"]):
            rule = part["rules"][index]
            if wanted is None or (wanted + "/").startswith(rule["id"] + "/"):
                yield rule
    has_component = bool(reference.get("toolComponent"))
    for part in parts[:1] if has_component else parts:
        for name in (wanted, wanted and wanted.split("/")[0]):
            yield from (each for each in part["rules"] if each["id"] == name)


def level_of(run: Json, result: Json) -> str:
    if result.get("kind", "fail") != "fail":
        return "none"
    reference = dict(result.get("rule", {}))
    reference |= {"id": result["ruleId"]} if "ruleId" in result else {}
    reference |= {"index": result["ruleIndex"]} if "ruleIndex" in result else {}
    rule = next(rules_named(run, reference), None)
    levels = [result.get("level")]
    number, invocations = result.get("provenance", {}).get("invocationIndex", -1), run.get("invocations", [])
    if rule is not None and 0 <= number < len(invocations):
        overrides = invocations[number].get("ruleConfigurationOverrides", [])
        mine = [each for each in overrides if next(rules_named(run, each["descriptor"]), None) is rule]
        levels += [each["configuration"].get("level") for each in mine[:1]]
    levels.append((rule or {}).get("defaultConfiguration", {}).get("level"))
    return next((each for each in levels if each), "warning")


def is_well(run: Json) -> bool:
    """Whether the run shows that its scan was done."""
    defaults = {
        each["id"]: each.get("defaultConfiguration", {}).get("level")
        for each in reversed(run["tool"]["driver"]["notifications"])
    }
    others = [each for part in run["tool"]["extensions"] for each in part["notifications"]]
    for each in others:
        defaults.setdefault(each["id"], each.get("defaultConfiguration", {}).get("level"))
    for invocation in run.get("invocations", []):
        if invocation.get("executionSuccessful") is False:
            return False
        for key in ("toolExecutionNotifications", "toolConfigurationNotifications"):
            for note in invocation.get(key, []):
                if (
                    note.get("level") or defaults.get(note.get("descriptor", {}).get("id")) or "warning"
                ) == "error":
                    return False
    external = run.get("externalPropertyFileReferences", {}).get("results")
    return isinstance(run.get("results"), list) and not external


def expected(log: Json) -> tuple[Counter[str], bool | None]:
    """The levels of the results that stand, and what `passed` must be, by a plain reading of the whole log."""
    counts = Counter(
        level_of(run, each)
        for run in log["runs"]
        for each in run.get("results") or []
        if each.get("kind") not in ("pass", "notApplicable") and each.get("baselineState") != "absent"
        if {s.get("status", "accepted") for s in each.get("suppressions", [])} != {"accepted"}
    )
    if counts["error"]:
        return counts, False
    return counts, True if log["runs"] and all(map(is_well, log["runs"])) else None


@st.composite
def moved_out(draw: st.DrawFn, log: Json) -> Json:
    """The same log with parts of its runs outside of them, which must not change what is read."""
    log = json.loads(json.dumps(log))
    parts: list[Json] = []
    for run in log["runs"]:
        tool, references = run["tool"], run.setdefault("externalPropertyFileReferences", {})
        for key, home in [(key, run) for key in ("results", "invocations", "artifacts")] + [
            ("extensions", tool)
        ]:
            if home.get(key) is not None and draw(st.booleans()):
                at = draw(st.integers(0, len(home[key])))
                kept, moved = home[key][:at], home[key][at:]
                home[key] = kept
                if key == "results" and not kept:
                    del home[key]
                references[key] = [*references.get(key, []), reference_to(len(parts), draw(st.booleans()))]
                parts.append({"guid": f"g{len(parts)}", key: moved})
        if draw(st.booleans()):
            references["driver"] = reference_to(len(parts), draw(st.booleans()))
            parts.append({"guid": f"g{len(parts)}", "driver": tool["driver"]})
            tool["driver"] = {"name": "r"}
    is_named: bool = draw(st.booleans())
    return {**log, "inlineExternalProperties": parts} if parts or is_named else log


def reference_to(part: int, by_guid: bool) -> Json:
    return (
        {"guid": f"G{part}"} if by_guid else {"location": {"uri": f"sarif:/inlineExternalProperties/{part}"}}
    )


GAPS = {"required", "anyOf", "uniqueItems"}
"""Rules of the schema that random logs may break: a member is missing, or two items are equal. Results may be null, too."""
VALIDATOR = jsonschema_rs.validator_for(SCHEMA)


def is_of_the_schema(log: Json) -> None:
    for error in VALIDATOR.iter_errors(log):
        rule = error.kind.name, error.instance_path[-1]
        assert rule[0] in GAPS or rule in (("pattern", "guid"), ("type", "results")), error.message


def reads_as_the_plain_model(log: Json, data: st.DataObject) -> None:
    counts, passed = expected(log)
    is_of_the_schema(log)
    log = data.draw(moved_out(log))
    is_of_the_schema(log)
    order = random.Random(data.draw(st.integers(0, 99)))  # a run may tell of its results before its rules
    runs = [dict(order.sample(list(run.items()), len(run))) for run in log["runs"]]
    text = json.dumps({**log, "runs": runs}, ensure_ascii=data.draw(st.booleans())).encode()
    at = data.draw(st.integers(0, len(text)))
    mark = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    outcome = outcomes_of_sarif(lambda: (mark, text[:at], text[at:]))["lint_result"]
    assert isinstance(check_outcome(outcome), CheckedOutcome)
    assert (outcome["errors"], outcome["warnings"], outcome["passed"]) == (
        counts["error"],
        counts["warning"],
        passed,
    )
    assert outcome["finding_count"] == counts.total() == len(outcome["findings"])  # type: ignore[arg-type] # a list


def never_raises_and_never_passes_what_was_cut(log: Json, data: st.DataObject) -> None:
    """A log that is damaged is refused with a reason, or read as what it now says."""
    text = bytearray(json.dumps(log).encode())
    at = data.draw(st.integers(0, len(text) - 1))
    if data.draw(st.booleans()):
        del text[at:]
    else:
        text[at : at + 1] = data.draw(st.binary(min_size=1, max_size=3))
    try:
        outcome = outcomes_of_sarif(lambda: (bytes(text),))["lint_result"]
    except NotAReport:
        return
    assert isinstance(check_outcome(outcome), CheckedOutcome)


@given(LOGS, st.data())
@settings(max_examples=10)
def test_random_logs_are_read_as_a_plain_model_reads_them(log: Json, data: st.DataObject) -> None:
    reads_as_the_plain_model(log, data)
    never_raises_and_never_passes_what_was_cut(log, data)


@pytest.mark.prove
@given(LOGS, st.data())
@settings(max_examples=500)
def test_five_hundred_random_logs_are_read_as_a_plain_model_reads_them(
    log: Json, data: st.DataObject
) -> None:
    reads_as_the_plain_model(log, data)
    never_raises_and_never_passes_what_was_cut(log, data)
