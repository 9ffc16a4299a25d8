"""What a Codex rollout contains: its calls, its texts, and its last message.

Calls are call items and the outputs that come back for them. What a fork copied from its origin does not belong to the
thread; `codex.py` tells where that ends. Params are the parsed arguments. Codex reports a reply's tokens after its
calls (up to 0.63 before them), so they come with the first call's output, or with that call.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypedDict, cast

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called, Place, Returned, Told, Unusable
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.call_readers import CallLayout, CallReader, PlacedLine, Plans
from runward.handlers.layouts.codex import Rollout, apart
from runward.handlers.layouts.codex_records import thread_of
from runward.handlers.layouts.codex_turns import Tokens
from runward.handlers.layouts.foreign_values import Value, object_in, text_value, value_in, whole_text_in
from runward.handlers.layouts.transcript import LogLine, Said
from runward.handlers.layouts.transcript_lines import Unreadable, decode, records
from runward.handlers.model.sessions import Document

_HEADER: Final = 200
"""Characters at an output's beginning, or its end, in which Codex says how the command ended."""

_AT_THE_BEGINNING: Final = re.compile(r"Exit code: (-?\d{1,10})(?:\n|$)")
_IN_THE_HEADER: Final = re.compile(r"(?:^|\n)Process exited with code (-?\d{1,10})(?:\n|$)")
_IN_JSON: Final = re.compile(r'"exit_code":\s*(-?\d{1,10})[^"]*(?:"duration_seconds":[^"]*)?$')


def exit_code_in(output: JsonValue) -> int | None:
    """The exit code that an output names, or None."""
    if not isinstance(output, str):
        return None
    if output.startswith("{"):
        match = _IN_JSON.search(output[-_HEADER:])
    else:
        match = _AT_THE_BEGINNING.match(output) or _IN_THE_HEADER.search(output, 0, _HEADER + 40)
    return None if match is None else int(match[1])


PLAN_TOOL: Final = "update_plan"

_HEAD: Final = re.compile(
    rb'\{"timestamp":"[^"]{1,40}",(?:"ordinal":\d{1,18},)?"type":"(\w+)",(?:"payload":\{"type":"(\w+)")?'
)
"""How Codex begins a record, so that a record without information about calls needn't be parsed."""

_CALLS: Final = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "local_shell_call",
        "tool_search_call",
        "web_search_call",
        "image_generation_call",
    }
)
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
_BETWEEN_REPLIES: Final = frozenset({"task_started", "turn_started", "user_message", "turn_context"})
_TOTAL: Final = "token_count"
_REPLY: Final = "token_usage_record"
_ITEM: Final = "item_completed"
_TELLING: Final = frozenset({*_CALLS, *_OUTPUTS, *_BETWEEN_REPLIES, _TOTAL, _REPLY, _ITEM})
_MARKS: Final = (b'_call"', b'_output"')
_IDS_KEPT: Final = 64


class _Fields(TypedDict, total=False):
    type: object
    id: object
    call_id: object
    name: object
    status: object
    revised_prompt: object
    thread_id: object
    response_id: object
    info: object
    usage: object
    item: object
    arguments: msgspec.Raw
    input: msgspec.Raw
    action: msgspec.Raw
    output: msgspec.Raw


class _Line(_Fields, total=False):
    timestamp: object
    ordinal: object
    payload: _Fields


_DECODER: Final = msgspec.json.Decoder(_Line)


@dataclass(slots=True)
class State:
    """What is known so far.

    `first` is the call that will get a reply's tokens, "" if its first call already has them. `held` are
    tokens that were reported before any call, `told` those that go with a call's output. `failed` are failed calls.
    """

    ordinal: int | None = None
    first: str | None = None
    returned: bool = False
    held: int | None = None
    told: dict[str, int] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    thread: str | None = None


class CodexCalls:
    """Reads one rollout. `beginning` is the rollout up to here, until something of the thread's own began."""

    def __init__(self, beginning: Rollout) -> None:
        self._state = State(thread=beginning.thread)
        self._plans = Plans()
        self._tokens = Tokens()
        self._beginning: Rollout | None = beginning

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[Told]:
        """What further lines say. Lines whose beginning shows that they say nothing aren't parsed."""
        match = _HEAD.match
        for line in lines:
            if self._beginning is None:
                head = match(line.content)
                # Most of a rollout's bytes are in lines that say nothing about calls. Their beginning shows that, and
                # they aren't parsed.
                if head is not None and (head[2] or head[1]).decode() not in _TELLING:
                    continue
            yield from self._line(source, line)

    def see(self, document: Document) -> Iterator[Told]:
        """There are none."""
        return iter(())

    def _line(self, source: str, line: PlacedLine) -> Iterator[Told]:
        place, content = line.place(source), line.content
        try:
            record = _DECODER.decode(content)
        except (ValueError, RecursionError):
            unreadable = Unreadable(0, ())
            for value in records(source, apart(LogLine(line.number, content)), unreadable):
                yield from self._loose(place, value)
            if unreadable.count and any(mark in content for mark in _MARKS):
                yield Unusable(place, unreadable.complaints[0].message)
        else:
            yield from self._record(place, record, content)

    def _loose(self, place: Place, value: JsonValue) -> Iterator[Told]:
        """A record that was found in a line with something else, or whose fields aren't as Codex writes them."""
        if not isinstance(value, dict):
            return
        whole = json.dumps(value).encode()
        try:
            record = _DECODER.decode(whole)
        except (ValueError, RecursionError):
            return
        yield from self._record(place, record, whole)

    def _record(self, place: Place, record: _Line, content: bytes) -> Iterator[Told]:
        state = self._state
        ordinal = record.get("ordinal")
        if type(ordinal) is int:
            if ordinal == state.ordinal:
                return  # the record was written twice in a row
            state.ordinal = ordinal
        if self._is_copied(content):
            return
        payload: _Fields = record.get("payload", record)
        kind = record.get("type")
        if kind in ("response_item", "event_msg") or "payload" not in record:
            kind = payload.get("type")
        if not isinstance(kind, str):
            return
        at = parse_time(cast("JsonValue", record.get("timestamp")))
        if kind in _CALLS:
            yield from self._called(place, at, kind, payload)
        elif kind in _OUTPUTS:
            yield self._returned(place, at, payload)
        else:
            self._note(kind, cast("dict[str, JsonValue]", payload))

    def _is_copied(self, content: bytes) -> bool:
        """Whether the record was copied from a fork's origin. Once something of the thread's own began, none is."""
        began = self._beginning
        if began is None:
            return False
        value = decode(content)
        # The scanner itself says where the copied records end, so that calls and turns agree about it.
        began.take((value,), [])
        self._state.thread = began.thread
        if began.copies:
            self._tokens.total = began.tokens.total
            return True
        if began.turns.turn != "none":
            self._beginning = None
        return False

    def _called(self, place: Place, at: float | None, kind: str, payload: _Fields) -> Iterator[Told]:
        call = _call_id(payload) or f"{kind}@{place.line}"
        name = payload.get("name")
        tool = name if isinstance(name, str) and name else kind.removesuffix("_call")
        params, problem = _params(payload)
        yield Called(
            place=place,
            at=at,
            id=call,
            tool=tool,
            params=params,
            step_id=None,
            tokens=self._tokens_at_call(call),
            problem=problem,
        )
        if tool == PLAN_TOOL and isinstance(params, dict):
            yield from self._plans.told(place, at, params.get("plan"), ("step",))

    def _returned(self, place: Place, at: float | None, payload: _Fields) -> Told:
        call = _call_id(payload)
        if call is None:
            return Unusable(place, "an output without call_id")
        self._state.returned = True
        content, problem = value_in(payload.get("output", msgspec.Raw()))
        exit_code = exit_code_in(content)
        failed = bool(exit_code) or call in self._state.failed
        if isinstance(content, dict) and isinstance(content.get("success"), bool):
            failed = failed or content["success"] is False
        tokens = self._state.told.pop(call, None)
        if failed:
            return Returned(
                place=place,
                at=at,
                id=call,
                content=None,
                error=content,
                success=False,
                exit_code=exit_code,
                step_utility=None,
                tokens=tokens,
                problem=problem,
            )
        return Returned(
            place=place,
            at=at,
            id=call,
            content=content,
            error=None,
            success=True,
            exit_code=exit_code,
            step_utility=None,
            tokens=tokens,
            problem=problem,
        )

    def _tokens_at_call(self, call: str) -> int | None:
        """The tokens of the reply that makes this call, if they were reported before; else they are expected later."""
        state = self._state
        # Versions up to 0.63 report a reply's tokens before its calls.
        if state.held is not None:
            tokens, state.held = state.held, None
            state.first, state.returned = "", False
            return tokens
        if state.first is None or state.returned:
            state.first, state.returned = call, False
        return None

    def _note(self, kind: str, payload: dict[str, JsonValue]) -> None:
        """What isn't a call itself."""
        state, tokens = self._state, self._tokens
        if kind in _BETWEEN_REPLIES:
            # Tokens that no call has claimed by now were those of a reply without calls.
            state.first = state.held = None
        elif kind == _ITEM:
            item = object_in(payload.get("item"))
            call = whole_text_in(item.get("id"))
            if item.get("status") == "failed" and call is not None:
                state.failed = (*state.failed, call)[-_IDS_KEPT:]
        elif kind in (_TOTAL, _REPLY):
            before = tokens.input_tokens + tokens.output_tokens
            if kind == _TOTAL:
                tokens.count_total(payload)
            elif payload.get("thread_id", state.thread) == state.thread:
                tokens.count_reply(payload)
            spent = tokens.input_tokens + tokens.output_tokens - before
            if spent > 0:
                self._spend(spent)

    def _spend(self, spent: int) -> None:
        state = self._state
        if state.first:
            state.told[state.first] = spent
            while len(state.told) > _IDS_KEPT:
                del state.told[next(iter(state.told))]
            state.first = None
        elif state.first is None:
            state.held = spent
        else:
            state.first = None


def _call_id(payload: _Fields) -> str | None:
    for identifier in (payload.get("call_id"), payload.get("id")):
        if isinstance(identifier, str) and identifier:
            return identifier
    return None


def _params(payload: _Fields) -> Value:
    """What a tool was called with: parsed arguments, a free input, an action, or the prompt of an image."""
    if "arguments" in payload:
        arguments, problem = value_in(payload["arguments"])
        return (
            text_value(arguments)
            if isinstance(arguments, str) and problem is None
            else Value(arguments, problem)
        )
    if "input" in payload:
        return value_in(payload["input"])
    if "action" in payload:
        return value_in(payload["action"])
    prompt = payload.get("revised_prompt")
    return Value({"prompt": prompt} if isinstance(prompt, str) else None)


def _start(name: str) -> CallReader:
    return CodexCalls(Rollout(thread=thread_of(name)))


CALLS: Final = CallLayout(_start)


_ENDS: Final = frozenset({"task_complete", "turn_complete"})
_WORKS_ON: Final = frozenset(
    {
        *("task_started", "turn_started", "turn_aborted", "user_message"),
        *("function_call", "custom_tool_call", "local_shell_call"),
        *("function_call_output", "custom_tool_call_output"),
    }
)
"""What comes after a message that was not the last one."""


def final_message(newest_first: Iterable[bytes]) -> str | None:
    """The text of the thread's last message. None if a turn was begun or aborted after it, or it called a tool.

    Newer versions repeat it at the end of the turn. Lines that can't be read are skipped.
    """
    for line in newest_first:
        try:
            record = decode(line)
        except ValueError:
            continue
        if not isinstance(record, dict):
            continue
        kind, item = item_of(record)
        if kind in _ENDS:
            if item.get("error") is not None:
                return None
            message = item.get("last_agent_message")
            if isinstance(message, str):
                return message or None
        elif kind == "message":
            role = item.get("role")
            if role == "assistant":
                return text_of(item.get("content")) or None
            if role == "user":
                return None
        elif kind in _WORKS_ON or (
            kind == "item_completed" and object_in(item.get("item")).get("type") == "UserMessage"
        ):
            return None
    return None


def item_of(record: dict[str, JsonValue]) -> tuple[str, dict[str, JsonValue]]:
    """What a record says, and its kind. Up to 0.29 it is bare in its line."""
    kind, payload = record.get("type"), record.get("payload")
    if payload is None:
        return str(kind), record
    item = object_in(payload)
    return str(item.get("type")) if kind in ("event_msg", "response_item") else "", item


def text_of(content: JsonValue) -> str:
    """The text of a message: that of all its blocks."""
    blocks = content if isinstance(content, list) else []
    texts = (object_in(each).get("text") for each in blocks)
    return "".join(each for each in texts if isinstance(each, str))


_INSERTED: Final = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions")
"""What Codex says to the model in the name of the user."""


def message_in(line: bytes) -> Said | None:
    """The text that a line adds to the conversation. None if it adds none, or can't be read.

    Codex also reports each text as an event; those are left out.
    """
    try:
        record = decode(line)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    kind, item = item_of(record)
    text = text_of(item.get("content")) if kind == "message" else ""
    if not text:
        return None
    role = item.get("role")
    if role == "user" and not text.lstrip().startswith(_INSERTED):
        return Said(parse_time(record.get("timestamp")), "user", text)
    return Said(parse_time(record.get("timestamp")), "assistant" if role == "assistant" else "system", text)
