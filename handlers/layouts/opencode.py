"""Sessions of opencode and of Kilo, a fork of it: rows of `~/.local/share/opencode/opencode.db`, or of Kilo's `kilo.db`.

A session has messages, a message has parts. A message of the agent is one reply of the model. It ends the turn if it is complete,
and its `finish` is neither that tools are called nor unknown; an `error` ends it, too. A program that is killed leaves it
incomplete, whatever the signal was. A fork copies the messages with their times, and no row names its origin. A session with a
`parent_id` is that of a sub-agent. No row names the process.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypedDict, TypeVar

import msgspec

from runward.handlers.layouts.conversation import (
    COMPLETED,
    INTERRUPTED,
    Asked,
    Begun,
    Call,
    ConversationLog,
    Delegated,
    Ended,
    Layout,
    Notes,
    Replied,
    Returned,
    Spent,
    Uses,
    Word,
    api_failed,
    nanousd,
)
from runward.handlers.layouts.foreign_values import LONGEST_PATH, count_in, seconds_in, whole_text_in
from runward.handlers.layouts.layout import Database, Earlier, Entry, Row
from runward.handlers.layouts.places import is_session_id
from runward.handlers.layouts.transcript import Close, closed

Decoded = TypeVar("Decoded")

_DELEGATES: Final = "task"
"""The tool that starts a sub-agent."""

_LONGEST_UNREADABLE: Final = 200


class _Times(TypedDict, total=False):
    created: object
    start: object
    end: object
    completed: object


class _State(TypedDict, total=False):
    status: object
    input: msgspec.Raw
    output: msgspec.Raw
    error: msgspec.Raw
    metadata: object
    time: _Times


class _Part(TypedDict, total=False):
    type: object
    text: msgspec.Raw
    synthetic: object
    ignored: object
    auto: object
    tool: object
    callID: object
    state: _State
    time: _Times


class _Cache(TypedDict, total=False):
    read: object
    write: object


class _Tokens(TypedDict, total=False):
    input: object
    output: object
    reasoning: object
    cache: _Cache


class _Error(TypedDict, total=False):
    name: object
    data: object


class _Model(TypedDict, total=False):
    modelID: object


class _Message(TypedDict, total=False):
    role: object
    time: _Times
    finish: object
    error: _Error
    summary: object
    model: _Model
    modelID: object
    cost: object
    tokens: _Tokens


class _Line(TypedDict, total=False):
    """A line that is made of rows."""

    type: object
    id: object
    time: object
    parent: object
    directory: object
    version: object
    role: object
    text: msgspec.Raw
    call: object
    tool: object
    params: msgspec.Raw
    content: msgspec.Raw
    failed: object
    exit: object
    goes_on: object
    finish: object
    error: _Error
    model: object
    cost: object
    tokens: _Tokens


_MESSAGE: Final = msgspec.json.Decoder(_Message)
_PART: Final = msgspec.json.Decoder(_Part)
_NOTHING: Final = msgspec.Raw(b"null")


def _is_reply(row: Row) -> bool:
    """Whether a message is one of the agent: then nothing is added to those before it."""
    message = _decoded(_MESSAGE, row.data)
    return message is not None and message.get("role") == "assistant"


def _begin(columns: Sequence[object]) -> Sequence[bytes]:
    """The line that says who the session is."""
    at, session, parent, directory, version = (
        each.decode(errors="replace") if isinstance(each, bytes) else each for each in columns
    )
    return [
        _line("begun", session, at, parent=parent, directory=directory, version=version),
    ]


def _lines(group: Sequence[Entry]) -> Sequence[bytes]:
    """What happened in a reply and in the prompts after it, by time."""
    happened: list[tuple[float, int, bytes]] = []
    for place, (row, parts) in enumerate(group):
        message = _decoded(_MESSAGE, row.data)
        if message is None:
            happened.append((row.created, place, _unreadable(row)))
            continue
        is_agents = message.get("role") == "assistant"
        done = _number(message.get("time", {}).get("completed")) if is_agents else None
        if not is_agents:
            model = message.get("model", {}).get("modelID")
            happened.append((row.created, place, _line("asked", row.id, row.created, model=model)))
        for part in parts:
            happened += ((at, place, line) for at, line in _in_part(part, is_agents=is_agents, done=done))
        if is_agents and (done is not None or message.get("error")):
            at = row.updated if done is None else done
            happened.append((max([at, *(each[0] for each in happened)]), place, _reply(row, message, at)))
    # Sorting is stable, so of one moment the rows' own order counts.
    return [line for _, _, line in sorted(happened, key=lambda each: each[0])]


def _in_part(row: Row, *, is_agents: bool, done: float | None) -> Iterator[tuple[float, bytes]]:
    part = _decoded(_PART, row.data)
    if part is None:
        yield row.created, _unreadable(row)
        return
    match part.get("type"):
        case "text":
            # The agent's text comes bit by bit, and is written as a whole at its end.
            at = _number(part.get("time", {}).get("end")) if is_agents else row.created
            at = done if at is None else at
            if at is not None and not part.get("ignored"):
                role = "assistant" if is_agents else "system" if part.get("synthetic") else "user"
                yield at, _line("text", row.id, at, role=role, text=part.get("text", _NOTHING))
        case "tool":
            yield from _in_tool(row, part)


def _in_tool(row: Row, part: _Part) -> Iterator[tuple[float, bytes]]:
    state = part.get("state", {})
    status, times = state.get("status"), state.get("time", {})
    if status not in ("running", "completed", "error"):
        return  # its parameters are still being written
    begun = _number(times.get("start"))
    begun = row.created if begun is None else begun
    call, tool = part.get("callID"), part.get("tool")
    yield begun, _line("call", row.id, begun, call=call, tool=tool, params=state.get("input", _NOTHING))
    if status == "running":
        return
    ended = _number(times.get("end"))
    ended = row.updated if ended is None else max(begun, ended)
    failed = status == "error"
    metadata = state.get("metadata")
    yield (
        ended,
        _line(
            "result",
            row.id,
            ended,
            call=call,
            failed=failed,
            content=state.get("error" if failed else "output", _NOTHING),
            exit=metadata.get("exit") if isinstance(metadata, dict) else None,
        ),
    )


def _reply(row: Row, message: _Message, at: float) -> bytes:
    asked_for = None if row.about is None else _decoded(_PART, row.about)
    return _line(
        "reply",
        row.id,
        at,
        # The session goes on after a summary, unless a person asked for it.
        goes_on=message.get("summary") is True and (asked_for is None or asked_for.get("auto") is not False),
        finish=message.get("finish"),
        error=message.get("error", {}),
        model=message.get("modelID"),
        cost=message.get("cost"),
        tokens=message.get("tokens", {}),
    )


def _line(kind: str, row: object, at: object, **values: object) -> bytes:
    line = msgspec.json.encode({"type": kind, "id": row, "time": at, **values})
    # What was taken over as it is may have newlines between its values.
    return line.replace(b"\n", b" ").replace(b"\r", b" ")


def _unreadable(row: Row) -> bytes:
    """A line that can't be read, for a row that can't be: it is reported like one of a log."""
    return b"{" + row.id.encode() + b": " + row.data[:_LONGEST_UNREADABLE].replace(b"\n", b" ")


def _decoded(decoder: msgspec.json.Decoder[Decoded], data: bytes) -> Decoded | None:
    try:
        return decoder.decode(data)
    except (ValueError, RecursionError):
        return None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return None
    return value


def _words(line: _Line) -> Iterator[Word]:
    call = whole_text_in(line.get("call"))
    text = line.get("text", _NOTHING)
    match line.get("type"):
        case "begun":
            session, parent = whole_text_in(line.get("id")), whole_text_in(line.get("parent"))
            yield Begun(
                session,
                whole_text_in(line.get("directory"), LONGEST_PATH),
                whole_text_in(line.get("version")),
                works_for=None if parent == session else parent,
            )
        case "asked":
            yield Uses(whole_text_in(line.get("model")))
            yield Asked("")
        case "text" if bytes(text) != bytes(_NOTHING):
            if line.get("role") == "assistant":
                yield Replied([text])
            elif line.get("role") == "user":
                yield Asked([text])
            else:
                yield Notes([text])
        case "call" if call is not None:
            tool = whole_text_in(line.get("tool")) or "?"
            yield Replied("", (Call(call, tool, line.get("params", _NOTHING)),))
            if tool == _DELEGATES:
                yield Delegated()
        case "result" if call is not None:
            code = line.get("exit")
            is_code = isinstance(code, int) and not isinstance(code, bool)
            content = line.get("content", _NOTHING)
            yield Returned(call, content, line.get("failed") is True, code if is_code else None)  # type: ignore[arg-type]
        case "reply":
            yield Replied("", (), None, whole_text_in(line.get("model")), _spent(line))
            close = _close(line)
            if close is not None:
                yield Ended(close)


def _close(line: _Line) -> Close | None:
    error = line.get("error")
    if error:
        data = error.get("data")
        why = data.get("message") if isinstance(data, dict) else None
        match error.get("name"):
            case "MessageAbortedError":
                return INTERRUPTED
            case "MessageOutputLengthError":
                return closed("run.failed.limit_reached", "the reply reached the limit of its length")
            case "UnknownError":
                said = f": {why[:_LONGEST_UNREADABLE]}" if isinstance(why, str) and why else ""
                return closed("run.failed.exception", f"the turn failed{said}")
        return api_failed(why)
    finish = line.get("finish")
    if line.get("goes_on") is not False or not isinstance(finish, str) or finish in ("tool-calls", "unknown"):
        return None
    if finish == "length":
        return closed("run.failed.limit_reached", "the reply reached the limit of its length")
    return COMPLETED


def _spent(line: _Line) -> Spent:
    tokens = line.get("tokens", {})
    cache = tokens.get("cache", {})
    return Spent(
        count_in(tokens.get("input")),
        count_in(cache.get("read")),
        count_in(cache.get("write")),
        count_in(tokens.get("output")) + count_in(tokens.get("reasoning")),
        nanousd(line.get("cost")),
    )


def _at(line: _Line) -> float | None:
    at = _number(line.get("time"))
    return None if at is None else seconds_in(at / 1000)


def _id_of(line: _Line) -> str | None:
    row = whole_text_in(line.get("id"))
    return None if row is None else f"{line.get('type')}:{row}"


def _session_in(path: str) -> str | None:
    name = path.rpartition("/")[2]
    return name if is_session_id(name) else None


class DatabaseLog(ConversationLog[_Line]):
    """A layout of sessions in a database."""

    def final_message(self, newest_first: Iterable[bytes]) -> str | None:
        """The text of the last reply. What says that the reply is complete has no text itself."""
        return super().final_message(line for line in newest_first if not self._only_ends(line))

    def _only_ends(self, line: bytes) -> bool:
        words = self._words(line)
        return any(isinstance(each, Ended) and each.close.status == "completed" for each in words)


def _layout(name: str, database: str) -> DatabaseLog:
    return DatabaseLog(
        Layout(
            name=name,
            shown_by=f"the tables `session`, `message` and `part` of a database that is called `{database}`",
            decoder=msgspec.json.Decoder(_Line),
            words=_words,
            at=_at,
            id_of=_id_of,
            id_in=_session_in,
            is_first=lambda line: False,  # a database is recognised, not a line
        )
    )


_EARLIER: Final = Earlier(
    files=("storage/session/*/ses_*.json", "project/*/storage/session/info/ses_*.json"),
    since="since version 1.2, opencode keeps them in its database",
)


def _database(files: str, earlier: Earlier | None = None) -> Database:
    common = {"id", "session_id", "time_created", "time_updated", "data"}
    return Database(
        files=files,
        tables={
            "session": frozenset({"id", "parent_id", "directory", "version", "time_created", "time_updated"}),
            "message": frozenset(common),
            "part": frozenset({*common, "message_id"}),
        },
        version="select version from session order by rowid desc limit 1",
        newcomers={"session": "id", "message": "session_id", "part": "session_id"},
        standing=_STANDING,
        session=("select time_created, id, parent_id, directory, version from session where id = :session"),
        entries=_ENTRIES,
        parts=(
            "select id, time_created, time_updated, data, null from part where message_id = :entry"
            " order by message_id, id"
        ),
        begins=_is_reply,
        begin=_begin,
        lines=_lines,
        earlier=earlier,
    )


# A tool that runs changes only its part. The parts of a message are few, and found by an index.
_STANDING: Final = """
select id, max(updated, coalesce((select time_updated from message where id = last), 0),
  coalesce((select max(p.time_updated) from part p where p.message_id = last), 0)),
  coalesce((select max(p.rowid) from part p where p.message_id = last), 0)
    + coalesce((select m.rowid from message m where m.id = last), 0)
from (
  select s.id as id, s.time_updated as updated,
    (select m.id from message m where m.session_id = s.id order by m.time_created desc, m.id desc limit 1) as last
  from session s {where}
)
"""
# The part of the prompt that asked for a summary says whether a person did.
_ENTRIES: Final = """
select m.id, m.time_created, m.time_updated, m.data,
  case when typeof(m.data) = 'text' and json_valid(m.data) and json_extract(m.data, '$.summary') is 1 then
    (select p.data from part p where p.message_id = json_extract(m.data, '$.parentID')
       and instr(p.data, '"compaction"') limit 1) end
from message m
where m.session_id = :session and (m.time_created, m.id) >= (:at, :id)
order by m.session_id, m.time_created, m.id
"""

OPENCODE: Final = _layout("opencode", "opencode.db")
OPENCODE_DATABASE: Final = _database("opencode*.db", _EARLIER)
KILO: Final = _layout("kilo", "kilo.db")
KILO_DATABASE: Final = _database("kilo*.db")
