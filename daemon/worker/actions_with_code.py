"""Actions for which code must run: each in a thread, until it has its result.

An action asks as often as it likes; the first time its code begins. If others changed meanwhile what it read, it is worked
out again; after three times in vain, the others wait for it. The next action of a principal begins when the one before it is
recorded: begun earlier, it would miss what that one changed, and its code would run twice. What ended is kept until the
action is recorded. A daemon that dies forgets it, and its successor works it out again.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from runward.config.executor import DEFAULT_WORKERS
from runward.daemon.worker.reactions import Done
from runward.handlers.exchange.acting_with_code import (
    Acted,
    ActedWithCode,
    CodeOf,
    Decided,
    Running,
    TurnOf,
    Worked,
)
from runward.handlers.exchange.action_result import Refused
from runward.handlers.exchange.effects import RecordAction

TIMES_BESIDE_OTHERS: Final = 3
"""How often an action is worked out while others continue."""

LONGEST_TURN_S: Final = 5.0
"""How long other actions wait for one that was worked out to be recorded: it may be held."""

Work: TypeAlias = Callable[[ActedWithCode], Worked]
"""Works an action out to its end. Blocks."""


def no_sandbox(asked: ActedWithCode) -> Worked:
    """What becomes of an action where there is nothing to run its code in."""
    return failed("not_configured", "nothing runs code here")


def failed(code: str, why: str, cpu_s: float = 0.0, sandbox: str | None = None) -> Worked:
    """An action that fails before it is known what it comes to."""
    return Worked(Decided(None, Refused(code, why).result(), None), (), {}, cpu_s, sandbox)


@dataclass(slots=True)
class _Action:
    principal: str | None
    began: float
    number: int = 1
    earlier_cpu_s: float = 0.0
    worked: Worked | None = None
    ended: float = 0.0


@dataclass(slots=True)
class ActionsWithCode:
    """What is being worked out, and what was, by the action."""

    work: Work
    at_once: Callable[[], int] = lambda: DEFAULT_WORKERS
    """How many are worked out at the same time; 0 for none ever."""
    _actions: dict[str, _Action] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, asked: ActedWithCode) -> Running | Acted:
        """What became of the action; asked in a thread."""
        key, now, most = asked.event.key, time.monotonic(), self.at_once()
        if most == 0:
            return Acted(1, 0.0, failed("not_configured", "no code runs: workers = 0 in [exchange.executor]"))
        with self._lock:
            action = self._actions.get(key)
            if action is not None and action.worked is None:
                return Running(now - action.began)
            if action is not None and action.worked is not None and action.number > asked.after:
                return Acted(action.number, action.earlier_cpu_s + action.worked.cpu_s, action.worked)
            if sum(each.worked is None for each in self._actions.values()) >= most:
                return Running(0.0)
            principal = asked.event.principal
            if action is None and self._is_to_be_recorded(principal, now):
                return Running(0.0)
            if action is None or action.worked is None:
                action = self._actions[key] = _Action(principal, now)
            else:
                cpu_s = action.earlier_cpu_s + action.worked.cpu_s
                action = self._actions[key] = _Action(principal, now, action.number + 1, cpu_s)
        threading.Thread(target=self._run, args=(asked, action), daemon=True).start()
        return Running(0.0)

    def ran(self, asked: CodeOf) -> Running | float:
        """What code has run for an action so far."""
        with self._lock:
            action = self._actions.get(asked.action)
            if action is None:
                return 0.0
            if action.worked is None:
                return Running(time.monotonic() - action.began)
            return action.earlier_cpu_s + action.worked.cpu_s

    def may_be_decided(self, asked: TurnOf) -> bool:
        """Whether no other action has the exchange for itself."""
        now = time.monotonic()
        with self._lock:
            return not any(
                key != asked.action and _is_alone(action, now) for key, action in self._actions.items()
            )

    def forget(self, recorded: Done[RecordAction]) -> None:
        """These actions have their result."""
        with self._lock:
            for _, effect in recorded:
                self._actions.pop(effect.key, None)

    def _is_to_be_recorded(self, principal: str | None, now: float) -> bool:
        """Whether an action of this principal was worked out, and the store doesn't have it yet."""
        return any(
            each.principal == principal and each.worked is not None and now < each.ended + LONGEST_TURN_S
            for each in self._actions.values()
        )

    def _run(self, asked: ActedWithCode, action: _Action) -> None:
        try:
            worked = self.work(asked)
        except Exception as error:  # noqa: BLE001 - a mistake of ours is this action's result, and harms no other
            worked = failed("internal_error", f"{type(error).__name__}: {error}")
        with self._lock:
            action.ended = time.monotonic()
            action.worked = worked


def _is_alone(action: _Action, now: float) -> bool:
    if action.number <= TIMES_BESIDE_OTHERS:
        return False
    return action.worked is None or now < action.ended + LONGEST_TURN_S
