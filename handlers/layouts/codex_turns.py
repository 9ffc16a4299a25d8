"""When a Codex turn is open and how it ended, and what is counted meanwhile.

Turns are followed record by record as Codex's own turn lifecycle does. Since 0.104 they have ids, and their start and
end are recorded. Before, only interrupts were. There a prompt begins a turn, and its end has to be guessed from a reply
that is complete and calls no tool.

Counted are tool calls, failed tools, sub-agents and tokens, each once. The same call is described by several records
(the call, the finished item, the output), and the same tokens by a repeated running total. A bounded number of ids
records what was counted.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.transcript import Close, Resumed, Turn
from runward.handlers.model.reasons import ReasonCode

MOST_FINISHED: Final = 16
"""Ended turns whose ids are remembered, so that late records about them change nothing."""

UNNUMBERED: Final = ""
"""The id of a turn that has none."""

ROLLED_BACK: Final = Close("aborted", "run.aborted.user", "the open turn was rolled back")


def completed(at: float | None) -> Close:
    """The end of a turn that went well."""
    return Close("completed", "run.completed.ok", "the turn is complete", at)


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
        """The record of an interrupt came. One of a finished turn is late; a turn whose start was lost began and ended.

        The turn stays current: later records about it open nothing.
        """
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
        """The history was summed up, which cost a reply. If the turn was asked for something, that is not an
        answer."""
        self.asked = False
        if self.turn == "open":
            # To sum up the history cost a reply, which was not the answer that is owed.
            self.owes = self.prompted
            self.answered = self.replied = False

    def call(self) -> None:
        """The model called a tool: what it said before was not its last word. The turn's start record may be lost."""
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
    "interrupted": Close("aborted", "run.aborted.user", "the turn was interrupted"),
    "replaced": Close("aborted", "run.aborted.user", "the turn was replaced by another prompt"),
    "review_ended": Close("aborted", "run.aborted.user", "the review was ended"),
    "budget_limited": Close("failed", "run.failed.limit_reached", "the turn's budget is used up"),
}


def end_of_task(payload: dict[str, JsonValue], owes: bool, at: float | None) -> Close:
    """What `task_complete` says. `owes`: the model has yet to answer a prompt or a tool's output.

    Newer versions record the error that ended the turn. Older ones only leave out the last message. If the model
    still owes an answer, that was not a clean end either.
    """
    error = payload.get("error")
    if error is not None:
        return failure(error, at)
    # Older versions record no error. They only leave out the last message.
    if owes and not isinstance(payload.get("last_agent_message"), str):
        return Close("failed", "run.failed.api_error", "the turn ended without the model's answer", at)
    return completed(at)


def end_by_abort(payload: dict[str, JsonValue], at: float | None) -> Close:
    """What `turn_aborted` says. An unknown reason is an interrupt, too, and is named."""
    reason = payload.get("reason")
    if not isinstance(reason, str):
        return _ABORTS["interrupted"]._replace(at=at)
    known = _ABORTS.get(reason)
    if known is None:
        known = Close("aborted", "run.aborted.user", _clip(f"the turn was aborted: {reason}"))
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
    return Close("failed", code, _clip(message), at)


def _kind(error: JsonValue) -> str:
    """The error's kind: a name, or an object with the name as its only key."""
    info = error.get("codex_error_info") if isinstance(error, dict) else None
    if isinstance(info, dict):
        info = next(iter(info), None)
    return info if isinstance(info, str) else ""


def _clip(text: str) -> str:
    return text if len(text) <= LONGEST_SUMMARY else text[:LONGEST_SUMMARY] + "…"


MOST_IDS: Final = 16
"""Ids of each kind that are remembered: the records of one call are close together."""

LONGEST_ID: Final = 64
MOST_TOKENS: Final = 2**48
"""The largest believable number of tokens."""

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

_EXIT: Final = "Exit code: "
_EXITED: Final = "\nProcess exited with code "
_HEADER: Final = 200
"""Characters at an output's beginning in which Codex says how the command ended."""

_LONGEST_CODE: Final = 12
_JSON_EXIT: Final = re.compile(r'"exit_code":\s*(-?\d+)[^"]*(?:"duration_seconds":[^"]*)?$')


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
        call, name = _call_id(payload), payload.get("name")
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
        if question is not None and (question in LEAVES or question == _call_id(payload)):
            self.question = None

    def fail(self, payload: dict[str, JsonValue]) -> None:
        """A tool is reported as failed; `payload` names its call."""
        call = _call_id(payload)
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


@dataclass(slots=True)
class Tokens:
    """The tokens so far. It is a part of a scanner's state: only a copy of it is ever changed.

    `total` is the last reported running total (input, output). `is_ahead` says that a reply was counted by a
    record of its own (since 0.153), which the next running total repeats.
    """

    replies: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total: tuple[int, int] | None = None
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

    def _add(self, usage: tuple[int, int]) -> None:
        self.replies += 1
        self.input_tokens += usage[0]
        self.output_tokens += usage[1]


def _is_new(known: dict[str, None], identifier: str) -> bool:
    """Whether this id isn't among the known ones. It is then added, and the oldest is forgotten for it."""
    if identifier in known:
        return False
    known[identifier] = None
    if len(known) > MOST_IDS:
        del known[next(iter(known))]
    return True


def _call_id(payload: dict[str, JsonValue]) -> str | None:
    call = payload.get("call_id") or payload.get("id")
    return call[:LONGEST_ID] if isinstance(call, str) else None


def _says_failed(output: JsonValue) -> bool:
    """Whether a tool's output itself says that it failed: by an exit code, in the forms of all versions."""
    if isinstance(output, dict):
        return output.get("success") is False
    if not isinstance(output, str):
        return False
    if output.startswith(_EXIT):
        place = len(_EXIT)
    elif output.startswith("{"):
        match = _JSON_EXIT.search(output[-_HEADER:])
        return match is not None and match[1] != "0"
    else:
        place = output.find(_EXITED, 0, _HEADER) + len(_EXITED)
        if place < len(_EXITED):
            return False
    code = output[place : place + _LONGEST_CODE].partition("\n")[0]
    return code != "0" and code.removeprefix("-").isdecimal()


def _usage(usage: JsonValue) -> tuple[int, int] | None:
    if not isinstance(usage, dict):
        return None
    given, made = usage.get("input_tokens"), usage.get("output_tokens")
    if type(given) is not int or not 0 <= given <= MOST_TOKENS:
        return None
    if type(made) is not int or not 0 <= made <= MOST_TOKENS:
        return None
    return given, made


def _difference(before: tuple[int, int] | None, now: tuple[int, int]) -> tuple[int, int]:
    if before is None or now[0] < before[0] or now[1] < before[1]:
        return now
    return now[0] - before[0], now[1] - before[1]
