"""What can happen to journals."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from runward.handlers.event_kinds import OfSession


@dataclass(frozen=True, slots=True)
class JournalDamaged(OfSession):
    """Runward's lines in the journal `name` of `directory` are not as they were written.

    `rows` are the numbers in the store of what must be written again, `epoch` is that of the daemon which found
    it. `lost` lines are gone or torn, of the torn ones `torn_bytes` are left. `changed` ones were changed or
    removed in place, which no crash does. `moved` ones are elsewhere in the file.
    """

    type: ClassVar[str] = "JournalDamaged"
    version: ClassVar[int] = 1

    session_key: str
    at: float
    epoch: int
    directory: str
    name: str
    rows: tuple[int, ...]
    lost: int
    torn_bytes: int
    changed: int
    moved: int

    @property
    def key(self) -> str:
        return f"{self.session_key}#{self.name}/{self.rows[0]}@{self.epoch}/damaged"


JournalEvent: TypeAlias = JournalDamaged
