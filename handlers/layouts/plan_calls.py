"""Plans that an agent keeps with a tool, which gets the whole list of steps each time, with their states."""

from collections.abc import Iterator, Sequence
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.calls import Place, PlanTold, StepDone, Told
from runward.handlers.layouts.foreign_values import text_in

DONE_KEPT: Final = 1000
"""Steps that are remembered as done, so that each is reported once."""

_COMPLETED: Final = "completed"
_SUCCESS: Final = "Success"


class Plans:
    """What was reported of a session's plans so far: each list, and each step when it is done."""

    def __init__(self) -> None:
        self._done: dict[str, None] = {}

    def told(self, place: Place, at: float | None, steps: JsonValue, names: Sequence[str]) -> Iterator[Told]:
        """What a list of steps says. A step is identified by the first of these fields that it has."""
        if not isinstance(steps, list):
            return
        yield PlanTold(place, at, steps, len(steps))
        for step in steps:
            if not isinstance(step, dict) or step.get("status") != _COMPLETED:
                continue
            name = next((text for key in names if (text := text_in(step.get(key)))), None)
            if name is None or name in self._done:
                continue
            self._done[name] = None
            if len(self._done) > DONE_KEPT:
                del self._done[next(iter(self._done))]
            yield StepDone(place, at, name, _SUCCESS)
