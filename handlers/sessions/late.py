"""Files that arrive after the end: a finished run that somebody copies here comes in pieces, in any order.

A run without a launcher's record that would fail for a file is judged once its directory has been quiet. If a file
that was missing arrives soon after that verdict, a further attempt corrects it.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.contracts.files import paths_asked
from runward.handlers.contracts.snapshots import stored_contract
from runward.handlers.contracts.verify import is_absent
from runward.handlers.layouts import native
from runward.handlers.model.asking import Asking, Given, NotYet, ask_readable
from runward.handlers.model.files import RuledPath
from runward.handlers.model.sessions import AttemptEnded, LastChangeOf, Session

QUIET: Final = 2.0
"""Seconds without a change in a run's directory after which it counts as complete."""

LONGEST_ARRIVAL: Final = 600.0
"""Seconds after its `exit.json` came for which a directory that keeps changing is waited for."""

CORRECTED_WITHIN: Final = 60.0
"""Seconds after the verdict within which a missing file that arrives corrects it."""

FIRST_LOOK: Final = 2.0
"""Seconds after the verdict until it is checked whether a file arrived; then after twice as long each time."""

NOT_DELIVERED: Final = "not_delivered"
ARTIFACTS_ROOT: Final = "artifacts_root"
OUTCOME_FILES: Final = "outcome_files"
"""Keys of what a verdict knew: what is at the paths of entries, whether their directory is there, and the files with
outcomes.
"""


def may_be_arriving(event: AttemptEnded, session: Session) -> bool:
    """Whether the files of a run without a launcher's record may still arrive: it ended by its own `exit.json`."""
    return session.layout == native.LAYOUT and event.evidence == "declared" and event.origin == "live"


def quiet(session: Session, given: Given) -> Asking[None]:
    """Raise `NotYet` while files of the run's directory keep changing.

    A change that seems to lie in the future proves nothing: the clock was set back.
    """
    answer = yield from ask_readable(LastChangeOf(session.path), f"the files of {session.key}")
    # A directory that never comes to rest is judged all the same.
    if answer is None or given.at - answer.ended >= LONGEST_ARRIVAL:
        return
    if answer.newest <= given.at < answer.newest + QUIET:
        raise NotYet(answer.newest + QUIET)


class Lacking(NamedTuple):
    """What a verdict at `at` (Unix seconds) found missing, and where it searched.

    `outcome_files` are the files with outcomes that were there, if an entry lacked an outcome; else None.
    """

    attempt: int
    at: float
    artifacts_path: str
    absent: tuple[str | RuledPath, ...]
    outcome_files: frozenset[str] | None

    def look_in(self, now: float) -> float | None:
        """Seconds until the next look for a file that arrived; None if it would come too late."""
        # The next look comes after as long as the verdict is old, so after twice as long each time.
        age = now - self.at
        return min(max(age, FIRST_LOOK), CORRECTED_WITHIN - age) if 0 <= age < CORRECTED_WITHIN else None


def lacking(
    attempt: int,
    at: float,
    artifacts_path: str,
    contract_json: str,
    started_at: float,
    known: Mapping[str, JsonValue],
) -> Lacking:
    """What the verdict of a session lacked, by its contract and by what the verdict `known`."""
    contract = stored_contract(contract_json)
    states, outcome_files = known.get(NOT_DELIVERED), known.get(OUTCOME_FILES)
    is_empty = known.get(ARTIFACTS_ROOT) is not None
    missing = {
        entry.path
        for entry in contract.expected
        if entry.required and (is_empty or is_absent(_state(states, entry.path)))
    }
    asked = paths_asked(contract, started_at)
    return Lacking(
        attempt,
        at,
        artifacts_path,
        tuple(
            path
            for entry, path in zip(contract.expected, asked, strict=True)
            if entry.path in missing and not (entry.rules is not None and entry.rules.is_outcome)
        ),
        frozenset(map(str, outcome_files)) if isinstance(outcome_files, list) else None,
    )


def _state(states: JsonValue, path: str) -> JsonValue:
    return states.get(path) if isinstance(states, dict) else None


def outcome_has_arrived(lacking: Lacking, files: Collection[str]) -> bool:
    """Whether there is a file with an outcome that the verdict didn't know."""
    return lacking.outcome_files is not None and not lacking.outcome_files.issuperset(files)
