"""The daemon's structured log: each line an event name and keys.

Lines go into `<state>/log/runward.jsonl` as JSON and to stderr in the form that suits stderr. If stderr is the systemd
journal, they go there instead of into the file. A log that can't be written loses lines, and nothing else.
"""

import json
import logging
import os
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn, Protocol, TextIO

import structlog

from runward.config.json_value import JsonValue
from runward.daemon.log import journald
from runward.daemon.log.line import for_people, render, render_known

LOG: Final = "log/runward.jsonl"
MAXIMUM_BYTES: Final = 16 << 20
"""From this size on, the file is renamed to `runward.jsonl.1`, and a new one is started."""
SET_ASIDE: Final = 4
"""The number of older files that are kept; `.1` is the newest."""
IN_JOURNAL: Final = "log/in-journal"
"""An empty file: it shows that the systemd journal has lines about this state directory, too."""


class Console(Protocol):
    """Where lines go in addition to the file. It raises nothing."""

    def write(self, lines: Sequence[bytes]) -> None:
        """Take rendered lines."""

    def close(self) -> None:
        """Take no more."""


class LogFile:
    """The file that lines go to: append only, 0600, rotated when it is large."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0
        self._torn = False
        self._descriptor = self._open()

    def _open(self) -> int:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(descriptor).st_size
        return descriptor

    def write(self, line: bytes) -> None:
        """Append a line. A full disk loses log lines and nothing else."""
        if self._torn:
            line = b"\n" + line
        try:
            if self._size + len(line) > MAXIMUM_BYTES:
                self._rotate()
            written = os.write(self._descriptor, line)
        except OSError:
            return
        self._size += written
        self._torn = written < len(line)

    def _rotate(self) -> None:
        if self._path.exists():  # otherwise an earlier rotation stopped here
            for number in range(SET_ASIDE, 0, -1):
                with suppress(FileNotFoundError):
                    aside(self._path, number - 1).replace(aside(self._path, number))
        old, self._descriptor = self._descriptor, self._open()
        os.close(old)

    def close(self) -> None:
        os.close(self._descriptor)


def aside(path: Path, number: int) -> Path:
    """The name of a log file after this many rotations."""
    return path.with_name(f"{path.name}.{number}") if number else path


class _Stream:
    """A stream that belongs to somebody else, so it must not be closed here."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def _say(self, text: str) -> None:
        """A terminal that went away or a full disk loses log lines and nothing else."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            return

    def close(self) -> None:
        """Does nothing: the stream stays open."""


class Terminal(_Stream):
    """Lines as people read them."""

    def write(self, lines: Sequence[bytes]) -> None:
        said: list[Mapping[str, JsonValue]] = [json.loads(line) for line in lines]
        self._say("".join(f"{for_people(line)}\n" for line in said))


class JsonStream(_Stream):
    """Lines as they are, for programs that collect output."""

    def write(self, lines: Sequence[bytes]) -> None:
        self._say(b"".join(lines).decode())


class Sinks:
    """Where lines go: the file, a console, both or neither."""

    def __init__(self, file: LogFile | None, console: Console | None) -> None:
        self._file = file
        self._console = console

    def __call__(self, logger: object, method: str, event: MutableMapping[str, object]) -> NoReturn:
        self._write([render(event)])
        raise structlog.DropEvent

    def add(self, events: Iterable[dict[str, object]]) -> None:
        """Add lines with their levels in one go, all with the current time; they must contain only our own words.

        A batch has hundreds of verdicts, and a logger call for each would take a tenth of a burst's time.
        """
        now = datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
        lines: list[bytes] = []
        for event in events:
            event.setdefault("level", "info")
            event["ts"] = now
            lines.append(render_known(event))
        self._write(lines)

    def _write(self, lines: Sequence[bytes]) -> None:
        if self._file is not None:
            self._file.write(b"".join(lines))
        if self._console is not None:
            self._console.write(lines)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._console is not None:
            self._console.close()


def open_sinks(state: Path, stderr: TextIO | None, environment: Mapping[str, str]) -> Sinks:
    """The daemon's own: the journal if stderr is the journal; else the file, and stderr unless it is None."""
    journal = _journal(state, stderr, environment) if stderr is not None else None
    if journal is not None:
        _note_journal(state)
        return Sinks(None, journal)
    file = LogFile(state / LOG)
    if stderr is None:
        return Sinks(file, None)
    return Sinks(file, Terminal(stderr) if stderr.isatty() else JsonStream(stderr))


def _journal(state: Path, stderr: TextIO, environment: Mapping[str, str]) -> journald.Journal | None:
    """The journal, if stderr is the journal and somebody listens at its socket."""
    if "JOURNAL_STREAM" not in environment or not journald.is_journal(stderr.fileno(), environment):
        return None
    try:
        return journald.Journal(str(state.resolve()))
    except OSError:
        return None


def _note_journal(state: Path) -> None:
    note = state / IN_JOURNAL
    note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    note.touch(mode=0o600)


def open_log(sinks: Sinks, level: str = "info") -> structlog.typing.FilteringBoundLogger:
    """A log whose lines go to `sinks`."""
    # aiosqlite logs every statement with its parameters, at a level that nobody wants.
    logging.getLogger("aiosqlite").setLevel(logging.INFO)
    logging.getLogger("apscheduler").setLevel(logging.WARNING)
    logger: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.ExceptionRenderer(
                structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
            ),
            sinks,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.DEBUG if level == "debug" else logging.INFO
        ),
        cache_logger_on_first_use=True,
    )
    return logger
