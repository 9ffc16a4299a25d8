"""Claude Code's transcripts, `<session id>.jsonl`, with the files of the session's sub-agents next to it. And pid files.

Also what a transcript contains for a replay: the session's calls, its texts and its last message.

A transcript has one record per line: the conversation's main chain (`user`, `assistant`, `attachment`, `system`),
records of sub-agents among it in old versions (`isSidechain`), and notes (`queue-operation`, `last-prompt`,
`summary`, …). A turn is open from a prompt until a reply that says it is the last one, an error, a limit, or a
person's interruption. Nothing records a kill, but the session's process may show it.

A pid file, `sessions/<pid>.json`, says which process runs a session now, and what it is doing. It is written when the
program starts and removed when it ends, unless it ends by SIGKILL. It is removed before the last lines of the
transcript are written, and the next start removes what a kill left: code that needs the process remembers it. Whether
it is alive is for the daemon to find out: by pid and start time.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from runward.config.json_value import LATEST, JsonValue
from runward.handlers.calls import Called, Paid, Place, Unusable, answered
from runward.handlers.calls import Told as ToldCall
from runward.handlers.foreign_json import NotJson, parse_time, read_json
from runward.handlers.layouts.call_readers import (
    CallLayout,
    CallReader,
    LinesBeside,
    PlacedLine,
    Plans,
    WithoutDocuments,
)
from runward.handlers.layouts.claude_code_cost import Accounts
from runward.handlers.layouts.claude_code_records import (
    LONGEST_ID,
    NOT_DECODED,
    SESSION_ID,
    SYNTHETIC,
    Block,
    Message,
    Record,
    content_of,
    decode,
    every_text_of,
    is_headless,
    is_subagent_file,
    record_of,
    text_of,
    user_record,
)
from runward.handlers.layouts.claude_code_records import Usage as ReplyUsage
from runward.handlers.layouts.claude_code_session import Session
from runward.handlers.layouts.claude_code_state import VERSION, State, headless
from runward.handlers.layouts.foreign_values import value_in
from runward.handlers.layouts.transcript import Counts, KeepsState, LogLine, Resumed, Said, Told, Usage
from runward.handlers.layouts.transcript_lines import Unreadable, records
from runward.handlers.model.sessions import Document

LAYOUT: Final = "claude-code"
SHOWN_BY: Final = (
    "a prompt or a reply with `sessionId`, `uuid` and `parentUuid`, whose message has a "
    "`content`, or a queued prompt"
)

_SPEAKERS: Final = ("user", "assistant")

_LONG_BEGINNING: Final = 200_000
"""Bytes of a beginning after which the first word of the conversation may come later: attachments may be that long."""


class ClaudeCodeScanner(KeepsState[State]):
    """Scans one session's transcript and, for their number and what they cost, the files of its sub-agents."""

    def start(self, name: str) -> State:
        file = name.rsplit("/", 1)[-1]
        stem = file.split(".", 1)[0]
        if is_subagent_file(name):
            return State(VERSION, session_id=stem.removeprefix("agent-")[:LONGEST_ID], is_subagent=True)
        return State(VERSION, session_id=stem if SESSION_ID.fullmatch(stem) else None)

    def feed(self, state: State, file: str, lines: Sequence[LogLine]) -> tuple[State, tuple[Resumed, ...]]:
        if state.is_subagent:
            return _of_subagent(state, file, lines), ()
        session = Session(state)
        unreadable = Unreadable(state.unreadable, state.complaints)
        if is_subagent_file(file):
            session.take_of_agent(file, lines)
        else:
            session.take(file, lines, unreadable)
        return session.state(unreadable), tuple(session.resumed)

    def see(self, state: State, documents: Sequence[Document]) -> State:
        """A transcript has no further documents that say more."""
        return state

    def tell(self, state: State) -> Told:
        return Told(
            session_id=state.session_id,
            parent_session_id=state.parent_session_id,
            is_subagent=state.is_subagent,
            attempt=state.attempt,
            turn=state.turn,
            close=None if state.ending is None else state.ending.told(),
            headless=headless(state.entrypoint, state.seems_headless),
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
            usage=Usage(state.input_tokens, state.output_tokens) if state.replies else None,
            unreadable=state.unreadable,
            complaints=state.complaints,
            turns=state.turns,
            counted=state.counted,
        )

    def taken(self, state: State) -> State:
        return state._replace(counted=())


SCANNER: Final = ClaudeCodeScanner(State, is_exact=True)


def recognises_log(name: str, head: bytes) -> bool:
    """Whether a file that begins with `head` (whole lines, or a first line that is cut) is such a transcript.

    It has a word of the conversation in Claude Code's form. Other tools chain their records in the same way, and Claude
    Code also writes files with notes alone, which don't belong to a session.
    """
    contents = head.split(b"\n")
    whole = contents[:-1] or contents
    lines = [LogLine(number, content, whole is contents) for number, content in enumerate(whole, 1)]
    is_own = _is_chained if len(head) >= _LONG_BEGINNING else _is_word
    return any(
        isinstance(record, dict) and is_own(record) for record in records(name, lines, Unreadable(0, ()))
    )


def _is_word(record: dict[str, JsonValue]) -> bool:
    """Whether a record is something that was said, in a message with a content. In Gemini's and Qwen's it has parts.

    A headless session begins with its prompt in the queue.
    """
    if record.get("type") == "queue-operation" and record.get("operation") == "enqueue":
        return bool(record.get("content")) and isinstance(record.get("sessionId"), str)
    if record.get("type") not in _SPEAKERS or not _has_a_place(record):
        return False
    message = record.get("message")
    return isinstance(message, str) or (isinstance(message, dict) and "content" in message)


def _is_chained(record: dict[str, JsonValue]) -> bool:
    """Whether a record belongs to a chain of Claude Code's, which has side chains."""
    return isinstance(record.get("isSidechain"), bool) and _has_a_place(record)


def _has_a_place(record: dict[str, JsonValue]) -> bool:
    return isinstance(record.get("sessionId"), str) and "parentUuid" in record and "uuid" in record


def _of_subagent(state: State, file: str, lines: Sequence[LogLine]) -> State:
    """A sub-agent's own transcript only tells whose it is."""
    if state.parent_session_id is not None:
        return state
    for record in records(file, lines, Unreadable(0, ())):
        if isinstance(record, dict) and isinstance(parent := record.get("sessionId"), str):
            return state._replace(parent_session_id=parent[:LONGEST_ID])
    return state


_WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_LONGEST_TEXT: Final = 4096


class PidFile(NamedTuple):
    """What a pid file says. `start_ticks` is the process's start time as /proc/<pid>/stat has it, in clock ticks.

    `status` is `busy`, `idle` or `waiting` (then `waiting_for` says for what: `permission prompt`) if a person runs
    the session, and None if a program does. `entrypoint` tells the two apart, `kind` does not: it is
    `interactive` for both. `started_at` is in Unix seconds.
    """

    pid: int
    session_id: str
    start_ticks: int | None
    status: str | None
    waiting_for: str | None
    kind: str | None
    entrypoint: str | None
    headless: bool | None
    cwd: str | None
    version: str | None
    started_at: float | None


def read_pid_file(content: bytes) -> PidFile | None:
    """What a pid file with this content says. None if it is torn or half written, or not a pid file.

    It is overwritten in place, so a reader may see it empty, cut, or with the end of what was there before. A later
    look finds it whole.
    """
    # A name that was cut in the middle of a character leaves it readable.
    value = value_in(msgspec.Raw(content)).value
    if not isinstance(value, dict):
        return None
    pid, session_id = value.get("pid"), _text(value.get("sessionId"))
    if isinstance(pid, bool) or not isinstance(pid, int) or not 0 < pid < 2**31 or session_id is None:
        return None
    entrypoint = _text(value.get("entrypoint"))
    return PidFile(
        pid=pid,
        session_id=session_id,
        start_ticks=_ticks(value.get("procStart")),
        status=_text(value.get("status")),
        waiting_for=_text(value.get("waitingFor")),
        kind=_text(value.get("kind")),
        entrypoint=entrypoint,
        headless=is_headless(entrypoint),
        cwd=_text(value.get("cwd")),
        version=_text(value.get("version")),
        started_at=_seconds(value.get("startedAt")),
    )


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT else None


def _ticks(value: JsonValue) -> int | None:
    return int(value) if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value) else None


def _seconds(value: JsonValue) -> float | None:
    """Milliseconds since 1970 in seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value / 1000 if 0 <= value <= LATEST * 1000 else None


# Calls are `tool_use` blocks of replies, and the `tool_result` blocks that answer them. Records of sub-agents
# (`isSidechain`), and records that a fork copied from its origin, do not belong to the session. A failed Bash command gives
# its exit code in the error's text. A successful one has 0: Claude Code reports anything else as an error, or says how it
# interpreted the code.

PLAN_TOOL: Final = "TodoWrite"

_CALL: Final = b'"tool_use"'
_RESULT: Final = b'"tool_result"'
_TELLING: Final = (_RESULT, _CALL, b'"cost-state"', b'"requestSessionId"')
_EXIT: Final = re.compile(r"(?:Error: )?Exit code (\d{1,3})\b")
_LONGEST_STAMP: Final = 40


@dataclass(slots=True)
class CallsState:
    """What is known so far. `queued` is when a prompt was queued before anything else was written; records that a fork
    copied are older. `begun` says that a record of the session's own was met. `reply` made the last call.
    """

    session: str | None = None
    is_subagent: bool = False
    met: bool = False
    queued: str | None = None
    begun: bool = False
    reply: str | None = None


class ClaudeCodeCalls(WithoutDocuments):
    """Reads one transcript."""

    def __init__(self, state: CallsState, lines_beside: LinesBeside = lambda name: ()) -> None:
        self._state = state
        self._accounts = Accounts(lines_beside)
        self._plans = Plans()
        self._copied: set[str] = set()
        """Calls that a fork copied from its origin."""

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[ToldCall]:
        """What further lines say. Most of them say nothing, so they aren't parsed."""
        state = self._state
        if state.is_subagent:
            return
        for line in lines:
            content = line.content
            counts = self._accounts.needs_all or not state.begun
            if not counts and not any(word in content for word in _TELLING):
                continue
            try:
                record = decode(content)
            except NOT_DECODED:
                yield from self._fixed(source, line)
            else:
                yield from self._record(line.place(source), record, None)

    def _fixed(self, source: str, line: PlacedLine) -> Iterator[ToldCall]:
        """What can be read of a line that is not quite as Claude Code writes them."""
        place, content = line.place(source), line.content
        strict = read_json(content)
        problem = strict.message if isinstance(strict, NotJson) else None
        unreadable = Unreadable(0, ())
        for value in records(source, (LogLine(line.number, content),), unreadable):
            if isinstance(value, dict):
                yield from self._record(place, record_of(value), problem)
        if unreadable.count and (_CALL in content or _RESULT in content):
            yield Unusable(place, unreadable.complaints[0].message)

    def _record(self, place: Place, record: Record, problem: str | None) -> Iterator[ToldCall]:
        if record.is_sidechain:
            return
        if self._is_copied(record):
            self._accounts.copied(record)
            if isinstance(record.message, Message) and isinstance(record.message.content, list):
                self._copied.update(block.id for block in record.message.content if block.id)
            return
        self._accounts.own(record)
        if record.type == "cost-state" and record.session_id == self._state.session:
            usd = self._accounts.added(record)
            if usd != 0:
                yield Paid(place, None, usd)
        message = record.message
        if not isinstance(message, Message) or not isinstance(message.content, list):
            return
        at = parse_time(record.timestamp)
        for block in message.content:
            if block.type == "tool_use" and record.type == "assistant":
                yield from self._called(place, at, message, block, problem)
            elif (
                block.type == "tool_result"
                and record.type == "user"
                and block.tool_use_id not in self._copied
            ):
                yield _returned(place, at, block, record.tool_use_result, problem)

    def _is_copied(self, record: Record) -> bool:
        """Whether the record was copied from a fork's origin, or begins nothing yet."""
        state = self._state
        kind, stamp = record.type, record.timestamp
        asked_by = record.request_session_id
        if record.forked_from is not None or (asked_by is not None and asked_by != record.session_id):
            return True
        if state.begun:
            return False
        named = record.session_id
        if named is not None and named != state.session:
            if state.session is not None:
                return True
            state.session = named
        if kind == "queue-operation" and not state.met and record.operation == "enqueue":
            state.queued = stamp and stamp[:_LONGEST_STAMP]
        state.met = True
        if kind not in ("user", "assistant"):
            return False
        if state.queued is not None and stamp is not None and stamp < state.queued:
            return True
        state.begun = True
        return False

    def _called(
        self, place: Place, at: float | None, message: Message, block: Block, problem: str | None
    ) -> Iterator[ToldCall]:
        if not block.id or not block.name:
            yield Unusable(place, f"a tool_use without {'id' if not block.id else 'name'}")
            return
        tokens = None
        if message.id is None or message.id != self._state.reply:
            self._state.reply = message.id
            tokens = None if message.usage is None else _tokens(message.usage)
        params, unhashable = value_in(block.input)
        yield Called(
            place=place,
            at=at,
            id=block.id,
            tool=block.name,
            params=params,
            step_id=None,
            tokens=tokens,
            problem=problem or unhashable,
        )
        if block.name == PLAN_TOOL and isinstance(params, dict):
            yield from self._plans.told(place, at, params.get("todos"), ("id", "content"))


def _returned(
    place: Place, at: float | None, block: Block, result: msgspec.Raw, problem: str | None
) -> ToldCall:
    if not block.tool_use_id:
        return Unusable(place, "a tool_result without tool_use_id")
    content, unhashable = value_in(block.content)
    if block.is_error:
        code = _EXIT.match(content) if isinstance(content, str) else None
        exit_code = None if code is None else int(code[1])
    else:
        exit_code = _went_well(result)
    return answered(
        place,
        at,
        block.tool_use_id,
        content,
        failed=bool(block.is_error),
        exit_code=exit_code,
        problem=problem or unhashable,
    )


class _Command(msgspec.Struct, rename="camel"):
    """What Claude Code keeps for itself about a command that it ran."""

    stdout: msgspec.Raw
    interrupted: bool = False
    background_task_id: str | None = None
    return_code_interpretation: str | None = None


_COMMAND: Final = msgspec.json.Decoder(_Command)


def _went_well(result: msgspec.Raw) -> int | None:
    """0 if this is the record of a command that ended on its own without an error. None for anything else."""
    if not len(result):
        return None
    try:
        command = _COMMAND.decode(result)
    except NOT_DECODED:
        return None
    is_plain = not command.interrupted and command.background_task_id is None
    return 0 if is_plain and command.return_code_interpretation is None else None


def _tokens(usage: ReplyUsage) -> int:
    came = usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens
    return came + usage.output_tokens


def _start(name: str, lines_beside: LinesBeside) -> CallReader:
    stem = name.rsplit("/", 1)[-1].split(".", 1)[0]
    session = stem if SESSION_ID.fullmatch(stem) else None
    return ClaudeCodeCalls(CallsState(session=session, is_subagent=is_subagent_file(name)), lines_beside)


CALLS: Final = CallLayout(_start)


_PERSONS: Final = ("prompt", "command", "shell", "interruption")


def message_in(line: bytes) -> Said | None:
    """The text that a line adds to the conversation. None if it adds none, or can't be read."""
    try:
        record = decode(line)
    except NOT_DECODED:
        return None
    if record.is_sidechain or record.type not in ("assistant", "user"):
        return None
    content = content_of(record)
    text = every_text_of(content)
    if not text:
        return None
    at = parse_time(record.timestamp)
    if record.type == "user":
        return Said(at, "user" if user_record(record, content, text) in _PERSONS else "system", text)
    model = record.message.model if isinstance(record.message, Message) else None
    is_own = record.is_api_error_message or model == SYNTHETIC
    return Said(at, "system" if is_own else "assistant", text)


_ASIDES = ("command", "command_output", "caveat", "shell", "follow_up", "aside")
"""User records that are unanswered if they come after the last reply."""


def final_message(newest_first: Iterable[bytes]) -> str | None:
    """The text of the session's last reply. None if it called a tool, or if something waits for an answer.

    A reply may be split over several lines, one for each of its parts. Lines that can't be read are skipped.
    """
    parts: list[str] = []
    reply: str | None = None
    for line in newest_first:
        try:
            record = decode(line)
        except NOT_DECODED:
            continue
        if record.is_sidechain or record.type not in ("assistant", "user"):
            continue
        if record.type == "user":
            if parts:
                break
            if _wants_an_answer(record):
                return None
            continue
        message = record.message
        if not isinstance(message, Message) or record.is_api_error_message:
            return _whole(parts)
        if message.model == SYNTHETIC:
            continue
        if parts and (message.id is None or message.id != reply):
            break
        if isinstance(message.content, list) and any(each.type == "tool_use" for each in message.content):
            return None
        reply = message.id
        parts.append(every_text_of(message.content))
    return _whole(parts)


def _whole(newest_first: list[str]) -> str | None:
    return "".join(reversed(newest_first)) or None


def _wants_an_answer(record: Record) -> bool:
    content = content_of(record)
    if isinstance(content, list) and any(_is_result(each) for each in content):
        return True
    return user_record(record, content, text_of(content)) not in _ASIDES


def _is_result(block: Block) -> bool:
    return block.type == "tool_result"
