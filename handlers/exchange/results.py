"""An action that has its result, as others learn of it: in its run's journals and calls, and as an event for chains.

The times of calls are those of the daemon. A run's intents are carried out one after another, so a call begins when its
turn comes: when its line was read, or when the action before it had its result.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import structs

from runward.config import own_events
from runward.config.intent import NotAnIntent
from runward.config.json_value import JsonValue, stored_json
from runward.handlers.calls import Called, Place, Returned, answered
from runward.handlers.exchange.intent import RESULTS, intent_to_json, parse_intent
from runward.handlers.journal.lines import EVENTS, action_taken, artifact_deleted
from runward.handlers.model.asking import Given, ask
from runward.handlers.model.chains import EventOccurred, IsHeard, chain_run_of
from runward.handlers.model.effects import Deciding, Effect, Emit
from runward.handlers.model.exchange import ActionTaken, RecordAction
from runward.handlers.model.journal import AppendLines
from runward.handlers.model.sessions import SessionOf

NAMES: Final = own_events.EXCHANGE
"""With the type of an action: its name, as an event for chains and as a tool in the run's replay."""


def tell_result(event: ActionTaken, given: Given) -> Deciding:
    """Actions have their results: the run's journals report them, and chains may react to them."""
    effects: list[Effect] = []
    taken = (event, *event.further)
    if event.session_key is not None:
        session = yield from ask(SessionOf(event.session_key))
        if session is not None:
            results = b"".join(_line(each, given.event_hash) for each in taken)
            lines = b"".join(_journal_lines(each, given.event_hash) for each in taken)
            is_live = session.status == "running"
            # Nothing else writes results, so a half line there will never be finished.
            effects.append(AppendLines(session.key, session.path, RESULTS, results, False))
            effects.append(AppendLines(session.key, session.path, EVENTS, lines, is_live))
    for each in taken:
        if each.action_type is not None:
            name = f"{NAMES}{each.action_type}"
            if (yield from ask(IsHeard(name))):
                effects.append(Emit(_occurred(each, name)))
    return tuple(effects)


def _line(taken: ActionTaken, event_hash: str) -> bytes:
    return stored_json({**taken.told, "hash": event_hash}) + b"\n"


def _journal_lines(taken: ActionTaken, event_hash: str) -> bytes:
    lines = action_taken(taken, event_hash)
    if taken.is_success and taken.action_type == "delete_artifact":
        lines += artifact_deleted(taken, event_hash)
    return lines


MOST_TOGETHER: Final = 256
"""Actions that one event reports."""

MOST_BYTES: Final = 1 << 20
"""Bytes of the results in one event. A larger result has an event of its own."""


@dataclass(slots=True)
class _Together:
    """Actions that one event reports: the number of the first one's decision, its event, the others, and their bytes."""

    number: int
    first: ActionTaken
    size: int
    further: list[ActionTaken] = field(default_factory=list)

    def has_room(self, size: int) -> bool:
        return len(self.further) < MOST_TOGETHER - 1 and self.size + size <= MOST_BYTES


def told_together(decided: Sequence[Sequence[Effect]]) -> list[Sequence[Effect]]:
    """What jobs decided in one transaction, in order, with one event for the results of actions of the same attempt.

    Each action keeps its own record, and its place in the order. Only the events that report them become one.
    """
    effects_of = list(decided)
    latest: dict[str, _Together] = {}
    shared: list[_Together] = []
    for number, effects in enumerate(decided):
        last = effects[-1] if effects else None
        taken = last.event if isinstance(last, Emit) else None
        if not isinstance(taken, ActionTaken) or taken.session_key is None:
            continue
        attempt, size = taken.subject.rpartition("/")[0], len(stored_json(taken.told))
        together = latest.get(attempt)
        if together is None or not together.has_room(size):
            latest[attempt] = _Together(number, taken, size)
            continue
        if not together.further:
            shared.append(together)
        together.further.append(taken)
        together.size += size
        effects_of[number] = tuple(
            structs.replace(each, told_in=together.first.key) if isinstance(each, RecordAction) else each
            for each in effects[:-1]
        )
    for together in shared:
        whole = structs.replace(together.first, further=tuple(together.further))
        effects_of[together.number] = (*effects_of[together.number][:-1], Emit(whole))
    return effects_of


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


CALL: Final = "intent/"
"""With the number of the intent's line: the id of a call. No call that a run itself reports has such an id."""

NO_INTENT: Final = f"{NAMES}invalid"
"""The tool's name for a line that is not an intent."""


class TakenAction(NamedTuple):
    """An action of a run: the line as it was read, when it was read and carried out (Unix seconds), and its result.

    `attempt` is that of the run which wrote the line.
    """

    line: int
    text: str
    read_at: float
    at: float
    action_type: str | None
    result: dict[str, JsonValue]
    sandbox: str | None
    attempt: int | None = None


def told_by_action(action: TakenAction, before: float) -> tuple[Called, Returned]:
    """The call and its result. `before` is when the action before it was carried out (Unix seconds)."""
    place = Place(RESULTS, action.line, 0, len(action.text))
    call = f"{CALL}{action.line}"
    tool = NO_INTENT if action.action_type is None else f"{NAMES}{action.action_type}"
    began = max(action.read_at, before)
    success = bool(action.result["success"])
    output: JsonValue = {**action.result, "sandbox": action.sandbox}
    return (
        Called(place, began, call, tool, _params(action.text), attempt=action.attempt),
        answered(place, max(began, action.at), call, output, failed=not success),
    )


def _params(text: str) -> JsonValue:
    try:
        return {**intent_to_json(parse_intent(text.encode()))}
    except (NotAnIntent, UnicodeEncodeError):
        return text
