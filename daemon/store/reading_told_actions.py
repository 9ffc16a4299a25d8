"""A run's actions in the exchange, as the calls of its replay."""

import json
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from runward.daemon.store.reading import STORE, open_to_read
from runward.daemon.store.reading_pruning import PROGRESS
from runward.handlers.calls import Told
from runward.handlers.exchange.told import TakenAction, told_by_action

_TAKEN: Final = (
    "select e.payload ->> 'text', e.payload ->> 'at', a.at, a.action_type, a.result, a.sandbox, e.payload ->> 'attempt'"
    " from actions a join events e on e.seq = a.seq where a.key = ?"
)


class LastTold(NamedTuple):
    """The last action of a run in its replay: its line, and when its result came (Unix seconds)."""

    line: int = 0
    at: float = 0.0


NOTHING: Final = LastTold()


def actions_taken(connection: sqlite3.Connection, session_key: str) -> int:
    """How many of a run's intents have a result."""
    asked = f"select f.done from {PROGRESS} f where f.session_key = ?"  # noqa: S608 # our own words
    row = connection.execute(asked, (session_key,)).fetchone()
    return 0 if row is None else int(row[0])


def told_actions(
    connection: sqlite3.Connection, session_key: str, count: int, last: LastTold = NOTHING
) -> Iterator[Told]:
    """The first `count` actions of a run as calls with their results, one after another: only one is held at a time.

    Those up to the `last` one are left out.
    """
    before = last.at
    row = connection.execute("select run from intent_files where session_key = ?", (session_key,)).fetchone()
    run = session_key if row is None or row[0] is None else str(row[0])
    for line in range(last.line + 1, count + 1):
        row = connection.execute(_TAKEN, (f"{run}#intent/{line}",)).fetchone()
        if row is None:
            continue
        text, read_at, at, action_type, result, sandbox, attempt = row
        taken = TakenAction(line, text, read_at, at, action_type, json.loads(result), sandbox, attempt)
        called, returned = told_by_action(taken, before)
        before = returned.at or before
        yield called
        yield returned


def told_actions_in(state: Path, session_key: str, count: int, last: LastTold = NOTHING) -> Generator[Told]:
    """The same from the store in `state`, which isn't opened if `count` is 0.

    Raises `sqlite3.Error` and `StoreUnreadable`.
    """
    if count > last.line:
        with closing(open_to_read(str(state / STORE))) as connection:
            yield from told_actions(connection, session_key, count, last)
