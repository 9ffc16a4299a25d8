"""What is counted in a Claude Code session: the calls of its tools, its sub-agents, and what its replies cost."""

from typing import Final

from runward.handlers.layouts.claude_code_meanings import AGENT_TOOLS
from runward.handlers.layouts.claude_code_records import Block, Usage
from runward.handlers.layouts.claude_code_state import LONGEST_ID, State

REPLIES_KEPT: Final = 16
"""Replies whose cost is remembered, because the lines of one reply may have others between them."""

CALLS_KEPT: Final = 32
"""Calls of tools that are remembered, so that each counts once."""

_FREE: Final = (0, 0)


class Tally:
    """The counts of a session, while lines are fed. `reply` is the one whose `cost` is yet to be added."""

    __slots__ = (
        "agent_calls",
        "calls",
        "cost",
        "input_tokens",
        "launches",
        "output_tokens",
        "replies",
        "reply",
        "tool_calls",
    )

    def __init__(self, state: State) -> None:
        self.tool_calls, self.agent_calls = state.tool_calls, state.agent_calls
        self.input_tokens, self.output_tokens = state.input_tokens, state.output_tokens
        self.replies = {reply: (came, went) for reply, came, went in state.replies}
        self.calls = dict.fromkeys(state.calls)
        self.launches = dict.fromkeys(state.launches)
        self.reply: str | None = None
        self.cost = Usage()

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

    def note_cost(self, reply: str | None, usage: Usage) -> None:
        """A reply's lines repeat its cost: the last of them counts."""
        if reply is None or reply != self.reply:
            self.add_cost()
            self.reply = reply or ""
        self.cost = usage

    def add_cost(self) -> None:
        """Add the cost of the last reply, and subtract what an earlier line of it had said."""
        if self.reply is None:
            return
        reply, usage = self.reply[:LONGEST_ID], self.cost
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


def _remember(known: dict[str, None], call: str) -> None:
    """Keep a call's id, and forget the oldest if there are too many."""
    known[call] = None
    if len(known) > CALLS_KEPT:
        del known[next(iter(known))]
