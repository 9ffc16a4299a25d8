"""What replies of today cost. On most machines no agent was paid for yet today: then no price is looked up."""

import sqlite3
from typing import TYPE_CHECKING

from runward.config.settings import Settings
from runward.daemon.store.tables import usage
from runward.daemon.views.text import midnight

if TYPE_CHECKING:
    from runward.daemon.views.usage import Sum


def used_today(connection: sqlite3.Connection, settings: Settings, now: float) -> "Sum | None":
    """What was used since midnight, local time; None if nothing was."""
    since = midnight(now)
    if not usage.is_used_since(connection, since):
        return None
    from runward.daemon.views.usage import used_between

    return used_between(connection, settings, since, now)
