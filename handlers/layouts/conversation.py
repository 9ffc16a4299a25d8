"""What the logs of most agents say, in a few words. A layout translates its records into them; the rest follows from here.

That is the state of a session, what its replies used, its calls, the texts of its conversation, and its last message. The
last reply decides how a turn ended, unless a later record says how.

A layout's records are decoded into a type with the fields that it needs, which skips the others. Fields of any type are
`object`, and what may be large is `msgspec.Raw`: it is only read by who needs it. The parts of a message have types, too, so that
most records are read through once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called, Paid, Place, Unusable, answered
from runward.handlers.calls import Told as CallTold
from runward.handlers.layouts.call_readers import CallLayout, PlacedLine
from runward.handlers.layouts.foreign_values import (
    MOST_TOKENS,
    MOST_USD,
    document_object,
    seconds_in,
    text_value,
    value_in,
)
from runward.handlers.layouts.transcript import (
    Close,
    Counts,
    Heads,
    KeepsState,
    LogLine,
    Resumed,
    Said,
    Told,
    Turn,
    Usage,
    clip_prompt,
    closed,
)
from runward.handlers.layouts.transcript_lines import Unreadable, decode, records
from runward.handlers.model.sessions import Complaint, Document
from runward.handlers.usage.counting import SIZES, STANDARD, Counted, add, counted

_MOST_HEAD_LINES: Final = 8
_IDS_KEPT: Final = 64
"""Ids of records that are remembered: a record that is written twice counts once."""

_PROMPTS_KEPT: Final = 16
"""Ids of prompts that are remembered: the end of an earlier turn doesn't end a later one."""

_LONGEST_ID: Final = 64
_LONGEST_SUMMARY: Final = 200


class Begun(NamedTuple):
    """The session says who it is. The first one counts; `parent` is the session that it was forked from.

    `is_subagent` and `works_for` are those of `Told`. What is older than `copied_until`, or comes before the record with that
    id or is it, was copied from the origin.
    """

    id: str | None
    cwd: str | None = None
    version: str | None = None
    parent: str | None = None
    is_subagent: bool = False
    works_for: str | None = None
    copied_until: float | str | None = None


class Uses(NamedTuple):
    """The model that is asked from now on."""

    model: str | None


Text: TypeAlias = str | Sequence[msgspec.Raw]
"""A text, or the JSON of those that it consists of: they are only decoded by who needs them (`whole`)."""


class Asked(NamedTuple):
    """A prompt: a turn begins, or goes on. `id` is what its end may name it by."""

    text: Text
    id: str | None = None


class Spent(NamedTuple):
    """What a reply used. `nanousd` is the cost that the agent reports, in billionths of a dollar; None if it reports none."""

    fresh_input: int
    cache_read: int
    cache_write: int
    output: int
    nanousd: int | None = None


class Call(NamedTuple):
    """A call of a tool. `params` are the bytes of its parameters, or a text that should be JSON."""

    id: str
    tool: str
    params: msgspec.Raw


class Replied(NamedTuple):
    """The model replied. Without a `close` the turn goes on: tools are called, for example."""

    text: Text = ""
    calls: tuple[Call, ...] = ()
    close: Close | None = None
    model: str | None = None
    spent: Spent | None = None


class Returned(NamedTuple):
    """A call came back."""

    id: str
    content: msgspec.Raw
    failed: bool = False
    exit_code: int | None = None


class Ended(NamedTuple):
    """The turn is over, whatever the last reply was. `prompt` is the id of the one that it began with, if the end says so."""

    close: Close
    prompt: str | None = None


class Used(NamedTuple):
    """What the next reply used, where a record of its own says so; or what all used, where a document does."""

    model: str | None
    spent: Spent


class Elsewhere(NamedTuple):
    """What a request used that made no reply of the session: a sub-agent's, or one that the tool made for itself.

    It costs, but its tokens are not told as the session's own.
    """

    model: str | None
    spent: Spent


class Left(NamedTuple):
    """The program says that it ends: nothing follows until somebody resumes the session."""


class Delegated(NamedTuple):
    """A sub-agent began to work for the session."""


class Stands(NamedTuple):
    """How the turn stands by a document beside the log that was written at `at`, whatever the last reply was. None: it goes on."""

    close: Close | None
    at: float | None
    model: str | None = None


class Notes(NamedTuple):
    """What the tool itself tells the model."""

    text: Text


Word: TypeAlias = (
    Begun | Uses | Asked | Replied | Returned | Ended | Left | Used | Elsewhere | Delegated | Notes
)
Record = TypeVar("Record")
Part = TypeVar("Part")
Parts: TypeAlias = str | list[Part] | None
"""A message's content: its parts, or its text if it has none. None for anything else."""


class TextPart(msgspec.Struct, frozen=True, gc=False):
    """A part of a message's content in most agents' logs. What else a layout needs of a part is in a type of its own."""

    type: object = None
    text: msgspec.Raw = msgspec.Raw()


@dataclass(slots=True)
class Conversation:
    """What is known about a session so far: the scanner's state. Only a copy of it is ever changed.

    `named` is the id in the file's name, `copied_until` that of `Begun`. `is_copied` says whether the last record was a copy,
    if that may be. `ids` are those of the last records.
    `totals` are those of a document that were counted, `unread` says why its last content could not be. `is_left`: the
    program said that it ends. `prompts` are the ids of the last ones. `subagents_models` are the models that sub-agents ask,
    by their logs. `stands` is what a document says of the turn.
    """

    version: Literal[1] = 1
    named: str | None = None
    begun: Begun = field(default_factory=lambda: Begun(None))
    copied_until: float | str | None = None
    is_copied: bool | None = None
    model: str | None = None
    prompt: str | None = None
    turn: Turn = "none"
    close: Close | None = None
    began_at: float | None = None
    moved_at: float | None = None
    turns: int = 0
    events: int = 0
    calls: int = 0
    errors: int = 0
    subagents: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    ids: list[str] = field(default_factory=list)
    unreadable: int = 0
    complaints: tuple[Complaint, ...] = ()
    counted: list[Counted] = field(default_factory=list)
    totals: Spent = field(default_factory=lambda: Spent(0, 0, 0, 0))
    unread: Complaint | None = None
    is_left: bool = False
    prompts: list[str] = field(default_factory=list)
    subagents_models: dict[str, str] = field(default_factory=dict)
    stands: Stands | None = None

    def copy(self) -> "Conversation":
        """A copy that may be changed."""
        return replace(
            self,
            ids=self.ids.copy(),
            counted=self.counted.copy(),
            prompts=self.prompts.copy(),
            subagents_models=self.subagents_models.copy(),
        )

    def skips(self, record: str | None, at: float | None) -> bool:
        """Whether the record with this id and time is skipped: a copy counts in the fork's origin."""
        # Copies come first. So a clock that is set back later makes no copies of the fork's own records.
        if self.copied_until is None or self.is_copied is False:
            return False
        if isinstance(self.copied_until, str):
            self.is_copied = True
            if record == self.copied_until:
                self.copied_until = at
        elif at is not None:
            self.is_copied = at < self.copied_until
        # A record without a time goes with the one before.
        return self.is_copied is True

    def ending(self) -> tuple[Turn, Close | None]:
        """Whether the turn is over, and how. A document has no say about records that are newer."""
        stands = self.stands
        if stands is None or self.turn == "none":
            return self.turn, self.close
        is_older = stands.at is None or (self.moved_at is not None and self.moved_at > stands.at)
        close = None if is_older else stands.close
        return "open" if close is None else "closed", close

    def was_before_fork(self, at: float | None) -> bool:
        """Whether something of this time is older than the fork, and was copied into it."""
        return isinstance(self.copied_until, float) and at is not None and at < self.copied_until

    def take(self, word: Word, at: float | None) -> None:
        """Take in a word."""
        match word:
            case Begun():
                known = self.begun
                # Some agents say it in each record, so most often there is nothing new.
                if known.id is None:
                    self.begun = word._replace(cwd=word.cwd or known.cwd, parent=known.parent or word.parent)
                elif known.parent is None and word.parent is not None:
                    self.begun = known._replace(parent=word.parent)
                if self.copied_until is None:
                    self.copied_until = word.copied_until
            case Uses():
                self.model = word.model or self.model
            case Asked():
                if self.turn != "open":
                    self.turns += 1
                self.turn, self.close, self.is_left = "open", None, False
                if word.id is not None:
                    self.prompts = [*self.prompts[1 - _PROMPTS_KEPT :], word.id[:_LONGEST_ID]]
                if self.prompt is None and (text := whole(word.text)):
                    self.prompt = clip_prompt(text)
            case Replied():
                self._reply(word, at)
            case Returned():
                self.errors += word.failed
            case Ended():
                # A prompt may be queued before the end of the turn that it waits for.
                if word.prompt in self.prompts[:-1]:
                    return
                self._begin_lost()
                self.turn, self.close = "closed", word.close._replace(at=at)
                self.errors += word.close.status == "failed"
            case Used():
                self.model = word.model or self.model
                self._spend(word.spent, at)
            case Elsewhere():
                self._count(_believable(word.spent), word.model, at)
            case Left():
                self.is_left = True
            case Delegated():
                self.subagents += 1
            case Notes():
                pass

    def _begin_lost(self) -> None:
        """Something of a turn was found: so it had begun, even if its prompt was lost."""
        if self.turn == "none":
            self.turns += 1

    def _reply(self, reply: Replied, at: float | None) -> None:
        self._begin_lost()
        self.is_left = False
        self.model = reply.model or self.model
        self.calls += len(reply.calls)
        if reply.spent is not None:
            self._spend(reply.spent, at)
        if reply.close is None:
            self.turn, self.close = "open", None
        else:
            self.turn, self.close = "closed", Close(*reply.close[:3], at)
            self.errors += reply.close.status == "failed"

    def take_totals(self, used: Used, at: float | None) -> None:
        """Take in what the session used until now; what was counted of it is not counted again."""
        self.model = used.model or self.model
        # Totals that shrink count nothing until they are larger than before: nothing is ever counted twice.
        totals = Spent(*map(max, self.totals[:4], used.spent[:4]))
        more = Spent(*(new - old for new, old in zip(totals[:4], self.totals[:4], strict=True)))
        self.totals = totals
        self._spend(more, at, are_totals=True)

    def _spend(self, spent: Spent, at: float | None, *, are_totals: bool = False) -> None:
        """Count what is the session's own, and tell it."""
        spent = _believable(spent)
        given = spent.fresh_input + spent.cache_read + spent.cache_write
        self.input_tokens = min(self.input_tokens + given, MOST_TOKENS)
        self.output_tokens = min(self.output_tokens + spent.output, MOST_TOKENS)
        self._count(spent, self.model, at, are_totals=are_totals)

    def _count(self, spent: Spent, model: str | None, at: float | None, *, are_totals: bool = False) -> None:
        if not any(spent[:4]):
            return
        one = counted(
            at,
            model,
            STANDARD,
            fresh_input=spent.fresh_input,
            cache_read=spent.cache_read,
            cache_write_5m=spent.cache_write,
            output=spent.output,
            reported_nanousd=spent.nanousd,
        )
        # Nobody knows how many replies totals are of, or how large each request was.
        add(self.counted, one._replace(replies=0, size=SIZES[0]) if are_totals else one)


def _believable(spent: Spent) -> Spent:
    tokens = spent[:4]
    if min(tokens) >= 0 and max(tokens) <= MOST_TOKENS:
        return spent
    fresh, read, write, output = (min(max(0, each), MOST_TOKENS) for each in tokens)
    return Spent(fresh, read, write, output, spent.nanousd)


def _is_repeated(ids: dict[str, None], record: str | None) -> bool:
    """Whether a record with this id is one of the last ones; it is from now on."""
    if record is None or not 0 < len(record) <= _LONGEST_ID:
        return False
    if record in ids:
        return True
    ids[record] = None
    if len(ids) > _IDS_KEPT:
        del ids[next(iter(ids))]
    return False


class Layout(NamedTuple, Generic[Record]):
    """How a tool's records are read: what each says, when, and its id if it has one.

    `content` are the keys to a message's content in a record: if that can't be read, the record is read without it.
    `id_in` takes the session's id from the name of its file or directory; `is_first` tells whether a record near the
    beginning of a log shows that it is one of this layout, and `shown_by` says the same to people (`SHOWN_BY`). `told_by`
    takes from a document beside its log, if there is one, what the session used until now, who it is, or how its turn stands. `subagents` is a
    glob for the logs of sub-agents in the session's directory.
    """

    name: str
    shown_by: str
    decoder: msgspec.json.Decoder[Record]
    words: Callable[[Record], Iterable[Word]]
    at: Callable[[Record], float | None]
    id_of: Callable[[Record], str | None]
    id_in: Callable[[str], str | None]
    is_first: Callable[[Record], bool]
    told_by: Callable[[dict[str, JsonValue]], Used | Begun | Stands | None] = lambda document: None
    subagents: str | None = None
    content: tuple[str, ...] = ()


class ConversationScanner(KeepsState[Conversation], Generic[Record]):
    """Follows a session; see `TranscriptScanner`."""

    __slots__ = ("_layout",)

    def __init__(self, layout: Layout[Record]) -> None:
        super().__init__(Conversation)
        self._layout = layout

    def start(self, name: str) -> Conversation:
        """The id is taken from the file's name if it is there, so that a torn first line loses no identity."""
        return Conversation(named=self._layout.id_in(name))

    def feed(
        self, state: Conversation, file: str, lines: Sequence[LogLine]
    ) -> tuple[Conversation, tuple[Resumed, ...]]:
        """Take in further lines."""
        # The caller may feed the same state again, in other portions. So it stays as it is.
        found = state.copy()
        layout = self._layout
        if layout.subagents is not None and fnmatchcase(file, layout.subagents):
            self._feed_subagents(found, file, lines)
            return found, ()
        unreadable = Unreadable(state.unreadable, state.complaints)
        self._take(
            found,
            ((record, line.is_cut) for line in lines for record in read(layout, file, line, unreadable)),
        )
        found.unreadable, found.complaints = unreadable.count, tuple(unreadable.complaints)
        return found, ()

    def follow(self, state: Conversation, records_: Iterable[Record | None]) -> Conversation:
        """Take in records that were read already."""
        found = state.copy()
        self._take(found, ((record, False) for record in records_))
        return found

    def _take(self, found: Conversation, of_lines: Iterable[tuple[Record | None, bool]]) -> None:
        """Take in records, each with whether its line was cut. Most of the time of a reading is spent here."""
        words, at_of, id_of, take = self._layout.words, self._layout.at, self._layout.id_of, found.take
        ids, events, moved_at = dict.fromkeys(found.ids), 0, found.moved_at
        for record, is_cut in of_lines:
            if record is None:
                events += 1
                continue
            name = id_of(record)
            if _is_repeated(ids, name):
                continue
            events += 1
            at = at_of(record)
            if found.copied_until is not None and found.skips(name, at):
                continue
            if at is None:
                at = moved_at  # a record without a time is as old as the one before
            else:
                moved_at = at
                if found.began_at is None:
                    found.began_at = at
            for word in words(record):
                if is_cut and isinstance(word, Replied):
                    # What was cut off may be a call, so such a reply doesn't end the turn.
                    word = word._replace(close=None)
                elif is_cut and isinstance(word, Ended) and word.close.status == "completed":
                    continue
                take(word, at)
        found.ids, found.events, found.moved_at = list(ids), found.events + events, moved_at

    def _feed_subagents(self, found: Conversation, file: str, lines: Sequence[LogLine]) -> None:
        """Take in lines of a sub-agent's log. What its replies used is the session's, and all else is its own."""
        layout = self._layout
        for line in lines:
            # What is malformed in it is not the session's.
            for record in read(layout, file, line, Unreadable(0, ())):
                if record is None:
                    continue
                at = layout.at(record)
                if found.was_before_fork(at):
                    continue
                for word in layout.words(record):
                    if isinstance(word, Uses) and word.model is not None:
                        found.subagents_models[file] = word.model
                    elif isinstance(word, Used):
                        model = word.model or found.subagents_models.get(file)
                        found.take(Elsewhere(model, word.spent), at)

    def see(self, state: Conversation, documents: Sequence[Document]) -> Conversation:
        """Take in a document beside the log, as it is now."""
        found = state.copy()
        for document in documents:
            content = document_object(document)
            found.unread = content if isinstance(content, Complaint) else None
            word = None if isinstance(content, Complaint) else self._layout.told_by(content)
            if isinstance(word, Used):
                found.take_totals(word, seconds_in(document.modified_at))
            elif isinstance(word, Stands):
                found.stands, found.model = word, word.model or found.model
            elif word is not None:
                found.take(word, None)
        return found

    def tell(self, state: Conversation) -> Told:
        """What was taken in amounts to."""
        begun = state.begun
        turn, close = state.ending()
        return Told(
            session_id=begun.id or state.named,
            parent_session_id=begun.parent,
            is_subagent=begun.is_subagent,
            works_for=begun.works_for,
            attempt=1 if state.events else 0,
            turn=turn,
            close=close,
            declared=state.is_left and close is not None,
            headless=None,
            started_at=state.began_at,
            moved_at=state.moved_at,
            model=state.model,
            version=begun.version,
            cwd=begun.cwd,
            prompt=state.prompt,
            counts=Counts(state.events, state.calls, state.errors, state.subagents),
            usage=Usage(state.input_tokens, state.output_tokens)
            if state.input_tokens or state.output_tokens
            else None,
            unreadable=state.unreadable,
            complaints=state.complaints if state.unread is None else (*state.complaints, state.unread),
            turns=state.turns,
            counted=tuple(state.counted),
        )

    def taken(self, state: Conversation) -> Conversation:
        """The session without the sums."""
        return replace(state, counted=[])


def read(layout: Layout[Record], file: str, line: LogLine, unreadable: Unreadable) -> Iterable[Record | None]:
    """The records in a line: usually one. None stands for one whose fields are of other types: it says nothing."""
    if not line.is_cut:
        try:
            return (layout.decoder.decode(line.content),)
        except (ValueError, RecursionError):
            pass
    values = records(file, [line], unreadable)
    return (_record_of(layout, each) for each in values if isinstance(each, dict))


def _record_of(layout: Layout[Record], value: dict[str, JsonValue]) -> Record | None:
    """The record that an object is, without a content that can't be read."""
    for each in (value, _without(value, layout.content)):
        try:
            return layout.decoder.decode(msgspec.json.encode(each))
        except (ValueError, RecursionError):
            continue
    return None


def _without(value: dict[str, JsonValue], keys: Sequence[str]) -> dict[str, JsonValue]:
    """An object without what these keys lead to."""
    if not keys:
        return value
    inner = value.get(keys[0])
    rest = {key: each for key, each in value.items() if key != keys[0]}
    return {**rest, keys[0]: _without(inner, keys[1:])} if keys[1:] and isinstance(inner, dict) else rest


class ConversationCalls(Generic[Record]):
    """Reads the calls of one session."""

    def __init__(self, layout: Layout[Record]) -> None:
        self._layout = layout
        self._seen = Conversation()
        self._ids: dict[str, None] = {}
        self._used: int | None = None

    def see(self, document: Document) -> Iterator[CallTold]:
        """Take in a document: where the copies of a fork end."""
        content = document_object(document)
        word = None if isinstance(content, Complaint) else self._layout.told_by(content)
        if isinstance(word, Begun):
            self._seen.take(word, None)
        return iter(())

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[CallTold]:
        """What further lines say."""
        layout = self._layout
        for line in lines:
            unreadable = Unreadable(0, ())
            for record in read(layout, source, LogLine(line.number, line.content), unreadable):
                if record is None:
                    continue
                name, at = layout.id_of(record), layout.at(record)
                if _is_repeated(self._ids, name) or self._seen.skips(name, at):
                    continue
                for word in layout.words(record):
                    if isinstance(word, Begun):
                        self._seen.take(word, at)
                    yield from self._told(line.place(source), at, word)
            if unreadable.count:
                yield Unusable(line.place(source), unreadable.complaints[0].message)

    def _told(self, place: Place, at: float | None, word: Word) -> Iterator[CallTold]:
        if isinstance(word, Returned):
            content, problem = value_in(word.content)
            yield answered(
                place,
                at,
                word.id,
                content,
                failed=word.failed or bool(word.exit_code),
                exit_code=word.exit_code,
                problem=problem,
            )
        elif isinstance(word, Used):
            self._used = sum(word.spent[:4])
            yield from _paid(place, at, word.spent)
        elif isinstance(word, Elsewhere):
            yield from _paid(place, at, word.spent)
        elif isinstance(word, Replied):
            if word.spent is not None:
                yield from _paid(place, at, word.spent)
            spent = self._used if word.spent is None else sum(word.spent[:4])
            # A text may come before the calls of the same reply.
            if word.calls or word.spent is not None:
                self._used = None
            for number, call in enumerate(word.calls):
                params, problem = value_in(call.params)
                if isinstance(params, str) and problem is None:
                    params, problem = text_value(params)
                tokens = spent if number == 0 else None
                yield Called(place, at, call.id, call.tool, params, tokens=tokens, problem=problem)


def _paid(place: Place, at: float | None, spent: Spent) -> Iterator[CallTold]:
    if any(spent):
        yield Paid(place, at, None if spent.nanousd is None else spent.nanousd / 1e9)


class _Provided(Generic[Record]):
    """What layouts of logs and of directories provide."""

    def __init__(self, layout: Layout[Record]) -> None:
        self.LAYOUT = layout.name
        self.SHOWN_BY = layout.shown_by
        self.SCANNER = ConversationScanner(layout)
        self._layout = layout

    def final_message(self, newest_first: Iterable[bytes]) -> str | None:
        """The text of the last reply. None if something else came after it, or it ended badly."""
        for line in newest_first:
            for word in reversed(self._words(line)):
                if isinstance(word, Replied) and (word.close is None or word.close.status == "completed"):
                    return None if word.calls else whole(word.text) or None
                if isinstance(word, Asked | Replied | Returned) or (
                    isinstance(word, Ended) and word.close.status != "completed"
                ):
                    return None
        return None

    def _words(self, line: bytes) -> list[Word]:
        return [
            word
            for record in read(self._layout, "", LogLine(1, line), Unreadable(0, ()))
            if record is not None
            for word in self._layout.words(record)
        ]

    def message_in(self, line: bytes) -> Said | None:
        """The text that a line adds to the conversation. None if it adds none, or can't be read."""
        for record in read(self._layout, "", LogLine(1, line), Unreadable(0, ())):
            for word in self._layout.words(record) if record is not None else ():
                if isinstance(word, Asked | Replied | Notes) and (text := whole(word.text)):
                    role: Literal["user", "assistant", "system"] = (
                        "user"
                        if isinstance(word, Asked)
                        else "assistant"
                        if isinstance(word, Replied)
                        else "system"
                    )
                    return Said(self._layout.at(cast("Record", record)), role, text)
        return None


class ConversationDirectory(_Provided[Record]):
    """All that a layout of directories with one log provides: see `DirectoryModule`.

    Without its documents, which lie beside the log's directories, it is not yet one: they say how the log is to be read.
    """

    def __init__(self, layout: Layout[Record], log: str, documents: tuple[str, ...] = ()) -> None:
        super().__init__(layout)
        self.MARKERS = (log,)
        self.LOGS = (log,) if layout.subagents is None else (log, layout.subagents)
        self.DOCUMENTS = documents
        self.CALLS = CallLayout(
            lambda name, beside: ConversationCalls(layout), logs=(log,), documents=documents
        )

    def recognises_directory(self, names: frozenset[str], heads: Heads) -> bool:
        """Whether the log begins as one of this layout."""
        return names.issuperset(self.DOCUMENTS) and any(
            _is_of(self._layout, each, heads.get(each, b"")) for each in self.MARKERS
        )


class ConversationLog(_Provided[Record]):
    """All that a layout of logs provides: see `LogModule`."""

    def __init__(self, layout: Layout[Record]) -> None:
        super().__init__(layout)
        self.CALLS = CallLayout(lambda name, beside: ConversationCalls(layout))

    def recognises_log(self, name: str, head: bytes) -> bool:
        """Whether a log that begins so (with whole lines or not) is one: a record decides, not the name."""
        return _is_of(self._layout, name, head)


def _is_of(layout: Layout[Record], name: str, head: bytes) -> bool:
    lines = head.split(b"\n", _MOST_HEAD_LINES)
    whole = [LogLine(number, line) for number, line in enumerate(lines[:-1], 1)]
    last = LogLine(len(lines), lines[-1], is_cut=True)
    return any(
        record is not None and layout.is_first(record)
        for line in (*whole, last)
        for record in read(layout, name, line, Unreadable(0, ()))
    )


def parts_of(raw: msgspec.Raw, decoder: msgspec.json.Decoder[list[Part]]) -> Parts[Part]:
    """The parts of a message's content, where it isn't decoded with its record."""
    if not len(raw):
        return None
    try:
        return decoder.decode(raw)
    except (ValueError, RecursionError):
        pass
    try:
        value = decode(memoryview(raw))
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def texts_of(parts: str | Sequence[TextPart] | None) -> Text:
    """The text in a message's content."""
    if isinstance(parts, str):
        return parts
    return [each.text for each in parts or () if each.type == "text"]


def listed(parts: Parts[Part]) -> Sequence[Part]:
    """The parts of a message's content; none of a text."""
    return () if parts is None or isinstance(parts, str) else parts


COMPLETED: Final = closed("run.completed.ok", "the turn is complete")
INTERRUPTED: Final = closed("run.aborted.user", "the turn was interrupted")


def api_failed(why: object) -> Close:
    """The end by an error of the model's API, with what the agent says about it."""
    said = f": {why[:_LONGEST_SUMMARY]}" if isinstance(why, str) and why else ""
    return closed("run.failed.api_error", f"the model's API failed{said}")


def nanousd(value: object) -> int | None:
    """A cost in dollars, in billionths of one; None for anything else.

    A tool that knows no price of a model says 0, which says nothing about the price.
    """
    if type(value) not in (int, float):
        return None
    cost = cast("float", value)
    return round(cost * 1e9) if 0 < cost <= MOST_USD else None


def whole(text: Text) -> str:
    """The text that this is."""
    if isinstance(text, str):
        return text
    values = (value_in(each).value for each in text)
    return "\n".join(each for each in values if isinstance(each, str))
