"""Reports of tools, JUnit's XML and SARIF: what a run leaves, read as outcomes."""

from collections.abc import Mapping
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.outcomes.findings import Pieces

REPORTS: Final = (".xml", ".sarif")
"""How the names of reports end."""


def outcomes_of(path: str, pieces: Pieces) -> Mapping[str, dict[str, JsonValue]]:
    """The outcomes that a report can become, by kind, the usual one first. Raises `NotAReport`.

    The libraries are loaded only if there is a report.
    """
    if path.endswith(".xml"):
        from runward.handlers.outcomes import junit

        return junit.outcomes_of_junit(pieces)
    from runward.handlers.outcomes import sarif

    return sarif.outcomes_of_sarif(pieces)
