"""Everything that the operator wrote: every complaint, and what the running daemon refused of it."""

from collections.abc import Iterator
from typing import Final

from runward.config.counting import counted
from runward.config.problem import printable
from runward.daemon.doctor.findings import Finding, Installation, Patience, Result
from runward.daemon.host.report import read_report
from runward.daemon.store.ownership import holder

_TAKEN_BY_ITSELF: Final = (
    "correct them, and the daemon takes them over by itself; a restart takes what can't change"
)


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Every complaint, or which file is valid."""
    for problem in installation.problems:
        place = ":".join(
            str(each) for each in (problem.file, problem.line, problem.column) if each is not None
        )
        result: Result = "failed" if problem.severity == "error" else "warning"
        yield Finding(result, printable(f"{place}: {problem.message}"), problem.fix)
    refused = _refused(installation)
    for each, fix in refused:
        yield Finding("failed", f"the running daemon uses older settings: {each}", fix)
    if installation.is_broken:
        said = "the settings can't be used: the other checks use the defaults"
        yield Finding("warning", said, "fix them, then run `runward doctor` again")
    elif not installation.problems and not refused:
        settings = installation.settings
        yield Finding(
            "ok",
            f"no complaints; {counted(len(settings.roots), 'root', 'roots')}, state in {settings.state_dir}",
        )


def _refused(installation: Installation) -> list[tuple[str, str]]:
    """What the running daemon says of newer settings, apart from what is said here anyway, with the fix."""
    report = read_report(installation.state) if holder(installation.state) is not None else None
    if report is None or report.settings is None:
        return []
    known = {problem.render() for problem in installation.problems}
    store_fix = report.settings.store_fix
    fix = _TAKEN_BY_ITSELF if store_fix is None else f"{store_fix}; the daemon then takes them over by itself"
    return [(each, fix) for each in report.settings.refused if each not in known]
