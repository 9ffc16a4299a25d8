"""Cline's sessions: `~/.cline/data/sessions/<id>/`, with two documents that Cline writes anew with each change.

`<id>.json` says how the session stands, `<id>.messages.json` has its messages, oldest first. Further `*.messages.json` are those of
its sub-agents. Its `status`, and what becomes of it:

- `running`, `pending`: an open turn.
- `idle`: Cline waits for a person's next prompt: the turn is as the messages say.
- `completed`: `run.completed.ok`, unless the messages end in a prompt, a call without a result, or an error. If they can't be
  read, they may: the turn stays open.
- `cancelled`: `run.cancelled.user`: by a person, SIGINT, or SIGTERM in a request; which of them is not recorded.
- `failed`: `run.failed.api_error` if the messages end in an error. But Cline's next start says `failed` of sessions whose process
  it misses, too, and marks them: that is `run.aborted.process_gone`. So is an open turn without an error.

The exit code says nothing more: it is 0 for a cancelled session, too. The process that is named may be Cline's hub, which outlives
its clients and serves several sessions: that it lives proves nothing, but that it is missing does. Messages after the end continue the session before its `status` does.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers import calls
from runward.handlers.calls import Place, Unusable
from runward.handlers.calls import Told as ToldCall
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.call_readers import CallLayout, PlacedLine
from runward.handlers.layouts.conversation import (
    COMPLETED,
    Asked,
    Begun,
    Call,
    Conversation,
    ConversationCalls,
    ConversationLog,
    ConversationScanner,
    Delegated,
    Elsewhere,
    Ended,
    Layout,
    Notes,
    Parts,
    Replied,
    Returned,
    Spent,
    Text,
    TextPart,
    Word,
    api_failed,
    listed,
    nanousd,
    parts_of,
    read,
    whole,
)
from runward.handlers.layouts.foreign_values import (
    LONGEST_PATH,
    count_in,
    document_object,
    milliseconds_in,
    object_in,
    text_in,
    value_in,
    whole_in,
    whole_text_in,
)
from runward.handlers.layouts.transcript import (
    Close,
    Heads,
    KeepsState,
    LogLine,
    Resumed,
    Told,
    Turn,
    clip_prompt,
    closed,
)
from runward.handlers.layouts.transcript_lines import Unreadable
from runward.handlers.model.files import Signature
from runward.handlers.model.sessions import Complaint, Document

LAYOUT: Final = "cline"
SESSION: Final = "{name}.json"
MESSAGES: Final = "{name}.messages.json"
SUBAGENTS: Final = "*.messages.json"
"""The messages of sub-agents and teammates, and the session's own among them."""

MARKERS: Final = (SESSION, MESSAGES)
DOCUMENTS: Final = (*MARKERS, SUBAGENTS)
LOGS: Final = ()
SHOWN_BY: Final = "a `<its name>.json` or `<its name>.messages.json` with Cline's fields"

_MESSAGES_END: Final = ".messages.json"
_SESSION_KEYS: Final = tuple(re.compile(rb'"%s"\s*:' % key) for key in (b"session_id", b"enable_spawn"))
_MESSAGES_KEYS: Final = tuple(re.compile(rb'"%s"\s*:' % key) for key in (b"sessionId", b"agent", b"messages"))
_OPEN: Final = ("running", "pending")
_IDLE: Final = "idle"
_OVER: Final = ("completed", "failed", "cancelled")
_SUBAGENTS: Final = ("subagent", "team")
_DELEGATES: Final = ("spawn_agent", "team_spawn_teammate")
_WRAPPERS: Final = ("user_input", "user_command")


class _Part(TextPart, frozen=True, gc=False):
    id: object = None
    name: object = None
    input: msgspec.Raw = msgspec.Raw()
    tool_use_id: object = None
    content: msgspec.Raw = msgspec.Raw()
    is_error: object = None


class _Message(msgspec.Struct, frozen=True, gc=False):
    id: object = None
    role: object = None
    content: Parts[_Part] = None
    ts: object = None
    model_info: object = msgspec.field(default=None, name="modelInfo")
    metrics: object = None
    metadata: object = None


class _Document(msgspec.Struct, frozen=True, gc=False):
    messages: list[_Message] = []


class _Places(msgspec.Struct, frozen=True, gc=False):
    """The messages of a document as they are."""

    messages: list[msgspec.Raw] = []


class _Outcome(msgspec.Struct, frozen=True, gc=False):
    success: object = None


_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_PLACES: Final = msgspec.json.Decoder(_Places)
_OUTCOMES: Final = msgspec.json.Decoder(list[_Outcome])


def _words(message: _Message) -> Iterator[Word]:
    parts, text = message.content, _text(message.content)
    shown_as = _object(message.metadata).get("displayRole")
    if shown_as == "error":
        yield Ended(api_failed(whole(text)))
    elif shown_as in ("system", "status"):
        yield Notes(text)
    elif message.role == "assistant":
        yield from _replied(message, parts, text)
    elif message.role == "user":
        returned = [each for each in listed(parts) if each.type == "tool_result"]
        for each in returned:
            call = whole_text_in(each.tool_use_id)
            if call is not None:
                yield Returned(call, each.content, each.is_error is True or _has_failed(each.content))
        if not returned:
            yield Asked(unwrapped(whole(text)))


def _text(parts: Parts[_Part]) -> Text:
    return parts if isinstance(parts, str) else [each.text for each in parts or ()]


def _replied(message: _Message, parts: Parts[_Part], text: Text) -> Iterator[Word]:
    used = [each for each in listed(parts) if each.type == "tool_use"]
    calls = tuple(
        Call(call, whole_text_in(each.name) or "?", each.input)
        for each in used
        if (call := whole_text_in(each.id)) is not None
    )
    # Parts that can't be read may contain a call.
    close = None if used or parts is None else COMPLETED
    yield Replied(text, calls, close, _model(message), _spent(message))
    for each in used:
        if each.name in _DELEGATES:
            yield Delegated()


def _model(message: _Message) -> str | None:
    return whole_text_in(_object(message.model_info).get("id"))


def _spent(message: _Message) -> Spent | None:
    """What a reply used. Without a time it could not be told whether it was counted before."""
    metrics = _object(message.metrics)
    if not metrics or _at(message) is None:
        return None
    # The input's count has in it what was read from the cache, and what was written to it.
    read_, write = count_in(metrics.get("cacheReadTokens")), count_in(metrics.get("cacheWriteTokens"))
    fresh = max(0, count_in(metrics.get("inputTokens")) - read_ - write)
    return Spent(fresh, read_, write, count_in(metrics.get("outputTokens")), nanousd(metrics.get("cost")))


def _has_failed(content: msgspec.Raw) -> bool:
    return any(each.success is False for each in listed(parts_of(content, _OUTCOMES)))


def unwrapped(prompt: str) -> str:
    """What the person wrote: Cline wraps it to tell the model what it is."""
    for wrapper in _WRAPPERS:
        begin, end = prompt.find(f"<{wrapper}"), prompt.rfind(f"</{wrapper}>")
        inside = prompt.find(">", begin, end) + 1 if 0 <= begin < end else 0
        if inside:
            return prompt[inside:end].strip()
    return prompt


def _at(message: _Message) -> float | None:
    return milliseconds_in(message.ts)


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


_LAYOUT: Final = Layout(
    name=LAYOUT,
    shown_by=SHOWN_BY,
    decoder=msgspec.json.Decoder(_Message),
    words=_words,
    at=_at,
    id_of=lambda message: whole_text_in(message.id),
    id_in=lambda path: path.rpartition("/")[2] or None,
    is_first=lambda message: False,  # a document is recognised, not a message
    content=("content",),
)
_CONVERSATIONS: Final = ConversationScanner(_LAYOUT)


class Session(NamedTuple):
    """What `<id>.json` says. `is_gone`: Cline found that the session's process was gone."""

    begun: Begun = Begun(None)
    status: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    forked_at: float | None = None
    headless: bool | None = None
    is_subagent: bool = False
    is_gone: bool = False
    model: str | None = None
    prompt: str | None = None


def _session(content: dict[str, JsonValue]) -> Session:
    metadata, interactive = object_in(content.get("metadata")), content.get("interactive")
    origin, fork = object_in(metadata.get("sessionHistoryOrigin")), object_in(metadata.get("fork"))
    written = content.get("prompt")
    prompt = unwrapped(written) if isinstance(written, str) else ""
    return Session(
        begun=Begun(
            whole_text_in(content.get("session_id")),
            whole_text_in(content.get("cwd"), LONGEST_PATH),
            whole_text_in(origin.get("version")),
            whole_text_in(fork.get("forkedFromSessionId")),
        ),
        status=text_in(content.get("status"), 40) or "",
        started_at=parse_time(content.get("started_at")),
        ended_at=parse_time(content.get("ended_at")),
        forked_at=parse_time(fork.get("forkedAt")),
        headless=not interactive if isinstance(interactive, bool) else None,
        is_subagent=origin.get("mode") in _SUBAGENTS,
        is_gone=text_in(metadata.get("terminal_marker")) is not None,
        model=whole_text_in(content.get("model")),
        prompt=clip_prompt(prompt) if prompt else None,
    )


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a session.

    `counted_until` is the time of the last reply whose tokens were counted, `is_over` what the last word about that was, and
    `has_returned` says that the last message is the result of a call. `subagents_until` is the time of the last reply of each
    sub-agent that was counted, by its document.
    """

    version: Literal[1]
    name: str
    session: Session | None = None
    said: Conversation = field(default_factory=Conversation)
    attempt: int = 0
    is_over: bool = False
    has_messages: bool = False
    has_returned: bool = False
    counted_until: float | None = None
    in_session: Complaint | None = None
    in_messages: Complaint | None = None
    subagents_until: dict[str, float] = field(default_factory=dict)


def recognises_directory(names: frozenset[str], heads: Heads) -> bool:
    """Whether one of the documents with the directory's own name has Cline's fields."""
    keys = ((SESSION, _SESSION_KEYS), (MESSAGES, _MESSAGES_KEYS))
    return any(all(key.search(heads.get(document, b"")) for key in wanted) for document, wanted in keys)


def process_of(content: bytes) -> int | None:
    """The number of the process that runs the session, by the document that says how it stands; None once that says that it is over."""
    # A prompt that was cut in the middle of a character leaves it readable.
    value = value_in(msgspec.Raw(content)).value
    if not isinstance(value, dict) or value.get("status") in _OVER:
        return None
    number = whole_in(value.get("pid"))
    return number if number is not None and 1 < number < 2**31 else None


class ClineScanner(KeepsState[State]):
    """Reads Cline's sessions. The module's docstring says what their words mean."""

    def start(self, name: str) -> State:
        return State(1, name)

    def feed(self, state: State, file: str, lines: Sequence[LogLine]) -> tuple[State, tuple[Resumed, ...]]:
        return state, ()

    def see(self, state: State, documents: Sequence[Document]) -> State:
        for document in documents:
            if document.name.endswith(_MESSAGES_END):
                messages = _messages_in(document)
                if document.name != f"{state.name}{_MESSAGES_END}":
                    # What is malformed in it is not the session's.
                    if not isinstance(messages, Complaint):
                        state = _seen_subagent(state, document.name, messages)
                elif isinstance(messages, Complaint):
                    state = replace(state, in_messages=messages)
                else:
                    state = _seen_messages(state, messages)
            else:
                content = document_object(document)
                if isinstance(content, Complaint):
                    state = replace(state, in_session=content)
                else:
                    state = _seen_session(state, document.name, _session(content))
        return state

    def tell(self, state: State) -> Told:
        told, session, said = _CONVERSATIONS.tell(state.said), state.session or Session(), state.said
        turn, close, doubt = _turn(state)
        known = (each for each in (state.in_session, state.in_messages, doubt) if each is not None)
        times = (session.started_at, said.moved_at, None if session.is_gone else session.ended_at)
        return told._replace(
            session_id=session.begun.id or state.name,
            parent_session_id=session.begun.parent,
            is_subagent=session.is_subagent,
            attempt=state.attempt or int(state.has_messages),
            turn=turn,
            close=close,
            declared=close is not None and session.status in _OVER,
            headless=session.headless,
            started_at=said.began_at if session.started_at is None else session.started_at,
            moved_at=max((at for at in times if at is not None), default=None),
            model=told.model or session.model,
            version=session.begun.version,
            cwd=session.begun.cwd,
            prompt=told.prompt or session.prompt,
            complaints=(*known, *told.complaints),
            turns=max(told.turns, state.attempt),
        )

    def taken(self, state: State) -> State:
        """The session without the sums."""
        return replace(state, said=_CONVERSATIONS.taken(state.said))


SCANNER: Final = ClineScanner(State)


def _seen_session(state: State, file: str, session: Session) -> State:
    """Take in `<id>.json`."""
    attempt, is_over = state.attempt or 1, state.is_over
    if session.status in _OVER:
        # A whole attempt may lie between two looks.
        attempt += is_over and state.session is not None and state.session.started_at != session.started_at
        is_over = True
    elif session.status in _OPEN:
        attempt += is_over
        is_over = False
    complaint = None
    if session.status not in (*_OPEN, _IDLE, *_OVER):
        message = f"status is {session.status!r}, which is not a known status"
        complaint = Complaint(file, None, message, f"known are {', '.join((*_OPEN, _IDLE, *_OVER))}")
    return replace(state, session=session, attempt=attempt, is_over=is_over, in_session=complaint)


def _seen_messages(state: State, messages: Sequence[_Message | None]) -> State:
    """Take in `<id>.messages.json`. The document has all messages each time, but each reply's tokens count once."""
    until = state.counted_until
    first, session = _first_not_counted(messages, until), state.session or Session()
    said = Conversation(named=state.name, begun=session.begun, copied_until=session.forked_at)
    if first:
        said = _CONVERSATIONS.follow(said, messages[:first])
    said = _CONVERSATIONS.follow(replace(said, counted=state.said.counted), messages[first:])
    counted = [at for each in messages[first:] if (at := _counts_at(each)) is not None]
    return replace(
        state,
        said=said,
        has_messages=True,
        has_returned=bool(messages) and _is_result(messages[-1]),
        counted_until=max([*counted, *([] if until is None else [until])], default=None),
        in_messages=None,
    )


def _seen_subagent(state: State, file: str, messages: Sequence[_Message | None]) -> State:
    """Take in the messages of a sub-agent. What its replies used is the session's, and all else is its own."""
    until = state.subagents_until.get(file)
    said, session = state.said.copy(), state.session or Session()
    for each in messages:
        at, spent = _counts_at(each), None if each is None else _spent(each)
        if each is None or spent is None or at is None or at <= (state.subagents_until.get(file) or 0.0):
            continue
        until = at if until is None else max(until, at)
        if session.forked_at is None or at >= session.forked_at:
            said.take(Elsewhere(_model(each), spent), at)
    if until is None:
        return state
    return replace(state, said=said, subagents_until={**state.subagents_until, file: until})


def _first_not_counted(messages: Sequence[_Message | None], until: float | None) -> int:
    """The place after the last reply that was counted before."""
    if until is not None:
        for place in range(len(messages), 0, -1):
            at = _counts_at(messages[place - 1])
            if at is not None and at <= until:
                return place
    return 0


def _counts_at(message: _Message | None) -> float | None:
    """When a reply was, if it says what it used."""
    return _at(message) if message is not None and _object(message.metrics) else None


def _is_result(message: _Message | None) -> bool:
    return message is not None and any(isinstance(each, Returned) for each in _words(message))


def _turn(state: State) -> tuple[Turn, Close | None, Complaint | None]:
    """Whether the turn is over and how, and what the two documents contradict each other in."""
    session, said = state.session, state.said
    if session is None:
        # What the messages say may be a reply in the middle of a turn.
        return "open" if said.turn != "none" else "none", None, None
    if session.status == _IDLE:
        return said.turn, said.close, None
    ended_at, moved_at = session.ended_at, said.moved_at
    went_on = said.turn == "open" and ended_at is not None and moved_at is not None and moved_at > ended_at
    if session.status not in _OVER or went_on:
        return "open", None, None
    if said.turn == "none" and session.headless is False and state.has_messages:
        return "none", None, None  # a person left without a prompt
    match session.status:
        case "cancelled":
            return "closed", closed("run.cancelled.user", "the session was cancelled", ended_at), None
        case "failed":
            return "closed", _failed(session, said), None
    if state.in_messages is not None and not state.has_messages:
        return "open", None, None  # they may end in an error, or in the next prompt
    if said.close is not None and said.close.status == "failed":
        return "closed", said.close._replace(at=ended_at), None
    # A tool may end the session, and then no reply follows its result.
    if said.turn == "open" and not state.has_returned:
        message = "status is completed, but the messages end in the middle of a turn"
        return "open", None, Complaint(f"{state.name}.json", None, message, "it ends as soon as they agree")
    return "closed", closed("run.completed.ok", "the session completed", ended_at), None


def _failed(session: Session, said: Conversation) -> Close:
    """How a session ended that Cline says failed."""
    # A person may have left the terminal after the last turn, and then nothing failed.
    if session.is_gone and session.headless is False and said.close is not None:
        return said.close
    if session.is_gone or said.turn == "open":
        summary = "its process ended without reporting why, as Cline noted later"
        return closed("run.aborted.process_gone", summary, said.moved_at)
    if said.close is not None and said.close.status == "failed":
        return said.close._replace(at=session.ended_at)
    return closed("run.failed.exception", "the session failed", session.ended_at)


class _Found(NamedTuple):
    """The messages of a document as they are. `problem`: readers disagree about what it says."""

    messages: list[msgspec.Raw]
    problem: str | None = None


def _messages_in(document: Document) -> Sequence[_Message | None] | Complaint:
    """The messages of a document. None stands for one that can't be read."""
    if document.problem is None:
        try:
            return _DOCUMENT.decode(document.content).messages
        except (ValueError, RecursionError):
            pass
    found = _found_in(document)
    if isinstance(found, Complaint):
        return found
    return [
        message for number, each in enumerate(found.messages, 1) for message in _read(number, bytes(each))
    ]


def _read(number: int, message: bytes) -> Iterable[_Message | None]:
    return read(_LAYOUT, "", LogLine(number, message), Unreadable(0, ()))


def _found_in(document: Document) -> _Found | Complaint:
    if document.problem is None:
        try:
            return _Found(_PLACES.decode(document.content).messages)
        except (ValueError, RecursionError):
            pass
    content = document_object(document)
    if isinstance(content, Complaint):
        return content
    try:
        found = _PLACES.decode(msgspec.json.encode(content)).messages
    except (ValueError, RecursionError):
        return Complaint(document.name, None, "messages is not a list", "it counts as soon as it is one")
    return _Found(found, "the document is only nearly JSON")


_LOG: Final = ConversationLog(_LAYOUT)
message_in: Final = _LOG.message_in


def lines_of(content: bytes) -> list[bytes]:
    """The messages of a document, each as a line, in their order."""
    found = _found_in(Document("", Signature(0, 0, 0), 0.0, content))
    # Outside of texts, in which JSON has no line break, one is as good as a blank.
    return (
        [] if isinstance(found, Complaint) else [bytes(each).replace(b"\n", b" ") for each in found.messages]
    )


def final_message(newest_first: Iterable[bytes]) -> str | None:
    """The text of the last reply, in the lines of a document. None if something else came after it, or it ended badly."""
    return _LOG.final_message(reversed(lines_of(b"\n".join(reversed(list(newest_first))))))


class ClineCalls:
    """Reads the messages of a session. Each of them is reported once."""

    def __init__(self) -> None:
        self._reader = ConversationCalls(_LAYOUT)
        self._told: set[str] = set()
        self._forked_at: float | None = None

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[ToldCall]:
        """There are no logs."""
        return iter(())

    def see(self, document: Document) -> Iterator[ToldCall]:
        """What a document says that was not reported before."""
        place = Place(document.name, 1, 0, len(document.content))
        if not document.name.endswith(_MESSAGES_END):
            content = document_object(document)
            if isinstance(content, Complaint):
                yield Unusable(place, content.message)
            else:
                self._forked_at = _session(content).forked_at
            return
        found = _found_in(document)
        if isinstance(found, Complaint):
            yield Unusable(place, found.message)
            return
        for number, message in enumerate(found.messages, 1):
            line = PlacedLine(number, 0, bytes(message))
            if self._is_new(number, line):
                for each in self._reader.take(document.name, [line]):
                    if isinstance(each, calls.Called | calls.Returned):
                        each = each._replace(problem=each.problem or found.problem)
                    yield each._replace(place=place)

    def _is_new(self, number: int, line: PlacedLine) -> bool:
        """Whether a message was not reported yet, and is not a copy of another session's."""
        message = next(iter(_read(number, line.content)), None) or _Message()
        name, at = whole_text_in(message.id) or f"#{number}", _at(message)
        if name in self._told or (self._forked_at is not None and at is not None and at < self._forked_at):
            return False
        self._told.add(name)
        return True


CALLS: Final = CallLayout(lambda name, beside: ClineCalls(), documents=MARKERS)
