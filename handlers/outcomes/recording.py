"""What is kept of a session's outcomes, when it is judged and before that, and of an artifact that somebody adds."""

import hashlib
import json
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from runward.config import own_events
from runward.config.json_value import JsonValue
from runward.config.path_rule import PathRuleError, relative_parts
from runward.handlers.contracts.files import MAY_PASS, PROBLEMS, TRIES, hashed, outcome_kinds
from runward.handlers.contracts.snapshots import stored_contract
from runward.handlers.layouts.layout import declared
from runward.handlers.model.asking import Asking, Given, NotYet, TryLater, ask, ask_readable
from runward.handlers.model.chains import EventOccurred, IsHeard, chain_run_of
from runward.handlers.model.effects import Deciding, Effects, Emit, Explain
from runward.handlers.model.files import MEANINGS, Unreadable
from runward.handlers.model.fleet import depth_behind
from runward.handlers.model.outcomes import (
    ArtifactAddRequested,
    ArtifactFilesNamed,
    BeingRead,
    FinalMessageOf,
    OutcomesChanged,
    OutcomesIn,
    ReadOutcome,
    RecordArtifact,
    RecordArtifactFile,
    artifact_id,
)
from runward.handlers.model.sessions import Session, SessionOf, WorkingDirectoryOf
from runward.handlers.outcomes.reading import InvalidOutcome, outcome_in, read_outcomes

ADDED: Final = "artifact.added"


def announced(session: Session, kept: Sequence[RecordArtifact], at: float) -> Asking[Effects]:
    """One event for each artifact."""
    if not kept or not (yield from ask(IsHeard(ADDED))):
        return ()
    # The same content of the same attempt has the same key. So what was told during the run is not told again with the
    # verdict.
    depth = yield from depth_behind(session.key)
    return tuple(Emit(_occurred(session, each, at, depth)) for each in kept)


def _occurred(session: Session, kept: RecordArtifact, at: float, depth: int) -> EventOccurred:
    identifier = artifact_id(kept.session_key, kept.kind, kept.name)
    content = json.dumps([kept.content, kept.file_path], sort_keys=True).encode()
    version = hashlib.sha256(content).hexdigest()[:16]
    key = f"{session.key}#{session.attempt}/artifact/{identifier}@{version}"
    return EventOccurred(
        key,
        at,
        ADDED,
        f"{identifier}@{session.attempt}/{version}",
        own_events.ArtifactAdded(
            id=identifier,
            kind=kept.kind,
            name=kept.name,
            session_id=session.session_id,
            outcome=kept.content,
        )._asdict(),
        by_run=chain_run_of(session.key),
        depth=depth,
    )


def named(kept: Sequence[RecordArtifact], at: float, cause: str) -> Effects:
    """Has the large content of these artifacts hashed. `cause` is the key of the event that recorded them."""
    files = [
        (artifact_id(each.session_key, each.kind, each.name), each.file_path)
        for each in kept
        if each.names_file and each.file_path is not None
    ]
    return (Emit(ArtifactFilesNamed(kept[0].session_key, at, cause, tuple(files))),) if files else ()


def hash_files(event: ArtifactFilesNamed, given: Given) -> Deciding:
    """The large content of artifacts: files below a session's artifacts, hashed in the background once they are named."""
    session = yield from ask(SessionOf(event.session_key))
    if session is None:
        raise LookupError(f"{event.key} is about a session that the store does not have")
    paths = tuple(path for _, path in event.files)
    hashes = yield from hashed(session.key, session.artifacts_path, session.path, paths)
    problems = {
        path: problem
        for path, each in zip(paths, hashes, strict=True)
        if (problem := PROBLEMS.get(each.state))
    }
    wrong = {path: MEANINGS[problem] for path, problem in problems.items()}
    wrong_files = ", ".join(f"{path} {meaning}" for path, meaning in wrong.items())
    if given.tries + 1 < TRIES and MAY_PASS.intersection(problems.values()):
        raise TryLater(wrong_files)
    effects: Effects = tuple(
        RecordArtifactFile(identifier, path, each.sha256, each.size, PROBLEMS.get(each.state))
        for (identifier, path), each in zip(event.files, hashes, strict=True)
    )
    if wrong:
        effects += (Explain(event.session_key, "decided", wrong_files, {"files": dict(wrong)}),)
    return effects


PATIENCE: Final = 8
"""How often the session may still be unknown."""


def add_artifact(event: ArtifactAddRequested, given: Given) -> Deciding:
    """Somebody adds an artifact to a session with a command: it is stored, or refused with the reason."""
    session = yield from ask(SessionOf(event.session_key))
    # The command may be faster than the look that finds its session.
    if session is None and given.tries < PATIENCE:
        raise TryLater(f"the session {event.session_key} is not known yet")
    made = record(event, given.at) if session is not None else "there is no such session"
    what = f"{event.kind} {event.name}"
    if isinstance(made, str):
        why = f"{what} is not added, as {event.said_by} asked: {made}"
        return (Explain(event.session_key, "refused", why),)
    assert session is not None, "it was asked for"
    heard = yield from announced(session, (made,), given.at)
    explained = Explain(event.session_key, "decided", f"{what} is added, as {event.said_by} asked")
    return made, explained, *heard, *named((made,), given.at, event.key)


def record(event: ArtifactAddRequested, at: float) -> RecordArtifact | str:
    """What to keep, or what is wrong with it."""
    from runward.config.outcome import CheckedOutcome, check_outcome, kinds

    if not event.kind or not event.name:
        return "an artifact has a kind and a name"
    if event.content is None and event.file_path is None:
        return "an artifact has a content, or a file"
    if event.file_path is not None:
        try:
            relative_parts(event.file_path)
        except PathRuleError as error:
            return f"the file's path {error}"
    content, summary, passed, file_path = event.content, "", None, event.file_path
    is_known = event.kind in kinds()
    if is_known:
        checked = check_outcome(event.content, event.kind)
        if not isinstance(checked, CheckedOutcome):
            return "; ".join(
                f"{each.field}: {each.message}" if each.field else each.message for each in checked
            )
        content, summary, passed = checked.value, checked.summary, checked.passed
        file_path = file_path or checked.file_path
    elif isinstance(content, dict):
        summary, passed = _text(content.get("summary")), _truth(content.get("passed"))
    return RecordArtifact(
        session_key=event.session_key,
        at=at,
        kind=event.kind,
        name=event.name,
        content=content,
        summary=summary,
        passed=passed,
        file_path=file_path,
        is_known=is_known,
        place=0,
        names_file=file_path is not None,
    )


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _truth(value: JsonValue) -> bool | None:
    return value if isinstance(value, bool) else None


class Recorded(NamedTuple):
    """The result of reading a session's outcomes: what was read, what is kept of it, and problems by file."""

    read: Sequence[ReadOutcome]
    kept: tuple[RecordArtifact, ...]
    invalid: dict[str, JsonValue]


SOON: Final = 0.05
"""Seconds until large reports are asked for again. Later checks wait a quarter of the time that they have been read."""

LATEST: Final = 1.0

NO_OUTCOMES: Final = Recorded((), (), {})


def outcomes_asked(layout: str, path: str, artifacts_path: str, named: tuple[str, ...]) -> OutcomesIn:
    """How the outcomes of a session are asked for. `named` are files of its contract that may hold some."""
    return OutcomesIn(path, artifacts_path, (*named, *declared(layout).outcomes))


def recorded(
    session: Session,
    at: float,
    named: tuple[str, ...] = (),
    agents: Sequence[Session] = (),
    *,
    reads_files: bool = True,
    wanted: Collection[str] = (),
) -> Asking[Recorded]:
    """The outcomes of a session, to be kept: those in its files, and then what the `agents` in it said last.

    Files among its artifacts that are `named` are read, too. `wanted` are the kinds that its contract asks for. Of two with the same kind and name the later one counts.
    Raises `NotYet` while large reports are read. What other agents said is kept, but is not among what was read: it fulfils no contract of this session.
    """
    read: list[ReadOutcome] = []
    invalid: list[InvalidOutcome] = []
    if reads_files:
        in_other_words = declared(session.layout).outcomes
        question = outcomes_asked(session.layout, session.path, session.artifacts_path, named)
        files = yield from ask(question)
        if isinstance(files, Unreadable):
            raise TryLater(f"the outcomes of {session.key} can't be read: {files.why}")
        if isinstance(files, BeingRead):
            # Large reports are read beside the worker, so that no other verdict waits for them.
            raise NotYet(at + min(LATEST, max(SOON, files.seconds / 4)))
        home = None
        if any(each.path.endswith(".sarif") for each in files):
            home = yield from ask(WorkingDirectoryOf(session.key))
        if files:
            read, invalid = read_outcomes(files, in_other_words, wanted, home)
    theirs: list[ReadOutcome] = []
    for agent in agents:
        is_own = agent.key == session.key
        final = yield from _said_last(agent, "final message" if is_own else f"final message of {agent.key}")
        if isinstance(final, ReadOutcome):
            (read if is_own else theirs).append(final)
        elif final is not None:
            invalid.append(final)
    if not (read or theirs or invalid):
        return NO_OUTCOMES
    last: dict[tuple[str, str], ReadOutcome] = {}
    for each in (*read, *theirs):
        key = (each.outcome.kind, each.name)
        # The later one takes the place of the earlier one at the end: chains use the last outcome of a session.
        last.pop(key, None)
        last[key] = each
    kept = tuple(
        RecordArtifact(
            session_key=session.key,
            at=at,
            kind=each.outcome.kind,
            name=each.name,
            content=each.outcome.value,
            summary=each.outcome.summary,
            passed=each.outcome.passed,
            file_path=each.outcome.file_path or (each.file if each.is_file else None),
            is_known=each.outcome.is_known,
            place=place,
            names_file=each.outcome.file_path is not None,
        )
        for place, each in enumerate(last.values())
    )
    return Recorded(
        read, kept, {each.file: [problem.said() for problem in each.problems] for each in invalid}
    )


def _said_last(agent: Session, source: str) -> Asking[ReadOutcome | InvalidOutcome | None]:
    """The outcome in the last message of a foreign session."""
    if declared(agent.layout).final_message is None:
        return None
    question = FinalMessageOf(agent.layout, agent.path)
    message = yield from ask_readable(question, f"the last message of {agent.key}")
    return None if message is None else outcome_in(message, source)


def outcomes_changed(event: OutcomesChanged, given: Given) -> Deciding:
    """A running session wrote outcomes: they are stored at once, until its verdict reads them again.

    What is invalid is explained with the verdict.
    """
    session = yield from ask(SessionOf(event.session_key))
    if session is None or session.status != "running" or session.attempt != event.attempt:
        return ()
    try:
        contract = None if session.contract_json is None else stored_contract(session.contract_json)
        _, kept, _ = yield from recorded(session, given.at, wanted=outcome_kinds(contract))
    except NotYet:
        raise  # the verdict needs the same reports, and finds them read
    except TryLater:
        return ()  # the verdict reads them again, and must not wait behind this
    # No step of a chain uses them. Otherwise it could use an outcome that its session replaced by an invalid one at its
    # end.
    provisional = tuple(replace(each, is_provisional=True) for each in kept)
    return (*provisional, *(yield from announced(session, kept, given.at)))
