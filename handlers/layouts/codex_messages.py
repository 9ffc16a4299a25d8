"""What a line of a Codex rollout says as a text: a prompt, a reply, or something that Codex inserted."""

from typing import Final

from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.codex_final import item_of, text_of
from runward.handlers.layouts.transcript import Said
from runward.handlers.layouts.transcript_lines import decode

_INSERTED: Final = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions")
"""What Codex says to the model in the name of the user."""


def message_in(line: bytes) -> Said | None:
    """The text that a line adds to the conversation. None if it adds none, or can't be read.

    Codex also reports each text as an event; those are left out.
    """
    try:
        record = decode(line)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    kind, item = item_of(record)
    text = text_of(item.get("content")) if kind == "message" else ""
    if not text:
        return None
    role = item.get("role")
    if role == "user" and not text.lstrip().startswith(_INSERTED):
        return Said(parse_time(record.get("timestamp")), "user", text)
    return Said(parse_time(record.get("timestamp")), "assistant" if role == "assistant" else "system", text)
