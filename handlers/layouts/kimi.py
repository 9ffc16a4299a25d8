"""Kimi Code's sessions: `~/.kimi-code/sessions/wd_<directory>_<hash>/session_<id>/agents/main/wire.jsonl`, to which a resume appends.

`turn.ended` says how the turn ended; nothing else ends it. A reply is several records: its tokens, then its texts and calls.
A fork begins with copies of its origin's records; then `state.json` is written, and says whose they are, and when that was.
Sub-agents have logs of their own beside `main`. The records of the kind `event` repeat others. No file names the process.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.layouts.conversation import (
    COMPLETED,
    INTERRUPTED,
    Asked,
    Begun,
    Call,
    ConversationDirectory,
    Delegated,
    Ended,
    Layout,
    Notes,
    Parts,
    Replied,
    Returned,
    Spent,
    TextPart,
    Used,
    Uses,
    Word,
    api_failed,
    parts_of,
    texts_of,
)
from runward.handlers.layouts.foreign_values import (
    LONGEST_PATH,
    UUID,
    count_in,
    milliseconds_in,
    whole_text_in,
)
from runward.handlers.layouts.transcript import closed

LAYOUT: Final = "kimi"
LOG: Final = "agents/main/wire.jsonl"
SUBAGENTS: Final = "agents/agent-*/wire.jsonl"
STATE: Final = "state.json"

_NAME: Final = re.compile(rf"session_{UUID}", re.ASCII)
_DELEGATES: Final = "Agent"
"""The tool that starts a sub-agent."""

_DELEGATES_EACH: Final = "AgentSwarm"
"""The tool that starts a sub-agent for each of its items."""

_MOST_ITEMS: Final = 128


class _Disclosure(msgspec.Struct, frozen=True, gc=False):
    cwd: object = None


class _Origin(msgspec.Struct, frozen=True, gc=False):
    kind: object = None


class _Message(msgspec.Struct, frozen=True, gc=False):
    content: Parts[TextPart] = None
    origin: _Origin = _Origin()


class _Usage(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    input_other: object = None
    output: object = None
    input_cache_read: object = None
    input_cache_creation: object = None


class _Swarm(msgspec.Struct, frozen=True, gc=False):
    items: list[msgspec.Raw] = []


class _Result(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    output: msgspec.Raw = msgspec.Raw()
    is_error: object = None


class _Event(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: object = None
    uuid: object = None
    parent_uuid: object = None
    tool_call_id: object = None
    name: object = None
    args: msgspec.Raw = msgspec.Raw()
    result: _Result = _Result()
    part: TextPart = TextPart()


class _Error(msgspec.Struct, frozen=True, gc=False):
    code: object = None
    message: object = None


class _Record(msgspec.Struct, frozen=True, gc=False):
    type: object = None
    kind: object = None
    time: object = None
    created_at: object = None
    protocol_version: object = None
    alias: object = msgspec.field(default=None, name="modelAlias")
    disclosure: _Disclosure = msgspec.field(default=_Disclosure(), name="environmentDisclosure")
    input: msgspec.Raw = msgspec.Raw()
    origin: _Origin = _Origin()
    message: _Message = _Message()
    model: object = None
    usage: _Usage = _Usage()
    event: _Event = _Event()
    reason: object = None
    error: _Error = _Error()


_PARTS: Final = msgspec.json.Decoder(list[TextPart])
_SWARM: Final = msgspec.json.Decoder(_Swarm)


def _words(record: _Record) -> Iterator[Word]:
    match record.type:
        case "context.append_loop_event":
            yield from _happened(record.event)
        case "profile.bind":
            cwd = whole_text_in(record.disclosure.cwd, LONGEST_PATH)
            if cwd is not None:
                yield Begun(None, cwd)
            yield Uses(whole_text_in(record.alias))
        case "llm.request":
            # The alias that the other records name is only the person's own word for this model.
            yield Uses(whole_text_in(record.model))
        case "turn.prompt":
            is_users = record.origin.kind == "user"
            yield Asked(texts_of(parts_of(record.input, _PARTS)) if is_users else "")
        case "context.append_message" if record.message.origin.kind == "injection":
            yield Notes(texts_of(record.message.content))
        case "usage.record":
            yield Used(None, _spent(record.usage))
        case "turn.ended":
            yield from _ended(record)


def _happened(event: _Event) -> Iterator[Word]:
    call = whole_text_in(event.tool_call_id)
    match event.type:
        case "content.part":
            part = event.part
            if part.type == "text" and len(part.text):
                yield Replied([part.text])
        case "tool.call" if call is not None:
            tool = whole_text_in(event.name) or "?"
            yield Replied("", (Call(call, tool, event.args),))
            for _ in range(_started_by(tool, event.args)):
                yield Delegated()
        case "tool.result" if call is not None:
            yield Returned(call, event.result.output, event.result.is_error is True)


def _started_by(tool: str, args: msgspec.Raw) -> int:
    """How many sub-agents a call starts."""
    if tool != _DELEGATES_EACH:
        return int(tool == _DELEGATES)
    try:
        return min(len(_SWARM.decode(args).items), _MOST_ITEMS)
    except (ValueError, RecursionError):
        return 0


def _ended(record: _Record) -> Iterator[Word]:
    match record.reason:
        case "completed":
            yield Ended(COMPLETED)
        case "failed":
            code, message = record.error.code, record.error.message
            is_api = isinstance(code, str) and code.startswith("provider.")
            yield Ended(api_failed(message) if is_api else closed("run.failed.exception", "the turn failed"))
        case "cancelled":
            yield Ended(INTERRUPTED)


def _spent(usage: _Usage) -> Spent:
    return Spent(
        count_in(usage.input_other),
        count_in(usage.input_cache_read),
        count_in(usage.input_cache_creation),
        count_in(usage.output),
    )


def _at(record: _Record) -> float | None:
    """Unix seconds; a repeating record is older than what it repeats."""
    if record.kind == "event":
        return None
    at = milliseconds_in(record.time)
    return milliseconds_in(record.created_at) if at is None else at


def _origin(state: dict[str, JsonValue]) -> Begun | None:
    """Which session this one was forked from, and when."""
    parent = whole_text_in(state.get("forkedFrom"))
    if parent is None:
        return None
    cwd = whole_text_in(state.get("cwd"), LONGEST_PATH)
    return Begun(None, cwd, parent=parent, copied_until=milliseconds_in(state.get("createdAt")))


def _id_of(record: _Record) -> str | None:
    """What no other record has: most have no id, so the time is part of it."""
    if record.kind == "event":
        return None
    event = record.event
    return f"{event.type or record.type}{record.time}{event.uuid or event.parent_uuid or ''}"


def _session_in(path: str) -> str | None:
    name = path.rstrip("/").rpartition("/")[2]
    return name if _NAME.fullmatch(name) else None


def _is_first(record: _Record) -> bool:
    return (
        record.type == "metadata"
        and whole_text_in(record.protocol_version) is not None
        and type(record.created_at) is int
    )


DIRECTORY: Final = ConversationDirectory(
    Layout(
        name=LAYOUT,
        shown_by="a `state.json`, and an `agents/main/wire.jsonl` with a `metadata` record that has `protocol_version` and `created_at`",
        decoder=msgspec.json.Decoder(_Record),
        words=_words,
        at=_at,
        id_of=_id_of,
        id_in=_session_in,
        is_first=_is_first,
        told_by=_origin,
        subagents=SUBAGENTS,
        content=("message", "content"),
    ),
    LOG,
    (STATE,),
)
