"""What Codex's `notify` says: the JSON object in its program's last argument. It is called after good turns only."""

from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.layouts.hook_payload import HookSaid, id_in, path_in

LAYOUT: Final = "codex"


def read_hook(payload: dict[str, JsonValue]) -> HookSaid | str | None:
    """What a payload says, or why it can't be used. None for what is not about a turn."""
    name = payload.get("type")
    if not isinstance(name, str) or not name:
        return "the payload names no type"
    if name != "agent-turn-complete":
        return None
    session_id = id_in(payload.get("thread-id"))
    if session_id is None:
        return f"the payload of {name} has no usable thread-id"
    return HookSaid(session_id, "turn_ended", path_in(payload.get("cwd")))
