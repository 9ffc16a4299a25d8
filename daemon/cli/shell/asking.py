"""The daemon asked: a request left in its inbox, and what commands say and wait for until it is carried out."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

from runward.config.settings import Settings
from runward.daemon.cli.exits import TIMED_OUT, TRY_AGAIN, WRONG_USAGE
from runward.daemon.cli.shell.context import is_daemon_up
from runward.daemon.cli.terminal.output import fail, note
from runward.daemon.store import reading

if TYPE_CHECKING:
    from runward.handlers.model.events import Request

_PERIOD: Final = 0.1
"""Seconds between two checks for the result."""

PATIENCE_S: Final = 30.0
"""Seconds that a daemon may take to take something up that is durable in any case."""

_AWAY_S: Final = 30.0
"""Seconds for which there may be no daemon: one that is started again takes less."""

Answer = TypeVar("Answer")
Given = ParamSpec("Given")
Made = TypeVar("Made", bound="Request")


def new_request(
    kind: Callable[Concatenate[str, float, Given], Made], *facts: Given.args, **further: Given.kwargs
) -> Made:
    """A request of this kind, made now, under a name that no other has."""
    import uuid  # commands that only read don't need it

    return kind(str(uuid.uuid4()), time.time(), *facts, **further)


def ask_daemon(
    settings: Settings, request: "Request", *, before_any_daemon: bool = False, too_long: str | None = None
) -> str:
    """Leave a request in the inbox, durably, whether or not a daemon runs; returns its name. Raises `OSError`.

    With `before_any_daemon` the state directory is made if there is none. Exits 2, with `too_long`, if the daemon would
    not read it.
    """
    from runward.daemon.inbox.spool import (  # commands that only read don't need it
        RequestTooLong,
        leave_request,
    )

    try:
        return leave_request(Path(settings.state_dir), request, before_any_daemon=before_any_daemon)
    except RequestTooLong as error:
        fail(too_long or str(error), WRONG_USAGE)


def need_daemon(settings: Settings, instead: str = "leave out --wait") -> None:
    """Exits 75 if nobody would answer; nothing was requested then."""
    if not is_daemon_up(settings):
        fail(f"no daemon is running, so nothing was requested: start it, or {instead}", TRY_AGAIN)


def note_without_daemon(settings: Settings, later: str = "it will be done when one starts") -> None:
    """Say what happens later, if no daemon runs."""
    if not is_daemon_up(settings):
        note(f"no daemon is running: {later}")


def note_if_late(settings: Settings, what: str = "processed it") -> None:
    """Say that a running daemon has not answered yet."""
    if is_daemon_up(settings):
        note(f"the daemon has not {what} yet: `runward status` says why")


def wait_for(
    settings: Settings,
    patience: float,
    answer: Callable[[sqlite3.Connection], Answer | None],
    progress: Callable[[], str],
) -> Answer:
    """What `answer` finds in the store, once it isn't None. After `patience` seconds `progress` is said, and 124 ends it."""
    until = time.monotonic() + patience
    while True:
        # Checked before the look: a daemon that answers and ends has answered.
        is_up = is_daemon_up(settings)
        with reading.reading(settings.state_dir) as connection:
            answered = answer(connection)
        if answered is not None:
            return answered
        if time.monotonic() >= until:
            fail(progress(), TIMED_OUT)
        if not is_up:
            fail("the daemon ended; the request is kept, and carried out when one starts", TRY_AGAIN)
        time.sleep(_PERIOD)


def once_taken_up(settings: Settings, answer: Callable[[sqlite3.Connection], Answer | None]) -> Answer | None:
    """What `answer` finds in the store, once it isn't None. None if no daemon runs, or it takes longer than `PATIENCE_S`."""
    until = time.monotonic() + PATIENCE_S
    while is_daemon_up(settings):
        # A transaction for each look: one that stayed open would always see the store as it was at its beginning.
        with reading.reading(settings.state_dir) as connection:
            answered = answer(connection)
        if answered is not None or time.monotonic() > until:
            return answered
        # Sooner than `wait_for`: a daemon that is well answers in milliseconds, and a person waits at the prompt.
        time.sleep(_PERIOD / 4)
    return None


class AwayTime:
    """How long no daemon has run while a command waits for something that only a daemon does."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen = time.monotonic()

    def check(self) -> None:
        """Exits 75 once no daemon has run for `_AWAY_S`."""
        if is_daemon_up(self._settings):
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > _AWAY_S:
            fail("the daemon ended; the request is kept, and continues when one starts", TRY_AGAIN)
