"""From what people type to the one thing that they mean: ids, their beginnings, and `@last`."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from runward.config.problem import nearest
from runward.daemon.cli.exits import NOT_FOUND, WRONG_USAGE
from runward.daemon.cli.terminal.output import fail

LAST: Final = "@last"
NAMED: Final = 8
"""Candidates that an ambiguous id names; more are only counted."""
_SHOWN_BY: Final = {
    "job": "queue list",
    "notice": "notify list",
    "chain run": "chain runs",
    "approval": "chain approvals",
}
"""The commands that show what there is, but for those called `NOUN list`."""


class Identified(Protocol):
    """Something that has an id."""

    @property
    def id(self) -> str: ...


Called = TypeVar("Called", bound=Identified)


class Noun(NamedTuple, Generic[Called]):
    """What a command may be given one of: its name, those that a text is or begins, and the newest."""

    name: str
    called: Callable[[sqlite3.Connection, str], Sequence[Called]]
    newest: Callable[[sqlite3.Connection], Sequence[Called]]
    none_yet: str


def find_called(connection: sqlite3.Connection, noun: Noun[Called], text: str) -> Called:
    """The one that `text` is or begins, the newest for `@last`; exits 2 if it begins several, 3 if there is none."""
    if text == LAST:
        last = noun.newest(connection)
        if not last:
            fail(noun.none_yet, NOT_FOUND)
        return last[0]
    refuse_empty(text)
    candidates = noun.called(connection, text)
    if not candidates:
        refuse_unknown(noun.name, text, ())
    exact = [each for each in candidates if each.id == text]
    if len(candidates) > 1 and not exact:
        refuse_ambiguous(text, [each.id for each in candidates])
    return exact[0] if exact else candidates[0]


def refuse_empty(text: str) -> None:
    """Exit 2 where nothing was written."""
    if not text:
        fail("an empty id is not valid: write the beginning of one, or @last", WRONG_USAGE)


def refuse_ambiguous(text: str, candidates: list[str]) -> NoReturn:
    """Exit 2, naming the candidates."""
    named = ", ".join(candidates[:NAMED])
    more = ", …" if len(candidates) > NAMED else ""
    fail(f"{text!r} is ambiguous: {named}{more}; write more of it, or the whole key", WRONG_USAGE)


def refuse_unknown(noun: str, text: str, known: Iterable[str]) -> NoReturn:
    """Exit 3, naming the nearest of what is known."""
    guess = nearest(text, known)
    shown_by = _SHOWN_BY.get(noun, f"{noun} list")
    fix = f"did you mean {guess!r}?" if guess else f"`runward {shown_by}` lists them"
    fail(f"there is no {noun} {text!r}; {fix}", NOT_FOUND)
