"""What a headless Claude Code session waits for after its turn: background tasks, and what was queued meanwhile."""

from collections.abc import Callable

import pytest
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript, notification

from runward.handlers.layouts.claude_code import SCANNER
from runward.handlers.layouts.claude_code_records import TASKS_KEPT
from runward.handlers.layouts.transcript import LogLine, Told

NAME = f"{SESSION}.jsonl"


def told(transcript: Transcript, length: int | None = None) -> Told:
    lines = [LogLine(number, line) for number, line in enumerate(transcript.lines[:length], 1)]
    state, _ = SCANNER.feed(SCANNER.start(NAME), NAME, lines)
    assert SCANNER.load(SCANNER.dump(state)) == state
    return SCANNER.tell(state)


def short(told: Told) -> str:
    """`open`, `none`, or how the turn ended."""
    return told.close.reason_code if told.close is not None else told.turn


def left_running(t: Transcript) -> None:
    t.prompt("x")
    t.background()
    t.text("I started it.")


def an_agent_left_running(t: Transcript) -> None:
    t.prompt("x")
    t.background("a1", agent=True)
    t.text("I started it.")


def its_end_queued(t: Transcript) -> None:
    left_running(t)
    t.enqueue(notification())


def its_end_taken_up(t: Transcript) -> None:
    its_end_queued(t)
    t.unqueue()
    t.user(notification(), origin={"kind": "task-notification"})


def its_end_answered(t: Transcript) -> None:
    its_end_taken_up(t)
    t.text("It is over.")


def an_agents_end_answered(t: Transcript) -> None:
    an_agent_left_running(t)
    t.enqueue(notification("a1"))
    t.unqueue()
    t.user(notification("a1"))
    t.text("It is over.")


def one_of_two_answered(t: Transcript) -> None:
    t.prompt("x")
    t.background("b1")
    t.background("b2")
    t.text("I started both.")
    t.enqueue(notification("b1"))
    t.unqueue()
    t.user(notification("b1"))
    t.text("One is over.")


def both_answered(t: Transcript) -> None:
    one_of_two_answered(t)
    t.enqueue(notification("b2"))
    t.unqueue()
    t.user(notification("b2"))
    t.text("Both are over.")


def waited_long_enough(t: Transcript) -> None:
    left_running(t)
    t.last_prompt()


def noted_in_the_middle(t: Transcript) -> None:
    """2.1.332 repeats `last-prompt` while it works and waits."""
    t.prompt("x")
    t.note("atis-latch", atis="")
    t.background()
    t.text("I started it.")
    t.last_prompt()


def waited_long_enough_in_a_version_that_notes_its_costs(t: Transcript) -> None:
    noted_in_the_middle(t)
    t.note("cost-state", totalCostUSD=0.1)


def ended_with_the_session(t: Transcript) -> None:
    left_running(t)
    t.enqueue(notification(status="killed"))


def over_while_it_worked(t: Transcript) -> None:
    t.prompt("x")
    t.background()
    call = t.call()
    t.enqueue(notification())
    t.result(call)
    t.unqueue("remove")
    t.text("It is over.")


def stopped_by_the_model(t: Transcript) -> None:
    t.prompt("x")
    t.background()
    t.result(t.call("TaskStop"), "Successfully stopped", toolUseResult={"task_id": "b1", "message": "…"})
    t.text("I stopped it.")


def asked_for_and_over(t: Transcript) -> None:
    t.prompt("x")
    t.background()
    t.result(t.call("TaskOutput"), "…", toolUseResult={"task": {"task_id": "b1", "status": "completed"}})
    t.text("It is over.")


def asked_for_too_early(t: Transcript) -> None:
    t.prompt("x")
    t.background()
    t.result(t.call("TaskOutput"), "…", toolUseResult={"task": {"task_id": "b1", "status": "running"}})
    t.text("It still runs.")


def left_running_in_a_version_that_tells_nothing_of_it(t: Transcript) -> None:
    t.prompt("x")
    call = t.call(run_in_background=True)
    t.result(
        call, "Command running in background with ID: 25dc32", toolUseResult={"backgroundTaskId": "25dc32"}
    )
    t.text("I started it.")


def left_running_by_a_person(t: Transcript) -> None:
    t.entrypoint = "cli"
    left_running(t)


def refused_with_a_task_running(t: Transcript) -> None:
    t.prompt("x")
    t.background()
    t.api_error()


def queued_while_it_worked(t: Transcript) -> None:
    t.prompt("x")
    call = t.call()
    t.enqueue("and y")
    t.result(call)
    t.text("Done.")


def queued_and_taken_up(t: Transcript) -> None:
    queued_while_it_worked(t)
    t.unqueue()
    t.user("and y")


def queued_and_answered(t: Transcript) -> None:
    queued_and_taken_up(t)
    t.text("Done, too.")


def queued_and_removed(t: Transcript) -> None:
    queued_while_it_worked(t)
    t.unqueue("remove")


def answered_before_its_prompt_was_written(t: Transcript) -> None:
    t.queued("x")
    asked_at = t.tick()
    t.text("Done.")
    t.user("x", timestamp=asked_at)


def one_that_begins_by_taking_up_its_prompt(t: Transcript) -> None:
    t.entrypoint, t.version = None, "2.1.20"
    t.unqueue()
    left_running(t)


HISTORIES = [
    (left_running, "open", 1),
    (an_agent_left_running, "open", 1),
    (its_end_queued, "open", 1),
    (its_end_taken_up, "open", 1),
    (its_end_answered, "run.completed.ok", 2),
    (an_agents_end_answered, "run.completed.ok", 2),
    (one_of_two_answered, "open", 2),
    (both_answered, "run.completed.ok", 3),
    (waited_long_enough, "run.completed.ok", 1),
    (noted_in_the_middle, "open", 1),
    (waited_long_enough_in_a_version_that_notes_its_costs, "run.completed.ok", 1),
    (ended_with_the_session, "run.completed.ok", 1),
    (over_while_it_worked, "run.completed.ok", 1),
    (stopped_by_the_model, "run.completed.ok", 1),
    (asked_for_and_over, "run.completed.ok", 1),
    (asked_for_too_early, "open", 1),
    (left_running_in_a_version_that_tells_nothing_of_it, "run.completed.ok", 1),
    (left_running_by_a_person, "run.completed.ok", 1),
    (refused_with_a_task_running, "run.failed.api_error", 1),
    (queued_while_it_worked, "open", 1),
    (queued_and_taken_up, "open", 2),
    (queued_and_answered, "run.completed.ok", 2),
    (queued_and_removed, "run.completed.ok", 1),
    (one_that_begins_by_taking_up_its_prompt, "open", 1),
    (answered_before_its_prompt_was_written, "run.completed.ok", 1),
]


@pytest.mark.parametrize(("history", "ending", "turns"), HISTORIES)
def test_a_turn_is_over_when_nothing_is_left_that_the_session_waits_for(
    history: Callable[[Transcript], None], ending: str, turns: int
) -> None:
    transcript = Transcript()
    history(transcript)
    now = told(transcript)
    assert (short(now), now.turns, now.attempt, now.unreadable) == (ending, turns, 1, 0)
    assert now.counts.events == len(transcript.lines)


@pytest.mark.parametrize(
    "history", [its_end_answered, an_agents_end_answered, both_answered, queued_and_answered]
)
def test_while_it_waits_it_is_completed_at_no_line_before_the_last(
    history: Callable[[Transcript], None],
) -> None:
    transcript = Transcript()
    history(transcript)
    turns = [told(transcript, length).turn for length in range(1, len(transcript.lines))]
    assert set(turns) == {"open"}


def test_the_end_of_a_session_that_waited_is_when_its_turn_was() -> None:
    transcript = Transcript()
    left_running(transcript)
    said_at = transcript.now - 1
    waited_long_enough(again := Transcript())
    assert (close := told(again).close) is not None
    assert close.at == said_at


def test_a_session_that_waited_to_its_end_begins_its_next_attempt_when_it_is_resumed() -> None:
    transcript = Transcript()
    waited_long_enough(transcript)
    transcript.prompt("again")
    transcript.text("Done.")
    now = told(transcript)
    assert (now.attempt, short(now)) == (2, "run.completed.ok")


def test_of_very_many_tasks_only_the_last_are_waited_for() -> None:
    transcript = Transcript()
    transcript.prompt("x")
    for number in range(TASKS_KEPT + 3):
        transcript.background(f"b{number}")
    for number in range(3, TASKS_KEPT + 3):
        transcript.enqueue(notification(f"b{number}"))
        transcript.unqueue("remove")
    transcript.text("All are over.")
    assert short(told(transcript)) == "run.completed.ok"


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_state_of_before_tasks_asides_sums_or_agents_were_known_is_read_anew(version: int) -> None:
    """What an earlier version stored lacks them, so it can't be continued."""
    dumped = SCANNER.dump(SCANNER.start(NAME))
    assert dumped.startswith("[5,")
    with pytest.raises(ValueError, match="0"):
        SCANNER.load(f"[{version},{dumped.removeprefix('[5,')}")
