"""Daemons under proof: started through the fork server, signalled, and waited for by facts with a deadline."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.waiting import PATIENCE_S, wait_for

SERVER = Path(__file__).with_name("fork_server.py")


class Forks:
    """The fork server, as its client sees it."""

    def __init__(self) -> None:
        self._server = self._begun()

    @staticmethod
    def _begun() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(
        self,
        *arguments: str,
        environment: dict[str, str],
        output: Path,
        fences_out: Sequence[str] = (),
        unprivileged: bool = False,
        hangs: str | None = None,
        terminal: str | None = None,
        code_in_process: bool = False,
    ) -> "Process":
        """Start `runward ARGUMENTS…` in a process of its own, `unprivileged` as far as modes of files go."""
        request: dict[str, object] = {
            "do": "start",
            "arguments": arguments,
            "environment": environment,
            "output": str(output),
        }
        request |= {"fences_out": list(fences_out), "unprivileged": unprivileged}
        request["code_in_process"] = code_in_process
        answer = self._ask(request | {"hangs": hangs, "terminal": terminal})
        return Process(self, int(str(answer["pid"])), output)

    def poll(self, pid: int) -> dict[str, object]:
        """What became of a process since the last time that it was asked."""
        return self._ask({"do": "poll", "pid": pid})

    def _ask(self, request: dict[str, object]) -> dict[str, object]:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        try:
            self._server.stdin.write(json.dumps(request) + "\n")
            self._server.stdin.flush()
            answer: dict[str, object] = json.loads(self._server.stdout.readline())
        except BaseException:
            # A test's time limit may strike before the answer: the next test would take it for its own.
            self._server.kill()
            self.close()
            self._server = self._begun()
            raise
        return answer

    def close(self) -> None:
        """End the server and whatever it still runs."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with suppress(BrokenPipeError):
            self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()


@dataclass(slots=True)
class Process:
    """One command that runs or ran. `output` holds what it said on stdout and stderr."""

    forks: Forks
    pid: int
    output: Path
    code: int | None = None
    _stopped: bool = field(default=False, repr=False)

    def _poll(self) -> None:
        if self.code is not None:
            return
        found = self.forks.poll(self.pid)
        if found["state"] == "ended":
            self.code = int(str(found["code"]))
        elif found["state"] == "stopped":
            self._stopped = True

    def ended(self) -> bool:
        """Whether it has ended; its code is known then."""
        self._poll()
        return self.code is not None

    def wait(self, within: float = PATIENCE_S) -> int:
        """Its exit code; below 0 for the signal that ended it."""
        give_up = time.monotonic() + within
        if not self.ended():
            _sleep_until_the_end(self.pid, within)
        left = max(0.0, give_up - time.monotonic())
        wait_for(self.ended, f"the end of {self.pid}; it said:\n{self.said()[-3000:]}", left)
        assert self.code is not None
        return self.code

    def wait_stopped(self, within: float = PATIENCE_S) -> bool:
        """Whether it was stopped by SIGSTOP rather than running through to its end."""
        wait_for(lambda: self.ended() or self._stopped, f"the stop or end of {self.pid}", within)
        return self.code is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it."""
        os.kill(self.pid, number)

    def stop(self) -> None:
        """Freeze it, and come back when it stands still."""
        self._stopped = False
        self.send(signal.SIGSTOP)
        assert self.wait_stopped()

    def go_on(self) -> None:
        """Let it go on after a stop."""
        self._stopped = False
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """End it whatever it does, if it still runs."""
        if not self.ended():
            self.send(signal.SIGKILL)
            self.wait()

    def said(self) -> str:
        """What it wrote to stdout and stderr so far."""
        return self.output.read_text(errors="replace") if self.output.is_file() else ""


def _sleep_until_the_end(pid: int, within: float) -> None:
    """Until a process ends, or so many seconds are over."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:  # it died with the server that started it
        return
    ended = select.poll()
    ended.register(descriptor, select.POLLIN)
    ended.poll(within * 1000)
    os.close(descriptor)
