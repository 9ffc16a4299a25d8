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
from typing import Final

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.conversation import (
    COMPLETED,
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
    Text,
    Word,
    api_failed,
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


class _Function(msgspec.Struct, frozen=True, gc=False):
    id: object = None
    name: object = None
    args: msgspec.Raw = msgspec.Raw()
    response: msgspec.Raw = msgspec.Raw()


class _Part(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    text: msgspec.Raw = msgspec.Raw()
    thought: object = None
    function_call: _Function | msgspec.UnsetType = msgspec.UNSET
    function_response: _Function | msgspec.UnsetType = msgspec.UNSET


class _Message(msgspec.Struct, frozen=True, gc=False):
    parts: list[_Part] | None = None


class _Usage(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    prompt_token_count: object = None
    candidates_token_count: object = None
    cached_content_token_count: object = None


class _Event(msgspec.Struct, frozen=True, gc=False):
    name: object = msgspec.field(default=None, name="event.name")
    error_message: object = None
    subagent_id: object = None
    prompt_id: object = None
    model: object = None
    input_token_count: object = None
    cached_content_token_count: object = None
    output_token_count: object = None


class _Payload(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    ui_event: _Event | None = None


class _Result(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    call_id: object = None
    status: object = None


class _Origin(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    session_id: object = None


class _Record(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    uuid: object = None
    session_id: object = None
    timestamp: object = None
    type: object = None
    cwd: object = None
    version: object = None
    model: object = None
    message: _Message = _Message()
    usage_metadata: _Usage | None = None
    system_payload: _Payload = _Payload()
    tool_call_result: _Result = _Result()
    is_sidechain: object = None
    agent_id: object = None
    forked_from: _Origin | None = None


def _words(record: _Record) -> Iterator[Word]:
    session, is_subagent = whole_text_in(record.session_id), record.is_sidechain is True
    origin = record.forked_from
    yield Begun(
        _subagent(session, record.agent_id) if is_subagent else session,
        whole_text_in(record.cwd, LONGEST_PATH),
        whole_text_in(record.version),
        None if origin is None else whole_text_in(origin.session_id),
        works_for=session if is_subagent else None,
    )
    if origin is not None:
        return
    match record.type:
        case "user":
            yield Asked(_text(record))
        case "assistant":
            reply = _replied(record)
            yield reply._replace(close=None) if is_subagent else reply
            for each in reply.calls:
                if each.tool in _DELEGATES:
                    yield Delegated()
        case "tool_result":
            yield from _returned(record)
        case "system" if (event := record.system_payload.ui_event) is not None:
            if event.name == _API_ERROR and event.subagent_id is None:
                yield Ended(api_failed(event.error_message))
            elif event.name == _API_RESPONSE and not _has_reply(event):
                yield Elsewhere(
                    whole_text_in(event.model),
                    _of_request(
                        event.input_token_count, event.cached_content_token_count, event.output_token_count
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
    parts = record.message.parts
    functions = [each.function_call for each in parts or () if each.function_call]
    calls = tuple(
        Call(call, whole_text_in(each.name) or "?", each.args)
        for each in functions
        if (call := whole_text_in(each.id)) is not None
    )
    # Parts that can't be read may contain a call.
    close = None if functions or parts is None else COMPLETED
    return Replied(_text(record), calls, close, whole_text_in(record.model), _spent(record.usage_metadata))


def _returned(record: _Record) -> Iterator[Word]:
    status = record.tool_call_result.status
    for part in record.message.parts or ():
        function = part.function_response
        call = whole_text_in(function.id) if function else None
        if function and call is not None:
            yield Returned(call, function.response, status not in (None, "success"))
    if status == _CANCELLED:
        yield Ended(closed("run.aborted.user", "a tool was cancelled"))


def _has_reply(request: _Event) -> bool:
    """Whether a reply in the chat, or in a sub-agent's own log, says the same."""
    prompt = request.prompt_id
    subagent = request.subagent_id
    if subagent is not None:
        return not isinstance(subagent, str) or _QWENS_OWN.search(subagent) is None
    return not isinstance(prompt, str) or _OF_PROMPT in prompt


def _spent(usage: _Usage | None) -> Spent | None:
    if usage is None:
        return None
    return _of_request(
        usage.prompt_token_count, usage.cached_content_token_count, usage.candidates_token_count
    )


def _of_request(prompt: object, cached: object, output: object) -> Spent:
    # The prompt's count has the cached part in it.
    read = count_in(cached)
    return Spent(max(0, count_in(prompt) - read), read, 0, count_in(output))


def _text(record: _Record) -> Text:
    return [each.text for each in record.message.parts or () if each.thought is not True]


def _at(record: _Record) -> float | None:
    """When it was written. A copy has the time of what it was copied from, which is none of the fork's."""
    return None if record.forked_from is not None else parse_time(record.timestamp)


def _session_in(path: str) -> str | None:
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return None if found is None else found[1]


def _is_first(record: _Record) -> bool:
    # Claude Code's records have the same chain, but no `parts`.
    return (
        whole_text_in(record.uuid) is not None
        and whole_text_in(record.session_id) is not None
        and record.message.parts is not None
    )


LOG: Final = ConversationLog(
    Layout(
        name=LAYOUT,
        shown_by="a record with `uuid`, `sessionId` and a message with `parts` among its first lines",
        decoder=msgspec.json.Decoder(_Record),
        words=_words,
        at=_at,
        id_of=lambda record: whole_text_in(record.uuid),
        id_in=_session_in,
        is_first=_is_first,
        told_by=_stands,
        content=("message", "parts"),
    )
)
