"""The daemon's structured log: each line an event name and keys; where lines go, and how they are read back.

Lines go into `<state>/log/runward.jsonl` as JSON and to stderr in the form that suits stderr. If stderr is the systemd
journal, they go there instead of into the file. A log that can't be written loses lines, and nothing else.
"""

import json
import os
import re
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, NoReturn, Protocol, TextIO, TypeAlias

import msgspec

from runward.config.json_value import MAX_INTEGER, JsonValue
from runward.handlers.secrets import without_secrets

# structlog loads rich if that is installed: 80 modules, 30 ms and 5 MB, for a console that nothing here uses. What is None in
# `sys.modules` can't be imported.
_rich = sys.modules.get("rich")
sys.modules["rich"] = None  # type: ignore[assignment]
import structlog

if _rich is None:
    del sys.modules["rich"]
else:
    sys.modules["rich"] = _rich

MAXIMUM_LINE: Final = 64 << 10
"""Bytes. The values of a longer line are cut."""
PRIORITIES: Final = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
"""The levels, lowest first, with their numbers in syslog(3)."""

_FIRST: Final = ("ts", "level", "event")
_OUR_OWN: Final = frozenset({"ts", "level", "version"})
_SHORT_WORD: Final = re.compile(r"[a-z_.]{1,16}")
"""The shapes of secrets are longer, or have other characters."""
_ALIKE_BELOW: Final = 1e16
_TIMES: Final = frozenset({"at", "before", "since"})
"""Keys whose numbers are times in Unix seconds, as those that end with `_at` are."""
_LONGEST: Final = (2048, 256, 32)
"""Characters of a value in a line that would be too long, each tried in turn."""
_MOST_KEYS: Final = 32
_LONGEST_KEY: Final = 64
_SURELY_READABLE: Final = 4000
"""Bytes. Up to here no number has more digits than Python reads, and nothing is nested too deeply for it."""

Coloured = Callable[[str, str], str]


def render(event: Mapping[str, object]) -> bytes:
    """One line of JSON with its newline, whatever the values are."""
    line = _as_json(event)
    # The search takes 20 ms and 3 MB to load, and a daemon without runs logs nothing that could be a secret.
    return _bounded(line if _is_harmless(event) else without_secrets(line))


def render_known(event: Mapping[str, object]) -> bytes:
    """Like `render`, for a line whose keys and values are all known to be ids, numbers and words of our own."""
    return _bounded(_as_json(event))


def _is_harmless(event: Mapping[str, object]) -> bool:
    """Whether there are only numbers in it, and words that are too short for a secret or always our own."""
    return all(
        key in _OUR_OWN
        or (_is_simple(value) and not isinstance(value, str))
        or (key == "event" and isinstance(value, str) and _SHORT_WORD.fullmatch(value) is not None)
        for key, value in event.items()
    )


def _is_simple(value: object) -> bool:
    """Whether msgspec and pydantic write it alike."""
    match value:
        case None | bool():
            return True
        case int():
            return type(value) is int and abs(value) <= MAX_INTEGER
        case float():
            return type(value) is float and abs(value) < _ALIKE_BELOW
        case _:
            return type(value) is str


def _as_json(event: Mapping[str, object]) -> bytes:
    try:
        if all(map(_is_simple, event.values())):
            return msgspec.json.encode(_with_times(event))
        from pydantic_core import to_json  # knows many more types, and takes 10 ms and 3 MB to load

        line = to_json(_with_times(event), inf_nan_mode="strings", fallback=repr)
        if len(line) > _SURELY_READABLE:
            json.loads(line)
    except Exception:  # noqa: BLE001 - a line never raises, and any value may
        return json.dumps({text_of(key): text_of(value) for key, value in event.items()}).encode()
    return line


def _with_times(event: Mapping[str, object]) -> Mapping[str, object]:
    """The line with its times as programs read them: ISO 8601, UTC, with Z."""
    times = {
        key: _iso(value) for key, value in event.items() if isinstance(value, float) and _names_time(key)
    }
    return {**event, **times} if times else event


def _names_time(key: str) -> bool:
    return key in _TIMES or key.endswith("_at")


def _iso(at: float) -> str | float:
    """Unix seconds as ISO 8601; a time outside the calendar stays a number."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")[:-6] + "Z"
    except (ValueError, OverflowError, OSError):
        return at


def _bounded(line: bytes) -> bytes:
    """The line with its newline, at most `MAXIMUM_LINE` bytes, without control sequences for terminals."""
    if len(line) < MAXIMUM_LINE and (not line.isascii() or b"\x7f" in line):
        line = _escaped(line.decode()).encode()
    return (line if len(line) < MAXIMUM_LINE else _shortened(line)) + b"\n"


def _shortened(line: bytes) -> bytes:
    """All values as texts that are shortened if they are long; if there are many keys, the first and the last."""
    items: list[tuple[str, JsonValue]] = list(json.loads(line).items())
    if len(items) > _MOST_KEYS:
        items = items[: _MOST_KEYS // 2] + items[-_MOST_KEYS // 2 :]
    for longest in _LONGEST:
        texts = {_cut(key, _LONGEST_KEY): _cut(plain(value), longest) for key, value in items}
        line = _escaped(json.dumps(texts)).encode()
        if len(line) < MAXIMUM_LINE:
            break
    return line


def text_of(value: object) -> str:
    """The text of a value, whatever that raises."""
    try:
        return str.__str__(value) if isinstance(value, str) else str.__str__(repr(value))
    except Exception as error:  # noqa: BLE001 - a line never raises, and any value may
        return f"<{type(value).__name__} that can't be shown: {type(error).__name__}>"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"


def _escaped(text: str) -> str:
    """JSON in which control characters for terminals are escaped."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _code_of(each) for each in text)


def _code_of(character: str) -> str:
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def for_people(line: Mapping[str, JsonValue], coloured: Coloured = lambda word, text: text) -> str:
    """A line as a person reads it: local time, level and event, then its keys."""
    level = str(line.get("level"))
    shown = coloured(level, f"{level:<8}")
    values = {key: _local(each) or each if _names_time(key) else each for key, each in line.items()}
    return f"{_local(line.get('ts')) or '-'}  {shown} {message_of(values)}".rstrip()


def message_of(line: Mapping[str, JsonValue]) -> str:
    """The event, then its keys."""
    rest = " ".join([f"{key}={_told(key, each)}" for key, each in line.items() if key not in _FIRST])
    return _safe(f"{line.get('event')}  {rest}".rstrip())


def _told(key: str, value: JsonValue) -> str:
    """A value for people: a length of time in seconds has three digits, whatever the clock gave."""
    return f"{value:.3f}" if type(value) is float and key.endswith("_s") else plain(value)


def plain(value: JsonValue) -> str:
    """A text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int else json.dumps(value, ensure_ascii=False)


def _safe(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _local(text: JsonValue) -> str | None:
    """A time of the log as people read it: local, with its zone; None if it is not a time."""
    try:
        return datetime.fromisoformat(str(text)).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    except (ValueError, OverflowError, OSError):
        return None


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
    return render({"lines": count, "event": "log.lines_lost", "level": "warning", "ts": _now()})


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
        entries: list[Mapping[str, JsonValue]] = [json.loads(line) for line in lines]
        self._say("".join(f"{for_people(line)}\n" for line in entries))


class JsonStream(_Stream):
    """Lines as they are, for programs that collect output."""

    def write(self, lines: Sequence[bytes]) -> None:
        self._say(b"".join(lines).decode())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


class Sinks:
    """Where lines go: the file, a console, both or neither."""

    def __init__(self, file: LogFile | None, console: Console | None) -> None:
        self._file = file
        self._console = console

    def take(self, event: dict[str, object]) -> None:
        """Add a line."""
        self._write([render(event)])

    def add(self, events: Iterable[dict[str, object]]) -> None:
        """Add lines with their levels in one go, all with the current time; they must contain only our own words.

        A batch has hundreds of verdicts, and a logger call for each would take a tenth of a burst's time.
        """
        now = _now()
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


def _journal(state: Path, stderr: TextIO, environment: Mapping[str, str]) -> Journal | None:
    """The journal, if stderr is the journal and somebody listens at its socket."""
    if "JOURNAL_STREAM" not in environment or not is_journal(stderr.fileno(), environment):
        return None
    try:
        return Journal(str(state.resolve()))
    except OSError:
        return None


def _note_journal(state: Path) -> None:
    note = state / IN_JOURNAL
    note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    note.touch(mode=0o600)


Log: TypeAlias = structlog.typing.FilteringBoundLogger
"""A log of events with their keys."""


def log_into(
    write: Callable[[dict[str, object]], None],
    level: Literal["debug", "info", "warning"] = "info",
    *processors: structlog.typing.Processor,
) -> Log:
    """A log that gives each line at this level or above to `write`, event and level last, after these processors."""

    def hand_over(logger: object, method: str, event: MutableMapping[str, object]) -> NoReturn:
        write(dict(event))
        raise structlog.DropEvent

    log: Log = structlog.wrap_logger(
        structlog.PrintLogger(),
        processors=[structlog.processors.add_log_level, *processors, hand_over],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    return log


def open_log(sinks: Sinks, level: str = "info") -> Log:
    """A log whose lines go to `sinks`."""
    return log_into(
        sinks.take,
        "debug" if level == "debug" else "info",
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        # Without local variables: they may be secrets.
        structlog.processors.ExceptionRenderer(
            structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        ),
    )
