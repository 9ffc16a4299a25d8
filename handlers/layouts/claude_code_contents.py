"""What a Claude Code transcript contains: its calls, its texts, and its last message.

Calls are `tool_use` blocks of replies, and the `tool_result` blocks that answer them. Records of sub-agents
(`isSidechain`), and records that a fork copied from its origin, do not belong to the session. A failed Bash command
gives its exit code in the error's text. A successful one has 0: Claude Code reports anything else as an error, or says
how it interpreted the code.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from runward.handlers.calls import Called, Place, Returned, Told, Unusable
from runward.handlers.foreign_json import NotJson, parse_time, read_json
from runward.handlers.layouts.call_readers import CallLayout, CallReader, PlacedLine, Plans
from runward.handlers.layouts.claude_code_records import (
    NOT_DECODED,
    SESSION_ID,
    SYNTHETIC,
    Block,
    Message,
    Record,
    Usage,
    content_of,
    decode,
    every_text_of,
    is_subagent_file,
    record_of,
    text_of,
    user_record,
)
from runward.handlers.layouts.foreign_values import value_in
from runward.handlers.layouts.transcript import LogLine, Said
from runward.handlers.layouts.transcript_lines import Unreadable, records
from runward.handlers.model.sessions import Document

PLAN_TOOL: Final = "TodoWrite"

_CALL: Final = b'"tool_use"'
_RESULT: Final = b'"tool_result"'
_EXIT: Final = re.compile(r"(?:Error: )?Exit code (\d{1,3})\b")
_LONGEST_STAMP: Final = 40


@dataclass(slots=True)
class State:
    """What is known so far. `queued` is when a prompt was queued before anything else was written; records that a fork
    copied are older. `begun` says that a record of the session's own was met. `reply` made the last call.
    """

    session: str | None = None
    is_subagent: bool = False
    met: bool = False
    queued: str | None = None
    begun: bool = False
    reply: str | None = None


class ClaudeCodeCalls:
    """Reads one transcript."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._plans = Plans()

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[Told]:
        """What further lines say. Most of them say nothing, so they aren't parsed."""
        state = self._state
        if state.is_subagent:
            return
        for line in lines:
            content = line.content
            if state.begun and _RESULT not in content and _CALL not in content:
                continue
            try:
                record = decode(content)
            except NOT_DECODED:
                yield from self._fixed(source, line)
            else:
                yield from self._record(line.place(source), record, None)

    def see(self, document: Document) -> Iterator[Told]:
        """There are none."""
        return iter(())

    def _fixed(self, source: str, line: PlacedLine) -> Iterator[Told]:
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

    def _record(self, place: Place, record: Record, problem: str | None) -> Iterator[Told]:
        if record.is_sidechain or self._is_copied(record):
            return
        message = record.message
        if not isinstance(message, Message) or not isinstance(message.content, list):
            return
        at = parse_time(record.timestamp)
        for block in message.content:
            if block.type == "tool_use" and record.type == "assistant":
                yield from self._called(place, at, message, block, problem)
            elif block.type == "tool_result" and record.type == "user":
                yield _returned(place, at, block, record.tool_use_result, problem)

    def _is_copied(self, record: Record) -> bool:
        """Whether the record was copied from a fork's origin, or begins nothing yet."""
        state = self._state
        kind, stamp = record.type, record.timestamp
        if record.forked_from is not None:
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
    ) -> Iterator[Told]:
        if not block.id or not block.name:
            yield Unusable(place, f"a tool_use without {'id' if not block.id else 'name'}")
            return
        tokens = None
        if message.id is None or message.id != self._state.reply:
            self._state.reply = message.id
            tokens = None if message.usage is None else _tokens(message.usage)
        params, unhashable = value_in(block.input)
        yield Called(place, at, block.id, block.name, params, None, tokens, problem or unhashable)
        if block.name == PLAN_TOOL and isinstance(params, dict):
            yield from self._plans.told(place, at, params.get("todos"), ("id", "content"))


def _returned(place: Place, at: float | None, block: Block, result: msgspec.Raw, problem: str | None) -> Told:
    if not block.tool_use_id:
        return Unusable(place, "a tool_result without tool_use_id")
    content, unhashable = value_in(block.content)
    problem = problem or unhashable
    if block.is_error:
        code = _EXIT.match(content) if isinstance(content, str) else None
        exit_code = None if code is None else int(code[1])
        return Returned(place, at, block.tool_use_id, None, content, False, exit_code, problem=problem)
    return Returned(place, at, block.tool_use_id, content, exit_code=_went_well(result), problem=problem)


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


def _tokens(usage: Usage) -> int:
    came = usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens
    return came + usage.output_tokens


def _start(name: str) -> CallReader:
    stem = name.rsplit("/", 1)[-1].split(".", 1)[0]
    session = stem if SESSION_ID.fullmatch(stem) else None
    return ClaudeCodeCalls(State(session=session, is_subagent=is_subagent_file(name)))


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
