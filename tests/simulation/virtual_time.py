"""Virtual time: events of the world and the event loops of several processes, one at a time.

Each simulated process has an asyncio loop in a thread of its own, but only the one that holds the
baton runs, and it passes the baton on where a real process would wait: in `select`, or where it is
frozen. Time stands still while anything runs and then jumps to whatever comes next. So the same
seed always gives the same history, and a process can be stopped in the middle of any function.
"""

import asyncio
import heapq
import itertools
import math
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

BUSY: Final = 50_000
"""Rounds of loops without time moving on after which somebody is going round in circles."""


class Killed(BaseException):
    """The process that runs this was killed: no code of its own may notice."""


class NothingLeft(AssertionError):
    """Every process waits for ever and the world has nothing left to happen: a lost wake-up."""


class GoingInCircles(AssertionError):
    """Code runs again and again without ever waiting."""


class Process:
    """A simulated process. `wakes_at` is when it wants the baton again."""

    def __init__(self, timeline: "Timeline", name: str) -> None:
        self.timeline = timeline
        self.name = name
        self.wakes_at = math.inf
        self.frozen_until: float | None = None
        self.waiting = False
        self.killed = False
        self.over = False
        self.failure: BaseException | None = None
        self.baton = threading.Semaphore(0)
        self.loop: VirtualLoop | None = None
        self._main: asyncio.Task[None] | None = None

    def start(self, body: Callable[[], Coroutine[Any, Any, None]], ended: Callable[[], None]) -> None:
        """Run `body` in a loop of its own from now on; `ended` is called when it is over."""
        self.wakes_at = self.timeline.time
        self.timeline.processes.append(self)
        thread = threading.Thread(target=self._run, args=(body, ended), name=self.name, daemon=True)
        thread.start()

    def _run(self, body: Callable[[], Coroutine[Any, Any, None]], ended: Callable[[], None]) -> None:
        self.baton.acquire()
        self.timeline.running = self
        try:
            if not self.killed:
                with asyncio.Runner(loop_factory=lambda: VirtualLoop(self)) as runner:
                    runner.run(self._body(body))
        except BaseException as error:  # whatever ended it, the timeline must go on and say so
            self.failure = error
        self.over = True
        self.wakes_at = math.inf
        self.timeline.processes.remove(self)
        self.timeline.guard(ended)
        self.timeline.leave()

    async def _body(self, body: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._main = asyncio.current_task()
        asyncio.get_running_loop().set_exception_handler(self._complain)
        await body()

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What nobody awaited went wrong."""
        error = context.get("exception")
        if not isinstance(error, Killed):
            self.timeline.fail(AssertionError(f"{self.name}: {context['message']}: {error!r}"))

    def call(self, callback: Callable[[], object]) -> None:
        """Have the process's loop call this, as a thread or a file descriptor would."""
        if self.loop is not None and not self.killed and not self.over:
            self.loop.call_soon(callback)
            if self.frozen_until is None:
                self.wakes_at = min(self.wakes_at, self.timeline.time)

    def kill(self) -> None:
        """It runs no further. Only what unwinds it is still called."""
        self.killed = True
        if self.loop is not None and self._main is not None and not self.over:
            self.loop.call_soon(self._main.cancel)
        if self.waiting or self.frozen_until is not None:
            self.wakes_at = self.timeline.time

    def freeze(self, until: float) -> None:
        """Stop in the middle of whatever runs, as SIGSTOP does, and go on at `until`."""
        self.frozen_until = until
        self.timeline.pause(self, until)
        self.frozen_until = None
        if self.killed:
            raise Killed


class Timeline:
    """What happens next. `time` is in seconds; it is the monotonic time of every process."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.processes: list[Process] = []
        self.failure: BaseException | None = None
        self.over = False
        self.happening = False
        """Whether the world acts now, in whosever thread it is."""
        self.running: Process
        self._number = itertools.count()
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._main = Process(self, "main")
        self._idle = 0

    def at(self, time: float, action: Callable[[], object]) -> None:
        """Have `action` happen at `time`."""
        heapq.heappush(self._events, (max(time, self.time), next(self._number), action))

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Have `action` happen in `seconds`."""
        self.at(self.time + seconds, action)

    def run(self) -> None:
        """Let everything happen until somebody says that it is over. Raises what went wrong."""
        self.running = self._main
        self.pause(self._main, math.inf)
        for process in list(self.processes):
            process.kill()
        for _ in range(100):
            if not self.processes:
                break
            self.pause(self._main, self.time + 1.0)
        else:
            self.fail(GoingInCircles(f"{self.processes[0].name} was killed and goes on"))
        if self.failure is not None:
            raise self.failure

    def finish(self) -> None:
        """The history is over."""
        self.over = True
        self._main.wakes_at = self.time

    def fail(self, error: BaseException) -> None:
        """Something is wrong: end here, with the first reason."""
        if self.failure is None:
            self.failure = error
        self.finish()

    def guard(self, action: Callable[[], object]) -> None:
        """Do something of the world's; what goes wrong there ends the history."""
        try:
            action()
        except Exception as error:  # it must not end in the middle of a process's own code
            self.fail(error)

    def elapse(self, seconds: float) -> None:
        """Time goes by in the middle of a system call, while agents go on."""
        until = self.time + seconds
        while self._events and self._events[0][0] <= until and not self.over:
            self._happen()
        self.time = max(self.time, until)

    def pause(self, process: Process, until: float) -> None:
        """`process`, which runs, has nothing to do before `until`; return when it shall go on."""
        process.wakes_at = until
        chosen = self._choose()
        if chosen is not process:
            chosen.baton.release()
            process.baton.acquire()
        self.running = process

    def leave(self) -> None:
        """The process that runs is over: pass the baton on for good."""
        self._choose().baton.release()

    def round(self) -> None:
        """A loop goes round without waiting."""
        self._idle += 1
        if self._idle > BUSY:
            self._idle = 0
            self.fail(GoingInCircles(f"{self.running.name} goes round without waiting at {self.time}"))
            raise Killed

    def _choose(self) -> Process:
        self._idle = 0
        while True:
            if self.over and self._main.wakes_at <= self.time:
                return self._main
            following = min(self.processes, key=lambda each: each.wakes_at, default=self._main)
            if self._main.wakes_at < following.wakes_at:
                following = self._main
            if self._events and self._events[0][0] <= following.wakes_at and not self.over:
                self._happen()
            elif following.wakes_at == math.inf:
                self.fail(NothingLeft(f"nothing is left to happen at {self.time}"))
            else:
                self.time = max(self.time, following.wakes_at)
                return following

    def _happen(self) -> None:
        time, _, action = heapq.heappop(self._events)
        self.time = max(self.time, time)
        self.happening = True
        self.guard(action)
        self.happening = False


class _Jump(selectors.SelectSelector):
    """A selector in which nothing is ever ready: waiting is letting time go by."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        timeline = self._process.timeline
        if timeout is not None and timeout <= 0:
            timeline.round()
            return []
        loop = self._process.loop
        assert loop is not None
        self._process.waiting = True
        timeline.pause(self._process, loop.next_timer())
        self._process.waiting = False
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is the timeline's."""

    def __init__(self, process: Process) -> None:
        self._process = process
        process.loop = self
        super().__init__(_Jump(process))
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._process.timeline.time

    def next_timer(self) -> float:
        """When the next timer is due. The name of the loop's own heap has been the same since Python 3.4."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined] # it is private
        return scheduled[0].when() if scheduled else math.inf
