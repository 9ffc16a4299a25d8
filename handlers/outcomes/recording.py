"""What is kept of a session's outcomes, when it is judged and before that."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from runward.config.json_value import JsonValue
from runward.handlers.contracts.needed_facts import outcome_kinds
from runward.handlers.contracts.snapshots import stored_contract
from runward.handlers.layouts.registry import FINAL_MESSAGES, outcome_files
from runward.handlers.model.asking import Asking, Given, NotYet, TryLater, ask
from runward.handlers.model.effects import Deciding
from runward.handlers.model.outcomes import (
    BeingRead,
    FinalMessageOf,
    OutcomesChanged,
    OutcomesIn,
    ReadOutcome,
    RecordArtifact,
)
from runward.handlers.model.sessions import Session, SessionOf, WorkingDirectoryOf
from runward.handlers.model.unreadable import Unreadable
from runward.handlers.outcomes.added import told
from runward.handlers.outcomes.reading import InvalidOutcome, outcome_in, read_outcomes


class Recorded(NamedTuple):
    """The result of reading a session's outcomes: what was read, what is kept of it, and problems by file."""

    read: Sequence[ReadOutcome]
    kept: tuple[RecordArtifact, ...]
    invalid: dict[str, JsonValue]


SOON: Final = 0.05
"""Seconds until large reports are asked for again. Later checks wait a quarter of the time that they have been read."""

LATEST: Final = 1.0

NO_OUTCOMES: Final = Recorded((), (), {})


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
        in_other_words = outcome_files(session.layout)
        paths = (*named, *in_other_words)
        found = yield from ask(OutcomesIn(session.path, session.artifacts_path, paths))
        if isinstance(found, Unreadable):
            raise TryLater(f"the outcomes of {session.key} can't be read: {found.why}")
        if isinstance(found, BeingRead):
            raise NotYet(at + min(LATEST, max(SOON, found.seconds / 4)))
        home = None
        if any(each.path.endswith(".sarif") for each in found):
            home = yield from ask(WorkingDirectoryOf(session.key))
        if found:
            read, invalid = read_outcomes(found, in_other_words, wanted, home)
    theirs: list[ReadOutcome] = []
    for agent in agents:
        is_own = agent.key == session.key
        said = yield from _said_last(agent, "final message" if is_own else f"final message of {agent.key}")
        if isinstance(said, ReadOutcome):
            (read if is_own else theirs).append(said)
        elif said is not None:
            invalid.append(said)
    if not (read or theirs or invalid):
        return NO_OUTCOMES
    last: dict[tuple[str, str], ReadOutcome] = {}
    for each in (*read, *theirs):
        key = (each.outcome.kind, each.name)
        last.pop(key, None)
        last[key] = each
    kept = tuple(
        RecordArtifact(
            session.key,
            at,
            each.outcome.kind,
            each.name,
            each.outcome.value,
            each.outcome.summary,
            each.outcome.passed,
            each.outcome.file_path or (each.file if each.is_file else None),
            each.outcome.is_known,
            place,
            names_file=each.outcome.file_path is not None,
        )
        for place, each in enumerate(last.values())
    )
    return Recorded(
        read, kept, {each.file: [problem.said() for problem in each.problems] for each in invalid}
    )


def _said_last(agent: Session, source: str) -> Asking[ReadOutcome | InvalidOutcome | None]:
    """The outcome in the last message of a foreign session."""
    if agent.layout not in FINAL_MESSAGES:
        return None
    said = yield from ask(FinalMessageOf(agent.layout, agent.path))
    if isinstance(said, Unreadable):
        raise TryLater(f"the last message of {agent.key} can't be read: {said.why}")
    return None if said is None else outcome_in(said, source)


def outcomes_changed(event: OutcomesChanged, given: Given) -> Deciding:
    """A running session wrote outcomes: they are stored at once, until its verdict reads them again.

    Store what the files say now. What is invalid is explained with the verdict.
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
    provisional = tuple(replace(each, is_provisional=True) for each in kept)
    return (*provisional, *(yield from told(session, kept, given.at)))
