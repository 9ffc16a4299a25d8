"""Which actions one event reports, and what follows from it."""

import json
from collections.abc import Sequence

from runward.config.json_value import JsonValue
from runward.handlers.exchange.results import MOST_BYTES, MOST_TOGETHER, tell_result, told_together
from runward.handlers.model.asking import Given
from runward.handlers.model.chains import EventOccurred, IsHeard
from runward.handlers.model.effects import Effect, Emit
from runward.handlers.model.exchange import ActionTaken, CountIntent, RecordAction
from runward.handlers.model.journal import AppendLines
from runward.handlers.model.sessions import SessionOf

RUN = "native:runs/a"


def note(line: int) -> str:
    """What the action of a line deletes. Those with even numbers fail, at the same artifact."""
    return f"note-{line}" if line % 2 == 1 else "note"


def decided(line: int, session: str | None = RUN, content: str = "", attempt: int = 1) -> tuple[Effect, ...]:
    """What the handler decides about an intent."""
    key = f"{session}#intent/{line}"
    told: dict[str, JsonValue] = {"line": line, "intent": {"reasoning": "why"}, "result": {"data": content}}
    taken = ActionTaken(
        key if session is None else f"{session}#{attempt}/action/{line}",
        *(key, 1.0, "ann", "delete_artifact", note(line), line % 2 == 1, None, told, session),
    )
    record = RecordAction(
        *(key, 1.0, "ann", session, line, "delete_artifact", note(line), {}, {}, True, None, 0, taken.key)
    )
    return (record, CountIntent(session or ""), Emit(taken))


def events(effects: Sequence[Sequence[Effect]]) -> list[list[str]]:
    """The actions that each event reports."""
    emitted = [each.event for effects_of_one in effects for each in effects_of_one if isinstance(each, Emit)]
    return [
        [taken.action for taken in (event, *event.further)]
        for event in emitted
        if isinstance(event, ActionTaken)
    ]


def records(effects: Sequence[Sequence[Effect]]) -> list[tuple[str, str]]:
    return [(each.key, each.told_in) for one in effects for each in one if isinstance(each, RecordAction)]


def test_actions_of_an_attempt_are_reported_together_and_keep_their_order_and_their_records() -> None:
    other = "native:runs/b"
    before = [
        decided(1),
        decided(1, other),
        (),
        decided(2),
        decided(3, attempt=2),
        decided(2, other),
        decided(4),
    ]
    after = told_together(before)
    assert events(after) == [
        [f"{RUN}#intent/1", f"{RUN}#intent/2", f"{RUN}#intent/4"],
        [f"{other}#intent/1", f"{other}#intent/2"],
        [f"{RUN}#intent/3"],
    ]
    assert records(after) == [
        (f"{RUN}#intent/1", f"{RUN}#1/action/1/taken"),
        (f"{other}#intent/1", f"{other}#1/action/1/taken"),
        (f"{RUN}#intent/2", f"{RUN}#1/action/1/taken"),
        (f"{RUN}#intent/3", f"{RUN}#2/action/3/taken"),
        (f"{other}#intent/2", f"{other}#1/action/1/taken"),
        (f"{RUN}#intent/4", f"{RUN}#1/action/1/taken"),
    ]
    without_events = [tuple(each for each in one if not isinstance(each, Emit)) for one in after]
    assert [len(each) for each in without_events] == [2, 2, 0, 2, 2, 2, 2], "everything else stays"


def test_what_people_ask_for_has_an_event_each() -> None:
    asked = [decided(1, None), decided(2, None)]
    assert told_together(asked) == asked


def test_one_event_reports_only_so_many_actions_and_bytes() -> None:
    many = events(told_together([decided(line) for line in range(1, MOST_TOGETHER + 3)]))
    assert [len(each) for each in many] == [MOST_TOGETHER, 2]
    half = "x" * (MOST_BYTES // 2 - 200)
    large = events(told_together([decided(line, content=half) for line in range(1, 6)]))
    assert [len(each) for each in large] == [2, 2, 1]
    larger = events(told_together([decided(1), decided(2, content="x" * MOST_BYTES), decided(3)]))
    assert [len(each) for each in larger] == [1, 1, 1]


def test_each_action_of_an_event_has_its_line_its_deletion_and_its_event_for_chains() -> None:
    (emitted,) = [
        each for each in told_together([decided(line) for line in range(1, 5)])[0] if isinstance(each, Emit)
    ]
    taken = emitted.event
    assert isinstance(taken, ActionTaken)
    telling = tell_result(taken, Given("h", 1.0))
    question = next(telling)
    effects: Sequence[Effect] = ()
    try:
        while True:
            answer: object = ("a chain",)
            if isinstance(question, SessionOf):
                answer = type("Session", (), {"key": RUN, "path": "/a", "status": "running"})()
            else:
                assert question == IsHeard("exchange.delete_artifact")
            question = telling.send(answer)
    except StopIteration as stopped:
        effects = stopped.value
    results, journal, *further = effects
    assert isinstance(results, AppendLines)
    assert isinstance(journal, AppendLines)
    assert [(line["line"], line["hash"]) for line in map(json.loads, results.content.splitlines())] == [
        *((line, "h") for line in range(1, 5))
    ]
    lines = [json.loads(line)["event"] for line in journal.content.splitlines()]
    assert lines == ["action", "artifact_deleted", "action", "action", "artifact_deleted", "action"]
    journal_lines = journal.content.splitlines()
    assert len(set(journal_lines)) == 6, "no two lines are the same: after a crash each is searched for"
    occurred = [each.event for each in further if isinstance(each, Emit)]
    assert [each.id for each in occurred if isinstance(each, EventOccurred)] == [
        *(f"{RUN}#intent/{line}" for line in range(1, 5))
    ]
