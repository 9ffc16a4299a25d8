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
    joined,
    nanousd,
    number,
    parts_of,
    short,
)
from runward.handlers.layouts.transcript import Close, closed

LAYOUT: Final = "pi"

_NAME: Final = re.compile(r"[^/_]+_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl", re.ASCII)
_LONGEST_SUMMARY: Final = 200


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
        yield Begun(
            short(record.get("id")),
            short(record.get("cwd")),
            parent=_session_in(record.get("parentSession") or record.get("branchedFrom")),
        )
    elif kind == "model_change":
        yield Uses(short(record.get("modelId")))
    elif kind == "message" and (message := record.get("message")):
        match message.get("role"):
            case "user":
                yield Asked(_text(message))
            case "assistant":
                yield _replied(message)
            case "toolResult":
                call = short(message.get("toolCallId"))
                if call is not None:
                    yield Returned(
                        call, message.get("content", msgspec.Raw()), message.get("isError") is True
                    )
            case "system":
                yield Notes(_text(message))


def _replied(message: _Message) -> Replied:
    parts = [each for each in _parts(message) if isinstance(each, dict)]
    calls = tuple(
        Call(call, short(each.get("name")) or "?", each.get("arguments", msgspec.Raw()))
        for each in parts
        if each.get("type") == "toolCall" and (call := short(each.get("id"))) is not None
    )
    texts = joined(each.get("text") for each in parts if each.get("type") == "text")
    return Replied(texts, calls, _close(message), short(message.get("model")), _spent(message.get("usage")))


def _close(message: _Message) -> Close | None:
    """How the turn ended with this reply; None if it goes on."""
    match message.get("stopReason"):
        case "stop":
            return closed("run.completed.ok", "the turn is complete")
        case "error":
            why = message.get("errorMessage")
            said = f": {why[:_LONGEST_SUMMARY]}" if isinstance(why, str) and why else ""
            return closed("run.failed.api_error", f"the model's API failed{said}")
        case "aborted":
            return closed("run.aborted.user", "the turn was interrupted")
        case "length":
            return closed("run.failed.limit_reached", "the reply reached the model's limit")
    return None


def _spent(usage: _Usage | None) -> Spent | None:
    if not usage:
        return None
    return Spent(
        number(usage.get("input")),
        number(usage.get("cacheRead")),
        number(usage.get("cacheWrite")),
        number(usage.get("output")),
        nanousd(usage.get("cost", {}).get("total")),
    )


def _text(message: _Message) -> str:
    parts = _parts(message)
    if isinstance(parts, str):
        return parts
    return joined(each.get("text") for each in parts if each.get("type") == "text")


def _parts(message: _Message) -> list[Any] | str:
    return parts_of(message.get("content", msgspec.Raw()), _PARTS)


def _session_in(path: object) -> str | None:
    """The id of the session whose file this is."""
    found = _NAME.fullmatch(path.rpartition("/")[2]) if isinstance(path, str) else None
    return None if found is None else found[1]


def _at(record: _Record) -> float | None:
    stamp = record.get("timestamp")
    return parse_time(stamp) if isinstance(stamp, str) else None


def _is_first(record: _Record) -> bool:
    return (
        record.get("type") == "session"
        and type(record.get("version")) is int
        and short(record.get("cwd")) is not None
    )


LOG: Final = ConversationLog(
    Layout(
        name=LAYOUT,
        decoder=msgspec.json.Decoder(_Record),
        words=_words,
        at=_at,
        id_of=lambda record: short(record.get("id")),
        id_in=_session_in,
        is_first=_is_first,
    )
)
