"""`runward doctor --rebuild`: the state of every session, rebuilt from its journal and compared with the store.

One session at a time, so that memory does not grow with their number, and in short transactions, so that the store's
log does not grow with the duration. Nothing is written.
"""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple, Protocol

from runward.config.json_value import JsonValue
from runward.config.root import NATIVE
from runward.daemon.rundir.journal_reading import JournalAway, told_lines
from runward.daemon.store import reading, reading_sessions
from runward.daemon.store.journals import read_standing_lines
from runward.daemon.store.session_state import FreshStore, keys_after, packed_among, state_of
from runward.handlers.contracts.snapshots import BrokenSnapshot, snapshot_of, stored_contract
from runward.handlers.foreign_json import read_json
from runward.handlers.journal.folding import Folded, fold_lines
from runward.handlers.journal.lines import EVENTS
from runward.handlers.journal.place import journal_directory

AT_ONCE: Final = 100
"""Sessions of one transaction."""

LISTED: Final = 1000
"""Differences that are listed; the others are only counted."""

_TIMES: Final = ("started_at", "finished_at", "ended_at", "at")
_MICROSECOND: Final = 1.5e-6
"""Journals have times to the microsecond."""


class Difference(NamedTuple):
    """A field of a session whose value in the store differs from that in its journal."""

    session: str
    field: str
    live: JsonValue
    folded: JsonValue


class OnTheWay(Protocol):
    """Receives the progress."""

    def session(self) -> None:
        """Another session was compared."""

    def read(self, count: int) -> None:
        """This many bytes were read."""


@dataclass(slots=True)
class Rebuilt:
    """The result. `not_compared` counts fields that lines of earlier versions do not contain.

    `without_journal` counts sessions that could not be compared, by the reason.
    """

    sessions: int = 0
    compared: int = 0
    not_compared: int = 0
    without_journal: dict[str, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    further: int = 0

    @property
    def same(self) -> bool:
        return not self.differences

    def add(self, differing: Iterable[Difference]) -> None:
        for each in differing:
            if len(self.differences) < LISTED:
                self.differences.append(each)
            else:
                self.further += 1

    def as_json(self) -> JsonValue:
        return {
            "same": self.same,
            "sessions": self.sessions,
            "compared": self.compared,
            "not_compared": self.not_compared,
            "without_journal": {**self.without_journal},
            "differences": [dict(each._asdict()) for each in self.differences],
            "further": self.further,
        }


def rebuild(state: str, on_the_way: OnTheWay) -> Rebuilt:
    """Compare every session that is not pruned. Raises `StoreUnreadable`."""
    rebuilt = Rebuilt()
    last: str | None = ""
    with FreshStore() as fresh:
        while last is not None:
            with reading.reading(state) as connection:
                last = _some(connection, state, fresh, last, rebuilt, on_the_way)
    return rebuilt


def _some(
    connection: sqlite3.Connection,
    state: str,
    fresh: FreshStore,
    last: str,
    rebuilt: Rebuilt,
    on_the_way: OnTheWay,
) -> str | None:
    """The next sessions after `last`; returns the last one of them, None if there is none."""
    keys = keys_after(connection, last, AT_ONCE)
    packed = packed_among(connection, keys)
    for row in reading_sessions.sessions_with_keys(connection, keys):
        rebuilt.sessions += 1
        live = state_of(connection, row.key, packed.get(row.key))
        try:
            outcome = _compare(connection, state, fresh, row, live, on_the_way)
        except JournalAway as away:
            why = str(away)
            rebuilt.without_journal[why] = rebuilt.without_journal.get(why, 0) + 1
        else:
            rebuilt.compared += 1
            rebuilt.not_compared += outcome.not_compared
            rebuilt.add(outcome.differences)
        on_the_way.session()
    return keys[-1] if keys else None


class _Outcome(NamedTuple):
    differences: Sequence[Difference]
    not_compared: int


def _compare(
    connection: sqlite3.Connection,
    state: str,
    fresh: FreshStore,
    row: reading_sessions.SessionRow,
    live: Mapping[str, JsonValue],
    on_the_way: OnTheWay,
) -> _Outcome:
    """Compare what the store says about a session with what its journal says. Raises `JournalAway`."""
    standing = [
        each.content
        for (_, name), lines in read_standing_lines(connection, row.key).items()
        if name == EVENTS
        for each in lines
    ]
    owed = _told(reading_sessions.owed(connection, row.key, EVENTS))
    written = [*_told(standing), *owed]
    hashes = {digest for value in written if isinstance(digest := value.get("hash"), str)}
    if not hashes:
        raise JournalAway("it has no journal" if row.origin == "live" else "history has no journal")
    due = fold_lines(row.key, written)
    if not due.effects:
        raise JournalAway("its journal does not begin with its start")
    stand = _on_disk(state, row, hashes, on_the_way)
    folded = fold_lines(row.key, chain(stand, owed))
    return _compared(fresh, row.key, live, due, folded)


def _told(contents: Iterable[bytes]) -> list[dict[str, JsonValue]]:
    """The lines of these contents, which Runward wrote."""
    read = (read_json(line) for content in contents for line in content.splitlines())
    return [value for value in read if isinstance(value, dict)]


def _on_disk(
    state: str, row: reading_sessions.SessionRow, hashes: set[str], on_the_way: OnTheWay
) -> Iterator[JsonValue]:
    directory = os.path.join(state, journal_directory(row.layout, row.key, row.path))
    if row.layout != NATIVE and not os.path.lexists(directory):
        return  # it was in our own state: nobody but Runward may remove it
    yield from told_lines(directory, EVENTS, hashes, on_the_way.read)


def _compared(
    fresh: FreshStore, key: str, live: Mapping[str, JsonValue], due: Folded, folded: Folded
) -> _Outcome:
    """`due` is what the journal says as it was written: fields that it does not contain are not compared."""
    told = fresh.state(key, due.effects)
    try:
        found = fresh.state(key, folded.effects)
    except sqlite3.Error as error:
        return _Outcome([Difference(key, "journal", None, f"no state can be built from it: {error}")], 0)
    due_fields = {name: value for name, value in live.items() if name in told and name not in due.lacking}
    known = {name: value for name, value in found.items() if name not in folded.lacking}
    return _Outcome(differences(key, due_fields, known, live), len(live) - len(due_fields))


def differences(
    key: str,
    due: Mapping[str, JsonValue],
    folded: Mapping[str, JsonValue],
    live: Mapping[str, JsonValue] | None = None,
) -> list[Difference]:
    """The fields of `due` that differ in `folded`, and those of `folded` that are not in `live` at all."""
    found = [
        Difference(key, name, value, folded.get(name))
        for name, value in due.items()
        if not _is_same(name, value, folded.get(name))
    ]
    known = due if live is None else live
    return found + [Difference(key, name, None, value) for name, value in folded.items() if name not in known]


def _is_same(name: str, live: JsonValue, folded: JsonValue) -> bool:
    what = name.rpartition("/")[2]
    if what in _TIMES and isinstance(live, float) and isinstance(folded, float):
        return abs(live - folded) < _MICROSECOND
    if what == "artifact_contract_json":
        return _contract(live) == _contract(folded)
    return live == folded


def _contract(value: JsonValue) -> JsonValue:
    """A contract as Runward writes it: a launcher may have written the same one in other words."""
    if value is None:
        return None
    try:
        return snapshot_of(stored_contract(json.dumps(value))).text
    except BrokenSnapshot as broken:
        return str(broken)
