"""The calls of sessions: of two side by side, `session diff`; in a bundle, `session export`; as training data, `training export`."""

import json
import os
import sqlite3
from collections.abc import Iterator
from typing import NoReturn

import click

from runward.config.json_value import JsonValue
from runward.config.problem import counted
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO, TRY_AGAIN, WRONG_USAGE
from runward.daemon.cli.session.finding import recorded_session
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import pass_settings, store_to_read
from runward.daemon.cli.terminal.options import Moment, NamedPath, json_option
from runward.daemon.cli.terminal.output import fail, print_json, print_text, safe
from runward.daemon.rundir.bundle_parts import (
    CannotMake,
    clear_parts,
    copy_part,
    exists_otherwise,
    make_on_demand,
    put_over,
)
from runward.daemon.store.tables import session_lists
from runward.daemon.store.tables.artifacts import Wanted, artifacts
from runward.daemon.store.tables.replays import told_actions
from runward.daemon.store.tables.sessions import SessionRow, about_of
from runward.daemon.views.bundles import (
    SessionBundle,
    recorded_names,
    session_bundle,
)
from runward.daemon.views.replay import order_on_demand, replay_of
from runward.daemon.views.text import size
from runward.handlers.bundle.canonical import canonical
from runward.handlers.bundle.parts import PARTS
from runward.handlers.bundle.replay_view import Divergence, ToldCall, aligned, first_divergence
from runward.handlers.model.part import Part

_SHOWN = 200
"""Characters of a value that are shown."""


def print_difference(settings: Settings, one: str, other: str, as_json: bool) -> int:
    """Print how two sessions differ; returns the exit code."""
    with store_to_read(settings) as connection:
        left, right = (recorded_session(connection, settings, each) for each in (one, other))
        ours, theirs = (replay_of(connection, settings, row).replay.calls for row in (left, right))
        outcomes = [_outcomes_of(connection, row) for row in (left, right)]
    divergence, calls = first_divergence(ours, theirs), aligned(ours, theirs)
    identical = divergence is None and left.status == right.status and outcomes[0] == outcomes[1]
    if as_json:
        print_json(
            {
                "identical": identical,
                "first_divergence": _divergence(divergence),
                "calls": calls._asdict(),
                "outcomes": {"left": outcomes[0], "right": outcomes[1]},
                "status": {"left": left.status, "right": right.status},
                "tokens": {"left": about_of(left).usage, "right": about_of(right).usage},
                "duration_s": {"left": _duration(left), "right": _duration(right)},
            }
        )
    elif identical:
        print_text("identical")
    else:
        _print(left, right, divergence, outcomes[0] != outcomes[1])
    return GOOD if identical else NOT_SO


def _outcomes_of(connection: sqlite3.Connection, row: SessionRow) -> list[JsonValue]:
    outcomes: list[JsonValue] = [
        {"kind": each.kind, "name": each.name, "summary": each.summary, "passed": each.passed}
        for each in artifacts(connection, Wanted(session=row.key))
    ]
    return sorted(outcomes, key=canonical)


def _divergence(divergence: Divergence | None) -> JsonValue:
    if divergence is None:
        return None
    left, right = (None if each is None else each.as_json() for each in (divergence.left, divergence.right))
    return {"index": divergence.at, "left": left, "right": right}


def _duration(row: SessionRow) -> float | None:
    return None if row.finished_at is None else round(row.finished_at - row.started_at, 6)


def _print(left: SessionRow, right: SessionRow, divergence: Divergence | None, other_outcomes: bool) -> None:
    if left.status != right.status:
        print_text(f"status: {left.status}, {right.status}")
    if other_outcomes:
        print_text("outcomes: they differ")
    if divergence is not None:
        print_text(f"call {divergence.at} is the first that differs:")
        for row, call in ((left, divergence.left), (right, divergence.right)):
            print_text(f"  {safe(row.session_id)}: {_call(call)}")


def _call(call: ToldCall | None) -> str:
    if call is None:
        return "no further call"
    params, output = (_short(canonical(each)) for each in (call.params, call.output))
    return safe(f"{call.tool} {params} -> {output}")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def export_bundle(
    connection: sqlite3.Connection,
    settings: Settings,
    row: SessionRow,
    attempt: int | None,
    directory: str,
    force: bool,
    as_json: bool,
) -> None:
    """Put the parts into the directory; ends the program if that can't be done."""
    bundle = session_bundle(connection, settings, row, attempt)
    name = safe(row.session_id)
    if bundle is None:
        fail(f"session {name} is still running: its bundle is made when it is over", NOT_SO)
    if not 1 <= bundle.attempt <= row.attempt:
        fail(f"session {name} has no attempt {bundle.attempt}", NOT_FOUND)
    if bundle.state == "pending":
        fail(f"the bundle of {name} is still being made: try again", TRY_AGAIN)
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        fail(f"{safe(directory)}: {error.strerror}", WRONG_USAGE)
    try:
        # All parts first, under temporary names: then they take their places together, so none of another attempt is among them.
        parts, problem = _parts(connection, settings, row, bundle, directory)
        _place(directory, parts, force)
    except CannotMake as error:
        _give_up(directory, f"the bundle of {name} can't be exported: {error}")
    except OSError as error:
        _give_up(directory, f"{safe(directory)}: {error.strerror or error}")
    _say(row=row, bundle=bundle, directory=directory, parts=parts, problem=problem, as_json=as_json)


def _parts(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, bundle: SessionBundle, directory: str
) -> tuple[tuple[Part, ...], str | None]:
    """The parts under temporary names in the directory, and what is wrong with them."""
    if bundle.state == "written" and bundle.row is not None:
        clear_parts(directory, PARTS)
        parts: list[Part] = []
        for plain, name in recorded_names(bundle.row):
            part = copy_part(bundle.directory, name, directory, plain)
            if not isinstance(part, Part):
                raise CannotMake(f"{name}: {getattr(part, 'why', 'it is gone')}")
            parts.append(part)
        return tuple(parts), bundle.problem
    if bundle.state == "failed":
        raise CannotMake(bundle.problem or "there is none")
    order = order_on_demand(connection, settings, row, bundle.attempt)
    if order is None:
        raise CannotMake(f"there is no attempt {bundle.attempt}")
    made = make_on_demand(order, told_actions(connection, order.key, order.actions), directory)
    return made.parts, made.problem


def _place(directory: str, parts: tuple[Part, ...], force: bool) -> None:
    differing = [] if force else exists_otherwise(directory, parts)
    if differing:
        raise CannotMake(f"{', '.join(differing)} in {directory} differs; --force replaces it")
    put_over(directory, parts)


def _give_up(directory: str, why: str) -> NoReturn:
    clear_parts(directory, PARTS)
    fail(why, NOT_SO)


def _say(
    row: SessionRow,
    bundle: SessionBundle,
    directory: str,
    parts: tuple[Part, ...],
    problem: str | None,
    as_json: bool,
) -> None:
    if as_json:
        printed: list[JsonValue] = [
            {"name": each.name, "size": each.size, "sha256": f"sha256:{each.sha256}"} for each in parts
        ]
        print_json(
            {
                "session_id": row.session_id,
                "attempt": bundle.attempt,
                "directory": os.path.abspath(directory),
                "on_demand": bundle.state == "on_demand",
                "parts": printed,
                "problem": problem,
            }
        )
        return
    for each in parts:
        print_text(f"{safe(os.path.join(directory, each.name))}  {size(each.size)}")
    if problem is not None:
        click.echo(f"runward: {safe(problem)}", err=True)


SIGNATURE = "ToolCallSignature"


@click.group(cls=Group)
def training() -> None:
    """Export what sessions did, call by call, as training data with labels.

    \b
    Example:
      runward training export --since today --output calls.jsonl
    """


@training.command()
@click.option(
    "--since",
    type=Moment(),
    metavar="TIME",
    help="Export only sessions that started since then: 2h, today, a date.",
)
@click.option(
    "--session",
    "identifier",
    metavar="ID",
    shell_complete=completing.sessions,
    help="Export only this session.",
)
@click.option(
    "--output",
    "file",
    required=True,
    metavar="FILE",
    type=NamedPath(),
    help="The file to write; - is stdout.",
)
@json_option("Print the numbers of calls and sessions as JSON.")
@pass_settings
def export(settings: Settings, since: float | None, identifier: str | None, file: str, as_json: bool) -> None:
    """Export each call of each finished session.

    Each becomes one line of JSON, with its label.

    Inputs and outputs are as in the replay: secrets are redacted, long texts cut.

    \b
    Example:
      runward training export --session @last --output calls.jsonl
    """
    calls = 0
    with store_to_read(settings) as connection:
        if identifier is not None:
            rows = [recorded_session(connection, settings, identifier)]
        else:
            rows = list(reversed(session_lists.sessions(connection, session_lists.Wanted(since=since), None)))
        rows = [row for row in rows if row.status != "running"]
        try:
            # Atomic: a training that reads the file never finds half of it.
            with click.open_file(file, "w", encoding="utf-8", atomic=file != "-") as output:
                for row in rows:
                    read = replay_of(connection, settings, row)
                    for line in _lines(row, read.replay.calls, read.costs, read.replay.verification_delta):
                        output.write(json.dumps(line, ensure_ascii=False) + "\n")
                        calls += 1
        except OSError as error:
            fail(f"{safe(os.fspath(file))}: {error.strerror}", WRONG_USAGE)
    if as_json:
        print_json({"calls": calls, "sessions": len(rows)})
    elif file != "-":
        print_text(
            f"{safe(os.fspath(file))}  {counted(calls, 'call', 'calls')} of {counted(len(rows), 'session', 'sessions')}"
        )


def _lines(
    row: SessionRow, calls: list[ToldCall], costs: dict[str, JsonValue], delta: JsonValue
) -> Iterator[dict[str, JsonValue]]:
    made: set[tuple[str, str]] = set()
    for call in calls:
        yield {
            "signature": SIGNATURE,
            "session_id": row.session_id,
            "call_id": call.id,
            "tool": call.tool,
            "inputs": call.params,
            "outputs": call.output,
            "step_utility": call.step_utility,
            "verification_delta": delta,
            "cost_tokens": costs.get(call.id),
            "cost_tool_calls": 1,
            "was_repeated": call.made in made,
        }
        made.add(call.made)
