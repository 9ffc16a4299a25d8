"""Code of the exchange as it runs: each piece in a thread, until the action that it runs for has its result.

An action asks as often as it likes; the first time its code begins. What ended is kept until the action is recorded. A
daemon that dies forgets it, and its successor has the code run again.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from runward.daemon.worker.reactions import Done
from runward.handlers.exchange.effects import RecordAction
from runward.handlers.exchange.facts import Executed, ExecutionOf, Running

AT_ONCE: Final = 2
"""Pieces of code that run at the same time."""

Execute: TypeAlias = Callable[[ExecutionOf], Executed]
"""Runs what is asked for to its end. Blocks."""


def no_sandbox(asked: ExecutionOf) -> Executed:
    """What becomes of code where there is nothing to run it in."""
    return Executed("not_configured", None, "nothing runs code here", 0.0, None)


@dataclass(slots=True)
class _Piece:
    began: float
    ended: Executed | None = None


@dataclass(slots=True)
class Executions:
    """What runs and what ended, by the action and the version of the artifact."""

    execute: Execute
    _pieces: dict[tuple[str, str, int], _Piece] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, asked: ExecutionOf) -> Running | Executed:
        """What became of the code; asked in a thread."""
        key = (asked.action, asked.artifact, asked.version)
        now = time.monotonic()
        with self._lock:
            piece = self._pieces.get(key)
            if piece is not None:
                return piece.ended if piece.ended is not None else Running(now - piece.began)
            if sum(each.ended is None for each in self._pieces.values()) >= AT_ONCE:
                return Running(0.0)
            piece = self._pieces[key] = _Piece(now)
        threading.Thread(target=self._run, args=(asked, piece), daemon=True).start()
        return Running(0.0)

    def forget(self, recorded: Done[RecordAction]) -> None:
        """These actions have their result."""
        keys = {effect.key for _, effect in recorded}
        with self._lock:
            for key in [each for each in self._pieces if each[0] in keys]:
                del self._pieces[key]

    def _run(self, asked: ExecutionOf, piece: _Piece) -> None:
        try:
            ended = self.execute(asked)
        except Exception as error:  # noqa: BLE001 - a mistake of ours is this action's result, and harms no other
            ended = Executed("internal_error", None, f"{type(error).__name__}: {error}", 0.0, None)
        with self._lock:
            piece.ended = ended
