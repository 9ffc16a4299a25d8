"""What the CTCP contracts say of a run directory, as facts about the ten entries of the profile `ctcp`."""

from collections.abc import Sequence

from runward.config.ctcp_profile import BY_PATH, CTCP
from runward.daemon.rundir.artifacts import fact_at
from runward.daemon.rundir.ctcp_run import check_run
from runward.handlers.ctcp.rules import Report
from runward.handlers.model.contracts import FileFact, RuleFact


def ctcp_facts(root: int, paths: Sequence[str]) -> list[FileFact]:
    """A fact for each entry, by the paths of their first files. Raises `OSError` where nothing is known."""
    letters = [BY_PATH[path].id for path in paths]
    reports = check_run(root, letters)
    return [
        _fact(fact_at(root, path), path, reports[letter]) for path, letter in zip(paths, letters, strict=True)
    ]


def _fact(first: FileFact, path: str, report: Report) -> FileFact:
    """The fact about an entry whose first file has the state `first`. Each error of its contract is a broken rule."""
    if not report.has_errors:
        state = FileFact("excused") if first.state == "absent" else first._replace(state="file")
        return state._replace(rules=(RuleFact("profile", path, True, f"holds to its contract of {CTCP}"),))
    broken = tuple(
        RuleFact(each.rule, each.path, False, each.message, each.line)
        for each in report.findings()
        if each.severity == "error"
    )
    return first._replace(state="absent" if first.state == "absent" else "unfit", rules=broken)
