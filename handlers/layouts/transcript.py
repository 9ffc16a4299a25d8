"""What a scanner of another tool's session gets, and what it makes of the session's files.

A session's files are *logs*, which grow line by line, and *documents*, which are small and written whole. A scanner is
fed their new content in any portions and keeps a small state, which is stored with the reader's place in each file.
Feeding a file in two halves, with the state dumped and loaded in between, has the same result as feeding it whole. It
never raises because of what an agent wrote: it counts what it can't read, and skips what it doesn't know.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from runward.handlers.model.reasons import ReasonCode, status_of
from runward.handlers.model.sessions import Complaint, Document, Status
from runward.handlers.model.stored import Stored, as_json
from runward.handlers.usage.counting import Counted

Turn: TypeAlias = Literal["none", "open", "closed"]
"""Whether the agent was asked for something, and whether it is done with it."""

MOST_COMPLAINTS: Final = 20
"""Malformed lines of a session that are named; further ones are only counted."""


class LogLine(NamedTuple):
    """A line of a log without its newline; `number` counts from 1. A line that is too long is cut, and marked so."""

    number: int
    content: bytes
    is_cut: bool = False


class Close(NamedTuple):
    """How a turn ended, as the agent itself reports it; `at` in Unix seconds if it says when."""

    status: Status
    reason_code: ReasonCode
    reason_summary: str
    at: float | None = None


def closed(code: ReasonCode, summary: str, at: float | None = None) -> Close:
    """The end of a turn for this reason."""
    return Close(status_of(code), code, summary, at)


class Said(NamedTuple):
    """A text of a conversation. `at` is Unix seconds, None if the line has no time.

    `system` is what the tool itself says, to the model or about it.
    """

    at: float | None
    role: Literal["user", "assistant", "system"]
    text: str


class Counts(NamedTuple):
    """What was counted in a session, without its sub-agents' own records.

    `events` are the well-formed records, `tool_calls` the calls by their ids, `errors` the errors that the agent
    reports of its model and its tools, `subagents` the sub-agents that worked for it.
    """

    events: int = 0
    tool_calls: int = 0
    errors: int = 0
    subagents: int = 0


class Usage(NamedTuple):
    """Tokens that the model's replies cost, each reply counted once; cached input is input."""

    input_tokens: int
    output_tokens: int


class Told(NamedTuple):
    """What a session's files say about it now.

    `attempt` counts the stretches that the files themselves tell apart, `started_at` and `close` are those of the
    last one, times are Unix seconds. `turns` counts the turns that the files have begun. It only
    grows while they do, and in layouts without turns it counts the stretches. A `declared` end was written whole and
    counts at once; any other end may still be followed by more lines. `headless` is None if it is not known whether a
    person uses it interactively. `waiting` means waiting for a person. `unreadable` counts the lines that could not
    be read, `complaints` name the first of them. With `is_subagent`, the files are a sub-agent's and not a session.
    `works_for` is the session that ordered this one, if it is a sub-agent's that is a session of its own. `data` tells one
    state of the data that is kept besides the session from the next, in layouts that have any. `counted` are the sums of the
    replies since they were last taken."""

    session_id: str | None = None
    parent_session_id: str | None = None
    is_subagent: bool = False
    works_for: str | None = None
    attempt: int = 0
    turn: Turn = "none"
    close: Close | None = None
    declared: bool = False
    headless: bool | None = None
    waiting: bool = False
    started_at: float | None = None
    moved_at: float | None = None
    agent: str | None = None
    model: str | None = None
    version: str | None = None
    cwd: str | None = None
    prompt: str | None = None
    counts: Counts = Counts()
    usage: Usage | None = None
    unreadable: int = 0
    complaints: tuple[Complaint, ...] = ()
    turns: int = 0
    data: str | None = None
    counted: tuple[Counted, ...] = ()


class Resumed(NamedTuple):
    """Lines after an end began the next stretch: `before` is how the previous one had ended.

    `turns` counts those that had begun until then, `began_at` is when the previous stretch had begun. `line` is the
    line that began it (see `registry.fed`).
    """

    attempt: int
    before: Close
    started_at: float | None
    turns: int = 0
    began_at: float | None = None
    line: int | None = None


State = TypeVar("State")


class TranscriptScanner(Protocol[State]):
    """One tool's layout. All of it is pure; `State` is small, versioned, and JSON when dumped."""

    def start(self, name: str) -> State:
        """The state before anything was read of the session whose file or directory has this name."""
        ...

    def feed(self, state: State, file: str, lines: Sequence[LogLine]) -> tuple[State, tuple[Resumed, ...]]:
        """Take in further whole lines of the log `file`, a path relative to the session's place."""
        ...

    def see(self, state: State, documents: Sequence[Document]) -> State:
        """Take in documents that are new or were rewritten."""
        ...

    def tell(self, state: State) -> Told:
        """What everything that was taken in amounts to."""
        ...

    def taken(self, state: State) -> State:
        """The state once the sums of replies in it were taken: they are told once."""
        ...

    def dump(self, state: State) -> str: ...

    def load(self, text: str) -> State:
        """Raises `ValueError` for what this program never wrote."""
        ...


Heads: TypeAlias = Mapping[str, bytes]
"""The first bytes of the files that identify a layout, by their names in the directory."""


class KeepsState(Generic[State]):
    """A scanner whose state is stored as JSON; the state's type tells its version.

    `is_exact` is for a type that has a default for nearly every field, so that other JSON would pass for a state, too.
    """

    __slots__ = ("_is_exact", "_states")

    def __init__(self, state: type[State], *, is_exact: bool = False) -> None:
        self._states = Stored(state)
        self._is_exact = is_exact

    def taken(self, state: State) -> State:
        """The state itself: most layouts name no tokens."""
        return state

    def dump(self, state: State) -> str:
        """The state as JSON."""
        return as_json(state)

    def load(self, text: str) -> State:
        """The state that was dumped. Raises `ValueError` for what this program never wrote."""
        state = self._states.load(text)
        if self._is_exact and self.dump(state) != text:
            raise ValueError("this is not a state that the scanner wrote")
        return state


PROMPT_KEPT: Final = 1000
"""Characters of a first prompt that are kept: enough to tell what was asked for."""


def clip_prompt(prompt: str) -> str:
    """The beginning of a session's first prompt, as its declaration keeps it."""
    return prompt[:PROMPT_KEPT]
