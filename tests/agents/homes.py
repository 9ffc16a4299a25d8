"""Homes in which a real agent runs: its own settings, nothing of the person's, nowhere to go but the loopback."""

import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.daemon.launching import living_with
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.processes.proc import send_signal

HELD: Final = (
    "echo $$ > held.pid; for i in $(seq 2400); do [ -e released ] && break; sleep 0.05; done; touch through"
)
"""A shell command that lasts until somebody releases it, two minutes at most."""

NOWHERE: Final = "http://127.0.0.1:9"
"""A proxy that nobody listens at: what a program asks of anybody but the loopback fails at once."""


@dataclass(slots=True)
class Run:
    """One run of a program; `code` as subprocess gives it, below 0 for a signal."""

    process: "subprocess.Popen[bytes]"
    output: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, within: float = PATIENCE_S) -> int:
        """Wait for its end."""
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it went on for {within:g} s; it said:\n{self.said()[-2000:]}") from None

    def said(self) -> str:
        """What it wrote to stdout and stderr."""
        return self.output.read_text(errors="replace")


@dataclass(slots=True)
class Home:
    """A home directory and a directory to work in."""

    place: Path
    variables: dict[str, str] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.place / "home"

    @property
    def work(self) -> Path:
        return self.place / "work"

    def environment(self) -> dict[str, str]:
        """The environment of what runs here."""
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HTTP_PROXY": NOWHERE,
            "HTTPS_PROXY": NOWHERE,
            "NO_PROXY": "127.0.0.1",
            **self.variables,
        }

    def start(self, *command: str) -> Run:
        """Start a program in a session of its own."""
        output = self.place / f"output-{len(self.runs)}"
        with output.open("wb") as file:
            process = subprocess.Popen(
                command,
                cwd=self.work,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.runs.append(Run(process, output))
        return self.runs[-1]

    def is_tool_held(self) -> bool:
        """Whether the command HELD runs, also after its agent is gone. In a PID namespace it can't be told."""
        process = Path(f"/proc/{self._tool()}")
        try:
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            return state != "Z" and (process / "cwd").readlink() == self.work
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return False

    def has_tool_begun(self) -> bool:
        """Whether the command HELD was started, wherever."""
        return (self.work / "held.pid").exists()

    def terminate_tool(self) -> None:
        """SIGTERM to the command HELD, as from somebody who wants to end just it."""
        pid = self._tool()
        assert pid is not None
        os.kill(pid, signal.SIGTERM)

    def release(self) -> None:
        """Let the command HELD come to its end."""
        (self.work / "released").touch()

    def is_tool_through(self) -> bool:
        """Whether the command HELD came to its end, and was not ended."""
        return (self.work / "through").exists()

    def close(self) -> None:
        """End everything that was started here, what the agents started too."""
        self.release()
        for run in self.runs:
            if run.is_alive():
                os.killpg(run.pid, signal.SIGKILL)
            run.process.wait()
        # Such as a server that an agent left for its next start.
        for pid in living_with(b"HOME=" + os.fsencode(self.home) + b"\0"):
            send_signal(pid, signal.SIGKILL)
        wait_for(lambda: not self.is_tool_held(), "the end of the tool")

    def _tool(self) -> int | None:
        try:
            return int((self.work / "held.pid").read_text())
        except (FileNotFoundError, ValueError):
            return None


def make_home(place: Path) -> Home:
    home = Home(place)
    home.home.mkdir(parents=True)
    home.work.mkdir()
    return home
