"""Exit codes: the one table. Scripts rely on them."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from typing import Final


GOOD: Final = 0
NOT_SO: Final = 1
"""The check failed, or the run did not succeed."""
WRONG_USAGE: Final = 2
"""Wrong usage, or a wrong input file."""
NOT_FOUND: Final = 3
"""A path, an id or a name that does not exist; for `status`: not running."""
OWN_BUG: Final = 70
"""Runward itself is wrong: sysexits(3) calls it EX_SOFTWARE."""
TRY_AGAIN: Final = 75
"""The daemon is needed and not reachable, or another one uses the state directory."""
WRONG_SETTINGS: Final = 78
"""The daemon's configuration is invalid, it can't listen, other users could control it, or the store is from a newer version.

A restart changes none of these."""
TIMED_OUT: Final = 124
INTERRUPTED: Final = 130
READER_GONE: Final = 141
"""The program that reads the output has ended: the exit code that SIGPIPE would have given."""
TERMINATED: Final = 143

BY_STATUS: Final = {
    "completed": GOOD,
    "failed": NOT_SO,
    "timed_out": TIMED_OUT,
    "aborted": INTERRUPTED,
    "cancelled": TERMINATED,
}
"""What a command that waited for a session ends with, by the session's status."""

MEANINGS: Final = {
    GOOD: "done, with a good result",
    NOT_SO: "the check failed, or the run did not succeed",
    WRONG_USAGE: "wrong usage or a wrong input file",
    NOT_FOUND: "not found; for status: not running",
    OWN_BUG: "a bug in Runward",
    TRY_AGAIN: "try again: the daemon is not reachable, or another one uses the state directory",
    WRONG_SETTINGS: "the daemon's configuration is invalid, it can't listen, other users could control it, or the store is from a newer version",
    TIMED_OUT: "timed out",
    INTERRUPTED: "ended by SIGINT",
    READER_GONE: "the program that reads the output has ended",
    TERMINATED: "ended by SIGTERM",
}
"""Every code that a command ends with; `runward run` ends with its command's own instead."""
