"""Launches, as launchers recorded them before they released their commands."""

import json
import sqlite3
from collections.abc import Iterable
from typing import Final

from runward.daemon.store.store import Store
from runward.daemon.store.tables.table import Table, Write, answers_by
from runward.daemon.store.transaction import Row
from runward.daemon.store.values import as_float, listed
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.sessions import Launch, LaunchOf

INSERT: Final = Write(
    "insert into launches (id, session_key, at, seal, contract_json, timeout, grace, launcher, process, cgroup)"
    " select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 where not exists (select 1 from launches where id = ?1)",
    exact=False,
)


_LAST: Final = (
    "select session_key, at, seal, contract_json, launcher, process, timeout, cgroup from json_each(?) asked"
    " join launches on session_key = asked.value order by at, launches.rowid"
)


async def last(store: Store, keys: Iterable[str]) -> dict[str, Launch]:
    """What the launchers of these sessions' runs recorded last, by session key."""
    return _by_session(await store.read(_LAST, (listed(keys),)))


def last_read(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, Launch]:
    """The same, for commands."""
    return _by_session(connection.execute(_LAST, (listed(keys),)).fetchall())


def _by_session(rows: Iterable[Row]) -> dict[str, Launch]:
    return {
        str(key): Launch(
            as_float(at),
            str(seal),
            None if contract is None else str(contract),
            RecordedProcess(*json.loads(str(launcher))),
            RecordedProcess(*json.loads(str(process))),
            None if timeout is None else as_float(timeout),
            None if cgroup is None else str(cgroup),
        )
        for key, at, seal, contract, launcher, process, timeout, cgroup in rows
    }


LAUNCHES: Final = Table(
    writes=(INSERT,),
    answers={LaunchOf: answers_by(last, lambda asked: asked.key)},
    goes_with_session=("delete from launches where session_key = ?",),
)
