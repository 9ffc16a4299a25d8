"""The daemon under measurement: the installed `runward daemon`, started, frozen and stopped as a service manager would.

What it recorded is read in record.py.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench.record import Record, Scan
from tests.bench.scratch import Scratch
from tests.bench.usage import Usage, cpu_s, exact_cpu_s, peak_mb, peak_of_family_mb, usage

_READY_WITHIN_S = 60.0
_STOPPED_WITHIN_S = 60.0
_NO_PROGRESS_S = 90.0
"""More than the minute after which old sessions are packed."""

_POLL_S = 0.02
_SETTLED_WITHIN_S = 120.0
_QUIET_SHARE, _QUIET_S = 0.04, 0.5


class DaemonFailed(Exception):
    """The daemon did not do what is measured here; the message says what, and how its output ends."""


class Daemon:
    """A running daemon; `ready_at` is when its `READY=1` came, `started_at` when it was executed (Unix seconds).

    `ready_cpu_s` is the processor time that it had taken when it was ready.
    """

    def __init__(
        self,
        state: Path,
        process: subprocess.Popen[bytes],
        started_at: float,
        ready_at: float,
        output: Path,
    ) -> None:
        self.ready_cpu_s = exact_cpu_s(process.pid)
        self.record = Record(state)
        self.started_at = started_at
        self.ready_at = ready_at
        self._process = process
        self._output = output

    def usage(self) -> Usage:
        """What it takes now, with its children."""
        return usage(self._process.pid)

    def cpu_s(self) -> float:
        """The processor time that it has taken, to the nanosecond."""
        return exact_cpu_s(self._process.pid)

    def peak_mb(self) -> float:
        """The most memory that it ever had."""
        return peak_mb(self._process.pid)

    def peak_of_family_mb(self) -> float:
        """The same, with its living children."""
        return peak_of_family_mb(self._process.pid)

    def freeze(self) -> None:
        """Stop it in its tracks."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it as systemd does, and hold it to a clean end."""
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(_STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise DaemonFailed(
                f"not stopped {_STOPPED_WITHIN_S:.0f} s after SIGTERM{_tail(self._output)}"
            ) from None
        if code != 0:
            raise DaemonFailed(f"ended {code} after SIGTERM{_tail(self._output)}")

    def kill(self) -> None:
        """Whatever went wrong, leave no process behind."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def wait_running(self, count: int) -> None:
        """Until it knows `count` sessions that have not ended. What it still does then is a part of what is measured."""
        self._wait_for(count, self.record.running)

    def wait_judged(self, count: int) -> float:
        """Until `count` sessions have a verdict. When the last look began that found one missing (Unix seconds, 0: none did)."""
        return self._wait_for(count, self.record.judged)

    def wait_read(self, place: str, size: int, poll_s: float = _POLL_S) -> None:
        """Until it has read and recorded `size` bytes of the transcript at this place of its root."""
        self._wait_for(size, lambda: self.record.read_to(place), poll_s)

    def wait_placed(self, count: int) -> None:
        """Until so many bundles are in their places."""
        self._wait_for(count, lambda: len(self.record.placed()))

    def wait_packing(self) -> None:
        """Until it packs sessions that ended long ago. It begins a minute after its start."""
        self._wait_for(1, self.record.packed)

    def wait_scanned(self) -> Scan:
        """Until its first scan is done and nothing is left of it to look at; what it says of that."""
        scans: list[Scan] = []

        def scanned() -> int:
            said = self.record.scan()
            if said is None or said.unread or (said.last_scan_at or 0.0) < self.started_at:
                return 0
            scans.append(said)
            return 1

        self._wait_for(1, scanned)
        return scans[0]

    def settle(self) -> None:
        """Until it owes the world nothing and its processor time stands still."""
        give_up = time.monotonic() + _SETTLED_WITHIN_S
        while time.monotonic() < give_up:
            before = cpu_s(self._process.pid)
            time.sleep(_QUIET_S)
            if cpu_s(self._process.pid) - before <= _QUIET_SHARE * _QUIET_S and self.record.owed() == 0:
                return
        raise DaemonFailed(
            f"still busy after {_SETTLED_WITHIN_S:.0f} s, {self.record.owed()} lines owed{_tail(self._output)}"
        )

    def _wait_for(self, count: int, counted: Callable[[], int], poll_s: float = _POLL_S) -> float:
        last, last_progress, looked_at = -1, time.monotonic(), 0.0
        while True:
            look = time.time()
            now = counted()
            if now >= count:
                return looked_at
            looked_at = look
            if now != last:
                last, last_progress = now, time.monotonic()
            if time.monotonic() - last_progress > _NO_PROGRESS_S:
                raise DaemonFailed(
                    f"{now} of {count}, no progress for {_NO_PROGRESS_S:.0f} s{_tail(self._output)}"
                )
            if self._process.poll() is not None:
                raise DaemonFailed(f"ended {self._process.returncode}{_tail(self._output)}")
            time.sleep(poll_s)


def further_root(path: Path, history: str) -> str:
    """Settings that have Claude Code's transcripts below `path` watched, too."""
    return f'[[roots]]\nname = "claude"\npath = "{path}"\nlayout = "claude-code"\nhistory = "{history}"\n'


@contextmanager
def daemon(
    scratch: Scratch, further: str = "", command: Sequence[str] = (), bundles: bool = True
) -> Iterator[Daemon]:
    """Start a daemon over `scratch.runs`, with the state of the one before it, and stop it at the end.

    `further` are settings in addition to that root; `command` is what is run in place of the installed program. Its runs get
    `bundles` or none.
    """
    installed = str(Path(sys.executable).parent / "runward")
    native = f'[[roots]]\nname = "runs"\npath = "{scratch.runs}"\nlayout = "native"\n'
    if not bundles:
        native += "bundle = false\n"
    running = _start(scratch.directory, native + further, command or (installed, "daemon"))
    try:
        yield running
        running.stop()
    finally:
        running.kill()


def _start(directory: Path, settings: str, command: Sequence[str]) -> Daemon:
    (directory / "runward.toml").write_text(settings)
    output = directory / "daemon.out"
    address = directory / "notify"
    address.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified, output.open("ab") as out:
        notified.bind(str(address))
        notified.settimeout(0.2)
        started_at = time.time()
        process = subprocess.Popen(
            command,
            env=_environment(directory),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
        try:
            ready_at = _ready(notified, process, output)
        except BaseException:
            process.kill()
            process.wait()
            raise
        _drain(notified.dup())
    return Daemon(directory / "state", process, started_at, ready_at, output)


def _environment(directory: Path) -> dict[str, str]:
    """Nothing of the person who measures: neither their settings nor their agents' directories."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RUNWARD_", "XDG_", "CLAUDE_", "CODEX_"))
    }
    return kept | {
        "HOME": str(directory),
        "RUNWARD_CONFIG": str(directory / "runward.toml"),
        "RUNWARD_STATE_DIR": str(directory / "state"),
        "NOTIFY_SOCKET": str(directory / "notify"),
    }


def _ready(notified: socket.socket, process: subprocess.Popen[bytes], output: Path) -> float:
    give_up = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < give_up:
        try:
            if b"READY=1" in notified.recv(4096).split(b"\n"):
                return time.time()
        except TimeoutError:
            pass
        if process.poll() is not None:
            raise DaemonFailed(f"ended {process.returncode} before READY=1{_tail(output)}")
    raise DaemonFailed(f"no READY=1 within {_READY_WITHIN_S:.0f} s{_tail(output)}")


def _drain(notified: socket.socket) -> None:
    """Take what else is sent, so that a full socket holds nobody up."""
    notified.settimeout(None)

    def take() -> None:
        with notified:
            while b"STOPPING=1" not in notified.recv(4096):
                pass

    threading.Thread(target=take, daemon=True).start()


def _tail(output: Path) -> str:
    """The end of what it printed, for a message: the directory is gone when that is read."""
    return f"; its output ends with\n{output.read_text(errors='replace')[-2000:]}"
