"""The section "Expected artifacts": a contract next to its verification (ADR-0029, section 8).

It takes both as the JSON that `--json` prints, so that a session of the store and a directory that is
verified now look alike. Without a contract there is no section: silence beats noise.
"""

from collections.abc import Mapping

import click

from runward.config.json_value import JsonValue
from runward.daemon.cli.terminal.output import align, coloured, safe, size, width

_FOR_THE_CONTRACT = "run.failed.missing_artifact"
_WIDE = 44
"""Where the verdict is in the section's first line."""


def panel(contract: JsonValue, verification: JsonValue, why: Mapping[str, str]) -> list[str]:
    """The section's lines; none without a contract.

    `why` gives the reason, by path, why a file doesn't count as delivered, if that is known.
    """
    if not isinstance(contract, dict) or not isinstance(contract.get("expected"), list):
        return []
    expected = [each for each in _list(contract, "expected") if isinstance(each, dict)]
    verdict = str(verification["status"]) if isinstance(verification, dict) else "not yet"
    lines = [f"{'Expected artifacts':<{_WIDE}}Verified: {coloured(verdict)}", ""]
    if not expected:
        return [*lines, "  nothing is expected"]
    sizes, missing = _sizes(verification), _missing(verification)
    rows = [
        (
            "REQUIRED" if entry["required"] else "OPTIONAL",
            safe(str(entry["id"])),
            safe(_path(entry)),
            _state(entry, sizes, missing, why),
        )
        for entry in expected
    ]
    indent = " " * (width(rows[0][0]) + 4)
    for line, entry in zip(align(rows), expected, strict=True):
        lines.append(f"  {line}")
        if entry["description"]:
            lines.append(f"{indent}description: {safe(str(entry['description']))}")
        lines += [f"{indent}declared by: {safe(str(entry['source']))}", ""]
    return lines[:-1]


def disagreement(status: str, reason_code: str, verification: JsonValue) -> str | None:
    """What to say if the status and the verification contradict each other (ADR-0029, section 7)."""
    if not isinstance(verification, dict) or status == "running" or reason_code == _FOR_THE_CONTRACT:
        return None
    verdict = verification["status"]
    if status == "completed":
        return "it completed, but optional artifacts are missing" if verdict == "warning" else None
    if verdict == "failed":
        missing = ", ".join(
            f"{each['id']} ({each['path']})"
            for each in _list(verification, "missing_required")
            if isinstance(each, dict)
        )
        return f"it {_ENDED[status]} for another reason; it also did not deliver {missing or 'its artifacts'}"
    return f"it {_ENDED[status]}, although all required artifacts are there"


_ENDED = {
    "failed": "failed",
    "timed_out": "timed out",
    "aborted": "was aborted",
    "cancelled": "was cancelled",
}


def _sizes(verification: JsonValue) -> dict[str, int] | None:
    """What was produced, by id, with its size in bytes; None if nothing was verified yet."""
    if not isinstance(verification, dict):
        return None
    found: dict[str, int] = {}
    for each in _list(verification, "produced"):
        if isinstance(each, dict) and isinstance(each["size"], int):
            entry = str(each["id"]).partition(":")[0]  # the files of a glob are its entry's id and their path
            found[entry] = found.get(entry, 0) + each["size"]
    return found


def _missing(verification: JsonValue) -> frozenset[str]:
    """The ids of what was not delivered."""
    if not isinstance(verification, dict):
        return frozenset()
    lists = (_list(verification, "missing_required"), _list(verification, "missing_optional"))
    return frozenset(str(each["id"]) for missing in lists for each in missing if isinstance(each, dict))


def _path(entry: Mapping[str, JsonValue]) -> str:
    """Where the artifact is expected: its path, its glob, or the kind of outcome."""
    return str(entry.get("path") or entry.get("glob") or f"outcome:{entry.get('outcome_kind')}")


def _state(
    entry: Mapping[str, JsonValue],
    sizes: Mapping[str, int] | None,
    missing: frozenset[str],
    why: Mapping[str, str],
) -> str:
    if sizes is None:
        return "not yet"
    if entry["id"] not in missing:
        found = sizes.get(str(entry["id"]))
        return click.style("OK" if found is None else f"OK ({size(found)})", fg="green")
    reason = why.get(_path(entry), "absent")
    absent, _, near = reason.partition("; ")
    said = f"NOT DELIVERED ({safe(reason)})"
    if absent == "absent":
        said = f"MISSING ({safe(near)})" if near else "MISSING"
    return click.style(said, fg="red" if entry["required"] else "yellow")


def _list(value: Mapping[str, JsonValue], key: str) -> list[JsonValue]:
    found = value.get(key)
    return found if isinstance(found, list) else []
