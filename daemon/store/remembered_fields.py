"""Where fields stand in what is remembered of a foreign session, as JSON in `cursors.state`. See `stored_fields.py`.

Commands start with this, so it imports little. The type checks these places where it is defined.
"""

from typing import Final

from runward.handlers.sessions.stored_fields import FOLLOWED

REMEMBERED: Final = {"followed": "$[2]", "about": "$[10]", "waiting": "$[12]"}

ABOUT: Final = REMEMBERED["about"]
CWD: Final = f"{ABOUT}[0]"
PROMPT: Final = f"{ABOUT}[1]"
WAITING: Final = REMEMBERED["waiting"]
WAITING_SINCE: Final = f"{WAITING}[0]"
WAITING_ASKS: Final = f"{WAITING}[2]"
FOLLOWED_ATTEMPT: Final = f"{REMEMBERED['followed']}{FOLLOWED['attempt']}"
FOLLOWED_MOVED_AT: Final = f"{REMEMBERED['followed']}{FOLLOWED['moved_at']}"
FOLLOWED_LINES: Final = f"{REMEMBERED['followed']}{FOLLOWED['lines']}"
