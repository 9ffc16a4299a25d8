"""Sessions that are rows of a database. A layout's entry declares where its database is and how it is asked.

A session is read as the log that it would be: lines that are made of its rows, in the order in which their facts came to be. So
everything that follows a log follows a session in a database, too. Its place under a root is `<database>/<session>`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

SUFFIX: Final = ".db"
WAL: Final = "-wal"
"""What the name of the file ends in to which SQLite writes first."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", re.ASCII)


class Row(NamedTuple):
    """A row of an entry, or of a part of one. Times are milliseconds; `about` is what the query adds."""

    id: str
    created: int
    updated: int
    data: bytes
    about: bytes | None = None


class Entry(NamedTuple):
    """An entry of a session, such as a message, with its parts."""

    row: Row
    parts: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Database:
    """How the sessions of a layout are read from its database.

    `files` is a glob for the database's name. `tables` are the tables that must be there, with their columns. `version` asks which
    version of the program wrote the newest session. `newcomers` are those tables to which rows are added as sessions go on, each with
    its column that names the session. `standing` asks for `(id, modified, number)` of sessions: a change of a session changes
    one of the two; `{where}` in it stands for a condition on `s`. `session` asks for one session: the time of its first own
    entry, and what `begin` makes its first lines of. `entries` asks for a session's entries from `(:at, :id)` on, `parts` for those
    of an entry. Entries are read in groups: `begins` tells whether an entry begins one, and only the last group may still grow.
    `lines` makes the lines of a group. Lines that were made once must be made again when more is there, before all new ones.
    """

    files: str
    tables: Mapping[str, frozenset[str]]
    version: str
    newcomers: Mapping[str, str]
    standing: str
    session: str
    entries: str
    parts: str
    begins: Callable[[Row], bool]
    begin: Callable[[Sequence[object]], Sequence[bytes]]
    lines: Callable[[Sequence[Entry]], Sequence[bytes]]


def is_session_id(name: str) -> bool:
    """Whether a session may have this id: it becomes part of a path."""
    return _ID.fullmatch(name) is not None
