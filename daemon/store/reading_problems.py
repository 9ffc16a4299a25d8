"""Problems with people's and agents' files, as commands read them from the store."""

import sqlite3
from typing import NamedTuple


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
        "select path, line, message, mend, since from problems"
        " where ?1 is null or path = ?1 or substr(path, 1, length(?1) + 1) = ?1 || '/' order by path, line",
        (directory,),
    )
    return [ProblemRow(*row) for row in rows]
