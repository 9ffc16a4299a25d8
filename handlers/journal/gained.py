"""What journal lines say since they hold all of a session's state. It imports little: commands start with it."""

from typing import Final

GAINED: Final = frozenset(
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
"""What lines of earlier versions lack."""
