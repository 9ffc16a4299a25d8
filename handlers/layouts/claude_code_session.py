"""A Claude Code session, while the lines of its transcript are read: what their order means for its turns.

Also what is counted in it, and what is remembered of it between two readings. Most of the time of a reading is spent
here: most records need only a few checks.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.claude_code_account import by_model, changes, stated, unseen
from runward.handlers.layouts.claude_code_records import (
    AGENT_TOOLS,
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
    Usage,
    api_error,
    change_by_result,
    command_text,
    content_of,
    counts_as_subagent,
    decode,
    ended_by_itself,
    is_command_output,
    is_headless,
    is_unknown_command,
    may_begin_task,
    notification,
    record_of,
    says_interrupted,
    text_of,
    turns_used_up,
    user_record,
)
from runward.handlers.layouts.transcript import Close, LogLine, Resumed, Turn, clip_prompt
from runward.handlers.layouts.transcript_lines import Unreadable, records
from runward.handlers.model.sessions import Complaint
from runward.handlers.usage.counting import FAST, SIZES, STANDARD, Counted, Run, add, counted, hour_in

VERSION: Final = 5


Beside: TypeAlias = Literal["caveat", "answer"]
"""What was said outside the conversation: that what follows is not for the model, or the program's own answer to a
command. After that, a further text may tell the model about it, which the model gets with the next prompt."""


class Ending(NamedTuple):
    """How a turn ended, with the time as its record has it. Few of these times are needed, so few are parsed."""

    close: Close
    stamp: str | None

    def told(self) -> Close:
        """The end with its time in Unix seconds."""
        return self.close._replace(at=parse_time(self.stamp))


class Reply(NamedTuple):
    """What the lines of one reply said so far, and where that was added.

    `is_told`: to the tokens that are told of the session. `is_spent`: to the sums of what it cost, which leave out what
    a fork copied.
    """

    id: str
    cost: Counted
    is_told: bool = True
    is_spent: bool = True

    def tokens(self) -> tuple[int, int]:
        """Those in and out."""
        cost = self.cost
        return cost.fresh_input + cost.cache_read + cost.cache_write_5m + cost.cache_write_1h, cost.output


class State(NamedTuple):
    """What is known of a session so far. Times are as the records have them.

    `queued` is when the first prompt was queued: a record that is older, and comes before the first prompt of the
    session's own, was copied from the session that this one was forked from. `seems_headless` is what the first record
    says about it if no entry point is named: a queued prompt, or a snapshot of what a person may undo. `held` is how
    the last turn had ended if Claude Code has since given the model something to continue with, but the model has not
    said anything. `command` is a slash command that nobody has answered yet, `spoken` whether the last word on the
    main chain is a reply that called no tool, `stop_reason` what that reply gave as its reason to stop. `tasks` are the
    tasks that run in the background, by their ids, and whose end Claude Code will report. `queue` is how much was
    queued for the model while it worked. `stays` says that a headless session's turn ended well but it waits for
    these: then `held` is that end. `beside` is what was last said outside the conversation. `counted` are the sums of
    replies that were not taken yet. `first` are the times of the first records, and `agents` the sub-agents with files
    of their own. `has_latch` says that a version wrote it that repeats `last-prompt` in the middle.
    `known` is what all replies used, by model; `account` what Claude Code said last that the session used, at `account_at`,
    when `known_then` was known; and `unseen` what it has that no reply shows, which is counted, too.
    """

    version: Literal[5]
    session_id: str | None = None
    parent_session_id: str | None = None
    is_subagent: bool = False
    has_own: bool = False
    queued: str | None = None
    is_begun: bool = False
    attempt: int = 0
    turns: int = 0
    turn: Turn = "none"
    ending: Ending | None = None
    held: Ending | None = None
    command: str | None = None
    spoken: bool = False
    stop_reason: str | None = None
    waiting: bool = False
    tasks: tuple[str, ...] = ()
    queue: int = 0
    stays: bool = False
    beside: Beside | None = None
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
    replies: tuple["Reply", ...] = ()
    counted: tuple[Counted, ...] = ()
    calls: tuple[str, ...] = ()
    launches: tuple[str, ...] = ()
    unreadable: int = 0
    complaints: tuple[Complaint, ...] = ()
    first: tuple[str, ...] = ()
    agents: tuple["Agent", ...] = ()
    has_latch: bool = False
    known: tuple[Counted, ...] = ()
    account: tuple[Counted, ...] = ()
    account_at: str | None = None
    known_then: tuple[Counted, ...] = ()
    unseen: tuple[Counted, ...] = ()


FIRST_KEPT: Final = 8
"""Records at the beginning of a session whose times are remembered."""


class Agent(NamedTuple):
    """A sub-agent's file, by the hash of its name. `reply` is the last one in it.

    `is_copy`: it begins with the conversation that the sub-agent continues, whose replies count in the session. Then
    nothing in it counts, for it doesn't say where the copy ends. Newer versions only name what is continued. It is None
    before that is known.
    """

    name: str
    is_copy: bool | None = None
    reply: Reply | None = None


def headless(entrypoint: str | None, seems_headless: bool | None) -> bool | None:
    """What the entry point says, and in versions that don't name it what the first record seemed to say."""
    return seems_headless if entrypoint is None else is_headless(entrypoint)


REPLIES_KEPT: Final = 16
"""Replies whose cost is remembered, because the lines of one reply may have others between them."""

CALLS_KEPT: Final = 32
"""Calls of tools that are remembered, so that each counts once."""


class Tally:
    """The counts of a session, while lines are fed. `reply` is the one whose `cost` is yet to be added.

    `stated` is what its first line says about it: when it was written, its model, and where it counts.
    """

    __slots__ = (
        "agent_calls",
        "calls",
        "cost",
        "counted",
        "input_tokens",
        "is_in_account",
        "known",
        "known_then",
        "launches",
        "output_tokens",
        "replies",
        "reply",
        "run",
        "run_hour",
        "run_model",
        "run_speed",
        "stated",
        "tool_calls",
    )

    def __init__(self, state: State) -> None:
        self.tool_calls, self.agent_calls = state.tool_calls, state.agent_calls
        self.input_tokens, self.output_tokens = state.input_tokens, state.output_tokens
        self.replies: dict[str, Reply | tuple[First, Usage]] = {reply.id: reply for reply in state.replies}
        self.run = Run(_NOTHING_COUNTED)
        self.run_hour: str | None = None
        self.run_model: str | None = None
        self.run_speed: str | None = None
        self.counted = list(state.counted)
        self.known, self.known_then = list(state.known), list(state.known_then)
        self.is_in_account = False
        self.calls = dict.fromkeys(state.calls)
        self.launches = dict.fromkeys(state.launches)
        self.reply: str | None = None
        self.cost = Usage()
        self.stated: First = (None, None, True, True)

    def note_call(self, call: Block) -> None:
        """Count a tool's call, once by its id."""
        if call.id is not None:
            name = call.id[:LONGEST_ID]
            if name in self.calls:
                return
            _remember(self.calls, name)
            if call.name in AGENT_TOOLS:
                _remember(self.launches, name)
        self.tool_calls += 1
        self.agent_calls += call.name in AGENT_TOOLS

    def note_answer(self, result: Block) -> None:
        """A sub-agent's result. One that could not be started does not count."""
        call = (result.tool_use_id or "")[:LONGEST_ID]
        if call in self.launches:
            del self.launches[call]
            self.agent_calls -= result.is_error is True

    def note_cost(
        self,
        reply: str | None,
        usage: Usage,
        stamp: str | None,
        model: str | None,
        *,
        is_told: bool = True,
        is_spent: bool = True,
    ) -> None:
        """The cost that a line of a reply states."""
        # The lines of one reply repeat its cost, and it grows. The last of them counts.
        if reply is None or reply != self.reply:
            self.add_cost()
            self.reply = reply or ""
            self.stated = (stamp, model, is_told, is_spent)
        self.cost = usage

    def add_cost(self) -> None:
        """Add the cost of the last reply, and subtract what an earlier line of it had said."""
        name = self.reply
        if name is None:
            return
        self.reply = None
        usage, first, replies = self.cost, self.stated, self.replies
        if len(name) > LONGEST_ID:
            name = name[:LONGEST_ID]
        if name and name in replies:
            self._correct(name, usage)
            return
        replies[name] = first, usage
        if len(replies) > REPLIES_KEPT:
            del replies[next(iter(replies))]
        stamp, model, is_told, is_spent = first
        fresh, written, read = (
            usage.input_tokens,
            usage.cache_creation_input_tokens,
            usage.cache_read_input_tokens,
        )
        given = fresh + written + read
        if is_told:
            self.input_tokens += given
            self.output_tokens += usage.output_tokens
        if not is_spent:
            return
        run = self.run
        # Most of the time of a reading is spent on what every reply needs. So one that goes on with the run before is
        # only added to it.
        if (
            self.run_hour is None
            or hour_in(stamp) != self.run_hour
            or given > SIZES[1]
            or model != self.run_model
            or usage.speed != self.run_speed
        ):
            self.end_run()
            run = self.run = Run(_cost(usage, parse_time(stamp), model))
            if given <= SIZES[1]:
                self.run_hour, self.run_model, self.run_speed = hour_in(stamp), model, usage.speed
        run.replies += 1
        run.fresh_input += fresh
        run.cache_read += read
        run.cache_written += written
        run.output += usage.output_tokens
        if usage.cache_creation is not None:
            run.cache_write_1h += min(usage.cache_creation.ephemeral_1h_input_tokens, written)

    def _count(self, sums: Counted) -> None:
        """Add to the sums. `is_in_account`: to those that the last account has, too."""
        add(self.counted, sums)
        add(self.known, by_model(sums))
        if self.is_in_account:
            add(self.known_then, by_model(sums))

    def end_run(self) -> None:
        """Add the run of replies to the sums."""
        self._count(self.run.sum())
        self.run, self.run_hour = Run(_NOTHING_COUNTED), None

    def _correct(self, name: str, usage: Usage) -> None:
        """A reply went on after lines of others. What an earlier line of it had said is already in the sums."""
        before = _reply(name, self.replies[name])
        cost = _cost(usage, None, None)._replace(hour=before.cost.hour, model=before.cost.model)
        reply = before._replace(cost=cost)
        self.replies[name] = reply
        if before.is_told:
            came, went = reply.tokens()
            came_before, went_before = before.tokens()
            self.input_tokens += came - came_before
            self.output_tokens += went - went_before
        if before.is_spent:
            self._count(before.cost.minus())
            self._count(cost)


First: TypeAlias = tuple[str | None, str | None, bool, bool]
"""What the first line of a reply says about it: when it was written and by which model; `is_told`, `is_spent`."""

_NOTHING_COUNTED: Final = counted(None, None, STANDARD, fresh_input=0, output=0)


def _reply(name: str, known: "Reply | tuple[First, Usage]") -> Reply:
    if isinstance(known, Reply):
        return known
    (stamp, model, is_told, is_spent), usage = known
    return Reply(name, _cost(usage, parse_time(stamp), model), is_told, is_spent)


def _cost(usage: Usage, at: float | None, model: str | None) -> Counted:
    """What a reply cost. Writing to the cache for an hour has a price of its own."""
    written = usage.cache_creation_input_tokens
    creation = usage.cache_creation
    for_an_hour = 0 if creation is None else min(creation.ephemeral_1h_input_tokens, written)
    return counted(
        at,
        _clipped(model, LONGEST_ID),
        FAST if usage.speed == FAST else STANDARD,
        fresh_input=usage.input_tokens,
        cache_read=usage.cache_read_input_tokens,
        cache_write_5m=written - for_an_hour,
        cache_write_1h=for_an_hour,
        output=usage.output_tokens,
    )


def _remember(known: dict[str, None], call: str) -> None:
    """Keep a call's id, and forget the oldest if there are too many."""
    known[call] = None
    if len(known) > CALLS_KEPT:
        del known[next(iter(known))]


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
    agent_files: int
    agent_chains: int
    first: tuple[str, ...]
    agents: tuple[Agent, ...]
    account: tuple[Counted, ...]
    account_at: str | None
    unseen: tuple[Counted, ...]
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
        self.add_cost()
        self.end_run()
        now = {field: getattr(self, field) for field in State._fields}
        now["replies"], now["counted"] = (
            tuple(_reply(*each) for each in self.replies.items()),
            tuple(self.counted),
        )
        now["known"], now["known_then"] = tuple(self.known), tuple(self.known_then)
        now["calls"], now["launches"] = tuple(self.calls), tuple(self.launches)
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

    def take_of_agent(self, file: str, lines: Sequence[LogLine]) -> None:
        """Take in lines of a sub-agent's own file. What its replies cost is the session's; what it does is its own."""
        if lines and lines[0].number == 1:
            self.agent_files += counts_as_subagent(file, next(_readable(file, lines[:1]), None))
        name = blake2b(file.rpartition("/")[2].encode(), digest_size=6).hexdigest()
        agent = next((each for each in self.agents if each.name == name), Agent(name))
        # Several write at once. Each file has its own last reply, so that no other pushes it out of what is remembered.
        others = self.replies
        self.replies = {} if agent.reply is None else {agent.reply.id: agent.reply}
        is_copy = agent.is_copy
        for record in _readable(file, lines):
            if is_copy is None:
                is_copy = self._is_copy(record)
            if is_copy:
                continue
            is_in_account = self._is_in_account(record)
            if is_in_account != self.is_in_account:
                self.add_cost()
                self.end_run()
                self.is_in_account = is_in_account
            self.note_agent(record)
        self.add_cost()
        self.end_run()
        self.is_in_account = False
        self._count_unseen()
        last = None if not self.replies else _reply(*list(self.replies.items())[-1])
        self.replies = others
        rest = (each for each in self.agents if each.name != name)
        self.agents = (*rest, Agent(name, is_copy, last))

    def _is_in_account(self, record: Record) -> bool:
        """Whether what a sub-agent's record cost is in the last account: a process writes it when it ends."""
        at, stamp = self.account_at, record.timestamp
        return at is not None and stamp is not None and len(stamp) == len(at) and stamp <= at

    def _take_account(self, record: Record) -> None:
        """What the session used by Claude Code's own account. A fork's account begins with that of its origin."""
        if self.parent_session_id is not None or not self.has_own or record.session_id != self.session_id:
            return
        self.add_cost()
        self.end_run()
        self.account, self.account_at = tuple(stated(record.model_usage)), self.moved
        self.known_then = list(self.known)
        self._count_unseen()

    def _count_unseen(self) -> None:
        """Count what the account has and no reply shows. Sub-agents whose replies are read later take it back."""
        found = unseen(self.account, self.known_then)
        for each in changes(self.unseen, found, parse_time(self.account_at)):
            add(self.counted, each)
        self.unseen = tuple(found)

    def _is_copy(self, record: Record) -> bool | None:
        """Whether a sub-agent's file that begins so copies the session's own conversation. None if a later record tells."""
        if record.type == "fork-context-ref":
            return False
        if record.type not in ("user", "assistant"):
            return None
        return record.type == "assistant" or bool(record.is_compact_summary) or record.timestamp in self.first

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

    def note_agent(self, record: Record) -> None:
        """A record of a sub-agent: what its replies cost is the session's."""
        message = record.message
        if record.type != "assistant" or not isinstance(message, Message) or message.usage is None:
            return
        if message.model != SYNTHETIC:
            self.note_cost(message.id, message.usage, record.timestamp, message.model, is_told=False)

    def _meet(self, record: Record, stamp: str | None) -> bool:
        """Learn what each record of the main chain repeats. Whether this one was copied from a fork's origin."""
        if stamp is not None and len(self.first) < FIRST_KEPT and not self._is_known():
            self.first = (*self.first, stamp)
        if record.entrypoint is not None:
            self.entrypoint = record.entrypoint[:LONGEST_ID]
        self.cwd = self.cwd or _clipped(record.cwd, _LONGEST_TEXT)
        self.agent_version = self.agent_version or _clipped(record.version, LONGEST_ID)
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
            self.parent_session_id = self.parent_session_id or _clipped(forked.session_id, LONGEST_ID)
        named = _clipped(record.session_id, LONGEST_ID)
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
        if record.type == "cost-state":
            self._take_account(record)
        if record.type == "queue-operation":
            self._queue(record, stamp)
        elif record.type == "file-history-snapshot" and self.attempt == 0 and self.seems_headless is None:
            self.seems_headless = False
        elif record.type == "agent-setting":
            self.agent = _clipped(record.agent_setting, LONGEST_ID) or self.agent
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
        self.session_id = self.session_id or _clipped(record.session_id, LONGEST_ID)
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
            self.model = _clipped(message.model, LONGEST_ID) or self.model
        if message.usage is not None:
            # A fork's first records are copies of its origin's, where they count. Since 2.1.332, a copied reply says which
            # session asked for it.
            asked_by = record.request_session_id
            is_own = asked_by is None or asked_by[:LONGEST_ID] == self.session_id
            if not is_own:
                self.parent_session_id = self.parent_session_id or _clipped(asked_by, LONGEST_ID)
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
            self.spoken, self.stop_reason, self.is_plain = True, _clipped(reason, LONGEST_ID), False

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


def _readable(file: str, lines: Sequence[LogLine]) -> Iterator[Record]:
    """The records of a sub-agent's file. What is malformed in it is not the session's."""
    for line in lines:
        try:
            yield decode(line.content)
        except NOT_DECODED:
            values = records(file, (line,), Unreadable(0, ()))
            yield from (record_of(value) for value in values if isinstance(value, dict))


def _is_time(stamp: str) -> bool:
    return len(stamp) <= _LONGEST_STAMP and stamp[10:11] == "T"


def _clipped(text: str | None, longest: int) -> str | None:
    """A text that is there, clipped. None for an empty one, too."""
    return text[:longest] if text else None
