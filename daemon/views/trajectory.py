"""The trajectory of a session as `session export --format atif` prints it: its steps as they are read, then its sums."""

import heapq
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.config.root import NATIVE
from runward.config.settings import Settings
from runward.daemon.rundir.call_reading import told_by
from runward.daemon.rundir.message_reading import messages_of
from runward.daemon.rundir.session_reading import read_session
from runward.daemon.store.tables.replays import actions_taken, told_actions
from runward.daemon.store.tables.sessions import SessionRow
from runward.handlers.bundle.shown import Redaction, Showing
from runward.handlers.bundle.trajectory import SCHEMA, Trajectory
from runward.handlers.calls import Told as ToldCall
from runward.handlers.calls import by_time, time_of
from runward.handlers.layouts.places import PACKED
from runward.handlers.layouts.registry import LAYOUTS, conversation_in
from runward.handlers.layouts.transcript import Said, Told
from runward.handlers.times import iso

_UNKNOWN = "unknown"
"""ATIF requires a version of the agent. This is what Harbor's own agents write if they don't know theirs."""


class NoSteps(Exception):
    """The session's files have no text and no call; the message says what could not be read, if anything."""


def trajectory_text(connection: sqlite3.Connection, settings: Settings, row: SessionRow) -> Iterator[str]:
    """The JSON text, in pieces: no more is held than the steps that wait for a result. Raises `NoSteps` before the first one."""
    rules = settings.bundle.rules
    trajectory = Trajectory(Showing(Redaction(rules.redact), rules.longest_text))
    steps = _steps(connection, row, trajectory)
    first = next(steps, None)
    if first is None:
        raise NoSteps(_problem(trajectory) or "")
    # A native run is Runward's own, and its files say nothing about a model.
    is_packed = not os.path.lexists(row.path) and os.path.lexists(row.path + PACKED)
    path = row.path + PACKED if is_packed else row.path
    told = Told() if row.layout == NATIVE else read_session(LAYOUTS.named(row.layout), path).told
    head: dict[str, JsonValue] = {
        "schema_version": SCHEMA,
        "session_id": row.session_id,
        "agent": _agent(row, told),
    }
    yield f'{_json(head)[:-1]}, "steps": [\n{_json(first)}'
    for step in steps:
        yield f",\n{_json(step)}"
    yield f"\n], {_json(_tail(row, told, trajectory))[1:]}\n"


def _steps(connection: sqlite3.Connection, row: SessionRow, trajectory: Trajectory) -> Iterator[JsonValue]:
    actions = told_actions(connection, row.key, actions_taken(connection, row.key))
    calls = by_time(told_by(row.layout, row.path, lambda read: True), actions)
    # The calls of a document have all one place: then times say what comes first.
    conversation = conversation_in(row.layout)
    is_timed = conversation is not None and conversation.lines is not None
    texts = ((said.at if is_timed else start, said) for start, said in messages_of(row.layout, row.path))
    told = ((time_of(each) if is_timed else each.place.start, each) for each in calls)
    # A line's text comes before its calls; and the calls of a later line never before those of an earlier one.
    for each in heapq.merge(_placed(texts, 0), _placed(told, 1), key=lambda each: each.place):
        if isinstance(each.value, Said):
            yield from trajectory.said(*each.value)
        else:
            yield from trajectory.told(each.value)
    yield from trajectory.rest()


class _Placed(NamedTuple):
    place: tuple[float, int]
    value: Said | ToldCall


def _placed(records: Iterable[tuple[float | None, Said | ToldCall]], rank: int) -> Iterator[_Placed]:
    latest = 0.0
    for place, each in records:
        latest = latest if place is None else max(latest, place)
        yield _Placed((latest, rank), each)


def _agent(row: SessionRow, told: Told) -> dict[str, JsonValue]:
    name = (row.agent or row.layout) if row.layout == NATIVE else row.layout
    # A step without a model means this one. Which step was made by which of several models is not known.
    models = {each.model for each in told.counted if each.model}
    model = models.pop() if len(models) == 1 else told.model if not models else None
    agent: dict[str, JsonValue] = {"name": name, "version": told.version or _UNKNOWN}
    return agent | ({"model_name": model} if model else {})


def _tail(row: SessionRow, told: Told, trajectory: Trajectory) -> dict[str, JsonValue]:
    """What comes after the steps: their sums, how the session ended, and what is missing."""
    tail: dict[str, JsonValue] = {
        "final_metrics": {**_sums(told, trajectory), "total_steps": trajectory.steps},
        "extra": {
            "layout": row.layout,
            "status": row.status,
            "reason_code": row.reason_code,
            "delivery": row.delivery,
            "attempt": row.attempt,
            "started_at": iso(row.started_at),
            "finished_at": iso(row.finished_at),
        },
    }
    problem = _problem(trajectory)
    return tail | ({"notes": problem} if problem else {})


def _sums(told: Told, trajectory: Trajectory) -> dict[str, JsonValue]:
    """Tokens, and the cost that the agent itself reports. Prices are not the agent's word, so they are not applied."""
    sums: dict[str, JsonValue] = {}
    usd = trajectory.usd
    if told.counted:
        cached = sum(each.cache_read for each in told.counted)
        given = sum(each.fresh_input + each.cache_write_5m + each.cache_write_1h for each in told.counted)
        sums |= {
            "total_prompt_tokens": given + cached,
            "total_completion_tokens": sum(each.output for each in told.counted),
            "total_cached_tokens": cached,
        }
        reported = [each.reported_nanousd for each in told.counted]
        known = [each for each in reported if each is not None]
        if len(known) == len(reported):
            usd = sum(known) / 1e9
    elif told.usage is not None:
        sums |= {
            "total_prompt_tokens": told.usage.input_tokens,
            "total_completion_tokens": told.usage.output_tokens,
        }
    return sums if usd is None else {**sums, "total_cost_usd": usd}


def _problem(trajectory: Trajectory) -> str | None:
    if trajectory.unusable is None:
        return None
    first, count = trajectory.unusable
    others = f" (and {count - 1} more)" if count > 1 else ""
    return f"Not complete: {first}{others}"


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
