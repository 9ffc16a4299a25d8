"""What Claude Code's hooks say: the JSON object on stdin of a hook's command."""

from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.layouts.foreign_values import text_in
from runward.handlers.layouts.hook_payload import HookSaid, id_in, path_in, whole
from runward.handlers.layouts.scanner import clip_prompt
from runward.handlers.model.sessions import HookKind

LAYOUT: Final = "claude-code"
_KINDS: Final[dict[str, HookKind]] = {
    "SessionStart": "started",
    "UserPromptSubmit": "prompted",
    "Stop": "turn_ended",
    "StopFailure": "turn_failed",
    "SessionEnd": "ended",
}
_LONGEST_SOURCE: Final = 40


def read_hook(payload: dict[str, JsonValue]) -> HookSaid | str | None:
    """What a payload says, or why it can't be used. None for what is not about a session: a sub-agent's, a tool's."""
    name = payload.get("hook_event_name")
    if not isinstance(name, str) or not name:
        return "the payload names no hook_event_name"
    kind = _KINDS.get(name)
    if kind is None or payload.get("agent_id") is not None:
        return None
    session_id = id_in(payload.get("session_id"))
    if session_id is None:
        return f"the payload of {name} has no usable session_id"
    prompt = text_in(payload.get("prompt")) if kind == "prompted" else None
    source = text_in(payload.get("source"), _LONGEST_SOURCE) if kind == "started" else None
    return HookSaid(
        session_id,
        kind,
        path_in(payload.get("cwd")),
        path_in(payload.get("transcript_path")),
        None if prompt is None else clip_prompt(whole(prompt)),
        None if source is None else whole(source),
    )
