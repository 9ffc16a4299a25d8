"""The section "Expected artifacts" for people (ADR-0029, section 8). Without a contract there is none."""

from collections.abc import Mapping
from typing import Final

import click

from runward.config.json_value import JsonValue
from runward.daemon.cli.terminal.output import align, coloured, safe, width
from runward.daemon.views.outcomes import ExpectedArtifact, expected_artifacts
from runward.daemon.views.text import size

_WIDE: Final = 44
"""Where the verdict is in the section's first line."""


def panel(contract: JsonValue, verification: JsonValue, why: Mapping[str, str]) -> list[str]:
    """The section's lines; none without a contract.

    `why` gives the reason, by path, why a file doesn't count as delivered, if that is known.
    """
    expected = expected_artifacts(contract, verification, why)
    if expected is None:
        return []
    verdict = str(verification["status"]) if isinstance(verification, dict) else "not yet"
    lines = [f"{'Expected artifacts':<{_WIDE}}Verified: {coloured(verdict)}", ""]
    if not expected:
        return [*lines, "  nothing is expected"]
    rows = [
        ("REQUIRED" if each.is_required else "OPTIONAL", safe(each.id), safe(each.path), _state(each))
        for each in expected
    ]
    indent = " " * (width(rows[0][0]) + 4)
    for line, entry in zip(align(rows), expected, strict=True):
        lines.append(f"  {line}")
        if entry.description:
            lines.append(f"{indent}description: {safe(entry.description)}")
        lines += [f"{indent}declared by: {safe(entry.declared_by)}", ""]
    return lines[:-1]


def _state(entry: ExpectedArtifact) -> str:
    if entry.state == "not yet":
        return "not yet"
    if entry.state == "delivered":
        return click.style("OK" if entry.size is None else f"OK ({size(entry.size)})", fg="green")
    said = "MISSING" if entry.state == "missing" else "NOT DELIVERED"
    if entry.why:
        said = f"{said} ({safe(entry.why)})"
    return click.style(said, fg="red" if entry.is_required else "yellow")
