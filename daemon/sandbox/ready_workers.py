"""Workers that were started in advance. Each is used once, so nothing passes from one piece of code to the next.

One thread starts them and lives as long as the daemon: the kernel kills a worker when the thread that started it ends.
They are kept ready only for a while after code ran, since most daemons never run any.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from runward.config.executor import Executor
from runward.daemon.sandbox.isolated import NoSandbox
from runward.daemon.sandbox.workers import Worker

IDLE_S: Final = 60.0
"""How long workers are kept ready after code ran last."""


class ReadyWorkers:
    """Keeps as many workers ready as may run at the same time, for each kind that was used recently."""

    def __init__(self, idle_s: float = IDLE_S, died: Callable[[str], None] = lambda reason: None) -> None:
        """`died` is called for each worker that ended while it waited."""
        self._died = died
        self._idle_s = idle_s
        self._ready: dict[Executor, deque[Worker]] = {}
        self._asked: dict[Executor, float] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def take(self, executor: Executor) -> Worker:
        """An unused worker, a ready one if there is any. The caller closes it. Raises `NoSandbox`."""
        with self._changed:
            self._asked[executor] = time.monotonic()
            worker = self._alive(executor)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._keep, name="ready workers", daemon=True)
                self._thread.start()
            self._changed.notify()
        return Worker(executor) if worker is None else worker

    def close(self) -> None:
        """End the waiting workers. From then on, each worker is started when it is taken."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    @property
    def count(self) -> int:
        """How many are ready."""
        with self._changed:
            return sum(len(each) for each in self._ready.values())

    def _alive(self, executor: Executor) -> Worker | None:
        waiting = self._ready.get(executor, deque())
        while waiting:
            worker = waiting.popleft()
            if worker.is_waiting:
                return worker
            if worker.has_died:
                self._died("it ended while it waited for code")
            worker.close()
        return None

    def _keep(self) -> None:
        while True:
            with self._changed:
                self._close_idle()
                if self._is_closed:
                    return
                lacking = next(
                    (each for each in self._asked if len(self._ready.get(each, ())) < each.workers), None
                )
                if lacking is None:
                    self._changed.wait(self._idle_s if self._asked else None)
                    continue
            try:
                worker = Worker(lacking)
            except NoSandbox:  # the code that needs one gets the error
                with self._changed:
                    self._asked.pop(lacking, None)
                continue
            with self._changed:
                self._ready.setdefault(lacking, deque()).append(worker)

    def _close_idle(self) -> None:
        now = time.monotonic()
        for executor, asked in list(self._asked.items()):
            if self._is_closed or now >= asked + self._idle_s:
                del self._asked[executor]
        for executor in self._ready.keys() - self._asked.keys():
            for worker in self._ready.pop(executor):
                worker.close()
