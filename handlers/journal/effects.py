"""What can be ordered for journals: lines to append, and lines to write again."""

from typing import NamedTuple, TypeAlias


class AppendLines(NamedTuple):
    """Append whole lines to the journal `name` in `directory`.

    `live` says that the run may still write to the file: then lines are appended only after a newline.
    """

    key: str
    directory: str
    name: str
    content: bytes
    live: bool


class RepairJournal(NamedTuple):
    """Have these `rows` of the store written again to the journal `name` in `directory`.

    `live` is as in `AppendLines`. `problem` is kept if somebody changed what was there.
    """

    directory: str
    name: str
    rows: tuple[int, ...]
    live: bool
    problem: str | None = None


JournalEffect: TypeAlias = AppendLines | RepairJournal
