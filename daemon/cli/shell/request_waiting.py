"""Waiting for the result of a request to the daemon, as every `--wait` does."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from runward.daemon.cli.exits import TIMED_OUT, TRY_AGAIN
from runward.daemon.cli.terminal.output import fail, note
from runward.daemon.store.ownership import holder

_PERIOD: Final = 0.1
"""Seconds between two checks for the result."""

PATIENCE_S: Final = 30.0
"""Seconds that a daemon may take to take something up that is durable in any case."""

_AWAY_S: Final = 30.0
"""Seconds for which there may be no daemon: one that is started again takes less."""

Answer = TypeVar("Answer")


def refuse_without_daemon() -> NoReturn:
    """Send nothing if nobody would answer during the wait."""
    fail("no daemon is running, so nothing was requested: start it, or leave out --wait", TRY_AGAIN)


def note_without_daemon(state: Path, later: str = "it will be done when one starts") -> None:
    """Say what happens later, if no daemon runs."""
    if holder(state) is None:
        note(f"no daemon is running: {later}")


def wait_for(
    state: str, patience: float, answer: Callable[[], Answer | None], said: Callable[[], str]
) -> Answer:
    """What `answer` returns once it isn't None. After `patience` seconds `said` tells how far it is, and 124 ends it."""
    until = time.monotonic() + patience
    while True:
        # Checked before the look: a daemon that answers and ends has answered.
        is_up = holder(Path(state)) is not None
        found = answer()
        if found is not None:
            return found
        if time.monotonic() >= until:
            fail(said(), TIMED_OUT)
        if not is_up:
            fail("the daemon ended; the request is kept, and carried out when one starts", TRY_AGAIN)
        time.sleep(_PERIOD)


def once_taken_up(state: Path, answer: Callable[[], Answer | None]) -> Answer | None:
    """What `answer` returns once it isn't None; None if no daemon runs, or it takes longer than `PATIENCE_S`."""
    until = time.monotonic() + PATIENCE_S
    while holder(state) is not None:
        found = answer()
        if found is not None or time.monotonic() > until:
            return found
        time.sleep(_PERIOD / 4)
    return None


class AwayTime:
    """How long no daemon has run while a command waits for something that only a daemon does."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._seen = time.monotonic()

    def check(self) -> None:
        """Exits 75 once no daemon has run for `_AWAY_S`."""
        if holder(self._state) is not None:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > _AWAY_S:
            fail("the daemon ended; the request is kept, and continues when one starts", TRY_AGAIN)
