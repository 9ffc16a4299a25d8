"""The last message of a Claude Code session, looked for from the end of its transcript."""

from collections.abc import Iterable

from runward.handlers.layouts.claude_code_meanings import SYNTHETIC, user_record
from runward.handlers.layouts.claude_code_records import (
    NOT_DECODED,
    Block,
    Message,
    Record,
    content_of,
    decode,
    every_text_of,
    text_of,
)

_ASIDES = ("command", "command_output", "caveat", "shell", "follow_up", "aside")
"""User records that are unanswered if they come after the last reply."""


def final_message(newest_first: Iterable[bytes]) -> str | None:
    """The text of the session's last reply. None if it called a tool, or if something waits for an answer.

    A reply may be split over several lines, one for each of its parts. Lines that can't be read are skipped.
    """
    parts: list[str] = []
    reply: str | None = None
    for line in newest_first:
        try:
            record = decode(line)
        except NOT_DECODED:
            continue
        if record.is_sidechain or record.type not in ("assistant", "user"):
            continue
        if record.type == "user":
            if parts:
                break
            if _wants_an_answer(record):
                return None
            continue
        message = record.message
        if not isinstance(message, Message) or record.is_api_error_message:
            return _whole(parts)
        if message.model == SYNTHETIC:
            continue
        if parts and (message.id is None or message.id != reply):
            break
        if isinstance(message.content, list) and any(each.type == "tool_use" for each in message.content):
            return None
        reply = message.id
        parts.append(every_text_of(message.content))
    return _whole(parts)


def _whole(newest_first: list[str]) -> str | None:
    return "".join(reversed(newest_first)) or None


def _wants_an_answer(record: Record) -> bool:
    content = content_of(record)
    if isinstance(content, list) and any(_is_result(each) for each in content):
        return True
    return user_record(record, content, text_of(content)) not in _ASIDES


def _is_result(block: Block) -> bool:
    return block.type == "tool_result"
