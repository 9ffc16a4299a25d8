"""What can be asked about shows, and the answers."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.handlers.asking import Question
from runward.handlers.layouts.scanner import Document
from runward.handlers.unreadable import Unreadable  # noqa: F401 - in the types of answers


class PlayFiles(NamedTuple):
    """A play's `_meta.json` and its show's `_show.md`, as far as they are there."""

    meta: Document | None
    plan: Document | None


@dataclass(frozen=True, slots=True)
class PlayFilesIn(Question["PlayFiles | Unreadable"]):
    """Question: what a play's directory, and its parent, say about the play. Answer: `PlayFiles`, or `Unreadable`."""

    path: str


QUESTIONS: Final = (PlayFilesIn,)
