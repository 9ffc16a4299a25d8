"""What is kept of a session's outcomes, when it is judged and before."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.asking import Asking, TryLater, ask
from runward.handlers.facts import Session
from runward.handlers.layouts.registry import outcome_files
from runward.handlers.outcomes.effects import RecordArtifact
from runward.handlers.outcomes.facts import OutcomesIn
from runward.handlers.outcomes.reading import ReadOutcome, read_outcomes
from runward.handlers.unreadable import Unreadable


class Recorded(NamedTuple):
    """What became of a session's outcomes: those that were read, what is kept of them, what is wrong by file."""

    read: Sequence[ReadOutcome]
    kept: tuple[RecordArtifact, ...]
    invalid: dict[str, JsonValue]


NO_OUTCOMES: Final = Recorded((), (), {})


def recorded(session: Session, at: float, named: tuple[str, ...] = ()) -> Asking[Recorded]:
    """The outcomes of a session, to be kept; files among its artifacts that are `named` are read, too.

    Of two with one kind and name the later one counts.
    """
    in_other_words = outcome_files(session.layout)
    named = (*named, *in_other_words)
    found = yield from ask(OutcomesIn(session.path, session.artifacts_path, named))
    if isinstance(found, Unreadable):
        raise TryLater(f"the outcomes of {session.key} can't be read: {found.why}")
    if not found:
        return NO_OUTCOMES
    read, invalid = read_outcomes(found, in_other_words)
    last: dict[tuple[str, str], ReadOutcome] = {}
    for each in read:
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
            each.file,
            each.outcome.is_known,
            place,
        )
        for place, each in enumerate(last.values())
    )
    return Recorded(
        read, kept, {each.file: [problem.said() for problem in each.problems] for each in invalid}
    )
