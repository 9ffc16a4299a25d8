"""What is outside the daemon: launchers with their commands, and people. What they do, and when, is drawn from the seed."""

from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from tests.handlers.chains.chain_rows import Asked, Broken
from tests.handlers.chains.drawn_chains import ASKED

from runward.config.json_value import JsonValue
from runward.handlers.model.approvals import ApprovalRequested, ApprovalStanding
from runward.handlers.model.chains import (
    ChainFireRequested,
    ChainRunCancelRequested,
    ChainStatusRequested,
    EventOccurred,
)
from runward.handlers.model.invocations import StartFailed
from runward.handlers.model.sessions import AttemptStarted, SessionFinished, Status

if TYPE_CHECKING:
    from tests.handlers.chains.chain_world import World

_ENDS: Final[tuple[tuple[Status, str], ...]] = (
    *(("completed", "run.completed.ok"),) * 6,
    ("failed", "run.failed.exit"),
    ("failed", "run.failed.exit"),
    ("aborted", "run.aborted.killed"),
    ("timed_out", "run.timed_out.stale"),
    ("cancelled", "run.cancelled.user"),
)
_OUTCOMES: Final[tuple[JsonValue, ...]] = (None, {"go": True}, {"go": True}, {"go": False}, {"other": 1})


class Outside:
    """Everybody who acts on the chains of a world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._requests = 0

    def plan(self) -> None:
        for _ in range(self._world.dice.choice((1, 2, 4, 6))):
            self._world.after(self._world.dice.uniform(0.0, 60.0), self._fire)
        for _ in range(self._world.dice.choice((0, 0, 1, 3))):
            self._world.after(self._world.dice.uniform(0.0, 90.0), self._cancel)
        if self._world.dice.random() < 0.2:
            self._world.after(self._world.dice.uniform(0.0, 60.0), lambda: self._pause("paused"))
            self._world.after(self._world.dice.uniform(30.0, 90.0), lambda: self._pause("active"))
        for _ in range(self._world.dice.choice((0, 0, 1, 4))):
            self._world.after(self._world.dice.uniform(0.0, 90.0), self._change)
        for _ in range(self._world.dice.choice((0, 0, 0, 2))):
            slots = self._world.dice.choice((1, 2, 3, 16))
            self._world.after(self._world.dice.uniform(0.0, 90.0), partial(self._world.resize, slots))

    def _request(self) -> str:
        self._requests += 1
        return f"request-{self._requests}"

    def _fire(self) -> None:
        fields: dict[str, JsonValue] = {
            "n": self._world.dice.choice((1, 1, 2)),
            "yes": self._world.dice.random() < 0.7,
        }
        if self._world.dice.random() < 0.3:
            name = self._world.dice.choice(sorted(self._world.chains))
            self._world.record(ChainFireRequested(self._request(), self._world.now, name, fields, "ada"))
            return
        request = self._request()
        event = EventOccurred(request, self._world.now, ASKED, request, fields, "ada")
        self._world.record(event)
        if self._world.dice.random() < 0.2:
            self._world.after(self._world.dice.uniform(0.0, 30.0), lambda: self._world.record(event))

    def _cancel(self) -> None:
        if self._world.runs:
            run = self._world.dice.choice(sorted(self._world.runs))
            self._world.record(
                ChainRunCancelRequested(self._request(), self._world.now, run, "enough", "bob")
            )

    def _pause(self, status: Literal["active", "paused"]) -> None:
        chain = self._world.dice.choice(sorted(self._world.chains))
        self._world.record(ChainStatusRequested(self._request(), self._world.now, chain, status, "", "bob"))

    def _change(self) -> None:
        """The playbook changes: what was shown for approval is not what would run any more."""
        self._world.version += 1

    def begin(self, key: str) -> None:
        command = self._world.commands[key]
        if command.state != "ordered":
            return
        if self._world.dice.random() < 0.1:
            command.state = "never"
            self._world.record(StartFailed(command.start.key, key, self._world.now, "its directory is taken"))
            return
        command.state, command.began = "runs", self._world.now
        self._world.record(AttemptStarted(key, 1, self._world.now, None))
        length, timeout = self._world.dice.choice((0.5, 3.0, 10.0, 40.0)), command.start.timeout
        stale_after = command.start.stale_after
        is_silent = stale_after is not None and stale_after < length and self._world.dice.random() < 0.5
        if timeout is not None and timeout <= length:
            self._world.after(timeout, lambda: self._over(key, "timed_out", "run.timed_out.deadline"))
        elif is_silent and stale_after is not None:
            self._world.after(stale_after, lambda: self._over(key, "timed_out", "run.timed_out.stale"))
        else:
            status, reason = self._world.dice.choice(_ENDS)
            self._world.after(length, lambda: self._over(key, status, reason))

    def end(self, key: str) -> None:
        """A person wants a session ended. One that has not begun is none, so the order is refused."""
        command = self._world.commands[key]
        if command.state == "runs":
            command.to_end = True
            self._world.after(
                self._world.dice.uniform(0.0, 5.0), lambda: self._over(key, "cancelled", "run.cancelled.user")
            )

    def _over(self, key: str, status: Status, reason: str) -> None:
        command = self._world.commands[key]
        if command.state != "runs":
            return
        command.state, command.said = "over", (status, reason, self._world.dice.choice(_OUTCOMES))
        self._world.record(SessionFinished(key, 1, self._world.now, status, reason, None))
        if self._world.dice.random() < 0.05:  # a person resumes the session, and it ends once more
            again = SessionFinished(key, 2, self._world.now, "failed", "run.failed.exit", None)
            self._world.after(self._world.dice.uniform(1.0, 30.0), lambda: self._world.record(again))

    def ask(self, row: ApprovalStanding) -> None:
        if row.id in self._world.approvals:
            raise Broken(f"{row.id} is asked for twice")
        self._world.approvals[row.id] = Asked(row)
        for _ in range(self._world.dice.choice((0, 1, 1, 2))):
            self._world.after(
                self._world.dice.uniform(0.0, 50.0),
                lambda: self._decide(row, self._world.dice.choice(("ada", "bob"))),
            )

    def _decide(self, row: ApprovalStanding, by: str) -> None:
        decision: Literal["approved", "denied"] = "approved" if self._world.dice.random() < 0.75 else "denied"
        self._world.record(
            ApprovalRequested(self._request(), self._world.now, row.id, row.run, decision, "", by)
        )

    def last_answer(self) -> bool:
        """In the end somebody answers what still waits; says whether there was anything."""
        for asked in self._world.approvals.values():
            run = self._world.runs[asked.row.run]
            if asked.status == "asked" and run.status == "waiting_approval":
                self._decide(asked.row, "bob")
                return True
        return False
