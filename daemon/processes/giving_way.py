"""How processes that work in the background give way on a busy processor: verdicts don't wait for them.

The kernel shares a processor out among sessions first (autogroups, sched(7)), and only within a session by the nice values
of its processes. So a process in a session of its own gives way only if its session does. Where autogroups are switched
off, or cgroups take their place, its own nice value and class count.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

NICENESS: Final = 5
"""Nice value of a process: a third of the time that another process of its session gets that wants the processor, too."""

OF_SESSION: Final = 10
"""Nice value of its session: a tenth of what another session gets. It is never nothing, because code has deadlines."""


def give_way() -> None:
    """Have this process, which leads a session, give way from now on. What the machine refuses is left as it is."""
    with suppress(PermissionError):
        os.nice(NICENESS)
    with suppress(PermissionError):
        # Its wake-ups interrupt nobody.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    # In any other session this would lower those who started it.
    if os.getsid(0) == os.getpid():
        session_gives_way("self", lambda: True)


class GivingWay:
    """Has this process, which leads a session, give way at some times and not at others. At first it does not.

    Its own nice value stays higher all the time: it can't be lowered again. What the machine refuses is left as it is.
    """

    def __init__(self) -> None:
        self._gives = False
        with suppress(PermissionError):
            os.nice(NICENESS)

    def give_way(self, is_wanted: bool) -> None:
        """From now on, or no longer."""
        if is_wanted == self._gives or os.getsid(0) != os.getpid():
            return
        with suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_BATCH if is_wanted else os.SCHED_OTHER, os.sched_param(0))
        if session_gives_way("self", lambda: True, OF_SESSION if is_wanted else 0):
            self._gives = is_wanted


def session_gives_way(process: int | str, is_that: Callable[[], bool], nice_value: int = OF_SESSION) -> bool:
    """Have the session of this process give way; returns False if the kernel refuses that for the moment.

    `is_that` says whether the number still belongs to the process. It is called when its file is open.
    """
    # All users but root together may do this ten times a second, and get EAGAIN beyond that.
    try:
        file = os.open(f"/proc/{process}/autogroup", os.O_WRONLY | os.O_CLOEXEC)
        try:
            if is_that():
                os.write(file, b"%d" % nice_value)
        finally:
            os.close(file)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a kernel without autogroups, or one that doesn't let us: it goes on as before
    return True
