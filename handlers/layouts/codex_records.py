"""Single records of a Codex rollout, what they say of its turns, and the names of its files.

Most of a rollout's bytes are prompts, outputs and settings that are not needed here. They are checked to be JSON and
skipped, which is several times as fast as building them. The fields that are read may hold anything: their types are
never taken for granted.

In rollouts of Codex up to 0.29 a line is a bare record, without a time and without the kind of the record. The first
line describes the thread. What is recorded together comes after a line with the program's state: a prompt, or a whole
reply with its calls and their outputs. That is written once the tools are finished. For Codex itself, a turn is over
when a reply calls no tool. If a thread is resumed, or forked, into a file of its own (0.29), the copied records come
there as one such batch.

Turns are followed record by record as Codex's own turn lifecycle does. Since 0.104 they have ids, and their start and
end are recorded. Before, only interrupts were. There a prompt begins a turn, and its end has to be guessed from a reply
that is complete and calls no tool.
"""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple, Required, TypedDict, cast

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.foreign_values import LONGEST_PATH, UUID, whole_text_in
from runward.handlers.layouts.transcript import Close, LogLine, Resumed, Turn, closed
from runward.handlers.layouts.transcript_lines import MOST_GLUED, decode
from runward.handlers.model.reasons import ReasonCode

LOCKS: Final = "thread-writer-locks"
"""The directory of Codex's home that holds the lock files of the threads that are being written."""

_THREAD: Final = re.compile(UUID, re.ASCII)
_ROLLOUT: Final = re.compile(
    rf"rollout-\d{{4}}-\d\d-\d\dT\d\d-\d\d-\d\d-({UUID})(?:_{UUID})?\.jsonl(?:\.zst)?", re.ASCII
)


# A rollout keeps its thread's id in its name even if it is moved, archived or compressed. So the name tells which thread
# it belongs to, and its directory doesn't.


def thread_of(name: str) -> str | None:
    """The id of the thread whose rollout has this file name (or path). None for any other file.

    A thread may be continued in a further file, whose name ends in `_` and another id: it is the same thread.
    """
    match = _ROLLOUT.fullmatch(name.rpartition("/")[2])
    return None if match is None else match[1]


def lock_of(thread: str) -> str | None:
    """The lock file that the thread's writer holds, relative to Codex's home. None for what is not a thread's id.

    The file alone proves nothing: a killed writer leaves it behind, and the next start of Codex removes it.
    """
    return f"{LOCKS}/{thread}.lock" if is_thread(thread) else None


def is_thread(value: JsonValue) -> bool:
    """Whether this has the form of Codex's thread ids."""
    return isinstance(value, str) and _THREAD.fullmatch(value) is not None


def made_at(identifier: str | None) -> int | None:
    """When Codex made this id, in Unix milliseconds: its ids are UUIDs of version 7. None for any other id."""
    if (
        identifier is None
        or len(identifier) != 36
        or not _THREAD.fullmatch(identifier)
        or identifier[14] != "7"
    ):
        return None
    return int(identifier[:8] + identifier[9:13], 16)


class _Item(TypedDict, total=False):
    type: object
    id: object
    status: object
    kind: object
    agent_thread_id: object
    content: object


class _Payload(TypedDict, total=False):
    type: object
    id: object
    session_id: object
    timestamp: object
    originator: object
    cli_version: object
    source: object
    thread_source: object
    parent_thread_id: object
    forked_from_id: object
    cwd: object
    thread_id: object
    turn_id: object
    turn_attribution: object
    thread_settings: object
    model: object
    role: object
    content: object
    message: object
    last_agent_message: object
    error: object
    codex_error_info: object
    reason: object
    num_turns: object
    item: _Item
    call_id: object
    name: object
    output: object
    success: object
    exit_code: object
    result: object
    kind: object
    agent_thread_id: object
    new_thread_id: object
    response_id: object
    usage: object
    info: object


class _Record(TypedDict, total=False):
    timestamp: object
    ordinal: object
    type: object
    payload: Required[_Payload]


_DECODER: Final = msgspec.json.Decoder(_Record)


def read_record(line: bytes) -> JsonValue:
    """The record of a line, without the fields that are not needed.

    JSON of another shape, including a bare record, is returned whole. Raises `ValueError` for what is not JSON.
    """
    try:
        return cast("JsonValue", _DECODER.decode(line))  # parsed JSON can't be anything else
    except (ValueError, RecursionError):
        return decode(line)


LONGEST_NAME: Final = 200

_WORKERS: Final = ("subagent", "guardian_review", "memory_consolidation")
_MAKERS_OF_BOTH: Final = ("codex_cli_rs",)
"""Originators that mean the terminal program and, up to 0.39, also `codex exec`."""


class Origin(NamedTuple):
    """What a thread says about itself when it is made.

    `parent` is the thread that it was forked from or that it works for. `headless` is None if both kinds of
    program describe themselves this way.
    """

    thread: str | None
    parent: str | None
    is_subagent: bool
    headless: bool | None
    made_at: float | None
    version: str | None
    cwd: str | None


def read_origin(payload: dict[str, JsonValue]) -> Origin:
    """What the payload of a `session_meta` says."""
    source, thread = payload.get("source"), thread_in(payload)
    is_subagent = _is_worker(source) or payload.get("thread_source") in _WORKERS
    parent = (
        name_in(payload.get("parent_thread_id")) or _spawner(source) or name_in(payload.get("forked_from_id"))
    )
    return Origin(
        thread=thread,
        parent=None if parent == thread else parent,
        is_subagent=is_subagent,
        # Nobody types to a sub-agent, whatever program its origin runs in.
        headless=True if is_subagent else _is_headless(source, payload.get("originator")),
        made_at=parse_time(payload.get("timestamp")),
        version=name_in(payload.get("cli_version")),
        cwd=whole_text_in(payload.get("cwd"), LONGEST_PATH),
    )


def thread_in(payload: dict[str, JsonValue]) -> str | None:
    """The id of the thread that the payload of a `session_meta` describes."""
    return name_in(payload.get("id")) or name_in(payload.get("session_id"))


def name_in(value: JsonValue) -> str | None:
    """A short text, or None."""
    return whole_text_in(value, LONGEST_NAME)


def _is_headless(source: JsonValue, originator: JsonValue) -> bool | None:
    if isinstance(source, str):
        return source == "exec"
    if originator == "codex_exec":
        return True
    return None if originator is None or originator in _MAKERS_OF_BOTH else False


def _is_worker(source: JsonValue) -> bool:
    if isinstance(source, dict):
        return not source.keys().isdisjoint(("subagent", "subAgent", "internal"))
    return isinstance(source, str) and source.startswith("subagent")


def _spawner(source: JsonValue) -> str | None:
    """The thread that ordered this one, as the source of a sub-agent names it."""
    subagent = source.get("subagent") if isinstance(source, dict) else None
    spawn = subagent.get("thread_spawn") if isinstance(subagent, dict) else None
    return name_in(spawn.get("parent_thread_id")) if isinstance(spawn, dict) else None


META: Final = "session_meta"
STATE: Final = "state"

_ASIDES: Final = ("<environment_context>", "<user_instructions>")
"""How the messages begin that Codex itself sends to the model in the person's name."""

_MARKED: Final = ("<", "# AGENTS.md instructions")

_CWD: Final = re.compile(r"<environment_context>\s*(?:<cwd>(.*)</cwd>|Current working directory: (.*))")


def kind_of(record: dict[str, JsonValue]) -> JsonValue:
    """What kind of record this is: an item of the conversation says so, the two others are recognised by their
    fields."""
    kind = record.get("type")
    if kind is not None:
        return None if kind in (META, STATE) else kind
    if record.get("record_type") == STATE:
        return STATE
    return META if "instructions" in record and is_thread(record.get("id")) else None


def is_aside(text: str) -> bool:
    """Whether this message to the model is Codex's own and not a prompt."""
    return text.startswith(_ASIDES)


def is_typed(text: str | None) -> bool:
    """Whether this message to the model looks like one that a person typed: Codex marks its own with one of these."""
    return bool(text) and not str(text).startswith(_MARKED)


def cwd_in(text: str) -> str | None:
    """The working directory, if a message tells the model about its surroundings (since 0.23)."""
    match = _CWD.match(text)
    return None if match is None else whole_text_in(match[1] or match[2], LONGEST_PATH)


_RECORD: Final = b'{"timestamp":"'
"""How Codex begins each record: after a failed write its full copy may follow the torn one in the same line."""


def apart(line: LogLine) -> list[LogLine]:
    """An unreadable line, split where a further record begins in it."""
    # A torn line and the full copy of the record may be one line, because no newline followed the torn part.
    if line.is_cut or line.content.find(_RECORD, 1) < 0:
        return [line]
    first, *further = line.content.split(_RECORD, MOST_GLUED)
    parts = [first, *(_RECORD + part for part in further)]
    return [LogLine(line.number, part) for part in parts if part.strip(b"\0 \t\r")]


MOST_FINISHED: Final = 16
"""Ended turns whose ids are remembered, so that late records about them change nothing."""

UNNUMBERED: Final = ""
"""The id of a turn that has none."""

ROLLED_BACK: Final = closed("run.aborted.user", "the open turn was rolled back")


def completed(at: float | None) -> Close:
    """The end of a turn that went well."""
    return closed("run.completed.ok", "the turn is complete", at)


@dataclass(slots=True)
class Turns:
    """The turns of a thread so far. It is a part of a scanner's state: only a copy of it is ever changed.

    `current` is the id of the last turn until it is finished: an interrupted turn stays current, as in Codex.
    `guessed` marks an end that was not recorded. `prompted` says that the turn was asked for something, `owes` that
    the model has yet to answer a prompt or a tool's output, `answered` and `replied` that it answered in words and
    that a reply of it is complete. `attempt` counts the headless stretches, `started_at` is when a later one began,
    `begun` counts the turns. `asked` says that a prompt came after an end, and that its second record, which begins
    the turn, is yet to come. A time `at` is a record's, as written."""

    turn: Turn = "none"
    current: str | None = None
    finished: tuple[str, ...] = ()
    close: Close | None = None
    guessed: bool = False
    attempt: int = 1
    begun: int = 0
    started_at: float | None = None
    prompted: bool = False
    owes: bool = False
    answered: bool = False
    replied: bool = False
    asked: bool = False

    @property
    def is_open(self) -> bool:
        """Whether an end is still to be recorded. A guessed end gives way to it."""
        return self.turn == "open" or self.guessed

    def start(self, turn: str, at: str | None, headless: bool | None) -> Resumed | None:
        """The record of a start came. A turn that was still open is over, without an end of its own."""
        self._finish()
        self.current = turn
        return self._begin(at, headless)

    def prompt(self, turn: str | None, at: str | None, headless: bool | None) -> Resumed | None:
        """A prompt was given, in the turn with that id if it names one. Outside of numbered turns it begins one."""
        resumed = None
        if turn is None:
            if not self.current:
                resumed = self.start(UNNUMBERED, at, headless)
        # A prompt that names another turn shows that the record of that turn's start was lost.
        elif turn != self.current and turn not in self.finished:
            resumed = self.start(turn, at, headless)
        self.owes = self.prompted = True
        return resumed

    def complete(
        self, turn: str | None, close: Close, at: str | None, headless: bool | None
    ) -> Resumed | None:
        """The record of an end came: like `abort`, but the turn is finished."""
        # This is asked first, because to abort the turn changes the answer.
        is_late = self._is_late(turn)
        resumed = self.abort(turn, close, at, headless)
        if not is_late:
            self._finish()
        return resumed

    def abort(self, turn: str | None, close: Close, at: str | None, headless: bool | None) -> Resumed | None:
        """The record of an interrupt came. One of a finished turn is late; a turn whose start was lost began and ended."""
        if self._is_late(turn):
            return None
        resumed = self._begin_lost(turn, at, headless)
        if self.is_open:
            self._end(close)
        # The turn stays current, as in Codex: later records about it open nothing.
        if self.current is None:
            self.current = turn
        return resumed

    def fail(self, close: Close) -> None:
        """An error that ends the current turn came."""
        if self.is_open:
            self._end(close)

    def roll_back(self, count: int, at: float | None) -> None:
        """The last `count` turns were taken back. Records about them from now on count again."""
        if self.is_open:
            self._end(ROLLED_BACK._replace(at=at))
        self._finish()
        self.finished = self.finished[: max(0, len(self.finished) - count)]

    def request(self) -> None:
        """The model is about to be asked."""
        if self.turn == "open":
            self.answered = self.replied = False

    def ask(self) -> None:
        """The first record of a prompt came, in a version without turn ids: the end before it no longer counts."""
        self.asked = self.turn == "closed" and self.current == UNNUMBERED

    def batch(self) -> None:
        """What follows was recorded at once: words in it that no tool's output precedes belong to a complete reply."""
        if self.turn == "open":
            self.answered, self.replied = False, True

    def compact(self) -> None:
        """The history was summed up."""
        self.asked = False
        if self.turn == "open":
            # To sum up the history cost a reply, which was not the answer that is owed.
            self.owes = self.prompted
            self.answered = self.replied = False

    def call(self) -> None:
        """The model called a tool: what it said before was not its last word."""
        self.owes = self.answered = False
        if self.guessed:
            self._reopen()
        # A tool was called, so a turn had begun, even if the record of its start was lost.
        elif self.turn == "none":
            self._begin(None, None)

    def output(self) -> None:
        """A tool's output came: the model will be asked again."""
        if self.guessed:
            self._reopen()
        if self.turn == "open":
            self.owes = True
            self.answered = self.replied = False

    def answer(self, at: str | None) -> None:
        """The model said something."""
        self.owes = False
        self.answered = True
        # Before 0.104 no end was recorded. A complete reply that calls no tool is taken for one.
        if self.current == UNNUMBERED:
            self._guess(at)

    def reply(self, at: str | None) -> None:
        """A reply is complete: its tokens were counted, or it is known otherwise."""
        self.owes = False
        self.replied = True
        if self.current == UNNUMBERED:
            self._guess(at)

    def _is_late(self, turn: str | None) -> bool:
        return turn in self.finished and turn != self.current

    def _begin(self, at: str | None, headless: bool | None) -> Resumed | None:
        resumed = None
        if headless and self.turn == "closed" and self.close is not None:
            self.attempt += 1
            began_at, self.started_at = self.started_at, parse_time(at)
            resumed = Resumed(self.attempt, self.close, self.started_at, self.begun, began_at)
        self.begun += 1
        self.turn, self.close, self.guessed, self.asked = "open", None, False, False
        self.prompted = self.owes = self.answered = self.replied = False
        return resumed

    def _begin_lost(self, turn: str | None, at: str | None, headless: bool | None) -> Resumed | None:
        if self.turn == "none" or (self.turn == "closed" and turn is not None and turn != self.current):
            self._finish()
            return self._begin(at, headless)
        return None

    def _guess(self, at: str | None) -> None:
        # Words may come before a call in the same reply, so both are needed: that the model answered, and that the
        # reply is complete.
        if self.turn == "open" and self.answered and self.replied:
            self._end(completed(parse_time(at)))
            self.guessed = True

    def _reopen(self) -> None:
        self.turn, self.close, self.guessed, self.asked = "open", None, False, False

    def _end(self, close: Close) -> None:
        self.turn, self.close, self.guessed, self.asked = "closed", close, False, False

    def _finish(self) -> None:
        if self.current is not None:
            self.finished = (*self.finished, self.current)[-MOST_FINISHED:]
            self.current = None


LONGEST_SUMMARY: Final = 200

_NO_END: Final = frozenset({"thread_rollback_failed", "active_turn_not_steerable"})
"""Errors that Codex doesn't count as a turn's end."""

_LIMITS: Final = frozenset({"context_window_exceeded", "session_budget_exceeded"})
_OWN: Final = frozenset({"sandbox_error"})

_ABORTS: Final = {
    "interrupted": closed("run.aborted.user", "the turn was interrupted"),
    "replaced": closed("run.aborted.user", "the turn was replaced by another prompt"),
    "review_ended": closed("run.aborted.user", "the review was ended"),
    "budget_limited": closed("run.failed.limit_reached", "the turn's budget is used up"),
}


def end_of_task(payload: dict[str, JsonValue], owes: bool, at: float | None) -> Close:
    """What `task_complete` says. `owes`: the model has yet to answer a prompt or a tool's output.

    Newer versions record the error that ended the turn. Older ones only leave out the last message. If the model
    still owes an answer, that was not a clean end either.
    """
    error = payload.get("error")
    if error is not None:
        return failure(error, at)
    if owes and not isinstance(payload.get("last_agent_message"), str):
        return closed("run.failed.api_error", "the turn ended without the model's answer", at)
    return completed(at)


def end_by_abort(payload: dict[str, JsonValue], at: float | None) -> Close:
    """What `turn_aborted` says. An unknown reason is an interrupt, too, and is named."""
    reason = payload.get("reason")
    if not isinstance(reason, str):
        return _ABORTS["interrupted"]._replace(at=at)
    known = _ABORTS.get(reason)
    if known is None:
        known = closed("run.aborted.user", _clip(f"the turn was aborted: {reason}"))
    return known._replace(at=at)


def ends_turn(error: JsonValue) -> bool:
    """Whether an `error` event ends the turn it comes in."""
    return _kind(error) not in _NO_END


def failure(error: JsonValue, at: float | None) -> Close:
    """The end by this error: the model's API failed or refused, unless the error names another kind."""
    kind = _kind(error)
    message = error.get("message") if isinstance(error, dict) else error
    if not isinstance(message, str) or not message:
        message = kind or "the agent reports an error"
    code: ReasonCode = "run.failed.api_error"
    if kind in _LIMITS:
        code = "run.failed.limit_reached"
    elif kind in _OWN:
        code = "run.failed.exception"
    return closed(code, _clip(message), at)


def _kind(error: JsonValue) -> str:
    """The error's kind: a name, or an object with the name as its only key."""
    info = error.get("codex_error_info") if isinstance(error, dict) else None
    if isinstance(info, dict):
        info = next(iter(info), None)
    return info if isinstance(info, str) else ""


def _clip(text: str) -> str:
    return text if len(text) <= LONGEST_SUMMARY else text[:LONGEST_SUMMARY] + "…"
