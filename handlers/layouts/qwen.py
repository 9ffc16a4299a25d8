"""Qwen Code's chats: `~/.qwen/projects/<cwd>/chats/<session>.jsonl`, one file per session, to which a resume appends.

Records are chained as Claude Code's are, but their messages have Gemini's `parts`. A reply that calls no function ends the
turn. What the model's API refused is only in the telemetry among the records; Qwen tries again, and a reply that follows
counts instead. The telemetry has the requests of sub-agents, too, and those that Qwen makes for itself: these cost the session
something, and no reply says it. A tool that was cancelled ends the turn, too. A fork begins with copies of its origin's records, and
each says so. The files name no process, and don't say who uses them.

The logs of sub-agents are `subagents/<session>/agent-*.jsonl` beside `chats`. Their replies are split: text and tokens first, then
each call. So no reply there ends the turn. `agent-*.meta.json` beside the log says how the sub-agent stands, and its model.
"""

import re
from collections.abc import Iterator
from typing import Final, TypedDict

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.conversation import (
    Asked,
    Begun,
    Call,
    ConversationLog,
    Delegated,
    Elsewhere,
    Ended,
    Layout,
    Replied,
    Returned,
    Spent,
    Stands,
    Word,
    api_failed,
    joined,
    parts_of,
)
from runward.handlers.layouts.foreign_values import LONGEST_PATH, UUID, count_in, text_in, whole_text_in
from runward.handlers.layouts.transcript import closed

LAYOUT: Final = "qwen"

_NAME: Final = re.compile(rf"({UUID})\.jsonl", re.ASCII)
_API_ERROR: Final = "qwen-code.api_error"
_API_RESPONSE: Final = "qwen-code.api_response"
_OF_PROMPT: Final = "########"
"""What the id of a request that answers a person's prompt has in it."""

_QWENS_OWN: Final = re.compile(r"-[0-9a-f]{8}\Z", re.ASCII)
"""What the id of a sub-agent ends in that Qwen starts for itself, for its memory, and that has no log. Others end in a call's id."""

_CANCELLED: Final = "cancelled"
_DELEGATES: Final = ("agent", "task")
"""The tool that starts a sub-agent; the second is its earlier name."""

_LONGEST_ERROR: Final = 200


class _Message(TypedDict, total=False):
    parts: msgspec.Raw


class _Usage(TypedDict, total=False):
    promptTokenCount: object
    candidatesTokenCount: object
    cachedContentTokenCount: object


_Event = TypedDict(
    "_Event",
    {
        "event.name": object,
        "error_message": object,
        "subagent_id": object,
        "prompt_id": object,
        "model": object,
        "input_token_count": object,
        "cached_content_token_count": object,
        "output_token_count": object,
    },
    total=False,
)


class _Payload(TypedDict, total=False):
    uiEvent: _Event


class _Result(TypedDict, total=False):
    callId: object
    status: object


class _Origin(TypedDict, total=False):
    sessionId: object


class _Record(TypedDict, total=False):
    uuid: object
    sessionId: object
    timestamp: object
    type: object
    cwd: object
    version: object
    model: object
    message: _Message
    usageMetadata: _Usage
    systemPayload: _Payload
    toolCallResult: _Result
    isSidechain: object
    agentId: object
    forkedFrom: _Origin


class _Function(TypedDict, total=False):
    id: object
    name: object
    args: msgspec.Raw
    response: msgspec.Raw


class _Part(TypedDict, total=False):
    text: object
    thought: object
    functionCall: _Function
    functionResponse: _Function


_PARTS: Final = msgspec.json.Decoder(list[_Part])


def _words(record: _Record) -> Iterator[Word]:
    session, is_subagent = whole_text_in(record.get("sessionId")), record.get("isSidechain") is True
    yield Begun(
        _subagent(session, record.get("agentId")) if is_subagent else session,
        whole_text_in(record.get("cwd"), LONGEST_PATH),
        whole_text_in(record.get("version")),
        whole_text_in(record.get("forkedFrom", {}).get("sessionId")),
        works_for=session if is_subagent else None,
    )
    if "forkedFrom" in record:
        return
    match record.get("type"):
        case "user":
            yield Asked(_text(record))
        case "assistant":
            reply = _replied(record)
            yield reply._replace(close=None) if is_subagent else reply
            yield from (Delegated() for each in reply.calls if each.tool in _DELEGATES)
        case "tool_result":
            yield from _returned(record)
        case "system":
            event = record.get("systemPayload", {}).get("uiEvent", {})
            if event.get("event.name") == _API_ERROR and event.get("subagent_id") is None:
                yield Ended(api_failed(event.get("error_message")))
            elif event.get("event.name") == _API_RESPONSE and not _has_reply(event):
                yield Elsewhere(
                    whole_text_in(event.get("model")),
                    _of_request(
                        event.get("input_token_count"),
                        event.get("cached_content_token_count"),
                        event.get("output_token_count"),
                    ),
                )


def _subagent(session: str | None, agent: object) -> str | None:
    """The id of a sub-agent's session. Its own is made of the call that started it, which another session may have, too."""
    name = whole_text_in(agent)
    return None if session is None or name is None else f"{session}-{name}"


def _stands(about: dict[str, JsonValue]) -> Stands | None:
    """How a sub-agent stands by the document beside its log. Qwen writes the status after the last record."""
    if whole_text_in(about.get("agentId")) is None:
        return None
    close = None
    match about.get("status"):
        case "completed":
            close = closed("run.completed.ok", "the sub-agent has completed its task")
        case "failed":
            error = text_in(about.get("lastError"), _LONGEST_ERROR)
            close = closed("run.failed.exception", f"the sub-agent failed{': ' + error if error else ''}")
        case "cancelled":
            close = closed("run.aborted.user", "the sub-agent was cancelled")
    at = parse_time(about.get("lastUpdatedAt"))
    return Stands(None if close is None else close._replace(at=at), at, whole_text_in(about.get("model")))


def _replied(record: _Record) -> Replied:
    parts = _parts(record)
    functions = [each["functionCall"] for each in parts or () if "functionCall" in each]
    calls = tuple(
        Call(call, whole_text_in(each.get("name")) or "?", each.get("args", msgspec.Raw()))
        for each in functions
        if (call := whole_text_in(each.get("id"))) is not None
    )
    # Parts that can't be read may contain a call.
    close = None if functions or parts is None else closed("run.completed.ok", "the turn is complete")
    return Replied(
        _text(record), calls, close, whole_text_in(record.get("model")), _spent(record.get("usageMetadata"))
    )


def _returned(record: _Record) -> Iterator[Word]:
    status = record.get("toolCallResult", {}).get("status")
    for part in _parts(record) or ():
        function = part.get("functionResponse", {})
        call = whole_text_in(function.get("id"))
        if call is not None:
            yield Returned(call, function.get("response", msgspec.Raw()), status not in (None, "success"))
    if status == _CANCELLED:
        yield Ended(closed("run.aborted.user", "a tool was cancelled"))


def _has_reply(request: _Event) -> bool:
    """Whether a reply in the chat, or in a sub-agent's own log, says the same."""
    prompt = request.get("prompt_id")
    subagent = request.get("subagent_id")
    if subagent is not None:
        return not isinstance(subagent, str) or _QWENS_OWN.search(subagent) is None
    return not isinstance(prompt, str) or _OF_PROMPT in prompt


def _spent(usage: _Usage | None) -> Spent | None:
    if not usage:
        return None
    return _of_request(
        usage.get("promptTokenCount"), usage.get("cachedContentTokenCount"), usage.get("candidatesTokenCount")
    )


def _of_request(prompt: object, cached: object, output: object) -> Spent:
    # The prompt's count has the cached part in it.
    read = count_in(cached)
    return Spent(max(0, count_in(prompt) - read), read, 0, count_in(output))


def _text(record: _Record) -> str:
    return joined(each.get("text") for each in _parts(record) or () if each.get("thought") is not True)


def _parts(record: _Record) -> list[_Part] | None:
    parts = parts_of(record.get("message", {}).get("parts", msgspec.Raw()), _PARTS)
    return parts if isinstance(parts, list) else None


def _at(record: _Record) -> float | None:
    """When it was written. A copy has the time of what it was copied from, which is none of the fork's."""
    return None if "forkedFrom" in record else parse_time(record.get("timestamp"))


def _session_in(path: str) -> str | None:
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return None if found is None else found[1]


def _is_first(record: _Record) -> bool:
    # Claude Code's records have the same chain, but no `parts`.
    return (
        whole_text_in(record.get("uuid")) is not None
        and whole_text_in(record.get("sessionId")) is not None
        and len(record.get("message", {}).get("parts", msgspec.Raw())) > 0
    )


LOG: Final = ConversationLog(
    Layout(
        name=LAYOUT,
        shown_by="a record with `uuid`, `sessionId` and a message with `parts` among its first lines",
        decoder=msgspec.json.Decoder(_Record),
        words=_words,
        at=_at,
        id_of=lambda record: whole_text_in(record.get("uuid")),
        id_in=_session_in,
        is_first=_is_first,
        told_by=_stands,
    )
)
