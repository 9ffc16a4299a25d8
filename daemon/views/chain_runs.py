"""Chain runs as programs read them."""

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from runward.config.json_value import JsonValue
from runward.daemon.store.reading_chains import ChainRunRow, ChainStepRow
from runward.daemon.views.units import iso


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
