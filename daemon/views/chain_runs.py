"""Chain runs and invocations as programs read them: the objects of `chain runs`, `chain run show` and `invocation list --json`.

A person may ask for a chain run that no daemon has recorded yet: its request is still in the inbox."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue, objects
from runward.config.settings import Settings
from runward.daemon.store.tables.artifacts import ArtifactRow
from runward.daemon.store.tables.chain_runs import ChainRunRow, ChainStepRow, chain_steps
from runward.daemon.store.tables.invocations import InvocationRow
from runward.daemon.views.outcomes import outcomes_as_json
from runward.daemon.views.text import fields
from runward.handlers.secrets import json_without_secrets
from runward.handlers.times import iso

CHAIN_RUN_STATUSES: Final = (
    *("running", "completed", "failed", "timed_out", "aborted", "cancelled", "waiting_approval"),
)
_BEGINNING: Final = "cr_"


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
        **row.as_json(),
        "trigger_event": json.loads(row.trigger_event),
        "fired_by": row.fired_by,
        "invocation_id": invocations.get((None, None)),
        "depth": row.depth,
        "deadline": iso(row.deadline),
        "step_outcomes": outcomes,
        "steps": shown,
    }


def defined_steps(row: ChainRunRow) -> list[dict[str, JsonValue]]:
    """The steps of its definition, and then those of `on_failure`."""
    definition = json.loads(row.definition)
    return objects([*definition["steps"], *(definition.get("on_failure") or ())])


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
        "try": 0
        if standing is None or (standing.session_key is None and standing.remote_session is None)
        else standing.attempt,
        "session_id": None if standing is None else session_id_of(standing),
        "host": None if standing is None else standing.host,
        "taken_at": None if standing is None else iso(standing.taken_at),
        "began_there": None if standing is None else standing.began_there,
        "invocation_id": None if standing is None else invocations.get((number, standing.attempt)),
        "condition": defined.get("condition"),
        "value": None if standing is None else _loaded(standing.value),
        "reason": None
        if standing is None or standing.reason_code is None
        else {"code": standing.reason_code, "summary": standing.reason_summary},
        "outcome": None if standing is None else _loaded(standing.outcome),
        "delivery": None if standing is None else standing.delivery,
        "started_at": None if standing is None else iso(standing.started_at),
        "finished_at": None if standing is None else iso(standing.finished_at),
    }


def session_id_of(row: ChainStepRow | InvocationRow) -> str | None:
    """The id of its session, which may be on another host."""
    if isinstance(row, ChainStepRow) and row.remote_session is not None:
        return row.remote_session
    return None if row.session_key is None else row.session_key.rpartition("/")[2]


def _loaded(text: str | None) -> JsonValue:
    value: JsonValue = None if text is None else json.loads(text)
    return value


class AskedRun(NamedTuple):
    """A chain run that is to be fired. `at` is when it was asked for (Unix seconds), `fields` are those of `trigger`."""

    id: str
    chain: str
    at: float
    said_by: str
    fields: dict[str, JsonValue]


def asked_runs(state: Path) -> list[AskedRun]:
    """Those whose requests wait in the inbox, oldest first."""
    from runward.daemon.inbox.spool import list_inbox

    files = list_inbox(state)
    if not files:
        return []
    from runward.daemon.inbox.requests import load_request
    from runward.handlers.chains.advancing import run_id
    from runward.handlers.model.chains import ChainFireRequested

    # The id of a chain run follows from the request for it: so it has one before any daemon has seen it.
    orders = [event for file in files if isinstance(event := load_request(file), ChainFireRequested)]
    return [
        AskedRun(run_id(f"{each.chain}@{each.request}"), each.chain, each.at, each.said_by, each.fields)
        for each in orders
    ]


def asked_run(state: Path, text: str) -> AskedRun | None:
    """The one whose id is `text`, or begins with it; None if there is none, or several."""
    if not text.startswith(_BEGINNING):
        return None
    matching = [each for each in asked_runs(state) if each.id.startswith(text)]
    return matching[0] if len(matching) == 1 else None


def newest_asked_run(state: Path) -> AskedRun | None:
    """The one that was asked for last. No chain run that a daemon recorded is newer."""
    return max(asked_runs(state), key=lambda each: each.at, default=None)


def asked_as_json(run: AskedRun) -> dict[str, JsonValue]:
    """As `chain run show` prints a chain run: nothing of it has begun."""
    return {
        "chain_run_id": run.id,
        "chain": run.chain,
        "status": "asked",
        "reason": None,
        "current_step": 0,
        "created_at": iso(run.at),
        "updated_at": iso(run.at),
        "trigger_event": run.fields,
        "fired_by": "manual.fired",
        "invocation_id": None,
        "depth": None,
        "deadline": None,
        "step_outcomes": [],
        "steps": [],
    }


class OutcomeInWords(NamedTuple):
    """The outcome of a step in short: whether it passed, a word for it, its kind and its summary."""

    state: Literal["passed", "failed", "none"]
    word: str
    kind: str
    summary: str


def outcome_in_words(text: str | None, redact: tuple[str, ...]) -> OutcomeInWords | None:
    """The stored outcome of a try of a step, without what looks like a secret."""
    value = json_without_secrets(_loaded(text), redact)
    if not isinstance(value, dict):
        return None
    passed, verdict, summary = value.get("passed"), value.get("verdict"), value.get("summary")
    kind = str(value.get("outcome_kind") or "outcome")
    state: Literal["passed", "failed", "none"] = "none"
    if isinstance(passed, bool):
        state = "passed" if passed else "failed"
    word = verdict if isinstance(verdict, str) and verdict else kind if state == "none" else state.upper()
    return OutcomeInWords(state, word, kind, summary if isinstance(summary, str) else "")


INVOCATION_STATUSES: Final = (
    "running",
    "waiting_approval",
    "completed",
    "failed",
    "timed_out",
    "aborted",
    "cancelled",
)


def invocation_summary(row: InvocationRow) -> dict[str, JsonValue]:
    """An invocation as it appears in lists."""
    return {
        "invocation_id": row.id,
        **fields(row, "skill status reason_code chain chain_run_id step_index"),
        "try": row.attempt,
        "session_id": session_id_of(row),
        **fields(row, "session_key created_at ended_at"),
    }


def metadata_of(row: InvocationRow, steps: Sequence[ChainStepRow]) -> JsonValue:
    """What it was ordered with. For a chain run's root: the definition, and the run's state."""
    if row.definition is None:
        return _loaded(row.node_metadata)
    tries: list[JsonValue] = [
        {
            "step_index": each.step,
            "try": each.attempt,
            **fields(each, "status reason_code"),
            "outcome": _loaded(each.outcome),
        }
        for each in steps
    ]
    state: JsonValue = {"status": row.status, "current_step": row.current_step, "tries": tries}
    return {"definition": json.loads(row.definition), "state": state}


def steps_of(connection: sqlite3.Connection, row: InvocationRow) -> list[ChainStepRow]:
    """The tries of all steps, if it is that of a whole chain run."""
    is_root = row.chain_run_id is not None and row.step_index is None
    return chain_steps(connection, row.chain_run_id) if is_root and row.chain_run_id else []


def invocation_as_json(
    settings: Settings, row: InvocationRow, steps: Sequence[ChainStepRow], outcomes: Sequence[ArtifactRow]
) -> dict[str, JsonValue]:
    """An invocation with what it was ordered with, and its outcomes."""
    return {
        **invocation_summary(row),
        "node_metadata": metadata_of(row, steps),
        "artifacts": outcomes_as_json(settings, outcomes),
    }
