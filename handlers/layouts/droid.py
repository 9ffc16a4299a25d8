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
from typing import Any, Final, TypedDict

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.conversation import (
    Asked,
    Begun,
    Call,
    ConversationLog,
    Delegated,
    Ended,
    Layout,
    Notes,
    Replied,
    Returned,
    Spent,
    Used,
    Word,
    api_failed,
    joined,
    parts_of,
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


class _Message(TypedDict, total=False):
    role: object
    content: msgspec.Raw
    visibility: object
    hookEventName: object
    modelId: object


class _Record(TypedDict, total=False):
    type: object
    id: object
    timestamp: object
    title: object
    owner: object
    cwd: object
    parent: object
    forkedAtMessageId: object
    callingSessionId: object
    message: _Message
    turnId: object
    reason: object


class _Part(TypedDict, total=False):
    type: object
    text: object
    id: object
    name: object
    input: msgspec.Raw
    tool_use_id: object
    is_error: object
    content: msgspec.Raw


_PARTS: Final = msgspec.json.Decoder(list[_Part])


def _words(record: _Record) -> Iterator[Word]:
    kind = record.get("type")
    if kind == "session_start":
        session, origin = whole_text_in(record.get("id")), whole_text_in(record.get("callingSessionId"))
        yield Begun(
            session,
            whole_text_in(record.get("cwd"), LONGEST_PATH),
            parent=whole_text_in(record.get("parent")),
            works_for=None if origin == session else origin,
            copied_until=whole_text_in(record.get("forkedAtMessageId")),
        )
    elif kind == "message" and (message := record.get("message")):
        match message.get("role"):
            case "user":
                yield from _user(record, message)
            case "assistant":
                yield from _replied(message)
    elif kind == _OUTCOME and (close := _close(record.get("reason"))) is not None:
        yield Ended(close, whole_text_in(record.get("turnId")))


def _user(record: _Record, message: _Message) -> Iterator[Word]:
    parts = _parts(message)
    results = [each for each in _listed(parts) if each.get("type") == "tool_result"]
    for each in results:
        call = whole_text_in(each.get("tool_use_id"))
        if call is not None:
            yield Returned(call, each.get("content", msgspec.Raw()), each.get("is_error") is True)
    if results or message.get("hookEventName") is not None:
        return
    name = record.get("id")
    is_reminder = isinstance(name, str) and name.startswith(_REMINDER)
    is_note = is_reminder or message.get("visibility") in ("user_only", "llm_only")
    yield Notes(_text(parts)) if is_note else Asked(_text(parts), whole_text_in(name))


def _replied(message: _Message) -> Iterator[Word]:
    parts = _parts(message)
    calls = tuple(
        Call(call, whole_text_in(each.get("name")) or "?", each.get("input", msgspec.Raw()))
        for each in _listed(parts)
        if each.get("type") == "tool_use" and (call := whole_text_in(each.get("id"))) is not None
    )
    yield Replied(_text(parts), calls, model=whole_text_in(message.get("modelId")))
    yield from (Delegated() for each in calls if each.tool == _TASK)


def _close(reason: object) -> Close | None:
    """How the turn ended; None if the record doesn't say so."""
    if not isinstance(reason, str) or not reason:
        return None
    # A turn that hands its plan over to another session has done its work.
    if reason in ("completed", "spec_handoff"):
        return closed("run.completed.ok", "the turn is complete")
    if reason == "cancelled":
        return closed("run.aborted.user", "the turn was interrupted")
    if reason.startswith("model_"):
        return api_failed(reason)
    return closed("run.failed.exception", f"the turn failed: {reason[:_LONGEST_REASON]}")


def _totals(settings: dict[str, JsonValue]) -> Used | None:
    usage = settings.get("tokenUsage")
    if not isinstance(usage, dict):
        return None
    kinds = ("inputTokens", "cacheReadTokens", "cacheCreationTokens", "outputTokens")
    return Used(whole_text_in(settings.get("model")), Spent(*(count_in(usage.get(kind)) for kind in kinds)))


def _text(parts: list[Any] | str) -> str:
    if isinstance(parts, str):
        return parts
    return joined(each.get("text") for each in parts if each.get("type") == "text")


def _listed(parts: list[Any] | str) -> list[Any]:
    return [] if isinstance(parts, str) else parts


def _parts(message: _Message) -> list[Any] | str:
    return parts_of(message.get("content", msgspec.Raw()), _PARTS) or []


def _id_of(record: _Record) -> str | None:
    """An outcome has no id. Its turn has that of the prompt."""
    if record.get("type") != _OUTCOME:
        return whole_text_in(record.get("id"))
    turn = whole_text_in(record.get("turnId"))
    return None if turn is None else f"end of {turn}"


def _session_in(path: str) -> str | None:
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return None if found is None else found[1]


def _is_first(record: _Record) -> bool:
    return (
        record.get("type") == "session_start"
        and whole_text_in(record.get("id")) is not None
        and isinstance(record.get("title"), str)
        and isinstance(record.get("owner"), str)
    )


LOG: Final = ConversationLog(
    Layout(
        name=LAYOUT,
        shown_by="a `session_start` record with `id`, `title` and `owner` among its first lines",
        decoder=msgspec.json.Decoder(_Record),
        words=_words,
        at=lambda record: parse_time(record.get("timestamp")),
        id_of=_id_of,
        id_in=_session_in,
        is_first=_is_first,
        told_by=_totals,
    )
)
