"""What follows from a step of another host is as deep as the chain run that ordered it, so a loop over hosts ends."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.handlers.chains.test_machine import of
from tests.handlers.examples import ended as ended_example
from tests.handlers.examples import session as session_example
from tests.handlers.sessions.test_ended import STATES

from runward.handlers import invocations
from runward.handlers.model.asking import Given
from runward.handlers.model.bundle import BundleRulesOf
from runward.handlers.model.chains import EventOccurred, IsHeard
from runward.handlers.model.effects import Emit
from runward.handlers.model.fleet import Taken, TakenAs
from runward.handlers.model.invocations import Invocation, InvocationOf, StartFailed
from runward.handlers.model.notices import RecipientsOf
from runward.handlers.model.outcomes import ArtifactAddRequested, OutcomeFile, OutcomesChanged, OutcomesIn
from runward.handlers.model.sessions import LinkedSessions, LinkedSessionsOf, SessionOf
from runward.handlers.outcomes import recording
from runward.handlers.sessions import ended

SESSIONS = pytest.mark.parametrize(
    ("name", "depth"), [("native:runs/fl_0123456789ab-1", 5), ("native:runs/by-hand", 0)]
)


@SESSIONS
def test_the_end_of_a_step_of_another_host_is_as_deep_as_its_order(name: str, depth: int) -> None:
    session = session_example(STATES["none"].contract)._replace(key=name)
    event = replace(ended_example("completed", "run.completed.ok"), session_key=name)
    deciding: Any = ended.end_attempt(event, Given("hash", 5.0))
    answer: object = None
    while True:
        try:
            question = deciding.send(answer)
        except StopIteration as stopped:
            effects = stopped.value
            break
        match question:
            case SessionOf():
                answer = session
            case IsHeard():
                answer = True
            case TakenAs():
                answer = Taken("laptop", "1", 1, "begun", name, 5)
            case LinkedSessionsOf():
                answer = LinkedSessions()
            case OutcomesIn() | RecipientsOf():
                answer = ()
            case BundleRulesOf():
                answer = None
            case _:
                answer = None
    told = [each.event for each in of(Emit, effects) if isinstance(each.event, EventOccurred)]
    assert [(each.name, each.depth) for each in told] == [("session.finished", depth)]


OUTCOME = OutcomeFile("outcome.json", b'{"outcome_kind": "ci_result", "summary": "green"}')


def depths(deciding: Any, name: str) -> list[tuple[str, int]]:
    """The events that chains may wait for, each with its depth."""
    answers = {
        SessionOf(name): session_example()._replace(key=name),
        IsHeard("artifact.added"): True,
        IsHeard("invocation.completed"): True,
        TakenAs(name): Taken("laptop", "1", 1, "begun", name, 5),
        InvocationOf(name): Invocation("inv_1", "train"),
    }
    answer: object = None
    while True:
        try:
            question = deciding.send(answer)
        except StopIteration as stopped:
            told = [each.event for each in of(Emit, stopped.value) if isinstance(each.event, EventOccurred)]
            return [(each.name, each.depth) for each in told]
        answer = (OUTCOME,) if isinstance(question, OutcomesIn) else answers.get(question)


@SESSIONS
def test_what_a_running_step_of_another_host_adds_is_as_deep_as_its_order(name: str, depth: int) -> None:
    given = Given("hash", 5.0)
    added = ArtifactAddRequested("r", 4.0, session_key=name, kind="note", name="n", content={"a": 1})
    assert depths(recording.add_artifact(added, given), name) == [("artifact.added", depth)]
    changed = OutcomesChanged(name, 1, 4.0, "5e")
    assert depths(recording.outcomes_changed(changed, given), name) == [("artifact.added", depth)]


@SESSIONS
def test_the_invocation_of_a_step_that_never_begins_is_as_deep_as_its_order(name: str, depth: int) -> None:
    failed = StartFailed("start", name, 4.0, "it vanished")
    given = Given("hash", 5.0)
    assert depths(invocations.give_up_start(failed, given), name) == [("invocation.completed", depth)]
