"""Where fields stand in what is stored of a look at a session. A named tuple is an array in JSON, and SQL reads single fields.

Commands start with this, so it imports nothing. The types check these places where they are defined.
"""

from typing import Final

WATCHED: Final = {
    "attempt": "$[2]",
    "launcher": "$[8]",
    "process": "$[9]",
    "host": "$[10]",
    "traced": "$[17]",
}
"""Of a native run."""

TRACED_SIZE: Final = f"{WATCHED['traced']}[1]"

FOLLOWED: Final = {"attempt": "[1]", "lines": "[20]", "moved_at": "[24]"}
"""Of a foreign session, below what is remembered of it."""
