"""The subjects of decisions that are not about a session. Commands look them up, so this imports nothing."""

from typing import Final

START: Final = "start "
PRUNE: Final = "prune"


def of_start(name: str) -> str:
    """The subject of decisions about a run that was asked for. `name` is its directory's, begun or not."""
    return f"{START}{name}"
