"""Claude Code's transcripts, `<session id>.jsonl`, with the files of the session's sub-agents next to it. And pid files.

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
from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.config.json_value import LATEST, JsonValue
from runward.handlers.foreign_json import NotJson, parse_time, read_json
from runward.handlers.layouts.claude_code_records import (
    LONGEST_ID,
    SESSION_ID,
    counts_as_subagent,
    is_headless,
    is_subagent_file,
    record_of,
)
from runward.handlers.layouts.claude_code_session import VERSION, Session, State, headless
from runward.handlers.layouts.transcript import Counts, KeepsState, LogLine, Resumed, Told, Usage
from runward.handlers.layouts.transcript_lines import Unreadable, records
from runward.handlers.model.sessions import Document

LAYOUT: Final = "claude-code"

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
        return State(VERSION, session_id=stem if SESSION_ID.fullmatch(stem) else None)

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
    value = read_json(content)
    if isinstance(value, NotJson) or not isinstance(value, dict):
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
