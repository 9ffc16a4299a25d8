"""The daemon's log in the systemd journal: each line an entry with fields (systemd.journal-fields(7)).

Entries go to journald's own socket by its native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL), so that
`journalctl RUNWARD_SESSION=…` finds the lines about a session. A journal that doesn't answer loses lines
and nothing else: a line waits for it `_PATIENCE_S` at most, and after that none does for `_RESPITE_S`.
"""

import json
import os
import re
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from runward.config.json_value import JsonValue
from runward.daemon.log.line import PRIORITIES, message_of, plain, render

SOCKET: Final = "/run/systemd/journal/socket"
IDENTIFIER: Final = "runward"
LINE: Final = "RUNWARD_JSON"
"""The field with the whole line, as the log file would have it."""
STATE: Final = "RUNWARD_STATE_DIR"

_PREFIX: Final = "RUNWARD_"
_LONGEST_NAME: Final = 64
"""What journald takes, in bytes."""
_LONGEST_VALUE: Final = 2048
"""Characters of a field; the whole line is in `RUNWARD_JSON`."""
_MOST_FIELDS: Final = 32
_TOLD_ALREADY: Final = ("level", "ts")
_PATIENCE_S: Final = 0.05
_RESPITE_S: Final = 1.0


def is_journal(descriptor: int, environment: Mapping[str, str]) -> bool:
    """Whether what is written to the descriptor goes to the journal (systemd.exec(5) on JOURNAL_STREAM)."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    return environment.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


class Journal:
    """The journal, as a destination for lines. Raises `OSError` if no journald listens."""

    def __init__(self, state_dir: str, path: str | None = None) -> None:
        path = path or SOCKET
        with _datagrams() as trial:
            trial.connect(path)
        self._state_dir = state_dir
        self._path = path
        self._lost = 0
        self._silent_until = 0.0
        self._socket = _datagrams()
        patience = struct.pack("ll", 0, int(_PATIENCE_S * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)

    def write(self, lines: Sequence[bytes]) -> None:
        """Hand lines over. Those that the journal doesn't take are counted, and reported when it takes lines again."""
        for line in lines:
            if time.monotonic() < self._silent_until or not self._is_sent(line):
                self._lost += 1
            elif self._lost and self._is_sent(_lines_lost(self._lost)):
                self._lost = 0

    def close(self) -> None:
        self._socket.close()

    def _is_sent(self, line: bytes) -> bool:
        try:
            self._socket.sendto(entry_of(line, self._state_dir), self._path)
        except OSError:
            self._silent_until = time.monotonic() + _RESPITE_S
            return False
        return True


def _datagrams() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)


def _lines_lost(count: int) -> bytes:
    at = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return render({"lines": count, "event": "log.lines_lost", "level": "warning", "ts": at})


def entry_of(line: bytes, state_dir: str) -> bytes:
    """A line of JSON as an entry of the journal's native protocol."""
    value: dict[str, JsonValue] = json.loads(line)
    short, others = [], []
    for name, text in _fields(value, line.decode().rstrip(), state_dir):
        if "\n" in text:
            others.append(_with_length(name, text))
        else:
            short.append(f"{name}={text}\n")
    return b"".join(("".join(short).encode(errors="backslashreplace"), *others))


def _fields(value: Mapping[str, JsonValue], line: str, state_dir: str) -> Iterator[tuple[str, str]]:
    yield "MESSAGE", message_of(value)[: 2 * _LONGEST_VALUE]
    yield "PRIORITY", str(PRIORITIES.get(str(value.get("level")), PRIORITIES["info"]))
    yield "SYSLOG_IDENTIFIER", IDENTIFIER
    yield STATE, state_dir
    yield LINE, line
    for key, each in list(value.items())[:_MOST_FIELDS]:
        name = field_name(key)
        if (
            key not in _TOLD_ALREADY
            and name not in (STATE, LINE)
            and not isinstance(each, list | dict | None)
        ):
            text = plain(each)
            yield name, text[:_LONGEST_VALUE]
            if key == "session":
                yield from ((name, identifier) for identifier in _shorter(text))


def _shorter(key: str) -> Iterator[str]:
    """Other names that people use for the session with this key: `root/name`, and the id."""
    yield (within := key.partition(":")[2])
    if key.startswith("native:"):
        yield within.partition("/")[2]


@lru_cache(maxsize=512)
def field_name(key: str) -> str:
    """The journal's field for a key of a line."""
    return f"{_PREFIX}{re.sub('[^A-Z0-9_]', '_', key.upper())}"[:_LONGEST_NAME]


def _with_length(name: str, text: str) -> bytes:
    value = text.encode(errors="backslashreplace")
    return b"%s\n%s%s\n" % (name.encode(), struct.pack("<Q", len(value)), value)
