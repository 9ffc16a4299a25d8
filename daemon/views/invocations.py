"""Invocations as programs read them: the objects of `invocation list --json` and `invocation show --json`."""

import json
import sqlite3
from collections.abc import Sequence
from typing import Final

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store.reading_artifacts import ArtifactRow
from runward.daemon.store.reading_chains import ChainStepRow, chain_steps
from runward.daemon.store.reading_invocations import InvocationRow
from runward.daemon.views.outcomes import outcomes_as_json
from runward.daemon.views.units import iso

STATUSES: Final = ("running", "waiting_approval", "completed", "failed", "timed_out", "aborted", "cancelled")


def invocation_summary(row: InvocationRow) -> dict[str, JsonValue]:
    """An invocation as it appears in lists."""
    return {
        "invocation_id": row.id,
        "skill": row.skill,
        "status": row.status,
        "reason_code": row.reason_code,
        "chain": row.chain,
        "chain_run_id": row.chain_run_id,
        "step_index": row.step_index,
        "try": row.attempt,
        "session_id": None if row.session_key is None else row.session_key.rpartition("/")[2],
        "session_key": row.session_key,
        "created_at": iso(row.created_at),
        "ended_at": None if row.ended_at is None else iso(row.ended_at),
    }


def metadata_of(row: InvocationRow, steps: Sequence[ChainStepRow]) -> JsonValue:
    """What it was ordered with. For a chain run's root: the definition, and the run's state."""
    if row.definition is None:
        metadata: JsonValue = None if row.node_metadata is None else json.loads(row.node_metadata)
        return metadata
    tries: list[JsonValue] = [
        {
            "step_index": each.step,
            "try": each.attempt,
            "status": each.status,
            "reason_code": each.reason_code,
            "outcome": None if each.outcome is None else json.loads(each.outcome),
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
