"""A session as a trajectory: what becomes a step, and what belongs to it."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.handlers.bundle.atif import problems_of

from runward.config.json_value import JsonValue, objects
from runward.handlers.bundle import trajectory as trajectories
from runward.handlers.bundle.shown import Redaction, Showing
from runward.handlers.bundle.trajectory import SCHEMA, Trajectory
from runward.handlers.calls import Called, Paid, Place, Returned, Unusable, answered

AT = 1_767_323_045.5
STAMP = "2026-01-02T03:04:05.500Z"
PLACE = Place("log.jsonl", 7, 0, 0)
KEY = "ghp_" + "a1B2" * 9


class Text(NamedTuple):
    role: Literal["user", "assistant", "system"]
    text: str


def called(call: str, tool: str = "bash", params: JsonValue = None, tokens: int | None = None) -> Called:
    return Called(PLACE, AT, call, tool, params, tokens=tokens)


def returned(
    call: str,
    output: JsonValue = "fine",
    *,
    failed: bool = False,
    code: int | None = None,
    tokens: int | None = None,
) -> Returned:
    return answered(PLACE, AT, call, output, failed=failed, exit_code=code, tokens=tokens)


Item = Text | Called | Returned | Paid | Unusable


def made(items: Sequence[Item], longest: int = 65_536) -> tuple[list[dict[str, JsonValue]], Trajectory]:
    trajectory = Trajectory(Showing(Redaction(), longest))

    def steps() -> Iterator[JsonValue]:
        for each in items:
            if isinstance(each, Text):
                yield from trajectory.said(AT, each.role, each.text)
            else:
                yield from trajectory.told(each)
        yield from trajectory.rest()

    return objects(list(steps())), trajectory


def valid(steps: list[dict[str, JsonValue]]) -> list[str]:
    told: list[JsonValue] = [*steps]
    return problems_of(
        {"schema_version": SCHEMA, "agent": {"name": "a", "version": "unknown"}, "steps": told}
    )


def test_texts_are_steps_of_whom_said_them() -> None:
    steps, _ = made([Text("system", "rules"), Text("user", "make a file"), Text("assistant", "Done.")])
    assert steps == [
        {"step_id": 1, "timestamp": STAMP, "source": "system", "message": "rules"},
        {"step_id": 2, "timestamp": STAMP, "source": "user", "message": "make a file"},
        {"step_id": 3, "timestamp": STAMP, "source": "agent", "message": "Done."},
    ]


def test_calls_and_their_results_belong_to_the_text_before_them() -> None:
    items: list[Item] = [
        Text("assistant", "I look."),
        called("c1", params={"command": "ls"}),
        returned("c1", "a.txt"),
    ]
    steps, _ = made(items)
    assert steps == [
        {
            "step_id": 1,
            "timestamp": STAMP,
            "source": "agent",
            "message": "I look.",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}],
            "observation": {"results": [{"source_call_id": "c1", "content": "a.txt"}]},
        }
    ]


def test_calls_at_once_are_one_step_and_one_after_a_result_is_the_next() -> None:
    steps, _ = made([called("a"), called("b"), returned("b"), returned("a"), called("c"), returned("c")])
    assert [[each["tool_call_id"] for each in objects(step["tool_calls"])] for step in steps] == [
        ["a", "b"],
        ["c"],
    ]


def test_a_call_after_the_persons_text_is_the_agents_step_without_a_text() -> None:
    steps, _ = made([Text("user", "go"), called("a"), returned("a")])
    assert [(each["source"], each["message"]) for each in steps] == [("user", "go"), ("agent", "")]


def test_a_late_result_goes_to_the_step_of_its_call() -> None:
    steps, _ = made(
        [called("slow"), Text("user", "and?"), Text("assistant", "It runs."), returned("slow", "at last")]
    )
    assert [each["source"] for each in steps] == ["agent", "user", "agent"]
    assert steps[0]["observation"] == {"results": [{"source_call_id": "slow", "content": "at last"}]}


def test_the_result_of_a_call_that_nobody_made_is_a_step_of_its_own() -> None:
    steps, _ = made([returned("gone", "late")])
    assert steps[0]["source"] == "system"
    assert steps[0]["observation"] == {"results": [{"content": "late", "extra": {"call_id": "gone"}}]}
    assert valid(steps) == []


def test_not_more_is_held_than_may_wait_for_one_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectories, "MOST_HELD", 10_000)
    trajectory = Trajectory(Showing(Redaction(), 100))
    given_at: list[int] = []
    for number in range(100):
        given_at += [number for _ in trajectory.told(called(f"open{number}"))]
        if number == 99:
            given_at += [number for _ in trajectory.told(returned("open0"))]
        given_at += [number for _ in trajectory.said(AT, "user", "go on")]
    assert given_at, "what never returns holds up nothing for good"
    assert 200 - len(given_at) <= 10_000 // trajectories._OF_STEP + 2
    steps = objects(list(trajectory.rest()))
    late = [each for each in steps if each["source"] == "system"]
    assert [each["observation"] for each in late] == [
        {"results": [{"content": "fine", "extra": {"call_id": "open0"}}]}
    ]


def test_a_failure_and_an_exit_code_are_told() -> None:
    steps, _ = made([called("a"), returned("a", "no such file", failed=True, code=2)])
    assert steps[0]["observation"] == {
        "results": [
            {"source_call_id": "a", "content": "no such file", "extra": {"success": False, "exit_code": 2}}
        ]
    }


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\ntwo"),
        ([{"type": "text", "text": "one"}, {"type": "image", "data": "…"}], None),
        ({"code": 0}, '{"code": 0}'),
        ([], ""),
        (0, "0"),
    ],
)
def test_a_result_is_told_as_text(output: JsonValue, content: str | None) -> None:
    steps, _ = made([called("a"), returned("a", output)])
    observation = steps[0]["observation"]
    assert isinstance(observation, dict)
    (result,) = objects(observation["results"])
    if content is not None:
        assert result["content"] == content
    else:
        assert str(result["content"]).startswith('[{"type": "text"')


def test_what_came_back_without_a_content_has_none() -> None:
    steps, _ = made([called("a"), returned("a", None)])
    assert steps[0]["observation"] == {"results": [{"source_call_id": "a"}]}


def test_arguments_are_an_object_whatever_the_agent_wrote() -> None:
    steps, _ = made([called("a", params="*** Begin Patch"), called("b"), called("c", params={"x": 1})])
    assert [each["arguments"] for each in objects(steps[0]["tool_calls"])] == [
        {"input": "*** Begin Patch"},
        {},
        {"x": 1},
    ]


def test_secrets_are_redacted_wherever_they_are_and_long_texts_are_cut() -> None:
    steps, _ = made(
        [
            Text("user", f"use {KEY}"),
            called("a", params={"password": "hunter2", "command": f"curl -H {KEY}"}),
            returned("a", f"{KEY} {'x' * 500}"),
        ],
        longest=100,
    )
    assert KEY not in str(steps)
    assert "hunter2" not in str(steps)
    assert steps[0]["message"] == "use [redacted]"
    assert steps[0]["extra"] == {"redacted": ["/message"]}
    (call,) = objects(steps[1]["tool_calls"])
    assert call["extra"] == {"redacted": ["/arguments/password", "/arguments/command"]}
    observation = steps[1]["observation"]
    assert isinstance(observation, dict)
    (result,) = objects(observation["results"])
    assert result["extra"] == {"redacted": ["/content"], "cut": {"/content": 541}}


def test_tokens_of_a_reply_are_those_of_its_step_and_never_split_by_guess() -> None:
    steps, trajectory = made(
        [called("a", tokens=120), called("b", tokens=None), returned("a"), returned("b")]
    )
    assert steps[0]["metrics"] == {"extra": {"total_tokens": 120}}
    assert trajectory.usd is None


def test_what_the_session_paid_is_added_up_and_what_is_unusable_is_counted() -> None:
    problem = Unusable(PLACE, "is not JSON")
    _, trajectory = made([Paid(PLACE, AT, 0.25), problem, Paid(PLACE, AT, 0.5), problem])
    assert trajectory.usd == 0.75
    assert trajectory.unusable == ("line 7 of log.jsonl: is not JSON", 2)
    _, trajectory = made([Paid(PLACE, AT, 0.25), Paid(PLACE, AT, None), Paid(PLACE, AT, 0.5)])
    assert trajectory.usd is None, "a reply without a cost is not free"


CALL = st.sampled_from(["a", "b", "c", KEY])
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(["text", "type", "key"]), each),
    max_leaves=5,
)
ITEM: st.SearchStrategy[Item] = st.one_of(
    st.builds(Text, st.sampled_from(["user", "assistant", "system"]), st.text(max_size=5)),
    st.builds(called, CALL, st.text(max_size=5), VALUE, st.none() | st.integers(0, 9)),
    st.builds(
        returned,
        CALL,
        VALUE,
        failed=st.booleans(),
        code=st.none() | st.integers(0, 255),
        tokens=st.none() | st.integers(0, 9),
    ),
)


@given(st.lists(ITEM, max_size=12))
def test_whatever_a_session_says_is_a_valid_trajectory_and_loses_nothing(items: list[Item]) -> None:
    steps, trajectory = made(items)
    assert trajectory.steps == len(steps)
    if steps:
        assert valid(steps) == []
    calls = [each for step in steps for each in objects(step.get("tool_calls"))]
    assert len(calls) == sum(isinstance(each, Called) for each in items)
    results = [
        each
        for step in steps
        if isinstance(observation := step.get("observation"), dict)
        for each in objects(observation["results"])
    ]
    assert len(results) == sum(isinstance(each, Returned) for each in items)
    texts = [each.text for each in items if isinstance(each, Text)]
    said = [step for step in steps if step["message"]]
    assert len(said) == sum(bool(text) for text in texts)


def test_a_call_id_that_is_used_again_holds_up_nothing() -> None:
    trajectory = Trajectory(Showing(Redaction(), 100))
    given = [*trajectory.told(called("a")), *trajectory.said(AT, "user", "x")]
    given += [*trajectory.told(called("a")), *trajectory.told(returned("a"))]
    assert given == []
    steps = objects(list(trajectory.said(AT, "user", "y")))
    assert ["observation" in each for each in steps] == [False, False, True]
