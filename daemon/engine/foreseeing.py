"""Foreseeing: what handlers will ask of files and settings about new events is answered before the turn that records them.

So a verdict is decided inside the transaction that records its end, although no file is opened there. The answers are
those that it would have read: they are younger than everything that the turn has observed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from runward.handlers.model.asking import Question

Asked: TypeAlias = Question[Any]

MOST_BYTES: Final = 8 << 20
"""Bytes of answers that are kept for one turn. What is beyond that is read when the verdict asks for it."""

_NOTHING: Final[Mapping[Asked, object]] = {}


@dataclass(slots=True, eq=False)
class Foreseen:
    """Answers for the jobs of a turn's first transaction.

    `settings` are for all of them, and hold for the whole turn. Those of files are for one lane, in which something new
    was seen.
    """

    settings: dict[Asked, object] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """What failed: a bug. Its verdicts are decided without foresight."""
    _of_lanes: dict[str, dict[Asked, object]] = field(default_factory=dict)
    _left: int = MOST_BYTES

    @property
    def is_full(self) -> bool:
        """Whether nothing more is foreseen."""
        return self._left < 0

    def of_lane(self, lane: str) -> Mapping[Asked, object]:
        """The answers about files for the jobs of this lane."""
        return self._of_lanes.get(lane, _NOTHING)

    def keep(self, lane: str, question: Asked, answer: object, size: int) -> None:
        """Keep an answer about files of so many bytes, if there is room for it."""
        self._left -= size
        if not self.is_full:
            self._of_lanes.setdefault(lane, {})[question] = answer
