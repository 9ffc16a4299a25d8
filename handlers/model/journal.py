"""Journals as data: events, effects, questions and their answers."""

from runward.handlers.model.effects import Effect
from runward.handlers.model.events import Event, OfSession


class JournalDamaged(OfSession, Event, frozen=True):
    """Runward's lines in the journal `name` of `directory` are not as they were written.

    `rows` are the numbers in the store of what must be written again, `epoch` is that of the daemon which found
    it. `lost` lines are gone or torn, of the torn ones `torn_bytes` are left. `changed` ones were changed or
    removed in place, which no crash does. `moved` ones are elsewhere in the file.
    """

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
        # The same line may be lost again, after a repair by another daemon: the epoch tells the two apart.
        return f"{self.session_key}#{self.name}/{self.rows[0]}@{self.epoch}/damaged"


class AppendLines(Effect, frozen=True):
    """Append whole lines to the journal `name` in `directory`.

    `live` says that the run may still write to the file: then lines are appended only after a newline.
    """

    key: str
    directory: str
    name: str
    content: bytes
    live: bool


class RepairJournal(Effect, frozen=True):
    """Have these `rows` of the store written again to the journal `name` in `directory`.

    `live` is as in `AppendLines`. `problem` is kept if somebody changed what was there.
    """

    directory: str
    name: str
    rows: tuple[int, ...]
    live: bool
    problem: str | None = None
