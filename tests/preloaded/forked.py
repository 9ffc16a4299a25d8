"""A command that the server runs, under its own number: for tests that send it a signal, ask for its number or give it a terminal."""

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.preloaded import client, commands


class Forked:
    """A running command, as `subprocess.Popen` has it. It is a child of the server, and is killed with this process."""

    def __init__(
        self,
        arguments: tuple[str, ...],
        directory: Path,
        environment: Mapping[str, str],
        streams: tuple[int, int, int],
        on_terminal: bool = False,
    ) -> None:
        self.args = ("runward", *arguments)
        self.returncode: int | None = None
        self._server, self.pid = client.ask(
            commands.socket(),
            0 if on_terminal else os.getpgrp(),
            [os.fsencode(each) for each in arguments],
            [os.fsencode(f"{name}={value}") for name, value in environment.items()],
            str(directory),
            streams,
        )

    def poll(self) -> int | None:
        """The exit code, negative for a signal, once the command has ended."""
        if self.returncode is None and select.select([self._server], [], [], 0)[0]:
            self.returncode = int(self._server.recv(16))
            self._server.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when it has ended."""
        if self.returncode is None:
            select.select([self._server], [], [], timeout)
        code = self.poll()
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # The server may have reaped it already, and its exit code is on the way.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
