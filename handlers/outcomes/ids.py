"""The ids of artifacts."""

import hashlib


def artifact_id(session_key: str, kind: str, name: str) -> str:
    """The id of a session's outcome of this kind and name: always the same."""
    digest = hashlib.sha256(f"{session_key}\n{kind}\n{name}".encode(errors="replace"))
    return f"ar_{digest.hexdigest()[:12]}"
