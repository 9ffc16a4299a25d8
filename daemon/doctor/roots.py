"""The roots: whether they exist, and may be read; for native ones also written, for their journals."""

import os
from collections.abc import Iterator, Mapping

from runward.config.settings import Root
from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.doctor.unit import how_to
from runward.daemon.host.report import Report, read_report
from runward.daemon.store.ownership import UNREAD, holder, how_to_start_runs


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Each root, by looking and by what the running daemon says of it."""
    report = read_report(installation.state) if holder(installation.state) is not None else None
    told = _told(report)
    if not installation.settings.roots:
        yield Finding("warning", "there are no roots: nothing is watched", "add [[roots]] to the settings")
    for root in installation.settings.roots:
        patience.left()
        found = _examine(root, installation.settings.state_dir)
        problem = told.get(root.path)
        if found.result == "ok" and problem:
            how = how_to_start_runs(installation.settings.state_dir) if problem.startswith(UNREAD) else None
            said = f"root {root.name}: the daemon reports: {problem}"
            found = Finding("failed" if how else "warning", said, how or "see `runward log`")
        yield found
    if report is not None:
        known = {root.path for root in report.roots}
        unknown = [root.name for root in installation.settings.roots if root.path not in known]
        if unknown:
            said = f"the running daemon doesn't know {', '.join(unknown)}: it runs under other settings"
            unit = how_to("restart", installation, patience, report.pid)
            restart = f" ({unit})" if unit else ""
            fix = f"restart it with these{restart}, or give this command those of the daemon (RUNWARD_CONFIG)"
            if installation.is_anothers:
                fix = f"`{installation.as_owner('doctor')}` reads the settings of the daemon's user"
            yield Finding("warning", said, fix)


def _told(report: Report | None) -> Mapping[str, str | None]:
    return {} if report is None else {root.path: root.problem for root in report.roots}


def _examine(root: Root, state: str) -> Finding:
    if not os.path.lexists(root.path):
        if root.path.startswith(f"{state}/"):
            return Finding(
                "ok", f"root {root.name} ({root.path}) doesn't exist yet; the first daemon creates it"
            )
        fix = "create it, or correct its path; the daemon notices when it appears"
        return Finding("warning", f"root {root.name} ({root.path}) doesn't exist", fix)
    if not os.path.isdir(root.path):
        return Finding("failed", f"root {root.name} ({root.path}) is not a directory", "correct its path")
    try:
        with os.scandir(root.path) as entries:
            next(entries, None)
    except OSError as error:
        said = f"root {root.name} ({root.path}) can't be read: {error.strerror}"
        return Finding("failed", said, "give this user read access, or run the daemon as its owner")
    if root.layout == "native" and not os.access(root.path, os.W_OK | os.X_OK):
        said = f"root {root.name} ({root.path}) can't be written: runs there get no journals"
        return Finding("warning", said, "give this user write access")
    return Finding("ok", f"root {root.name} ({root.path}, {root.layout}) can be read")
