"""The launcher as people and scripts meet it: a real process in a scratch directory, and what it leaves there."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.waiting import PATIENCE_S, wait_for

import runward.daemon
from runward.config.json_value import JsonValue
from runward.daemon.processes.proc import read_stat, send_signal

SOURCES = Path(runward.daemon.__file__).parents[2]
ENTRY = "from runward.daemon.cli import main; main()"


class Launcher:
    """`runward run` with a home, a state directory and a working directory of its own.

    `interpreter` are the words that start Python, which may begin with a program that changes the user.
    """

    def __init__(self, directory: Path, interpreter: Sequence[str] = (sys.executable,)) -> None:
        self.python = interpreter[-1]
        self._interpreter = interpreter
        self.state = directory / "state"
        self.work = directory / "work"
        self.work.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "RUNWARD_STATE_DIR": str(self.state),
            "PYTHONPATH": str(SOURCES),
        }
        self._started: list[subprocess.Popen[bytes]] = []

    def argv(self, *arguments: str) -> list[str]:
        """The words to start it with, for anyone who starts it in a special way."""
        return [*self._interpreter, "-c", ENTRY, "run", *arguments]

    def shell_words(self, *arguments: str) -> str:
        """The same words as a shell reads them."""
        return shlex.join(self.argv(*arguments))

    def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Runs it to its end."""
        return subprocess.run(
            self.argv(*arguments),
            input=stdin,
            capture_output=True,
            cwd=self.work,
            env=self.environment,
            timeout=PATIENCE_S,
            check=False,
        )

    def start(
        self,
        *arguments: str,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        **environment: str,
    ) -> subprocess.Popen[bytes]:
        """Starts it, in a session of its own."""
        process = subprocess.Popen(
            self.argv(*arguments),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=self.work,
            env=self.environment | environment,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def directory(self, name: str) -> Path:
        """The run directory of this name."""
        return self.state / "runs" / name

    def read(self, name: str, file: str) -> Mapping[str, JsonValue]:
        """One of the JSON files of a run."""
        value: dict[str, JsonValue] = json.loads((self.directory(name) / file).read_text())
        return value

    def ending(self, name: str) -> Mapping[str, JsonValue]:
        """What `exit.json` says."""
        return self.read(name, "exit.json")

    def pid(self, name: str) -> int:
        """The command's number, once it is written down."""
        wait_for(lambda: (self.directory(name) / "process.json").exists(), "process.json")
        pid = self.read(name, "process.json")["pid"]
        assert isinstance(pid, int)
        return pid

    def close(self) -> None:
        """Ends what a test left running: the commands first, so that their launchers clean up."""
        for pid in members(str(self.state)):
            send_signal(pid, signal.SIGKILL)
        for process in self._started:
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie doesn't."""
    try:
        return not read_stat(pid).is_dead
    except (FileNotFoundError, ProcessLookupError):
        return False


def members(marker: str) -> Sequence[int]:
    """Every living process whose environment names a run directory below `marker`."""
    return living_with(b"RUNWARD_RUN_DIR=" + os.fsencode(marker))


def living_with(entry: bytes) -> Sequence[int]:
    """Every living process whose environment has an entry that begins like this.

    One look can miss a process that forks and leaves all the time, so it takes several to see nobody.
    """
    return next((found for _ in range(3) if (found := _seen_with(entry))), [])


def _seen_with(wanted: bytes) -> Sequence[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                environment = Path(f"/proc/{entry}/environ").read_bytes()
            except OSError:
                continue
            if wanted in environment and is_alive(int(entry)):
                found.append(int(entry))
    return found
