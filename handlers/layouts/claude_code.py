"""Claude Code's transcripts: `<session id>.jsonl`, with the files of the session's sub-agents beside it.

One record a line: the conversation's main chain (`user`, `assistant`, `attachment`, `system`), records of sub-agents
among it in old versions (`isSidechain`), and notes (`queue-operation`, `last-prompt`, `summary`, …). A turn is open
from a prompt until a reply that says it is the last one, an error, a limit, or a person's interruption. Nobody writes
"I was killed": who holds the session's process may know (see `claude_code_pid`).
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from pydantic import TypeAdapter

from runward.config.json_value import JsonValue
from runward.handlers.layouts.claude_code_records import (
    AGENT_TOOLS,
    ANSWERED,
    ASKING_TOOLS,
    COMPLETED,
    INTERRUPTED,
    NOT_DECODED,
    SYNTHETIC,
    TURN_ENDS,
    Block,
    Message,
    Record,
    Usage,
    api_error,
    command_text,
    content_of,
    counts_as_subagent,
    decode,
    ended_by_itself,
    is_headless,
    is_subagent_file,
    record_of,
    says_interrupted,
    text_of,
    turns_used_up,
    user_record,
)
from runward.handlers.layouts.foreign_json import parse_time
from runward.handlers.layouts.scanner import Complaint, Document, clip_prompt
from runward.handlers.layouts.transcript import Close, Counts, LogLine, Resumed, Told, Turn
from runward.handlers.layouts.transcript import Usage as UsageTold
from runward.handlers.layouts.transcript_lines import Unreadable, records

LAYOUT: Final = "claude-code"

REPLIES_KEPT: Final = 16
"""Replies whose cost is remembered, for the lines of one reply may have others between them."""

CALLS_KEPT: Final = 32
"""Calls of tools that are remembered, so that each counts once."""

_VERSION: Final = 1
_LONGEST_TEXT: Final = 4096
_LONGEST_ID: Final = 128
_SESSION_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_STAMP_LENGTH: Final = len("2026-01-31T12:00:00.000Z")
_LONGEST_STAMP: Final = 40
_CHAINED: Final = frozenset({"user", "assistant", "attachment", "system"})
_FREE: Final = (0, 0)
_NOTHING_SAID: Final = Message()
_NOTES: Final = ("queue-operation", "last-prompt", "mode", "permission-mode", "agent-setting", "custom-title")


class Ending(NamedTuple):
    """How a turn ended, with the time as its record has it: few of them are asked for, so few are read."""

    close: Close
    stamp: str | None

    def told(self) -> Close:
        """The end with its time in Unix seconds."""
        return self.close._replace(at=parse_time(self.stamp))


class State(NamedTuple):
    """What is known of a session so far. Times are as the records have them.

    `queued` is when the first prompt was queued: what is dated before it, and comes before the first prompt of the
    session's own, was copied from the session that this one was forked from. `seems_headless` is what the first record
    says of it where no entry point is named: a queued prompt, or a snapshot of what a person may undo. `held` is how the last turn had ended
    where Claude Code has since given the model something to go on with, but the model has not said anything.
    `command` is a slash command that nobody has answered yet, `spoken` whether the last word on the main chain is a
    reply that called no tool, `stop_reason` what that reply gave as its reason to stop.
    """

    version: int
    session_id: str | None = None
    parent_session_id: str | None = None
    is_subagent: bool = False
    has_own: bool = False
    queued: str | None = None
    is_begun: bool = False
    attempt: int = 0
    turn: Turn = "none"
    ending: Ending | None = None
    held: Ending | None = None
    command: str | None = None
    spoken: bool = False
    stop_reason: str | None = None
    waiting: bool = False
    entrypoint: str | None = None
    seems_headless: bool | None = None
    started: str | None = None
    moved: str | None = None
    agent: str | None = None
    model: str | None = None
    agent_version: str | None = None
    cwd: str | None = None
    prompt: str | None = None
    events: int = 0
    tool_calls: int = 0
    errors: int = 0
    agent_files: int = 0
    agent_chains: int = 0
    agent_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    replies: tuple[tuple[str, int, int], ...] = ()
    calls: tuple[str, ...] = ()
    launches: tuple[str, ...] = ()
    unreadable: int = 0
    complaints: tuple[Complaint, ...] = ()


class ClaudeCodeScanner:
    """Scans one session's transcript and, for their number alone, the files of its sub-agents."""

    def start(self, name: str) -> State:
        file = name.rsplit("/", 1)[-1]
        stem = file.split(".", 1)[0]
        if is_subagent_file(name):
            return State(_VERSION, session_id=stem.removeprefix("agent-")[:_LONGEST_ID], is_subagent=True)
        return State(_VERSION, session_id=stem if _SESSION_ID.fullmatch(stem) else None)

    def feed(self, state: State, file: str, lines: Sequence[LogLine]) -> tuple[State, tuple[Resumed, ...]]:
        if state.is_subagent:
            return _of_subagent(state, file, lines), ()
        if is_subagent_file(file):
            return state._replace(agent_files=state.agent_files + _agents_beginning(file, lines)), ()
        session = _Session(state)
        unreadable = Unreadable(state.unreadable, state.complaints)
        session.take(file, lines, unreadable)
        return session.state(unreadable), tuple(session.resumed)

    def see(self, state: State, documents: Sequence[Document]) -> State:
        """A transcript has no documents beside it that tell more."""
        return state

    def tell(self, state: State) -> Told:
        return Told(
            session_id=state.session_id,
            parent_session_id=state.parent_session_id,
            is_subagent=state.is_subagent,
            attempt=state.attempt,
            turn=state.turn,
            close=None if state.ending is None else state.ending.told(),
            headless=_headless(state.entrypoint, state.seems_headless),
            waiting=state.waiting,
            started_at=parse_time(state.started),
            moved_at=parse_time(state.moved),
            agent=state.agent,
            model=state.model,
            version=state.agent_version,
            cwd=state.cwd,
            prompt=state.prompt,
            counts=Counts(
                state.events,
                state.tool_calls,
                state.errors,
                max(state.agent_files, state.agent_chains, state.agent_calls),
            ),
            usage=UsageTold(state.input_tokens, state.output_tokens) if state.replies else None,
            unreadable=state.unreadable,
            complaints=state.complaints,
        )

    def dump(self, state: State) -> str:
        return _STATES.dump_json(state).decode()

    def load(self, text: str) -> State:
        state = _STATES.validate_json(text)
        if state.version != _VERSION:
            raise ValueError(f"a claude-code scanner's state of version {state.version}, not {_VERSION}")
        if self.dump(state) != text:
            raise ValueError("no state that the claude-code scanner wrote")
        return state


SCANNER: Final = ClaudeCodeScanner()
_STATES: Final = TypeAdapter(State)


def recognises_log(name: str, head: bytes) -> bool:
    """Whether a file that begins with `head` (whole lines, or a first one that is cut) is such a transcript."""
    contents = head.split(b"\n")
    whole = contents[:-1] or contents
    lines = [LogLine(number, content, whole is contents) for number, content in enumerate(whole, 1)]
    return any(_is_own(record) for record in records(name, lines, Unreadable(0, ())))


def _is_own(record: JsonValue) -> bool:
    if not isinstance(record, dict):
        return False
    kind = record.get("type")
    if kind == "summary":
        return isinstance(record.get("leafUuid"), str)
    if kind == "file-history-snapshot":
        return isinstance(record.get("messageId"), str)
    if not isinstance(record.get("sessionId"), str):
        return False
    return kind in _NOTES or ("parentUuid" in record and "uuid" in record)


def _of_subagent(state: State, file: str, lines: Sequence[LogLine]) -> State:
    """A sub-agent's own transcript only tells whose it is."""
    if state.parent_session_id is not None:
        return state
    for record in records(file, lines, Unreadable(0, ())):
        if isinstance(record, dict) and isinstance(parent := record.get("sessionId"), str):
            return state._replace(parent_session_id=parent[:_LONGEST_ID])
    return state


def _agents_beginning(file: str, lines: Sequence[LogLine]) -> int:
    """1 where the lines begin a file of a sub-agent that counts, else 0."""
    if not lines or lines[0].number != 1:
        return 0
    first = next(records(file, lines[:1], Unreadable(0, ())), None)
    return int(counts_as_subagent(file, record_of(first) if isinstance(first, dict) else None))


def _headless(entrypoint: str | None, seems_headless: bool | None) -> bool | None:
    """What the entry point says, and in versions that don't name it what the first record seemed to say."""
    return seems_headless if entrypoint is None else is_headless(entrypoint)


class _Session:
    """The state of a session, unfrozen while lines are fed. Its fields are those of `State`.

    `is_settled` says that the session's beginning is known, `is_plain` that nothing is in doubt about its turn: these
    two spare most records most questions. `reply` is the one whose cost is yet to be added.
    """

    __slots__ = (*State._fields, "cost", "is_plain", "is_settled", "reply", "resumed")

    session_id: str | None
    parent_session_id: str | None
    has_own: bool
    queued: str | None
    is_begun: bool
    attempt: int
    turn: Turn
    ending: Ending | None
    held: Ending | None
    command: str | None
    spoken: bool
    stop_reason: str | None
    waiting: bool
    entrypoint: str | None
    seems_headless: bool | None
    started: str | None
    moved: str | None
    agent: str | None
    model: str | None
    agent_version: str | None
    cwd: str | None
    prompt: str | None
    events: int
    tool_calls: int
    errors: int
    agent_chains: int
    agent_calls: int
    input_tokens: int
    output_tokens: int
    replies: dict[str, tuple[int, int]]
    calls: dict[str, None]
    launches: dict[str, None]

    def __init__(self, state: State) -> None:
        for field, value in zip(State._fields, state, strict=True):
            setattr(self, field, value)
        self.replies = {reply: (came, went) for reply, came, went in state.replies}
        self.calls = dict.fromkeys(state.calls)
        self.launches = dict.fromkeys(state.launches)
        self.is_settled = False
        self.is_plain = False
        self.reply: str | None = None
        self.cost = Usage()
        self.resumed: list[Resumed] = []

    def state(self, unreadable: Unreadable) -> State:
        """The state as it is now."""
        self._add_cost()
        now = {field: getattr(self, field) for field in State._fields}
        now["replies"] = tuple((reply, *cost) for reply, cost in self.replies.items())
        now["calls"], now["launches"] = tuple(self.calls), tuple(self.launches)
        now["unreadable"], now["complaints"] = unreadable.count, tuple(unreadable.complaints)
        return State(**now)

    def take(self, file: str, lines: Sequence[LogLine], unreadable: Unreadable) -> None:
        """Take in lines of the session's own transcript."""
        for line in lines:
            try:
                record = decode(line[1])
            except NOT_DECODED:
                for value in records(file, (line,), unreadable):
                    self._take(record_of(value) if isinstance(value, dict) else Record())
            else:
                self._take(record)

    def _take(self, record: Record) -> None:
        if record.is_sidechain:
            self.agent_chains += record.parent_uuid is None
            return
        self.events += 1
        kind, stamp = record.type, record.timestamp
        if stamp is not None and len(stamp) != _STAMP_LENGTH and not _is_time(stamp):
            stamp = None
        if kind not in _CHAINED:
            self._note(record, stamp)
            return
        if self.is_settled and record.entrypoint == self.entrypoint:
            is_copied = False
        else:
            is_copied = self._meet(record, stamp)
        if stamp is not None and not is_copied:
            self.moved = stamp
        if kind == "assistant":
            self._assistant(record, stamp, is_copied)
        elif kind == "user":
            self._user(record, stamp, is_copied)
        elif kind == "system":
            self._system(record, stamp, is_copied)
        elif (attachment := record.attachment) and attachment.type == "max_turns_reached" and not is_copied:
            self._ends(Ending(turns_used_up(attachment.max_turns), stamp))

    def _meet(self, record: Record, stamp: str | None) -> bool:
        """Learn what each record of the main chain repeats; whether this one was copied from a fork's origin."""
        if record.entrypoint is not None:
            self.entrypoint = record.entrypoint[:_LONGEST_ID]
        self.cwd = self.cwd or _clipped(record.cwd, _LONGEST_TEXT)
        self.agent_version = self.agent_version or _clipped(record.version, _LONGEST_ID)
        if not self.has_own:
            self._origin(record)
        self.attempt = self.attempt or 1
        if not self.is_begun and stamp is not None and self.queued is not None and stamp < self.queued:
            return True
        self.started = self.started or stamp
        known = self.has_own and self.is_begun and self.cwd and self.agent_version and self.started
        self.is_settled = bool(known)
        return False

    def _origin(self, record: Record) -> None:
        """A fork's first records are copies: they may name the session they are from."""
        forked = record.forked_from
        if forked is not None:
            self.parent_session_id = self.parent_session_id or _clipped(forked.session_id, _LONGEST_ID)
        named = _clipped(record.session_id, _LONGEST_ID)
        self.session_id = self.session_id or named
        if named == self.session_id:
            self.has_own = named is not None and forked is None
        else:
            self.parent_session_id = self.parent_session_id or named

    def _note(self, record: Record, stamp: str | None) -> None:
        """A record beside the conversation."""
        if stamp is not None:
            self.moved = stamp
        if record.type == "queue-operation":
            self._queue(record, stamp)
        elif record.type == "file-history-snapshot" and self.attempt == 0 and self.seems_headless is None:
            self.seems_headless = False
        elif record.type == "agent-setting":
            self.agent = _clipped(record.agent_setting, _LONGEST_ID) or self.agent

    def _queue(self, record: Record, stamp: str | None) -> None:
        """A prompt is queued before it is taken up: of a headless run this is what is written first."""
        is_first = self.attempt == 0
        self.attempt = self.attempt or 1
        self.started = self.started or stamp
        self.session_id = self.session_id or _clipped(record.session_id, _LONGEST_ID)
        text = text_of(record.content)
        if record.operation != "enqueue" or text.startswith("<task-notification>"):
            return
        if is_first:
            self.queued = stamp
            if self.seems_headless is None:
                self.seems_headless = True
        self.prompt = self.prompt or clip_prompt(text) or None
        if self.turn == "none" or (self.turn == "closed" and self._is_headless()):
            self._prompted(stamp)

    def _system(self, record: Record, stamp: str | None, is_copied: bool) -> None:
        subtype = record.subtype
        if subtype == "api_error":
            self.errors += 1
        elif is_copied:
            return
        elif subtype in TURN_ENDS:
            if self.turn == "open" and self.spoken:
                self._ends(Ending(ended_by_itself(self.stop_reason), stamp))
        elif subtype == "local_command":
            self._command_answered(stamp)

    def _user(self, record: Record, stamp: str | None, is_copied: bool) -> None:
        content = content_of(record)
        if isinstance(content, list) and self._results(content, stamp, is_copied):
            return
        if is_copied:
            return
        text = text_of(content)
        match user_record(record, content, text):
            case "prompt":
                self.prompt = self.prompt or clip_prompt(text) or None
                self._prompted(stamp)
                self.is_begun = True
            case "interruption":
                self._ends(Ending(INTERRUPTED, stamp))
            case "command":
                self._commanded(command_text(text), stamp)
            case "command_output":
                self._command_answered(stamp)
            case "follow_up":
                self._goes_on()

    def _results(self, content: list[Block], stamp: str | None, is_copied: bool) -> bool:
        """Whether a content carries tools' results: then the agent works on, unless one says it was interrupted."""
        has_results = is_interrupted = False
        for block in content:
            if block.type == "tool_result":
                has_results = True
                if block.is_error:
                    self.errors += 1
                    is_interrupted = is_interrupted or says_interrupted(block)
                if self.launches:
                    self._agent_answered(block)
        if has_results and not is_copied:
            if is_interrupted:
                self._ends(Ending(INTERRUPTED, stamp))
            else:
                self._opens()
        return has_results

    def _agent_answered(self, result: Block) -> None:
        """A sub-agent's result: one that could not be started was none."""
        call = (result.tool_use_id or "")[:_LONGEST_ID]
        if call in self.launches:
            del self.launches[call]
            self.agent_calls -= result.is_error is True

    def _assistant(self, record: Record, stamp: str | None, is_copied: bool) -> None:
        if record.is_api_error_message:
            self.errors += 1
            if not is_copied:
                self._ends(Ending(api_error(content_of(record)), stamp))
            return
        message = record.message
        if not isinstance(message, Message):
            message = _NOTHING_SAID
        if message.model != self.model:
            if message.model == SYNTHETIC:
                self._says_nothing()
                return
            self.model = _clipped(message.model, _LONGEST_ID) or self.model
        if message.usage is not None:
            self._costs(message.id, message.usage)
        called = is_asking = False
        if isinstance(message.content, list):
            for block in message.content:
                if block.type == "tool_use":
                    called = True
                    is_asking = is_asking or block.name in ASKING_TOOLS
                    self._calls(block)
        if is_copied:
            return
        reason = message.stop_reason
        if not called and (reason == "end_turn" or reason == "stop_sequence"):
            self._ends(Ending(COMPLETED, stamp))
            return
        self._opens()
        if is_asking:
            self.waiting, self.is_plain = True, False
        elif not called and reason != "tool_use":
            self.spoken, self.stop_reason, self.is_plain = True, _clipped(reason, _LONGEST_ID), False

    def _says_nothing(self) -> None:
        """A record that no model wrote: what Claude Code put there to go on with was not asked of the model."""
        if self.held is not None:
            self._ends(self.held)

    def _calls(self, call: Block) -> None:
        """Count a tool's call, once by its id."""
        if call.id is not None:
            name = call.id[:_LONGEST_ID]
            if name in self.calls:
                return
            _remember(self.calls, name)
            if call.name in AGENT_TOOLS:
                _remember(self.launches, name)
        self.tool_calls += 1
        self.agent_calls += call.name in AGENT_TOOLS

    def _costs(self, reply: str | None, usage: Usage) -> None:
        """A reply's lines repeat its cost: what the last of them says counts."""
        if reply is None or reply != self.reply:
            self._add_cost()
            self.reply = reply or ""
        self.cost = usage

    def _add_cost(self) -> None:
        """Add what the last reply cost, and take off what an earlier line of it had said."""
        if self.reply is None:
            return
        reply, usage = self.reply[:_LONGEST_ID], self.cost
        came = usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens
        went = usage.output_tokens
        replies = self.replies
        before = replies.get(reply, _FREE) if reply else _FREE
        replies[reply] = (came, went)
        if len(replies) > REPLIES_KEPT:
            del replies[next(iter(replies))]
        self.input_tokens += came - before[0]
        self.output_tokens += went - before[1]
        self.reply = None

    def _is_headless(self) -> bool:
        return _headless(self.entrypoint, self.seems_headless) is True

    def _opens(self) -> None:
        """The agent works: on a prompt, on a tool's result, or on what it is saying."""
        self.turn, self.ending = "open", None
        if not self.is_plain:
            self.prompt = self.prompt or clip_prompt(self.command or "") or None
            self.held = self.command = self.stop_reason = None
            self.waiting = self.spoken = False
            self.is_plain = True

    def _ends(self, ending: Ending) -> None:
        self._opens()
        self.turn, self.ending = "closed", ending

    def _prompted(self, stamp: str | None) -> None:
        """A new prompt; to a headless session that had ended it begins the next attempt."""
        before = self.ending or self.held
        self._opens()
        if before is not None and self._is_headless():
            self.attempt += 1
            self.started = stamp
            self.is_settled = False
            self.resumed.append(Resumed(self.attempt, before.told(), parse_time(stamp)))

    def _goes_on(self) -> None:
        """The model is given more without a person's word: an end that was told is in doubt until it speaks."""
        before = self.ending or self.held
        self._opens()
        self.held, self.is_plain = before, False

    def _commanded(self, command: str, stamp: str | None) -> None:
        """A slash command: a prompt, unless the program answers it itself. While the agent works it is an aside."""
        if self._is_headless():
            self._prompted(stamp)
        elif self.turn == "open":
            return
        else:
            self._goes_on()
        self.is_begun, self.command, self.is_plain = True, command, False

    def _command_answered(self, stamp: str | None) -> None:
        """The program answered a command itself: the session is where it was before, and a headless one is done."""
        if self.command is None:
            return
        before, self.command = self.held, None
        if self._is_headless():
            self._ends(Ending(ANSWERED, stamp))
        elif before is not None:
            self._ends(before)
        else:
            self._opens()
            self.turn = "none"


def _is_time(stamp: str) -> bool:
    return len(stamp) <= _LONGEST_STAMP and stamp[10:11] == "T"


def _remember(known: dict[str, None], call: str) -> None:
    """Keep a call's id, and forget the oldest where there are too many."""
    known[call] = None
    if len(known) > CALLS_KEPT:
        del known[next(iter(known))]


def _clipped(text: str | None, longest: int) -> str | None:
    """A text that is there, clipped; None for an empty one too."""
    return text[:longest] if text else None
