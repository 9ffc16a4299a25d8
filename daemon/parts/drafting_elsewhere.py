"""Drafting the bundles of large sessions in processes of their own, so that verdicts don't wait for the interpreter.

A process makes one bundle after another, and is ended when there was none for a while. It gives way to everybody else on
the machine. If it dies, the bundle is made again, as after any other refusal: nothing is recorded before its parts are
there, and what it left is removed by the next try.

What it is told and what it says are lines: an order, with what else it must know; from time to time how many bytes were
read; and what became of the bundle.
"""

import math
import os
import select
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from runward.daemon.disk.epoch import EpochPassed
from runward.daemon.parts.drafting import Drafting, Made, MakingAnswer, ToldActions, tried
from runward.daemon.rundir.opening import Gone, Halted
from runward.daemon.store.tables.replays import LastTold, told_actions_in
from runward.daemon.world.files import Files
from runward.daemon.world.starting import environment
from runward.handlers.calls import Told
from runward.handlers.model.bundle import BundleOrder, NoDraft
from runward.handlers.model.files import Unreadable

MOST_HERE: Final = 1 << 20
"""Bytes of a session that are read in the daemon. Drafting these takes it 15 ms; starting a process takes 0.2 s."""

IDLE_S: Final = 10.0
"""Seconds without an order after which a process is ended."""

DIED: Final = "the process that made it ended"

_LOOK_S: Final = 0.1
"""Seconds between two looks whether to continue, and between two reports of what was read."""

_PIECE: Final = 1 << 16


class TooMuchHere(Exception):
    """The session is so large that its bundle is made elsewhere."""


class Order(msgspec.Struct, frozen=True, array_like=True):
    """What a process is told: a bundle to make, and what its daemon knows."""

    order: BundleOrder
    is_again: bool
    is_being_shown: bool
    epoch: int
    roots: Mapping[str, str | None]


class Said(msgspec.Struct, omit_defaults=True):
    """What it says. Only the last line of an order has more than `read`."""

    read: int = 0
    made: Made | None = None
    no_draft: NoDraft | None = None
    unreadable: Unreadable | None = None
    gone: Gone | None = None
    passed: str | None = None
    """Another daemon has taken over."""
    failed: str | None = None
    """The traceback of a bug."""


_encode: Final = msgspec.json.Encoder().encode
_ORDERS: Final = msgspec.json.Decoder(Order)
_SAID: Final = msgspec.json.Decoder(Said)


class FailedElsewhere(Exception):
    """A bug of Runward in the process; the message is its traceback."""


class DraftingElsewhere:
    """The processes of the daemon of this state directory. Each thread that needs one has its own."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._free: list[_Process] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_timed = False
        """Whether it is looked for those that wait for too long."""

    def make(self, order: Order, go_on: Callable[[int], bool]) -> MakingAnswer:
        """Have a bundle made; blocks. Raises `Halted`, `EpochPassed`, `FailedElsewhere`, and what `go_on` raises."""
        try:
            process = self._take()
        except OSError as error:
            return Unreadable(f"no process for it can be started: {error.strerror}")
        try:
            said = process.make(order, go_on)
        except BaseException:
            # It is in the middle of a bundle that nobody waits for.
            process.end()
            raise
        if said is None:
            process.end()
            return Unreadable(DIED)
        self._give_back(process)
        return _answer(said)

    def close(self) -> None:
        """End the processes that wait. From now on none is kept."""
        with self._lock:
            self._is_closed = True
            free, self._free = self._free, []
        for each in free:
            each.end()

    def _take(self) -> "_Process":
        with self._lock:
            if self._free:
                return self._free.pop()
        return _Process(self._state)

    def _give_back(self, process: "_Process") -> None:
        with self._lock:
            if not self._is_closed:
                self._free.append(process)
                self._look_later()
                return
        process.end()

    def _look_later(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            timer = threading.Timer(IDLE_S, self._end_idle)
            timer.daemon = True
            timer.start()

    def _end_idle(self) -> None:
        with self._lock:
            self._is_timed = False
            idle = [each for each in self._free if each.is_idle()]
            self._free = [each for each in self._free if each not in idle]
            if self._free:
                self._look_later()
        for each in idle:
            each.end()


def _answer(said: Said) -> MakingAnswer:
    if said.passed is not None:
        raise EpochPassed(said.passed)
    if said.failed is not None:
        raise FailedElsewhere(said.failed)
    answer = said.made or said.no_draft or said.unreadable or said.gone
    assert answer is not None, "the last line has an answer"
    return answer


class _Process:
    """One process, from the daemon's side."""

    def __init__(self, state: Path) -> None:
        self._process = subprocess.Popen(
            (sys.executable, "-P", "-m", __name__, str(state)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            env=environment(os.environ),
            # In the daemon's session: there it gives way to the daemon, but not to all other sessions of the machine.
            process_group=0,
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._free_since = time.monotonic()

    def is_idle(self) -> bool:
        """Whether it has waited for too long."""
        return time.monotonic() >= self._free_since + IDLE_S

    def make(self, order: Order, go_on: Callable[[int], bool]) -> Said | None:
        """What it says of this order at the end; None if it died. Raises `Halted`, and what `go_on` raises."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        stdin, stdout = self._process.stdin.fileno(), self._process.stdout.fileno()
        rest = memoryview(_encode(order) + b"\n")
        try:
            while rest:
                # It may hang, and an order may be larger than the pipe: a stop must not wait for that.
                _wait(stdin, select.POLLOUT, go_on)
                rest = rest[os.write(stdin, rest) :]
        except BrokenPipeError:
            return None
        pieces: list[bytes] = []
        while True:
            _wait(stdout, select.POLLIN, go_on)
            piece = os.read(stdout, _PIECE)
            if not piece:
                return None
            pieces.append(piece)
            if not piece.endswith(b"\n"):
                continue
            for line in b"".join(pieces).splitlines():
                said = _SAID.decode(line)
                if not said.read:
                    self._free_since = time.monotonic()
                    return said
                if not go_on(said.read):
                    raise Halted
            pieces = []

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def _wait(descriptor: int, event: int, go_on: Callable[[int], bool]) -> None:
    """Wait until it is ready. Raises `Halted`, and what `go_on` raises."""
    poll = select.poll()
    poll.register(descriptor, event)
    while not poll.poll(_LOOK_S * 1000):
        if not go_on(0):
            raise Halted


def main(state: Path) -> None:
    """Make the bundles that the daemon orders, until it ends us or ends itself."""
    # Only the process needs these, not the daemon.
    from runward.daemon.processes.client_gone import end_with_client
    from runward.daemon.processes.giving_way import give_way

    end_with_client()
    give_way()
    files = Files(state)

    def actions(key: str, count: int, last: LastTold) -> Generator[Told]:
        return told_actions_in(state, key, count, last)

    with open(0, "rb") as orders, open(1, "wb", buffering=0) as says:
        for line in orders:
            say = _Saying(says)
            said = _made(files, actions, _ORDERS.decode(line), say)
            say.all(_encode(said) + b"\n")


def _made(files: Files, actions: ToldActions, order: Order, say: "_Saying") -> Said:
    files.know_roots(order.roots)
    drafting = Drafting(files, order.epoch, actions, say.has_read, lambda: order.is_being_shown)
    try:
        answer = tried(lambda each: drafting.make(each, is_again=order.is_again), order.order)
    except EpochPassed as passed:
        return Said(passed=str(passed))
    except Exception:  # noqa: BLE001 - the daemon holds the job, with this traceback
        return Said(failed=traceback.format_exc(limit=-6))
    match answer:
        case Made():
            return Said(made=answer)
        case NoDraft():
            return Said(no_draft=answer)
        case Unreadable():
            return Said(unreadable=answer)
        case Gone():
            return Said(gone=answer)


class _Saying:
    """What the process says about one order."""

    def __init__(self, says: BinaryIO) -> None:
        self._says = says
        self._read = 0
        self._said_at = -math.inf

    def has_read(self, count: int) -> bool:
        """So many bytes more were read."""
        self._read += count
        now = time.monotonic()
        if self._read and now >= self._said_at + _LOOK_S:
            self.all(_encode(Said(read=self._read)) + b"\n")
            self._read, self._said_at = 0, now
        return True

    def all(self, line: bytes) -> None:
        """Write a whole line."""
        rest = memoryview(line)
        while rest:
            rest = rest[self._says.write(rest) :]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
