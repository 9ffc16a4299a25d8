"""SARIF, the findings of static analysis, as a `lint_result` or, if that is asked for, a `review_verdict`."""

from collections.abc import Iterator
from typing import Final

from runward.config.json_value import JsonValue

USUAL: Final = "lint_result"
OTHER: Final = "review_verdict"
MOST_FINDINGS: Final = 200
_SEVERITIES: Final = {"error": "high", "warning": "medium", "note": "low", "none": "info"}
_LONGEST: Final = 500


def outcome_of_sarif(value: JsonValue, kind: str = USUAL) -> dict[str, JsonValue] | str:
    """The outcome of this kind in the log, or why it is not one.

    A review requests changes if there are errors. If there are only warnings, it approves with suggestions.
    """
    runs = value.get("runs") if isinstance(value, dict) else None
    if not isinstance(runs, list):
        return "is not a SARIF log: it has no list of runs"
    results = [(run, each) for run in runs if isinstance(run, dict) for each in _list(run.get("results"))]
    levels = [_text(each.get("level")) or "warning" for _, each in results if isinstance(each, dict)]
    errors, warnings = levels.count("error"), levels.count("warning")
    tools = [tool for run in runs if isinstance(run, dict) and (tool := _tool(run))]
    outcome: dict[str, JsonValue] = {
        "outcome_kind": kind,
        "summary": f"{errors} errors, {warnings} warnings",
        "passed": errors == 0,
        "findings": [_finding(each) for _, each in results[:MOST_FINDINGS] if isinstance(each, dict)],
    }
    if kind == OTHER:
        approved = "APPROVE_WITH_SUGGESTIONS" if warnings else "APPROVE"
        return outcome | {"verdict": "REQUEST_CHANGES" if errors else approved}
    outcome |= {"errors": errors, "warnings": warnings}
    if tools:
        outcome["tool"] = ", ".join(dict.fromkeys(tools))[:_LONGEST]
    return outcome


def _tool(run: dict[str, JsonValue]) -> str:
    tool = run.get("tool")
    driver = tool.get("driver") if isinstance(tool, dict) else None
    return _text(driver.get("name")) if isinstance(driver, dict) else ""


def _finding(result: dict[str, JsonValue]) -> dict[str, JsonValue]:
    message = result.get("message")
    said = _text(message.get("text")) if isinstance(message, dict) else ""
    finding: dict[str, JsonValue] = {
        "severity": _SEVERITIES.get(_text(result.get("level")) or "warning", "medium"),
        "category": _text(result.get("ruleId")) or "unknown",
        "description": said[:_LONGEST],
    }
    for path, line in _places(result):
        if path and not path.startswith("/") and ":" not in path and ".." not in path.split("/"):
            finding["file"] = path
            if line is not None:
                finding["line"] = line
        break
    return finding


def _places(result: dict[str, JsonValue]) -> Iterator[tuple[str, int | None]]:
    for each in _list(result.get("locations")):
        place = each.get("physicalLocation") if isinstance(each, dict) else None
        if isinstance(place, dict):
            file, region = place.get("artifactLocation"), place.get("region")
            line = region.get("startLine") if isinstance(region, dict) else None
            is_line = isinstance(line, int) and not isinstance(line, bool) and line >= 1
            path = _text(file.get("uri")) if isinstance(file, dict) else ""
            yield path, line if is_line and isinstance(line, int) else None


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
