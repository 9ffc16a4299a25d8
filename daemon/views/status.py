"""The state of the daemon, and what it has to do: the object of `status --json`.

The figures come from the store, and from the daemon's own report in `status.json`. Its lock says whether it is alive.
"""

import json
import os
import shlex
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import Parsed, Severity
from runward.config.settings import Settings
from runward.daemon.configuration.agent_homes import homes_there
from runward.daemon.configuration.complaints import complaints_about, reading_of_names
from runward.daemon.configuration.declared_files import chain_names
from runward.daemon.configuration.settings import changed_files, home_of, working_directory
from runward.daemon.inbox.spool import INBOX, REJECTED, SUFFIX
from runward.daemon.store import reading
from runward.daemon.store.ownership import holder
from runward.daemon.store.tables import (
    actions,
    approvals,
    chain_runs,
    jobs,
    principals,
    problems,
    session_lists,
    triggers,
)
from runward.daemon.store.tables.notices import notices_by_state
from runward.daemon.store.tables.session_lists import unseen_failures
from runward.daemon.store.tables.sessions import SessionRow, session_rows
from runward.daemon.views.daemon_report import report_of, settings_in_report, stalled_s
from runward.daemon.views.needs import ASKED, MOST_PROBLEMS, Need, needs
from runward.daemon.views.text import fields
from runward.daemon.views.today import used_today
from runward.handlers.times import iso

if TYPE_CHECKING:
    from runward.config.chain import Chain
    from runward.daemon.store.tables.triggers import ChainStatusRow
    from runward.daemon.views.usage import Sum


_INOTIFY: Final = "anon_inode:inotify"


def held_watches(pid: int) -> int | None:
    """The inotify watches of the process; None if this user may not know."""
    count, place = 0, f"/proc/{pid}"
    try:
        for descriptor in os.listdir(f"{place}/fd"):
            try:
                if os.readlink(f"{place}/fd/{descriptor}") == _INOTIFY:
                    with open(f"{place}/fdinfo/{descriptor}", "rb") as file:
                        count += file.read().count(b"inotify wd:")
            except FileNotFoundError:
                continue  # closed meanwhile
    except OSError:
        return None
    return count


MOST_RUNNING: Final = 10
"""Running sessions that are shown; more are only counted."""

MOST_NAMED: Final = 10
"""Failures, approvals and agents that are named; more are only counted."""


class Status(NamedTuple):
    """What `--json` prints; for people, the running sessions that began first, and what was used today, if anything."""

    json: dict[str, JsonValue]
    running: list[session_lists.RunningRow]
    used_today: "Sum | None"


def status_of(settings: Settings, now: float) -> Status:
    """The current status."""
    with reading.reading(settings.state_dir) as connection:
        return status_in(connection, settings, now)


def status_in(
    connection: sqlite3.Connection,
    settings: Settings,
    now: float,
    *,
    is_brief: bool = False,
    with_cost: bool = True,
) -> Status:
    """The current status, with what the store says; `usage_today`, which needs prices, only `with_cost`.

    A brief one reads no file that the operator wrote: it counts no chains, and what is wrong with such files only a daemon tells.
    """
    daemon = _daemon_of(settings)
    used = used_today(connection, daemon.settings, now) if with_cost else None
    parts = _parts(connection, daemon, now, used, is_brief=is_brief)
    status = {name: part() for name, part in parts.items()}
    status["needs"] = [each.as_json() for each in needs(status, settings.state_dir)]
    return Status(status, session_lists.running(connection, MOST_RUNNING), used)


def _hooks() -> JsonValue:
    """Whether each agent that is here has Runward's hook."""
    if not homes_there(os.environ, home_of(os.environ), working_directory()):
        return {}
    from runward.daemon.hooks.standing import hooks_here  # what edits settings is imported, too

    return dict(hooks_here(os.environ))


def needs_in(connection: sqlite3.Connection, settings: Settings, now: float) -> Iterator[Need]:
    """What needs a person, as a brief status has it, without the rest of it."""
    parts = _parts(connection, _daemon_of(settings), now, None, is_brief=True)
    return needs({name: parts[name]() for name in ASKED}, settings.state_dir)


class _Daemon(NamedTuple):
    """The running daemon, what it reports, and the settings in force. `pid` is 0 if it is not known."""

    pid: int | None
    report: Mapping[str, JsonValue]
    settings: Settings


def _daemon_of(settings: Settings) -> _Daemon:
    pid = holder(Path(settings.state_dir))
    report = report_of(settings.state_dir, pid)
    # Those of the daemon count: the caller may have other variables, or a file that changed since.
    return _Daemon(pid, report, settings_in_report(report) or settings)


def _parts(
    connection: sqlite3.Connection, daemon: _Daemon, now: float, used: "Sum | None", *, is_brief: bool
) -> "dict[str, Callable[[], JsonValue]]":
    """How each key of the status is found."""
    pid, report, settings = daemon
    chains = None if is_brief else _all_chains(settings)
    statuses = triggers.chain_statuses(connection) if chains else {}
    is_read = not is_brief or "configuration" in report
    configuration = _wrong_configuration(settings, chains, report) if is_read else []
    approvals_waiting = cache(partial(approvals.approvals_waiting, connection))
    agents_waiting = cache(partial(session_lists.waiting_for_answer, connection))
    return {
        "running": lambda: pid is not None,
        "stalled_s": lambda: stalled_s(_number(report.get("told_at")), time.monotonic()),
        "since": lambda: iso(_number(report.get("since"))),
        "pid": lambda: pid or None,
        "elsewhere": lambda: None if pid is not None else _machines_daemon(settings.state_dir),
        "epoch": lambda: reading.epoch(connection),
        "version": lambda: report.get("version"),
        "http": lambda: report.get("http"),
        "studio": lambda: report.get("studio"),
        "sessions": lambda: dict(session_lists.sessions_by_status(connection)),
        "chains": lambda: _chains(chains or (), statuses),
        "chain_runs": lambda: chain_runs.runs_by_status(connection),
        "steps": lambda: chain_runs.steps_by_standing(connection),
        "exchange": lambda: _exchange(settings, connection, report),
        "approvals": approvals_waiting,
        "waiting_approvals": lambda: [
            _approval(each) for each in approvals.open_approvals(connection, MOST_NAMED)
        ],
        "waiting_agents": lambda: _waiting_agents(connection, settings, agents_waiting()),
        "waiting": lambda: approvals_waiting() + len(agents_waiting()),
        "usage_today": lambda: None if used is None else used.as_json(),
        "notices": lambda: notices_by_state(connection),
        "queue": lambda: _queue(connection, now),
        "requests": lambda: {
            "waiting": _files(settings.state_dir, INBOX),
            "rejected": _files(settings.state_dir, REJECTED),
        },
        "coverage": lambda: _coverage(report, pid),
        "lag": lambda: {
            "event_to_verdict_p50_s": report.get("lag_p50_s"),
            "event_to_verdict_p99_s": report.get("lag_p99_s"),
            "awaited_p50_s": report.get("awaited_lag_p50_s"),
            "awaited_p99_s": report.get("awaited_lag_p99_s"),
        },
        "hooks": lambda: {} if is_brief else _hooks(),
        "fences_refused": lambda: report.get("fences_refused"),
        "held_by_reason": lambda: dict(jobs.held_by_reason(connection)),
        "degraded": lambda: report.get("degraded", []),
        "next_due": lambda: _next_due(connection),
        "retention_s": lambda: settings.retention,
        "failures": lambda: _failures(connection, settings, now),
        "settings": lambda: _settings(settings, report),
        "roots": lambda: _roots(settings, report),
        "problems": lambda: [*configuration, *_problems(connection)][:MOST_PROBLEMS],
        "problem_count": lambda: len(configuration) + problems.problem_count(connection),
    }


def _exchange(
    settings: Settings, connection: sqlite3.Connection, report: Mapping[str, JsonValue]
) -> JsonValue:
    """What runs code, or why nothing does, which workers were killed, and how many actions have no result yet.

    None if nobody uses the exchange.
    """
    if not principals.has_principals(connection):
        return None
    why = _why_no_code_runs(settings.exchange.executor.sandbox, report.get("degraded"))
    return {
        "sandbox": settings.exchange.executor.sandbox if why is None else None,
        "sandbox_problem": why,
        "workers_killed": _workers_killed(report.get("workers_killed")),
        "actions_waiting": actions.actions_waiting(connection),
    }


def _workers_killed(reported: JsonValue) -> JsonValue:
    """What the daemon says of the workers that were killed since it started."""
    if not isinstance(reported, dict):
        return None
    return {
        "count": reported.get("count"),
        "last_at": iso(_number(reported.get("last_at"))),
        "last_reason": reported.get("last_reason"),
    }


def _why_no_code_runs(sandbox: str, degraded: JsonValue) -> str | None:
    """What the daemon found when code was to run, or what a look finds here; with the fix."""
    from runward.daemon.sandbox.isolated import REFUSED, NoSandbox  # most never use the exchange
    from runward.daemon.sandbox.workers import ISOLATION_METHODS

    # What the daemon found counts: as a unit, or as another user, it may be refused what this command may do.
    for each in degraded if isinstance(degraded, list) else ():
        if isinstance(each, str) and each.startswith(REFUSED):
            return each.removeprefix(REFUSED)
    try:
        ISOLATION_METHODS[sandbox].check()
    except NoSandbox as missing:
        return f"no sandbox: {missing}; {missing.fix}"
    return None


def _all_chains(settings: Settings) -> "list[Parsed[Chain]] | None":
    """What the files of the chains say; None if a directory can't be listed."""
    try:
        names = chain_names(settings)
        if not names:
            return []
        from runward.daemon.views.chains import chain_files  # many have no chains

        return [each.parsed for each in chain_files(settings, names)]
    except OSError:
        return None


def _machines_daemon(state: str) -> JsonValue:
    """The daemon of the machine's unit, if this user may see that it runs, and `state` isn't its directory."""
    from runward.daemon.units import rendering

    if os.path.realpath(state) == os.path.realpath(rendering.SYSTEM_STATE):
        return None
    try:
        pid = holder(Path(rendering.SYSTEM_STATE))
    except OSError:
        return None  # another user's
    return None if pid is None else {"state_dir": rendering.SYSTEM_STATE, "pid": pid or None}


def _chains(chains: "Sequence[Parsed[Chain]]", statuses: "Mapping[str, ChainStatusRow]") -> JsonValue:
    """How many chains fire, are paused or disabled, and are invalid."""
    counts = {"active": 0, "paused": 0, "disabled": 0, "quarantined": 0}
    for chain in chains:
        known = None if chain.value is None else statuses.get(chain.value.name)
        counts["quarantined" if chain.value is None else "active" if known is None else known.status] += 1
    return dict(counts)


def _wrong_configuration(
    settings: Settings, chains: "Sequence[Parsed[Chain]] | None", report: Mapping[str, JsonValue]
) -> list[JsonValue]:
    """What is wrong with what the operator wrote, and what follows, as the daemon found it.

    Without a daemon, the contents of playbooks and agent profiles are left out: their reader takes long to import.
    """
    configuration = report.get("configuration")
    if isinstance(configuration, list):
        return [
            {**each, "mend": each["fix"], "since": None, "severity": each["severity"]}
            for each in configuration
            if isinstance(each, dict)
        ]
    reading = reading_of_names(settings)
    if chains is not None:
        reading = reading._replace(chains=lambda: [each for chain in chains for each in chain.problems])
    return [
        _problem(
            path=each.problem.file,
            line=each.problem.line,
            message=each.message(),
            fix=each.problem.fix,
            since=None,
            severity=each.problem.severity,
        )
        for each in complaints_about(Parsed(settings), reading)
    ]


def _files(state: str, name: str) -> int:
    """How many requests are in this directory of the state."""
    try:
        return sum(each.endswith(SUFFIX) for each in os.listdir(os.path.join(state, name)))
    except OSError:
        return 0


def _roots(settings: Settings, report: Mapping[str, JsonValue]) -> JsonValue:
    """The roots as the daemon sees them; without one, those of the settings, of unknown health."""
    reported = report.get("roots")
    if isinstance(reported, list):
        return reported
    return [
        {"name": root.name, "path": root.path, "layout": root.layout, "health": "unknown", "problem": None}
        for root in settings.roots
    ]


def roots_as_json(settings: Settings) -> list[dict[str, JsonValue]]:
    """The roots as `root list --json` prints them."""
    roots = _roots(settings, report_of(settings.state_dir, holder(Path(settings.state_dir))))
    assert isinstance(roots, list)
    histories = {each.name: each.history for each in settings.roots}
    return [{**each, "history": histories.get(str(each["name"]))} for each in roots if isinstance(each, dict)]


def _settings(settings: Settings, report: Mapping[str, JsonValue]) -> JsonValue:
    """Where the settings in force come from, which files changed since, and why newer ones were refused.

    Without a daemon, those that one would use.
    """
    given = report.get("settings")
    reported = given if isinstance(given, dict) else {}
    files = _files_read(reported.get("files"))
    return {
        "files": [path for path, _ in (files if given is reported else settings.files)],
        "since": iso(_number(reported.get("since"))),
        "changed": [*changed_files(files, _paths(reported.get("absent")))],
        "refused_at": iso(_number(reported.get("refused_at"))),
        "refused": reported.get("refused", []),
        "store_fix": reported.get("store_fix"),
    }


def _files_read(value: JsonValue) -> list[tuple[str, int]]:
    pairs = value if isinstance(value, list) else []
    return [(str(path), int(str(checksum))) for path, checksum in map(_pair, pairs)]


def _paths(value: JsonValue) -> list[str]:
    return [str(path) for path in value] if isinstance(value, list) else []


def _pair(value: JsonValue) -> tuple[JsonValue, JsonValue]:
    assert isinstance(value, list), "our own report"
    path, checksum = value
    return path, checksum


def _queue(connection: sqlite3.Connection, now: float) -> JsonValue:
    figures = jobs.queue_figures(connection, now)
    oldest = figures.oldest_waiting
    return {
        **fields(figures, "waiting running held"),
        "oldest_waiting_s": None if oldest is None else round(max(0.0, now - oldest), 3),
    }


def _coverage(report: Mapping[str, JsonValue], pid: int | None) -> JsonValue:
    reported = report.get("coverage")
    coverage = reported if isinstance(reported, dict) else {}
    # Asked of the kernel: its report is up to ten seconds old, and people compare this number with their limits.
    held = held_watches(pid) if pid else None
    return {
        "watched": coverage.get("watched") if held is None else held,
        **{key: coverage.get(key) for key in ("flat", "overflows", "found_by_scan")},
        "last_scan_at": iso(_number(coverage.get("last_scan_at"))),
        "last_scan_s": coverage.get("last_scan_s"),
        "unread": coverage.get("unread"),
    }


def _failures(connection: sqlite3.Connection, settings: Settings, now: float) -> JsonValue:
    """The sessions that failed in the last day and that nobody has seen: how many, and the newest."""
    failures = unseen_failures(connection, now, MOST_NAMED)
    return {"count": failures.total, "newest": _named(failures.newest, settings)}


def _waiting_agents(connection: sqlite3.Connection, settings: Settings, keys: Sequence[str]) -> JsonValue:
    """The running sessions whose agent waits for an answer: how many, and those that began first."""
    rows = session_rows(connection, keys[:MOST_NAMED]) if keys else []
    return {"count": len(keys), "oldest": _named(rows[::-1], settings)}


def _named(rows: Sequence[SessionRow], settings: Settings) -> list[JsonValue]:
    """What is said of these sessions, without what looks like a secret."""
    if not rows:
        return []
    from runward.daemon.store.tables.sessions import about_of  # `status` most often names none
    from runward.handlers.secrets import json_without_secrets

    named: list[JsonValue] = [
        {
            **fields(row, "session_id key status"),
            "reason": {"code": row.reason_code, "summary": row.reason_summary},
            **fields(row, "started_at finished_at layout playbook agent"),
            "prompt": about_of(row).prompt,
        }
        for row in rows
    ]
    cleaned = json_without_secrets(named, settings.bundle.rules.redact)
    assert isinstance(cleaned, list)
    return cleaned


def _approval(row: approvals.ApprovalRow) -> JsonValue:
    """An approval that waits for a person; `chain approvals` has all that it is bound to."""

    return {
        "approval_id": row.id,
        "chain_run_id": row.run,
        "chain": row.chain,
        "step": row.step_id(),
        "command": shlex.join(map(str, json.loads(row.shown)["argv"])),
        **fields(row, "asked_at expires_at"),
    }


def _next_due(connection: sqlite3.Connection) -> JsonValue:
    due = jobs.job_due_next(connection)
    return None if due is None else {"at": iso(due.at), "what": f"{due.handler} of {due.lane}"}


def _problems(connection: sqlite3.Connection) -> list[JsonValue]:
    """What is wrong with files that people and agents wrote."""
    return [
        _problem(each.path, each.line, each.message, each.fix, each.since)
        for each in problems.problems(connection, limit=MOST_PROBLEMS)
    ]


def _problem(
    path: str,
    line: int | None,
    message: str,
    fix: str | None,
    since: float | None,
    severity: Severity = "error",
) -> JsonValue:
    return {
        "path": path,
        "line": line,
        "message": message,
        "fix": fix,
        "mend": fix,  # the former name of `fix`, which programs may still read
        "since": iso(since),
        "severity": severity,
    }


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) else None
