"""Which calls are an attempt's own, and what its receipt and summary have of them."""

import json
from collections.abc import Sequence

import pytest

from runward.config.bundle import BundleRules
from runward.config.json_value import JsonValue
from runward.handlers.bundle.replay import Replay, summary_of
from runward.handlers.bundle.summary import summary_json
from runward.handlers.calls import (
    BeganAndEnded,
    Called,
    Paid,
    Place,
    Returned,
    Stated,
    Told,
    Unusable,
    stretch_of,
)
from runward.handlers.model.bundle import BundleOrder, Stretch, Verdict
from runward.handlers.model.sessions import Status

WHOLE = Stretch(100.0, 200.0)


def order(stretch: Stretch = WHOLE, status: Status = "completed") -> BundleOrder:
    verdict = Verdict(200.0, status, "run.x.y", "it ended", None, "h" * 64)
    return BundleOrder("native:r/a", "a", "native", "/r/a", "/r/a", 1, stretch, verdict, BundleRules())


def at(line: int) -> Place:
    return Place("trace.jsonl", line, 0, 10)


def call(number: int, when: float | None, tool: str = "Read", params: JsonValue = None) -> list[Told]:
    """A call and its result, a second later."""
    later = None if when is None else when + 1.0
    return [
        Called(at(2 * number), when, f"c{number}", tool, params),
        Returned(at(2 * number + 1), later, f"c{number}", "done"),
    ]


def lines(replay: Replay, told: Sequence[Told]) -> list[dict[str, JsonValue]]:
    return [json.loads(line) for line in replay.lines(told)]


def ids(replay: Replay, told: Sequence[Told]) -> list[JsonValue]:
    return [line["id"] for line in lines(replay, told) if line["event"] == "ToolCall"]


TWO: list[Told] = [*call(1, 110.0), *call(2, None), *call(3, 310.0), *call(4, None)]


@pytest.mark.parametrize(
    ("stretch", "own"),
    [
        (Stretch(100.0, 200.0), ["c1", "c2", "c3", "c4"]),
        (Stretch(100.0, 200.0, None, 300.0), ["c1", "c2"]),
        (Stretch(300.0, 400.0, 300.0, None), ["c3", "c4"]),
        (Stretch(300.0, 400.0, 310.0, None), ["c3", "c4"]),
        (Stretch(50.0, 60.0, None, 110.0), []),
    ],
)
def test_an_attempt_has_the_calls_of_its_own_stretch(stretch: Stretch, own: list[str]) -> None:
    replay = Replay(order(stretch))
    assert ids(replay, TWO) == own
    assert [each.id for each in replay.calls.values()] == own
    assert replay.problem is None, "what belongs to another attempt is nothing wrong"


def in_log(line: int, when: float, name: str) -> list[Told]:
    return [Called(at(line), when, name, "Read", None), Stated(at(line), confidence=line / 10)]


SET_BACK: list[Told] = [*in_log(1, 4000.0, "a"), *in_log(2, 4100.0, "b"), *in_log(3, 500.0, "c")]


@pytest.mark.parametrize(
    ("stretch", "own", "confidence"),
    [
        (Stretch(3900.0, 4200.0, None, 400.0, log_up_to=2), ["a", "b"], 0.2),
        (Stretch(400.0, 600.0, 400.0, None, log_before=2), ["c"], 0.3),
        (Stretch(400.0, 600.0, 400.0, None, log_before=2, log_up_to=2), [], None),
        (Stretch(3900.0, 4200.0, None, 400.0), [], 0.3),
        (Stretch(400.0, 600.0, 400.0, None), ["a", "b", "c"], 0.3),
    ],
)
def test_where_the_log_is_divided_no_clock_divides_its_calls(
    stretch: Stretch, own: list[str], confidence: float | None
) -> None:
    replay = Replay(order(stretch)._replace(layout="adjutant"))
    assert ids(replay, SET_BACK) == own
    assert replay.confidence == confidence


def test_a_native_run_s_trace_is_divided_by_bytes() -> None:
    told = [Called(Place("trace.jsonl", 9, start, 10), None, f"c{start}", "Read", None) for start in (0, 11)]
    for stretch, own in (
        (Stretch(1.0, log_up_to=11), ["c0"]),
        (Stretch(1.0, begins=5.0, log_before=11), ["c11"]),
    ):
        assert ids(Replay(order(stretch)), told) == own


@pytest.mark.parametrize(
    ("attempts", "made_by", "is_own"),
    [((3, 4), 3, True), ((3, 4), 4, True), ((3, 4), 1, False), ((3, 4), 5, False), ((3, 4), None, False)],
)
def test_of_an_action_in_the_exchange_the_store_knows_the_attempt(
    attempts: tuple[int, int], made_by: int | None, is_own: bool
) -> None:
    place = Place("results.jsonl", 1, 0, 10)
    action = Called(place, 110.0, "intent/1", "exchange.read_artifact", None, attempt=made_by)
    replay = Replay(order(Stretch(300.0, 400.0, 300.0, log_before=500, attempts=attempts)))
    assert ids(replay, [action]) == (["intent/1"] if is_own else [])


def test_what_is_said_of_a_whole_file_is_said_in_every_attempt() -> None:
    replay = Replay(order(Stretch(100.0, 200.0, 100.0, log_before=500)))
    lines(replay, [Unusable(Place("trace.jsonl", 0, 0, 0), "is not a regular file")])
    assert replay.problem == "trace.jsonl:0: is not a regular file"


def test_every_call_belongs_to_one_of_the_attempts() -> None:
    attempts = [BeganAndEnded(1, 100.0, 200.0), BeganAndEnded(2, 300.0, None)]
    found = [stretch_of(attempts, number) for number in (1, 2)]
    assert [ids(Replay(order(each)), TWO) for each in found if each is not None] == [
        ["c1", "c2"],
        ["c3", "c4"],
    ]


def test_a_correction_has_the_calls_of_the_attempt_that_it_corrects() -> None:
    attempts = [
        BeganAndEnded(1, 100.0, 200.0),
        BeganAndEnded(2, 250.0, 250.0, "h2"),
        BeganAndEnded(3, 300.0, 400.0),
        BeganAndEnded(4, 400.0, 400.0),
    ]
    assert stretch_of(attempts, 1) == Stretch(100.0, 200.0, None, 300.0, attempts=(1, 2))
    assert stretch_of(attempts, 2) == Stretch(250.0, 250.0, None, 300.0, "h2", attempts=(1, 2))
    assert stretch_of(attempts, 3) == Stretch(300.0, 400.0, 300.0, None, attempts=(3, 4))
    assert stretch_of(attempts, 4) == Stretch(400.0, 400.0, 300.0, None, attempts=(3, 4))
    assert stretch_of(attempts, 5) is None


def test_a_log_is_divided_where_the_attempts_say_so() -> None:
    attempts = [
        BeganAndEnded(1, 100.0, 200.0, log_up_to=7),
        BeganAndEnded(2, 250.0, 250.0, "h2", 7, 9),
        BeganAndEnded(3, 20.0, 30.0, log_before=9, log_up_to=20),
        BeganAndEnded(4, 30.0, 30.0, log_before=20, log_up_to=21),
        BeganAndEnded(5, 10.0, None, log_before=None),
    ]
    found = [stretch_of(attempts, number) for number in range(1, 6)]
    assert [(each.log_before, each.log_up_to) for each in found if each is not None] == [
        (None, 9),
        (None, 9),
        (9, 21),
        (9, 21),
        (None, None),
    ]


def test_a_replay_begins_and_ends_with_its_session_and_sums_up() -> None:
    told: list[Told] = [
        Stated(at(1), 42, "v7"),
        *call(1, 110.0),
        *call(2, 120.0),
        Stated(at(9), confidence=0.92),
    ]
    first, *_, last = lines(Replay(order(status="aborted")), told)
    assert (first["event"], first["issue_number"], first["policy_bundle_id"]) == ("SessionStart", 42, "v7")
    assert (last["event"], last["status"], last["confidence"]) == ("SessionEnd", "Failed", 0.92)
    assert (last["total_tool_calls"], last["total_latency_ms"]) == (2, 2000)


def test_a_call_that_is_told_twice_counts_once_and_is_said() -> None:
    replay = Replay(order())
    assert ids(replay, [*call(1, 110.0), *call(1, 111.0)]) == ["c1"]
    assert replay.problem == (
        "trace.jsonl:2: the call c1 is reported twice; trace.jsonl:3: the call c1 has two results"
    )


def test_latency_is_unknown_where_the_clock_went_back() -> None:
    replay = Replay(order())
    lines(replay, [Called(at(1), 120.0, "c", "t", None), Returned(at(2), 119.0, "c", "x")])
    assert [each.latency_ms for each in replay.calls.values()] == [None]


def test_a_call_without_a_result_has_not_failed() -> None:
    replay = Replay(order())
    lines(replay, [*call(1, 110.0), Called(at(3), 112.0, "c", "t", None)])
    said = summary_json(summary_of(replay))
    assert (said["calls"], said["failed_calls"]) == (2, 0)


def test_the_summary_has_edits_verification_and_rates() -> None:
    told: list[Told] = [
        *call(1, 110.0, "Edit", {"file_path": "/w/src/a.py", "old_string": "a\nb", "new_string": "a\nc\nd"}),
        *call(2, 111.0, "Write", {"file_path": "/elsewhere/b.md", "content": "x\ny\nz\n"}),
        Called(at(7), 112.0, "c7", "Bash", {"command": "cd /w && pytest -q"}),
        Returned(at(8), 113.0, "c7", None, "1 failed, 3 passed in 0.10s", False, 1),
        Called(at(9), 114.0, "c9", "Bash", {"command": "cd /w && pytest -q"}),
        Returned(at(10), 115.0, "c9", "4 passed in 0.10s"),
    ]
    replay = Replay(order()._replace(cwd="/w"))
    verification = [line for line in lines(replay, told) if line["event"] == "Verification"]
    assert [(line["exit_codes"], line["verification_delta"]) for line in verification] == [([0], 1)]
    said = summary_json(summary_of(replay))
    assert said["files"] == [
        {"path": "src/a.py", "lines_changed": 2},
        {"path": "/elsewhere/b.md", "lines_changed": 3},
    ]
    assert said["verification"] == [
        {"command": "cd /w && pytest -q", "exit_code": 0, "tests_passed": 4, "tests_total": 4}
    ]
    assert (said["apm"], said["sapm"], said["failure"]) == (2.4, 1.8, None)
    assert (said["calls"], said["failed_calls"]) == (4, 1)


def test_the_cost_of_an_attempt_is_that_of_its_own_replies() -> None:
    told: list[Told] = [Paid(at(1), 110.0, 0.1), Paid(at(2), 150.0, 0.2), Paid(at(3), 310.0, 4.0)]
    replay = Replay(order(Stretch(100.0, 200.0, None, 300.0)))
    assert [line["event"] for line in lines(replay, told)] == ["SessionStart", "SessionEnd"]
    assert summary_json(summary_of(replay))["cost"] == {"amount": 0.3, "unit": "usd"}


def test_an_estimate_is_given_only_if_the_session_does_not_say_what_it_cost() -> None:
    estimate = "$0.50 at list prices of 2026-11 (genai-prices 0.2.3)"
    paid = Paid(at(1), 1.0, 0.1)
    for told, cost in (
        ((), None),
        ((paid,), {"amount": 0.1, "unit": "usd"}),
        ((paid, Paid(at(2), 2.0, None)), None),
    ):
        replay = Replay(order()._replace(estimate=estimate))
        list(lines(replay, list(told)))
        said = summary_json(summary_of(replay))
        assert (said["cost"], said["estimate"]) == (cost, None if cost else estimate)


def test_a_file_whose_edit_failed_was_not_changed() -> None:
    told: list[Told] = [
        Called(at(1), 1.0, "c", "Edit", {"file_path": "a", "old_string": "x", "new_string": "y"}),
        Returned(at(2), 2.0, "c", None, "no match", False),
    ]
    replay = Replay(order())
    lines(replay, told)
    assert summary_of(replay).files == ()
