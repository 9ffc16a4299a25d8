"""The event `artifact.added`, for chains that listen to it."""

import hashlib
import json
from collections.abc import Sequence
from typing import Final

from runward.config import own_events
from runward.handlers.model.asking import Asking, ask
from runward.handlers.model.chains import EventOccurred, ListenersTo, chain_run_of
from runward.handlers.model.effects import Effects, Emit
from runward.handlers.model.outcomes import RecordArtifact
from runward.handlers.model.sessions import Session
from runward.handlers.outcomes.ids import artifact_id

ADDED: Final = "artifact.added"


def told(session: Session, kept: Sequence[RecordArtifact], at: float) -> Asking[Effects]:
    """One event for each artifact. The same content of the same attempt is the same event."""
    if not kept or not (yield from ask(ListenersTo(ADDED))):
        return ()
    return tuple(Emit(_occurred(session, each, at)) for each in kept)


def _occurred(session: Session, kept: RecordArtifact, at: float) -> EventOccurred:
    identifier = artifact_id(kept.session_key, kept.kind, kept.name)
    said = json.dumps([kept.content, kept.file_path], sort_keys=True).encode()
    version = hashlib.sha256(said).hexdigest()[:16]
    key = f"{session.key}#{session.attempt}/artifact/{identifier}@{version}"
    return EventOccurred(
        key,
        at,
        ADDED,
        f"{identifier}@{session.attempt}/{version}",
        own_events.ArtifactAdded(
            id=identifier,
            kind=kept.kind,
            name=kept.name,
            session_id=session.session_id,
            outcome=kept.content,
        )._asdict(),
        by_run=chain_run_of(session.key),
    )
