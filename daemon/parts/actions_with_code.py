"""Actions for which code must run: each in a thread, until it has its result.

An action may ask any number of times; the first time starts its code. If other actions changed what it read meanwhile,
it is worked out again, some times at most: no other action waits for it. The next action of a principal begins
when the one before it is recorded: If it began earlier, it would miss what that one changed, and its code would run
twice. Results are kept until the action is recorded. If the daemon dies first, its successor works the action out
again.

An action that can't be worked out has no result: its job is held if Runward has a bug, and is put off if something
was temporarily impossible.
On a retry it is worked out again, and is also charged the CPU time that its code has used so far.
"""

import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

from runward.config.exchange import Executor
from runward.daemon.store.reading import StoreUnreadable
from runward.handlers.exchange.intent import Refused
from runward.handlers.exchange.reading import (
    Acted,
    ActedWithCode,
    CodeOf,
    CodeRan,
    Decided,
    Reading,
    Running,
    Unable,
    Worked,
)
from runward.handlers.model.asking import TryLater
from runward.handlers.model.exchange import RecordAction

if TYPE_CHECKING:  # a command that only works out a contract does without the parts
    from runward.daemon.engine.part import Done

LONGEST_TURN_S: Final = 5.0
"""How long the next code of a principal waits until the action before is recorded: its job may be held."""

GIVEN_UP_S: Final = 2.0
"""How long an action that asks no more keeps its place in the queue for a worker."""

PATIENT_S: Final = 1.0
"""How long an action waits before it is the next one. Until then, whichever asks first gets a worker: no worker idles."""

Work: TypeAlias = Callable[[ActedWithCode], Worked | Unable]
"""Works an action out to its end. Blocks. Raises `NotWorkedOut`."""


class NotWorkedOut(Exception):
    """An action can't be worked out, because of `error`. Its code has used `cpu_s` seconds."""

    def __init__(self, error: Exception, cpu_s: float = 0.0) -> None:
        super().__init__(str(error))
        self.error = error
        self.cpu_s = cpu_s


def no_sandbox(asked: ActedWithCode) -> Unable:
    """The result of an action if there is nothing to run its code in."""
    return Unable("nothing runs code here")


def failed(code: str, why: str) -> Worked:
    """An action that fails before its result is known."""
    return Worked(
        decided=Decided(None, Refused(code, why).result()),
        effects=(),
        paid=(),
        reading=Reading(),
        cpu_s=0.0,
        sandbox=None,
    )


@dataclass(slots=True)
class _Action:
    principal: str | None
    began: float
    number: int = 1
    earlier_cpu_s: float = 0.0
    worked: Worked | Unable | NotWorkedOut | None = None
    """Its result; None while it is worked out."""
    ended: float = 0.0
    is_told: bool = False
    """Whether the job was told that it can't be worked out."""

    @property
    def cpu_s(self) -> float:
        """The CPU time of all tries together."""
        ran = self.worked if isinstance(self.worked, Worked | NotWorkedOut) else None
        return self.earlier_cpu_s + (0.0 if ran is None else ran.cpu_s)


@dataclass(slots=True)
class ActionsWithCode:
    """The actions that are being worked out or were, by action."""

    work: Work
    at_once: Callable[[], int] = lambda: Executor().workers
    """How many are worked out at the same time; 0 turns this off."""
    _actions: dict[str, _Action] = field(default_factory=dict)
    _waiting: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The actions that wait for a worker: since when, and when each asked last (monotonic seconds).

    Each principal has one action at a time, so nobody gets a second turn before others that wait had one.
    """
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, asked: ActedWithCode) -> Running | Acted | Unable:
        """The result of the action; called in a thread.

        If it can't be worked out, raises the reason once for each try.
        """
        key, now, most = asked.event.key, time.monotonic(), self.at_once()
        if most == 0:
            return Unable("no code runs: workers = 0 in [exchange.executor]")
        with self._lock:
            action = self._actions.get(key)
            if action is not None and action.worked is None:
                return Running(now - action.began)
            if action is not None and isinstance(action.worked, Unable):
                return action.worked
            if action is not None and isinstance(action.worked, NotWorkedOut) and not action.is_told:
                action.is_told = True
                raise _said(action.worked.error)
            if action is not None and isinstance(action.worked, Worked) and action.number > asked.after:
                return Acted(action.number, action.cpu_s, action.worked)
            principal = asked.event.principal
            # The one before may have changed what this one reads, and the store doesn't have it yet.
            if action is None and self._is_to_be_recorded(principal, now):
                return Running(0.0)
            if not self._is_its_turn(key, most, now):
                return Running(0.0)
            # Worked out again because others changed what it read: a further number, so that its job knows this result
            # from the one that it refused. What its code used so far is charged in any case.
            number = 1 if action is None else action.number + isinstance(action.worked, Worked)
            cpu_s = 0.0 if action is None else action.cpu_s
            action = self._actions[key] = _Action(principal, now, number, cpu_s)
        # In a thread of its own, outside the lock: code may take minutes, and verdicts are decided meanwhile.
        try:
            threading.Thread(target=self._run, args=(asked, action), daemon=True).start()
        except RuntimeError as error:  # the machine has no thread left
            self._end(action, NotWorkedOut(OSError(str(error))))
        return Running(0.0)

    def ran(self, asked: CodeOf) -> Running | CodeRan:
        """The code that has run for an action so far."""
        with self._lock:
            action = self._actions.get(asked.action)
            if action is None:
                return CodeRan()
            if action.worked is None:
                return Running(time.monotonic() - action.began)
            paid = action.worked.paid if isinstance(action.worked, Worked) else ()
            return CodeRan(action.cpu_s, paid)

    def forget(self, recorded: "Done[RecordAction]") -> None:
        """Forget these actions: their results are recorded."""
        with self._lock:
            for _, effect in recorded:
                self._actions.pop(effect.key, None)

    def _is_its_turn(self, key: str, most: int, now: float) -> bool:
        """Whether there is a worker for this action, after those that have waited for long and for longer."""
        since, _ = self._waiting.get(key, (now, now))
        self._waiting[key] = since, now
        self._waiting = {each: times for each, times in self._waiting.items() if now <= times[1] + GIVEN_UP_S}
        before = sum(began < since and now > began + PATIENT_S for began, _ in self._waiting.values())
        if before + sum(each.worked is None for each in self._actions.values()) >= most:
            return False
        del self._waiting[key]
        return True

    def _is_to_be_recorded(self, principal: str | None, now: float) -> bool:
        """Whether an action of this principal was worked out, and the store doesn't have it yet."""
        return any(
            each.principal == principal and each.worked is not None and now < each.ended + LONGEST_TURN_S
            for each in self._actions.values()
        )

    def _run(self, asked: ActedWithCode, action: _Action) -> None:
        worked: Worked | Unable | NotWorkedOut
        try:
            worked = self.work(asked)
        except NotWorkedOut as error:
            worked = error
        except Exception as error:  # noqa: BLE001 - it is raised where the action is asked for, and harms no other
            worked = NotWorkedOut(error)
        self._end(action, worked)

    def _end(self, action: _Action, worked: Worked | Unable | NotWorkedOut) -> None:
        with self._lock:
            action.ended = time.monotonic()
            action.worked = worked


def _said(error: Exception) -> Exception:
    """What a handler raises for this error: a refusal by the machine may pass."""
    if isinstance(error, OSError | sqlite3.OperationalError | StoreUnreadable):
        return TryLater(f"its code can't be run: {error}")
    return error


_LONGEST_REASON: Final = 200


@dataclass(frozen=True, slots=True)
class KilledWorkers:
    """How many there were; when the last one was noticed (Unix seconds), and why it ended."""

    count: int
    last_at: float
    last_reason: str


class KilledCount:
    """Counts them; used in many threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._killed: KilledWorkers | None = None

    def add(self, reason: str) -> None:
        """Count one more. Code can influence the reason, so its length is limited."""
        with self._lock:
            count = 1 if self._killed is None else self._killed.count + 1
            self._killed = KilledWorkers(count, time.time(), reason[:_LONGEST_REASON])

    def report(self) -> KilledWorkers | None:
        """The numbers so far; None if there were none."""
        return self._killed


@dataclass(slots=True)
class CodeTrouble:
    """What `status` says about code: why it couldn't run at the last try, and which workers were killed."""

    refused: str | None = None
    killed: KilledCount = field(default_factory=KilledCount)
    watcher: Callable[[], str | None] = lambda: None
    """Why nobody would end what a killed daemon leaves of its sandboxes."""

    def degraded(self) -> list[str]:
        """What is wrong, with the fix."""
        watcher = self.watcher()
        wrong = [] if watcher is None else [watcher]
        if self.refused is None:
            return wrong
        from runward.daemon.sandbox.isolated import REFUSED  # few daemons run code

        return [f"{REFUSED}{self.refused}", *wrong]
