"""A time namespace around bubblewrap, which can't make one: inside, the clocks since boot begin with the worker.

`unshare` of util-linux makes it, in a user namespace that bubblewrap's own is nested in. Not every kernel and every
profile of AppArmor allows that, so it is tried first. If it fails, code runs without one, and results say so.
"""

import shutil
import subprocess
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

PROGRAM: Final = "unshare"

_TRIED_AGAIN_S: Final = 60.0
_PATIENCE_S: Final = 5.0


def in_own_time(start: Sequence[str], user: int | None) -> tuple[str, ...]:
    """The beginning of bubblewrap's command line that makes a time namespace; empty if the machine doesn't allow one.

    `user` starts it, None for the one we run as.
    """
    program, trial = shutil.which(PROGRAM), shutil.which("true")
    if program is None or trial is None:
        return ()
    tried = (*start, "--ro-bind", "/", "/", "--", trial)
    if not _works(program, tried, user, int(time.monotonic() / _TRIED_AGAIN_S)):
        return ()
    return _prefix(program)


def _prefix(program: str) -> tuple[str, ...]:
    since_boot = (
        f"-{int(time.clock_gettime(time.CLOCK_BOOTTIME))}",
        "--monotonic",
        f"-{int(time.clock_gettime(time.CLOCK_MONOTONIC))}",
    )
    return program, "--user", "--map-current-user", "--time", "--boottime", *since_boot, "--"


@lru_cache(maxsize=4)
def _works(program: str, tried: tuple[str, ...], user: int | None, period: int) -> bool:
    """Whether it works in this `period`: the machine may be changed while the daemon runs."""
    try:
        ended = subprocess.run(
            (*_prefix(program), *tried),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
            check=False,
            cwd="/",
            env={},
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else (),
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0
