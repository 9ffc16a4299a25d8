"""What happened in a session, in the order of time: changes of its status, its journal, its messages and calls, its outcomes.

A page of it reads a bounded part of each file, from where the page before ended. So neither its length nor what a
run puts into its files makes a page slow.
"""

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue, objects
from runward.config.settings import Settings
from runward.daemon.rundir.call_reading import CallReading
from runward.daemon.rundir.message_reading import as_log, conversation_file
from runward.daemon.rundir.opening import ABSENT, NotRegular, held
from runward.daemon.rundir.recorded_files import (
    Budget,
    OutsideRoot,
    Place,
    line_at,
    lines_from,
    open_recorded,
    opened_directory,
)
from runward.daemon.rundir.session_logs import CannotUnpack
from runward.daemon.rundir.session_places import made_log
from runward.daemon.store.tables.sessions import SessionRow
from runward.daemon.views.bundles import journal_place, session_bundle, shown_bundle
from runward.daemon.views.session_files import JOURNAL, NoFile, place_of
from runward.handlers.bundle.parts import REPLAY, part_name
from runward.handlers.calls import Called, Returned
from runward.handlers.foreign_json import NotJson, parse_time, read_json
from runward.handlers.layouts.places import PACKED
from runward.handlers.layouts.registry import MESSAGES
from runward.handlers.secrets import json_without_secrets
from runward.handlers.times import iso, moment_of

ENTRIES: Final = 200
"""Entries of a page."""

LONGEST_TEXT: Final = 4 << 10
"""Bytes of a text that are shown among the others."""

MOST_BYTES: Final = 4 << 20
"""Bytes of all files that are read for a page."""

MOST_TOLD: Final = 1 << 20
"""Bytes of lines whose texts are shown on a page, whole or cut."""

LONGEST_PAGE: Final = 256 << 10
"""Characters of a text that its own page shows."""

_WINDOW: Final = 64 << 10
"""Characters of a text that are searched for secrets before it is cut: that takes long for a text full of them."""

_LONGEST_WORD: Final = 200
_FILES: Final = ("journal", "replay", "messages")
_SOURCES: Final = ("history", "outcomes", "calls", *_FILES)
_CURSOR: Final = re.compile(r"(\d{1,9})\.(\d{1,16})-" * len(_SOURCES) + r"(\d{1,12}(?:\.\d{1,9})?)")
_TEXT: Final = re.compile(rf"({'|'.join(_FILES)})\.(\d{{1,9}})\.(\d{{1,16}})")


class NotOurs(ValueError):
    """A cursor or the name of a text that no page has made."""


class Position(NamedTuple):
    """Where a page goes on: for each source its number (of an entry, or of a file) and a byte in that file.

    `at` is the time of the last entry before.
    """

    places: Mapping[str, tuple[int, int]] = MappingProxyType(dict.fromkeys(_SOURCES, (0, 0)))
    at: float = 0.0

    def __str__(self) -> str:
        places = (self.places[name] for name in _SOURCES)
        return "-".join((*(f"{number}.{start}" for number, start in places), f"{self.at:.6f}"))


START: Final = Position()


class TimelinePage(NamedTuple):
    """Entries as `{"at", "kind", …}`, where the next page begins, and what is not shown, in words."""

    entries: list[JsonValue]
    next: str | None
    not_shown: list[JsonValue]


class _Entry(NamedTuple):
    """An entry of one source. `after` is the source's place behind it.

    Without a value it is the last one: the source is over at this place, or else no more can be read for this page.
    """

    at: float | None
    rank: int
    value: dict[str, JsonValue] | None
    place: tuple[int, int]
    after: tuple[int, int]
    is_over: bool = False
    size: int = 0


_Source: TypeAlias = Iterator[_Entry]
_Read: TypeAlias = Callable[[bytes], tuple[float | None, dict[str, JsonValue]] | None]


def position_of(text: str) -> Position:
    """The position that a page has in its `next`. Raises `NotOurs`."""
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise NotOurs(text)
    *numbers, at = match.groups()
    places = zip(map(int, numbers[::2]), map(int, numbers[1::2]), strict=True)
    return Position(dict(zip(_SOURCES, places, strict=True)), float(at))


class Timeline:
    """The timeline of one session."""

    def __init__(self, connection: sqlite3.Connection, settings: Settings, row: SessionRow) -> None:
        self._connection = connection
        self._settings = settings
        self._row = row
        self._not_shown: dict[str, None] = {}
        self._window = _WINDOW

    def page(self, start: Position, session: Mapping[str, JsonValue]) -> TimelinePage:
        """The entries from a position on; `session` is what `session show --json` prints of it."""
        budget = Budget(MOST_BYTES)
        places = dict(start.places)
        read = self._messages()
        sources: dict[str, _Source] = {"history": _listed(session["history"], places["history"], _status)}
        if read is not None:
            sources["messages"] = self._of_files("messages", places["messages"], budget, read)
        sources |= self._calls(places, budget)
        until_end = _outcome_until(session["finished_at"])
        sources["outcomes"] = _listed(session["artifacts"], places["outcomes"], until_end)
        sources["journal"] = self._of_files("journal", places["journal"], budget, self._line)
        order = list(sources)
        heads: dict[str, _Entry] = {}
        times = dict.fromkeys(sources, start.at)

        def advance(name: str) -> None:
            heads.pop(name, None)
            head = next(sources[name], None)
            if head is not None and head.is_over:
                places[name] = head.place
            elif head is not None:
                heads[name] = head
                # Never back in time: lines of one file stay in their order, whatever times a run wrote into them.
                times[name] = max(times[name], head.at or 0.0)

        for name in sources:
            advance(name)
        entries: list[JsonValue] = []
        at, size_told = start.at, 0
        while heads and len(entries) < ENTRIES and size_told < MOST_TOLD:
            # A source that was not read to its end may have what comes next, so the page ends here.
            if any(each.value is None for each in heads.values()):
                break
            # By milliseconds: some sources have no finer times, and would else come before what they followed.
            name = min(heads, key=lambda name: (int(times[name] * 1000), heads[name].rank, order.index(name)))
            head, at = heads[name], times[name]
            assert head.value is not None, "those without a value end the page"
            entries.append({"at": iso(at) if at else None, **head.value})
            places[name] = head.after
            size_told += head.size
            advance(name)
        places |= {name: head.place for name, head in heads.items()}
        following = str(Position(places, at)) if heads else None
        return TimelinePage(entries, following, list(self._not_shown))

    def text(self, name: str) -> dict[str, JsonValue] | None:
        """The entry whose long text has this name, with all of the text; None if it is no longer there. Raises `NotOurs`."""
        match = _TEXT.fullmatch(name)
        if match is None:
            raise NotOurs(name)
        kind, number, start = match[1], int(match[2]), int(match[3])
        reads: dict[str, _Read | None] = {
            "journal": self._line,
            "replay": self._replayed,
            "messages": self._messages(),
        }
        self._window = LONGEST_PAGE
        read = reads[kind]
        file = self._file(kind, number)
        if read is None or file is None:
            return None
        try:
            with held(self._open(kind, file)) as descriptor:
                line = line_at(descriptor, start)
        except (OSError, NotRegular, OutsideRoot, CannotUnpack):
            return None
        message = None if line is None else read(line)
        return None if message is None else {"at": iso(message[0]), **message[1]}

    def _of_files(self, kind: str, start: tuple[int, int], budget: Budget, read: _Read) -> _Source:
        """Entries of the lines of a kind of file, one file after the other."""
        number, at = over = start
        while number < (self._row.attempt if kind == "replay" else 1):
            file = self._file(kind, number)
            try:
                descriptor = None if file is None else self._open(kind, file)
            except (OSError, NotRegular, OutsideRoot, CannotUnpack) as error:
                self._hindered(kind, error)
                descriptor = None
            if descriptor is not None:
                with held(descriptor):
                    for line in lines_from(descriptor, at, budget):
                        if line.ends == "budget":
                            yield _Entry(None, 0, None, (number, line.start), (number, line.start))
                            return
                        if line.ends == "file":
                            over = max(over, (number, line.start))
                            break
                        if line.content is None:
                            self._not_shown["Lines of more than 1 MiB are left out."] = None
                            continue
                        message = read(line.content)
                        if message is not None:
                            after = over = (number, line.start + len(line.content) + 1)
                            value = _cut(message[1], f"{kind}.{number}.{line.start}")
                            size = len(line.content)
                            yield _Entry(message[0], 1, value, (number, line.start), after, size=size)
            number, at = number + 1, 0
        yield _Entry(None, 0, None, over, over, is_over=True)

    def _file(self, kind: str, number: int) -> tuple[Place, str] | None:
        """The file of this kind and number; None if there is none."""
        row, settings = self._row, self._settings
        try:
            if kind == "journal" and number == 0 and row.origin == "live":
                return place_of(settings, row, journal_place(settings.state_dir, row)), JOURNAL
            if kind == "messages" and number == 0:
                log = conversation_file(row.layout, row.path.rpartition("/")[2])
                directory, _, name = (row.path if log is None else f"{row.path}/{log}").rpartition("/")
                return place_of(settings, row, directory), name
            if kind == "replay" and number < row.attempt:
                attempt = number + 1
                bundle = (
                    shown_bundle(self._connection, settings, row)
                    if attempt == row.attempt
                    else session_bundle(self._connection, settings, row, attempt)
                )
                if bundle is not None and bundle.state in ("written", "growing"):
                    return place_of(settings, row, bundle.directory), part_name(REPLAY, attempt)
        except NoFile as error:
            self._not_shown[str(error)] = None
        return None

    def _open(self, kind: str, file: tuple[Place, str]) -> int:
        made = made_log(self._row.layout, self._row.path) if kind == "messages" else None
        if made is None:
            descriptor = open_recorded(*file)
            return as_log(self._row.layout, descriptor) if kind == "messages" else descriptor
        from runward.daemon.rundir.database_sessions import written_out  # most agents have no database

        return written_out(made)

    def _hindered(self, kind: str, error: Exception) -> None:
        is_gone = isinstance(error, OSError) and error.errno in ABSENT
        if kind == "messages":
            state = "is gone" if is_gone else "can't be read"
            self._not_shown[f"Its transcript {state}, so its messages are not shown."] = None
        elif not is_gone:
            self._not_shown[f"Its {kind} can't be read."] = None

    def _calls(self, places: Mapping[str, tuple[int, int]], budget: Budget) -> dict[str, _Source]:
        """The calls: from the replay, or from the session's own files if there is none."""
        bundle = shown_bundle(self._connection, self._settings, self._row)
        if bundle is not None and bundle.state == "on_demand":
            return {"calls": self._calls_on_demand(places["calls"][0], budget)}
        return {"replay": self._of_files("replay", places["replay"], budget, self._replayed)}

    def _calls_on_demand(self, start: int, budget: Budget) -> _Source:
        row = self._row
        most = budget.left // 2
        read = 0

        def go_on(count: int) -> bool:
            nonlocal read
            read += count
            return True

        directory, _, name = row.path.rpartition("/")
        number = 0
        try:
            place = place_of(self._settings, row, directory)
            is_file = made_log(row.layout, row.path) is None
            with opened_directory(place) if is_file else nullcontext() as within:
                path = f"/proc/self/fd/{within}/./{name}" if is_file else row.path
                reading = CallReading(row.layout, path, go_on)
                for each in reading.told(most):
                    value: dict[str, JsonValue]
                    match each:
                        case Called():
                            value = self._call(each.id, each.tool, each.params)
                        case Returned():
                            value = self._result(each.id, each.content if each.success else each.error)
                        case _:
                            continue
                    if number >= start:
                        yield _Entry(each.at, 1, _cut(value, None), (number, 0), (number + 1, 0))
                    number += 1
        except (OSError, OutsideRoot, NoFile):
            return  # what keeps the transcript from being read is said with its messages
        if read >= most:
            sentence = (
                "Only the first calls are shown: `runward session export` makes a replay, which has them all."
            )
            self._not_shown[sentence] = None

    def _messages(self) -> _Read | None:
        """How the lines of the transcript are read; None if the layout has no messages, or they can't be read."""
        read_message = MESSAGES.get(self._row.layout)
        if read_message is None:
            return None
        message_in = read_message

        def read(line: bytes) -> tuple[float | None, dict[str, JsonValue]] | None:
            message = message_in(line)
            if message is None:
                return None
            text = self._text_of(message.text)
            return message.at, {"kind": "message", "role": message.role, "text": text}

        if not self._is_plain():
            self._not_shown["Its transcript is packed, so its messages are not shown."] = None
            return None
        return read

    def _is_plain(self) -> bool:
        return os.path.lexists(self._row.path) or not os.path.lexists(self._row.path + PACKED)

    def _line(self, line: bytes) -> tuple[float | None, dict[str, JsonValue]] | None:
        """A line of a journal."""
        if not line.strip():
            return None
        value = read_json(line)
        if isinstance(value, NotJson) or not isinstance(value, dict):
            text = self._text_of(line.decode(errors="backslashreplace"))
            return None, {"kind": "line", "event": None, "role": None, "text": text}
        rest = {key: each for key, each in value.items() if key not in ("ts", "event", "role", "hash")}
        event, role = (_word(value.get(key)) for key in ("event", "role"))
        at = parse_time(value.get("ts"))
        return at, {"kind": "line", "event": event, "role": role, "text": self._text_of(rest)}

    def _replayed(self, line: bytes) -> tuple[float | None, dict[str, JsonValue]] | None:
        """A line of a replay, if it is about a call."""
        value = read_json(line)
        if isinstance(value, NotJson) or not isinstance(value, dict):
            return None
        at, identifier = parse_time(value.get("t")), str(_word(value.get("id")))
        match value.get("event"):
            case "ToolCall":
                return at, self._call(identifier, str(value.get("tool")), value.get("params"))
            case "ToolResult":
                return at, self._result(identifier, value.get("output"))
        return None

    def _call(self, identifier: str, tool: str, params: JsonValue) -> dict[str, JsonValue]:
        return {
            "kind": "tool_call",
            "id": _word(identifier),
            "tool": _word(tool),
            "text": self._text_of(params),
        }

    def _result(self, identifier: str, output: JsonValue) -> dict[str, JsonValue]:
        return {"kind": "tool_result", "id": _word(identifier), "text": self._text_of(output)}

    def _text_of(self, value: JsonValue) -> str:
        cleaned = json_without_secrets(_shortened(value, self._window), self._settings.bundle.rules.redact)
        return cleaned if isinstance(cleaned, str) else json.dumps(cleaned, ensure_ascii=False)


def _listed(
    rows: JsonValue, start: tuple[int, int], entry: Callable[[dict[str, JsonValue]], _Entry]
) -> _Source:
    """Entries of what the session's own object lists."""
    for number, each in islice(enumerate(objects(rows)), start[0], None):
        yield entry(each)._replace(place=(number, 0), after=(number + 1, 0))


def _status(change: dict[str, JsonValue]) -> _Entry:
    is_first = change["status"] == "running"
    facts = {key: change[key] for key in ("status", "reason_code", "source")}
    return _Entry(moment_of(change["at"]), 0 if is_first else 9, {"kind": "status", **facts}, (0, 0), (0, 0))


def _outcome_until(end: JsonValue) -> Callable[[dict[str, JsonValue]], _Entry]:
    """Outcomes of files are recorded with the verdict: they were there when the session ended."""
    ended = moment_of(end)

    def entry(outcome: dict[str, JsonValue]) -> _Entry:
        facts = {key: outcome[key] for key in ("id", "name", "passed", "summary")}
        recorded = moment_of(outcome["updated_at"])
        at = recorded if recorded is None or ended is None else min(recorded, ended)
        return _Entry(at, 2, {"kind": "outcome", "outcome_kind": outcome["kind"], **facts}, (0, 0), (0, 0))

    return entry


def _cut(entry: dict[str, JsonValue], name: str | None) -> dict[str, JsonValue]:
    """The entry with a text that is not too long; `full_text` names the whole one if it is."""
    text = str(entry["text"]).encode(errors="surrogatepass")
    if len(text) <= LONGEST_TEXT:
        return {**entry, "full_text": None, "is_cut": False}
    return {**entry, "text": text[:LONGEST_TEXT].decode(errors="ignore"), "full_text": name, "is_cut": True}


def _shortened(value: JsonValue, longest: int) -> JsonValue:
    """The value with texts of at most so many characters."""
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[:longest]}…"
    if isinstance(value, list):
        return [_shortened(each, longest) for each in value]
    if isinstance(value, dict):
        return {key: _shortened(each, longest) for key, each in value.items()}
    return value


def _word(value: JsonValue) -> str | None:
    """A short text."""
    return None if value is None else str(value)[:_LONGEST_WORD]
