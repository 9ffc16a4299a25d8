"""What is wrong with files that people and agents write."""

import sqlite3
from typing import Final, NamedTuple

from runward.daemon.store.batch import Write
from runward.daemon.store.rows import rows_of, select
from runward.daemon.store.tables.table import Table

DELETE: Final = Write("delete from problems where path = ?", exact=False)

INSERT: Final = Write("insert into problems (path, line, message, mend, since) values (?, ?, ?, ?, ?)")

PROBLEMS: Final = Table(writes=(DELETE, INSERT))


class ProblemRow(NamedTuple):
    """What is wrong with a file that somebody wrote."""

    path: str
    line: int | None
    message: str
    fix: str | None
    since: float


def problems(connection: sqlite3.Connection, directory: str | None = None) -> list[ProblemRow]:
    """What is wrong with people's and agents' files; only in `directory` and below it, if one is given."""
    rows = connection.execute(
        select(
            ProblemRow,
            "from problems"
            " where ?1 is null or path = ?1 or substr(path, 1, length(?1) + 1) = ?1 || '/' order by path, line",
            fix="mend",
        ),
        (directory,),
    )
    return rows_of(ProblemRow, rows)
