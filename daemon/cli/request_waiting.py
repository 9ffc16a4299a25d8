"""Waiting for what comes of a request to the daemon, as every `--wait` does."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from runward.daemon.cli.exits import TIMED_OUT, TRY_AGAIN
from runward.daemon.cli.output import fail
from runward.daemon.store.ownership import holder

_PERIOD: Final = 0.1
"""Seconds between two looks at what came of it."""

Answer = TypeVar("Answer")


def refuse_without_daemon() -> NoReturn:
    """Nothing is asked where nobody would answer while one waits."""
    fail("no daemon is running, nothing was asked: start it, or leave --wait out", TRY_AGAIN)


def wait_for(
    state: str, patience: float, answer: Callable[[], Answer | None], said: Callable[[], str]
) -> Answer:
    """What `answer` returns once it isn't None. After `patience` seconds `said` tells how far it is, and 124 ends it."""
    until = time.monotonic() + patience
    while True:
        # Asked before the look: a daemon that answers and ends has answered.
        is_up = holder(Path(state)) is not None
        found = answer()
        if found is not None:
            return found
        if time.monotonic() >= until:
            fail(said(), TIMED_OUT)
        if not is_up:
            fail("the daemon went away; what was asked is kept, and carried out when one starts", TRY_AGAIN)
        time.sleep(_PERIOD)
