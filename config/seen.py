"""What expressions see of a chain run: the fields of its steps and of the run itself.

They are declared once, here. Who evaluates expressions fills them in, for a chain run and for a dry run alike, and who
checks a chain's file knows from them which look-ups exist.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

from runward.config.json_value import JsonValue

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
