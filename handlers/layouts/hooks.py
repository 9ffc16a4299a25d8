"""What agents' hooks say: the JSON objects that they pass to a program.

Any program may call a hook with any payload, so no value in it is trusted to have the right kind or size.
"""

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.layouts.foreign_values import LONGEST_PATH, text_in
from runward.handlers.layouts.transcript import clip_prompt
from runward.handlers.model.sessions import HookKind

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class HookSaid(NamedTuple):
    """A usable payload. See `HookSpoke` for the fields. `is_direct`: the agent calls the hook itself, without a shell."""

    session_id: str
    kind: HookKind
    cwd: str | None = None
    transcript_path: str | None = None
    prompt: str | None = None
    source: str | None = None
    is_direct: bool = False


def id_in(value: JsonValue) -> str | None:
    """A session's id that may become part of a key and of a file's name."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def path_in(value: JsonValue) -> str | None:
    """An absolute path, without parts that lead back up."""
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value or len(value) > LONGEST_PATH:
        return None
    # The path decides which root and which rule apply, so it must not lead back up.
    return posixpath.normpath(whole(value))


def whole(text: str) -> str:
    """The text without lone surrogates, which can't be stored."""
    return text.encode(errors="replace").decode()


_KINDS: Final[dict[str, HookKind]] = {
    "SessionStart": "started",
    "UserPromptSubmit": "prompted",
    "Stop": "turn_ended",
    "StopFailure": "turn_failed",
    "SessionEnd": "ended",
}
_LONGEST_SOURCE: Final = 40


def read_claude_code_hook(payload: dict[str, JsonValue]) -> HookSaid | str | None:
    """What a payload of Claude Code, Qwen Code or Droid says (on stdin of a hook's command), or why it can't be used.

    None for what is not about a session: a sub-agent's, a tool's.
    """
    name = payload.get("hook_event_name")
    if not isinstance(name, str) or not name:
        return "the payload names no hook_event_name"
    kind = _KINDS.get(name)
    # Hooks also run for sub-agents and tools, which are not sessions.
    if kind is None or payload.get("agent_id") is not None:
        return None
    session_id = id_in(payload.get("session_id"))
    if session_id is None:
        return f"the payload of {name} has no usable session_id"
    return _said(session_id, kind, payload, payload.get("transcript_path"))


def _said(session_id: str, kind: HookKind, payload: dict[str, JsonValue], transcript: JsonValue) -> HookSaid:
    prompt = text_in(payload.get("prompt")) if kind == "prompted" else None
    source = text_in(payload.get("source"), _LONGEST_SOURCE) if kind == "started" else None
    return HookSaid(
        session_id=session_id,
        kind=kind,
        cwd=path_in(payload.get("cwd")),
        transcript_path=path_in(transcript),
        prompt=None if prompt is None else clip_prompt(whole(prompt)),
        source=None if source is None else whole(source),
    )


def read_codex_hook(payload: dict[str, JsonValue]) -> HookSaid | str | None:
    """What a payload of Codex says: of its hooks (on stdin), or of its `notify` program (the last argument).

    None for what is not about a session. Codex notifies after good turns only.
    """
    if "hook_event_name" in payload:
        return read_claude_code_hook(payload)
    name = payload.get("type")
    if not isinstance(name, str) or not name:
        return "the payload names no type"
    if name != "agent-turn-complete":
        return None
    session_id = id_in(payload.get("thread-id"))
    if session_id is None:
        return f"the payload of {name} has no usable thread-id"
    return HookSaid(session_id, "turn_ended", path_in(payload.get("cwd")), is_direct=True)


_COPILOT: Final[dict[str, HookKind]] = {
    "source": "started",
    "prompt": "prompted",
    "stopReason": "turn_ended",
    "reason": "ended",
}
"""The field that only the payload of such a hook has: it doesn't say which hook it is."""


def read_copilot_hook(payload: dict[str, JsonValue]) -> HookSaid | str | None:
    """What a payload of GitHub Copilot says (on stdin of a hook's command), or why it can't be used.

    None for what is not about a session: a tool's, an error's.
    """
    kind = next((kind for field, kind in _COPILOT.items() if field in payload), None)
    if kind is None:
        return None
    session_id = id_in(payload.get("sessionId"))
    if session_id is None:
        return "the payload has no usable sessionId"
    return _said(session_id, kind, payload, payload.get("transcriptPath"))


def read_kimi_hook(payload: dict[str, JsonValue]) -> HookSaid | str | None:
    """What a payload of Kimi Code says: what Claude Code's says, with a prompt that is a list of parts."""
    parts = payload.get("prompt")
    texts = (
        [text_in(each.get("text")) for each in parts if isinstance(each, dict)]
        if isinstance(parts, list)
        else []
    )
    return read_claude_code_hook({**payload, "prompt": "\n".join(filter(None, texts)) or None})


def read_module(payload: dict[str, JsonValue]) -> HookSaid | str | None:
    """What Runward's module in an agent says. It speaks as Claude Code's hooks do, and calls the script itself."""
    said = read_claude_code_hook(payload)
    return said._replace(is_direct=True) if isinstance(said, HookSaid) else said


HOOKS: Final[Mapping[str, Callable[[dict[str, JsonValue]], HookSaid | str | None]]] = {
    "claude-code": read_claude_code_hook,
    "codex": read_codex_hook,
    "copilot": read_copilot_hook,
    "droid": read_claude_code_hook,
    "kilo": read_module,
    "kimi": read_kimi_hook,
    "opencode": read_module,
    "pi": read_module,
    "qwen": read_claude_code_hook,
}
"""How the payloads of the agents that have hooks are read, by the layout's name."""
