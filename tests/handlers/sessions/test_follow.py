"""Following a foreign session: which attempts it has, when each begins and ends, and what is history."""

import pytest
from tests.handlers.sessions.following import (
    DAY,
    DECLARED,
    ERROR,
    ESCAPE,
    FIRST,
    HISTORY,
    KEY,
    RULE,
    SECOND,
    Session,
    stored,
)

from runward.handlers.layouts.transcript import Counts, Resumed
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.sessions.follow import NEVER_FOLLOWED, Sign, follow
from runward.handlers.sessions.over import GRACE, LONG_QUIET, SETTLE, Absence, Writer

GOOD = "run.completed.ok"
KILLED = "run.aborted.process_gone by process_gone"
GONE_FILES = "run.aborted.vanished by process_gone"
FIRST_SEEN = HISTORY.first_seen_at


def headless() -> Session:
    return Session()


def seated() -> Session:
    return Session(headless=False)


def ended_well() -> Session:
    return headless().prompt().wait(5).closes().wait(1)


TABLE = [
    ("nothing was asked of it yet: it has not begun", headless().line().settled(), []),
    ("it works", headless().prompt().settled("alive"), ["1 started"]),
    ("it ended well while nobody looked", ended_well().settled(), ["1 started", f"1 {GOOD}"]),
    (
        "it ended well under our eyes",
        headless().prompt().look("alive").wait(9).closes().settled("alive"),
        ["1 started", f"1 {GOOD}"],
    ),
    (
        "an error is an end of a headless run",
        headless().prompt().closes(ERROR).settled("alive"),
        ["1 started", "1 run.failed.api_error"],
    ),
    (
        "it was killed",
        headless().prompt().look("alive").wait(60).settled("gone"),
        ["1 started", f"1 {KILLED}"],
    ),
    ("nobody can tell whether it was killed", headless().prompt().wait(DAY).settled(), ["1 started"]),
    ("a person is done with a turn", seated().prompt().closes().settled("alive"), ["1 started"]),
    (
        "a person left",
        seated().prompt().closes().settled("alive").wait(DAY).settled("gone"),
        ["1 started", f"1 {GOOD} by process_gone"],
    ),
    (
        "a person left after pressing Escape",
        seated().prompt().closes(ESCAPE).settled("gone"),
        ["1 started", "1 run.aborted.user by process_gone"],
    ),
    (
        "titles and summaries come after the end",
        ended_well().settled().line().settled().wait(DAY).line().settled(),
        ["1 started", f"1 {GOOD}"],
    ),
    (
        "it was resumed after we had seen its end",
        ended_well().settled().prompt().settled(),
        ["1 started", f"1 {GOOD}", "2 started"],
    ),
    (
        "it was resumed before we saw its end",
        ended_well().prompt().settled(),
        ["1 started", f"1 {GOOD}", "2 started"],
    ),
    (
        "it was resumed twice while the daemon was down",
        ended_well().prompt().closes(ERROR).prompt().closes().settled(),
        ["1 started", f"1 {GOOD}", "2 started", "2 run.failed.api_error", "3 started", f"3 {GOOD}"],
    ),
    (
        "a whole attempt was missed after an end that we had seen",
        ended_well().settled().prompt().closes(ERROR).prompt().look(),
        ["1 started", f"1 {GOOD}", "2 started", "2 run.failed.api_error", "3 started"],
    ),
    (
        "a person went on with a session that was over",
        seated().prompt().closes().settled("gone").prompt().settled("alive"),
        ["1 started", f"1 {GOOD} by process_gone", "2 started"],
    ),
    (
        "a killed session was given another prompt",
        headless().prompt().settled("gone").prompt().settled("alive"),
        ["1 started", f"1 {KILLED}", "2 started"],
    ),
    (
        "a closed turn was open again",
        ended_well().settled().goes_on().settled("alive").closes(ERROR).settled("alive"),
        ["1 started", f"1 {GOOD}", "2 started", "2 run.failed.api_error"],
    ),
    (
        "its last words came after it was taken for killed",
        headless().prompt().settled("gone").closes().settled("gone"),
        ["1 started", f"1 {KILLED}", "2 started", f"2 {GOOD}"],
    ),
    (
        "its last words came late, and then it was resumed",
        headless().prompt().settled("gone").closes().settled("gone").prompt().settled("alive"),
        ["1 started", f"1 {KILLED}", "2 started", f"2 {GOOD}", "3 started"],
    ),
    (
        "its last words and the next prompt were read together",
        headless().prompt().settled("gone").closes().prompt().settled("alive"),
        ["1 started", f"1 {KILLED}", "2 started", f"2 {GOOD}", "3 started"],
    ),
    (
        "more lines of a session that counted as killed take that back",
        headless().prompt().settled("gone").line().settled("gone").line().settled("unknown"),
        ["1 started", f"1 {KILLED}", "2 started", f"2 {KILLED}", "3 started"],
    ),
    (
        "a title, which has no time, may also be written to a dead session",
        headless().prompt().settled("gone").line(moved_at=100.0).settled("gone"),
        ["1 started", f"1 {KILLED}"],
    ),
    (
        "the data that is kept besides it changes while it runs",
        headless()
        .prompt()
        .line(data="a")
        .look("alive")
        .look("alive")
        .line(data="b")
        .look("alive")
        .look("alive")
        .line(data="c")
        .closes()
        .settled("alive")
        .line(data="d")
        .settled("alive"),
        ["1 started", "1 changed", "1 changed", f"1 {GOOD}"],
    ),
    (
        "its file was moved within a moment",
        headless().prompt().look("alive").lost().wait(GRACE - 1).look("alive").wait(60).look("alive"),
        ["1 started"],
    ),
    (
        "its file is gone",
        headless().prompt().look("alive").lost().wait(GRACE).lost().wait(DAY).lost(),
        ["1 started", f"1 {GONE_FILES}"],
    ),
    (
        "its file is back as it was",
        headless().prompt().look("alive").lost().wait(GRACE).lost().wait(9).settled("alive"),
        ["1 started", f"1 {GONE_FILES}"],
    ),
    (
        "its file is back and has grown",
        headless().prompt().look("alive").lost().wait(GRACE).lost().line().settled("alive"),
        ["1 started", f"1 {GONE_FILES}", "2 started"],
    ),
    (
        "its file is back, and says how it ended",
        headless().prompt().look("alive").lost().wait(GRACE).lost().closes().settled("alive"),
        ["1 started", f"1 {GONE_FILES}", "2 started", f"2 {GOOD}"],
    ),
    (
        "its file is back with its last words, and its process went meanwhile",
        seated().prompt().look("alive", FIRST).lost().wait(GRACE).lost().closes().settled("gone", FIRST),
        ["1 started", f"1 {GONE_FILES}", "2 started", f"2 {GOOD} by process_gone"],
    ),
    (
        "its file is back with an end and a further prompt, and its process went meanwhile",
        headless()
        .prompt()
        .look("alive", FIRST)
        .lost()
        .wait(GRACE)
        .lost()
        .closes()
        .prompt()
        .settled("gone", FIRST),
        ["1 started", f"1 {GONE_FILES}", "2 started", f"2 {GOOD}", "3 started", f"3 {KILLED}"],
    ),
    (
        "the file of a session that was over is moved away and back",
        ended_well().settled().lost().wait(GRACE).lost().settled(),
        ["1 started", f"1 {GOOD}"],
    ),
    ("a file is gone before anything began in it", headless().line().look().lost().wait(9).lost(), []),
]


@pytest.mark.parametrize(("session", "story"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_what_was_done_and_seen_amounts_to_these_events(session: Session, story: list[str]) -> None:
    assert session.story == story
    assert len({event.key for event in session.events}) == len(session.events)


def test_only_the_first_start_declares_and_each_event_has_its_time() -> None:
    session = headless().prompt().wait(5).closes().wait(60).prompt().settled()
    assert [event.declaration for event in session.started] == [DECLARED, None]
    assert [event.at for event in session.started] == [100.0, 165.0]
    assert [event.at for event in session.ended] == [105.0]
    assert {event.session_key for event in session.events} == {KEY}
    assert [event.seen_over for event in session.started] == [True, False]


def test_a_sub_agents_file_is_no_session() -> None:
    session = headless().prompt().closes()
    session.told = session.told._replace(is_subagent=True)
    assert session.settled().wait(DAY).settled().story == []
    assert session.followed == NEVER_FOLLOWED


def test_an_end_in_a_growing_file_waits_until_it_is_quiet() -> None:
    session = headless().prompt().closes().look("alive")
    assert session.last is not None
    assert (session.story, session.last.again_in) == (["1 started"], SETTLE)
    session.wait(1).line().look("alive").wait(SETTLE - 0.5).look("alive")
    assert session.story == ["1 started"]
    assert session.wait(0.5).look("alive").story == ["1 started", f"1 {GOOD}"]


def test_an_end_that_was_written_whole_counts_at_once() -> None:
    session = headless().prompt().closes()
    session.told = session.told._replace(declared=True)
    assert session.look().story == ["1 started", f"1 {GOOD}"]


def test_a_process_that_is_gone_is_given_time_for_its_last_lines() -> None:
    session = headless().prompt().look("alive").wait(3600).look("gone").wait(GRACE - 0.1).look("gone")
    assert session.story == ["1 started"]
    assert session.closes().settled("gone").story == ["1 started", f"1 {GOOD}"]


def test_a_process_that_comes_back_is_given_all_of_the_time_again() -> None:
    session = headless().prompt().look("gone").wait(4).look("alive").wait(4).look("gone").wait(4).look("gone")
    assert session.story == ["1 started"]
    assert session.wait(1).look("gone").story == ["1 started", f"1 {KILLED}"]


def test_a_clock_that_was_set_back_ends_nothing_early() -> None:
    session = headless().prompt().wait(900).look("gone").wait(-500).look("gone").wait(4).look("gone")
    assert session.story == ["1 started"]
    assert session.wait(1).look("gone").story == ["1 started", f"1 {KILLED}"]


def test_an_end_is_believed_though_the_clock_was_set_back_a_day_after_it() -> None:
    session = headless().prompt().closes().wait(-DAY).look("alive")
    assert session.story == ["1 started", f"1 {GOOD}"]


def test_the_process_is_remembered_when_its_traces_are_gone() -> None:
    session = headless().prompt().look("alive", FIRST).look("unknown")
    assert session.followed.process == FIRST
    assert session.look("alive", SECOND).followed.process == SECOND


def test_a_process_that_wrote_an_earlier_attempt_says_nothing_of_the_next_one() -> None:
    session = seated().prompt().look("alive", FIRST).closes().settled("gone", FIRST).prompt()
    session.settled("gone", FIRST).wait(DAY).settled("gone", FIRST)
    assert session.story == ["1 started", f"1 {GOOD} by process_gone", "2 started"]
    assert session.followed.process is None
    assert session.settled("gone", SECOND).story[3:] == [f"2 {KILLED}"]


@pytest.mark.parametrize("writer", [FIRST, None])
def test_a_process_that_came_after_the_last_end_wrote_the_next_attempt(
    writer: RecordedProcess | None,
) -> None:
    session = headless().prompt().look("alive", writer).closes(ERROR).settled("gone", writer)
    session.look("alive", SECOND).wait(60)
    assert session.prompt().settled("gone", SECOND).story[2:] == ["2 started", f"2 {KILLED}"]
    session.prompt().settled("gone", SECOND)
    assert session.followed.process is None, "the third attempt was written by another one"


def test_one_process_may_write_several_attempts() -> None:
    session = headless().prompt().look("alive", FIRST).closes().prompt().settled("alive", FIRST)
    assert session.wait(60).settled("gone", FIRST).story == [
        "1 started",
        f"1 {GOOD}",
        "2 started",
        f"2 {KILLED}",
    ]


def test_a_lock_that_nobody_holds_is_about_whoever_writes_now() -> None:
    session = headless().prompt().look("alive", FIRST).closes().settled("gone").prompt().settled("gone")
    assert session.story == ["1 started", f"1 {GOOD}", "2 started", f"2 {KILLED}"]


def test_what_was_open_when_the_machine_went_down_was_killed() -> None:
    session = Session(rule=RULE._replace(booted_at=500.0)).prompt().wait(600).settled()
    assert session.story == ["1 started", f"1 {KILLED}"]
    assert session.ended[0].at == 100.0
    later = Session(rule=RULE._replace(booted_at=50.0)).prompt().wait(600).settled()
    assert later.story == ["1 started"]
    alive = Session(rule=RULE._replace(booted_at=500.0)).prompt().wait(600).settled("alive")
    assert alive.story == ["1 started"]


def test_what_rests_until_a_person_comes_outlives_the_machines_going_down() -> None:
    rule = RULE._replace(booted_at=500.0, names_process=False)
    session = Session(rule=rule).prompt().line(waiting=True).wait(600).settled()
    assert session.story == ["1 started"]
    assert session.line(waiting=False).wait(-550).line().wait(550).settled().story[1:] == [f"1 {KILLED}"]


def test_silence_ends_what_nobody_can_judge_where_the_root_says_so() -> None:
    session = Session(rule=RULE._replace(stale_after=1800.0)).prompt().settled()
    assert session.story == ["1 started", "1 run.aborted.stale by quiet"]
    alive = Session(rule=RULE._replace(stale_after=1800.0)).prompt().wait(DAY).settled("alive")
    assert alive.story == ["1 started"]


def test_what_was_presumed_over_and_goes_on_is_another_attempt() -> None:
    stale = Session(rule=RULE._replace(stale_after=1800.0)).prompt().settled()
    assert stale.look().story == ["1 started", "1 run.aborted.stale by quiet"], "nothing is new"
    assert stale.line().look().story[2:] == ["2 started"]
    assert stale.closes().settled().story[3:] == ["2 run.completed.ok"]
    assert Session(rule=stale.rule).prompt().settled().closes().settled().story[2:] == [
        "2 started",
        "2 run.completed.ok",
    ]


def test_what_says_that_it_began_and_writes_nothing_is_over_after_the_time_that_its_root_gives_it() -> None:
    rule = RULE._replace(start_within=60.0, names_process=False)
    silent = Session(rule=rule).prompt().line(counts=Counts()).settled()
    assert silent.story == ["1 started", "1 run.aborted.never_started by deadline"]
    assert silent.line(counts=Counts(1)).look().story[2:] == ["2 started"]
    assert Session(rule=rule).prompt().wait(DAY).settled().story == ["1 started"]


def test_where_it_stands_is_told_beside_the_events() -> None:
    session = headless().prompt()
    active, idle = (session.looked(Writer("alive", status=status)) for status in ("busy", "idle"))
    assert active.standing is not None
    assert idle.standing is not None
    assert (active.standing.activity, idle.standing.activity) == ("active", "idle")
    assert session.settled().last is not None
    assert session.last is not None
    assert session.last.standing is not None
    assert session.last.standing.state == "unknown"


def test_a_boundary_that_one_file_told_is_not_drawn_again_when_another_tells_it() -> None:
    session = headless().prompt().closes(ERROR)
    session.told = session.told._replace(declared=True)
    session.look().wait(9)
    session.told = session.told._replace(declared=False)
    session.goes_on().look()  # its status file says that it runs again
    session.line(turns=2)
    session.unread.append(Resumed(2, ERROR._replace(at=100.0), session.now, 1, 100.0))  # and now its log
    assert session.look().story == ["1 started", "1 run.failed.api_error", "2 started"]
    assert session.closes().settled().story[3:] == [f"2 {GOOD}"]


def test_the_process_is_remembered_before_anything_was_asked_of_it() -> None:
    session = seated().line().look("alive", FIRST)
    assert (session.story, session.followed.process) == ([], FIRST)
    assert session.prompt().look("alive", SECOND, complete=False).followed.process == SECOND


def test_a_missed_attempt_began_when_its_files_say() -> None:
    session = ended_well().settled().wait(50)
    began_at = session.now
    session.prompt().wait(10).closes().wait(9).prompt().look()
    assert [event.at for event in session.started] == [100.0, began_at, began_at + 19]
    assert [event.at for event in session.ended] == [105.0, began_at + 10]


@pytest.mark.parametrize("tells_when", [True, False])
def test_an_attempt_that_began_without_a_prompt_may_be_missed_as_well(tells_when: bool) -> None:
    session = ended_well().settled().wait(50)
    began_at = session.now
    session.line(turn="open", close=None, turns=2)  # a background task's result, say
    if tells_when:
        session.line(started_at=began_at)
    session.wait(10).closes(ERROR).wait(9).prompt().look()
    assert session.story[2:] == ["2 started", "2 run.failed.api_error", "3 started"]
    assert [event.at for event in session.started[1:]] == [
        began_at if tells_when else began_at + 10,
        began_at + 19,
    ]


def test_an_attempt_that_goes_on_in_another_time_begins_then() -> None:
    session = ended_well().settled().wait(50).line(turn="open", close=None, turns=2)
    session.told = session.told._replace(started_at=session.now - 20)
    assert session.wait(5).look().started[1].at == session.now - 25


def test_a_file_that_is_gone_is_looked_for_again_when_its_time_is_over() -> None:
    session = headless().prompt().look("alive").lost()
    assert session.last is not None
    assert session.last.again_in == GRACE
    session.wait(GRACE - 2).lost()
    assert (session.last.again_in, session.story) == (2.0, ["1 started"])
    assert session.wait(-100).lost().wait(GRACE - 1).lost().story == ["1 started"], "the clock was set back"
    session.wait(1).lost()
    assert session.story == ["1 started", f"1 {GONE_FILES}"]
    assert session.ended[0].at == session.now - GRACE


# --- a long first reading, in portions


def test_in_the_middle_of_a_long_reading_nothing_ends_that_may_go_on() -> None:
    session = ended_well().wait(DAY).look("gone", complete=False)
    assert session.story == []
    assert session.followed.attempt == 0
    session.prompt().look("gone", complete=False)
    assert session.story == ["1 started", f"1 {GOOD}", "2 started"]
    assert session.closes().wait(DAY).look("gone", complete=False).story[3:] == []
    assert session.settled("gone").story[3:] == [f"2 {GOOD}"]


def test_a_file_that_is_read_again_from_its_beginning_tells_nothing_twice() -> None:
    session = ended_well().prompt().closes(ERROR).prompt().look("alive")
    before = session.story
    again = ended_well().prompt().closes(ERROR)
    first, story = list(again.unread), session.told
    session.told, session.unread = again.told, first
    session.look("alive", complete=False)
    again.prompt()
    session.told, session.unread = story, again.unread[1:]
    assert session.settled("alive").story == before


# --- history


def past(**rule: float) -> Session:
    session = Session(rule=HISTORY._replace(**rule))  # type: ignore[arg-type] # names real fields
    session.now = FIRST_SEEN - 10 * DAY
    return session


def test_what_ended_before_its_root_was_first_seen_is_history_every_attempt_of_it() -> None:
    session = past().prompt().closes(ERROR).prompt().closes().wait(20 * DAY).settled()
    assert session.story == [
        "1 started (history)",
        "1 run.failed.api_error (history)",
        "2 started (history)",
        f"2 {GOOD} (history)",
    ]
    assert session.wait(9).prompt().settled().story[4:] == ["3 started"]


def test_of_a_session_that_goes_on_only_what_ended_before_is_history() -> None:
    session = past().prompt().closes().wait(10 * DAY - 3).prompt().wait(5).settled("alive")
    assert session.story == ["1 started (history)", f"1 {GOOD} (history)", "2 started"]
    assert session.wait(9).closes().settled("alive").story[3:] == [f"2 {GOOD}"]


def test_what_ends_after_its_root_was_first_seen_is_none() -> None:
    session = past().prompt().wait(11 * DAY).closes().settled()
    assert session.story == ["1 started", f"1 {GOOD}"]


def test_where_the_root_is_live_there_is_none() -> None:
    session = past(records_history=False).prompt().closes().prompt().closes().wait(20 * DAY).settled()
    assert session.story == ["1 started", f"1 {GOOD}", "2 started", f"2 {GOOD}"]


def test_a_killed_session_of_before_is_history_once_it_had_its_time() -> None:
    session = past().prompt().wait(20 * DAY).look("gone")
    assert session.last is not None
    assert (session.story, session.last.again_in) == ([], GRACE)
    assert session.wait(GRACE).look("gone").story == ["1 started (history)", f"1 {KILLED} (history)"]


def test_one_that_turns_out_to_live_is_none() -> None:
    session = past().prompt().wait(20 * DAY).look("gone").line().settled("alive")
    assert session.story == ["1 started"]


def test_what_nobody_can_tell_about_and_was_quiet_for_long_is_history() -> None:
    stale = past().prompt().wait(20 * DAY).settled()
    assert stale.story == ["1 started (history)", "1 run.aborted.stale by quiet (history)"]
    assert stale.ended[0].reason_summary == (
        "nothing had been heard of it for 10 days when its root was first seen"
    )
    assert stale.ended[0].at == FIRST_SEEN - 10 * DAY
    assert stale.last is not None
    assert stale.last.standing is not None
    assert (stale.last.standing.state, stale.last.standing.evidence) == ("aborted", "quiet")
    left = Session(False, HISTORY, FIRST_SEEN - 2 * DAY).prompt().closes().wait(20 * DAY).settled()
    assert left.story == ["1 started (history)", f"1 {GOOD} by quiet (history)"]


@pytest.mark.parametrize("liveness", ["unknown", "alive"])
def test_what_was_quiet_for_less_or_lives_goes_on(liveness: str) -> None:
    quiet = LONG_QUIET if liveness == "unknown" else 9 * LONG_QUIET
    session = Session(False, HISTORY, FIRST_SEEN - quiet).prompt().wait(quiet + 5)
    assert session.settled(liveness).story == ["1 started"]  # type: ignore[arg-type] # one of the states
    session.wait(DAY).settled("gone")
    assert session.story[1:] == [f"1 {KILLED}"]


def test_a_session_that_was_history_goes_on_as_any_other() -> None:
    session = past().prompt().wait(20 * DAY).settled().closes().settled()
    assert session.story[2:] == ["2 started", f"2 {GOOD}"]


def test_a_long_reading_in_portions_knows_history_too() -> None:
    session = past().prompt().look(complete=False).closes().look(complete=False)
    assert session.story == []
    session.prompt().look(complete=False)
    assert session.story == ["1 started (history)", f"1 {GOOD} (history)"]
    assert session.closes(ERROR).look(complete=False).story[2:] == []
    assert session.wait(20 * DAY).settled().story[2:] == [
        "2 started (history)",
        "2 run.failed.api_error (history)",
    ]


# --- what is stored


def test_a_process_is_stored_with_what_is_remembered() -> None:
    session = headless().prompt().look("alive", RecordedProcess(7, 8, "b")).closes(ERROR).settled("alive")
    assert session.settled().followed.process == RecordedProcess(7, 8, "b")
    assert session.followed.close is not None
    assert session.followed.close.reason_code == "run.failed.api_error"


ABSENCE = Absence((FIRST,), is_in_first_namespace=True, is_local=True, is_nowhere=True)


def looked(session: Session, moved: float, *, grew: bool = True, absence: Absence = ABSENCE) -> bool:
    """Whether a look at growth of this moment, while its process is missing, shows that others write there."""
    writer = Writer("gone", process=FIRST, absence=absence)
    sign = Sign(session.told, (), writer, session.now + moved, session.now, complete=True, grew=grew)
    found = follow(stored(session.followed), KEY, DECLARED, session.rule, sign)
    session.take(found)
    return found.grew_elsewhere


def test_the_last_lines_of_a_process_that_ended_show_no_other_machine() -> None:
    session = Session().prompt()
    assert not looked(session, 0.0)
    session.wait(3.0)
    assert not looked(session, -3.0)
    assert not looked(session, -2.5)


@pytest.mark.parametrize("grew", [True, False])
def test_lines_that_come_after_a_process_was_missed_are_another_machines(grew: bool) -> None:
    session = Session().prompt()
    assert not looked(session, 0.0)
    assert looked(session.wait(3.0), 0.0, grew=grew) == grew


def test_lines_after_another_process_was_missed_may_be_its_own() -> None:
    session = Session().prompt()
    assert not looked(session, 0.0)
    assert not looked(session.wait(3.0), 0.0, absence=ABSENCE._replace(named=(SECOND,)))


def test_a_clock_that_was_set_back_shows_no_other_machine() -> None:
    session = Session().prompt()
    assert not looked(session, 0.0)
    assert not looked(session.wait(-100.0), 2.0)


def driven(session: Session, began_at: float | None) -> Session:
    """Looks while a program drives the session's process, which began then, and which says that it is idle."""
    for _ in range(3):
        session.take(session.looked(Writer("alive", "idle", FIRST), began_at=began_at)).wait(2.5)
    return session


@pytest.mark.parametrize("looks", ["after each turn", "at the end"])
def test_a_process_that_a_program_gives_one_prompt_after_another_has_one_attempt(looks: str) -> None:
    session = Session(now=100.0)
    for _ in range(3):
        session.prompt().wait(5).closes().wait(1)
        if looks == "after each turn":
            driven(session, 99.0)
            assert session.last is not None
            assert session.last.standing is not None
            assert session.last.standing.activity == "idle"
    driven(session, 99.0)
    assert session.story == ["1 started"]
    assert session.started[0].at == 100.0
    session.settled("gone", FIRST)
    assert session.story == ["1 started", f"1 {GOOD}"]


@pytest.mark.parametrize("looks", ["after each turn", "at the end"])
def test_nor_do_its_turns_become_attempts_when_its_file_is_read_again(looks: str) -> None:
    session = Session(now=100.0)
    read = []
    for _ in range(3):
        session.prompt().wait(5).closes().wait(1)
        read += session.unread
        if looks == "after each turn":
            driven(session, 99.0)
    driven(session, 99.0)
    session.unread = read
    session.settled("gone", FIRST)
    assert session.story == ["1 started", f"1 {GOOD}"]


def test_a_process_that_resumes_what_another_ended_begins_the_next_attempt() -> None:
    session = Session(now=100.0).prompt().wait(5).closes().wait(10)
    driven(session, 99.0)
    session.prompt().wait(5).closes().wait(1)
    driven(session, 110.0)
    assert session.story == ["1 started", f"1 {GOOD}", "2 started"]


def test_each_prompt_of_a_run_without_a_waiting_process_is_an_attempt_as_before() -> None:
    session = Session(now=100.0)
    for _ in range(2):
        driven(session.prompt().wait(5).closes().wait(1), None)
    assert session.story == ["1 started", f"1 {GOOD}", "2 started"]


def test_a_killed_session_ended_when_its_process_was_last_known_alive() -> None:
    session = Session(now=100.0).prompt().look("alive", FIRST)
    session.wait(16).look("alive", FIRST).wait(2).settled("gone", FIRST)
    (end,) = session.ended
    assert (end.at, end.gone_by) == (116.0, 118.0)


def test_a_killed_session_whose_process_was_never_seen_ended_with_its_last_line() -> None:
    session = Session(now=100.0).prompt().wait(50).settled("gone", FIRST)
    (end,) = session.ended
    assert (end.at, end.gone_by) == (100.0, 150.0)


def test_a_line_that_came_after_the_last_look_shows_that_the_process_lived_until_then() -> None:
    session = Session(now=100.0).prompt().look("alive", FIRST).wait(10).line().wait(5).settled("gone", FIRST)
    (end,) = session.ended
    assert (end.at, end.gone_by) == (110.0, 115.0)


def test_a_person_who_left_was_there_until_their_process_was_last_known_alive() -> None:
    session = Session(headless=False, now=100.0).prompt().closes().look("alive", FIRST)
    session.wait(600).look("alive", FIRST).wait(1).settled("gone", FIRST)
    (end,) = session.ended
    assert (end.reason_code, end.at, end.gone_by) == (GOOD, 700.0, 701.0)


def test_an_end_that_the_files_declare_is_at_its_own_time_however_long_the_process_lived() -> None:
    session = Session(now=100.0).prompt().closes().wait(30).settled("alive", FIRST)
    (end,) = session.ended
    assert (end.at, end.gone_by) == (100.0, None)


def test_a_clock_that_was_set_back_puts_no_end_after_the_moment_at_which_it_was_found() -> None:
    session = Session(now=100.0).prompt().look("alive", FIRST).wait(-50).settled("gone", FIRST)
    (end,) = session.ended
    assert end.gone_by is not None
    assert end.at <= end.gone_by
