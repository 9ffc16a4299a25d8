"""The exchange's artifacts, as the daemon and commands read them."""

import json
from collections.abc import Sequence
from typing import Final

from runward.daemon.store.values import as_float, as_int
from runward.handlers.model.exchange import SharedArtifact

COLUMNS: Final = (
    "a.id, a.type, {content}, a.owner_id, a.created_at, a.updated_at, a.executable, {code}, a.price, a.policy,"
    " a.deleted_at, a.deleted_by, a.interface, a.depends_on, a.has_standing, a.can_execute, a.memory_artifact_id,"
    " a.access_contract_id, a.version, length(cast(x.content as blob)) + length(cast(c.content as blob)), a.written_by, a.disk_of"
)
_FROM: Final = (
    " from shared_artifacts a join contents x on x.hash = a.content join contents c on c.hash = a.code"
)
WHOLE: Final = "select " + COLUMNS.format(content="x.content", code="c.content") + _FROM
ASKED: Final = f"{WHOLE} where a.id in (select value from json_each(?))"  # noqa: S608 # our own words
DESCRIBED: Final = "select " + COLUMNS.format(content="''", code="''") + _FROM
"""The artifacts without content and code, and with their size."""


def artifact_of(row: Sequence[object]) -> SharedArtifact:
    """The artifact in a row of `WHOLE`."""
    return SharedArtifact(
        id=str(row[0]),
        type=str(row[1]),
        content=str(row[2]),
        owner_id=str(row[3]),
        created_at=as_float(row[4]),
        updated_at=as_float(row[5]),
        executable=bool(row[6]),
        code=str(row[7]),
        price=as_int(row[8]),
        policy=None if row[9] is None else json.loads(str(row[9])),
        deleted_at=None if row[10] is None else as_float(row[10]),
        deleted_by=None if row[11] is None else str(row[11]),
        interface=None if row[12] is None else json.loads(str(row[12])),
        depends_on=tuple(json.loads(str(row[13]))),
        has_standing=bool(row[14]),
        can_execute=bool(row[15]),
        memory_artifact_id=None if row[16] is None else str(row[16]),
        access_contract_id=None if row[17] is None else str(row[17]),
        version=as_int(row[18]),
        written_by=str(row[20]),
        disk_of=None if row[21] is None else str(row[21]),
    )


def described_of(row: Sequence[object]) -> SharedArtifact:
    """The artifact in a row of `DESCRIBED`."""
    return artifact_of(row)._replace(bare_size=as_int(row[19]))
