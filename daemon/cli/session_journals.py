"""Whether a session's journals still hold what was written to them, for `session verify`."""

import sqlite3
from collections import Counter
from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.cli.output import align, coloured, safe
from runward.daemon.ports import AlteredLine, Gone
from runward.daemon.rundir.comparing import compare
from runward.daemon.store.journals import read_standing_lines
from runward.daemon.store.reading_chain import lines_off_the_chain
from runward.handlers.facts import Unreadable


class JournalCheck(NamedTuple):
    """One journal held against the store: which of our `lines` don't stand as written, and what else is wrong."""

    name: str
    lines: int
    altered: tuple[AlteredLine, ...]
    problem: str | None

    @property
    def is_sound(self) -> bool:
        return not self.altered and self.problem is None


def check_journals(connection: sqlite3.Connection, session: str) -> list[JournalCheck]:
    """The journals of a session, in the order of their names; those in which nothing stands yet are left out."""
    strangers = Counter(name for _, name in lines_off_the_chain(connection, session))
    found = []
    for (directory, name), rows in sorted(read_standing_lines(connection, session).items()):
        compared = compare(directory, name, rows)
        problem = None
        if isinstance(compared, Gone):
            problem = "its directory is gone"
        elif isinstance(compared, Unreadable):
            problem = f"can't be read: {compared.why}"
        elif strangers[name]:
            problem = f"{strangers[name]} of its lines carry another hash than the event that they tell of"
        altered = () if isinstance(compared, Gone | Unreadable) else compared.altered
        found.append(JournalCheck(name, sum(each.content.count(b"\n") for each in rows), altered, problem))
    return found


def journals_as_json(checks: list[JournalCheck]) -> JsonValue:
    """`[{"name", "lines", "altered": [{"offset", "state"}], "problem"}]`."""
    return [
        {
            "name": each.name,
            "lines": each.lines,
            "altered": [{"offset": line.offset, "state": line.state} for line in each.altered],
            "problem": each.problem,
        }
        for each in checks
    ]


def journal_lines(checks: list[JournalCheck]) -> list[str]:
    """The same for people, a line a journal."""
    rows = []
    for each in checks:
        told = [f"the line at {line.offset} is {line.state}" for line in each.altered[:5]]
        if len(each.altered) > len(told):
            told.append(f"{len(each.altered) - len(told)} more")
        told += [each.problem] if each.problem is not None else []
        state = coloured("ok", "as written") if each.is_sound else coloured("failed", "not as written")
        rows.append(("  JOURNAL", safe(each.name), f"{each.lines} lines", state, safe(", ".join(told))))
    return align(rows) if rows else []
