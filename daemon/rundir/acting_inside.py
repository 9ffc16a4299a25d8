"""How a program inside a run acts in the exchange: it appends intents to its run's file, and finds their results.

The directory belongs to the run and is hostile: no link in it is followed, and only regular files are opened.
"""

import json
import os
import stat
import threading
from typing import Final

from runward.config.json_value import JsonValue
from runward.daemon.disk.durable import write_all
from runward.daemon.rundir.intents import INTENTS
from runward.daemon.rundir.opening import DIRECTORY, NotRegular, held, open_in_run, opened
from runward.daemon.rundir.session_logs import UNREAD, Growing
from runward.handlers.exchange.intent import RESULTS

_APPEND: Final = (
    os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
)


def append_intent(directory: str, line: bytes) -> None:
    """Append `line`, which has no newline, as a line of its own. Raises `OSError` and `NotRegular`.

    An unterminated last line is terminated first, so that it does not swallow this one.
    """
    with opened(directory, DIRECTORY) as within:
        descriptor = os.open(INTENTS, _APPEND, 0o600, dir_fd=within)
    with held(descriptor):
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotRegular(f"{directory}/{INTENTS} is not a regular file")
        # A program that was killed may have left half a line: ours must not become its end.
        is_torn = status.st_size > 0 and os.pread(descriptor, 1, status.st_size - 1) != b"\n"
        write_all(descriptor, (b"\n" if is_torn else b"") + line + b"\n")


class ResultsOfRun:
    """The results that the daemon appends to a run's file, found by the ids of their intents. For several threads."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._cursor = UNREAD
        self._results: dict[str, dict[str, JsonValue] | None] = {}
        self._lock = threading.Lock()

    def expect(self, identifier: str) -> None:
        """Keep the result of the intent with this id when it arrives. Call this before the intent is appended."""
        with self._lock:
            self._results[identifier] = None

    def forget(self, identifier: str) -> None:
        """Stop waiting for the result of this intent."""
        with self._lock:
            self._results.pop(identifier, None)

    def result(self, identifier: str) -> dict[str, JsonValue] | None:
        """The ActionResult of the intent with this id; None until it exists. Raises `OSError` and `NotRegular`."""
        with self._lock:
            self._read_on()
            return self._results.get(identifier)

    def _read_on(self) -> None:
        try:
            descriptor = open_in_run(self._directory, RESULTS)
        except FileNotFoundError:
            return  # the daemon creates it with the first result
        with held(descriptor):
            results = Growing(descriptor, self._cursor)
            more = True
            while more:
                lines, self._cursor, _, more, _ = results.portion()
                for line in lines:
                    self._keep(line.content)

    def _keep(self, content: bytes) -> None:
        try:
            line_value: JsonValue = json.loads(content)
        except (ValueError, RecursionError):
            return  # the daemon did not write this line
        if not isinstance(line_value, dict):
            return
        identifier, result = line_value.get("id"), line_value.get("result")
        if isinstance(identifier, str) and identifier in self._results and isinstance(result, dict):
            self._results[identifier] = result
