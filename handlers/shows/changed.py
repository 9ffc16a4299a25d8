"""The data of a running play changed: its columns follow, until its verdict reads them a last time."""

from runward.handlers.model.asking import Given, ask
from runward.handlers.model.effects import Deciding
from runward.handlers.model.sessions import SessionOf
from runward.handlers.model.shows import PlayChanged
from runward.handlers.shows.recording import changed


def decide(event: PlayChanged, given: Given) -> Deciding:
    """The data of a running play changed: its columns follow, until its verdict reads them a last time.

    Keep what the file says now.
    """
    session = yield from ask(SessionOf(event.session_key))
    if session is None or session.status != "running" or session.attempt != event.attempt:
        return ()
    return (yield from changed(session.key, session.path, given.at))
