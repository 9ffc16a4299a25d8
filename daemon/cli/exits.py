"""Exit codes: the one table. Scripts rely on them."""

from typing import Final

GOOD: Final = 0
NOT_SO: Final = 1
"""What was checked does not hold, or the run did not succeed."""
WRONG_USAGE: Final = 2
"""Wrong usage, or a wrong input file."""
NOT_FOUND: Final = 3
"""A path, an id or a name that is not there; for `status`: not running."""
TRY_AGAIN: Final = 75
"""The daemon is needed and not reachable, or another one holds the state directory."""
WRONG_SETTINGS: Final = 78
"""The daemon's configuration is invalid."""
TIMED_OUT: Final = 124

MEANINGS: Final = {
    GOOD: "done and good",
    NOT_SO: "the thing that was checked does not hold, or the run did not succeed",
    WRONG_USAGE: "wrong usage or a wrong input file",
    NOT_FOUND: "not found; for status: not running",
    TRY_AGAIN: "try again: the daemon is not reachable, or another one holds the state directory",
    WRONG_SETTINGS: "the daemon's configuration is invalid",
    TIMED_OUT: "timed out",
    130: "ended by SIGINT",
    143: "ended by SIGTERM",
}
