"""The daemon's log in the systemd journal, as journalctl(1) gives it to anyone who may read it."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Final

from runward.config.json_value import JsonValue
from runward.daemon.cli.exits import NOT_FOUND, TRY_AGAIN
from runward.daemon.cli.log.wanted import Wanted
from runward.daemon.cli.terminal.output import fail
from runward.daemon.log.daemon_log import IN_JOURNAL
from runward.daemon.log.journald import IDENTIFIER, LINE, STATE, field_name
from runward.daemon.log.line import PRIORITIES

_QUERY: Final = (
    "journalctl",
    "--no-pager",
    "--quiet",
    "--all",  # or else fields of over 4096 bytes are left out
    "--output=json",
    f"--output-fields={LINE}",
)


class JournalledLines:
    """The lines of one state directory that went into the journal, as far as journalctl can choose them."""

    def __init__(self, state_dir: str, wanted: Wanted, count: int | None) -> None:
        self._state_dir = os.path.realpath(state_dir)
        self._wanted = wanted
        # If journalctl can't make the choice, the caller does, and then the last lines can't be counted here.
        self._count = count if not wanted.events else None
        self._is_there = Path(state_dir, IN_JOURNAL).exists()
        self._start = f"--since=@{time.time():.6f}"
        self._came: SimpleQueue[bytes] | None = None
        self._following: subprocess.Popen[bytes] | None = None

    @property
    def is_there(self) -> bool:
        return self._is_there

    def so_far(self) -> Iterator[dict[str, JsonValue]]:
        """The journal's lines up to now. Exits 75 if journalctl refuses, 3 if there is none."""
        if not self._is_there:
            return
        options = [] if self._wanted.since is None else [f"--since=@{self._wanted.since:.6f}"]
        if self._count is not None:
            options.append(f"--lines={self._count}")
        with self._asked(*options) as process:
            assert process.stdout is not None
            for line in process.stdout:
                yield from self._value(line)
            _end(process)

    def added(self) -> Iterator[dict[str, JsonValue]]:
        """What was added since the last call of this or of `so_far`, which comes first."""
        if not self._is_there:
            return
        if self._came is None or self._following is None:
            self._came = SimpleQueue()
            self._following = self._asked("--follow", "--no-tail", self._start)
            assert self._following.stdout is not None
            threading.Thread(target=_pass_on, args=(self._following.stdout, self._came), daemon=True).start()
        while not self._came.empty():
            line = self._came.get()
            if not line:
                _end(self._following)
                fail("journalctl ended: the journal can no longer be followed", TRY_AGAIN)
            yield from self._value(line)

    def _asked(self, *options: str) -> subprocess.Popen[bytes]:
        level = self._wanted.level
        priority = () if level is None else (f"--priority={PRIORITIES[level]}",)
        try:
            return subprocess.Popen(
                [*_QUERY, *options, *priority, *self._matches()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except FileNotFoundError:
            fail(
                "the daemon logs to the systemd journal, but journalctl is not installed",
                NOT_FOUND,
            )

    def _matches(self) -> list[str]:
        """The fields that entries must have; those before and after a `+` are alternatives."""
        own = [f"SYSLOG_IDENTIFIER={IDENTIFIER}", f"{STATE}={self._state_dir}"]
        session = self._wanted.session
        if session is None:
            return own
        return [*own, f"{field_name('session')}={session}", "+", *own, f"{field_name('lane')}={session}"]

    def _value(self, entry: bytes) -> Iterator[dict[str, JsonValue]]:
        """The line in an entry; none if another program uses Runward's identifier."""
        fields = json.loads(entry)
        self._start = f"--after-cursor={fields['__CURSOR']}"
        text = fields.get(LINE)
        try:
            # What journald doesn't take for text is a list of bytes.
            value = json.loads(bytes(text) if isinstance(text, list) else text or "null")
        except (ValueError, TypeError):
            return
        if isinstance(value, dict):
            yield value


def _pass_on(lines: IO[bytes], queue: SimpleQueue[bytes]) -> None:
    """Every line, and nothing when there is no more."""
    for line in lines:
        queue.put(line)
    queue.put(b"")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for it, and report its complaints."""
    assert process.stderr is not None
    said = process.stderr.read().decode(errors="replace").strip()
    if process.wait() and said:
        fail(f"journalctl: {said}", TRY_AGAIN)
