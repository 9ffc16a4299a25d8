"""From what people type to the one thing that they mean: ids, their beginnings, and `@last`."""

import sqlite3
from collections.abc import Iterable
from typing import Final, NoReturn

from runward.config.counting import counted
from runward.config.problem import nearest
from runward.daemon.cli.exits import NOT_FOUND, WRONG_USAGE
from runward.daemon.cli.output import fail, local, safe
from runward.daemon.store import reading, reading_causes
from runward.daemon.store.reading_causes import JobRow
from runward.daemon.store.reading_pruning import Tombstone, tombstone

LAST: Final = "@last"
_NAMED: Final = 8
"""Candidates that an ambiguous id names; more are only counted."""
_COMPARED: Final = 2000
"""The newest sessions, among which the nearest id is looked for."""


def find_session(connection: sqlite3.Connection, text: str) -> str:
    """The key of the session that `text` means; exits 2 where it means several, 3 where it means none."""
    if text == LAST:
        newest = reading.newest_session(connection)
        if newest is None:
            fail(
                "there is no session yet: `runward run -- COMMAND` records one, and a root of the settings brings "
                "those of an agent",
                NOT_FOUND,
            )
        return newest
    if not text:
        fail("an empty id means nothing: write the beginning of one, or @last", WRONG_USAGE)
    key = session_called(connection, text)
    if key is not None:
        return key
    refuse_pruned(connection, text)
    return refuse_unknown("session", text, session_names(connection))


def refuse_pruned(connection: sqlite3.Connection, text: str) -> None:
    """Exit 3 where the session of this id or key was pruned, with what is left of it."""
    pruned = tombstone(connection, text)
    if pruned is not None:
        fail(_of_tombstone(pruned), NOT_FOUND)


def _of_tombstone(pruned: Tombstone) -> str:
    return (
        f"the record of {safe(pruned.session_id)} was pruned {local(pruned.pruned_at)}: it was {pruned.status} after"
        f" {counted(pruned.attempt, 'attempt', 'attempts')}, from {local(pruned.started_at)} to"
        f" {local(pruned.finished_at)}; its last event was {pruned.event}, {pruned.hash}"
    )


def session_called(connection: sqlite3.Connection, text: str) -> str | None:
    """The key of the session that `text` is or begins; exits 2 where it begins several."""
    found = reading.sessions_called(connection, text, _NAMED + 1)
    if len(found) > 1:
        refuse_ambiguous(text, [_shortest(each, found) for each in found])
    return found[0][0] if found else None


def session_names(connection: sqlite3.Connection) -> list[str]:
    """Ids and keys of the newest sessions, for suggestions."""
    return [word for each in reading.newest_sessions(connection, _COMPARED) for word in each]


def find_job(connection: sqlite3.Connection, text: str, held: bool = False) -> JobRow:
    """The job of this number; exits 3 where there is none. `@last` is the newest, or the newest held one."""
    if text == LAST:
        newest = reading_causes.newest_job(connection, held)
        if newest is None:
            fail("no job is held" if held else "there is no job yet", NOT_FOUND)
        text = str(newest)
    number = text.removeprefix("job:")
    job = reading_causes.job(connection, int(number)) if number.isdecimal() and len(number) < 19 else None
    if job is None:
        refuse_unknown("job", text, [str(each.id) for each in reading_causes.open_jobs(connection)])
    return job


def refuse_ambiguous(text: str, candidates: list[str]) -> NoReturn:
    """Exit 2, naming the candidates."""
    named = ", ".join(candidates[:_NAMED])
    more = ", …" if len(candidates) > _NAMED else ""
    fail(f"{text!r} may mean {named}{more}: write more of it, or the whole key", WRONG_USAGE)


def refuse_unknown(noun: str, text: str, known: Iterable[str]) -> NoReturn:
    """Exit 3, naming the nearest of what is known."""
    guess = nearest(text, known)
    group = "queue" if noun == "job" else noun
    mend = f"did you mean {guess!r}?" if guess else f"`runward {group} list` shows what there is"
    fail(f"there is no {noun} {text!r}; {mend}", NOT_FOUND)


def _shortest(candidate: tuple[str, str], among: list[tuple[str, str]]) -> str:
    """A candidate's id, or its key where another one has the same id."""
    key, identifier = candidate
    return identifier if sum(each[1] == identifier for each in among) == 1 else key
