"""The `runward` command as its users call it, over a state directory that a real daemon has filled."""

import contextlib
import fcntl
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar
from unittest import mock

from tests.preloaded import commands as preloaded
from tests.preloaded.forked import Forked
from tests.waiting import PATIENCE_S, wait_for

import runward.daemon
from runward.config.json_value import JsonValue
from runward.daemon.cli.entry import call
from runward.daemon.host.signals import HEARD
from runward.daemon.launch.ticket import STARTS

_SOURCES = Path(runward.daemon.__file__).parents[2]
_ENTRY = "from runward.daemon.cli import main; main()"

SETTINGS = """\
state_dir = "state"
playbooks = ["playbooks"]
agents = ["agents"]
"""
REVIEW = """\
name: review
agent: reviewer
command: ["python3", "review.py"]
artifacts:
  expected:
    - {id: review, path: review.md, description: Reviewer verdict and findings}
    - {id: notes, path: notes.md, required: false}
"""
REVIEWER = """\
---
name: reviewer
artifact_defaults:
  expected:
    - {id: report, path: report.md}
---
You review.
"""
CONTRACT: JsonValue = {
    "expected": [
        {
            "id": "review",
            "path": "review.md",
            "required": True,
            "description": "Reviewer verdict and findings",
            "source": "playbook",
        },
        {
            "id": "report",
            "path": "report.md",
            "required": True,
            "description": "",
            "source": "agent_profile",
        },
        {
            "id": "notes",
            "path": "notes.md",
            "required": False,
            "description": "Supplementary observations",
            "source": "playbook",
        },
    ]
}

Started = TypeVar("Started", Forked, subprocess.Popen[bytes])


@contextlib.contextmanager
def _signals_as_before() -> Iterator[None]:
    """A daemon takes its process's signals to its end, and here its process goes on.

    A launcher would even block them, for itself and all that is started later.
    """
    before = {number: signal.getsignal(number) for number in HEARD}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        yield
        assert signal.pthread_sigmask(signal.SIG_SETMASK, blocked) == blocked, (
            "call it in a process of its own"
        )
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    def json(self) -> JsonValue:
        value: JsonValue = json.loads(self.out)
        return value

    def object(self) -> dict[str, JsonValue]:
        """The one JSON object that was printed."""
        value = self.json()
        assert isinstance(value, dict)
        return value

    def items(self, key: str) -> list[dict[str, JsonValue]]:
        """The objects in the list under `key` of the one object that was printed."""
        value = self.object()[key]
        assert isinstance(value, list)
        return [each for each in value if isinstance(each, dict)]

    def objects(self) -> list[dict[str, JsonValue]]:
        """The list of JSON objects that was printed."""
        value = self.json()
        assert isinstance(value, list)
        found = [each for each in value if isinstance(each, dict)]
        assert len(found) == len(value)
        return found


class Place:
    """A working directory with settings, a playbook, an agent profile and a state directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.runs = self.state / "runs"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "PYTHONPATH": str(_SOURCES),
            "TZ": "UTC",
        }

    def copy_to(self, directory: Path) -> "Place":
        """The same place elsewhere. Its store still names the run directories of this one."""
        shutil.copytree(self.directory, directory, dirs_exist_ok=True, symlinks=True)
        return Place(directory)

    def furnish(self) -> None:
        """Write the operator's files."""
        (self.directory / "runward.toml").write_text(SETTINGS)
        (self.directory / "playbooks").mkdir()
        (self.directory / "playbooks/review.playbook.yaml").write_text(REVIEW)
        (self.directory / "playbooks/plain.playbook.yaml").write_text("name: plain\n")
        (self.directory / "playbooks/wrong.playbook.yaml").write_text(
            "artifacts:\n  expected:\n    - {id: review, path: ../review.md}\n"
        )
        (self.directory / "agents").mkdir()
        (self.directory / "agents/reviewer.md").write_text(REVIEWER)

    def add_run(
        self,
        name: str,
        *,
        exit_code: int | None = None,
        contract: JsonValue = None,
        files: Mapping[str, str] | None = None,
        started_at: str = "2026-01-02T03:04:05Z",
        finished_at: str = "2026-01-02T03:14:05Z",
        **further: JsonValue,
    ) -> Path:
        """A native run directory as a launcher leaves it; without an exit code it still runs."""
        run = self.runs / name
        (run / "artifacts").mkdir(parents=True)
        for path, text in (files or {}).items():
            (run / "artifacts" / path).write_text(text)
        said = {"schema": "runward-run-v1", "started_at": started_at, "contract": contract, **further}
        (run / "run.json").write_text(json.dumps(said))
        if exit_code is not None:
            self.end_run(name, exit_code, finished_at)
        return run

    def end_run(self, name: str, exit_code: int, finished_at: str = "2026-01-02T03:14:05Z") -> None:
        """The run's last file."""
        run = self.runs / name
        (run / "exit.tmp").write_text(json.dumps({"exit_code": exit_code, "finished_at": finished_at}))
        (run / "exit.tmp").rename(run / "exit.json")

    def daemon_once(self) -> None:
        """Have a real daemon record what is there."""
        with tempfile.TemporaryFile() as said:
            code = self.fork("daemon", "--once", "--quiet", said=said.fileno()).wait(PATIENCE_S)
            assert code == 0, _content(said).decode()

    def call(self, *arguments: str, **environment: str) -> Result:
        """The command in this process."""
        out, err = _Captured(), _Captured()
        with (
            mock.patch.dict(os.environ, self.environment | environment, clear=True),
            contextlib.chdir(self.directory),
            mock.patch.object(sys, "stdout", out),
            mock.patch.object(sys, "stderr", err),
            _signals_as_before(),
        ):
            time.tzset()
            code = call(list(arguments))
        time.tzset()
        return Result(code, out.text(), err.text())

    def completed(self, *words: str) -> list[str]:
        """What the shell is offered for the last of the words."""
        told = self.call(
            _RUNWARD_COMPLETE="bash_complete",
            COMP_WORDS=" ".join(("runward", *words)),
            COMP_CWORD=str(len(words)),
        )
        assert (told.code, told.err) == (0, "")
        return [line.split(",", 1)[1] for line in told.out.splitlines() if line]

    def argv(self, *arguments: str) -> list[str]:
        """The words to start the command with, for anyone who starts it in a special way."""
        return [sys.executable, "-c", _ENTRY, *arguments]

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """The command beside this process, with pipes for its output. It has another number than what stands for it."""
        return self._start(preloaded.argv(*arguments), environment)

    def start_process(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """The same, and its own process, for those who kill it or ask for its number."""
        return self._start(self.argv(*arguments), environment)

    def _start(self, argv: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.directory,
            env={**self.environment, **environment},
        )

    @contextlib.contextmanager
    def daemon(self) -> Iterator[Forked]:
        """A real daemon that is ready, stopped at the end."""
        with self._ready(lambda said: self.fork("daemon", said=said)) as daemon:
            yield daemon

    def daemon_process(self) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
        """The same in an interpreter of its own, for those who ask what it has imported."""
        return self._ready(
            lambda said: subprocess.Popen(
                self.argv("daemon"),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=self.directory,
                env=self.environment,
            )
        )

    def fork(self, *arguments: str, said: int) -> Forked:
        """The command beside this process, under its own number, with its output in a file."""
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            return Forked(arguments, self.directory, self.environment, (nothing, said, said))
        finally:
            os.close(nothing)

    @contextlib.contextmanager
    def _ready(self, start: Callable[[int], Started]) -> Iterator[Started]:
        """Its output goes to a file, because nothing empties a pipe."""
        with tempfile.TemporaryFile() as said:
            process = start(said.fileno())
            try:
                wait_for(
                    lambda: b'"ready"' in _content(said) or process.poll() is not None,
                    "a daemon that is ready",
                )
                assert process.poll() is None, _content(said).decode()
                yield process
            finally:
                process.terminate()
                process.wait(PATIENCE_S)

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """What the store says."""
        connection = sqlite3.connect(f"file:{self.state}/runward.db?mode=ro", uri=True)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def change_store(self, sql: str, *parameters: object) -> None:
        """Bend the store for a test, as no daemon would."""
        connection = sqlite3.connect(self.state / "runward.db", isolation_level=None)
        connection.execute(sql, parameters)
        connection.close()


class Recorded:
    """A place that was recorded once, and that each test gets as it was then, under the same name."""

    def __init__(self, place: Place) -> None:
        self._directory = place.directory
        self._kept = place.directory.with_name(f"{place.directory.name}.kept")
        shutil.copytree(self._directory, self._kept, symlinks=True)

    def anew(self) -> Place:
        """The place as it was, whatever was done to it since.

        A launcher outlives the daemon that started it, and may write for as long as it holds its ticket.
        """
        for ticket in (self._directory / "state" / STARTS).glob("*"):
            wait_for(lambda held=ticket: not _is_locked(held), f"the end of a launcher: {ticket}")  # type: ignore[misc] # the loop's value
        shutil.rmtree(self._directory)
        shutil.copytree(self._kept, self._directory, symlinks=True)
        return Place(self._directory)


def _is_locked(path: Path) -> bool:
    """Whether a process has locked this file."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _content(file: IO[bytes]) -> bytes:
    """What another process wrote into a file up to now; its place in the file is left as it is."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


class _Captured(io.TextIOWrapper):
    """A text stream whose bytes can be read back."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def text(self) -> str:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()


def sockets_of(pid: int) -> set[str]:
    """The sockets that a process holds, as the kernel names them; it may close others meanwhile."""
    links = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.add(os.readlink(each))
    return {link for link in links if link.startswith("socket:")}
