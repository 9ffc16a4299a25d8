"""Whether a store has the migrations' schema: foreign triggers or views could change its record."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from runward.daemon.store.migrate import make_empty
from runward.daemon.store.reading import uri_of
from runward.daemon.store.transaction import StoreMalformed

_ROWS: Final = "select type, name, tbl_name, sql from sqlite_schema where name not like 'sqlite_stat%'"
_SHOWN: Final = 3
KINDS: Final = ("table", "index", "trigger", "view")
ACTING: Final = ("trigger", "view")
"""Schema objects that change the record without a statement of Runward's, or change how it reads."""

Schema: TypeAlias = frozenset[tuple[str, str, str, str | None]]
"""What `sqlite_schema` says: each row's type, name, table and text."""


def difference(connection: sqlite3.Connection, version: int, kinds: Sequence[str] = KINDS) -> str | None:
    """How the store's schema differs from that of `version`; None if it doesn't. Raises `sqlite3.Error`."""
    found, made = (
        frozenset(row for row in rows if row[0] in kinds)
        for rows in (connection.execute(_ROWS), _made(version))
    )
    there, missing = _names(found - made), _names(made - found)
    changed = sorted(there & missing)
    told = [
        *(f"{name} differs from what Runward creates" for name in changed),
        *(f"{name} is not Runward's" for name in sorted(there - missing)),
        *(f"{name} is missing" for name in sorted(missing - there)),
    ]
    more = [f"and {len(told) - _SHOWN} more"] if len(told) > _SHOWN else []
    return ", ".join([*told[:_SHOWN], *more]) or None


def _names(rows: Schema) -> set[str]:
    return {f"the {kind} {name!r}" for kind, name, _, _ in rows}


@cache
def _made(version: int) -> Schema:
    """The schema that the migrations up to this version make."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        make_empty(connection, version)
        return frozenset(connection.execute(_ROWS))


def refuse_strange(store: Path, version: int) -> None:
    """Raises `StoreMalformed` if the store has triggers or views that aren't Runward's, and `sqlite3.Error`."""
    with closing(sqlite3.connect(f"{uri_of(str(store))}?mode=ro", uri=True)) as connection:
        strange = difference(connection, version, ACTING)
    if strange is not None:
        raise StoreMalformed(
            f"somebody changed its schema: {strange}: keep a copy of the store, then `runward restore BACKUP`"
        )
