"""A show as commands and the Studio print it: with its plan and its plays, and without secrets."""

from collections.abc import Sequence

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store.tables.shows import PlayRow, ShowRow
from runward.handlers.secrets import without_secrets_in


def whole_show(
    settings: Settings, row: ShowRow, plan: str | None, plays: Sequence[PlayRow]
) -> dict[str, JsonValue]:
    """A show with its plan and its plays, without what looks like a secret."""
    shown: dict[str, JsonValue] = {
        **row.as_json(),
        "plan": plan,
        "plays": [each.as_json() for each in plays],
    }
    return without_secrets_in(shown, settings.bundle.rules.redact)
