"""What is remembered of a Claude Code session between two readings of its transcript."""

from typing import Final, Literal, NamedTuple, TypeAlias

from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.claude_code_records import is_headless
from runward.handlers.layouts.transcript import Close, Turn
from runward.handlers.model.sessions import Complaint
from runward.handlers.usage.counting import Counted

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
