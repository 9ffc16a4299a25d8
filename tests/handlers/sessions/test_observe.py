"""Histories of looks at one run directory, and the events that follow from them."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.handlers.sessions.history import BROKEN, CLEAN, KEY, RUN, History

from runward.config.json_value import JsonValue
from runward.handlers.model.flows import FlowPlanned
from runward.handlers.model.processes import ProcessState, RecordedProcess
from runward.handlers.model.sessions import AttemptEnded, AttemptStarted, Launch
from runward.handlers.sessions import observe
from runward.handlers.sessions.observe import (
    GRACE,
    MOST_FILLED,
    MOST_PLANS,
    RootRule,
    load_watched,
    together,
    without_plan,
)

OK, GONE, VANISHED = "run.completed.ok", "run.aborted.process_gone", "run.aborted.vanished"
LAUNCHED: JsonValue = {
    "schema": "runward-run-v1",
    "launcher": {"pid": 7, "start_ticks": 1, "boot_id": "b"},
    "host": "box",
}


SECRET = "only the launcher knows"
LAUNCHER, COMMAND = RecordedProcess(70, 1, "b"), RecordedProcess(71, 2, "b")
LAUNCH = Launch(1.0, hashlib.sha256(SECRET.encode()).hexdigest(), None, LAUNCHER, COMMAND)
TRUE_END: JsonValue = {"exit_code": 1, "cause": "exited", "secret": SECRET}


def running() -> History:
    return History().put("run.json", RUN).look()


def finished() -> History:
    return running().put("exit.json", CLEAN).look()


def test_a_run_starts_with_its_first_file_and_ends_with_its_last() -> None:
    assert running().told == ["1 started"]
    assert finished().told == ["1 started", f"1 {OK}"]


def test_a_run_that_is_seen_only_at_its_end_starts_and_ends_in_one_look() -> None:
    history = History().put("run.json", RUN).put("exit.json", CLEAN).look()
    assert history.told == ["1 started", f"1 {OK}"]
    start = history.events[0]
    assert isinstance(start, AttemptStarted)
    assert start.seen_over


def test_looking_again_at_the_same_files_says_nothing() -> None:
    for history in (running(), finished(), History().put("exit.json", CLEAN).look()):
        before, told = history.watched, history.told
        assert history.look().look().told == told
        assert history.watched == before


@pytest.mark.parametrize("first", ["exit.json", "process.json"])
def test_files_that_arrive_in_the_order_of_a_copy_count_once_the_start_is_there(first: str) -> None:
    history = History().put(
        first, CLEAN if first == "exit.json" else {"pid": 9, "start_ticks": 1, "boot_id": "b"}
    )
    assert history.look().told == []
    history.put("run.json", RUN).look()
    if first == "exit.json":
        assert history.told == ["1 started", f"1 {OK}"]
    else:
        assert history.told == ["1 started"]
        assert history.watched.process == RecordedProcess(9, 1, "b")


def test_an_end_beside_a_broken_start_counts_when_the_start_is_fixed() -> None:
    history = History().put("run.json", BROKEN).put("exit.json", CLEAN).look()
    assert history.told == []
    assert history.put("run.json", RUN).look().told == ["1 started", f"1 {OK}"]
    assert history.complaints == []


def test_a_broken_end_is_complained_of_while_it_stands_and_ends_nothing() -> None:
    history = running().put("exit.json", BROKEN).look()
    assert history.told == ["1 started"]
    assert len(history.complaints) == 1
    assert history.look().complaints == history.complaints
    assert history.put("exit.json", CLEAN).look().told == ["1 started", f"1 {OK}"]
    assert history.complaints == []


def test_a_broken_end_that_is_removed_is_complained_of_no_longer() -> None:
    history = running().put("exit.json", BROKEN).look()
    assert history.remove("exit.json").look().complaints == []


def test_an_ended_run_whose_start_is_only_touched_stays_ended() -> None:
    history = finished()
    assert history.touch("run.json").look().touch("run.json").look().told == ["1 started", f"1 {OK}"]


@pytest.mark.parametrize(
    "start", [RUN, LAUNCHED, {"schema": "runward-run-v1", "started_at": "2026-02-03T04:05:06Z"}]
)
@pytest.mark.parametrize("files", [("run.json",), ("exit.json",), ("run.json", "exit.json")])
def test_an_ended_run_whose_files_are_touched_or_copied_without_their_times_stays_ended(
    start: JsonValue, files: tuple[str, ...]
) -> None:
    history = History().put("run.json", start).look().put("exit.json", CLEAN).look()
    for name in files:
        history.touch(name)
    assert history.look().told == ["1 started", f"1 {OK}"]
    for name in files:
        history.put(name, start if name == "run.json" else CLEAN)
    assert history.look().look().told == ["1 started", f"1 {OK}"]
    assert history.complaints == []


@pytest.mark.parametrize("start", [RUN, LAUNCHED])
@pytest.mark.parametrize("end", [CLEAN, None])
def test_what_changes_only_how_a_file_is_known_has_it_read_again_and_means_nothing(
    start: JsonValue, end: JsonValue
) -> None:
    history = (
        History().put("run.json", start).put("process.json", {"pid": 9, "start_ticks": 1, "boot_id": "b"})
    )
    if end is not None:
        history.put("exit.json", end)
    told, watched = history.look().told, history.watched
    for name in list(history.files):
        assert history.change_status(name).look().told == told
    assert history.mount_elsewhere().look().told == told
    assert history.remember_as_earlier().look().told == told
    assert history.complaints == []
    assert history.watched._replace(signatures=watched.signatures) == watched


@pytest.mark.parametrize("start", [RUN, LAUNCHED])
def test_a_run_that_never_said_how_it_ended_stays_over_when_it_is_copied_without_its_times(
    start: JsonValue,
) -> None:
    named: JsonValue = {"pid": 9, "start_ticks": 1, "boot_id": "b"}
    history = History().put("run.json", start).put("process.json", named).look()
    history.weigh("gone", 0.0).weigh("gone", GRACE)
    assert history.told == ["1 started", f"1 {GONE}"]
    history.touch("run.json").look()
    history.put("run.json", start).put("process.json", named).look()
    assert history.told == ["1 started", f"1 {GONE}"]
    other: JsonValue = {"pid": 10, "start_ticks": 2, "boot_id": "b"}
    again: JsonValue = {"schema": "runward-run-v1", "started_at": "2026-02-03T04:05:06Z"}
    assert history.put("run.json", again).put("process.json", other).look().told[2:] == ["2 started"]


def test_a_run_of_a_launcher_is_the_same_one_also_without_its_end() -> None:
    history = History().put("run.json", LAUNCHED).look().put("exit.json", CLEAN).look()
    history.remove("exit.json").touch("run.json").look().put("exit.json", CLEAN).look()
    assert history.told == ["1 started", f"1 {OK}"]


def test_a_running_run_whose_start_is_rewritten_goes_on() -> None:
    history = running().put("run.json", LAUNCHED).look()
    assert history.told == ["1 started"]
    assert history.put("exit.json", CLEAN).look().told == ["1 started", f"1 {OK}"]


@pytest.mark.parametrize("forged", [CLEAN, {"exit_code": 0, "cause": "exited", "secret": "a guess"}])
def test_only_the_launcher_ends_a_run_that_it_recorded(forged: JsonValue) -> None:
    history = History(launch=LAUNCH).put("run.json", RUN).put("exit.json", forged).look()
    assert history.told == ["1 started"]
    assert len(history.complaints) == 1
    assert history.put("exit.json", TRUE_END).look().told == ["1 started", "1 run.failed.exit_nonzero"]
    assert history.complaints == []


def test_the_processes_are_those_that_the_launcher_recorded_whatever_the_files_say() -> None:
    history = History(launch=LAUNCH).put("run.json", LAUNCHED).look()
    history.put("process.json", {"pid": 9, "start_ticks": 1, "boot_id": "b"}).look()
    assert (history.watched.launcher, history.watched.process) == (LAUNCHER, COMMAND)
    assert history.weigh("gone", 50.0).weigh("gone", 56.0).told == ["1 started", f"1 {GONE}"]


def test_a_forged_end_that_was_believed_is_corrected_by_the_launcher_s_own() -> None:
    history = finished()
    history.launch = LAUNCH
    assert history.put("exit.json", TRUE_END).look().told[2:] == ["2 started", "2 run.failed.exit_nonzero"]
    assert history.put("exit.json", {"exit_code": 0, "secret": SECRET}).look().told[4:] == []


def test_a_second_end_changes_nothing_and_is_complained_of() -> None:
    history = finished().put("exit.json", {"exit_code": 1}).look()
    assert history.told == ["1 started", f"1 {OK}"]
    assert history.complaints == ["exit.json: was written again after the end"]


def test_an_end_that_is_taken_away_and_written_again_changes_nothing() -> None:
    history = finished().remove("exit.json").look().put("exit.json", {"exit_code": 1}).look()
    assert history.told == ["1 started", f"1 {OK}"]


def test_a_directory_that_is_made_again_opens_the_next_attempt() -> None:
    history = finished().vanish()
    history.remove("run.json", "exit.json").put("run.json", RUN).look()
    assert history.told == ["1 started", f"1 {OK}", "2 started"]
    assert history.put("exit.json", {"exit_code": 1}).look().told[3:] == ["2 run.failed.exit_nonzero"]


def test_a_directory_that_is_made_again_between_two_looks_opens_the_next_attempt() -> None:
    history = finished().put("run.json", RUN).put("exit.json", {"exit_code": 1}).look()
    assert history.told == ["1 started", f"1 {OK}", "2 started", "2 run.failed.exit_nonzero"]


def test_a_directory_that_is_used_again_opens_the_next_attempt_once_the_old_end_is_gone() -> None:
    history = finished().put("run.json", RUN).look()
    assert history.told == ["1 started", f"1 {OK}"]
    history.remove("exit.json").look()
    assert history.told == ["1 started", f"1 {OK}", "2 started"]
    assert history.look().told == ["1 started", f"1 {OK}", "2 started"]


@pytest.mark.parametrize("copied", [False, True])
def test_an_ended_run_that_is_moved_or_copied_away_and_back_is_the_same_run(copied: bool) -> None:
    history = finished().vanish()
    if copied:
        history.copy_back()
    assert history.look().told == ["1 started", f"1 {OK}"]
    assert history.complaints == []


def test_a_running_run_that_is_moved_away_is_aborted_and_goes_on_as_the_next_attempt_when_it_is_back() -> (
    None
):
    history = running().vanish(now=60.0)
    assert history.told == ["1 started", f"1 {VANISHED}"]
    assert history.events[-1].at == 60.0
    assert history.vanish(now=70.0).told == ["1 started", f"1 {VANISHED}"]
    assert history.look().told[2:] == ["2 started"]
    assert history.put("exit.json", CLEAN).look().told[3:] == [f"2 {OK}"]


def test_a_run_that_comes_back_ended_opens_and_ends_the_next_attempt() -> None:
    history = running().vanish().put("exit.json", CLEAN).look()
    assert history.told == ["1 started", f"1 {VANISHED}", "2 started", f"2 {OK}"]


def test_a_directory_that_never_held_a_run_vanishes_without_a_word() -> None:
    history = History().put("run.json", BROKEN).look().vanish()
    assert history.told == []
    assert history.complaints == []
    assert history.look().complaints != []  # it is back, as wrong as it was


def test_a_process_that_is_gone_ends_its_run_after_the_grace() -> None:
    history = History().put("run.json", LAUNCHED).look()
    assert history.weigh("gone", 10.0).weigh("gone", 10.0 + GRACE - 0.1).told == ["1 started"]
    history.weigh("gone", 10.0 + GRACE)
    assert history.told == ["1 started", f"1 {GONE}"]
    end = history.events[-1]
    assert isinstance(end, AttemptEnded)
    assert (end.at, end.evidence, end.status) == (10.0, "process_gone", "aborted")


@pytest.mark.parametrize("between", ["alive", "unknown"])
def test_a_process_that_was_only_thought_gone_starts_the_grace_anew(between: ProcessState) -> None:
    history = History().put("run.json", LAUNCHED).look()
    history.weigh("gone", 10.0).weigh(between, 12.0).weigh("gone", 16.0)
    assert history.told == ["1 started"]
    assert history.weigh("gone", 16.0 + GRACE).told == ["1 started", f"1 {GONE}"]


def test_a_clock_that_was_set_back_starts_the_grace_anew() -> None:
    history = History().put("run.json", LAUNCHED).look().weigh("gone", 1000.0).weigh("gone", 10.0)
    assert history.weigh("gone", 12.0).told == ["1 started"]
    assert history.weigh("gone", 15.0).told == ["1 started", f"1 {GONE}"]


def test_a_living_or_unknown_process_ends_nothing_however_long_it_is_silent() -> None:
    history = History().put("run.json", LAUNCHED).look()
    assert history.weigh("alive", 1e9).weigh("unknown", 2e9).told == ["1 started"]


def test_an_end_that_comes_after_weaker_evidence_is_a_correction() -> None:
    history = History().put("run.json", LAUNCHED).look().weigh("gone", 10.0).weigh("gone", 20.0)
    history.put("exit.json", CLEAN).look()
    assert history.told == ["1 started", f"1 {GONE}", "2 started", f"2 {OK}"]
    correction = history.events[2]
    assert isinstance(correction, AttemptStarted)
    assert correction.seen_over
    assert correction.declaration is None


def test_a_broken_correction_that_goes_and_comes_back_is_still_complained_of() -> None:
    history = History().put("run.json", LAUNCHED).look().weigh("gone", 10.0).weigh("gone", 20.0)
    history.put("exit.json", BROKEN).look().vanish()
    assert history.complaints == []
    assert len(history.look().complaints) == 1
    assert history.put("exit.json", CLEAN).look().told[2:] == ["2 started", f"2 {OK}"]


def test_only_the_first_attempt_declares() -> None:
    history = finished().put("run.json", RUN).put("exit.json", {"exit_code": 1}).look()
    declared = [
        event.declaration is not None for event in history.events if isinstance(event, AttemptStarted)
    ]
    assert declared == [True, False]


def test_a_later_attempt_is_weighed_by_its_own_processes() -> None:
    history = History().put("run.json", LAUNCHED).put("exit.json", CLEAN).look()
    history.remove("exit.json").put("run.json", RUN).look()
    assert history.told == ["1 started", f"1 {OK}", "2 started"]
    assert (history.watched.launcher, history.watched.process, history.watched.host) == (None, None, None)


def test_an_aborted_attempt_ends_by_no_file_of_an_earlier_one() -> None:
    history = finished().remove("exit.json").put("run.json", LAUNCHED).look()
    history.put("exit.json", BROKEN).look().weigh("gone", 10.0).weigh("gone", 20.0)
    assert history.told[2:] == ["2 started", f"2 {GONE}"]
    assert history.put("run.json", RUN).look().told[4:] == ["3 started"]


@pytest.mark.parametrize(("finished_at", "origin"), [(999.0, "history"), (1000.0, "live"), (2000.0, "live")])
def test_what_ended_before_its_root_was_seen_is_history_where_the_root_records(
    finished_at: float, origin: str
) -> None:
    at = f"1970-01-01T00:{int(finished_at) // 60:02}:{int(finished_at) % 60:02}Z"
    history = History(RootRule(records_history=True, first_seen_at=1000.0))
    history.put("run.json", RUN).put("exit.json", {"exit_code": 0, "finished_at": at}).look()
    start, end = history.events
    assert isinstance(start, AttemptStarted)
    assert isinstance(end, AttemptEnded)
    assert start.origin == end.origin == origin


def test_a_running_run_and_a_root_that_is_live_have_no_history() -> None:
    recording = History(RootRule(records_history=True, first_seen_at=1000.0)).put("run.json", RUN).look()
    old = finished()
    for history in (recording, old):
        start = history.events[0]
        assert isinstance(start, AttemptStarted)
        assert start.origin == "live"


@pytest.mark.parametrize(
    ("states", "state"),
    [
        ([], "unknown"),
        (["gone"], "gone"),
        (["gone", "gone"], "gone"),
        (["gone", "alive"], "alive"),
        (["gone", "unknown"], "unknown"),
        (["alive", "unknown"], "alive"),
    ],
)
def test_one_living_process_keeps_a_run_going(states: list[ProcessState], state: ProcessState) -> None:
    assert together(states) == state


def test_what_this_program_never_wrote_is_not_remembered() -> None:
    with pytest.raises(ValueError, match="array"):
        load_watched('{"phase": "asleep"}')


# --- laws over any history of looks

steps = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(["run.json", "exit.json", "process.json"]), st.integers(0, 3)),
    st.tuples(st.just("touch"), st.sampled_from(["run.json", "exit.json"]), st.just(0)),
    st.tuples(st.just("chmod"), st.sampled_from(["run.json", "exit.json", "process.json"]), st.just(0)),
    st.tuples(st.just("remove"), st.sampled_from(["run.json", "exit.json", "process.json"]), st.just(0)),
    st.tuples(st.just("look"), st.just(""), st.just(0)),
    st.tuples(st.just("vanish"), st.just(""), st.just(0)),
    st.tuples(st.just("copy"), st.just(""), st.just(0)),
    st.tuples(st.sampled_from(["mount", "upgrade"]), st.just(""), st.just(0)),
    st.tuples(st.just("weigh"), st.sampled_from(["gone", "gone", "alive", "unknown"]), st.integers(0, 30)),
)
CONTENTS: dict[str, list[JsonValue | bytes]] = {
    "run.json": [RUN, LAUNCHED, BROKEN, {"schema": "runward-run-v1", "kind": "daemon"}],
    "exit.json": [CLEAN, {"exit_code": 1}, BROKEN, {"cause": "cancelled"}],
    "process.json": [
        {"pid": 9, "start_ticks": 1, "boot_id": "b"},
        BROKEN,
        {},
        {"pid": 8, "start_ticks": 1, "boot_id": "b"},
    ],
}


def play(program: list[tuple[str, str, int]]) -> History:
    history, now = History(), 0.0
    for verb, what, number in program:
        match verb:
            case "put":
                history.put(what, CONTENTS[what][number])
            case "touch" if what in history.files:
                history.touch(what)
            case "remove" if what in history.files:
                history.remove(what)
            case "copy":
                history.copy_back()
            case "chmod" if what in history.files:
                history.change_status(what)
            case "mount":
                history.mount_elsewhere()
            case "upgrade":
                history.remember_as_earlier()
            case "look":
                history.look()
            case "vanish":
                history.vanish(now)
            case "weigh":
                now += number
                history.weigh(what, now)  # type: ignore[arg-type] # one of the three states
    return history


def check(program: list[tuple[str, str, int]]) -> None:
    history = play(program)
    assert len({event.key for event in history.events}) == len(history.events)
    opened = [event.attempt for event in history.events if isinstance(event, AttemptStarted)]
    assert opened == list(range(1, len(opened) + 1))
    running = 0
    for event in history.events:
        if isinstance(event, AttemptStarted):
            assert running == 0, "an attempt opened while another one was running"
            running = event.attempt
        else:
            assert event.attempt == running, "an attempt ended that wasn't running"
            running = 0
    assert (history.watched.phase == "open") == (running > 0)
    events, watched = list(history.events), history.watched
    again = play(program)
    assert (again.events, again.watched) == (events, watched)


def check_nothing_is_lost(program: list[tuple[str, str, int]]) -> None:
    """Whatever happened before, a plain start and a plain end that are there at the last look count."""
    history = play(program)
    history.vanish().look()
    history.put("run.json", RUN).put("exit.json", CLEAN).look()
    assert history.watched.phase == "over"
    assert history.told[-1].endswith(OK)
    told = history.told
    assert history.look().look().told == told


@given(st.lists(steps, max_size=30))
def test_any_history_of_looks_ends_each_attempt_at_most_once_and_counts_them_up(
    program: list[tuple[str, str, int]],
) -> None:
    check(program)


@given(st.lists(steps, max_size=30))
def test_after_any_history_a_new_run_is_judged(program: list[tuple[str, str, int]]) -> None:
    check_nothing_is_lost(program)


@pytest.mark.sweep
@pytest.mark.timeout(900)
@settings(max_examples=10_000)
@given(st.lists(steps, max_size=40))
def test_any_history_of_looks_obeys_the_laws_in_ten_thousand_cases(
    program: list[tuple[str, str, int]],
) -> None:
    check(program)
    check_nothing_is_lost(program)


PLAN: JsonValue = {"legs": [{"id": "one", "agent": "reviewer"}]}
OTHER_PLAN: JsonValue = {"legs": [{"id": "two", "agent": "reviewer"}]}
FLOW: JsonValue = {"schema": "runward-run-v1", "kind": "flow"}


def the_plans(history: History) -> list[FlowPlanned]:
    return [event for event in history.events if isinstance(event, FlowPlanned)]


def test_a_plan_is_an_event_between_the_start_and_the_end() -> None:
    assert running().put("flow.json", PLAN).look().told == ["1 started", "1 planned"]
    history = History().put("run.json", RUN).put("exit.json", CLEAN).put("flow.json", PLAN).look()
    assert history.told == ["1 started", "1 planned", f"1 {OK}"]
    assert [plan.seen_over for plan in the_plans(history)] == [True]
    later = running().put("flow.json", PLAN).look().put("exit.json", CLEAN).look()
    assert later.told == history.told
    assert [plan.seen_over for plan in the_plans(later)] == [False]


def test_a_plan_that_is_touched_copied_or_written_alike_is_no_further_event() -> None:
    history = running().put("flow.json", PLAN).look()
    history.touch("flow.json").look()
    history.copy_back().look()
    history.put("flow.json", {"legs": [{"id": "one", "agent": "reviewer", "done": True}]}).look()
    assert history.told == ["1 started", "1 planned"]
    history.put("flow.json", OTHER_PLAN).look()
    history.put("flow.json", PLAN).look()
    assert history.told == ["1 started", "1 planned", "1 planned"]
    assert len({plan.key for plan in the_plans(history)}) == 2


def test_a_plan_before_the_run_waits_for_its_start() -> None:
    history = History().put("flow.json", PLAN).look()
    assert history.told == []
    assert history.put("run.json", RUN).look().told == ["1 started", "1 planned"]


def test_a_plan_after_the_end_is_told_with_the_attempt_that_is_over() -> None:
    history = finished().put("flow.json", PLAN).look()
    assert history.told == ["1 started", f"1 {OK}", "1 planned"]


def test_a_directory_that_was_made_again_has_no_further_plan_unless_it_is_another() -> None:
    history = running().put("flow.json", PLAN).look().vanish()
    history.put("run.json", RUN).put("flow.json", PLAN).look()
    assert history.told == ["1 started", "1 planned", f"1 {VANISHED}", "2 started"]
    assert history.put("flow.json", OTHER_PLAN).look().told[-1] == "2 planned"


def test_plans_without_end_end_in_a_complaint() -> None:
    history = running()
    for number in range(MOST_PLANS + 3):
        history.put("flow.json", {"legs": [{"id": f"l{number}", "agent": "a"}]}).look()
    assert len(the_plans(history)) == MOST_PLANS
    assert history.complaints == ["flow.json: was rewritten too many times"]


def test_attempts_without_end_end_in_a_complaint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "MOST_ATTEMPTS", 3)
    history = running()
    for _ in range(5):
        history.vanish()
        history.put("run.json", RUN).look()
    assert [told for told in history.told if told.endswith("started")] == [
        "1 started",
        "2 started",
        "3 started",
    ]
    assert history.complaints == [
        "run.json: began again, and 3 attempts of one directory are recorded at most"
    ]


def test_an_ill_formed_plan_is_a_complaint_until_it_is_fixed() -> None:
    history = running().put("flow.json", {"legs": []}).look()
    assert history.complaints == ["flow.json: legs: names no leg"]
    assert history.put("flow.json", PLAN).look().complaints == []
    assert history.told == ["1 started", "1 planned"]


def test_only_of_a_run_that_says_it_is_a_flow_is_it_remembered_what_was_there_before_the_plan() -> None:
    assert running().watched.unplanned is None
    history = History().put("run.json", FLOW).look()
    assert history.watched.unplanned == ("/runs/alpha/artifacts", ())
    history.watched = without_plan(history.watched, ("b", "a"))
    history.watched = without_plan(history.watched, ("a", "c"))
    assert history.look().watched.unplanned == ("/runs/alpha/artifacts", ("b", "a", "c"))
    history.put("flow.json", PLAN).look()
    assert [plan.filled for plan in the_plans(history)] == [("b", "a", "c")]


def test_what_is_remembered_of_an_unplanned_flow_is_bounded() -> None:
    history = History().put("run.json", FLOW).look()
    for number in range(100):
        names = tuple(f"{number}-{other}-{'x' * 200}" for other in range(10))
        history.watched = without_plan(history.watched, names)
    assert history.watched.unplanned is not None
    assert MOST_FILLED - 220 < sum(map(len, history.watched.unplanned.filled)) <= MOST_FILLED


def test_what_arrived_late_is_judged_in_a_further_attempt_with_the_same_end() -> None:
    history = finished()
    end = history.end()
    after, events = observe.corrected(history.watched, KEY, end)
    assert [type(each).__name__ for each in events] == ["AttemptStarted", "AttemptEnded"]
    assert (after.attempt, after.phase, events[-1].at) == (2, "over", end.at)


def test_nothing_is_corrected_while_the_end_is_another_or_the_launchers() -> None:
    history = finished()
    end = history.end()
    for watched in (
        history.watched._replace(sealed=True),
        history.watched._replace(phase="open"),
        history.watched._replace(ended_by="process_gone"),
        history.watched._replace(end_digest="another"),
        history.watched._replace(attempt=observe.MOST_ATTEMPTS),
    ):
        assert observe.corrected(watched, KEY, end) == (watched, ())
