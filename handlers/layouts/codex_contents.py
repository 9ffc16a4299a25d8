"""What a Codex rollout contains: its calls, its tokens, its texts, and its last message.

Counted are tool calls, failed tools, sub-agents and tokens, each once. The same call is described by several records
(the call, the finished item, the output), and the same tokens by a repeated running total. A bounded number of ids
records what was counted.

For a replay, calls are call items and the outputs that come back for them. What a fork copied from its origin does not
belong to the thread. Params are the parsed arguments. Codex reports a reply's tokens after its calls (up to 0.63 before
them), so they come with the first call's output, or with that call.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypedDict, cast

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called, Place, Told, Unusable, answered
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.call_readers import PlacedLine, Plans, WithoutDocuments
from runward.handlers.layouts.codex_records import apart, read_record
from runward.handlers.layouts.foreign_values import (
    MOST_TOKENS,
    Value,
    object_in,
    text_value,
    value_in,
    whole_text_in,
)
from runward.handlers.layouts.transcript import LogLine, Resumed
from runward.handlers.layouts.transcript_lines import Unreadable, records

MOST_IDS: Final = 16
"""Ids of each kind that are remembered: the records of one call are close together."""


LONGEST_ID: Final = 64


SPAWN: Final = "spawn_agent"
"""The tool that orders a sub-agent."""


QUESTIONS: Final = frozenset({"request_user_input", "request_permissions"})
"""Tools by which the agent asks a person."""


LEAVES: Final = frozenset(
    {
        "apply_patch_approval_request",
        "elicitation_request",
        "exec_approval_request",
        "request_permissions",
        "request_user_input",
    }
)
"""Events by which a person is asked, in versions that record them."""


@dataclass(slots=True)
class Calls:
    """The tool calls so far. It is a part of a scanner's state: only a copy of it is ever changed.

    `question` is the call by which the agent waits for a person, or the name of the event that says so.
    """

    calls: int = 0
    errors: int = 0
    spawned: int = 0
    started: int = 0
    question: str | None = None
    called: dict[str, None] = field(default_factory=dict)
    failed: dict[str, None] = field(default_factory=dict)
    agents: dict[str, None] = field(default_factory=dict)

    @property
    def subagents(self) -> int:
        """Sub-agents that were ordered, or those that were seen to start if there are more."""
        return max(self.spawned, self.started)

    def call(self, payload: dict[str, JsonValue]) -> None:
        """The model called a tool."""
        call, name = _id_of_call(payload), payload.get("name")
        if call is not None and not _is_new(self.called, call):
            return
        self.calls += 1
        if type(name) is not str:
            return
        if name == SPAWN:
            self.spawned += 1
        elif name in QUESTIONS:
            self.question = call or name

    def output(self, payload: dict[str, JsonValue]) -> None:
        """A tool's output came back. If something was asked before the tool could run, it has been answered."""
        if _says_failed(payload.get("output")):
            self.fail(payload)
        question = self.question
        if question is not None and (question in LEAVES or question == _id_of_call(payload)):
            self.question = None

    def fail(self, payload: dict[str, JsonValue]) -> None:
        """A tool is reported as failed; `payload` names its call."""
        call = _id_of_call(payload)
        if call is None or _is_new(self.failed, call):
            self.errors += 1

    def start_agent(self, thread: JsonValue) -> None:
        """A sub-agent with this thread's id began to work."""
        if isinstance(thread, str) and _is_new(self.agents, thread[:LONGEST_ID]):
            self.started += 1

    def copy(self) -> "Calls":
        """A copy that may be changed."""
        return Calls(
            calls=self.calls,
            errors=self.errors,
            spawned=self.spawned,
            started=self.started,
            question=self.question,
            called=self.called.copy(),
            failed=self.failed.copy(),
            agents=self.agents.copy(),
        )


class Spent(NamedTuple):
    """Tokens of a reply, or of all replies so far. Those that came from the cache or went into it are input, too."""

    input: int
    output: int
    cached: int = 0
    written: int = 0


@dataclass(slots=True)
class Tokens:
    """The tokens so far. It is a part of a scanner's state: only a copy of it is ever changed.

    `last` is the reply
    that was counted last, `total` the last reported running total. `is_ahead` says that a reply was counted by a
    record of its own (since 0.153), which the next running total repeats.
    """

    replies: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    last: Spent | None = None
    total: Spent | None = None
    response: str | None = None
    is_ahead: bool = False

    def count_reply(self, payload: dict[str, JsonValue]) -> bool:
        """Count a reply by its own record, once per id. Whether it was one to count."""
        response, usage = payload.get("response_id"), _usage(payload.get("usage"))
        if usage is None:
            return False
        if isinstance(response, str):
            if response[:LONGEST_ID] == self.response:
                return False
            self.response = response[:LONGEST_ID]
        self._add(usage)
        self.is_ahead = True
        return True

    def count_total(self, payload: dict[str, JsonValue]) -> bool:
        """Count a reply by the running total, which is also reported without a change. Whether a reply was reported.

        A null total says that the process has none: a resumed one may start from zero.
        """
        before = self.total
        self.note_total(payload)
        if self.total is None or self.total == before:
            return False
        if self.is_ahead:
            self.is_ahead = False
            return True
        info = payload["info"]
        last = _usage(info.get("last_token_usage")) if isinstance(info, dict) else None
        self._add(last or _difference(before, self.total))
        return True

    def note_total(self, payload: dict[str, JsonValue]) -> None:
        """Take the running total without counting."""
        info = payload.get("info")
        self.total = _usage(info.get("total_token_usage")) if isinstance(info, dict) else None

    def _add(self, usage: Spent) -> None:
        self.replies += 1
        self.last = usage
        self.input_tokens += usage.input
        self.output_tokens += usage.output


def _is_new(known: dict[str, None], identifier: str) -> bool:
    """Whether this id isn't among the known ones. It is then added, and the oldest is forgotten for it."""
    if identifier in known:
        return False
    known[identifier] = None
    if len(known) > MOST_IDS:
        del known[next(iter(known))]
    return True


def _id_of_call(payload: dict[str, JsonValue]) -> str | None:
    call = payload.get("call_id") or payload.get("id")
    return call[:LONGEST_ID] if isinstance(call, str) else None


def _says_failed(output: JsonValue) -> bool:
    """Whether a tool's output itself says that it failed."""
    return output.get("success") is False if isinstance(output, dict) else bool(exit_code_in(output))


def _usage(usage: JsonValue) -> Spent | None:
    if not isinstance(usage, dict):
        return None
    given, made = usage.get("input_tokens"), usage.get("output_tokens")
    if type(given) is not int or not 0 <= given <= MOST_TOKENS:
        return None
    if type(made) is not int or not 0 <= made <= MOST_TOKENS:
        return None
    cached, written = usage.get("cached_input_tokens"), usage.get("cache_write_input_tokens")
    if type(cached) is not int or not 0 <= cached <= given:
        cached = 0
    if type(written) is not int or not 0 <= written <= given - cached:
        written = 0
    return Spent(given, made, cached, written)


def _difference(before: Spent | None, now: Spent) -> Spent:
    """What came since, if these are running totals. A total that is lower than before began anew."""
    if before is None or any(later < earlier for earlier, later in zip(before, now, strict=True)):
        return now
    return Spent(*(later - earlier for earlier, later in zip(before, now, strict=True)))


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
class CallsState:
    """What is known so far.

    `first` is the call that will get a reply's tokens, "" if its first call already has them. `held` are
    tokens that were reported before any call, `reported` those that go with a call's output. `failed` are failed calls.
    """

    ordinal: int | None = None
    first: str | None = None
    returned: bool = False
    held: int | None = None
    reported: dict[str, int] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    thread: str | None = None


class Beginning(Protocol):
    """A rollout as the scanner follows it: what it says of the records that a fork copied from its origin."""

    thread: str | None
    copies: bool
    tokens: Tokens

    @property
    def has_begun(self) -> bool: ...

    def take(self, records: Iterable[JsonValue], resumed: list[Resumed]) -> None: ...


class CodexCalls(WithoutDocuments):
    """Reads one rollout. `beginning` is the rollout up to here, until something of the thread's own began."""

    def __init__(self, beginning: Beginning) -> None:
        self._state = CallsState(thread=beginning.thread)
        self._plans = Plans()
        self._tokens = Tokens()
        self._beginning: Beginning | None = beginning

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[Told]:
        """What further lines say."""
        match = _HEAD.match
        for line in lines:
            if self._beginning is None:
                head = match(line.content)
                # Most of a rollout's bytes are in lines that say nothing about calls. Their beginning shows that, and
                # they aren't parsed.
                if head is not None and (head[2] or head[1]).decode() not in _TELLING:
                    continue
            yield from self._line(source, line)

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
        # The scanner itself says where the copied records end, so that calls and turns agree about it. What it can't read tells
        # it nothing: only the fields that are read here need to be readable.
        try:
            began.take((read_record(content),), [])
        except ValueError:
            return began.copies
        self._state.thread = began.thread
        if began.copies:
            self._tokens.total = began.tokens.total
            return True
        if began.has_begun:
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
        refused = isinstance(content, dict) and content.get("success") is False
        return answered(
            place,
            at,
            call,
            content,
            failed=bool(exit_code) or refused or call in self._state.failed,
            exit_code=exit_code,
            tokens=self._state.reported.pop(call, None),
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
            state.reported[state.first] = spent
            while len(state.reported) > _IDS_KEPT:
                del state.reported[next(iter(state.reported))]
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
