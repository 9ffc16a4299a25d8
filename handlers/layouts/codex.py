"""Codex CLI's rollouts: one JSON-lines file per thread, `sessions/YYYY/MM/DD/rollout-<local time>-<thread>.jsonl`.

A thread is resumed into the same file. The file does not say who holds the thread's lock, and so whether its process
is alive: `codex_records` tells where that lock is.

The first `session_meta` is the file's own. A fork may copy its origin's records after it. They say nothing about the
fork, so only the running total of tokens is taken from them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.call_readers import CallLayout
from runward.handlers.layouts.codex_contents import LEAVES, Calls, CodexCalls, Tokens
from runward.handlers.layouts.codex_records import (
    META,
    STATE,
    UNNUMBERED,
    Origin,
    Turns,
    apart,
    cwd_in,
    end_by_abort,
    end_of_task,
    ends_turn,
    failure,
    is_aside,
    is_typed,
    kind_of,
    made_at,
    name_in,
    read_origin,
    read_record,
    thread_in,
    thread_of,
)
from runward.handlers.layouts.foreign_values import LONGEST_PATH, object_in, whole_text_in
from runward.handlers.layouts.transcript import (
    Counts,
    KeepsState,
    LogLine,
    Resumed,
    Said,
    Told,
    Usage,
    clip_prompt,
)
from runward.handlers.layouts.transcript_lines import Unreadable, decode, records
from runward.handlers.model.sessions import Complaint, Document
from runward.handlers.usage.counting import SIZES, STANDARD, Counted, Run, add, counted, hour_in

Payload: TypeAlias = dict[str, JsonValue]

_STARTS: Final = ("task_started", "turn_started")


@dataclass(slots=True)
class Rollout:
    """What is known about a thread from its rollout so far: the scanner's state. Only a copy of it is ever changed.

    `stamp` is the last record's time as written, `ordinal` its number. `copies` is set while records are copied
    from a fork's origin, `has_copied_turn` once one of its turns was among them. `counted` are the sums of replies that
    were not taken yet, `run` those that are being added up.
    """

    version: Literal[2] = 2
    thread: str | None = None
    origin: Origin | None = None
    headless: bool | None = None
    cwd: str | None = None
    model: str | None = None
    prompt: str | None = None
    events: int = 0
    first_stamp: str | None = None
    stamp: str | None = None
    ordinal: int | None = None
    copies: bool = False
    has_copied_turn: bool = False
    turns: Turns = field(default_factory=Turns)
    calls: Calls = field(default_factory=Calls)
    tokens: Tokens = field(default_factory=Tokens)
    unreadable: int = 0
    complaints: tuple[Complaint, ...] = ()
    counted: list[Counted] = field(default_factory=list)
    run: Run | None = None
    run_hour: str | None = None
    run_model: str | None = None

    def copy(self) -> "Rollout":
        """A copy that may be changed."""
        return replace(
            self,
            turns=replace(self.turns),
            calls=self.calls.copy(),
            tokens=replace(self.tokens),
            counted=self.counted.copy(),
        )

    def take(self, records: Iterable[JsonValue], resumed: list[Resumed]) -> None:
        """Take in records. Each further attempt that they begin goes to `resumed`. Most of them say nothing."""
        events, stamp, ordinal = self.events, self.stamp, self.ordinal
        for record in records:
            if type(record) is not dict:
                continue
            number = record.get("ordinal")
            if number is not None and type(number) is int:
                # A numbered record that is written twice in a row counts once.
                if number == ordinal:
                    continue
                ordinal = number
            events += 1
            payload, kind = record.get("payload"), record.get("type")
            # These checks are inlined, and types are compared directly: most records say nothing, and each of them
            # comes here.
            if type(payload) is dict:
                written = record.get("timestamp")
                if type(written) is str and 20 <= len(written) <= 40:
                    if stamp is None:
                        self.first_stamp = written
                    stamp = written
                handlers = _OF_RECORDS
                if kind == "response_item":
                    handlers, kind = _OF_ITEMS, payload.get("type")
                elif kind == "event_msg":
                    handlers, kind = _OF_EVENTS, payload.get("type")
            elif payload is None:
                # A record of Codex up to 0.29 has no envelope.
                payload, handlers, kind = record, _OF_BARE, kind_of(record)
            else:
                continue
            if type(kind) is not str:
                continue
            handler = handlers.get(kind)
            if handler is not None and not (self.copies and self._is_copied(kind, payload)):
                self.events, self.stamp = events, stamp
                handler(self, payload, resumed)
        self.events, self.stamp, self.ordinal = events, stamp, ordinal

    def take_meta(self, payload: Payload, _: list[Resumed]) -> None:
        """The first description is the file's own; it names the same thread as the file's name."""
        if self.thread is not None and thread_in(payload) != self.thread:
            # The description of another thread begins the copy of a fork's origin, unless the fork has work of its own
            # already.
            self.copies = self.copies or self.turns.turn == "none"
            return
        self.take_bare_meta(payload, [])

    def take_bare_meta(self, payload: Payload, _: list[Resumed]) -> None:
        """The file's own description. A bare rollout has no other one."""
        if self.origin is not None:
            return
        origin = read_origin(payload)
        self.origin, self.headless, self.cwd = origin, origin.headless, origin.cwd
        self.thread = origin.thread or self.thread

    def _is_copied(self, kind: str, payload: Payload) -> bool:
        """Whether this record was copied from the fork's origin: its turns are older than the fork's own id."""
        if kind == "session_meta":
            return False
        turn = payload.get("turn_id")
        if isinstance(turn, str) and self._is_own(turn, kind in _STARTS):
            self.copies = False
        elif kind in _STARTS:
            self.has_copied_turn = True
        elif kind == "user_message" and not self.has_copied_turn:
            self.copies = False
        # The running total goes on from the origin's, so only the difference to it is the fork's.
        elif kind == "token_count":
            self.tokens.note_total(payload)
        return self.copies

    def _is_own(self, turn: str, otherwise: bool) -> bool:
        """Whether the turn began after the thread was made. `otherwise` if their ids don't tell."""
        # Ids of turns and threads contain the time at which they were made.
        began, made = made_at(turn), made_at(self.thread)
        return otherwise if began is None or made is None else began >= made

    def take_context(self, payload: Payload, _: list[Resumed]) -> None:
        """The settings of the next request to the model."""
        self.model = name_in(payload.get("model")) or self.model
        if self.cwd is None:
            self.cwd = whole_text_in(payload.get("cwd"), LONGEST_PATH)
        self.turns.request()

    def take_compaction(self, _: Payload, __: list[Resumed]) -> None:
        """The history was summed up."""
        self.turns.compact()

    def take_settings(self, payload: Payload, _: list[Resumed]) -> None:
        """The thread's settings, which name the model before the first request."""
        settings = payload.get("thread_settings")
        if self.model is None and isinstance(settings, dict):
            self.model = name_in(settings.get("model"))

    def take_start(self, payload: Payload, resumed: list[Resumed]) -> None:
        """A turn began. Who triggered it may differ from who made the thread."""
        began = self.turns.start(name_in(payload.get("turn_id")) or UNNUMBERED, self.stamp, self.headless)
        self._note_resumed(began, resumed)
        attribution = payload.get("turn_attribution")
        trigger = attribution.get("turn_trigger") if isinstance(attribution, dict) else None
        # A sub-agent's turns have the trigger of its origin's.
        is_own = self.origin is None or not self.origin.is_subagent
        if is_own and (trigger == "exec" or trigger == "user"):
            self.headless = trigger == "exec"
        self.calls.question = None

    def take_prompt(self, payload: Payload, resumed: list[Resumed]) -> None:
        """A person or a script asked for something."""
        self._prompted(payload.get("message"), None, resumed)

    def take_item(self, payload: Payload, resumed: list[Resumed]) -> None:
        """An item of the turn is complete: a prompt, a tool's run, a sub-agent's step, …"""
        item = payload.get("item")
        if not isinstance(item, dict):
            return
        kind = item.get("type")
        if kind == "UserMessage":
            self._prompted(_joined(item.get("content")), name_in(payload.get("turn_id")), resumed)
        elif kind == "EnteredReviewMode":
            self.calls.spawned += 1
        elif kind == "SubAgentActivity" and item.get("kind") == "started":
            self.calls.start_agent(item.get("agent_thread_id"))
        if item.get("status") == "failed":
            self.calls.fail(item)

    def take_end(self, payload: Payload, resumed: list[Resumed]) -> None:
        """A turn is complete, well or badly."""
        close = end_of_task(payload, self.turns.owes, parse_time(self.stamp))
        began = self.turns.complete(name_in(payload.get("turn_id")), close, self.stamp, self.headless)
        self._note_resumed(began, resumed)
        # A late record about a finished turn must not count its error twice.
        if close.status == "failed" and self.turns.close is close:
            self.calls.errors += 1
        self.calls.question = None

    def take_abort(self, payload: Payload, resumed: list[Resumed]) -> None:
        """A turn was interrupted, or ended by its own budget."""
        close = end_by_abort(payload, parse_time(self.stamp))
        began = self.turns.abort(name_in(payload.get("turn_id")), close, self.stamp, self.headless)
        self._note_resumed(began, resumed)
        self.calls.question = None

    def take_error(self, payload: Payload, _: list[Resumed]) -> None:
        """An error that may have ended the turn."""
        if ends_turn(payload):
            self.calls.errors += 1
            self.turns.fail(failure(payload, parse_time(self.stamp)))

    def take_retry(self, _: Payload, __: list[Resumed]) -> None:
        """The model's stream broke and is tried again."""
        self.calls.errors += 1

    def take_rollback(self, payload: Payload, _: list[Resumed]) -> None:
        """The last turns were taken back."""
        count = payload.get("num_turns")
        self.turns.roll_back(count if type(count) is int and count > 0 else 0, parse_time(self.stamp))

    def take_message(self, payload: Payload, _: list[Resumed]) -> None:
        """A message of the conversation."""
        role = payload.get("role")
        if role == "assistant":
            self.turns.answer(self.stamp)
        # Prompts have records of their own, which come later and may be cut off. So this only says that the end no
        # longer counts.
        elif role == "user" and self.turns.turn == "closed" and is_typed(_joined(payload.get("content"))):
            self.turns.ask()

    def take_bare_message(self, record: Payload, resumed: list[Resumed]) -> None:
        """A message in versions where prompts have no records of their own."""
        if record.get("role") != "user":
            self.take_message(record, resumed)
            return
        text = _joined(record.get("content")) or ""
        if is_aside(text):
            self.cwd = self.cwd or cwd_in(text)
        else:
            self._prompted(text, None, resumed)

    def take_batch(self, _: Payload, __: list[Resumed]) -> None:
        """Further records in one batch."""
        self.turns.batch()

    def take_thought(self, _: Payload, __: list[Resumed]) -> None:
        """The model reasoned."""
        self.turns.owes = False

    def take_call(self, payload: Payload, _: list[Resumed]) -> None:
        """The model called a tool."""
        self.calls.call(payload)
        self.turns.call()

    def take_output(self, payload: Payload, _: list[Resumed]) -> None:
        """A tool's output came back."""
        self.calls.output(payload)
        self.turns.output()

    def take_tool_end(self, payload: Payload, _: list[Resumed]) -> None:
        """A tool ended, as older versions and more detailed recordings report it."""
        result = payload.get("result")
        code = payload.get("exit_code")
        if (
            payload.get("success") is False
            or (type(code) is int and code != 0)
            or (isinstance(result, dict) and "Err" in result)
        ):
            self.calls.fail(payload)

    def take_agent(self, payload: Payload, _: list[Resumed]) -> None:
        """A sub-agent did something; its own records are in a file of its own."""
        if payload.get("kind", "started") == "started":
            self.calls.start_agent(payload.get("agent_thread_id") or payload.get("new_thread_id"))

    def take_review(self, _: Payload, __: list[Resumed]) -> None:
        """A sub-agent is told to review."""
        self.calls.spawned += 1

    def take_review_end(self, _: Payload, __: list[Resumed]) -> None:
        """A review is over. Its cost is in the reviewer's own file; its findings come next."""
        self.turns.reply(self.stamp)

    def take_question(self, payload: Payload, _: list[Resumed]) -> None:
        """A person is asked for permission or for an answer."""
        if self.turns.turn == "open":
            self.calls.question = str(payload.get("type"))

    def take_total(self, payload: Payload, _: list[Resumed]) -> None:
        """The running total of tokens."""
        replies = self.tokens.replies
        if self.tokens.count_total(payload):
            # The total that repeats a reply's own record counts none.
            if self.tokens.replies != replies:
                self._spend()
            self.turns.reply(self.stamp)

    def take_reply(self, payload: Payload, _: list[Resumed]) -> None:
        """The tokens of one reply. A copied record names its origin's thread."""
        if payload.get("thread_id", self.thread) == self.thread and self.tokens.count_reply(payload):
            self._spend()
            self.turns.reply(self.stamp)

    def _spend(self) -> None:
        """Add the reply that was counted just now to the sums."""
        last, stamp = self.tokens.last, self.stamp
        assert last is not None, "it was counted"
        given, made, cached, written = last
        run = self.run
        # One that goes on with the run before is only added to it.
        if (
            run is None
            or self.run_hour is None
            or hour_in(stamp) != self.run_hour
            or given > SIZES[1]
            or self.model != self.run_model
        ):
            self.end_run()
            reply = counted(parse_time(stamp), self.model, STANDARD, fresh_input=given, output=made)
            run = self.run = Run(reply)
            if given <= SIZES[1]:
                self.run_hour, self.run_model = hour_in(stamp), self.model
        run.replies += 1
        run.fresh_input += given - cached - written
        run.cache_read += cached
        run.cache_written += written
        run.output += made

    def end_run(self) -> None:
        """Add the run of replies to the sums, as it must be before the rollout is stored."""
        if self.run is not None:
            add(self.counted, self.run.sum())
            self.run = self.run_hour = None

    def _prompted(self, prompt: JsonValue, turn: str | None, resumed: list[Resumed]) -> None:
        self._note_resumed(self.turns.prompt(turn, self.stamp, self.headless), resumed)
        self.calls.question = None
        if self.prompt is None and isinstance(prompt, str) and prompt:
            self.prompt = clip_prompt(prompt)

    def _note_resumed(self, began: Resumed | None, resumed: list[Resumed]) -> None:
        if began is not None:
            resumed.append(began._replace(began_at=self.made_at) if began.attempt == 2 else began)

    @property
    def has_begun(self) -> bool:
        """Whether a turn of the thread's own has begun."""
        return self.turns.turn != "none"

    @property
    def made_at(self) -> float | None:
        """When the thread was made, or else its first record."""
        made = self.origin.made_at if self.origin is not None else None
        return parse_time(self.first_stamp) if made is None else made


Handler: TypeAlias = Callable[[Rollout, Payload, list[Resumed]], None]

_OF_RECORDS: Final[Mapping[str, Handler]] = {
    "session_meta": Rollout.take_meta,
    "turn_context": Rollout.take_context,
    "compacted": Rollout.take_compaction,
    "token_usage_record": Rollout.take_reply,
}

_OF_EVENTS: Final[Mapping[str, Handler]] = {
    "task_started": Rollout.take_start,
    "turn_started": Rollout.take_start,
    "user_message": Rollout.take_prompt,
    "item_completed": Rollout.take_item,
    "task_complete": Rollout.take_end,
    "turn_complete": Rollout.take_end,
    "turn_aborted": Rollout.take_abort,
    "error": Rollout.take_error,
    "stream_error": Rollout.take_retry,
    "thread_rolled_back": Rollout.take_rollback,
    "thread_settings_applied": Rollout.take_settings,
    "token_count": Rollout.take_total,
    "exec_command_end": Rollout.take_tool_end,
    "patch_apply_end": Rollout.take_tool_end,
    "mcp_tool_call_end": Rollout.take_tool_end,
    "dynamic_tool_call_response": Rollout.take_tool_end,
    "sub_agent_activity": Rollout.take_agent,
    "collab_agent_spawn_end": Rollout.take_agent,
    "entered_review_mode": Rollout.take_review,
    "exited_review_mode": Rollout.take_review_end,
    **dict.fromkeys(LEAVES, Rollout.take_question),
}

_OF_ITEMS: Final[Mapping[str, Handler]] = {
    "message": Rollout.take_message,
    "reasoning": Rollout.take_thought,
    "function_call": Rollout.take_call,
    "custom_tool_call": Rollout.take_call,
    "local_shell_call": Rollout.take_call,
    "tool_search_call": Rollout.take_call,
    "web_search_call": Rollout.take_call,
    "image_generation_call": Rollout.take_call,
    "function_call_output": Rollout.take_output,
    "custom_tool_call_output": Rollout.take_output,
    "tool_search_output": Rollout.take_output,
}

_OF_BARE: Final[Mapping[str, Handler]] = {
    **_OF_ITEMS,
    META: Rollout.take_bare_meta,
    STATE: Rollout.take_batch,
    "message": Rollout.take_bare_message,
}


def _joined(content: JsonValue) -> str | None:
    """The text of a message's parts."""
    if not isinstance(content, list):
        return None
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


LAYOUT: Final = "codex"
SHOWN_BY: Final = (
    "a record with a `timestamp`, a `type` of Codex's and a `payload`, or one of its earlier "
    "forms, among its first lines"
)


_KINDS: Final = ("session_meta", "turn_context", "response_item", "event_msg", "compacted")
_MOST_HEAD_LINES: Final = 20


class CodexScanner(KeepsState[Rollout]):
    """Follows a rollout; see `TranscriptScanner`."""

    def start(self, name: str) -> Rollout:
        """The thread's id is taken from the file's name if it is there, so that a torn first line loses no identity."""
        return Rollout(thread=thread_of(name))

    def feed(
        self, state: Rollout, file: str, lines: Sequence[LogLine]
    ) -> tuple[Rollout, tuple[Resumed, ...]]:
        """Take in further lines. A numbered record that is written twice in a row counts once."""
        # The caller may feed the same state again, in other portions (`registry.fed`). So it stays as it is.
        rollout = state.copy()
        unreadable = Unreadable(state.unreadable, state.complaints)
        resumed: list[Resumed] = []
        rollout.take(_read(file, lines, unreadable), resumed)
        rollout.end_run()
        rollout.unreadable, rollout.complaints = unreadable.count, tuple(unreadable.complaints)
        return rollout, tuple(resumed)

    def see(self, state: Rollout, documents: Sequence[Document]) -> Rollout:
        """A rollout has no further documents."""
        return state

    def tell(self, state: Rollout) -> Told:
        """What the rollout amounts to."""
        origin, turns, calls, tokens = state.origin, state.turns, state.calls, state.tokens
        began = turns.started_at
        if turns.attempt == 1:
            began = state.made_at
        return Told(
            session_id=state.thread,
            parent_session_id=origin.parent if origin is not None else None,
            is_subagent=origin is not None and origin.is_subagent and origin.parent is None,
            works_for=origin.parent if origin is not None and origin.is_subagent else None,
            attempt=turns.attempt if state.events else 0,
            turn="open" if turns.asked else turns.turn,
            close=None if turns.asked else turns.close,
            headless=state.headless,
            waiting=turns.turn == "open" and calls.question is not None,
            started_at=began,
            moved_at=parse_time(state.stamp),
            model=state.model,
            version=origin.version if origin is not None else None,
            cwd=state.cwd,
            prompt=state.prompt,
            counts=Counts(state.events, calls.calls, calls.errors, calls.subagents),
            usage=Usage(tokens.input_tokens, tokens.output_tokens) if tokens.replies else None,
            unreadable=state.unreadable,
            complaints=state.complaints,
            turns=turns.begun,
            counted=tuple(state.counted),
        )

    def taken(self, state: Rollout) -> Rollout:
        """The rollout without the sums."""
        return replace(state, counted=[])


SCANNER: Final = CodexScanner(Rollout)


def recognises_log(name: str, head: bytes) -> bool:
    """Whether a log that begins so (decompressed, with whole lines or not) is a rollout.

    Its records decide. A name like a rollout's is not enough, and another name does no harm.
    """
    lines = head.split(b"\n", _MOST_HEAD_LINES)
    whole = [LogLine(number, line) for number, line in enumerate(lines[:-1], 1)]
    last = LogLine(len(lines), lines[-1], is_cut=True)
    return any(_is_record(record) for record in records(name, [*whole, last], Unreadable(0, ())))


def _is_record(record: JsonValue) -> bool:
    if not isinstance(record, dict):
        return False
    if "payload" not in record and "type" not in record:
        return kind_of(record) is not None
    return (
        record.get("type") in _KINDS
        and isinstance(record.get("timestamp"), str)
        and isinstance(record.get("payload"), dict)
    )


def _read(file: str, lines: Sequence[LogLine], unreadable: Unreadable) -> Iterator[JsonValue]:
    """The records of the lines, in order."""
    read = read_record
    for line in lines:
        if not line.is_cut:
            try:
                record = read(line.content)
            except ValueError:
                pass
            else:
                yield record
                continue
        torn = Unreadable(0, ())
        found = records(file, apart(line), torn)
        yield from map(_without_its_end, found) if line.is_cut else found
        if torn.count:
            unreadable.add(file, line.number, torn.complaints[0].message)


def _without_its_end(record: JsonValue) -> JsonValue:
    """A record of which a part is missing. If it ends a turn, and no error is there, the error may be what is missing."""
    payload = object_in(record).get("payload")
    is_end = isinstance(payload, dict) and payload.get("type") in _ENDS and payload.get("error") is None
    return {**object_in(record), "payload": {}} if is_end else record


CALLS: Final = CallLayout(lambda name, beside: CodexCalls(Rollout(thread=thread_of(name))))


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
