"""Where a session's journal lies: a native run's in its own directory, every other one's among Runward's own state."""

import hashlib
from typing import Final

from runward.config.settings_keys import DEFAULT_LAYOUT

OWN_PLACE: Final = "sessions"
"""The directory of the state directory that holds the journals of sessions whose files are another tool's."""


def journal_directory(layout: str, key: str, path: str) -> str:
    """The directory of a session's journal: absolute for a native run at `path`, else relative to the state directory.

    Runward writes into no directory that another tool owns.
    """
    if layout == DEFAULT_LAYOUT:
        return path
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"{OWN_PLACE}/{layout}/{digest[:2]}/{digest}"
