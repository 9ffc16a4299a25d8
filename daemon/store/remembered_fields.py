"""Where fields stand in what is remembered of a foreign session, as JSON in `cursors.state`. See `stored_fields.py`.

Commands start with this, so it imports little. The type checks these places where it is defined.
"""

from typing import Final

from runward.handlers.sessions.stored_fields import FOLLOWED

REMEMBERED: Final = {"followed": "$[2]", "about": "$[10]"}

ABOUT: Final = REMEMBERED["about"]
CWD: Final = f"{ABOUT}[0]"
FOLLOWED_ATTEMPT: Final = f"{REMEMBERED['followed']}{FOLLOWED['attempt']}"
FOLLOWED_LINES: Final = f"{REMEMBERED['followed']}{FOLLOWED['lines']}"
