"""What is wrong with files that people and agents write."""

import sqlite3
from typing import Final, NamedTuple

from runward.daemon.store.batch import Write
from runward.daemon.store.rows import rows_of, select
from runward.daemon.store.tables.table import Table

DELETE: Final = Write("delete from problems where path = ?", exact=False)

INSERT: Final = Write("insert into problems (path, line, message, mend, since) values (?, ?, ?, ?, ?)")

# The problems of a file are replaced as a whole, so the old ones are deleted first.
PROBLEMS: Final = Table(writes=(DELETE, INSERT), moved=("update problems set path = moved(path)",))


class ProblemRow(NamedTuple):
    """What is wrong with a file that somebody wrote."""

    path: str
    line: int | None
    message: str
    fix: str | None
    since: float


def problems(
    connection: sqlite3.Connection, directory: str | None = None, limit: int = -1
) -> list[ProblemRow]:
    """What is wrong with people's and agents' files, by path; only in `directory` and below it, if one is given."""
    rows = connection.execute(
        select(
            ProblemRow,
            "from problems"
            " where ?1 is null or path = ?1 or substr(path, 1, length(?1) + 1) = ?1 || '/' order by path, line limit ?2",
            fix="mend",
        ),
        (directory, limit),
    )
    return rows_of(ProblemRow, rows)


def problem_count(connection: sqlite3.Connection) -> int:
    """How many there are."""
    (count,) = connection.execute("select count(*) from problems").fetchone()
    return int(count)
