"""What is counted in a Claude Code session: calls, sub-agents, and what replies cost.

Since 2.1.332 a process writes at its end what the session used until then, by model (`cost-state`). That account also has what Claude
Code asks a model for itself: summaries, titles, suggestions. No transcript has these replies.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec

from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.claude_code_records import (
    AGENT_TOOLS,
    LONGEST_ID,
    NOT_DECODED,
    SYNTHETIC,
    Block,
    Message,
    Record,
    Tokens,
    Usage,
    clipped,
    counts_as_subagent,
    decode,
    record_of,
)
from runward.handlers.layouts.claude_code_state import Agent, Reply, State
from runward.handlers.layouts.transcript import LogLine
from runward.handlers.layouts.transcript_lines import Unreadable, records
from runward.handlers.usage.counting import (
    FAST,
    HOUR,
    SIZES,
    STANDARD,
    Counted,
    Run,
    add,
    counted,
    hour_in,
)

REPLIES_KEPT: Final = 16
"""Replies whose cost is remembered, because the lines of one reply may have others between them."""

CALLS_KEPT: Final = 32
"""Calls of tools that are remembered, so that each counts once."""


class Tally:
    """The counts of a session, while lines are fed. `reply` is the one whose `cost` is yet to be added.

    `stated` is what its first line says about it: when it was written, its model, and where it counts.
    """

    __slots__ = (
        "account",
        "account_at",
        "agent_calls",
        "agent_files",
        "agents",
        "calls",
        "cost",
        "counted",
        "first",
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
        "unseen",
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
        self.account, self.account_at = state.account, state.account_at
        self.unseen = state.unseen
        self.first, self.agents, self.agent_files = state.first, state.agents, state.agent_files
        self.calls = dict.fromkeys(state.calls)
        self.launches = dict.fromkeys(state.launches)
        self.reply: str | None = None
        self.cost = Usage()
        self.stated: First = (None, None, True, True)

    def counts(self) -> dict[str, object]:
        """The fields of `State` that have other types there. What is yet to be added up is added to all others."""
        self.add_cost()
        self.end_run()
        return {
            "replies": tuple(_reply(*each) for each in self.replies.items()),
            "counted": tuple(self.counted),
            "known": tuple(self.known),
            "known_then": tuple(self.known_then),
            "calls": tuple(self.calls),
            "launches": tuple(self.launches),
        }

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
        add(self.known, _by_model(sums))
        if self.is_in_account:
            add(self.known_then, _by_model(sums))

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

    def take_account(self, model_usage: bytes, at: str | None, *, is_fork: bool) -> None:
        """What the session used until now by Claude Code's own account. One that can't be read changes nothing.

        A fork's begins with that of its origin, so what its first one has beyond the replies is taken for known.
        """
        found = _stated(model_usage)
        if not found:
            return
        self.add_cost()
        self.end_run()
        if is_fork and not self.account:
            for each in _unseen(found, self.known):
                add(self.known, each)
        self.account, self.account_at = tuple(found), at
        self.known_then = list(self.known)
        self._count_unseen()

    def _count_unseen(self) -> None:
        """Count what the account has and no reply shows. Sub-agents whose replies are read later take it back."""
        found = _unseen(self.account, self.known_then)
        for each in _changes(self.unseen, found, parse_time(self.account_at)):
            add(self.counted, each)
        self.unseen = tuple(found)

    def _is_copy(self, record: Record) -> bool | None:
        """Whether a sub-agent's file that begins so copies the session's own conversation. None if a later record tells."""
        if record.type == "fork-context-ref":
            return False
        if record.type not in ("user", "assistant"):
            return None
        return record.type == "assistant" or bool(record.is_compact_summary) or record.timestamp in self.first

    def note_agent(self, record: Record) -> None:
        """A record of a sub-agent: what its replies cost is the session's."""
        message = record.message
        if record.type != "assistant" or not isinstance(message, Message) or message.usage is None:
            return
        if message.model != SYNTHETIC:
            self.note_cost(message.id, message.usage, record.timestamp, message.model, is_told=False)


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
        clipped(model, LONGEST_ID),
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


def _readable(file: str, lines: Sequence[LogLine]) -> Iterator[Record]:
    """The records of a sub-agent's file. What is malformed in it is not the session's."""
    for line in lines:
        try:
            yield decode(line.content)
        except NOT_DECODED:
            values = records(file, (line,), Unreadable(0, ()))
            yield from (record_of(value) for value in values if isinstance(value, dict))


MOST_MODELS: Final = 16
"""Models in an account that is believed."""

_KINDS: Final = ("fresh_input", "cache_read", "cache_write_5m", "cache_write_1h", "output")


class _Used(msgspec.Struct, rename="camel", gc=False):
    """What one model used, in tokens."""

    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cache_read_input_tokens: Tokens = 0
    cache_creation_input_tokens: Tokens = 0
    cache_creation_ephemeral1h_input_tokens: Tokens = msgspec.field(
        default=0, name="cacheCreationEphemeral1hInputTokens"
    )


_decode: Final = msgspec.json.Decoder(dict[str, _Used]).decode


def _stated(model_usage: bytes) -> list[Counted]:
    """What an account says of each model. Nothing if it isn't as Claude Code writes it."""
    try:
        models = _decode(model_usage)
    except NOT_DECODED:
        return []
    if len(models) > MOST_MODELS:
        return []
    sums: list[Counted] = []
    for model, used in models.items():
        for_an_hour = min(used.cache_creation_ephemeral1h_input_tokens, used.cache_creation_input_tokens)
        add(
            sums,
            _of_model(
                model[:LONGEST_ID],
                fresh_input=used.input_tokens,
                cache_read=used.cache_read_input_tokens,
                cache_write_5m=used.cache_creation_input_tokens - for_an_hour,
                cache_write_1h=for_an_hour,
                output=used.output_tokens,
            ),
        )
    return sums


def _by_model(sums: Counted) -> Counted:
    """The same without its hour, speed and size, which an account doesn't have, and without a number of replies."""
    return sums._replace(hour=0, speed=STANDARD, size=0, replies=0)


def _unseen(account: Sequence[Counted], known: Iterable[Counted]) -> list[Counted]:
    """What an account has beyond the replies that are known.

    In all it is never more than the account has more than the replies: a model may have another name there than in its replies.
    """
    by_name = {each.model: each for each in known}
    found = {each.model: dict.fromkeys(_KINDS, 0) for each in account}
    for kind in _KINDS:
        left = sum(getattr(each, kind) for each in account) - sum(
            getattr(each, kind) for each in by_name.values()
        )
        for each in account:
            more = getattr(each, kind) - getattr(by_name.get(each.model), kind, 0)
            found[each.model][kind] = max(0, min(more, left))
            left -= found[each.model][kind]
    sums: list[Counted] = []
    for model, kinds in found.items():
        add(sums, _of_model(model, **kinds))
    return sums


def _changes(before: Iterable[Counted], after: Iterable[Counted], at: float | None) -> list[Counted]:
    """What makes one into the other, in the hour of this moment (Unix seconds)."""
    sums: list[Counted] = []
    for each in (*(each.minus() for each in before), *after):
        add(sums, each._replace(hour=0 if at is None else int(at // HOUR)))
    return sums


def _of_model(model: str, **kinds: int) -> Counted:
    return Counted(hour=0, model=model, speed=STANDARD, size=0, replies=0, **kinds)
