"""Installations for the doctor to examine."""

from collections.abc import Mapping
from pathlib import Path

from tests.waiting import PATIENCE_S

from runward.config.problem import Problem
from runward.config.root import Root
from runward.config.settings import Settings
from runward.daemon.doctor.checks import Examine
from runward.daemon.doctor.findings import Finding, Installation, Patience


def installation(
    state: Path,
    *roots: Root,
    problems: tuple[Problem, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Installation:
    """One whose state directory is `state`."""
    settings = Settings(str(state), roots=roots)
    return Installation(settings, False, problems, environment or {"PATH": "/usr/bin:/bin"})


def root(path: Path, layout: str = "native") -> Root:
    """A root that is called after its directory."""
    return Root(path.name, str(path), layout, "live")


def findings(examine: Examine, examined: Installation) -> list[Finding]:
    """What a check finds, with all the time in the world."""
    return list(examine(examined, Patience(5 * PATIENCE_S)))


def results(found: list[Finding]) -> list[str]:
    """The results alone."""
    return [each.result for each in found]
