"""How a scanner's state is stored between two readings, and restored."""

from typing import Generic

from runward.handlers.layouts.transcript import State
from runward.handlers.model.stored import Stored, as_json


class KeepsState(Generic[State]):
    """A scanner whose state is stored as JSON; the state's type tells its version.

    `is_exact` is for a type that has a default for nearly every field, so that other JSON would pass for a state, too.
    """

    __slots__ = ("_is_exact", "_states")

    def __init__(self, state: type[State], *, is_exact: bool = False) -> None:
        self._states = Stored(state)
        self._is_exact = is_exact

    def dump(self, state: State) -> str:
        """The state as JSON."""
        return as_json(state)

    def load(self, text: str) -> State:
        """The state that was dumped. Raises `ValueError` for what this program never wrote."""
        state = self._states.load(text)
        if self._is_exact and self.dump(state) != text:
            raise ValueError("this is not a state that the scanner wrote")
        return state
