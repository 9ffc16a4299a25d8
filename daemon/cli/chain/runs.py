"""`runward chain runs` and `chain run show`: what chains did."""

import json
import sqlite3
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO
from runward.daemon.cli.shell.context import store_to_read
from runward.daemon.cli.shell.finding import LAST, one_of
from runward.daemon.cli.shell.request_waiting import once_taken_up
from runward.daemon.cli.terminal.output import align, coloured, fail, note, safe
from runward.daemon.store import reading_chains
from runward.daemon.store.ownership import holder
from runward.daemon.store.reading_chains import ChainRunRow, ChainStepRow
from runward.daemon.views.units import ago, iso, local


def run_as_json(row: ChainRunRow) -> dict[str, JsonValue]:
    """A chain run as it appears in lists."""
    return {
        "chain_run_id": row.id,
        "chain": row.chain,
        "status": row.status,
        "reason": {"code": row.reason_code, "summary": row.reason_summary},
        "current_step": row.current_step,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
    }


Invocations: TypeAlias = Mapping[tuple[int | None, int | None], str]
"""The ids of a chain run's invocations, by the step and its try; its root's by none."""


def details_as_json(
    row: ChainRunRow,
    steps: Sequence[ChainStepRow],
    invocations: Invocations,
    approvals: Mapping[int, str],
) -> dict[str, JsonValue]:
    """A chain run with all its steps, also those that did not begin; `approvals` are their ids by their steps."""
    tries = {each.step: each for each in steps}
    defined = defined_steps(row)
    shown: list[JsonValue] = [
        _step_as_json(number, each, tries.get(number), invocations) | {"approval_id": approvals.get(number)}
        for number, each in enumerate(defined)
    ]
    outcomes: list[JsonValue] = [_loaded(each.outcome) for each in tries.values()]
    return {
        **run_as_json(row),
        "trigger_event": json.loads(row.trigger_event),
        "fired_by": row.fired_by,
        "invocation_id": invocations.get((None, None)),
        "depth": row.depth,
        "deadline": None if row.deadline is None else iso(row.deadline),
        "step_outcomes": outcomes,
        "steps": shown,
    }


def defined_steps(row: ChainRunRow) -> list[dict[str, JsonValue]]:
    """The steps of its definition, and then those of `on_failure`."""
    definition = json.loads(row.definition)
    steps = [*definition["steps"], *(definition.get("on_failure") or ())]
    return [each for each in steps if isinstance(each, dict)]


def _step_as_json(
    number: int,
    defined: dict[str, JsonValue],
    standing: ChainStepRow | None,
    invocations: Invocations,
) -> dict[str, JsonValue]:
    return {
        "index": number,
        "id": defined.get("id", f"step{number}"),
        "kind": "skill" if "skill" in defined else "action",
        "name": defined.get("skill", defined.get("action")),
        "status": "pending" if standing is None else standing.status,
        "try": 0 if standing is None or standing.session_key is None else standing.attempt,
        "session_id": None if standing is None else session_id_of(standing),
        "invocation_id": None if standing is None else invocations.get((number, standing.attempt)),
        "condition": defined.get("condition"),
        "value": None if standing is None else _loaded(standing.value),
        "reason": None
        if standing is None or standing.reason_code is None
        else {"code": standing.reason_code, "summary": standing.reason_summary},
        "outcome": None if standing is None else _loaded(standing.outcome),
        "delivery": None if standing is None else standing.delivery,
        "started_at": None if standing is None else iso(standing.started_at),
        "finished_at": None
        if standing is None or standing.finished_at is None
        else iso(standing.finished_at),
    }


def session_id_of(standing: ChainStepRow) -> str | None:
    """The id of the session of a try."""
    return None if standing.session_key is None else standing.session_key.rpartition("/")[2]


def _loaded(text: str | None) -> JsonValue:
    value: JsonValue = None if text is None else json.loads(text)
    return value


def row_of(row: ChainRunRow) -> tuple[str, ...]:
    """A chain run as a row of the list."""
    return (
        safe(row.id),
        safe(row.chain),
        coloured(row.status),
        safe(row.reason_code),
        str(row.current_step),
        ago(row.created_at, time.time()),
    )


def lines_of(
    row: ChainRunRow, steps: Sequence[ChainStepRow], cause: str, approvals: Mapping[int, str]
) -> list[str]:
    """A chain run as a person reads it; `cause` is the name of the event that fired it."""
    lines = [
        f"chain run {safe(row.id)} of {safe(row.chain)}: {coloured(row.status)} ({safe(row.reason_code)})",
        safe(row.reason_summary),
        f"fired by {safe(cause)} at {local(row.created_at)}",
        "",
    ]
    tries = {each.step: each for each in steps}
    table: list[tuple[str, ...]] = []
    for number, defined in enumerate(defined_steps(row)):
        standing = tries.get(number)
        said = "" if standing is None else standing.reason_summary or standing.reason_code or ""
        table.append(
            (
                f"  {number}",
                safe(str(defined.get("id", f"step{number}"))),
                safe(str(defined.get("skill", defined.get("action")))),
                coloured("pending" if standing is None else standing.status),
                "-" if standing is None else safe(session_id_of(standing) or "-"),
                safe(said),
            )
        )
    lines += align(table)
    for each in steps:
        if each.status == "waiting_approval" and each.step in approvals:
            approval = safe(approvals[each.step])
            lines += ["", f"`runward chain approve {approval}` lets it run, `runward chain deny` ends it"]
    return lines


def find_run(connection: sqlite3.Connection, text: str) -> ChainRunRow:
    """The chain run that `text` means: an id, the beginning of one, or @last. Exits 2 or 3."""
    if text == LAST:
        newest = reading_chains.chain_runs(connection, None, None, None, 1)
        if not newest:
            fail("no chain was ever fired", NOT_FOUND)
        return newest[0]
    return one_of("chain run", text, reading_chains.chain_runs_called(connection, text, 9))


def request_cancel(settings: Settings, run: str, reason: str, *, before_it_began: bool = False) -> bool:
    """Leave the request in the inbox, durably. Whether a daemon has accepted it by now. Exits 1 if it refused it.

    With `before_it_began` the run itself was only asked for so far.
    """
    from runward.daemon.inbox.requests import dump_request
    from runward.daemon.inbox.spool import put
    from runward.handlers.chains.events import ChainRunCancelRequested

    request, state = str(uuid.uuid4()), Path(settings.state_dir)
    event = ChainRunCancelRequested(request, time.time(), run, reason, before_it_began=before_it_began)
    put(state, request, dump_request(event))

    def accepted() -> bool | None:
        with store_to_read(settings) as connection:
            refused = reading_chains.why_refused(connection, request)
            found = reading_chains.chain_runs_called(connection, run, 1)
        if refused is not None:
            fail(refused, NOT_SO)
        return True if found and found[0].status == "cancelled" else None

    is_accepted = once_taken_up(state, accepted) is True
    if not is_accepted and holder(state) is not None:
        note("the daemon has not processed it yet: `runward status` says why")
    return is_accepted


def echo(lines: Sequence[str]) -> None:
    """Print the lines."""
    click.echo("\n".join(lines))
