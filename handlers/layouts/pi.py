"""Pi's sessions: `~/.pi/agent/sessions/--<cwd>--/<time>_<id>.jsonl`, one file per session, to which a resume appends.

The last reply decides: `stop` ends the turn, `toolUse` goes on. Pi tries again after an error, and each try is a reply
of its own. An interrupt (SIGTERM) leaves `aborted`; SIGINT without a terminal and SIGKILL leave no end. The files name no
process, and don't say who uses them.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, TypedDict

import msgspec

from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.conversation import (
    Asked,
    Begun,
    Call,
    ConversationLog,
    Layout,
    Notes,
    Replied,
    Returned,
    Spent,
    Uses,
    Word,
    api_failed,
    joined,
    nanousd,
    parts_of,
)
from runward.handlers.layouts.foreign_values import LONGEST_PATH, UUID, count_in, whole_text_in
from runward.handlers.layouts.transcript import Close, closed

LAYOUT: Final = "pi"

_NAME: Final = re.compile(rf"[^/_]+_({UUID})\.jsonl", re.ASCII)


class _Cost(TypedDict, total=False):
    total: object


class _Usage(TypedDict, total=False):
    input: object
    output: object
    cacheRead: object
    cacheWrite: object
    cost: _Cost


class _Message(TypedDict, total=False):
    role: object
    content: msgspec.Raw
    model: object
    usage: _Usage
    stopReason: object
    errorMessage: object
    toolCallId: object
    isError: object


class _Record(TypedDict, total=False):
    type: object
    id: object
    timestamp: object
    version: object
    cwd: object
    parentSession: object
    branchedFrom: object
    modelId: object
    message: _Message


class _Part(TypedDict, total=False):
    type: object
    text: object
    id: object
    name: object
    arguments: msgspec.Raw


_PARTS: Final = msgspec.json.Decoder(list[_Part])


def _words(record: _Record) -> Iterator[Word]:
    kind = record.get("type")
    if kind == "session":
        parent = _session_in(record.get("parentSession") or record.get("branchedFrom"))
        yield Begun(
            whole_text_in(record.get("id")),
            whole_text_in(record.get("cwd"), LONGEST_PATH),
            parent=parent,
            copied_until=None if parent is None else parse_time(record.get("timestamp")),
        )
    elif kind == "model_change":
        yield Uses(whole_text_in(record.get("modelId")))
    elif kind == "message" and (message := record.get("message")):
        match message.get("role"):
            case "user":
                yield Asked(_text(message))
            case "assistant":
                yield _replied(message)
            case "toolResult":
                call = whole_text_in(message.get("toolCallId"))
                if call is not None:
                    yield Returned(
                        call, message.get("content", msgspec.Raw()), message.get("isError") is True
                    )
            case "system":
                yield Notes(_text(message))


def _replied(message: _Message) -> Replied:
    parts = [each for each in _parts(message) if isinstance(each, dict)]
    calls = tuple(
        Call(call, whole_text_in(each.get("name")) or "?", each.get("arguments", msgspec.Raw()))
        for each in parts
        if each.get("type") == "toolCall" and (call := whole_text_in(each.get("id"))) is not None
    )
    texts = joined(each.get("text") for each in parts if each.get("type") == "text")
    return Replied(
        texts, calls, _close(message), whole_text_in(message.get("model")), _spent(message.get("usage"))
    )


def _close(message: _Message) -> Close | None:
    """How the turn ended with this reply; None if it goes on."""
    match message.get("stopReason"):
        case "stop":
            return closed("run.completed.ok", "the turn is complete")
        case "error":
            return api_failed(message.get("errorMessage"))
        case "aborted":
            return closed("run.aborted.user", "the turn was interrupted")
        case "length":
            return closed("run.failed.limit_reached", "the reply reached the model's limit")
    return None


def _spent(usage: _Usage | None) -> Spent | None:
    if not usage:
        return None
    return Spent(
        count_in(usage.get("input")),
        count_in(usage.get("cacheRead")),
        count_in(usage.get("cacheWrite")),
        count_in(usage.get("output")),
        nanousd(usage.get("cost", {}).get("total")),
    )


def _text(message: _Message) -> str:
    parts = _parts(message)
    if isinstance(parts, str):
        return parts
    return joined(each.get("text") for each in parts if each.get("type") == "text")


def _parts(message: _Message) -> list[Any] | str:
    return parts_of(message.get("content", msgspec.Raw()), _PARTS) or []


def _session_in(path: object) -> str | None:
    """The id of the session whose file this is."""
    found = _NAME.fullmatch(path.rpartition("/")[2]) if isinstance(path, str) else None
    return None if found is None else found[1]


def _is_first(record: _Record) -> bool:
    return (
        record.get("type") == "session"
        and type(record.get("version")) is int
        and whole_text_in(record.get("cwd"), LONGEST_PATH) is not None
    )


LOG: Final = ConversationLog(
    Layout(
        name=LAYOUT,
        shown_by="a `session` record with a `version` and a `cwd` among its first lines",
        decoder=msgspec.json.Decoder(_Record),
        words=_words,
        at=lambda record: parse_time(record.get("timestamp")),
        id_of=lambda record: whole_text_in(record.get("id")),
        id_in=_session_in,
        is_first=_is_first,
    )
)
