"""GitHub Copilot CLI's sessions: `~/.copilot/session-state/<id>/events.jsonl`, to which a resume appends.

`assistant.turn_start` and `turn_end` enclose one call of the model. The turn is over after a reply that requests no tool, by an
error, or by an abort. `session.shutdown` says that the program ends, and nothing about how the turn ended. Records with an `agentId`
are a sub-agent's, whose replies cost the session something. A `cost` is a multiplier of requests, but AI credits are money. In a fork, `session.start` is new, then come copies, which are older, and then a `session.info` that names the origin.
While the program lives, it holds the lock of `inuse.<pid>.hold` beside the log.
"""

import re
from collections.abc import Iterator
from typing import Final, TypedDict, cast

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.conversation import (
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
from runward.handlers.layouts.transcript import closed

LAYOUT: Final = "copilot"
LOG: Final = "events.jsonl"
HELD: Final = re.compile(r"inuse\.([1-9][0-9]{0,9})\.hold", re.ASCII)
"""The file whose lock the process with this number holds."""

_FORKED_FROM: Final = re.compile(rf'Forked from (?:"[^"]*" \()?({UUID})', re.ASCII)
"""How a fork names its origin. The name before the id has no quotes in it."""

_ID: Final = re.compile(UUID, re.ASCII)


class _Context(TypedDict, total=False):
    cwd: object


class _Credits(TypedDict, total=False):
    totalNanoAiu: object


class _Usage(TypedDict, total=False):
    model: object
    inputTokens: object
    outputTokens: object
    cacheReadTokens: object
    cacheWriteTokens: object
    aiCreditsStatus: object
    copilotUsage: _Credits


class _Request(TypedDict, total=False):
    toolCallId: object
    name: object
    arguments: msgspec.Raw


class _Shell(TypedDict, total=False):
    exitCode: object


class _Data(TypedDict, total=False):
    sessionId: object
    copilotVersion: object
    selectedModel: object
    context: _Context
    content: object
    model: object
    toolRequests: list[_Request]
    usage: _Usage
    toolCallId: object
    success: object
    result: msgspec.Raw
    error: msgspec.Raw
    shellExecution: _Shell
    message: object
    infoType: object


class _Record(TypedDict, total=False):
    type: object
    id: object
    timestamp: object
    agentId: object
    data: _Data


def _words(record: _Record) -> Iterator[Word]:
    data, kind = record.get("data", {}), record.get("type")
    if kind == "subagent.started":
        yield Delegated()
    if record.get("agentId") is not None:
        if kind == "session.usage_record":
            usage = data.get("usage", {})
            yield Elsewhere(whole_text_in(usage.get("model")), _spent(usage))
        return  # what else a sub-agent does is not the session's own
    match kind:
        case "session.start" | "session.resume":
            cwd = whole_text_in(data.get("context", {}).get("cwd"), LONGEST_PATH)
            version = whole_text_in(data.get("copilotVersion"))
            began_at = parse_time(record.get("timestamp"))
            yield Begun(whole_text_in(data.get("sessionId")), cwd, version, copied_until=began_at)
            yield Uses(whole_text_in(data.get("selectedModel")))
        case "user.message":
            yield Asked(_text(data))
        case "system.message":
            yield Notes(_text(data))
        case "session.usage_record":
            usage = data.get("usage", {})
            yield Used(whole_text_in(usage.get("model")), _spent(usage))
        case "assistant.message":
            yield _replied(data)
        case "tool.execution_complete":
            call = whole_text_in(data.get("toolCallId"))
            if call is not None:
                failed = data.get("success") is False
                content = data.get("result") or data.get("error") or msgspec.Raw()
                code = data.get("shellExecution", {}).get("exitCode")
                yield Returned(call, content, failed, whole_in(code) if isinstance(code, int) else None)
        case "session.info" if data.get("infoType") == "fork":
            message = data.get("message")
            origin = _FORKED_FROM.match(message) if isinstance(message, str) else None
            if origin is not None:
                yield Begun(None, parent=origin[1])
        case "session.error":
            yield Ended(api_failed(data.get("message")))
        case "abort":
            yield Ended(closed("run.aborted.user", "the turn was interrupted"))
        case "session.shutdown":
            yield Left()


def _replied(data: _Data) -> Replied:
    requests = data.get("toolRequests", [])
    calls = tuple(
        Call(call, whole_text_in(each.get("name")) or "?", each.get("arguments", msgspec.Raw()))
        for each in requests
        if (call := whole_text_in(each.get("toolCallId"))) is not None
    )
    close = None if requests else closed("run.completed.ok", "the turn is complete")
    return Replied(_text(data), calls, close, whole_text_in(data.get("model")))


def _spent(usage: _Usage) -> Spent:
    # The input's count has in it what was read from the cache, and what was written to it.
    read, write = count_in(usage.get("cacheReadTokens")), count_in(usage.get("cacheWriteTokens"))
    fresh = max(0, count_in(usage.get("inputTokens")) - read - write)
    return Spent(fresh, read, write, count_in(usage.get("outputTokens")), _nanousd(usage))


_CREDITS_OF_DOLLAR: Final = 100
"""GitHub sells an AI credit for a cent."""


def _nanousd(usage: _Usage) -> int | None:
    """What a reply cost, if its AI credits are all known. They are counted in billionths, too."""
    if usage.get("aiCreditsStatus") != "complete":
        return None
    counted = usage.get("copilotUsage", {}).get("totalNanoAiu")
    nano_credits = number_in(cast("JsonValue", counted), 0, MOST_USD * _CREDITS_OF_DOLLAR * 1e9)
    return None if nano_credits is None else round(nano_credits / _CREDITS_OF_DOLLAR)


def _text(data: _Data) -> str:
    content = data.get("content")
    return content if isinstance(content, str) else ""


def _session_in(path: str) -> str | None:
    name = path.rstrip("/").rpartition("/")[2]
    return name if _ID.fullmatch(name) else None


def _is_first(record: _Record) -> bool:
    return (
        record.get("type") == "session.start"
        and whole_text_in(record.get("data", {}).get("copilotVersion")) is not None
    )


DIRECTORY: Final = ConversationDirectory(
    Layout(
        name=LAYOUT,
        shown_by="an `events.jsonl` with a `session.start` that names a `copilotVersion` among its first lines",
        decoder=msgspec.json.Decoder(_Record),
        words=_words,
        at=lambda record: parse_time(record.get("timestamp")),
        id_of=lambda record: whole_text_in(record.get("id")),
        id_in=_session_in,
        is_first=_is_first,
    ),
    LOG,
)
