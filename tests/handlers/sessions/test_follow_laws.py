"""What holds of any session that is followed, however often it is looked at and whatever the machine says."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.handlers.layouts.adjutant_lines import session as adjutant_session
from tests.handlers.layouts.claude_code_lines import Transcript
from tests.handlers.sessions.following import (
    DAY,
    DECLARED,
    ERROR,
    ESCAPE,
    FIRST,
    KEY,
    OK,
    RULE,
    SECOND,
    Session,
)

from runward.handlers.layouts.layout import Scan
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.layouts.transcript import LogLine, Resumed
from runward.handlers.model.processes import ProcessState, RecordedProcess
from runward.handlers.model.sessions import AttemptEnded, AttemptStarted
from runward.handlers.sessions.follow import NEVER_FOLLOWED, FollowRule, Seen, Sign, follow
from runward.handlers.sessions.over import SETTLE, Writer

Act: TypeAlias = Literal["prompt", "ok", "error", "escape", "title", "goes on", "asks"]
CLOSES = {"ok": OK, "error": ERROR, "escape": ESCAPE}


def act(session: Session, what: Act) -> None:
    """Something that the agent writes. Nothing closes, or goes on, that was not begun."""
    if what in CLOSES and session.told.turn != "none":
        session.closes(CLOSES[what])
    elif what == "prompt":
        session.prompt()
    elif what == "goes on" and session.told.turn != "none":
        session.goes_on()
    else:
        session.line(waiting=what == "asks")


def essence(events: Sequence[Seen]) -> list[tuple[str, str]]:
    """The keys, and how each attempt ended."""
    return [(event.key, event.reason_code if isinstance(event, AttemptEnded) else "") for event in events]


# --- (a) it does not matter when, and how often, the daemon looks

headless_acts: st.SearchStrategy[Act] = st.sampled_from(
    ["prompt", "prompt", "ok", "error", "escape", "title"]
)
pauses = st.sampled_from([0.0, 0.5, 3.0, 100.0])
looks = st.lists(st.booleans(), min_size=3, max_size=3)
ages = st.sampled_from([-1.0, 150.0, 3 * DAY])


@given(
    st.lists(st.tuples(headless_acts, pauses, looks), max_size=25),
    st.sampled_from(["alive", "unknown"]),
)
def test_a_daemon_that_was_down_sees_the_same_attempts(
    acts: list[tuple[Act, float, list[bool]]], liveness: ProcessState
) -> None:
    watched, at_once = watched_and_seen_at_once(acts, liveness, RULE)
    assert essence(watched.events) == essence(at_once.events)


@given(st.lists(st.tuples(headless_acts, pauses, looks), max_size=25), ages)
def test_nor_does_it_take_other_attempts_for_history(
    acts: list[tuple[Act, float, list[bool]]], first_seen_after: float
) -> None:
    rule = RULE._replace(records_history=True, first_seen_at=100.0 + first_seen_after)
    watched, at_once = watched_and_seen_at_once(acts, "alive", rule)
    assert watched.story == at_once.story


def watched_and_seen_at_once(
    acts: list[tuple[Act, float, list[bool]]], liveness: ProcessState, rule: FollowRule
) -> tuple[Session, Session]:
    """A session that was looked at now and then, since its root is known; and the same one, looked at in the end."""
    watched, at_once = Session(rule=rule), Session(rule=rule)

    def look(wanted: bool) -> None:
        if wanted and watched.now >= rule.first_seen_at:
            watched.look(liveness)

    for what, pause, (before, between, after) in acts:
        for session in (watched, at_once):
            if what not in CLOSES or session.told.turn == "open":
                act(session, what)  # an end that was believed stands, whatever another one says later
        look(before)
        for is_wanted in (between, after):
            watched.wait(pause / 2)
            at_once.wait(pause / 2)
            look(is_wanted)
    return watched.wait(5 * DAY).settled(liveness), at_once.wait(5 * DAY).settled(liveness)


@given(st.lists(st.tuples(headless_acts, pauses, st.booleans()), max_size=25), ages, st.booleans())
def test_a_first_reading_in_portions_amounts_to_one_in_one_go(
    acts: list[tuple[Act, float, bool]], first_seen_after: float, records_history: bool
) -> None:
    rule = RULE._replace(records_history=records_history, first_seen_at=100.0 + first_seen_after)
    portions, at_once = Session(rule=rule), Session(rule=rule)
    for what, pause, is_read in acts:
        for session in (portions, at_once):
            act(session, what)
            session.wait(pause)
        if is_read:
            portions.look(complete=False)
    for session in (portions, at_once):
        session.wait(5 * DAY).settled()
    assert portions.story == at_once.story
    assert [event.at for event in portions.ended] == [event.at for event in at_once.ended]


# --- (b) to (e): whatever happens

Step: TypeAlias = tuple[str, float, ProcessState, RecordedProcess | None, bool]
steps: st.SearchStrategy[Step] = st.tuples(
    st.sampled_from([*get_args(Act), "prompt", "look", "look", "look", "lost"]),
    st.sampled_from([0.0, 1.0, 3.0, 10.0, 2 * DAY, -50.0]),
    st.sampled_from(get_args(ProcessState)),
    st.sampled_from([None, FIRST, SECOND]),
    st.sampled_from([True, True, True, False]),
)
rules = st.builds(
    FollowRule,
    names_process=st.booleans(),
    records_history=st.booleans(),
    first_seen_at=st.sampled_from([0.0, 120.0, 5 * DAY]),
    booted_at=st.none() | st.just(110.0),
    settle=st.just(SETTLE),
    stale_after=st.none() | st.just(1800.0),
    start_within=st.none() | st.just(60.0),
)
programs = st.tuples(st.sampled_from([True, False, None]), rules, st.lists(steps, max_size=30))


def play(program: tuple[bool | None, FollowRule, list[Step]]) -> Session:
    """Play a program; the laws about single looks are held at each of them."""
    headless, rule, taken = program
    session = Session(headless, rule)
    for what, pause, liveness, process, complete in taken:
        session.wait(pause)
        if what == "lost":
            session.lost()
        elif what == "look":
            writer = Writer(liveness, process=process)
            sign = Sign(
                session.told, tuple(session.unread), writer, session.changed_at, session.now, complete
            )
            unstored = follow(session.followed, KEY, DECLARED, rule, sign)
            looked = session.looked(writer, complete)
            assert looked == unstored, "a restart in between changes nothing"
            drawn = len(session.unread)
            session.take(looked)
            again = session.looked(writer, complete)
            assert (again.after, again.events) == (looked.after, ()), "the same look again says nothing more"
            assert again.again_in == looked.again_in
            assert again.standing == looked.standing or looked.after.phase == "over"
            if liveness == "alive":
                no_living_process_is_ended(session, looked.events, drawn)
        else:
            act(session, what)  # type: ignore[arg-type] # the others were asked for above
    return session


def no_living_process_is_ended(session: Session, events: Sequence[Seen], drawn: int) -> None:
    """With a process that lives, only what the files themselves say is an end."""
    ends = [event for event in events if isinstance(event, AttemptEnded)]
    assert {end.evidence for end in ends} <= {"declared"}
    if session.told.turn != "closed" or session.headless is not True:
        assert len(ends) <= 2 * drawn
        assert not ends or isinstance(events[-1], AttemptStarted) or session.followed.due_at is not None


def held_to_the_laws(session: Session) -> None:
    assert len({event.key for event in session.events}) == len(session.events)
    is_open = False
    attempt = 0
    for event in session.events:
        if isinstance(event, AttemptStarted):
            assert not is_open, "never two open"
            attempt += 1
            assert event.attempt == attempt, "consecutive"
            assert (event.declaration is not None) == (attempt == 1)
        else:
            assert isinstance(event, AttemptEnded), "nothing is kept besides it"
            assert is_open, "an attempt ends once, and after it began"
            assert event.attempt == attempt
            assert event.status != "running"
        is_open = isinstance(event, AttemptStarted)
    assert (session.followed.phase == "open") == is_open
    assert session.followed.attempt == attempt
    origins = [event.origin for event in session.started]
    assert origins == sorted(origins), "history comes before what is live"


@given(programs)
def test_attempts_follow_one_another_and_each_ends_once(
    program: tuple[bool | None, FollowRule, list[Step]],
) -> None:
    held_to_the_laws(play(program))


@given(programs)
def test_after_anything_a_further_run_is_followed(
    program: tuple[bool | None, FollowRule, list[Step]],
) -> None:
    session = play(program)
    session.wait(10 * DAY).settled("gone").wait(1).prompt().settled("alive", RecordedProcess(99, 9, "b"))
    if session.followed.phase == "over":
        raise AssertionError("the prompt was not seen")
    before = len(session.ended)
    session.wait(9).closes().settled("gone", RecordedProcess(99, 9, "b"))
    assert len(session.ended) == before + 1
    assert session.ended[-1].reason_code == OK.reason_code
    held_to_the_laws(session)


@pytest.mark.sweep
@settings(max_examples=3_000)
@given(programs)
def test_any_program_obeys_the_laws_in_three_thousand_cases(
    program: tuple[bool | None, FollowRule, list[Step]],
) -> None:
    held_to_the_laws(play(program))


# --- the same, of real lines by real scanners


def resumed_run() -> list[bytes]:
    """A headless Claude Code session of three stretches, the second with a background task's end in it."""
    transcript = Transcript()
    transcript.prompt("make a file")
    transcript.result(transcript.call())
    transcript.text("Done.")
    transcript.last_prompt()
    transcript.now += 600
    transcript.prompt("again")
    transcript.api_error()
    transcript.now += 600
    transcript.prompt("once more")
    transcript.text("Done.")
    transcript.note("summary", summary="a file", leafUuid="u1")
    return transcript.lines


def replayed_session() -> list[bytes]:
    """An Adjutant session whose directory was used three times."""
    return [
        *adjutant_session("b", "Success"),
        *adjutant_session("b", "Failed"),
        *adjutant_session("b", "Success"),
    ]


HISTORIES = {
    "claude-code": ("5d0f8a52-1c7e-4b7b-9a63-0f2d6c1e8b11.jsonl", resumed_run()),
    "adjutant": ("REPLAY.jsonl", replayed_session()),
}


def scan_of(layout: str, name: str) -> Scan:
    only = LAYOUTS.only(layout)
    for found in only.logs or only.directories:
        return found.start(name)
    raise LookupError(layout)


def followed(layout: str, cuts: Sequence[int], quiet: bool) -> list[tuple[str, str]]:
    """The events of a history that is looked at whenever it has grown to one of these lengths, at once or later."""
    name, contents = HISTORIES[layout]
    lines = [LogLine(number, content) for number, content in enumerate(contents, 1)]
    scan, known, now = scan_of(layout, name), NEVER_FOLLOWED, 2e9
    events: list[Seen] = []
    ends = [*sorted(cuts), len(lines), len(lines)]
    for begin, end in zip([0, *ends], ends, strict=False):
        scan, resumed = scan.feed(name, lines[begin:end])
        now += 1
        changed_at = now
        portion: tuple[Resumed, ...] = resumed
        for _ in range(1 + (quiet or end == len(lines))):
            sign = Sign(scan.tell(), portion, Writer("unknown"), changed_at, now, True)
            look = follow(known, KEY, DECLARED, RULE, sign)
            known, portion, now = look.after, (), now + 10
            events += look.events
    return essence(events)


@pytest.mark.parametrize("layout", HISTORIES)
@given(data=st.data())
@settings(max_examples=60)
def test_a_real_history_gives_the_same_events_wherever_it_is_cut(layout: str, data: st.DataObject) -> None:
    length = len(HISTORIES[layout][1])
    cuts = data.draw(st.lists(st.integers(0, length), max_size=6))
    assert followed(layout, cuts, data.draw(st.booleans())) == followed(layout, (), False)


def test_the_real_histories_are_what_they_are_meant_to_be() -> None:
    assert followed("claude-code", (), False) == [
        (f"{KEY}#1/started", ""),
        (f"{KEY}#1/ended", "run.completed.ok"),
        (f"{KEY}#2/started", ""),
        (f"{KEY}#2/ended", "run.failed.api_error"),
        (f"{KEY}#3/started", ""),
        (f"{KEY}#3/ended", "run.completed.ok"),
    ]
    assert [end for _, end in followed("adjutant", (), False) if end] == [
        "run.completed.ok",
        "run.failed.exception",
        "run.completed.ok",
    ]
