"""Factory's Droid: `~/.factory/sessions/<cwd>/<session>.jsonl`, one file per session, to which a resume appends.

An `agent_turn_outcome` ends each turn and says how; the replies don't. It names the turn's prompt, so it doesn't end the turn
of a prompt that was queued before it. Its record has no time, and neither has the first one. SIGKILL, and a signal in a
request, leave no outcome. Messages of the role `user` are also the results of tools, of hooks, and what Droid itself says, to
the model or to the person. A fork begins with copies of its origin's records, and names the last message among them.
`<session>.settings.json` beside the log has the session's tokens until now, without those of its sub-agents. A sub-agent has files
of its own, and names the session that called it. The files name no process, and don't say who uses them.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.conversation import (
    COMPLETED,
    INTERRUPTED,
    Asked,
    Begun,
    Call,
    ConversationLog,
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
    Word,
    api_failed,
    listed,
    texts_of,
)
from runward.handlers.layouts.foreign_values import LONGEST_PATH, UUID, count_in, whole_text_in
from runward.handlers.layouts.transcript import Close, closed

LAYOUT: Final = "droid"

_NAME: Final = re.compile(rf"({UUID})\.jsonl", re.ASCII)
_OUTCOME: Final = "agent_turn_outcome"
_REMINDER: Final = "context-"
"""What the ids of reminders begin with: Droid writes one before a prompt."""

_TASK: Final = "Task"
"""The tool that starts a sub-agent."""

_LONGEST_REASON: Final = 100


class _Part(TextPart, frozen=True, gc=False):
    id: object = None
    name: object = None
    input: msgspec.Raw = msgspec.Raw()
    tool_use_id: object = None
    is_error: object = None
    content: msgspec.Raw = msgspec.Raw()


class _Message(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    role: object = None
    content: Parts[_Part] = None
    visibility: object = None
    hook_event_name: object = None
    model_id: object = None


class _Record(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: object = None
    id: object = None
    timestamp: object = None
    title: object = None
    owner: object = None
    cwd: object = None
    parent: object = None
    forked_at_message_id: object = None
    calling_session_id: object = None
    message: _Message = _Message()
    turn_id: object = None
    reason: object = None


def _words(record: _Record) -> Iterator[Word]:
    kind, message = record.type, record.message
    if kind == "session_start":
        session, origin = whole_text_in(record.id), whole_text_in(record.calling_session_id)
        yield Begun(
            session,
            whole_text_in(record.cwd, LONGEST_PATH),
            parent=whole_text_in(record.parent),
            works_for=None if origin == session else origin,
            copied_until=whole_text_in(record.forked_at_message_id),
        )
    elif kind == "message":
        if message.role == "user":
            yield from _user(record, message)
        elif message.role == "assistant":
            yield from _replied(message)
    elif kind == _OUTCOME and (close := _close(record.reason)) is not None:
        yield Ended(close, whole_text_in(record.turn_id))


def _user(record: _Record, message: _Message) -> Iterator[Word]:
    results = [each for each in listed(message.content) if each.type == "tool_result"]
    for each in results:
        call = whole_text_in(each.tool_use_id)
        if call is not None:
            yield Returned(call, each.content, each.is_error is True)
    if results or message.hook_event_name is not None:
        return
    name, text = record.id, texts_of(message.content)
    is_reminder = isinstance(name, str) and name.startswith(_REMINDER)
    is_note = is_reminder or message.visibility in ("user_only", "llm_only")
    yield Notes(text) if is_note else Asked(text, whole_text_in(name))


def _replied(message: _Message) -> Iterator[Word]:
    calls = tuple(
        Call(call, whole_text_in(each.name) or "?", each.input)
        for each in listed(message.content)
        if each.type == "tool_use" and (call := whole_text_in(each.id)) is not None
    )
    yield Replied(texts_of(message.content), calls, model=whole_text_in(message.model_id))
    for each in calls:
        if each.tool == _TASK:
            yield Delegated()


def _close(reason: object) -> Close | None:
    """How the turn ended; None if the record doesn't say so."""
    if not isinstance(reason, str) or not reason:
        return None
    # A turn that hands its plan over to another session has done its work.
    if reason in ("completed", "spec_handoff"):
        return COMPLETED
    if reason == "cancelled":
        return INTERRUPTED
    if reason.startswith("model_"):
        return api_failed(reason)
    return closed("run.failed.exception", f"the turn failed: {reason[:_LONGEST_REASON]}")


def _totals(settings: dict[str, JsonValue]) -> Used | None:
    usage = settings.get("tokenUsage")
    if not isinstance(usage, dict):
        return None
    kinds = ("inputTokens", "cacheReadTokens", "cacheCreationTokens", "outputTokens")
    return Used(whole_text_in(settings.get("model")), Spent(*(count_in(usage.get(kind)) for kind in kinds)))


def _id_of(record: _Record) -> str | None:
    """An outcome has no id. Its turn has that of the prompt."""
    if record.type != _OUTCOME:
        return whole_text_in(record.id)
    turn = whole_text_in(record.turn_id)
    return None if turn is None else f"end of {turn}"


def _session_in(path: str) -> str | None:
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return None if found is None else found[1]


def _is_first(record: _Record) -> bool:
    return (
        record.type == "session_start"
        and whole_text_in(record.id) is not None
        and isinstance(record.title, str)
        and isinstance(record.owner, str)
    )


LOG: Final = ConversationLog(
    Layout(
        name=LAYOUT,
        shown_by="a `session_start` record with `id`, `title` and `owner` among its first lines",
        decoder=msgspec.json.Decoder(_Record),
        words=_words,
        at=lambda record: parse_time(record.timestamp),
        id_of=_id_of,
        id_in=_session_in,
        is_first=_is_first,
        told_by=_totals,
        content=("message", "content"),
    )
)
