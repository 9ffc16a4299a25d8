"""GitHub Copilot CLI's sessions: `~/.copilot/session-state/<id>/events.jsonl`, to which a resume appends.

`assistant.turn_start` and `turn_end` enclose one call of the model. The turn is over after a reply that requests no tool, by an
error, or by an abort. `session.shutdown` says that the program ends, and nothing about how the turn ended. Records with an `agentId`
are a sub-agent's, whose replies cost the session something. A `cost` is a multiplier of requests, but AI credits are money. In a fork, `session.start` is new, then come copies, which are older, and then a `session.info` that names the origin.
While the program lives, it holds the lock of `inuse.<pid>.hold` beside the log.
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
    ConversationDirectory,
    Delegated,
    Elsewhere,
    Ended,
    Layout,
    Left,
    Notes,
    Replied,
    Returned,
    Spent,
    Used,
    Uses,
    Word,
    api_failed,
)
from runward.handlers.layouts.foreign_values import (
    LONGEST_PATH,
    MOST_USD,
    UUID,
    count_in,
    number_in,
    whole_in,
    whole_text_in,
)

LAYOUT: Final = "copilot"
LOG: Final = "events.jsonl"
HELD: Final = re.compile(r"inuse\.([1-9][0-9]{0,9})\.hold", re.ASCII)
"""The file whose lock the process with this number holds."""

_FORKED_FROM: Final = re.compile(rf'Forked from (?:"[^"]*" \()?({UUID})', re.ASCII)
"""How a fork names its origin. The name before the id has no quotes in it."""

_ID: Final = re.compile(UUID, re.ASCII)


class _Context(msgspec.Struct, frozen=True, gc=False):
    cwd: object = None


class _Credits(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    total_nano_aiu: object = None


class _Usage(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    model: object = None
    input_tokens: object = None
    output_tokens: object = None
    cache_read_tokens: object = None
    cache_write_tokens: object = None
    ai_credits_status: object = None
    copilot_usage: _Credits = _Credits()


class _Request(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    tool_call_id: object = None
    name: object = None
    arguments: msgspec.Raw = msgspec.Raw()


class _Shell(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    exit_code: object = None


class _Data(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    session_id: object = None
    copilot_version: object = None
    selected_model: object = None
    context: _Context = _Context()
    content: msgspec.Raw = msgspec.Raw()
    model: object = None
    tool_requests: list[_Request] = []
    usage: _Usage = _Usage()
    tool_call_id: object = None
    success: object = None
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()
    shell_execution: _Shell = _Shell()
    message: object = None
    info_type: object = None


class _Record(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: object = None
    id: object = None
    timestamp: object = None
    agent_id: object = None
    data: _Data = _Data()


def _words(record: _Record) -> Iterator[Word]:
    data, kind = record.data, record.type
    if kind == "subagent.started":
        yield Delegated()
    if record.agent_id is not None:
        if kind == "session.usage_record":
            yield Elsewhere(whole_text_in(data.usage.model), _spent(data.usage))
        return  # what else a sub-agent does is not the session's own
    match kind:
        case "session.start" | "session.resume":
            yield Begun(
                whole_text_in(data.session_id),
                whole_text_in(data.context.cwd, LONGEST_PATH),
                whole_text_in(data.copilot_version),
                copied_until=parse_time(record.timestamp),
            )
            yield Uses(whole_text_in(data.selected_model))
        case "user.message":
            yield Asked((data.content,))
        case "system.message":
            yield Notes((data.content,))
        case "session.usage_record":
            yield Used(whole_text_in(data.usage.model), _spent(data.usage))
        case "assistant.message":
            yield _replied(data)
        case "tool.execution_complete":
            call = whole_text_in(data.tool_call_id)
            if call is not None:
                code = data.shell_execution.exit_code
                yield Returned(
                    call,
                    data.result if len(data.result) else data.error,
                    data.success is False,
                    whole_in(code) if isinstance(code, int) else None,
                )
        case "session.info" if data.info_type == "fork":
            origin = _FORKED_FROM.match(data.message) if isinstance(data.message, str) else None
            if origin is not None:
                yield Begun(None, parent=origin[1])
        case "session.error":
            yield Ended(api_failed(data.message))
        case "abort":
            yield Ended(INTERRUPTED)
        case "session.shutdown":
            yield Left()


def _replied(data: _Data) -> Replied:
    calls = tuple(
        Call(call, whole_text_in(each.name) or "?", each.arguments)
        for each in data.tool_requests
        if (call := whole_text_in(each.tool_call_id)) is not None
    )
    close = None if data.tool_requests else COMPLETED
    return Replied((data.content,), calls, close, whole_text_in(data.model))


def _spent(usage: _Usage) -> Spent:
    # The input's count has in it what was read from the cache, and what was written to it.
    read, write = count_in(usage.cache_read_tokens), count_in(usage.cache_write_tokens)
    fresh = max(0, count_in(usage.input_tokens) - read - write)
    return Spent(fresh, read, write, count_in(usage.output_tokens), _nanousd(usage))


_CREDITS_OF_DOLLAR: Final = 100
"""GitHub sells an AI credit for a cent."""


def _nanousd(usage: _Usage) -> int | None:
    """What a reply cost, if its AI credits are all known. They are counted in billionths, too."""
    if usage.ai_credits_status != "complete":
        return None
    counted = usage.copilot_usage.total_nano_aiu
    nano_credits = number_in(counted, 0, MOST_USD * _CREDITS_OF_DOLLAR * 1e9)
    return None if nano_credits is None else round(nano_credits / _CREDITS_OF_DOLLAR)


def _session_in(path: str) -> str | None:
    name = path.rstrip("/").rpartition("/")[2]
    return name if _ID.fullmatch(name) else None


def _is_first(record: _Record) -> bool:
    return record.type == "session.start" and whole_text_in(record.data.copilot_version) is not None


DIRECTORY: Final = ConversationDirectory(
    Layout(
        name=LAYOUT,
        shown_by="an `events.jsonl` with a `session.start` that names a `copilotVersion` among its first lines",
        decoder=msgspec.json.Decoder(_Record),
        words=_words,
        at=lambda record: parse_time(record.timestamp),
        id_of=lambda record: whole_text_in(record.id),
        id_in=_session_in,
        is_first=_is_first,
    ),
    LOG,
)
