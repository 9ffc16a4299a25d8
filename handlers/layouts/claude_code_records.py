"""Single records of a Claude Code transcript (versions 1.0.60 to 2.1.197), as far as they matter.

Only the fields of a record that matter here are read, which is several times faster than reading all of it. Every
field may hold anything: a value of another kind than Claude Code writes counts as absent.
"""

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec

from runward.config.json_value import JsonValue

Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens that a reply cost."""

    input_tokens: Tokens = 0
    cache_creation_input_tokens: Tokens = 0
    cache_read_input_tokens: Tokens = 0
    output_tokens: Tokens = 0


class Block(msgspec.Struct, frozen=True, gc=False):
    """A part of a message: a text, a tool's call (`tool_use`) or its result (`tool_result`). Long values stay JSON."""

    type: str | None = None
    id: str | None = None
    name: str | None = None
    tool_use_id: str | None = None
    is_error: bool | None = None
    text: msgspec.Raw = msgspec.Raw()
    content: msgspec.Raw = msgspec.Raw()
    input: msgspec.Raw = msgspec.Raw()


Content: TypeAlias = str | list[Block] | None


class Message(msgspec.Struct, frozen=True, gc=False):
    """What was said to the model, or by it."""

    id: str | None = None
    model: str | None = None
    content: Content = None
    stop_reason: str | None = None
    usage: Usage | None = None


class Attachment(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Something that Claude Code tells the model, or the reader of the transcript."""

    type: str | None = None
    max_turns: int | None = None


class Origin(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a record was copied from."""

    session_id: str | None = None


class Record(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One line. A message may be just a text."""

    parent_uuid: str | None = None
    is_sidechain: bool | None = None
    message: Message | str | None = None
    type: str | None = None
    timestamp: str | None = None
    entrypoint: str | None = None
    cwd: str | None = None
    session_id: str | None = None
    version: str | None = None
    is_meta: bool | None = None
    is_api_error_message: bool | None = None
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    attachment: Attachment | None = None
    subtype: str | None = None
    operation: str | None = None
    content: Content = None
    agent_setting: str | None = None
    forked_from: Origin | None = None
    tool_use_result: msgspec.Raw = msgspec.Raw()


decode: Final = msgspec.json.Decoder(Record).decode
"""A line's record. Raises what is in `NOT_DECODED` for a line that is not quite as Claude Code writes them."""

NOT_DECODED: Final = (msgspec.MsgspecError, ValueError, RecursionError)


def record_of(value: Mapping[str, JsonValue]) -> Record:
    """The record that an object amounts to when each malformed field is left out."""
    return _struct(Record, value)


Struct = TypeVar("Struct", bound=msgspec.Struct)
_INNER: Final[Mapping[str, type[msgspec.Struct]]] = {
    "message": Message,
    "usage": Usage,
    "attachment": Attachment,
    "forkedFrom": Origin,
}


def _struct(kind: type[Struct], value: Mapping[str, JsonValue]) -> Struct:
    fields: dict[str, object] = {}
    for field in msgspec.structs.fields(kind):
        given = value.get(field.encode_name)
        if isinstance(given, dict) and field.encode_name in _INNER:
            fields[field.name] = _struct(_INNER[field.encode_name], given)
        elif field.type is msgspec.Raw:
            fields[field.name] = msgspec.Raw(msgspec.json.encode(given))
        elif isinstance(given, list) and field.name == "content":
            fields[field.name] = [_struct(Block, block) for block in given if isinstance(block, dict)]
        else:
            try:
                fields[field.name] = msgspec.convert(given, field.type)
            except msgspec.ValidationError:
                continue
    return kind(**fields)


def content_of(record: Record) -> Content:
    """The content of a record's message, which may be the message itself."""
    message = record.message
    return message.content if isinstance(message, Message) else message


def text_of(content: Content) -> str:
    """The text of a message's content: the content itself, or that of its first text block."""
    if isinstance(content, list):
        for block in content:
            if block.type == "text":
                return _text(block.text)
        return ""
    return content or ""


def every_text_of(content: Content) -> str:
    """The text of a message's content: the content itself, or that of all its text blocks."""
    if isinstance(content, list):
        return "".join(_text(block.text) for block in content if block.type == "text")
    return content or ""


def _text(raw: msgspec.Raw) -> str:
    try:
        value = msgspec.json.decode(raw)
    except NOT_DECODED:
        return ""
    return value if isinstance(value, str) else ""
