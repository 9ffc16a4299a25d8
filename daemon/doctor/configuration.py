"""Settings, playbooks and agent profiles: every complaint about them."""

from collections.abc import Iterator

from runward.config.counting import counted
from runward.config.problem import printable
from runward.daemon.doctor.findings import Finding, Installation, Patience, Result


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Every complaint, or which file is valid."""
    for problem in installation.problems:
        place = ":".join(
            str(each) for each in (problem.file, problem.line, problem.column) if each is not None
        )
        result: Result = "failed" if problem.severity == "error" else "warning"
        yield Finding(result, printable(f"{place}: {problem.message}"), problem.fix)
    if installation.is_broken:
        said = "the settings can't be used: the other checks use the defaults"
        yield Finding("warning", said, "fix them, then run `runward doctor` again")
    elif not installation.problems:
        settings = installation.settings
        yield Finding(
            "ok",
            f"no complaints; {counted(len(settings.roots), 'root', 'roots')}, state in {settings.state_dir}",
        )
