"""Over or not: the rules as a table, and what holds whatever the files and the machine say."""

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.handlers.layouts.transcript import Close, Counts, Told, Turn
from runward.handlers.model.processes import ProcessState
from runward.handlers.model.reasons import ReasonCode, status_of
from runward.handlers.sessions.over import (
    GRACE,
    ROWS,
    SETTLE,
    WriterStatus,
    judge,
)
from runward.handlers.sessions.standing import NO_PROCESS, OPEN_TURN, Standing

OK = Close("completed", "run.completed.ok", "the turn ended", 90.0)
API_ERROR = Close("failed", "run.failed.exception", "the model answered 400", 90.0)
ESCAPE = Close("aborted", "run.aborted.user", "a person interrupted it", 90.0)
LONG = 10_000.0


def told(turn: Turn = "open", close: Close | None = None, headless: bool | None = True) -> Told:
    return Told("s", attempt=1, turn=turn, close=close, headless=headless, started_at=10.0, moved_at=95.0)


HEADLESS_OK = told("closed", OK)
HEADLESS_ERROR = told("closed", API_ERROR)
HEADLESS_STOPPED = told("closed", ESCAPE)
SEATED_OK = told("closed", OK, headless=False)
SEATED_ERROR = told("closed", API_ERROR, headless=False)
SEATED_STOPPED = told("closed", ESCAPE, headless=False)
WHO_KNOWS_OK = told("closed", OK, headless=None)
WHO_KNOWS_STOPPED = told("closed", ESCAPE, headless=None)
OPEN, SEATED_OPEN = told(), told(headless=False)
NOTHING_ASKED = told("none", headless=False)
NO_END = told("closed")

TABLE = [
    ("a headless run that ended well is over", HEADLESS_OK, "gone", "completed", "declared", 90.0),
    ("also while its process hangs about", HEADLESS_OK, "alive", "completed", "declared", 90.0),
    ("and where nobody knows its process", HEADLESS_OK, "unknown", "completed", "declared", 90.0),
    ("a headless run that ended in an error failed", HEADLESS_ERROR, "alive", "failed", "declared", 90.0),
    ("a headless run that was interrupted", HEADLESS_STOPPED, "alive", "aborted", "declared", 90.0),
    ("somebody sits before it: it is idle", SEATED_OK, "alive", "running", None, None),
    ("they left: it is over by that", SEATED_OK, "gone", "completed", "process_gone", 95.0),
    ("they may have left", SEATED_OK, "unknown", "unknown", None, None),
    ("an error that somebody sees", SEATED_ERROR, "alive", "running", None, None),
    ("an error, and they left", SEATED_ERROR, "gone", "failed", "process_gone", 95.0),
    ("an error that nobody may see", SEATED_ERROR, "unknown", "failed", "declared", 90.0),
    ("somebody pressed Escape", SEATED_STOPPED, "alive", "running", None, None),
    ("Escape was the last thing", SEATED_STOPPED, "gone", "aborted", "process_gone", 95.0),
    ("Escape, and nobody knows more", SEATED_STOPPED, "unknown", "aborted", "declared", 90.0),
    ("perhaps somebody sits before it", WHO_KNOWS_OK, "alive", "running", None, None),
    ("the process that it was, gone", WHO_KNOWS_OK, "gone", "completed", "process_gone", 95.0),
    ("nothing says that anybody sits there", WHO_KNOWS_OK, "unknown", "completed", "declared", 90.0),
    ("an interrupted one likewise", WHO_KNOWS_STOPPED, "unknown", "aborted", "declared", 90.0),
    ("it works", OPEN, "alive", "running", None, None),
    ("it was killed", OPEN, "gone", "aborted", "process_gone", 95.0),
    ("the window was closed while it worked", SEATED_OPEN, "gone", "aborted", "process_gone", 95.0),
    ("nobody can tell", OPEN, "unknown", "unknown", None, None),
    ("nothing was asked of it yet", NOTHING_ASKED, "alive", "running", None, None),
    ("nothing was ever asked of it", NOTHING_ASKED, "gone", "aborted", "process_gone", 95.0),
    ("nothing was asked, and nobody can tell", NOTHING_ASKED, "unknown", "unknown", None, None),
    ("a turn that closed without saying how", NO_END, "gone", "aborted", "process_gone", 95.0),
]


@pytest.mark.parametrize(
    ("says", "liveness", "state", "evidence", "ended_at"),
    [row[1:] for row in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_what_the_files_and_the_machine_say_amounts_to(
    says: Told, liveness: ProcessState, state: str, evidence: str | None, ended_at: float | None
) -> None:
    standing = judge(says, liveness, names_process=True, quiet_s=LONG)
    assert (standing.state, standing.evidence, standing.ended_at) == (state, evidence, ended_at)
    assert standing.again_in is None
    if state in ("running", "unknown"):
        assert standing.reason_code.split(".")[1] in ("started", "unknown")
    else:
        assert status_of(standing.reason_code) == state
    assert standing.reason_summary


@pytest.mark.parametrize(
    ("says", "liveness", "activity"),
    [
        (OPEN, "alive", "active"),
        (SEATED_OK, "alive", "idle"),
        (SEATED_STOPPED, "alive", "idle"),
        (NOTHING_ASKED, "alive", "idle"),
        (OPEN._replace(waiting=True), "alive", "waiting"),
        (OPEN._replace(waiting=True), "unknown", "waiting"),
        (OPEN, "unknown", None),
        (SEATED_OK, "unknown", None),
        (OPEN._replace(waiting=True), "gone", None),
        (HEADLESS_OK, "alive", None),
    ],
)
def test_beside_the_state_stands_what_it_does(
    says: Told, liveness: ProcessState, activity: str | None
) -> None:
    assert judge(says, liveness, True, LONG).activity == activity


@pytest.mark.parametrize(
    ("says", "status", "activity"),
    [
        (OPEN, "busy", "active"),
        (OPEN, "idle", "idle"),
        (OPEN, "waiting", "waiting"),
        (OPEN._replace(waiting=True), "idle", "waiting"),
        (SEATED_OK, "waiting", "idle"),
        (SEATED_OK, "busy", "idle"),
        (NOTHING_ASKED, "waiting", "idle"),
    ],
)
def test_a_living_process_may_say_itself_what_it_does_in_an_open_turn(
    says: Told, status: WriterStatus, activity: str
) -> None:
    standing = judge(says, "alive", True, LONG, status=status)
    assert (standing.state, standing.activity) == ("running", activity)
    assert judge(says, "gone", True, LONG, status=status) == judge(says, "gone", True, LONG)


def test_a_rest_of_a_wait_that_no_clock_can_tell_is_over() -> None:
    assert judge(HEADLESS_OK, "alive", True, SETTLE - 1e-7).again_in is None


def test_a_root_may_have_a_settle_time_of_its_own() -> None:
    assert judge(HEADLESS_OK, "alive", True, SETTLE, settle=7.0).again_in == 7.0 - SETTLE


def test_a_run_that_says_it_waits_for_a_person_needs_no_process_where_its_tool_names_none() -> None:
    blocked = OPEN._replace(waiting=True, headless=True)
    standing = judge(blocked, "unknown", False, LONG)
    assert (standing.state, standing.evidence, standing.activity) == ("running", None, "waiting")
    assert judge(blocked, "unknown", False, LONG, stale_after=LONG / 2).state == "aborted"


@pytest.mark.parametrize(
    ("says", "names_process", "code"),
    [
        (OPEN, True, OPEN_TURN),
        (OPEN, False, NO_PROCESS),
        (SEATED_OK, True, NO_PROCESS),
        (SEATED_OK, False, NO_PROCESS),
    ],
    ids=["no pid file", "a bare `running`", "idle, or left", "idle, or left, of a tool that names nobody"],
)
def test_what_nobody_can_judge_says_why(says: Told, names_process: bool, code: str) -> None:
    standing = judge(says, "unknown", names_process, LONG)
    assert (standing.state, standing.reason_code) == ("unknown", code)


def test_a_resumed_session_says_so() -> None:
    assert judge(OPEN._replace(attempt=2), "alive", True, 0).reason_code == "run.started.resumed"
    assert judge(OPEN, "alive", True, 0).reason_code == "run.started.ok"


@pytest.mark.parametrize(
    ("says", "liveness", "wait"),
    [
        (HEADLESS_OK, "unknown", SETTLE),
        (HEADLESS_ERROR, "alive", SETTLE),
        (OPEN, "gone", GRACE),
        (SEATED_OK, "gone", GRACE),
    ],
    ids=["an end", "an error", "a kill", "a window closed"],
)
def test_an_end_in_a_growing_file_is_believed_after_a_while(
    says: Told, liveness: ProcessState, wait: float
) -> None:
    fresh = judge(says, liveness, True, 0.0)
    later = judge(says, liveness, True, wait - 0.5)
    assert (fresh.again_in, later.again_in) == (wait, 0.5)
    assert judge(says, liveness, True, wait) == fresh._replace(again_in=None)
    assert judge(says, liveness, True, -7.0) == fresh, "the clock was set back"


def test_an_end_in_a_file_that_was_written_whole_counts_at_once() -> None:
    for liveness in get_args(ProcessState):
        standing = judge(HEADLESS_OK._replace(declared=True, headless=None), liveness, False, 0.0)
        assert (standing.state, standing.evidence, standing.again_in) == ("completed", "declared", None)


def test_silence_ends_only_what_nobody_can_judge_and_only_where_the_root_says_so() -> None:
    standing = judge(OPEN, "unknown", True, 1800.0, stale_after=1800.0)
    assert (standing.state, standing.evidence, standing.reason_code) == (
        "aborted",
        "quiet",
        "run.aborted.stale",
    )
    assert standing.ended_at == 95.0
    assert judge(OPEN, "unknown", True, 1700.0, stale_after=1800.0).again_in == 100.0
    assert judge(OPEN, "unknown", True, 1700.0, stale_after=1800.0).state == "unknown"


def test_what_began_without_a_line_is_judged_after_the_time_that_its_root_gives_it() -> None:
    def judged(says: Told, quiet_s: float, liveness: ProcessState = "unknown") -> Standing:
        return judge(says, liveness, False, quiet_s, stale_after=1800.0, start_within=60.0)

    standing = judged(OPEN, 60.0)
    assert (standing.state, standing.evidence, standing.reason_code) == (
        "aborted",
        "deadline",
        "run.aborted.never_started",
    )
    assert (judged(OPEN, 20.0).state, judged(OPEN, 20.0).again_in) == ("unknown", 40.0)
    assert judged(OPEN, LONG, "alive").state == "running", "no living process is ended by silence"
    begun = OPEN._replace(counts=Counts(events=1))
    assert (judged(begun, 60.0).state, judged(begun, 60.0).again_in) == ("unknown", 1740.0)
    assert judged(OPEN._replace(waiting=True), 60.0).state == "running", "it rests until a person comes"
    assert judge(OPEN, "unknown", False, LONG).state == "unknown", (
        "where the root says nothing, nothing ends it"
    )


def test_every_case_is_in_the_table_once() -> None:
    cases = [case for row in ROWS for case in product(row.turns, row.headless, row.processes)]
    turns = ("open", "closed well", "closed badly")
    assert sorted(map(repr, cases)) == sorted(
        map(repr, product(turns, (True, False, None), get_args(ProcessState)))
    )


closes = st.sampled_from([code for code in get_args(ReasonCode) if not code.startswith("run.started.")]).map(
    lambda code: Close(status_of(code), code, "so it said", 90.0)
)
any_told = st.builds(
    Told,
    attempt=st.integers(0, 3),
    turn=st.sampled_from(get_args(Turn)),
    close=st.none() | closes,
    declared=st.booleans(),
    headless=st.sampled_from([True, False, None]),
    waiting=st.booleans(),
    started_at=st.none() | st.just(10.0),
    moved_at=st.none() | st.just(95.0),
)
lives = st.sampled_from(get_args(ProcessState))
silences = st.floats(-10, 1e7)


@given(any_told, lives, st.booleans(), silences)
def test_completed_is_only_what_the_agent_called_an_end(
    says: Told, liveness: ProcessState, names_process: bool, quiet_s: float
) -> None:
    standing = judge(says, liveness, names_process, quiet_s)
    if standing.state == "completed":
        assert says.close is not None
        assert says.close.status == "completed"
        assert says.declared or says.turn == "closed"


@given(any_told, st.booleans(), silences, silences, st.none() | st.floats(1, 1e6))
def test_silence_ends_no_living_process(
    says: Told, names_process: bool, quiet_s: float, longer: float, stale_after: float | None
) -> None:
    one = judge(says, "alive", names_process, quiet_s, stale_after)
    other = judge(says, "alive", names_process, quiet_s + abs(longer), stale_after)
    assert one._replace(again_in=None) == other._replace(again_in=None)
    assert one.state == "running" or says.close is not None


@given(any_told, lives, st.booleans(), silences, silences)
def test_waiting_changes_only_how_far_an_answer_is_believed(
    says: Told, liveness: ProcessState, names_process: bool, quiet_s: float, longer: float
) -> None:
    one = judge(says, liveness, names_process, quiet_s)
    other = judge(says, liveness, names_process, quiet_s + abs(longer))
    assert one._replace(again_in=None) == other._replace(again_in=None)
    assert (other.again_in or 0.0) <= (one.again_in or 0.0)


@given(any_told, lives, st.booleans(), silences)
def test_an_end_has_its_evidence_and_what_goes_on_has_none(
    says: Told, liveness: ProcessState, names_process: bool, quiet_s: float
) -> None:
    standing = judge(says, liveness, names_process, quiet_s)
    goes_on = standing.state in ("running", "unknown")
    assert (standing.evidence is None) == goes_on
    assert standing.state != "unknown" or liveness == "unknown"
    if goes_on:
        assert standing.ended_at is None
    else:
        assert standing.activity is None
    if standing.evidence == "process_gone":
        assert liveness == "gone"


@pytest.mark.parametrize("says", [HEADLESS_OK, HEADLESS_ERROR, HEADLESS_STOPPED, SEATED_OK])
def test_a_living_process_that_says_it_is_idle_waits_for_its_next_prompt_whoever_drives_it(
    says: Told,
) -> None:
    standing = judge(says, "alive", True, LONG, status="idle")
    assert (standing.state, standing.evidence, standing.activity) == ("running", None, "idle")


@pytest.mark.parametrize(("liveness", "status"), [("alive", None), ("gone", "idle"), ("unknown", None)])
def test_a_headless_run_is_over_unless_its_process_lives_and_says_that_it_is_idle(
    liveness: ProcessState, status: WriterStatus | None
) -> None:
    standing = judge(HEADLESS_OK, liveness, True, LONG, status=status)
    assert (standing.state, standing.evidence) == ("completed", "declared")


def test_a_process_that_went_on_with_another_session_left_this_one() -> None:
    seated = judge(SEATED_OK, "gone", True, LONG, left=True)
    assert (seated.state, seated.evidence, seated.reason_summary) == (
        "completed",
        "process_gone",
        OK.reason_summary,
    )
    working = judge(SEATED_OPEN, "gone", True, LONG, left=True)
    assert (working.state, working.reason_code) == ("aborted", "run.aborted.process_gone")
    assert working.reason_summary == "its process went on with another session"
