"""Fields that journal lines have had since they describe all of a session's state. It imports little: commands start
with it."""

from typing import Final

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
"""The fields that lines of earlier versions lack."""
