"""Chain runs as rows of a list: what they wait for, or how far their steps came."""

import json
import shlex
import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store.tables.approvals import ApprovalRow, open_approvals
from runward.daemon.store.tables.chain_runs import (
    ChainRunRow,
    ChainStepRow,
    agents_of_runs,
    chain_runs,
    open_chain_runs,
    steps_of_runs,
)
from runward.daemon.views.chain_runs import defined_steps, outcome_in_words
from runward.daemon.views.rows import Row
from runward.daemon.views.text import took

_STATES: Final = {"running": "working", "waiting_approval": "waiting"}
_STEP_STATES: Final = {**_STATES, "waiting": "pending", "pending": "pending"}


def chain_rows(
    connection: sqlite3.Connection, settings: Settings, since: float | None, most: int | None, now: float
) -> list[Row]:
    """All chain runs that are open, and the newest `most` (None: all) of the others, with what their agents used."""
    still = [each for each in open_chain_runs(connection) if since is None or each.created_at >= since]
    known = {each.id for each in still}
    newest = chain_runs(connection, None, None, since, -1 if most is None else most + len(still))
    runs = [*still, *(each for each in newest if each.id not in known)]
    return _with_usage(connection, settings, rows_of_runs(connection, runs, now))


def _with_usage(connection: sqlite3.Connection, settings: Settings, rows: list[Row]) -> list[Row]:
    agents = agents_of_runs(connection, [row.key for row in rows]) if rows else {}
    if not agents:
        return rows
    from runward.daemon.views.usage import used_by  # most steps start no agent

    used = used_by(connection, settings, agents)
    return [
        row if (of := used.get(row.key)) is None else row._replace(usage=of.as_json(), cost=of.in_dollars())
        for row in rows
    ]


def rows_of_runs(connection: sqlite3.Connection, runs: Sequence[ChainRunRow], now: float) -> list[Row]:
    """These chain runs as rows."""
    steps = steps_of_runs(connection, [each.id for each in runs])
    waiting = any(each.status == "waiting_approval" for each in runs)
    asked = {each.run: each for each in open_approvals(connection)} if waiting else {}
    return [_row(each, steps.get(each.id, ()), asked.get(each.id), now) for each in runs]


def _row(run: ChainRunRow, steps: Sequence[ChainStepRow], asked: ApprovalRow | None, now: float) -> Row:
    state = _STATES.get(run.status, run.status)
    names = step_names(run)
    last = {each.step: each for each in steps}
    purpose, what = run.chain, run.reason_summary
    if asked is not None:
        purpose, what = f"{run.chain}/{asked.step_id()}", f"asks: {command_asked(asked)}"
    elif run.status in ("running", "completed"):
        status = run.status
        what = ", ".join(names[number] for number, each in last.items() if each.status == status)
    is_over = state not in ("working", "waiting")
    return Row(
        noun="chain run",
        state=state,
        id=run.id,
        key=run.id,
        purpose=purpose,
        at=run.created_at,
        took=max(0.0, (run.updated_at if is_over else now) - run.created_at),
        what=what,
        approval=None if asked is None else asked.id,
    )


class RunRow(NamedTuple):
    """A chain run in the list of its own kind: its row, the state of each step, and what became of them."""

    row: Row
    chain: str
    steps: list[str]
    what: str


def run_rows(connection: sqlite3.Connection, runs: Sequence[ChainRunRow], now: float) -> list[RunRow]:
    """These chain runs, each with its steps."""
    steps = steps_of_runs(connection, [each.id for each in runs])
    rows = rows_of_runs(connection, runs, now)
    return [
        RunRow(row, run.chain, step_states(run, tries := steps.get(run.id, ())), _became(row, run, tries))
        for row, run in zip(rows, runs, strict=True)
    ]


def _became(row: Row, run: ChainRunRow, steps: Sequence[ChainStepRow]) -> str:
    if row.approval is not None and row.purpose is not None:
        return f"{row.purpose.rpartition('/')[2]} {row.what}"
    if row.state != "completed":
        return row.what
    names, words = step_names(run), []
    for each in steps:
        outcome = outcome_in_words(each.outcome, ()) if each.status == "completed" else None
        if each.status == "completed":
            words.append(names[each.step] if outcome is None else f"{names[each.step]}: {outcome.word}")
    return "; ".join(words) or row.what


WHOLE_APPROVALS: Final = "runward chain approvals"
"""The command that shows everything that waits for a person, whole."""


def command_asked(row: ApprovalRow) -> str:
    """The command that an approval is about, as it was shown."""
    argv: JsonValue = json.loads(row.shown)["argv"]
    return shlex.join(map(str, argv)) if isinstance(argv, list) else ""


def step_states(run: ChainRunRow, steps: Sequence[ChainStepRow]) -> list[str]:
    """The state of each step of a chain run, also of those to come."""
    last = {each.step: each.status for each in steps}
    defined = len(defined_steps(run))
    return [_STEP_STATES.get(status := last.get(number, "pending"), status) for number in range(defined)]


def summary_of_steps(run: ChainRunRow, steps: Sequence[ChainStepRow]) -> str:
    """The steps that run, or else those that completed."""
    names = step_names(run)
    for status in ("running", "completed"):
        chosen = [names[each.step] for each in steps if each.status == status]
        if chosen:
            return ", ".join(chosen)
    return run.reason_summary


def step_names(run: ChainRunRow) -> list[str]:
    """The ids of its steps."""
    return [str(each.get("id", f"step{number}")) for number, each in enumerate(defined_steps(run))]


_LONGEST_NAME: Final = 16
_NO_TIME: Final = "    "


def step_lines(
    run: ChainRunRow, steps: Sequence[ChainStepRow], command: str | None, most: int
) -> list[tuple[float | None, str, str]]:
    """A line for each step: when, what became of it, and its state. Of too many, those that are over are one line."""
    last = {each.step: each for each in steps}
    names, states = step_names(run), step_states(run, steps)
    longest = min(_LONGEST_NAME, max(map(len, names), default=0))
    lines = []
    for number, defined in enumerate(defined_steps(run)):
        step, state = last.get(number), states[number]
        words, took_there = _of_step(
            run, defined, step, state, command, names[number - 1] if number else None
        )
        at = None if step is None or state in ("pending", "skipped") else step.started_at
        lines.append((at, f"{names[number]:<{longest}}  {took_there or _NO_TIME}  {words}".rstrip(), state))
    # Steps run one after another. Without those that are over, the one that waits for a person is among the first.
    for over in ("completed", "skipped"):
        folded = [each for each in lines if each[2] == over]
        if len(lines) > most and folded:
            first = lines.index(folded[0])
            rest = [each for each in lines[first:] if each[2] != over]
            lines = [*lines[:first], (folded[0][0], f"{len(folded)} steps {over}", over), *rest]
    if len(lines) > most:
        lines = [*lines[: most - 1], (None, f"{len(lines) - most + 1} more steps", lines[most - 1][2])]
    return lines


def _of_step(
    run: ChainRunRow,
    defined: dict[str, JsonValue],
    step: ChainStepRow | None,
    state: str,
    command: str | None,
    before: str | None,
) -> tuple[str, str | None]:
    """The words for a step, and how long it took."""
    if state == "waiting":
        return command or "", "asks"
    if step is None or state == "pending":
        if run.status not in _STATES:
            return "never began", None
        condition = str(defined.get("condition") or "").strip().removeprefix("{{").removesuffix("}}").strip()
        after = "" if before is None else f"after {before}"
        return ", ".join(each for each in (after, condition and f"if {condition}") if each), None
    if state == "skipped":
        return step.reason_summary or step.reason_code or "skipped", None
    length = None if step.finished_at is None else took(step.finished_at - step.started_at)
    outcome = outcome_in_words(step.outcome, ())
    if outcome is None:
        return step.reason_summary or ("" if state == "completed" else step.reason_code or ""), length
    return ": ".join(each for each in (outcome.word, outcome.summary) if each), length
