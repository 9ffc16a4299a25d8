"""The daemon's structured log: JSON lines in `<state>/log/runward.jsonl`, and short lines on stderr.

An event name, then keys. A line never raises, never shows local variables, and never carries the
content of a file.
"""

import json
import logging
import os
from collections.abc import Iterable, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn, TextIO

import structlog
from pydantic_core import to_json

LOG: Final = "log/runward.jsonl"
MAXIMUM_BYTES: Final = 64 << 20
"""From this size on the log is set aside as `runward.jsonl.1` and begun anew."""

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


class LogFile:
    """The file that lines go to: append only, 0600, rotated once."""

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
        with suppress(FileNotFoundError):
            self._path.replace(self._path.with_name(self._path.name + ".1"))
        old, self._descriptor = self._descriptor, self._open()
        os.close(old)

    def close(self) -> None:
        os.close(self._descriptor)


class Sinks:
    """Where lines go: JSON into the file, and what matters to a person to stderr."""

    def __init__(self, file: LogFile | None, console: TextIO | None, level: str = "info") -> None:
        self._file = file
        self._console = console
        self._level = _LEVELS[level]
        self._lines: list[bytes] = []
        self._texts: list[str] = []

    def __call__(self, logger: object, method: str, event: MutableMapping[str, object]) -> NoReturn:
        self._put(method, event)
        self._release()
        raise structlog.DropEvent

    def _put(self, method: str, event: MutableMapping[str, object]) -> None:
        if self._file is not None:
            self._lines.append(render(event))
        if self._console is not None and _LEVELS.get(method, 20) >= self._level:
            self._texts.append(_for_people(event))

    def add(self, events: Iterable[dict[str, object]]) -> None:
        """Lines at level info, all with the time of now, in one go.

        A batch has hundreds of verdicts: what a logger does for each would take a tenth of a burst's time.
        """
        now = datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
        for event in events:
            event["level"] = "info"
            event["ts"] = now
            self._put("info", event)
        self._release()

    def _release(self) -> None:
        lines, self._lines = self._lines, []
        texts, self._texts = self._texts, []
        if lines and self._file is not None:
            self._file.write(b"".join(lines))
        if texts:
            self._tell("".join(texts))

    def _tell(self, text: str) -> None:
        """Say it to a person; a terminal that went away or a full disk loses log lines and nothing else."""
        assert self._console is not None
        try:
            self._console.write(text)
            self._console.flush()
        except OSError:
            return


def render(event: MutableMapping[str, object]) -> bytes:
    """One JSON line, whatever the values are."""
    try:
        return to_json(event, inf_nan_mode="constants", fallback=repr) + b"\n"
    except Exception:  # noqa: BLE001 - a line never raises, and any value may
        return json.dumps({_repr(key): _repr(value) for key, value in event.items()}).encode() + b"\n"


def _repr(value: object) -> str:
    """What a value says of itself, whatever that raises."""
    if isinstance(value, str):
        return value
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - a line never raises, and any value may
        return f"<{type(value).__name__} that can't be shown: {type(error).__name__}>"


def _for_people(event: MutableMapping[str, object]) -> str:
    level, name, at = event.get("level", "info"), event.get("event"), event.get("ts", "")
    rest = " ".join(
        f"{key}={_short(value)}" for key, value in event.items() if key not in ("level", "event", "ts")
    )
    mark = "" if level == "info" else f"{level}: "
    return f"{str(at)[11:19]} {mark}{name} {rest}\n"


def _short(value: object) -> str:
    text = _repr(value)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


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
