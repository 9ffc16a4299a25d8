"""What is foreseen of a verdict's files is what the verdict asks: each question, in the same words."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.handlers.examples import HASH, KEY, NOTES, NOW, PATH, REVIEW, ended, session, started
from tests.handlers.played import AnyQuestion

from runward.config.artifact_rules import ArtifactRules
from runward.config.bundle import BundleRules
from runward.config.contract import Contract, ContractEntry, ExpectedArtifact, contract_to_json
from runward.handlers.model.asking import Given
from runward.handlers.model.bundle import BundleRulesOf
from runward.handlers.model.chains import IsHeard
from runward.handlers.model.contracts import ArtifactsUnder, Declarations, DeclaredContract
from runward.handlers.model.effects import Deciding, Effects
from runward.handlers.model.files import FileFact, RootFacts
from runward.handlers.model.invocations import Invocation, InvocationOf
from runward.handlers.model.notices import RecipientsOf
from runward.handlers.model.outcomes import OutcomeFile, OutcomesIn
from runward.handlers.model.sessions import (
    AttemptEnded,
    AttemptStarted,
    EndAttempt,
    LaunchOf,
    LinkedSessions,
    LinkedSessionsOf,
    Session,
    SessionOf,
    WorkingDirectoryOf,
)
from runward.handlers.sessions import ended as ends
from runward.handlers.sessions import foreseen, opened
from runward.handlers.sessions.fold import fold

CONTRACT = Contract((REVIEW, NOTES))
RULED = Contract(
    (
        ContractEntry(
            "review", "review.json", False, "", "playbook", ArtifactRules(outcome_kind="review_verdict")
        ),
    )
)
OUTCOME = OutcomeFile("outcomes/seen.json", b'{"kind": "note", "summary": "seen"}')
OF_STORE = (SessionOf, LaunchOf, LinkedSessionsOf, InvocationOf, WorkingDirectoryOf)


@dataclass
class World:
    """Answers every question, and notes those about files and settings."""

    session: Session | None = None
    outcomes: tuple[OutcomeFile, ...] = ()
    asked: set[AnyQuestion] = field(default_factory=set)

    def decides(self, deciding: Deciding) -> Effects:
        try:
            question = next(deciding)
            while True:
                if not isinstance(question, OF_STORE):
                    self.asked.add(question)
                question = deciding.send(self._answer(question))
        except StopIteration as stopped:
            effects: Effects = stopped.value
            return effects

    def _answer(self, question: AnyQuestion) -> object:
        match question:
            case SessionOf():
                return self.session
            case LinkedSessionsOf():
                return LinkedSessions()
            case InvocationOf():
                return Invocation("inv_1", "review")
            case OutcomesIn():
                return self.outcomes
            case ArtifactsUnder(paths=paths):
                return RootFacts(True, (FileFact("file", 3),) * len(paths))
            case DeclaredContract():
                return Declarations((ExpectedArtifact("review", "review.md"),), None)
            case BundleRulesOf():
                return BundleRules()
            case IsHeard() | RecipientsOf():
                return ()
            case LaunchOf() | WorkingDirectoryOf():
                return None
        raise AssertionError(question)

    def verdict(self, event: AttemptEnded) -> set[AnyQuestion]:
        """What the verdict asks of files and settings."""
        self.asked = set()
        effects = self.decides(ends.end_attempt(event, Given(HASH, NOW)))
        assert any(isinstance(each, EndAttempt) for each in effects)
        return self.asked

    def opens(self, event: AttemptStarted) -> set[AnyQuestion]:
        """What the opening of the session asks."""
        self.asked = set()
        effects = self.decides(opened.open_attempt(event, Given(HASH, NOW)))
        mine = tuple(each for each in effects if getattr(each, "key", None) == KEY)
        self.session = fold(self.session, mine)
        return self.asked

    def foreseen(self, asking: Deciding) -> set[AnyQuestion]:
        self.asked = set()
        assert self.decides(asking) == ()
        return self.asked


@pytest.mark.parametrize("outcomes", [(), (OUTCOME,)], ids=["no outcome", "an outcome"])
@pytest.mark.parametrize("invocation", [None, "inv_1"], ids=["by itself", "ordered"])
@pytest.mark.parametrize("contract", [None, Contract(()), CONTRACT, RULED])
@pytest.mark.parametrize(
    "event",
    [ended(), ended("failed", "run.failed.exit_nonzero"), ended(attempt=2)],
    ids=["good", "bad", "second"],
)
def test_the_verdict_on_a_known_session_asks_no_file_that_was_not_foreseen(
    event: AttemptEnded,
    contract: Contract | None,
    invocation: str | None,
    outcomes: tuple[OutcomeFile, ...],
) -> None:
    known = session(contract, invocation_id=invocation, attempt=event.attempt)
    world = World(known, outcomes)
    before = world.foreseen(foreseen.of_end(event))
    asked = world.verdict(event)
    assert asked
    assert asked <= before


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"has_snapshot": True, "contract": contract_to_json(CONTRACT)},
        {"has_snapshot": True, "contract": None},
        {"playbook": "review"},
        {"playbook": "review", "artifacts_path": "/elsewhere"},
    ],
    ids=["nothing", "a contract", "no contract", "a playbook", "artifacts elsewhere"],
)
def test_so_does_that_on_a_session_which_begins_and_ends_in_one_look(said: dict[str, Any]) -> None:
    world, start = World(), started(seen_over=True, **said)
    before = world.foreseen(foreseen.of_start(start))
    asked = world.opens(start) | world.verdict(ended())
    assert asked
    assert asked <= before


def test_of_a_session_that_begins_only_its_declarations_are_asked() -> None:
    world = World()
    assert world.foreseen(foreseen.of_start(started(playbook="review"))) == {DeclaredContract("review", None)}


@pytest.mark.parametrize(
    "asking",
    [
        foreseen.of_start(started(origin="history", seen_over=True, playbook="review")),
        foreseen.of_end(ended(origin="history")),
        foreseen.of_end(ended()),
        foreseen.of_start(started(2, seen_over=True)),
    ],
    ids=["the start of history", "the end of history", "an unknown session", "its further attempt"],
)
def test_nothing_is_asked_where_no_verdict_will_look(asking: Deciding) -> None:
    assert World().foreseen(asking) == set()


def test_a_foreign_session_is_judged_as_before() -> None:
    foreign = session(CONTRACT, layout="codex", path=PATH)
    assert World(foreign).foreseen(foreseen.of_end(ended())) == set()
