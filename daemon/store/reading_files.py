"""Files, as commands read them from the store: what sessions produced, and what is wrong with those that people and agents write."""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from runward.daemon.store.transaction import listed


class HashedFile(NamedTuple):
    """The result of hashing a file. Without a `sha256` (hex) the problem says why; `changed` has both."""

    size: int
    modified_ns: int
    sha256: str | None
    problem: str | None
    hashed_at: float


class KeptFile(NamedTuple):
    """A file that the last attempt of a session produced, as it was verified; `hashed` None until it is hashed."""

    id: str
    path: str
    size: int
    modified_ns: int
    hashed: HashedFile | None


def kept_files(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, list[KeptFile]]:
    """What the last attempts of these sessions produced, by session key, in the contract's order."""
    rows = connection.execute(
        "select s.key, p.value ->> 0, p.value ->> 1, p.value ->> 2, p.value ->> 3,"
        " f.size, f.modified_ns, f.sha256, f.problem, f.hashed_at"
        " from sessions s join attempts a on a.session_key = s.key and a.attempt = s.attempt"
        " join json_each(a.produced) p"
        " left join files f on f.session_key = s.key and f.attempt = s.attempt and f.id = p.value ->> 0"
        " where s.key in (select value from json_each(?)) order by s.key, p.key",
        (listed(keys),),
    )
    files: dict[str, list[KeptFile]] = {}
    for key, identifier, path, size, modified_ns, *hashed in rows:
        taken = None if hashed[-1] is None else HashedFile(*hashed)
        files.setdefault(key, []).append(KeptFile(identifier, path, size, modified_ns, taken))
    return files


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
