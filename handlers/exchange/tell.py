"""An action has its result: the run's journals report it, and chains may react to it."""

from typing import Final

from pydantic_core import to_json

from runward.config import own_events
from runward.handlers.journal.lines import EVENTS, action_taken, artifact_deleted
from runward.handlers.model.asking import Given, ask
from runward.handlers.model.chains import EventOccurred, ListenersTo, chain_run_of
from runward.handlers.model.effects import Deciding, Effect, Emit
from runward.handlers.model.exchange import ActionTaken
from runward.handlers.model.journal import AppendLines
from runward.handlers.model.sessions import SessionOf

RESULTS: Final = "results.jsonl"

NAMES: Final = own_events.EXCHANGE
"""With the type of an action: its name, as an event for chains and as a tool in the run's replay."""


def decide(event: ActionTaken, given: Given) -> Deciding:
    """An action has its result: the run's journals report it, and chains may react to it.

    Append the action to `results.jsonl` and `events.jsonl` of its run, and tell chains that listen.
    """
    effects: list[Effect] = []
    if event.session_key is not None:
        session = yield from ask(SessionOf(event.session_key))
        if session is not None:
            line = to_json({**event.told, "hash": given.event_hash}) + b"\n"
            lines = action_taken(event, given.event_hash)
            if event.is_success and event.action_type == "delete_artifact":
                lines += artifact_deleted(event, given.event_hash)
            is_live = session.status == "running"
            # Nothing else writes results, so a half line there will never be finished.
            effects.append(AppendLines(session.key, session.path, RESULTS, line, False))
            effects.append(AppendLines(session.key, session.path, EVENTS, lines, is_live))
    if event.action_type is not None:
        name = f"{NAMES}{event.action_type}"
        if (yield from ask(ListenersTo(name))):
            effects.append(Emit(_occurred(event, name)))
    return tuple(effects)


def _occurred(event: ActionTaken, name: str) -> EventOccurred:
    return EventOccurred(
        f"{event.action}/occurred",
        event.at,
        name,
        event.action,
        own_events.ActionTaken(
            action_type=event.action_type,
            artifact_id=event.artifact_id,
            principal_id=event.principal,
            success=event.is_success,
            error_code=event.error_code,
        )._asdict(),
        by_run=None if event.session_key is None else chain_run_of(event.session_key),
    )
