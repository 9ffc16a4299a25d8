"""Which events pass a chain's filter."""

import pytest

from runward.config.json_value import JsonValue
from runward.config.problem import Complaint
from runward.config.trigger import check_filter, why_not

EVENT: dict[str, JsonValue] = {
    "base": "main",
    "draft": False,
    "text": "false",
    "n": 3,
    "word": "12",
    "pull": {"label": "a b"},
}


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        ({}, True),
        ({"base": "main"}, True),
        ({"base": "dev"}, False),
        ({"draft": False}, True),
        ({"draft": "false"}, False),
        ({"text": False}, True),
        ({"text": "false"}, True),
        ({"word": 12}, True),
        ({"n": 3.0}, True),
        ({"n": "3"}, False),
        ({"draft": 0}, False),
        ({"base": ["dev", "main"]}, True),
        ({"base": []}, False),
        ({"pull.label": "a b"}, True),
        ({"pull.size": 1}, False),
        ({"base": "main", "n": 4}, False),
        ({"n": {"gt": 2, "le": 3}}, True),
        ({"n": {"lt": 3}}, False),
        ({"word": {"ge": 12}}, True),
        ({"base": {"glob": "ma*"}}, True),
        ({"base": {"glob": "MA*"}}, False),
        ({"base": {"gt": "a"}}, True),
        ({"base": {"gt": 1}}, False),
        ({"gone": {"exists": False}}, True),
        ({"base": {"exists": False}}, False),
        ({"gone": {"ne": 1}}, True),
        ({"gone": {"eq": None}}, False),
        ({"base": {"in": ["main"]}}, True),
        ({"base": {"ne": "main"}}, False),
    ],
)
def test_every_key_must_match(wanted: dict[str, JsonValue], passes: bool) -> None:
    assert (why_not(wanted, EVENT) is None) == passes


def test_it_is_said_what_did_not_match() -> None:
    assert why_not({"base": "dev"}, EVENT) == "base is 'main', and the filter wants eq 'dev'"
    assert why_not({"gone": 1}, EVENT) == "gone is missing, and the filter wants eq 1"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ([], "is a list, not a table of keys"),
        ({"a..b": 1}, "has an empty name in it"),
        ({"a": {}}, "is an empty table"),
        ({"a": {"gte": 1}}, "unknown operator"),
        ({"a": {"in": 1}}, "is a number, not a list of values"),
        ({"a": {"exists": "yes"}}, "must be true or false, not 'yes'"),
        ({"a": {"glob": 1}}, "is a number, not a text"),
        ({"a": {"glob": "[z-a]"}}, "'[z-a]' has an empty range in it: 'z-a'"),
        ({"a": {"gt": [1]}}, "is a list, which can't be compared"),
        ({"a": [[1]]}, "has a list or a table in its list"),
    ],
)
def test_what_is_no_filter_is_refused(wanted: JsonValue, said: str) -> None:
    complaints: list[Complaint] = []
    check_filter(wanted, (), complaints.append)
    assert [each.message for each in complaints] == [said]


@pytest.mark.parametrize(
    "wanted", [5, {"gt": 5}, {"lt": 1e308}, {"in": [1, 2]}, {"ne": 10**400}, {"glob": "*"}, "x"]
)
def test_a_number_that_is_no_float_is_compared_and_shown(wanted: JsonValue) -> None:
    for number in (10**400, -(10**400)):
        assert why_not({"n": wanted}, {"n": number}) is None or "300 digits" in str(
            why_not({"n": wanted}, {"n": number})
        )
