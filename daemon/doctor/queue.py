"""Open work: held jobs, refused requests, what is degraded, files that can't be used."""

import time
from collections.abc import Iterator
from typing import Final

from runward.config.counting import counted
from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.host.report import read_report
from runward.daemon.inbox.spool import INBOX, REJECTED, SUFFIX
from runward.daemon.store import reading, reading_problems, reading_queue
from runward.daemon.store.ownership import holder, how_to_start_daemon

LONG_S: Final = 300.0
"""Seconds from which on a job waits for long, with a daemon that runs."""

SHOWN: Final = 5
"""Problems that are named; more are only counted."""


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """What the store, the inbox and the running daemon's own report say."""
    is_up = holder(installation.state) is not None
    found: list[Finding] = []
    try:
        found += _of_store(installation, is_up)
    except reading.StoreUnreadable as error:
        found.append(Finding("skipped", str(error)))
    found += _of_requests(installation, is_up)
    report = read_report(installation.state) if is_up else None
    if report is not None:
        found += [Finding("warning", f"degraded: {each}", "see `runward log`") for each in report.degraded]
    yield from found or [Finding("ok", "nothing is held, refused or degraded")]


def _of_store(installation: Installation, is_up: bool) -> Iterator[Finding]:
    with reading.reading(installation.settings.state_dir) as connection:
        held = reading_queue.held_by_reason(connection)
        figures = reading_queue.queue_figures(connection, time.time())
        problems = reading_problems.problems(connection)
    for reason, count in held:
        fix = "fix the cause, then `runward queue retry --all`; `runward queue` shows them"
        yield Finding(
            "failed", f"{counted(count, 'job is', 'jobs are')} held: {reason or 'no reason given'}", fix
        )
    oldest = figures.oldest_waiting
    if is_up and oldest is not None and time.time() - oldest > LONG_S:
        said = f"a job has been waiting for {time.time() - oldest:.0f} s; {figures.waiting} wait in all"
        yield Finding("warning", said, "`runward queue` shows them, `runward why` says what they wait for")
    for problem in problems[:SHOWN]:
        place = problem.path if problem.line is None else f"{problem.path}:{problem.line}"
        yield Finding("warning", f"{place}: {problem.message}", problem.fix)
    if len(problems) > SHOWN:
        said = f"{counted(len(problems) - SHOWN, 'more file', 'more files')} can't be used"
        yield Finding("warning", said, "`runward status --json` has them all")


def _of_requests(installation: Installation, is_up: bool) -> Iterator[Finding]:
    refused = _requests(installation, REJECTED)
    if refused:
        place = installation.state / REJECTED
        fix = f"`runward log` says why (inbox.rejected); then remove what is in {place}"
        yield Finding(
            "warning",
            f"{counted(refused, 'request was refused and is', 'requests were refused and are')} in {place}",
            fix,
        )
    waiting = _requests(installation, INBOX)
    if waiting and not is_up:
        yield Finding(
            "warning",
            f"{counted(waiting, 'request waits', 'requests wait')} for a daemon",
            f"start `{how_to_start_daemon(installation.settings.state_dir)}`",
        )


def _requests(installation: Installation, name: str) -> int:
    try:
        return sum(each.suffix == SUFFIX for each in (installation.state / name).iterdir())
    except FileNotFoundError:
        return 0
