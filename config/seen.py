"""What the expressions of a chain see, and the check that they name nothing else.

The fields are declared once, here. The evaluation of an expression fills them in, for a chain run and for a dry run alike.
The check of a chain's file takes from them which look-ups exist.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypedDict

from runward.config.counted_values import ExpressionError
from runward.config.expression import Value
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, unknown_field
from runward.config.shape import Complain

NAMES: Final = ("trigger", "steps", "outcome", "chain")
"""What expressions see."""

SeenStep = TypedDict(
    "SeenStep",
    {
        "id": str,
        "name": str,
        "status": str,
        "skipped": bool,
        "reason": str | None,
        "outcome": JsonValue,
        "outcomes": Sequence[JsonValue] | None,
        "delivery": str | None,
        "verification": JsonValue,
        "exit_code": int | None,
        "session_id": str | None,
        "host": str | None,
        "artifacts": Mapping[str, str],
        "try": int,
    },
)
"""A step before the one whose expressions are evaluated. `outcomes` is None if they are too large to be seen."""

STEP_FIELDS: Final = tuple(SeenStep.__annotations__)


class SeenChain(TypedDict):
    """The chain run itself. `due_at` is of a schedule, and `events` are those of a composite trigger."""

    name: str
    run_id: str | None
    event: str | None
    event_id: str | None
    fired_at: str | None
    due_at: str | None
    events: Sequence[JsonValue]


CHAIN_FIELDS: Final = tuple(SeenChain.__annotations__)


class Visible(NamedTuple):
    """What the expressions of a step may name: the ids of the steps before it, and the fields of `trigger`, if known.

    A definition that a chain run keeps was valid when the run began, so only references to steps are checked in it.
    """

    steps: list[str]
    trigger: Sequence[str] | None = None
    is_kept: bool = False


def check_text(text: str, loc: Location, visible: Visible, complain: Complain) -> Value | None:
    """The text with its expressions, which may name what is visible. None after a complaint."""
    try:
        parsed = Value(text, NAMES)
    except ExpressionError as error:
        complain(Complaint(loc, str(error), error.fix))
        return None
    for expression in parsed.expressions:
        for path in expression.paths:
            if path[0] == "steps" and len(path) > 1:
                _check_earlier(path[1], loc, visible.steps, complain)
            if not visible.is_kept:
                _check_field(path, loc, visible, complain)
    return parsed


def _check_field(path: Sequence[str | int], loc: Location, visible: Visible, complain: Complain) -> None:
    """A look-up in a step, in the chain or in one of Runward's own events names one of its fields."""
    match path:
        case ["steps", which, name, *_]:
            whose, known = f"steps[{which!r}]", STEP_FIELDS
        case ["chain", name, *_]:
            whose, known = "chain", CHAIN_FIELDS
        case ["trigger", name, *_] if visible.trigger is not None:
            whose, known = "trigger", tuple(visible.trigger)
        case _:
            return
    if name not in known:
        complain(unknown_field(str(name), loc, whose, known))


def _check_earlier(which: str | int, loc: Location, before: Sequence[str], complain: Complain) -> None:
    is_there = -len(before) <= which < len(before) if isinstance(which, int) else which in before
    if not is_there:
        named = [each for each in before if each]
        known = f"before it: {', '.join(named)}" if named else "no step is before it"
        complain(Complaint(loc, f"steps[{which!r}] is not a step before this one", known))
