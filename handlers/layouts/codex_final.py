"""The last message of a Codex thread, looked for from the end of its rollout."""

from collections.abc import Iterable
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.layouts.foreign_values import object_in
from runward.handlers.layouts.transcript_lines import decode

_ENDS: Final = frozenset({"task_complete", "turn_complete"})
_WORKS_ON: Final = frozenset(
    {
        *("task_started", "turn_started", "turn_aborted", "user_message"),
        *("function_call", "custom_tool_call", "local_shell_call"),
        *("function_call_output", "custom_tool_call_output"),
    }
)
"""What comes after a message that was not the last one."""


def final_message(newest_first: Iterable[bytes]) -> str | None:
    """The text of the thread's last message. None if a turn was begun or aborted after it, or it called a tool.

    Newer versions repeat it at the end of the turn. Lines that can't be read are skipped.
    """
    for line in newest_first:
        try:
            record = decode(line)
        except ValueError:
            continue
        if not isinstance(record, dict):
            continue
        kind, item = item_of(record)
        if kind in _ENDS:
            if item.get("error") is not None:
                return None
            said = item.get("last_agent_message")
            if isinstance(said, str):
                return said or None
        elif kind == "message":
            role = item.get("role")
            if role == "assistant":
                return text_of(item.get("content")) or None
            if role == "user":
                return None
        elif kind in _WORKS_ON or (
            kind == "item_completed" and object_in(item.get("item")).get("type") == "UserMessage"
        ):
            return None
    return None


def item_of(record: dict[str, JsonValue]) -> tuple[str, dict[str, JsonValue]]:
    """What a record says, and its kind. Up to 0.29 it is bare in its line."""
    kind, payload = record.get("type"), record.get("payload")
    if payload is None:
        return str(kind), record
    item = object_in(payload)
    return str(item.get("type")) if kind in ("event_msg", "response_item") else "", item


def text_of(content: JsonValue) -> str:
    """The text of a message: that of all its blocks."""
    blocks = content if isinstance(content, list) else []
    texts = (object_in(each).get("text") for each in blocks)
    return "".join(each for each in texts if isinstance(each, str))
