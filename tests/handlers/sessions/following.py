"""A foreign session that is written, looked at and lost in virtual time, and the events that come of it."""

from dataclasses import dataclass, field

from pydantic import TypeAdapter

from runward.handlers.layouts.transcript import Close, Counts, Resumed, Told
from runward.handlers.model.processes import ProcessState, RecordedProcess
from runward.handlers.model.sessions import AttemptEnded, AttemptStarted, SessionDeclaration
from runward.handlers.model.shows import PlayChanged
from runward.handlers.sessions.follow import (
    NEVER_FOLLOWED,
    Follow,
    Followed,
    FollowRule,
    Seen,
    Sign,
    follow,
    lose,
)
from runward.handlers.sessions.over import Writer

KEY = "claude-code:claude/s"
_ADAPTER = TypeAdapter(Followed)
DECLARED = SessionDeclaration("s", "claude-code", "claude", "/c/projects/p/s.jsonl", "agent", "/src")
RULE = FollowRule(names_process=True, records_history=False, first_seen_at=0.0)
HISTORY = RULE._replace(records_history=True, first_seen_at=1_000_000.0)

OK = Close("completed", "run.completed.ok", "the turn ended")
ERROR = Close("failed", "run.failed.api_error", "the model answered 500")
ESCAPE = Close("aborted", "run.aborted.user", "a person interrupted it")
FIRST, SECOND = RecordedProcess(11, 1, "b"), RecordedProcess(12, 2, "b")
DAY = 86_400.0


def in_words(event: Seen) -> str:
    """`1 started`, `1 run.completed.ok`, with what it rests on and whether it is history where that is not the usual."""
    if isinstance(event, PlayChanged):
        return f"{event.attempt} changed"
    if isinstance(event, AttemptStarted):
        words = f"{event.attempt} started"
    else:
        words = f"{event.attempt} {event.reason_code}"
        words += "" if event.evidence == "declared" else f" by {event.evidence}"
    return words if event.origin == "live" else f"{words} (history)"


def stored(followed: Followed) -> Followed:
    """What is remembered, as it comes back from the store as JSON."""
    return _ADAPTER.validate_json(_ADAPTER.dump_json(followed))


@dataclass
class Session:
    """What an agent does to its session, and what the daemon does; both may be called one after the other."""

    headless: bool | None = True
    rule: FollowRule = RULE
    now: float = 100.0
    told: Told = field(default_factory=Told)
    changed_at: float | None = None
    unread: list[Resumed] = field(default_factory=list)
    followed: Followed = NEVER_FOLLOWED
    events: list[Seen] = field(default_factory=list)
    last: Follow | None = None

    def __post_init__(self) -> None:
        self.told = self.told._replace(headless=self.headless)

    # --- the agent

    def line(self, **changed: object) -> "Session":
        """A line that means nothing to the turn, such as a title."""
        counts = Counts(self.told.counts.events + 1)
        fields = {"moved_at": self.now, "counts": counts, **changed}
        self.told = self.told._replace(**fields)  # type: ignore[arg-type] # each caller names real fields
        self.changed_at = self.now
        return self

    def prompt(self) -> "Session":
        """A prompt; one that comes to a headless session after an end begins its next stretch."""
        told = self.told
        began_at, attempt = told.started_at, max(1, told.attempt)
        if self.headless and told.close is not None:
            attempt += 1
            self.unread.append(Resumed(attempt, told.close, self.now, told.turns, began_at))
            began_at = self.now
        return self.line(
            attempt=attempt,
            turn="open",
            close=None,
            turns=told.turns + 1,
            started_at=self.now if began_at is None else began_at,
        )

    def goes_on(self) -> "Session":
        """The agent works on after what looked like an end."""
        return self.line(turn="open", close=None) if self.told.turn != "none" else self.line()

    def closes(self, close: Close = OK) -> "Session":
        """The last word of a turn."""
        return self.line(turn="closed", close=close._replace(at=self.now), attempt=max(1, self.told.attempt))

    def wait(self, seconds: float) -> "Session":
        self.now += seconds
        return self

    # --- the daemon

    def look(
        self,
        liveness: ProcessState = "unknown",
        process: RecordedProcess | None = None,
        complete: bool = True,
    ) -> "Session":
        """One look. What is remembered is stored and loaded before it."""
        return self.take(self.looked(Writer(liveness, process=process), complete))

    def looked(self, writer: Writer, complete: bool = True, began_at: float | None = None) -> Follow:
        sign = Sign(
            self.told, tuple(self.unread), writer, self.changed_at, self.now, complete, began_at=began_at
        )
        return follow(stored(self.followed), KEY, DECLARED, self.rule, sign)

    def take(self, followed: Follow) -> "Session":
        self.last, self.followed = followed, followed.after
        self.events += followed.events
        self.unread = []
        return self

    def settled(
        self, liveness: ProcessState = "unknown", process: RecordedProcess | None = None
    ) -> "Session":
        """Looks, each after the time that the last one asked for, until none is asked for."""
        for _ in range(5):
            self.look(liveness, process)
            assert self.last is not None
            if self.last.again_in is None:
                return self
            self.wait(self.last.again_in)
        raise AssertionError("it never settles")

    def lost(self) -> "Session":
        """A look that finds the session's file gone."""
        return self.take(lose(stored(self.followed), KEY, self.now))

    # --- what came of it

    @property
    def story(self) -> list[str]:
        return [in_words(event) for event in self.events]

    @property
    def started(self) -> list[AttemptStarted]:
        return [event for event in self.events if isinstance(event, AttemptStarted)]

    @property
    def ended(self) -> list[AttemptEnded]:
        return [event for event in self.events if isinstance(event, AttemptEnded)]
