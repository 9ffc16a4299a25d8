"""The homes of Claude Code and Codex for a daemon under proof: roots, transcripts that grow, and what became of them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.handlers.layouts import codex_lines
from tests.handlers.layouts.claude_code_lines import Transcript
from tests.proof.place import Place
from tests.waiting import wait_for

BEGAN = time.time() - 30.0
"""When the sessions of a scripted history begin (Unix seconds): not before the machine did, and settled."""

WAITER = """\
import fcntl, sys, time
held = open(sys.argv[1], "w")
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""
"""A program that holds a lock until it is killed."""


@dataclass
class Homes:
    """`.claude` and `.codex` of one person, and a daemon's settings over both."""

    place: Place
    history: str = "record"
    settle: str = "100ms"

    def __post_init__(self) -> None:
        self.claude = self.place.directory / ".claude"
        self.codex = self.place.directory / ".codex"
        self.projects = self.claude / "projects"
        self.project = self.projects / "-home-dev-app"
        self.day = self.codex / "sessions/2026/11/21"
        self.project.mkdir(parents=True, exist_ok=True)
        self.day.mkdir(parents=True, exist_ok=True)
        self.set_up(("claude", "claude-code", self.projects), ("codex", "codex", self.codex))

    def set_up(self, *roots: tuple[str, str, Path], contracts: str = "") -> None:
        """Write the settings: these roots, beside the native one, and rules for contracts."""
        self.place.set_up()
        text = self.place.settings.read_text()
        for name, layout, path in roots:
            text += f'[[roots]]\nname = "{name}"\npath = "{path}"\nlayout = "{layout}"\n'
            text += f'settle = "{self.settle}"\nhistory = "{self.history}"\n'
        self.place.settings.write_text(text + contracts)

    # Sessions.

    def transcript(self, session: str, now: float | None = None) -> Transcript:
        return Transcript(session=session, now=time.time() if now is None else now)

    def log_of(self, session: str) -> Path:
        """The transcript of a session of Claude Code."""
        return self.project / f"{session}.jsonl"

    def rollout_of(self, thread: str) -> Path:
        return self.day / f"rollout-2026-11-21T08-37-55-{thread}.jsonl"

    @contextmanager
    def process_of(self, session: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process that Claude Code's pid file names as the writer of a session."""
        with subprocess.Popen(["sleep", "600"]) as process:
            try:
                self.put_pid_file(session, process.pid)
                yield process
            finally:
                process.kill()

    def put_pid_file(self, session: str, pid: int) -> Path:
        stat = Path(f"/proc/{pid}/stat").read_text()
        said = {
            "pid": pid,
            "sessionId": session,
            "cwd": "/home/dev/app",
            "startedAt": int(time.time() * 1000),
            "procStart": stat.rpartition(")")[2].split()[19],
            "version": "2.1.197",
            "kind": "interactive",
            "entrypoint": "sdk-cli",
        }
        file = self.claude / "sessions" / f"{pid}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(said))
        return file

    @contextmanager
    def holder_of(self, thread: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process that holds the lock of a thread's writer."""
        lock = self.codex / "thread-writer-locks" / f"{thread}.lock"
        lock.parent.mkdir(exist_ok=True)
        command = [sys.executable, "-c", WAITER, str(lock)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"held\n"
                yield process
            finally:
                process.kill()

    # What became of them.

    def attempts(self, session: str) -> list[tuple[object, ...]]:
        """Number and status of every attempt of a session, by its id."""
        return self.place.rows(
            "select a.attempt, a.status from attempts a join sessions s on s.key = a.session_key"
            " where s.session_id = ? order by a.attempt",
            session,
        )

    def standing(self, session: str) -> tuple[object, ...] | None:
        """Status, reason and attempt of a session."""
        rows = self.place.rows(
            "select status, reason_code, attempt from sessions where session_id = ?", session
        )
        return rows[0] if rows else None

    def wait_standing(self, session: str, *wanted: object) -> None:
        """Until a session's status, reason and attempt begin like this."""
        wait_for(
            lambda: (self.standing(session) or ())[: len(wanted)] == wanted,
            f"{wanted} of {session}; problems: {self.place.rows('select * from problems')}",
        )

    def path(self, session: str) -> str:
        """Where the store says that a session is."""
        ((path,),) = self.place.rows("select path from sessions where session_id = ?", session)
        return str(path)

    def events(self) -> list[tuple[object, ...]]:
        """What was told of every session, but for when it was recorded."""
        return self.place.rows(
            "select key, type, at, cause, payload from events where key not like 'daemon%' order by key"
        )

    def journals(self) -> list[Path]:
        return sorted((self.place.state / "sessions").rglob("events.jsonl"))


def add(path: Path, lines: Sequence[bytes], at: float | None = None) -> None:
    """Append lines to a transcript in one write."""
    with path.open("ab") as file:
        file.write(b"".join(line + b"\n" for line in lines))
    if at is not None:
        os.utime(path, (at, at))


def rollout(thread: str, log: Callable[[], codex_lines.Log] = codex_lines.ok) -> list[bytes]:
    """The lines of a rollout, of another thread's than it was written for."""
    made = [codex_lines.write(record) for record in log().records]
    return [line.replace(codex_lines.THREAD.encode(), thread.encode()) for line in made]
