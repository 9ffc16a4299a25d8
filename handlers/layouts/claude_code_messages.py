"""What a line of a Claude Code transcript says as a text: a prompt, a reply, or something that Claude Code inserted."""

from typing import Final

from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.claude_code_meanings import SYNTHETIC, user_record
from runward.handlers.layouts.claude_code_records import (
    NOT_DECODED,
    Message,
    content_of,
    decode,
    every_text_of,
)
from runward.handlers.layouts.transcript import Said

_PERSONS: Final = ("prompt", "command", "shell", "interruption")


def message_in(line: bytes) -> Said | None:
    """The text that a line adds to the conversation. None if it adds none, or can't be read."""
    try:
        record = decode(line)
    except NOT_DECODED:
        return None
    if record.is_sidechain or record.type not in ("assistant", "user"):
        return None
    content = content_of(record)
    text = every_text_of(content)
    if not text:
        return None
    at = parse_time(record.timestamp)
    if record.type == "user":
        return Said(at, "user" if user_record(record, content, text) in _PERSONS else "system", text)
    model = record.message.model if isinstance(record.message, Message) else None
    is_own = record.is_api_error_message or model == SYNTHETIC
    return Said(at, "system" if is_own else "assistant", text)
