"""What can happen to a start."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from runward.handlers.event_kinds import OfSession


@dataclass(frozen=True, slots=True)
class StartFailed(OfSession):
    """A requested run can never begin. `start` is the key of its order, `session_key` the session it would have been."""

    type: ClassVar[str] = "StartFailed"
    version: ClassVar[int] = 1

    start: str
    session_key: str
    at: float
    why: str

    @property
    def key(self) -> str:
        return f"{self.start}/failed"


@dataclass(frozen=True, slots=True)
class StartedEarlier(OfSession):
    """A requested run began before the request was recorded: a store that was restored from a backup had lost the request.

    `start` is the key of its order, as its launcher found it in the run.
    """

    type: ClassVar[str] = "StartedEarlier"
    version: ClassVar[int] = 1

    start: str
    session_key: str
    at: float

    @property
    def key(self) -> str:
        return f"{self.start}/earlier"


StartEvent: TypeAlias = StartFailed | StartedEarlier
