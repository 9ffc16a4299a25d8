"""An action as a call of the run that wanted it: the intent is what was asked, and the result what came back.

The times are those of the daemon. A run's intents are carried out one after another, so a call begins when its turn
comes: when its line was read, or when the action before it had its result.
"""

from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called, Place, Returned
from runward.handlers.exchange.intent import NotAnIntent, intent_to_json, parse_intent
from runward.handlers.exchange.tell import NAMES, RESULTS

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
    told: JsonValue = {**action.result, "sandbox": action.sandbox}
    content, error = (told, None) if success else (None, told)
    return (
        Called(place, began, call, tool, _params(action.text), attempt=action.attempt),
        Returned(place, max(began, action.at), call, content, error, success),
    )


def _params(text: str) -> JsonValue:
    try:
        return {**intent_to_json(parse_intent(text.encode()))}
    except (NotAnIntent, UnicodeEncodeError):
        return text
