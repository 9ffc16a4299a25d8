"""Where a session's journal is, and the fields that its lines gained. It imports little: commands start with it.

That of a native run is in its own directory, every other in Runward's own state directory.
"""

import hashlib
from typing import Final

from runward.config.root import NATIVE

OWN_PLACE: Final = "sessions"
"""The directory below the state directory for the journals of sessions whose files belong to another tool."""


def journal_directory(layout: str, key: str, path: str) -> str:
    """The directory of a session's journal: absolute for a native run at `path`, else relative to the state directory.

    Runward never writes into a directory that another tool owns.
    """
    return path if layout == NATIVE else own_directory(layout, key)


def own_directory(layout: str, key: str) -> str:
    """A session's directory in Runward's own state, relative to the state directory."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"{OWN_PLACE}/{layout}/{digest[:2]}/{digest}"


ADDED_FIELDS: Final = frozenset(
    {
        "artifacts_path",
        "attempt",
        "checked_at",
        "containment",
        "contract",
        "contract_problem",
        "evidence_refs",
        "invocation_id",
        "kind",
        "layout",
        "modified_ns",
        "rules",
        "source",
    }
)
"""The fields that journal lines have had since they describe all of a session's state: earlier ones lack them."""
