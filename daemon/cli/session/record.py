"""Whether the record of a session is still intact, for `session verify`: its journals and its events in the chain."""

import os
import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from runward.config.counting import counted
from runward.config.json_value import JsonValue
from runward.daemon.cli.terminal.output import align, coloured, safe
from runward.daemon.ports.files import Gone
from runward.daemon.ports.journals import AlteredLine, StandingLines
from runward.daemon.rundir.journal_reading import compare
from runward.daemon.store.hash_chain import BrokenChain, broken_event, lines_off_the_chain
from runward.daemon.store.journals import read_standing_lines
from runward.handlers.model.unreadable import Unreadable


class JournalCheck(NamedTuple):
    """One journal compared with the store: which of our `lines` are not as written, and what else is wrong.

    `same` is None if it can't be read and nothing else is wrong.
    """

    name: str
    lines: int
    same: bool | None
    altered: tuple[AlteredLine, ...] = ()
    problem: str | None = None


class Record(NamedTuple):
    """The record of a session: its journals, and the first of its events that breaks the chain."""

    journals: list[JournalCheck]
    broken_event: BrokenChain | None

    @property
    def same(self) -> bool | None:
        """Whether it is as it was written; None if some of it can't be read and the rest is unchanged."""
        if self.broken_event is not None or any(each.same is False for each in self.journals):
            return False
        return None if any(each.same is None for each in self.journals) else True

    def as_json(self) -> JsonValue:
        """`{"journals": [{"name", "lines", "altered": [{"offset", "state"}], "problem"}], "broken_event"}`."""
        return {
            "journals": [
                {
                    "name": each.name,
                    "lines": each.lines,
                    "altered": [{"offset": line.offset, "state": line.state} for line in each.altered],
                    "problem": each.problem,
                }
                for each in self.journals
            ],
            "broken_event": self.broken_event._asdict() if self.broken_event is not None else None,
        }

    def as_lines(self) -> list[str]:
        """The same for people, one line per journal."""
        rows = [
            ("  JOURNAL", safe(each.name), counted(each.lines, "line", "lines"), *_said(each))
            for each in self.journals
        ]
        lines = align(rows) if rows else []
        if self.broken_event is not None:
            number, key, why = self.broken_event
            state = coloured("failed", "not as recorded")
            lines.append(f"  EVENT  {safe(key)}  number {number}  {state}  {safe(why)}")
        return lines


def check_record(connection: sqlite3.Connection, state: str, session: str) -> Record:
    """Compare a session's journals, in the order of their names, and its events with what they were written from.

    `state` is the state directory, in which some of them are. Journals that have no lines yet are left out.
    """
    strangers = Counter(name for _, name in lines_off_the_chain(connection, session))
    standing = sorted(read_standing_lines(connection, session).items())
    journals = [
        _check(os.path.join(state, directory), name, rows, strangers[name])
        for (directory, name), rows in standing
    ]
    return Record(journals, broken_event(connection, session))


def _check(directory: str, name: str, rows: Sequence[StandingLines], strangers: int) -> JournalCheck:
    lines = sum(each.content.count(b"\n") for each in rows)
    compared = compare(directory, name, rows)
    if isinstance(compared, Gone):
        return JournalCheck(name, lines, False, problem="its directory is gone")
    if isinstance(compared, Unreadable) and not strangers:
        return JournalCheck(name, lines, None, problem=f"can't be read: {compared.why}")
    altered = () if isinstance(compared, Unreadable) else compared.altered
    told = f"{strangers} of its lines have a different hash from the event that they report"
    return JournalCheck(name, lines, not altered and not strangers, altered, told if strangers else None)


def _said(journal: JournalCheck) -> tuple[str, str]:
    """The state of a journal, and what is wrong with it."""
    told = [f"the line at {line.offset} is {line.state}" for line in journal.altered[:5]]
    if len(journal.altered) > len(told):
        told.append(f"{len(journal.altered) - len(told)} more")
    told += [journal.problem] if journal.problem is not None else []
    states = {
        True: coloured("ok", "as written"),
        False: coloured("failed", "not as written"),
        None: coloured("warning", "not known"),
    }
    return states[journal.same], safe(", ".join(told))
