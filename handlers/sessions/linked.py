"""Foreign sessions inside a launcher's run: whose they are, and what they mean for its end.

Only the launcher's session has a contract. If a command ended well but an agent in it didn't, the command has not
ended well: agents exit 0 after errors.
"""

from collections.abc import Sequence
from typing import Final

from runward.handlers.layouts import native
from runward.handlers.model.sessions import LinkedSession, LinkedSessions

PATIENCE: Final = 5
"""How often the end of a command is put off for the sessions in it, whose last lines come late: 15 s and more.

It counts tries, not time: on a loaded machine the tries come later, as those lines do, and a daemon that was down
when the command ended has all of them before it.
"""


def launcher_key(session_id: str | None, native_roots: Sequence[str], holding: Sequence[str]) -> str | None:
    """The key of the launcher's session with this id. Its run is in the native root that contains a directory of
    that name, else it will be in the first one, where launched runs go.
    """
    if session_id is None or not native_roots or "/" in session_id:
        return None
    return native.session_key((*holding, *native_roots)[0], session_id)


def that_failed(linked: LinkedSessions) -> LinkedSession | None:
    """The session inside a command that ended well which says otherwise, if any."""
    return next((each for each in linked.sessions if each.status not in ("running", "completed")), None)


def not_known_yet(linked: LinkedSessions) -> str | None:
    """Sessions that may yet say otherwise, if any."""
    for each in linked.sessions:
        if each.status == "running":
            return f"{each.key}, which was started in it, is not over yet"
    if linked.announced:
        return f"{linked.announced[0]}, which was started in it, has not been read yet"
    return "some notes of agents' hooks have not been read yet" if linked.may_be_more else None
