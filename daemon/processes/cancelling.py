"""How the daemon tells a launcher that a person wants its run ended: by a signal, and by a note.

The signal is one that nothing else sends and that every launcher keeps blocked, so a process that doesn't keep it
blocked is not a launcher. `cancel.json` says who ordered it and why, if the daemon could write that.
"""

import os
import signal

CANCEL = signal.SIGRTMIN + 7
WORD = "cancel.json"
_LARGEST_WORD = 16384
_LONGEST_ORDER = 600
"""Characters; each takes at most six bytes in `exit.json`, for which little room is reserved."""


def order_text(said_by: str, reason: str) -> str:
    """An order in words, which `exit.json` keeps as its error. It always names who gave it."""
    because = f": {reason}" if reason else ""
    return f"cancelled by {said_by}{because}"[:_LONGEST_ORDER]


def read_word(directory: int) -> str | None:
    """The order that was left in the run directory behind a descriptor; None if none can be read."""
    # The command may have put anything there: a link, a giant, nonsense, or a FIFO, at which the launcher would wait
    # forever without O_NONBLOCK.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(WORD, flags, dir_fd=directory)
        try:
            content = os.read(descriptor, _LARGEST_WORD)
        finally:
            os.close(descriptor)
    except OSError:
        return None  # whatever is there instead, the signal was enough
    return _order(content)


def _order(content: bytes) -> str | None:
    import json  # the launcher needs it only here

    try:
        word = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(word, dict):
        return None
    said_by, reason = word.get("said_by"), word.get("reason")
    if not isinstance(said_by, str) or not isinstance(reason, str):
        return None
    return order_text(said_by, reason).encode(errors="replace").decode()  # a lone surrogate can't be written
