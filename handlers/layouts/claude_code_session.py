"""A Claude Code session, while the lines of its transcript are read: what their order means for its turns.

Most of the time of a reading is spent here: most records need only a few checks.
"""

from collections.abc import Sequence
from typing import Final

from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.claude_code_counts import Tally
from runward.handlers.layouts.claude_code_records import (
    ANSWERED,
    ASKING_TOOLS,
    COMPLETED,
    INTERRUPTED,
    LONGEST_ID,
    NOT_DECODED,
    SYNTHETIC,
    TASKS_KEPT,
    TURN_ENDS,
    Block,
    Message,
    Record,
    api_error,
    change_by_result,
    clipped,
    command_text,
    content_of,
    decode,
    ended_by_itself,
    is_command_output,
    is_unknown_command,
    may_begin_task,
    notification,
    record_of,
    says_interrupted,
    text_of,
    turns_used_up,
    user_record,
)
from runward.handlers.layouts.claude_code_state import Beside, Ending, State, headless
from runward.handlers.layouts.transcript import LogLine, Resumed, Turn, clip_prompt
from runward.handlers.layouts.transcript_lines import Unreadable, records

FIRST_KEPT: Final = 8
"""Records at the beginning of a session whose times are remembered."""


_LONGEST_TEXT: Final = 4096
_STAMP_LENGTH: Final = len("2026-01-31T12:00:00.000Z")
_LONGEST_STAMP: Final = 40
_CHAINED: Final = frozenset({"user", "assistant", "attachment", "system"})
_NOTHING_SAID: Final = Message()


class Session(Tally):
    """The state of a session, unfrozen while lines are fed. Its fields and those of its tally are those of `State`.

    `is_settled` says that the session's beginning is known, `is_plain` that nothing is in doubt about its turn: these
    two save most checks for most records.
    """

    __slots__ = (
        *(field for field in State._fields if field not in Tally.__slots__),
        "is_plain",
        "is_settled",
        "resumed",
    )

    session_id: str | None
    parent_session_id: str | None
    has_own: bool
    queued: str | None
    is_begun: bool
    attempt: int
    turns: int
    turn: Turn
    ending: Ending | None
    held: Ending | None
    command: str | None
    spoken: bool
    stop_reason: str | None
    waiting: bool
    tasks: tuple[str, ...]
    queue: int
    stays: bool
    beside: Beside | None
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
    errors: int
    agent_chains: int
    has_latch: bool

    def __init__(self, state: State) -> None:
        for field, value in zip(State._fields, state, strict=True):
            setattr(self, field, value)
        super().__init__(state)
        self.is_settled = False
        self.is_plain = False
        self.resumed: list[Resumed] = []

    def state(self, unreadable: Unreadable) -> State:
        """The state as it is now."""
        counts = self.counts()
        now = {field: getattr(self, field) for field in State._fields} | counts
        now["unreadable"], now["complaints"] = unreadable.count, tuple(unreadable.complaints)
        return State(**now)

    def take(self, file: str, lines: Sequence[LogLine], unreadable: Unreadable) -> None:
        """Take in lines of the session's own transcript."""
        take = self._take
        for line in lines:
            try:
                record = decode(line[1])
            except NOT_DECODED:
                for value in records(file, (line,), unreadable):
                    take(record_of(value) if isinstance(value, dict) else Record())
            else:
                take(record)

    def _take(self, record: Record) -> None:
        # Old versions write the records of sub-agents among those of the session.
        if record.is_sidechain:
            self.agent_chains += record.parent_uuid is None
            self.note_agent(record)
            return
        self.events += 1
        kind, stamp = record.type, record.timestamp
        if stamp is not None and len(stamp) != _STAMP_LENGTH and not _is_time(stamp):
            stamp = None
        if kind not in _CHAINED:
            self._note(record, stamp)
            return
        # Most records repeat what is known. This check saves the others, and most of the time of a reading is spent
        # here.
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
        """Learn what each record of the main chain repeats. Whether this one was copied from a fork's origin."""
        if stamp is not None and len(self.first) < FIRST_KEPT and not self._is_known():
            self.first = (*self.first, stamp)
        if record.entrypoint is not None:
            self.entrypoint = record.entrypoint[:LONGEST_ID]
        self.cwd = self.cwd or clipped(record.cwd, _LONGEST_TEXT)
        self.agent_version = self.agent_version or clipped(record.version, LONGEST_ID)
        if not self.has_own:
            self._origin(record)
        self.attempt = self.attempt or 1
        # A record that is older than the first queued prompt was copied from the session that this one was forked from.
        if not self.is_begun and stamp is not None and self.queued is not None and stamp < self.queued:
            return True
        self.started = self.started or stamp
        self.is_settled = self._is_known()
        return False

    def _is_known(self) -> bool:
        """Whether all is known that records repeat."""
        return bool(self.has_own and self.is_begun and self.cwd and self.agent_version and self.started)

    def _origin(self, record: Record) -> None:
        """A fork's first records are copies: they may name the session that they come from."""
        forked = record.forked_from
        if forked is not None:
            self.parent_session_id = self.parent_session_id or clipped(forked.session_id, LONGEST_ID)
        named = clipped(record.session_id, LONGEST_ID)
        self.session_id = self.session_id or named
        if named == self.session_id:
            self.has_own = named is not None and forked is None
        else:
            self.parent_session_id = self.parent_session_id or named

    def _is_own(self, record: Record) -> bool:
        """Whether a record doesn't name another session as the one that it was written in."""
        named = record.session_id
        return record.forked_from is None and (named is None or named[:LONGEST_ID] == self.session_id)

    def _note(self, record: Record, stamp: str | None) -> None:
        """A record outside the conversation."""
        if stamp is not None:
            self.moved = stamp
        if record.type == "cost-state" and record.session_id == self.session_id:
            is_fork = self.parent_session_id is not None or not self.has_own
            self.take_account(record.model_usage, self.moved, is_fork=is_fork)
        if record.type == "queue-operation":
            self._queue(record, stamp)
        elif record.type == "file-history-snapshot" and self.attempt == 0 and self.seems_headless is None:
            self.seems_headless = False
        elif record.type == "agent-setting":
            self.agent = clipped(record.agent_setting, LONGEST_ID) or self.agent
        elif record.type == "atis-latch":
            self.has_latch = True
        elif self.stays and record.type == ("cost-state" if self.has_latch else "last-prompt"):
            # It is written when the program ends: nothing more is waited for. 2.1.332, which also writes `atis-latch`, repeats
            # `last-prompt` while it works.
            self.tasks, self.queue = (), 0
            self._stays_no_longer()

    def _queue(self, record: Record, stamp: str | None) -> None:
        """A prompt is queued before it is processed. In a headless run this is the first thing written."""
        is_first = self.attempt == 0
        self.attempt = self.attempt or 1
        self.started = self.started or stamp
        self.session_id = self.session_id or clipped(record.session_id, LONGEST_ID)
        if record.operation != "enqueue":
            if is_first and record.operation == "dequeue":  # some versions of 2.1 begin with this
                self._begins_headless(stamp)
            self._unqueue(record.operation)
            return
        text = text_of(record.content)
        change = notification(text)
        if change is not None:
            self._task_is_over(change.task)
            if change.was_ended:
                self._stays_no_longer()
                return
        # What is queued while the model works keeps a headless session open: it comes next.
        if self.turn == "open":
            self.queue += 1
        if change is not None:
            return
        if is_first:
            self._begins_headless(stamp)
        self.prompt = self.prompt or clip_prompt(text) or None
        if self.turn == "none" or (self.turn == "closed" and self._is_headless()):
            self._prompted(stamp)

    def _begins_headless(self, stamp: str | None) -> None:
        self.queued = stamp
        if self.seems_headless is None:
            self.seems_headless = True

    def _unqueue(self, operation: str | None) -> None:
        """What was queued was given to the model, which comes next, or was removed because the model already has it."""
        self.queue = 0 if operation == "popAll" else max(0, self.queue - 1)
        if operation != "dequeue":
            self._stays_no_longer()

    def _system(self, record: Record, stamp: str | None, is_copied: bool) -> None:
        subtype = record.subtype
        if subtype == "api_error":
            self.errors += 1
        elif is_copied:
            return
        elif subtype in TURN_ENDS:
            # Such a record ends a turn only if the model had its last word.
            if self.turn == "open" and self.spoken:
                self._ends(Ending(ended_by_itself(self.stop_reason), stamp))
        elif subtype == "local_command":
            self._command_answered(stamp)
            if is_command_output(record.content):
                self._says_beside("answer")

    def _user(self, record: Record, stamp: str | None, is_copied: bool) -> None:
        content = content_of(record)
        if isinstance(content, list) and self._results(content, stamp, is_copied):
            if not is_copied:
                self._note_task(record, content)
            return
        if is_copied:
            return
        text = text_of(content)
        match user_record(record, content, text):
            # The program answered this command itself.
            case "prompt" if self.beside == "caveat" and is_unknown_command(text):
                return
            case "prompt":
                self.prompt = self.prompt or clip_prompt(text) or None
                # A prompt may be recorded after the end of the turn that it began.
                if not self._is_answered(stamp):
                    self._prompted(stamp)
                self.turns += 1  # here and not where it was queued, so that each prompt counts once
                self.is_begun = True
            case "interruption":
                self._ends(Ending(INTERRUPTED, stamp))
            case "command":
                self._commanded(command_text(text), stamp)
            case "command_output":
                self._command_answered(stamp)
                self._says_beside("answer")
            case "caveat":
                self._says_beside("caveat")
            case "shell":
                if self.beside != "caveat":
                    self._goes_on()
            case "follow_up":
                if (change := notification(text)) is not None:
                    self._task_is_over(change.task)
                if change is not None or self.beside != "answer":
                    self._goes_on()

    def _results(self, content: list[Block], stamp: str | None, is_copied: bool) -> bool:
        """Whether a content carries tools' results: then the agent continues, unless one says it was interrupted."""
        has_results = is_interrupted = False
        for block in content:
            if block.type == "tool_result":
                has_results = True
                if block.is_error:
                    self.errors += 1
                    is_interrupted = is_interrupted or says_interrupted(block)
                if self.launches:
                    self.note_answer(block)
        if has_results and not is_copied:
            if is_interrupted:
                self._ends(Ending(INTERRUPTED, stamp))
            else:
                if not self.is_plain:
                    self._is_asked()
                self._opens()
        return has_results

    def _note_task(self, record: Record, results: list[Block]) -> None:
        """A tool's result may say that its work continues in the background, or that such work is over."""
        output = results[0].content
        if not record.tool_use_result or not (self.tasks or may_begin_task(output)):
            return
        change = change_by_result(record.tool_use_result, output)
        if change is not None and change.is_over:
            self._task_is_over(change.task)
        elif change is not None and change.task not in self.tasks:
            self.tasks = (*self.tasks, change.task)[-TASKS_KEPT:]

    def _task_is_over(self, task: str) -> None:
        if task in self.tasks:
            self.tasks = tuple(each for each in self.tasks if each != task)

    def _assistant(self, record: Record, stamp: str | None, is_copied: bool) -> None:
        if record.is_api_error_message:
            self.errors += 1
            if not is_copied:
                self._is_asked()
                self._ends(Ending(api_error(content_of(record)), stamp))
            return
        message = record.message
        if not isinstance(message, Message):
            message = _NOTHING_SAID
        if message.model != self.model:
            # Claude Code wrote this itself: no model was asked, so no turn began.
            if message.model == SYNTHETIC:
                self._says_nothing()
                return
            self.model = clipped(message.model, LONGEST_ID) or self.model
        if message.usage is not None:
            # A fork's first records are copies of its origin's, where they count. Since 2.1.332, a copied reply says which
            # session asked for it.
            asked_by = record.request_session_id
            is_own = asked_by is None or asked_by[:LONGEST_ID] == self.session_id
            if not is_own:
                self.parent_session_id = self.parent_session_id or clipped(asked_by, LONGEST_ID)
            is_spent = not is_copied and is_own and (self.has_own or self._is_own(record))
            self.note_cost(message.id, message.usage, stamp or self.moved, self.model, is_spent=is_spent)
        called = is_asking = False
        if isinstance(message.content, list):
            for block in message.content:
                if block.type == "tool_use":
                    called = True
                    is_asking = is_asking or block.name in ASKING_TOOLS
                    self.note_call(block)
        if is_copied:
            return
        if not self.is_plain:
            self._is_asked()
        reason = message.stop_reason
        # The reply says itself that it is the last one.
        if not called and (reason == "end_turn" or reason == "stop_sequence"):
            self._ends(Ending(COMPLETED, stamp))
            return
        self._opens()
        if is_asking:
            self.waiting, self.is_plain = True, False
        elif not called and reason != "tool_use":
            self.spoken, self.stop_reason, self.is_plain = True, clipped(reason, LONGEST_ID), False

    def _says_nothing(self) -> None:
        """A record that no model wrote: what Claude Code inserted to continue with was not asked of the model."""
        if self.held is not None:
            self._ends(self.held)

    def _is_headless(self) -> bool:
        return headless(self.entrypoint, self.seems_headless) is True

    def _opens(self) -> None:
        """The agent works: on a prompt, on a tool's result, or on what it is saying."""
        self.turn, self.ending = "open", None
        if not self.is_plain:
            self.prompt = self.prompt or clip_prompt(self.command or "") or None
            self.held = self.command = self.stop_reason = None
            self.waiting = self.spoken = self.stays = False
            self.beside = None
            self.is_plain = True

    def _is_asked(self) -> None:
        """The model works. Unless it works on a prompt, which already counts, another turn has begun."""
        is_command = self.command is not None and not self._is_headless()
        self.turns += self.held is not None or is_command

    def _ends(self, ending: Ending) -> None:
        self._opens()
        # A headless session stays until its background tasks are over and what was queued is answered. Its end is kept
        # until then.
        if (self.tasks or self.queue) and ending.close.status == "completed" and self._is_headless():
            self.held, self.stays, self.is_plain = ending, True, False
        else:
            self.turn, self.ending = "closed", ending

    def _stays_no_longer(self) -> None:
        """Once there is nothing left for a headless session to wait for, it is over, with the end of its last turn."""
        if self.stays and self.held is not None:
            self._ends(self.held)

    def _is_answered(self, stamp: str | None) -> bool:
        """Whether a prompt was recorded after the end of the turn that it had begun: its time shows that."""
        ended = self.ending or (self.held if self.stays else None)
        if ended is None or ended.stamp is None or stamp is None:
            return False
        return len(stamp) == len(ended.stamp) and stamp < ended.stamp

    def _prompted(self, stamp: str | None) -> None:
        """A new prompt. In a headless session that had ended, it begins the next attempt."""
        # While it stays, its last end was not reported, so this prompt belongs to the same attempt.
        before = None if self.stays else self.ending or self.held
        self._opens()
        if before is not None and self._is_headless():
            self.attempt += 1
            began_at, self.started = parse_time(self.started), stamp
            self.is_settled = False
            self.resumed.append(Resumed(self.attempt, before.told(), parse_time(stamp), self.turns, began_at))

    def _goes_on(self) -> None:
        """The model gets more input without a prompt: an end that was reported is in doubt until it replies."""
        before = self.ending or self.held
        if before is None:
            self._is_asked()  # by a slash command, whose prompt this is
        self._opens()
        # The end comes back if the model is not asked after all.
        self.held, self.is_plain = before, False

    def _commanded(self, command: str, stamp: str | None) -> None:
        """A slash command: a prompt, unless the program answers it itself. While the agent works it is an aside."""
        if self._is_headless():
            self._prompted(stamp)
            self.turns += 1
        elif self.turn == "open":
            return
        else:
            self._goes_on()
        self.is_begun, self.command, self.is_plain = True, command, False

    def _says_beside(self, what: Beside) -> None:
        """Something was said that does not concern the model until somebody asks about it."""
        self.beside, self.is_plain = what, False

    def _command_answered(self, stamp: str | None) -> None:
        """The program answered a command itself: the session is as it was before, and a headless one is done."""
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
