"""The lionagi run directory: `run.json`, `branches/*.json` and, while a reply streams, `stream/*.buffer.jsonl`.

Source: the run directory of the artifact contract's own project (ADR-0029) and its ADR-0064. `run.json` is renamed
into place, so what it says counts at once. Its words, and what they become:

- `running`: an open turn. The file names no process, so the end of a run that stays open can't be detected.
- `completed`: `completed`, `run.completed.ok`.
- `completed_empty`: `failed`, `run.failed.exception`: its exit code is 1, and to lionagi an end without an artifact, a
  commit or an answer is not a success. `missing_artifact` is kept for what a contract requires.
- `failed`: `failed`, `run.failed.exception`; `run.failed.api_error` where `error` names a provider's error.
- `timed_out`: `timed_out`, `run.timed_out.deadline`: the deadline was lionagi's, but means the same.
- `aborted`: `aborted`, `run.aborted.user`: a person pressed Ctrl-C.
- `cancelled`: `cancelled`, `run.cancelled.sigterm`: its exit code is 143, no matter who sent the signal.
- no word, as in early versions, or another one: an open turn, and for another one a complaint.

A branch is one agent's conversation. The branch that `run.json` names is the run's own, the others are its sub-agents.
A run that names none has its only branch, or else nothing but sub-agents. A branch's file is written before and after
each turn. The buffer holds what streams in between, and is removed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called, Paid, Place, Unusable, answered
from runward.handlers.calls import Told as ToldCall
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.layouts.call_readers import CallLayout, PlacedLine
from runward.handlers.layouts.foreign_values import (
    LARGEST_COUNT,
    MOST_USD,
    count_in,
    document_object,
    list_in,
    number_in,
    object_in,
    seconds_in,
    text_in,
    whole_text_in,
)
from runward.handlers.layouts.native import OF_A_RUN
from runward.handlers.layouts.transcript import (
    Close,
    Counts,
    Heads,
    KeepsState,
    LogLine,
    Resumed,
    Told,
    Usage,
    clip_prompt,
    closed,
)
from runward.handlers.layouts.transcript_lines import Unreadable, records
from runward.handlers.model.sessions import Complaint, Document

_INPUT_KEYS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class Tally(NamedTuple):
    """The content of one file of a branch: messages or chunks, calls, errors, and tokens of `replies` replies."""

    records: int = 0
    tool_calls: int = 0
    errors: int = 0
    replies: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


NOTHING: Final = Tally()


class Branch(NamedTuple):
    """One agent's conversation: what its own file held last, and what has streamed since."""

    id: str
    has_file: bool = False
    kept: Tally = NOTHING
    streamed: Tally = NOTHING
    began_at: float | None = None
    moved_at: float | None = None


def tally_of_messages(messages: Sequence[dict[str, JsonValue]]) -> Tally:
    """What the messages in a branch's own file amount to."""
    calls, errors, spent = 0, 0, NOTHING
    for message in messages:
        metadata = object_in(message.get("metadata"))
        kind = (text_in(metadata.get("lion_class")) or "").rpartition(".")[2]
        calls += kind == "ActionRequest"
        errors += kind == "ActionResponse" and metadata.get("is_error") is True
        execution = object_in(object_in(metadata.get("api_call_meta")).get("execution"))
        errors += bool(execution.get("error"))
        spent = sum_of(spent, _spent(object_in(metadata.get("model_response"))))
    return spent._replace(records=len(messages), tool_calls=calls, errors=errors)


def tally_of_chunks(chunks: Iterable[JsonValue]) -> Tally:
    """What the chunks of a reply that streams amount to; the end of a resumed stream is not an error."""
    count, calls, errors, spent = 0, 0, 0, NOTHING
    for chunk in chunks:
        if not isinstance(chunk, dict):
            continue
        count += 1
        kind = chunk.get("type")
        if kind == "text" or kind == "thinking":
            continue
        if kind == "tool_use":
            calls += 1
        elif kind == "tool_result":
            errors += chunk.get("is_error") is True
        elif kind == "error":
            errors += not object_in(chunk.get("metadata")).get("benign_eos")
        elif kind == "result":
            spent = sum_of(spent, _spent(object_in(chunk.get("metadata"))))
    return spent._replace(records=count, tool_calls=calls, errors=errors)


def _spent(reply: dict[str, JsonValue]) -> Tally:
    """The tokens of a reply that reports them. Its cached input is listed separately from the rest."""
    usage = object_in(reply.get("usage"))
    if not usage:
        return NOTHING
    read = sum(count_in(usage.get(key)) for key in _INPUT_KEYS)
    return Tally(replies=1, input_tokens=read, output_tokens=count_in(usage.get("output_tokens")))


def sum_of(one: Tally, other: Tally) -> Tally:
    """Both together, within bounds."""
    return Tally(*(min(less + more, LARGEST_COUNT) for less, more in zip(one, other, strict=True)))


LAYOUT: Final = "lionagi"
SHOWN_BY: Final = (
    "a `run.json` with `run_id` and `state_root`, or, before that, the folders `branches` and `stream`"
)
RUN: Final = "run.json"
DOCUMENTS: Final = (RUN, "branches/*.json")
LOGS: Final = ("stream/*.buffer.jsonl",)
"""Globs in the last part: a branch's id is its file's name."""

MOST_BRANCHES: Final = 32
"""Branches that are kept apart, the run's own always among them. Further branches are left out."""

MARKERS: Final = (RUN,)

_RUN_KEYS: Final = (re.compile(rb'"run_id"\s*:'), re.compile(rb'"state_root"\s*:'))
_NATIVE_SCHEMA: Final = re.compile(rb'"schema"\s*:\s*"runward-run-v\d+"')
_BRANCH_FILE: Final = re.compile(r"branches/([^/]{1,80})\.json")
_STREAM_FILE: Final = re.compile(r"stream/([^/]{1,80})\.buffer\.jsonl")
_PROVIDER: Final = re.compile(r"\s*Provider\w*Error\b")
_LONGEST_ID: Final = 80
_LONGEST_ERROR: Final = 200


_ENDS: Final[Mapping[str, Close]] = {
    "completed": closed("run.completed.ok", "the run completed"),
    "completed_empty": closed("run.failed.exception", "it ended with nothing to show (completed_empty)"),
    "failed": closed("run.failed.exception", "the run failed"),
    "timed_out": closed("run.timed_out.deadline", "the run's own deadline passed"),
    "aborted": closed("run.aborted.user", "a person interrupted the run"),
    "cancelled": closed("run.cancelled.sigterm", "the run was told to stop"),
}


@dataclass(frozen=True, slots=True)
class Run:
    """What `run.json` says."""

    run_id: str | None
    status: str
    error: str | None
    branch_id: str | None
    agent: str | None
    model: str | None
    cwd: str | None
    started_at: float | None
    ended_at: float | None


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a run; `prompt` is the first one of the branch `prompted`."""

    version: Literal[1]
    name: str
    run: Run | None = None
    attempt: int = 0
    branches: tuple[Branch, ...] = ()
    prompted: str | None = None
    prompt: str | None = None
    unreadable: int = 0
    complaints: tuple[Complaint, ...] = ()
    in_documents: tuple[Complaint, ...] = ()


def recognises_directory(names: frozenset[str], heads: Heads) -> bool:
    """A `run.json` that isn't Runward's own, or the two folders of a run that has none yet."""
    # It has a `run.json` of its own.
    if names & (OF_A_RUN - {RUN}):
        return False
    # A run makes its folders before it writes `run.json`.
    if RUN not in names:
        return names >= {"branches", "stream"}
    run = heads.get(RUN, b"")
    return all(key.search(run) for key in _RUN_KEYS) and not _NATIVE_SCHEMA.search(run)


class LionagiScanner(KeepsState[State]):
    """Reads lionagi's run directories. The module's docstring says what its words mean."""

    def start(self, name: str) -> State:
        return State(1, name)

    def feed(self, state: State, file: str, lines: Sequence[LogLine]) -> tuple[State, tuple[Resumed, ...]]:
        branch = _branch(state, _STREAM_FILE.fullmatch(file))
        if branch is None or not lines:
            return state, ()
        unreadable = Unreadable(state.unreadable, state.complaints)
        streamed = tally_of_chunks(records(file, lines, unreadable))
        # A buffer is removed after each turn, so another one begins with line 1.
        if lines[0].number > 1:  # else it is a new buffer, that of the next turn
            streamed = sum_of(branch.streamed, streamed)
        state = _with_branch(state, branch._replace(streamed=streamed))
        return replace(state, unreadable=unreadable.count, complaints=tuple(unreadable.complaints)), ()

    def see(self, state: State, documents: Sequence[Document]) -> State:
        for document in documents:
            branch = _branch(state, _BRANCH_FILE.fullmatch(document.name))
            if branch is None and document.name != RUN:
                continue
            content = document_object(document)
            others = tuple(each for each in state.in_documents if each.file != document.name)
            state = replace(state, in_documents=others)
            if isinstance(content, Complaint):
                state = _missed(state, branch, content)
            elif branch is None:
                state = _seen_run(state, _run(content))
            else:
                state = _seen_branch(state, branch, content)
        return state

    def tell(self, state: State) -> Told:
        run, own, close = state.run, _own_branch(state), _close(state.run)
        tally = _tally(own, is_over=close is not None)
        attempt = state.attempt or int(bool(state.branches))
        times = [run.started_at, run.ended_at] if run else []
        times += [own.moved_at] if own else []
        started_at = run.started_at if run else None
        return Told(
            session_id=(run and run.run_id) or state.name,
            attempt=attempt,
            turn="closed" if close else "open" if attempt else "none",
            close=close,
            declared=close is not None,
            headless=True,
            started_at=own.began_at if started_at is None and own else started_at,
            moved_at=max((at for at in times if at is not None), default=None),
            agent=run.agent if run else None,
            model=run.model if run else None,
            cwd=run.cwd if run else None,
            prompt=state.prompt if own and own.id == state.prompted else None,
            counts=Counts(
                tally.records, tally.tool_calls, tally.errors, len(state.branches) - int(own is not None)
            ),
            usage=Usage(tally.input_tokens, tally.output_tokens) if tally.replies else None,
            unreadable=state.unreadable,
            complaints=(*state.in_documents, *state.complaints),
            turns=attempt,
        )


SCANNER: Final = LionagiScanner(State)


def _branch(state: State, named: re.Match[str] | None) -> Branch | None:
    """The branch whose file is named, or a new one. None if none is named, or if there are too many."""
    if named is None:
        return None
    for branch in state.branches:
        if branch.id == named[1]:
            return branch
    # The run's own branch is kept in any case: its counts are the session's.
    is_own = state.run is not None and state.run.branch_id == named[1]
    return Branch(named[1]) if is_own or len(state.branches) < MOST_BRANCHES else None


def _with_branch(state: State, branch: Branch) -> State:
    others = tuple(each for each in state.branches if each.id != branch.id)
    return replace(state, branches=(*others, branch))


def _own_branch(state: State) -> Branch | None:
    """The run's own branch."""
    if state.run is None or state.run.branch_id is None:
        return state.branches[0] if len(state.branches) == 1 else None
    return next((branch for branch in state.branches if branch.id == state.run.branch_id), None)


def _tally(own: Branch | None, *, is_over: bool) -> Tally:
    """What the run's own branch counts; once the run is over, its file has all of it."""
    if own is None:
        return NOTHING
    return own.kept if is_over and own.has_file else sum_of(own.kept, own.streamed)


def _run(content: dict[str, JsonValue]) -> Run:
    return Run(
        run_id=text_in(content.get("run_id"), _LONGEST_ID),
        status=(text_in(content.get("status"), 40) or "").lower(),
        error=text_in(content.get("error"), _LONGEST_ERROR),
        branch_id=text_in(content.get("branch_id"), _LONGEST_ID),
        agent=text_in(content.get("agent_name")),
        model=text_in(content.get("model")),
        cwd=text_in(content.get("cwd")),
        started_at=seconds_in(content.get("started_at")),
        ended_at=seconds_in(content.get("ended_at")),
    )


def _seen_run(state: State, run: Run) -> State:
    """Take in `run.json`."""
    attempt, before = state.attempt or 1, state.run
    # The same directory may be used again after an end: then the word or the start differs, and the next attempt has
    # begun.
    if before and before.status in _ENDS and (run.status not in _ENDS or run.started_at != before.started_at):
        attempt += 1
    complaints = state.in_documents
    if run.status not in ("", "running", *_ENDS):
        message = f"status is {run.status!r}, which is not a known status"
        complaints += (Complaint(RUN, None, message, f"known are running, {', '.join(_ENDS)}"),)
    return replace(state, run=run, attempt=attempt, in_documents=complaints)


def _missed(state: State, branch: Branch | None, complaint: Complaint) -> State:
    """A branch exists, whatever is in its file. A sub-agent's file with a fault is not reported."""
    if branch is not None:
        state = _with_branch(state, branch)
        if branch != _own_branch(state):
            return state
    return replace(state, in_documents=(*state.in_documents, complaint))


def _seen_branch(state: State, branch: Branch, content: dict[str, JsonValue]) -> State:
    """Take in a branch's file."""
    messages = [object_in(each) for each in list_in(object_in(content.get("messages")).get("collections"))]
    kept = tally_of_messages(messages)
    # The file now contains what was streamed before it was written, so that must not count twice.
    has_grown = branch.has_file and kept.records > branch.kept.records
    times = [at for each in messages if (at := seconds_in(each.get("created_at"))) is not None]
    state = _with_branch(
        state,
        Branch(
            id=branch.id,
            has_file=True,
            kept=kept,
            streamed=NOTHING if has_grown else branch.streamed,
            began_at=seconds_in(content.get("created_at")),
            moved_at=max(times, default=None),
        ),
    )
    is_own = state.run is not None and state.run.branch_id == branch.id
    if state.prompted is not None and not is_own:
        return state
    prompts = (text_in(object_in(each.get("content")).get("instruction")) for each in messages)
    prompt = next((each for each in prompts if each), None)
    return replace(state, prompted=branch.id, prompt=clip_prompt(prompt)) if prompt else state


def _close(run: Run | None) -> Close | None:
    end = _ENDS.get(run.status) if run else None
    if run is None or end is None:
        return None
    code, summary = end.reason_code, end.reason_summary
    if run.error and end.status == "failed":
        summary = f"{summary}: {run.error}"
        if _PROVIDER.match(run.error):
            code = "run.failed.api_error"
    return closed(code, summary, run.ended_at)


_BRANCHES: Final = "branches/*.json"


class LionagiCalls:
    """Reads the file of a run's own branch. Each of its messages is reported once."""

    def __init__(self) -> None:
        self._branch: str | None = None
        self._told: set[str] = set()
        self._paid: set[str] = set()

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[ToldCall]:
        """There are no logs."""
        return iter(())

    def see(self, document: Document) -> Iterator[ToldCall]:
        """What a document says that was not reported before."""
        place = Place(document.name, 1, 0, len(document.content))
        is_run = document.name == RUN
        # Other branches are those of sub-agents, whose calls are not the run's.
        if not is_run and document.name != f"branches/{self._branch}.json":
            return
        value = NotJson(document.problem) if document.problem else read_json(document.content)
        if isinstance(value, NotJson):
            yield Unusable(place, value.message)
        elif is_run:
            self._branch = whole_text_in(object_in(value).get("branch_id")) or self._branch
        else:
            for message in list_in(object_in(object_in(value).get("messages")).get("collections")):
                yield from self._message(place, object_in(message))

    def _message(self, place: Place, message: dict[str, JsonValue]) -> Iterator[ToldCall]:
        metadata, content = object_in(message.get("metadata")), object_in(message.get("content"))
        kind = (text_in(metadata.get("lion_class")) or "").rpartition(".")[2]
        name = whole_text_in(message.get("id"))
        cost = number_in(object_in(metadata.get("model_response")).get("total_cost_usd"), 0, MOST_USD)
        # A branch's file is written again with all of its messages. Each is reported once.
        if cost is not None and name is not None and name not in self._paid:
            self._paid.add(name)
            yield Paid(place, seconds_in(message.get("created_at")), cost)
        if kind not in ("ActionRequest", "ActionResponse") or name in self._told:
            return
        if name is None:
            yield Unusable(place, f"an {kind} without id")
            return
        self._told.add(name)
        at = seconds_in(message.get("created_at"))
        if kind == "ActionRequest":
            asked = object_in(content.get("action_request")) or content
            tool = whole_text_in(asked.get("function"))
            if tool is None:
                yield Unusable(place, "an ActionRequest without function")
            else:
                yield Called(place, at, name, tool, asked.get("arguments"))
            return
        call = whole_text_in(content.get("action_request_id"))
        if call is None:
            yield Unusable(place, "an ActionResponse without action_request_id")
            return
        answer = object_in(content.get("action_response")) or content
        output, error = answer.get("output"), answer.get("error")
        failed = metadata.get("is_error") is True or error is not None
        yield answered(place, at, call, output if error is None else error, failed=failed)


CALLS: Final = CallLayout(lambda name, beside: LionagiCalls(), documents=(RUN, _BRANCHES))
