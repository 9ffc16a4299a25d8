"""Whether the machine is shutting down: then a SIGTERM comes from the system, not from a person.

systemd is asked with its own tool, once, after the run has ended. Without systemd, or without an answer in time, only
the signal itself is known.
"""

import os
import select
import signal
from collections.abc import Mapping

_PATIENCE_MS = 2000
_QUESTION = ("systemctl", "is-system-running")
_YES = b"stopping"


def is_system_stopping(environment: Mapping[str, str]) -> bool:
    """Whether systemd is shutting down; False if it can't be asked."""
    try:
        return _ask(environment) == _YES
    except OSError:
        return False


def _ask(environment: Mapping[str, str]) -> bytes:
    answer_out, answer_in = os.pipe()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    files = [
        (os.POSIX_SPAWN_DUP2, null, 0),
        (os.POSIX_SPAWN_DUP2, answer_in, 1),
        (os.POSIX_SPAWN_DUP2, null, 2),
    ]
    try:
        # Our own mask would be inherited: signals that are blocked here would end no process there.
        pid = os.posix_spawnp(_QUESTION[0], _QUESTION, environment, file_actions=files, setsigmask=())
    except OSError:
        os.close(answer_out)
        raise
    finally:
        os.close(answer_in)
        os.close(null)
    try:
        return _read(answer_out).strip()
    finally:
        os.close(answer_out)
        os.kill(pid, signal.SIGKILL)  # it is not waited for yet, so its number can't have been reused
        os.waitpid(pid, 0)


def _read(descriptor: int) -> bytes:
    """The answer's one line; empty if it takes too long."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return os.read(descriptor, 100) if poll.poll(_PATIENCE_MS) else b""
