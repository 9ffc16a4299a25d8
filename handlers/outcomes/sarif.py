"""SARIF 2.1.0, the findings of static analysis, as a `lint_result` and as a `review_verdict`.

The log is read twice: first the rules, files and invocations, because a result refers to them and may precede them; then
the results, of which only the most severe are kept.
"""

import re
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.outcomes.findings import (
    LONGEST_NAME,
    LONGEST_TEXT,
    MOST_FINDINGS,
    Gaps,
    NotAReport,
    Pieces,
    fitting,
)
from runward.handlers.outcomes.sarif_run import (
    LEVEL,
    LOCATION,
    MATTERING,
    MESSAGE,
    OUTSIDE,
    REFERENCE,
    RUN,
    Configurations,
    Descriptors,
    Object,
    Places,
    message_text,
    number_in,
    object_in,
    objects_in,
    path_below,
    text_in,
)
from runward.handlers.outcomes.sarif_stream import (
    MOST_KEPT,
    NUMBER,
    TEXT,
    Event,
    ListOf,
    SarifStream,
    Shape,
    Word,
)

USUAL: Final = "lint_result"
OTHER: Final = "review_verdict"

VERSION: Final = "2.1.0"
MOST_RUNS: Final = 1000
_MOST_PLACES: Final = 8
"""Locations of a result that are looked through for one in a file."""

WHOLE: Final = "whole"
"""The key of a finding's absolute path, until it is `placed`."""

_SEVERITIES: Final = {"error": "high", "warning": "medium", "note": "low", "none": "info"}
_ORDER: Final = {level: place for place, level in enumerate(_SEVERITIES)}
_RESULT: Final[Shape] = {
    "kind": Word(("pass", "open", "informational", "notApplicable", "review", "fail")),
    "level": LEVEL,
    "rank": NUMBER,
    "ruleId": TEXT,
    "ruleIndex": NUMBER,
    "rule": REFERENCE,
    "message": MESSAGE,
    "baselineState": Word(("new", "unchanged", "updated", "absent")),
    "suppressions": ListOf({"status": Word(("accepted", "underReview", "rejected"))}),
    "provenance": {"invocationIndex": NUMBER},
    "locations": ListOf(
        {"physicalLocation": {"artifactLocation": LOCATION, "region": {"startLine": NUMBER}}}, _MOST_PLACES
    ),
}
_NO_FINDING: Final = ("pass", "notApplicable")
_INLINE: Final = "inlineExternalProperties"
_POINTER: Final = re.compile(rf"sarif:/{_INLINE}/([0-9]{{1,9}})")


class _Outside:
    """Parts of runs that the log has outside of them. They count as if they were in the runs that refer to them (3.13.5, 3.15).

    Many runs may refer to one part. `sizes` are the bytes that each takes, so that their sum for all runs is bounded, too.
    """

    def __init__(self, parts: Sequence[Object], sizes: Sequence[int]) -> None:
        self._parts, self._sizes, self._left = parts, sizes, MOST_KEPT
        guids = ((text_in(part, "guid").lower(), number) for number, part in enumerate(parts))
        self._by_guid = {guid: number for guid, number in guids if guid}
        self._used: set[tuple[int, str]] = set()
        self._is_shared = False
        self.run_of: dict[int, int] = {}
        """The number of the run that the results of a part belong to."""

    def joined(self, described: Object, run: int) -> Object:
        """The run with this number, with all its parts. What is in other files is left of its references."""
        whole, elsewhere = {**described}, dict[str, JsonValue]()
        for key, references in object_in(described, "externalPropertyFileReferences").items():
            listed = references if isinstance(references, list) else [references]
            located = [self._find(each, key) if isinstance(each, dict) else None for each in listed]
            elsewhere[key] = [
                each
                for each, number in zip(listed, located, strict=True)
                if number is None and each is not None
            ]
            numbers = dict.fromkeys(each for each in located if each is not None)
            for number in numbers:
                self._use(number, key, run)
            if numbers:
                _add_parts(whole, key, [self._parts[number][key] for number in numbers])
        return {**whole, "externalPropertyFileReferences": elsewhere}

    def _find(self, reference: Object, key: str) -> int | None:
        """The number of the part that a reference is to, if the part has this. None if it is in another file, or nowhere."""
        uri = text_in(object_in(reference, "location"), "uri")
        pointer = _POINTER.fullmatch(uri)
        by_guid = None if uri else self._by_guid.get(text_in(reference, "guid").lower())
        number = by_guid if pointer is None else int(pointer[1])
        has_it = number is not None and number < len(self._parts) and self._parts[number].get(key) is not None
        return number if has_it else None

    def _use(self, number: int, key: str, run: int) -> None:
        self._used.add((number, key))
        # Many runs may refer to one part, which is copied into each. So its size counts for each of them.
        self._left -= self._sizes[number]
        if self._left < 0:
            raise NotAReport(f"is a SARIF log whose runs share more than {MOST_KEPT >> 20} MiB")
        if key == "results":
            self._is_shared |= self.run_of.setdefault(number, run) != run

    def gaps(self) -> Iterator[str]:
        """What of the parts is not counted."""
        parts = enumerate(self._parts)
        if any(part.get(key) and (at, key) not in self._used for at, part in parts for key in MATTERING):
            yield "parts of a run are outside of it, and no run refers to them"
        if self._is_shared:
            yield "several runs share results, which are counted once"


def _add_parts(whole: dict[str, JsonValue], key: str, parts: Sequence[JsonValue]) -> None:
    """Add parts to a run as if they had been in it."""
    tool = dict(object_in(whole, "tool"))
    if key == "results":
        whole[key] = True
    elif key == "driver":
        driver = dict(object_in(tool, key))
        for each in parts:
            driver |= {} if not isinstance(each, dict) else {k: v for k, v in each.items() if v is not None}
        whole["tool"] = tool | {key: driver}
    else:
        place = tool if key == "extensions" else whole
        own = place.get(key)
        lists = [each for each in (own, *parts) if isinstance(each, list)]
        place[key] = [item for each in lists for item in each]
        whole["tool"] = tool


class _Run:
    """One run of a log: what its results refer to, and why it may prove nothing."""

    def __init__(self, described: Object) -> None:
        tool = object_in(described, "tool")
        self.name = text_in(object_in(tool, "driver"), "name")
        self._rules = Descriptors(tool, "rules")
        self._places = Places(described)
        invocations = objects_in(described, "invocations")
        self._configurations = Configurations(self._rules, invocations, "ruleConfigurationOverrides")
        self.gaps = [*_missing(described), *_unfinished(tool, invocations)]

    def severity(self, result: Object) -> tuple[str, float]:
        """The level and the rank of a result."""
        rule = self._rules.find(_rule(result))
        invocation = number_in(object_in(result, "provenance"), "invocationIndex")
        return (
            self._configurations.level(result, rule, invocation),
            self._configurations.rank(result, rule, invocation),
        )

    def finding(self, result: Object, level: str) -> dict[str, JsonValue]:
        """A result as a finding of an outcome."""
        rule = _rule(result)
        descriptor = self._rules.find(rule)
        category = text_in(rule, "id") or (
            "" if descriptor is None else text_in(self._rules.at(descriptor), "id")
        )
        text = message_text(object_in(result, "message"), self._rules, descriptor)
        finding: dict[str, JsonValue] = {
            "severity": _SEVERITIES[level],
            "category": category[:LONGEST_NAME] or "unknown",
            "description": text[:LONGEST_TEXT],
        }
        self._add_place(finding, result)
        return finding

    def _add_place(self, finding: dict[str, JsonValue], result: Object) -> None:
        """Add the first place that has a path below the sources, else the first place of all."""
        places = [object_in(each, "physicalLocation") for each in objects_in(result, "locations")]
        located = [(self._places.of(object_in(each, "artifactLocation")), each) for each in places]
        located = [(place, each) for place, each in located if place.path or place.whole]
        for place, each in sorted(located, key=lambda one: one[0].path is None)[:1]:
            line = number_in(object_in(each, "region"), "startLine") or 0
            finding |= {key: value for key, value in (("file", place.path), (WHOLE, place.whole)) if value}
            if line >= 1:
                finding["line"] = line


def placed(outcome: dict[str, JsonValue], home: str | None) -> dict[str, JsonValue]:
    """The outcome with paths relative to `home`, the directory that was checked, where that is known and they are below it."""
    findings = outcome.get("findings")
    if isinstance(findings, list):
        return outcome | {"findings": [_placed(each, home) for each in findings if isinstance(each, dict)]}
    return outcome


def _placed(finding: dict[str, JsonValue], home: str | None) -> JsonValue:
    finding = dict(finding)
    whole = finding.pop(WHOLE, None)
    path = path_below(whole, home) if isinstance(whole, str) and home is not None else None
    if path is not None:
        finding["file"] = path
    elif "file" not in finding and "line" in finding:
        finding["evidence"] = f"{whole}:{finding.pop('line')}"
    return finding


def _rule(result: Object) -> Object:
    """The reference to the rule of a result, which has a short form, too (3.27.5 to 3.27.7)."""
    short = {"id": result.get("ruleId"), "index": result.get("ruleIndex")}
    return {**object_in(result, "rule"), **{key: value for key, value in short.items() if value is not None}}


def _missing(described: Object) -> list[str]:
    """What of a run is not in its log."""
    # An array of results that is there, even an empty one, shows that the run was scanned (3.14.23).
    lacking = [] if described.get("results") else ["a run has no results: nothing shows that it was scanned"]
    external = object_in(described, "externalPropertyFileReferences")
    other = [each for each in MATTERING if external.get(each) not in (None, [])]
    return lacking + (
        [f"{', '.join(other)} of a run are in other files, which are not read"] if other else []
    )


def _unfinished(tool: Object, invocations: list[Object]) -> list[str]:
    """The signs that the tool did not do its work."""
    reasons: list[str] = []
    descriptors = Descriptors(tool, "notifications")
    configurations = Configurations(descriptors, invocations, "notificationConfigurationOverrides")
    for number, invocation in enumerate(invocations):
        if invocation.get("executionSuccessful") is False:
            reasons.append("the scan did not finish")
        for key in ("toolExecutionNotifications", "toolConfigurationNotifications"):
            for each in objects_in(invocation, key):
                descriptor = descriptors.find(object_in(each, "descriptor"))
                if configurations.level(each, descriptor, number) == "error":
                    text = message_text(object_in(each, "message"), descriptors, descriptor)
                    reasons.append(f"the scan reports an error: {text[:LONGEST_NAME]}")
    return reasons


def outcomes_of_sarif(pieces: Pieces) -> Mapping[str, dict[str, JsonValue]]:
    """The outcome of each kind that the log can become. Raises `NotAReport`.

    A review requests changes if there are errors, or if nothing shows that the scan was done. If there are only warnings,
    it approves with suggestions. The findings still need `placed`.
    """
    log = _log(pieces)
    levels = dict.fromkeys(_SEVERITIES, 0)
    suppressed = 0
    kept: list[tuple[int, float, int, dict[str, JsonValue]]] = []  # in the order of what is kept
    for number, (run, result) in enumerate(_results(pieces, log)):
        # Such a result was found by an earlier scan, or is not a finding.
        if result.get("baselineState") == "absent" or result.get("kind") in _NO_FINDING:
            continue
        if _is_suppressed(result):
            suppressed += 1
            continue
        level, rank = run.severity(result)
        levels[level] += 1
        place = (_ORDER[level], -rank, number)
        # The log may have any number of results, so only the most severe are kept while it is read.
        if len(kept) < MOST_FINDINGS or place < kept[-1]:
            insort(kept, (*place, run.finding(result, level)))
            del kept[MOST_FINDINGS:]
    return _outcomes(log.runs, Gaps(log.gaps), levels, suppressed, [each[-1] for each in kept])


def _is_suppressed(result: Object) -> bool:
    """Whether all suppressions of a result are accepted, which they are if they don't say otherwise (3.27.23, 3.35.3)."""
    suppressions = objects_in(result, "suppressions")
    return bool(suppressions) and all(text_in(each, "status") in ("", "accepted") for each in suppressions)


class _Log(NamedTuple):
    """The runs without their results, the parts of them that are outside, and what the log leaves open."""

    runs: Sequence[_Run]
    outside: _Outside
    gaps: list[str]


def _log(pieces: Pieces) -> _Log:
    runs: list[Object] | None = None
    parts: list[Object] = []
    sizes: list[int] = []
    stream = SarifStream(pieces)
    for key, first in stream.members(stream.begin(), "", "version", "runs", _INLINE):
        if key == "version":
            version = stream.kept(first, TEXT, key)
            if version not in (None, VERSION):
                raise NotAReport(f"is not a SARIF log of version {VERSION}, but of {str(version)[:40]!r}")
        elif key == _INLINE:
            for number, each in () if first[0] == "null" else stream.items(first, key):
                before = stream.left
                parts.append(_kept_object(stream, each, OUTSIDE, f"{key}[{number}]"))
                sizes.append(before - stream.left)
        elif first[0] == "start_array":
            runs = []
            for number, each in stream.items(first, key):
                if number == MOST_RUNS:
                    raise NotAReport(f"is a SARIF log with more than {MOST_RUNS} runs")
                runs.append(_kept_object(stream, each, RUN, f"runs[{number}]"))
    stream.rest()
    if runs is None:
        raise NotAReport("is not a SARIF log: it has no list of runs")
    outside = _Outside(parts, sizes)
    whole = [_Run(outside.joined(described, number)) for number, described in enumerate(runs)]
    gaps = [] if runs else ["there is no run"]
    return _Log(whole, outside, [*gaps, *outside.gaps(), *(gap for run in whole for gap in run.gaps)])


def _kept_object(stream: SarifStream, first: Event, shape: Shape, place: str) -> Object:
    described = stream.kept(first, shape, place)
    return described if isinstance(described, dict) else {}


def _results(pieces: Pieces, log: _Log) -> Iterator[tuple[_Run, Object]]:
    """The results of all runs. What can't be read is added to the gaps."""
    # The log is read a second time: a result refers to rules and files that may come after it.
    stream = SarifStream(pieces)
    for key, first in stream.members(stream.begin(), "", "runs", _INLINE):
        for number, each in () if first[0] == "null" else stream.items(first, key):
            at = number if key == "runs" else log.outside.run_of.get(number)
            if at is None or each[0] == "null":
                stream.pass_over(each)
            elif at >= len(log.runs):
                # A run with this number was not there the first time.
                raise NotAReport("changes while it is read")
            else:
                for result in _results_in(stream, each, f"{key}[{number}]", log.gaps):
                    yield log.runs[at], result
    stream.rest()


def _results_in(stream: SarifStream, first: Event, place: str, gaps: list[str]) -> Iterator[Object]:
    """The results of a run, or of a part of one, that begins with `first`."""
    for _, results in stream.members(first, place, "results"):
        for at, result in () if results[0] == "null" else stream.items(results, f"{place}.results"):
            # What may be kept is bounded for each result, and not for all of them.
            stream.renew()
            if result[0] == "start_map":
                yield _kept_object(stream, result, _RESULT, f"{place}.results[{at}]")
            else:
                stream.pass_over(result)
                gaps.append("a result is not an object, so it is not read")


def _outcomes(
    runs: Sequence[_Run],
    gaps: Gaps,
    levels: Mapping[str, int],
    suppressed: int,
    findings: Sequence[dict[str, JsonValue]],
) -> Mapping[str, dict[str, JsonValue]]:
    total, errors, warnings = sum(levels.values()), levels["error"], levels["warning"]
    fitted = fitting(findings, "description")
    counts = f"{errors} errors, {warnings} warnings"
    counts += f", {suppressed} suppressed" if suppressed else ""
    if len(fitted) < total:
        counts += f"; {len(fitted):,} of {total:,} findings are kept, the most severe first"
    outcome: dict[str, JsonValue] = {
        "summary": gaps.summary(counts),
        "passed": gaps.verdict(errors),
        "findings": fitted,
        "finding_count": total,
    }
    approved = "APPROVE_WITH_SUGGESTIONS" if warnings else "APPROVE"
    verdict = approved if outcome["passed"] else "REQUEST_CHANGES"
    lint: dict[str, JsonValue] = {"errors": errors, "warnings": warnings}
    tools = ", ".join(dict.fromkeys(run.name for run in runs if run.name))
    if tools:
        lint["tool"] = tools[:LONGEST_TEXT]
    return {
        USUAL: {"outcome_kind": USUAL, **outcome, **lint},
        OTHER: {"outcome_kind": OTHER, **outcome, "verdict": verdict},
    }
