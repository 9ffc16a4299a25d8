"""What an agent's hook says, whichever agent's: the values that the daemon takes from payloads, and their bounds.

Any program may call a hook with any payload, so no value in it is trusted to have the right kind or size.
"""

import posixpath
import re
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.model.sessions import HookKind

LONGEST_PATH: Final = 4096
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class HookSaid(NamedTuple):
    """A usable payload. See `HookSpoke` for the fields."""

    session_id: str
    kind: HookKind
    cwd: str | None = None
    transcript_path: str | None = None
    prompt: str | None = None
    source: str | None = None


def id_in(value: JsonValue) -> str | None:
    """A session's id that may become part of a key and of a file's name."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def path_in(value: JsonValue) -> str | None:
    """An absolute path, without parts that lead back up."""
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value or len(value) > LONGEST_PATH:
        return None
    return posixpath.normpath(whole(value))


def whole(text: str) -> str:
    """The text without lone surrogates, which can't be stored."""
    return text.encode(errors="replace").decode()
