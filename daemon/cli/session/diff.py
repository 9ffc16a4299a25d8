"""`session diff`: what two sessions did, side by side."""

import sqlite3

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.exits import GOOD, NOT_SO
from runward.daemon.cli.terminal.output import print_json, safe
from runward.daemon.store.reading_artifacts import Wanted, artifacts
from runward.daemon.store.reading_sessions import SessionRow
from runward.daemon.views.replay import replay_of
from runward.daemon.views.sessions import about_of
from runward.handlers.bundle.canonical import canonical
from runward.handlers.bundle.replay_view import Divergence, ToldCall, aligned, first_divergence

_SHOWN = 200
"""Characters of a value that are shown."""


def print_difference(
    connection: sqlite3.Connection, settings: Settings, left: SessionRow, right: SessionRow, as_json: bool
) -> int:
    """Print how two sessions differ; returns the exit code."""
    ours, theirs = (replay_of(connection, settings, row).told.calls for row in (left, right))
    outcomes = [_outcomes(connection, row) for row in (left, right)]
    found, calls = first_divergence(ours, theirs), aligned(ours, theirs)
    identical = found is None and left.status == right.status and outcomes[0] == outcomes[1]
    if as_json:
        print_json(
            {
                "identical": identical,
                "first_divergence": _divergence(found),
                "calls": calls._asdict(),
                "outcomes": {"left": outcomes[0], "right": outcomes[1]},
                "status": {"left": left.status, "right": right.status},
                "tokens": {"left": about_of(left).usage, "right": about_of(right).usage},
                "duration_s": {"left": _duration(left), "right": _duration(right)},
            }
        )
    elif identical:
        click.echo("identical")
    else:
        _print(left, right, found, outcomes[0] != outcomes[1])
    return GOOD if identical else NOT_SO


def _outcomes(connection: sqlite3.Connection, row: SessionRow) -> list[JsonValue]:
    found: list[JsonValue] = [
        {"kind": each.kind, "name": each.name, "summary": each.summary, "passed": each.passed}
        for each in artifacts(connection, Wanted(session=row.key))
    ]
    return sorted(found, key=canonical)


def _divergence(found: Divergence | None) -> JsonValue:
    if found is None:
        return None
    left, right = (None if each is None else each.as_json() for each in (found.left, found.right))
    return {"index": found.at, "left": left, "right": right}


def _duration(row: SessionRow) -> float | None:
    return None if row.finished_at is None else round(row.finished_at - row.started_at, 6)


def _print(left: SessionRow, right: SessionRow, found: Divergence | None, other_outcomes: bool) -> None:
    if left.status != right.status:
        click.echo(f"status: {left.status}, {right.status}")
    if other_outcomes:
        click.echo("outcomes: they differ")
    if found is not None:
        click.echo(f"call {found.at} is the first that differs:")
        for row, call in ((left, found.left), (right, found.right)):
            click.echo(f"  {safe(row.session_id)}: {_call(call)}")


def _call(call: ToldCall | None) -> str:
    if call is None:
        return "no further call"
    params, output = (_short(canonical(each)) for each in (call.params, call.output))
    return safe(f"{call.tool} {params} -> {output}")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
