"""Pi's sessions: `~/.pi/agent/sessions/--<cwd>--/<time>_<id>.jsonl`, one file per session, to which a resume appends.

The last reply decides: `stop` ends the turn, `toolUse` goes on. Pi tries again after an error, and each try is a reply
of its own. An interrupt (SIGTERM) leaves `aborted`; SIGINT without a terminal and SIGKILL leave no end. The files name no
process, and don't say who uses them.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.conversation import (
    COMPLETED,
    INTERRUPTED,
    Asked,
    Begun,
    Call,
    ConversationLog,
    Layout,
    Notes,
    Parts,
    Replied,
    Returned,
    Spent,
    TextPart,
    Uses,
    Word,
    api_failed,
    listed,
    nanousd,
    parts_of,
    texts_of,
)
from runward.handlers.layouts.foreign_values import LONGEST_PATH, UUID, count_in, whole_text_in
from runward.handlers.layouts.transcript import Close, closed

LAYOUT: Final = "pi"

_NAME: Final = re.compile(rf"[^/_]+_({UUID})\.jsonl", re.ASCII)


class _Cost(msgspec.Struct, frozen=True, gc=False):
    total: object = None


class _Usage(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    input: object = None
    output: object = None
    cache_read: object = None
    cache_write: object = None
    cost: _Cost = _Cost()


class _Message(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    role: object = None
    content: msgspec.Raw = msgspec.Raw()
    model: object = None
    usage: _Usage | None = None
    stop_reason: object = None
    error_message: object = None
    tool_call_id: object = None
    is_error: object = None


class _Record(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: object = None
    id: object = None
    timestamp: object = None
    version: object = None
    cwd: object = None
    parent_session: object = None
    branched_from: object = None
    model_id: object = None
    message: _Message = _Message()


class _Part(TextPart, frozen=True, gc=False):
    id: object = None
    name: object = None
    arguments: msgspec.Raw = msgspec.Raw()


_PARTS: Final = msgspec.json.Decoder(list[_Part])


def _words(record: _Record) -> Iterator[Word]:
    kind, message = record.type, record.message
    if kind == "session":
        parent = _session_in(record.parent_session or record.branched_from)
        yield Begun(
            whole_text_in(record.id),
            whole_text_in(record.cwd, LONGEST_PATH),
            parent=parent,
            copied_until=None if parent is None else parse_time(record.timestamp),
        )
    elif kind == "model_change":
        yield Uses(whole_text_in(record.model_id))
    elif kind == "message":
        match message.role:
            case "user":
                yield Asked(texts_of(_parts(message)))
            case "assistant":
                yield _replied(message)
            case "toolResult":
                call = whole_text_in(message.tool_call_id)
                if call is not None:
                    yield Returned(call, message.content, message.is_error is True)
            case "system":
                yield Notes(texts_of(_parts(message)))


def _replied(message: _Message) -> Replied:
    parts = _parts(message)
    calls = tuple(
        Call(call, whole_text_in(each.name) or "?", each.arguments)
        for each in listed(parts)
        if each.type == "toolCall" and (call := whole_text_in(each.id)) is not None
    )
    return Replied(
        texts_of(parts), calls, _close(message), whole_text_in(message.model), _spent(message.usage)
    )


def _close(message: _Message) -> Close | None:
    """How the turn ended with this reply; None if it goes on."""
    match message.stop_reason:
        case "stop":
            return COMPLETED
        case "error":
            return api_failed(message.error_message)
        case "aborted":
            return INTERRUPTED
        case "length":
            return closed("run.failed.limit_reached", "the reply reached the model's limit")
    return None


def _spent(usage: _Usage | None) -> Spent | None:
    if usage is None:
        return None
    return Spent(
        count_in(usage.input),
        count_in(usage.cache_read),
        count_in(usage.cache_write),
        count_in(usage.output),
        nanousd(usage.cost.total),
    )


def _parts(message: _Message) -> Parts[_Part]:
    return parts_of(message.content, _PARTS)


def _session_in(path: object) -> str | None:
    """The id of the session whose file this is."""
    found = _NAME.fullmatch(path.rpartition("/")[2]) if isinstance(path, str) else None
    return None if found is None else found[1]


def _is_first(record: _Record) -> bool:
    return (
        record.type == "session"
        and type(record.version) is int
        and whole_text_in(record.cwd, LONGEST_PATH) is not None
    )


LOG: Final = ConversationLog(
    Layout(
        name=LAYOUT,
        shown_by="a `session` record with a `version` and a `cwd` among its first lines",
        decoder=msgspec.json.Decoder(_Record),
        words=_words,
        at=lambda record: parse_time(record.timestamp),
        id_of=lambda record: whole_text_in(record.id),
        id_in=_session_in,
        is_first=_is_first,
    )
)
