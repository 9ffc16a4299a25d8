"""Sessions of other tools inside a launcher's run: whose they are, and what they mean for its end.

Only the launcher's session has a contract. A command that ended well although an agent in it didn't has not ended well:
agents exit 0 after errors.
"""

from typing import Final

from runward.handlers.effects import TryLater
from runward.handlers.events import AttemptEnded
from runward.handlers.facts import LinkedSession, LinkedSessions
from runward.handlers.layouts import native

PATIENCE: Final = 15.0
"""Seconds after a command's end in which the sessions in it are waited for: their last lines come late."""


def launcher_key(session_id: str | None, launch_root: str | None) -> str | None:
    """The key of the launcher's session of this id, whose run is in the native root that launched runs go to."""
    if session_id is None or launch_root is None or "/" in session_id:
        return None
    return native.session_key(launch_root, session_id)


def inside(event: AttemptEnded, linked: LinkedSessions, now: float) -> LinkedSession | TryLater | None:
    """The session inside a command that ended well which says otherwise, if any; or that it isn't known yet."""
    for each in linked.sessions:
        if each.status not in ("running", "completed"):
            return each
    running = [each.key for each in linked.sessions if each.status == "running"]
    if running and now - event.at < PATIENCE:
        return TryLater(f"{running[0]}, which was started in it, is not over yet")
    return None
