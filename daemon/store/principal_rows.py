"""The exchange's principals, as the daemon and commands read them."""

import json
from collections.abc import Sequence
from typing import Final

from runward.daemon.store.values import as_float, as_int
from runward.handlers.model.exchange import Principal

PRINCIPALS: Final = (
    "select id, created_at, users, disk_quota, disk_used, cpu_seconds, version, disk_default, cpu_default, coalesce((select a.has_standing"
    " and a.deleted_at is null from shared_artifacts a where a.id = principals.id), 0) from principals"
)
ASKED: Final = f"{PRINCIPALS} where id in (select value from json_each(?))"  # noqa: S608 # our own words


def principal_of(row: Sequence[object]) -> Principal:
    """The principal in a row of `PRINCIPALS`."""
    return Principal(
        str(row[0]),
        as_float(row[1]),
        tuple(json.loads(str(row[2]))),
        as_int(row[3]),
        as_int(row[4]),
        None if row[5] is None else as_float(row[5]),
        as_int(row[6]),
        None if row[7] is None else as_int(row[7]),
        as_float(row[8]),
        bool(row[9]),
    )
