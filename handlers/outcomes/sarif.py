"""SARIF, the findings of static analysis, as a `lint_result`."""

from collections.abc import Iterator
from typing import Final

from runward.config.json_value import JsonValue

MOST_FINDINGS: Final = 200
_SEVERITIES: Final = {"error": "high", "warning": "medium", "note": "low", "none": "info"}
_LONGEST: Final = 500


def outcome_of_sarif(value: JsonValue) -> dict[str, JsonValue] | str:
    """The outcome in the log, or why it is not one."""
    runs = value.get("runs") if isinstance(value, dict) else None
    if not isinstance(runs, list):
        return "is not a SARIF log: it has no list of runs"
    results = [(run, each) for run in runs if isinstance(run, dict) for each in _list(run.get("results"))]
    levels = [_text(each.get("level")) or "warning" for _, each in results if isinstance(each, dict)]
    errors, warnings = levels.count("error"), levels.count("warning")
    tools = [tool for run in runs if isinstance(run, dict) and (tool := _tool(run))]
    outcome: dict[str, JsonValue] = {
        "outcome_kind": "lint_result",
        "summary": f"{errors} errors, {warnings} warnings",
        "passed": errors == 0,
        "errors": errors,
        "warnings": warnings,
        "findings": [_finding(each) for _, each in results[:MOST_FINDINGS] if isinstance(each, dict)],
    }
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
