"""`runward status`: whether the daemon is up, and what it has to do.

Figures come from the store, and from what the daemon writes of itself into `status.json`; whether it lives
is what its lock says.
"""

import json
import os
import sqlite3
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.context import settings_in_force
from runward.daemon.cli.exits import NOT_FOUND
from runward.daemon.cli.output import iso, print_json
from runward.daemon.store import reading
from runward.daemon.store.ownership import holder

_REPORT: Final = "status.json"
_MAXIMUM_REPORT: Final = 16 << 20


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Is the daemon up, since when, what is running, waiting, held and degraded?

    Exit code 0: it is running. 3: it is not.

    \b
    Example:
      runward status
    """
    settings = settings_in_force(context)
    found = status_of(settings, time.time())
    if as_json:
        print_json(found)
    else:
        from runward.daemon.cli.status_text import lines_of

        click.echo("\n".join(lines_of(found, settings.state_dir, time.time())))
    sys.exit(0 if found["running"] else NOT_FOUND)


def status_of(settings: Settings, now: float) -> dict[str, JsonValue]:
    """What `status --json` prints."""
    pid = holder(Path(settings.state_dir))
    report = report_of(settings.state_dir, pid)
    with reading.reading(settings.state_dir) as connection:
        return {
            "running": pid is not None,
            "since": iso(_number(report.get("since"))),
            "pid": pid or None,
            "epoch": reading.epoch(connection),
            "version": report.get("version"),
            "http": None,
            "sessions": dict(reading.sessions_by_status(connection)),
            "queue": _queue(connection, now),
            "coverage": _coverage(report),
            "lag": {
                "event_to_verdict_p50_s": report.get("lag_p50_s"),
                "event_to_verdict_p99_s": report.get("lag_p99_s"),
            },
            "fences_refused": report.get("fences_refused"),
            "held_by_reason": dict(reading.held_by_reason(connection)),
            "degraded": report.get("degraded", []),
            "next_due": _next_due(connection),
            "roots": roots_of(settings, report),
            "problems": _problems(connection, report),
        }


def report_of(state: str, pid: int | None) -> Mapping[str, JsonValue]:
    """What the daemon that holds the state directory says of itself; nothing where none does.

    A report of a daemon before it counts for nothing. `pid` is 0 where the holder's is not known.
    """
    if pid is None:
        return {}
    try:
        with open(os.path.join(state, _REPORT), "rb") as file:
            value = json.loads(file.read(_MAXIMUM_REPORT))
    except (OSError, ValueError):
        return {}  # it has written none yet
    return value if isinstance(value, dict) and value.get("pid") == pid else {}


def roots_of(settings: Settings, report: Mapping[str, JsonValue]) -> JsonValue:
    """The roots as the daemon sees them; without one, those of the settings, of unknown health."""
    told = report.get("roots")
    if isinstance(told, list):
        return told
    return [
        {"name": root.name, "path": root.path, "layout": root.layout, "health": "unknown", "problem": None}
        for root in settings.roots
    ]


def _queue(connection: sqlite3.Connection, now: float) -> JsonValue:
    figures = reading.queue_figures(connection)
    oldest = figures.oldest_waiting
    return {
        "waiting": figures.waiting,
        "running": figures.running,
        "held": figures.held,
        "oldest_waiting_s": None if oldest is None else round(max(0.0, now - oldest), 3),
    }


def _coverage(report: Mapping[str, JsonValue]) -> JsonValue:
    told = report.get("coverage")
    found = told if isinstance(told, dict) else {}
    keys = ("watched", "flat", "overflows", "found_by_scan")
    return {
        **{key: found.get(key) for key in keys},
        "last_scan_at": iso(_number(found.get("last_scan_at"))),
        "last_scan_s": found.get("last_scan_s"),
        "unread": found.get("unread"),
    }


def _next_due(connection: sqlite3.Connection) -> JsonValue:
    due = reading.next_due(connection)
    return None if due is None else {"at": iso(due.at), "what": f"{due.handler} of {due.lane}"}


def _problems(connection: sqlite3.Connection, report: Mapping[str, JsonValue]) -> JsonValue:
    """What people and agents wrote wrongly: of the store, and of the daemon's own report."""
    found: list[JsonValue] = [
        {
            "path": each.path,
            "line": each.line,
            "message": each.message,
            "mend": each.mend,
            "since": iso(each.since),
        }
        for each in reading.problems(connection)
    ]
    told = report.get("problems")
    for each in told if isinstance(told, list) else []:
        if isinstance(each, dict):
            keys = ("path", "line", "message", "mend")
            found.append({**{key: each.get(key) for key in keys}, "since": iso(_number(each.get("since")))})
    return found


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) else None
