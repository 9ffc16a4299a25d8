"""The table of starts as the daemon has it: which runs have to begin, and that they did or never will."""

import json
from typing import Final

from runward.daemon.store.store import Store
from runward.handlers.effects import StartRun

START_ENDED: Final = "update starts set state = ?, why = ?, ended_at = ? where key = ? and state = 'owed'"
"""What became of a start; exact, so that nobody says it twice."""


async def owed_starts(store: Store) -> list[StartRun]:
    """The runs that have to begin, in the order of their events; one of an earlier daemon's may have begun."""
    rows = await store.read("select effect from starts where state = 'owed' order by event, key")
    return [load_start(str(effect)) for (effect,) in rows]


def load_start(text: str) -> StartRun:
    """The order that was stored as `text`."""
    fields = json.loads(text)
    return StartRun(
        **{
            **fields,
            "command": tuple(fields["command"]),
            "environment": tuple((name, value) for name, value in fields["environment"]),
            "metadata": tuple((name, value) for name, value in fields["metadata"]),
        }
    )
