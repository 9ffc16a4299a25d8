"""Signals, received in a thread of their own, and a bounded stop: it ends the process even if all else hangs.

The kernel reports signals through a pipe, so they are received even while the loop waits for a disk that hangs.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # signals must be received before anything slow begins
    import asyncio
    from collections.abc import Callable
    from types import FrameType

    from runward.daemon.log import Log

BOUND: Final = 10.0
"""Seconds from the first signal to the end of the process at the latest: a third of the unit's `TimeoutStopSec`."""

HURRIED: Final = 2.0
"""Seconds from a further signal to the end of the process at the latest."""

LEFT_BEHIND: Final = 1.0
"""Seconds that reading threads may still take after an orderly end of the daemon."""

SAYING: Final = 0.5
"""Seconds in which the log may take a last line: it may be on the very disk that hangs."""

STOPS: Final = (signal.SIGTERM, signal.SIGINT)
HEARD: Final = (*STOPS, signal.SIGHUP)


class Terminal:
    """The controlling terminal that a process was started from, if any."""

    def __init__(self) -> None:
        self._counts = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _is_there()

    def is_gone(self) -> bool:
        """Whether it was closed since. Under nohup(1) that does not matter."""
        return self._counts and not _is_there()


def _is_there() -> bool:
    """The kernel takes the terminal from its session before it sends the hang-up."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True


class Signals:
    """SIGTERM, SIGINT and SIGHUP of this process. A closed terminal stops it, any other SIGHUP reads settings again.

    Until `hold`, a stop ends the process at once. After that it waits for the handler given to `obey`, and begins an
    orderly end. In any case the process exits with 0 in time. Work that is unfinished then is treated as after a crash,
    which loses nothing.
    """

    def __init__(self) -> None:
        self._terminal = Terminal()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._log: Log | None = None
        self._stop: Callable[[str], None] = lambda name: None
        self._reload: Callable[[], None] = lambda: None
        self._held = False
        self._give_up_at: float | None = None
        self._asked: list[str] = []
        self._heard, self._tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def listen(self) -> None:
        """Begin to receive signals; in the main thread."""
        for number in HEARD:
            signal.signal(number, self._interrupt)
        # Python runs handlers only between two steps of the main thread. The pipe reaches the thread below
        # even while that one hangs.
        signal.set_wakeup_fd(self._tell, warn_on_full_buffer=False)
        # A thread of its own: the loop may be what hangs, and a stop must end the process all the same.
        threading.Thread(target=self._hear, name="signals", daemon=True).start()

    def hold(self) -> None:
        """From now on a stop must be orderly."""
        self._held = True

    def obey(
        self,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        stop: Callable[[str], None],
        reload: Callable[[], None],
    ) -> None:
        """Have `stop` called in the loop with the name of each signal to stop, `reload` for others."""
        with self._lock:
            self._loop, self._log, self._stop, self._reload = loop, log, stop, reload
            # A stop that came before the loop existed must not be lost.
            for name in self._asked:
                loop.call_soon_threadsafe(stop, name)

    def over(self) -> None:
        """The daemon has finished: ignore further signals, and limit the remaining time."""
        with self._lock:
            self._loop = None
            if self._asked:
                self._end_within(LEFT_BEHIND)
        for number in HEARD:
            # Python restores the default when it ends, and a second SIGTERM would then kill the process in
            # the middle.
            signal.signal(number, signal.SIG_IGN)
        self._wake()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """In the main thread: end the process if nothing has begun that must be ended in order."""
        if not self._held and self._means_stop(number):
            sys.exit(0)

    def _means_stop(self, number: int) -> bool:
        return number in STOPS or self._terminal.is_gone()

    def _end_within(self, seconds: float) -> None:
        at = time.monotonic() + seconds
        self._give_up_at = at if self._give_up_at is None else min(at, self._give_up_at)

    def _wake(self) -> None:
        try:
            os.write(self._tell, b"\0")
        except BlockingIOError:
            return  # a full pipe is noticed anyway

    def _hear(self) -> None:
        poll = select.poll()
        poll.register(self._heard, select.POLLIN)
        while True:
            give_up_at = self._give_up_at
            patience = None if give_up_at is None else max(0.0, give_up_at - time.monotonic())
            if poll.poll(None if patience is None else patience * 1000):
                for number in os.read(self._heard, 512):
                    if number:
                        self._take(number)
            # Another signal may have moved the moment while we waited.
            elif give_up_at == self._give_up_at:
                self._give_up()

    def _take(self, number: int) -> None:
        with self._lock:
            stops = self._means_stop(number)
            if stops:
                # A second stop means that the first one takes too long.
                self._end_within(HURRIED if self._asked else BOUND)
                self._asked.append(signal.Signals(number).name)
            if self._loop is None:
                return
            try:
                if stops:
                    self._loop.call_soon_threadsafe(self._stop, self._asked[-1])
                else:
                    self._loop.call_soon_threadsafe(self._reload)
            except RuntimeError:
                return  # the loop was closed: the process is already ending

    def _give_up(self) -> None:
        """End at once, as after a crash: nothing is lost, and unfinished work is resumed at the next start."""
        if self._loop is not None and self._log is not None:
            # The log may be what hangs, so it is written in a thread that may be left behind.
            threading.Thread(target=self._say, args=(self._log,), daemon=True).start()
            time.sleep(SAYING)
        os._exit(0)

    def _say(self, log: Log) -> None:
        log.warning(
            "stopped.by_force",
            why="something that the daemon waited for didn't end in time",
            fix="nothing is lost: the next daemon continues; look for a disk that hangs",
        )
