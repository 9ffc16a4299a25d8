"""What the fleet is told of a session: what `session list --json` says of it, within limits."""

import json
import re
import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue, objects
from runward.config.settings import Settings
from runward.daemon.store.tables.sessions import session_rows, verification_of
from runward.daemon.views.sessions import sessions_as_json
from runward.handlers.model.fleet import storable

MOST_BODY: Final = 1 << 19
"""Bytes. The database takes twice as much, with its own blanks."""

VERSION_BITS: Final = 40
"""Bits of a row's version that count within an epoch. An epoch never comes again, even if the store is restored."""

_TITLES: Final = ("cwd", "prompt", "path")
"""What is told only if the settings say so."""

_LONG: Final[tuple[tuple[str, JsonValue], ...]] = (
    ("files", []),
    ("linked", []),
    ("prompt", None),
    ("contract_problem", None),
    ("path", None),
    ("cwd", None),
)
"""What is left out of a body that is too long, in this order, and what stands there instead."""

_MOST_REASON: Final = 4096


class Body(NamedTuple):
    """A session as it is reported; `text` is JSON that PostgreSQL can hold."""

    started_at: float
    text: str


def bodies(
    connection: sqlite3.Connection, settings: Settings, titles: bool, keys: Sequence[str]
) -> dict[str, Body]:
    """By key. A session that is no longer recorded has none."""
    rows = session_rows(connection, keys)
    told = objects(sessions_as_json(connection, settings, rows))
    return {
        row.key: Body(row.started_at, _body(value, row.root, verification_of(row), titles))
        for row, value in zip(rows, told, strict=True)
    }


_HARDLY_STORABLE: Final = re.compile(r"\\u(?:0000|d[89a-f])")
"""How JSON writes the characters that PostgreSQL's can't hold, and some that it can."""


def _body(value: dict[str, JsonValue], root: str, verification: JsonValue, titles: bool) -> str:
    verified = verification["status"] if isinstance(verification, dict) else None
    hidden = {} if titles else dict.fromkeys(_TITLES, None)
    body: JsonValue = {**value, "root": root, "verified": verified, **hidden}
    text = json.dumps(body)
    if _HARDLY_STORABLE.search(text):
        body = storable(body)
        text = json.dumps(body)
    assert isinstance(body, dict)
    return text if len(text) <= MOST_BODY else json.dumps(_shortened(body))


def _shortened(body: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The body without what makes it too long."""
    reason = body["reason"]
    assert isinstance(reason, dict)
    summary = str(reason["summary"])[:_MOST_REASON]
    shorter = {**body, "reason": {**reason, "summary": summary, "evidence_refs": []}}
    for name, instead in _LONG:
        if _size(shorter) <= MOST_BODY:
            break
        shorter[name] = instead
    return shorter


def _size(body: dict[str, JsonValue]) -> int:
    return len(json.dumps(body))
