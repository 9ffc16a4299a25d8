"""Kimi Code's sessions: `~/.kimi-code/sessions/wd_<directory>_<hash>/session_<id>/agents/main/wire.jsonl`, to which a resume appends.

`turn.ended` says how the turn ended; nothing else ends it. A reply is several records: its tokens, then its texts and calls.
A fork begins with copies of its origin's records; then `state.json` is written, and says whose they are, and when that was.
Sub-agents have logs of their own beside `main`. The records of the kind `event` repeat others. No file names the process.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, TypedDict

import msgspec

from runward.config.json_value import LATEST, JsonValue
from runward.handlers.layouts.conversation import (
    Asked,
    Begun,
    Call,
    ConversationDirectory,
    Delegated,
    Ended,
    Layout,
    Notes,
    Replied,
    Returned,
    Spent,
    Used,
    Uses,
    Word,
    api_failed,
    joined,
    parts_of,
)
from runward.handlers.layouts.foreign_values import LONGEST_PATH, UUID, count_in, number_in, whole_text_in
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

_LATEST_MS: Final = LATEST * 1000


class _Disclosure(TypedDict, total=False):
    cwd: object


class _Origin(TypedDict, total=False):
    kind: object


class _Message(TypedDict, total=False):
    content: msgspec.Raw
    origin: _Origin


class _Usage(TypedDict, total=False):
    inputOther: object
    output: object
    inputCacheRead: object
    inputCacheCreation: object


class _Swarm(TypedDict, total=False):
    items: list[msgspec.Raw]


class _Result(TypedDict, total=False):
    output: msgspec.Raw
    isError: object


class _Part(TypedDict, total=False):
    type: object
    text: object


class _Event(TypedDict, total=False):
    type: object
    uuid: object
    parentUuid: object
    toolCallId: object
    name: object
    args: msgspec.Raw
    result: _Result
    part: _Part


class _Error(TypedDict, total=False):
    code: object
    message: object


class _Record(TypedDict, total=False):
    type: object
    kind: object
    time: object
    created_at: object
    protocol_version: object
    modelAlias: object
    environmentDisclosure: _Disclosure
    input: msgspec.Raw
    origin: _Origin
    message: _Message
    model: object
    usage: _Usage
    event: _Event
    reason: object
    error: _Error


_PARTS: Final = msgspec.json.Decoder(list[_Part])
_SWARM: Final = msgspec.json.Decoder(_Swarm)


def _words(record: _Record) -> Iterator[Word]:
    match record.get("type"):
        case "profile.bind":
            cwd = whole_text_in(record.get("environmentDisclosure", {}).get("cwd"), LONGEST_PATH)
            if cwd is not None:
                yield Begun(None, cwd)
            yield Uses(whole_text_in(record.get("modelAlias")))
        case "llm.request":
            # The alias that the other records name is only the person's own word for this model.
            yield Uses(whole_text_in(record.get("model")))
        case "turn.prompt":
            is_users = record.get("origin", {}).get("kind") == "user"
            yield Asked(_text(record.get("input", msgspec.Raw())) if is_users else "")
        case "context.append_message":
            message = record.get("message", {})
            if message.get("origin", {}).get("kind") == "injection":
                yield Notes(_text(message.get("content", msgspec.Raw())))
        case "usage.record":
            yield Used(None, _spent(record.get("usage", {})))
        case "context.append_loop_event":
            yield from _happened(record.get("event", {}))
        case "turn.ended":
            yield from _ended(record)


def _happened(event: _Event) -> Iterator[Word]:
    call = whole_text_in(event.get("toolCallId"))
    match event.get("type"):
        case "content.part":
            part = event.get("part", {})
            text = part.get("text")
            if part.get("type") == "text" and isinstance(text, str):
                yield Replied(text)
        case "tool.call" if call is not None:
            tool = whole_text_in(event.get("name")) or "?"
            args = event.get("args", msgspec.Raw())
            yield Replied("", (Call(call, tool, args),))
            for _ in range(_started_by(tool, args)):
                yield Delegated()
        case "tool.result" if call is not None:
            result = event.get("result", {})
            yield Returned(call, result.get("output", msgspec.Raw()), result.get("isError") is True)


def _started_by(tool: str, args: msgspec.Raw) -> int:
    """How many sub-agents a call starts."""
    if tool != _DELEGATES_EACH:
        return int(tool == _DELEGATES)
    try:
        return min(len(_SWARM.decode(args).get("items", ())), _MOST_ITEMS)
    except (ValueError, RecursionError):
        return 0


def _ended(record: _Record) -> Iterator[Word]:
    match record.get("reason"):
        case "completed":
            yield Ended(closed("run.completed.ok", "the turn is complete"))
        case "failed":
            error = record.get("error", {})
            code, message = error.get("code"), error.get("message")
            is_api = isinstance(code, str) and code.startswith("provider.")
            yield Ended(api_failed(message) if is_api else closed("run.failed.exception", "the turn failed"))
        case "cancelled":
            yield Ended(closed("run.aborted.user", "the turn was interrupted"))


def _spent(usage: _Usage) -> Spent:
    return Spent(
        count_in(usage.get("inputOther")),
        count_in(usage.get("inputCacheRead")),
        count_in(usage.get("inputCacheCreation")),
        count_in(usage.get("output")),
    )


def _text(raw: msgspec.Raw) -> str:
    parts: list[Any] | str = parts_of(raw, _PARTS) or []
    if isinstance(parts, str):
        return parts
    return joined(each.get("text") for each in parts if each.get("type") == "text")


def _at(record: _Record) -> float | None:
    """Unix seconds; a repeating record is older than what it repeats."""
    if record.get("kind") == "event":
        return None
    at = _seconds(record.get("time"))
    return _seconds(record.get("created_at")) if at is None else at


def _seconds(value: object) -> float | None:
    if type(value) not in (int, float):
        return None
    at = number_in(value, 0, _LATEST_MS)  # type: ignore[arg-type]
    return None if at is None else at / 1000


def _origin(state: dict[str, JsonValue]) -> Begun | None:
    """Which session this one was forked from, and when."""
    parent = whole_text_in(state.get("forkedFrom"))
    if parent is None:
        return None
    cwd = whole_text_in(state.get("cwd"), LONGEST_PATH)
    return Begun(None, cwd, parent=parent, copied_until=_seconds(state.get("createdAt")))


def _id_of(record: _Record) -> str | None:
    """What no other record has: most have no id, so the time is part of it."""
    if record.get("kind") == "event":
        return None
    event = record.get("event", {})
    one = event.get("uuid") or event.get("parentUuid") or ""
    return f"{event.get('type') or record.get('type')}{record.get('time')}{one}"


def _session_in(path: str) -> str | None:
    name = path.rstrip("/").rpartition("/")[2]
    return name if _NAME.fullmatch(name) else None


def _is_first(record: _Record) -> bool:
    return (
        record.get("type") == "metadata"
        and whole_text_in(record.get("protocol_version")) is not None
        and type(record.get("created_at")) is int
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
    ),
    LOG,
    (STATE,),
)
