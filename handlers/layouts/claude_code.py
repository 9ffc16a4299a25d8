"""Claude Code's transcripts: `<session id>.jsonl`, with the files of the session's sub-agents next to it.

One record per line: the conversation's main chain (`user`, `assistant`, `attachment`, `system`), records of
sub-agents among it in old versions (`isSidechain`), and notes (`queue-operation`, `last-prompt`, `summary`, …). A
turn is open from a prompt until a reply that says it is the last one, an error, a limit, or a person's interruption.
Nothing records a kill, but the session's process may show it (see `claude_code_pid`)."""

import re
from collections.abc import Sequence
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.claude_code_meanings import counts_as_subagent, is_subagent_file
from runward.handlers.layouts.claude_code_records import record_of
from runward.handlers.layouts.claude_code_session import Session
from runward.handlers.layouts.claude_code_state import LONGEST_ID, VERSION, State, headless
from runward.handlers.layouts.kept_state import KeepsState
from runward.handlers.layouts.transcript import Counts, LogLine, Resumed, Told, Usage
from runward.handlers.layouts.transcript_lines import Unreadable, records
from runward.handlers.model.sessions import Document

LAYOUT: Final = "claude-code"

_SESSION_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SPEAKERS: Final = ("user", "assistant")

_LONG_BEGINNING: Final = 200_000
"""Bytes of a beginning after which the first word of the conversation may come later: attachments may be that long."""


class ClaudeCodeScanner(KeepsState[State]):
    """Scans one session's transcript and, for their number alone, the files of its sub-agents."""

    def start(self, name: str) -> State:
        file = name.rsplit("/", 1)[-1]
        stem = file.split(".", 1)[0]
        if is_subagent_file(name):
            return State(VERSION, session_id=stem.removeprefix("agent-")[:LONGEST_ID], is_subagent=True)
        return State(VERSION, session_id=stem if _SESSION_ID.fullmatch(stem) else None)

    def feed(self, state: State, file: str, lines: Sequence[LogLine]) -> tuple[State, tuple[Resumed, ...]]:
        if state.is_subagent:
            return _of_subagent(state, file, lines), ()
        if is_subagent_file(file):
            return state._replace(agent_files=state.agent_files + _agents_beginning(file, lines)), ()
        session = Session(state)
        unreadable = Unreadable(state.unreadable, state.complaints)
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
        )


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


def _agents_beginning(file: str, lines: Sequence[LogLine]) -> int:
    """1 if the lines begin a file of a sub-agent that counts, else 0."""
    if not lines or lines[0].number != 1:
        return 0
    first = next(records(file, lines[:1], Unreadable(0, ())), None)
    return int(counts_as_subagent(file, record_of(first) if isinstance(first, dict) else None))
