"""How far the intents of a run were read, and what a reading found."""

from typing import NamedTuple

from runward.handlers.layouts.native import RunSays


class IntentCursor(NamedTuple):
    """How far a file was read: which one it was, the bytes and lines, and the last bytes before (hex)."""

    identity: str | None = None
    offset: int = 0
    line: int = 0
    before: str = ""


class IntentLine(NamedTuple):
    """A line: its number from 1, and its text, or what is wrong with it."""

    number: int
    text: str
    complaint: str | None = None


class IntentsRead(NamedTuple):
    """What was read: the lines, and the cursor after them. `owner` is the uid of the directory's owner.

    If `more`, there are further lines. `problem` says why the file is read no further. `says` is what the run says at that
    moment of who it is.
    """

    lines: tuple[IntentLine, ...]
    cursor: IntentCursor
    owner: int
    more: bool = False
    problem: str | None = None
    says: RunSays = RunSays()
