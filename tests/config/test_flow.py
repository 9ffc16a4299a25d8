"""A flow's plan: what is read of it, and every complaint about what is wrong."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.config.test_schema import look_up

from runward.config.flow import MAX_AGENT, MAX_LEGS, Leg, flow_from_json
from runward.config.json_value import JsonValue
from runward.config.schema import schema


def said(value: JsonValue) -> list[str]:
    return [problem.message for problem in flow_from_json(value, "flow.json").problems]


def plan(*legs: JsonValue) -> JsonValue:
    return {"legs": list(legs)}


def leg(identifier: str, **more: JsonValue) -> JsonValue:
    return {"id": identifier, "agent": "reviewer", **more}


def test_a_leg_works_in_the_directory_of_its_id_unless_it_names_another() -> None:
    assert flow_from_json(plan(leg("one"), leg("two", path="./legs//two/")), "flow.json").value == (
        Leg("one", "reviewer", "one"),
        Leg("two", "reviewer", "legs/two"),
    )


def test_what_planners_keep_beside_is_theirs() -> None:
    value: JsonValue = {"legs": [leg("one", depends_on=[], state={"x": 1})], "model": "m"}
    assert flow_from_json(value, "flow.json").problems == ()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "legs: must be a list, not nothing"),
        ([], "legs: must be a list, not nothing"),
        ({}, "legs: must be a list, not nothing"),
        ({"legs": {}}, "legs: must be a list, not a table of keys"),
        ({"legs": []}, "legs: names no leg"),
        (plan("one"), "legs[0]: must be an object, not a text"),
        (plan({"agent": "a"}), "legs[0]: has no 'id'"),
        (plan({"id": "one"}), "legs[0]: has no 'agent'"),
        (plan({"id": 1, "agent": "a"}), "legs[0].id: must be a text, not a number"),
        (plan({"id": "", "agent": "a"}), "legs[0].id: must be a text, not an empty one"),
        (plan(leg("a b")), "legs[0].id: 'a b' is not an id"),
        (plan(leg("-_")), "legs[0].id: '-_' is not an id"),
        (plan(leg("é")), "legs[0].id: 'é' is not an id"),
        (plan(leg("x" * 201)), "legs[0].id: is longer than 200 characters"),
        (plan({"id": "a", "agent": None}), "legs[0].agent: must be a text, not nothing"),
        (plan({"id": "a", "agent": "x\0"}), "legs[0].agent: 'x\\x00' is not a name"),
        (plan({"id": "a", "agent": "\ud800"}), "legs[0].agent: '\\ud800' is not a name"),
        (plan({"id": "a", "agent": "x" * (MAX_AGENT + 1)}), f"legs[0].agent: '{'x' * 60}…' is not a name"),
        (plan(leg("a", path=None)), "legs[0].path: must be a text, not nothing"),
        (plan(leg("a", path="/x")), "legs[0].path: '/x' is an absolute path"),
        (plan(leg("a", path="x/../y")), "legs[0].path: 'x/../y' has a '..' in it"),
        (plan(leg("a", path=".")), "legs[0].path: '.' is the directory itself"),
        (plan(leg("a", path="x*")), "legs[0].path: 'x*' has a glob character in it: *"),
        (plan(leg("a"), leg("a", path="b")), "legs[1].id: 'a' is the id of leg 0 already"),
        (plan(leg("a"), leg("b", path="a/")), "legs[1].path: 'a' is the directory of leg 0"),
        (
            plan(leg("a", path="x/y"), leg("b", path="x")),
            "legs[0].path: 'x/y' is inside the directory of leg 1",
        ),
        (plan(*(leg(f"l{n}") for n in range(MAX_LEGS + 1))), f"legs: has more than {MAX_LEGS} legs"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(value: JsonValue, message: str) -> None:
    assert said(value) == [message]
    assert flow_from_json(value, "flow.json").value is None
    assert all(problem.fix for problem in flow_from_json(value, "flow.json").problems)


def test_every_leg_that_lies_in_another_ones_directory_is_named() -> None:
    value = plan(leg("a", path="x"), leg("b", path="x/b"), leg("c", path="x/c"), leg("d", path="x-d"))
    assert said(value) == [
        "legs[1].path: 'x/b' is inside the directory of leg 0",
        "legs[2].path: 'x/c' is inside the directory of leg 0",
    ]


def test_as_many_legs_as_are_allowed_are_read() -> None:
    value = plan(*(leg(f"l{n}") for n in range(MAX_LEGS)))
    read = flow_from_json(value, "flow.json").value
    assert read is not None
    assert len(read) == MAX_LEGS


def test_a_hostile_plan_has_no_end_of_complaints() -> None:
    assert len(said(plan(*([7] * MAX_LEGS)))) <= 102


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from(["a", "b", "a/b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["legs", "id", "agent", "path", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(anything)
def test_whatever_stands_there_is_read_or_complained_about(value: JsonValue) -> None:
    parsed = flow_from_json(value, "flow.json")
    assert (parsed.value is None) == bool(parsed.problems)


@given(st.lists(st.lists(st.sampled_from("ab"), min_size=1, max_size=3), min_size=1, max_size=4))
def test_legs_share_no_directory_and_none_lies_in_another(ways: list[list[str]]) -> None:
    value = plan(*(leg(f"l{number}", path="/".join(way)) for number, way in enumerate(ways)))
    apart = not any(
        one is not other and other[: len(one)] == one
        for number, one in enumerate(ways)
        for other in ways[:number] + ways[number + 1 :]
    )
    assert (flow_from_json(value, "flow.json").value is not None) == apart


@given(st.text(alphabet="./ab*-_é\0", max_size=8))
def test_the_schema_says_of_a_legs_id_and_path_what_the_reader_says(text: str) -> None:
    fields = look_up(schema("flow"), "properties", "legs", "items", "properties")
    for key, other in (("id", "path"), ("path", "id")):
        pattern = look_up(fields, key, "pattern")
        accepted = not said(plan({"agent": "x", other: "x", key: text}))
        assert (re.search(str(pattern), text) is not None) == accepted, (key, text)
