"""A server ends with its client, whatever it is doing: on a hang-up of its streams, or its parent's death.

The SDK notices only the end of stdin. It does not notice that nobody reads its answers, nor that its parent died while
another process has the other end of the pipe.
"""

import os
import select
import threading
import time
from typing import Final

_GRACE_S: Final = 0.25
"""Seconds for the answers that are on their way when the client closes our stdin."""


def end_with_client() -> None:
    """From now on, this process ends within a second after its client has ended. Call it before stdin and stdout move."""
    poll = select.poll()
    poll.register(os.dup(0), select.POLLRDHUP)  # and POLLHUP and POLLERR, which are always reported
    poll.register(os.dup(1), 0)
    parent = _parent()
    if parent is not None:
        poll.register(parent, select.POLLIN)
    threading.Thread(target=_wait, args=(poll,), name="client", daemon=True).start()


def _parent() -> int | None:
    """A descriptor that shows our parent's end. None if the parent is outside our namespace, or already gone."""
    try:
        return os.pidfd_open(os.getppid())
    except OSError:
        return None  # then the streams show it


def _wait(poll: select.poll) -> None:
    poll.poll()
    time.sleep(_GRACE_S)
    # Whatever the server is doing: no handler may hold it up, since nobody is left to answer.
    os._exit(0)
