"""Who ordered a session from this host: a step of a chain of another host of the fleet."""

import json
import sqlite3
from collections.abc import Mapping
from typing import Final

from runward.config.json_value import JsonValue, texts
from runward.daemon.store.tables.between_hosts import order_behind
from runward.handlers.times import iso

_SAID: Final = ("chain", "chain_run_id", "step", "try")


def ordered_by(connection: sqlite3.Connection, session_key: str) -> dict[str, JsonValue]:
    """Of a session that another host ordered: the host, its order, what that is for, and the entries of the settings that accepted it."""
    order = order_behind(connection, session_key)
    asked = json.loads(order.asked or "{}")
    return {
        "host": order.origin,
        "order": order.id,
        **{name: asked.get(name) for name in _SAID},
        "taken_at": iso(order.taken_at),
        "accepted_by": [*texts(asked.get("accepted_by"))],
    }


def order_in_words(by: Mapping[str, JsonValue]) -> str:
    """Who ordered it, and for what: "laptop, for step train of nightly (cr_0123456789ab)"."""
    return f"{by['host']}, for step {by['step']} of {by['chain']} ({by['chain_run_id']})"


def acceptance_in_words(by: Mapping[str, JsonValue]) -> str | None:
    """The entries of the settings that let it in; None if that is not recorded."""
    return "; ".join(texts(by["accepted_by"])) or None
