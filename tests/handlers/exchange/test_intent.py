"""Intents: what a line must be, and what is filled in where it says nothing."""

import json

import pytest

from runward.config.intent import NotAnIntent
from runward.config.json_value import JsonValue
from runward.handlers.exchange.intent import (
    WHY_IS_PAID,
    intent_to_json,
    line_without_content,
    parse_intent,
    shown,
    without_content,
)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "blank"),
        (b"  ", "blank"),
        (b"nonsense", "not JSON"),
        (b"[1]", "a JSON object"),
        (b'{"action_type":"noop","action_type":"noop"}', "appears twice"),
        (b"\xff", "not UTF-8"),
        (b'{"action_type":"read_artifact","artifact_id":"\\ud800"}', "surrogate"),
        (b'{"action_type":"noop","x":' + b"[" * 90 + b"]" * 90 + b"}", "levels deep"),
        (b'{"action_type":"fly"}', "action_type must be one of"),
        (b'{"action_type":"transfer","to":"b"}', "genesis_ledger"),
        (b"{}", "action_type must be one of"),
        (b'{"action_type":"read_artifact"}', "artifact_id is missing"),
        (b'{"action_type":"read_artifact","artifact_id":7}', "artifact_id must be a text"),
        (b'{"action_type":"read_artifact","artifact_id":""}', "1 to 128 characters"),
        (b'{"action_type":"read_artifact","artifact_id":"' + b"x" * 129 + b'"}', "1 to 128 characters"),
        (b'{"action_type":"read_artifact","artifact_id":"a\\u0000b"}', "control characters"),
        (b'{"action_type":"noop","principal_id":""}', "principal_id"),
        (b'{"action_type":"write_artifact","artifact_id":"a","executable":true,"price":1}', "needs code"),
        (b'{"action_type":"write_artifact","artifact_id":"a","executable":true,"code":"x"}', "a price"),
        (b'{"action_type":"write_artifact","artifact_id":"a","price":-1}', "price must be a whole number"),
        (b'{"action_type":"write_artifact","artifact_id":"a","price":1.5}', "price must be a whole number"),
        (b'{"action_type":"write_artifact","artifact_id":"a","policy":[]}', "policy must be an object"),
        (b'{"action_type":"write_artifact","artifact_id":"a","depends_on":"b"}', "depends_on must be a list"),
        (b'{"action_type":"write_artifact","artifact_id":"a","executable":1}', "executable must be true"),
        (b'{"action_type":"invoke_artifact","artifact_id":"a"}', "method must be a text"),
        (b'{"action_type":"invoke_artifact","artifact_id":"a","method":"run","args":{}}', "args must be"),
        (b'{"action_type":"transfer_artifact","artifact_id":"a"}', "to is missing"),
        (b" " * ((1 << 20) + 1), "longer than 1 MiB"),
    ],
)
def test_a_line_that_is_not_an_intent_is_refused_with_the_reason(line: bytes, why: str) -> None:
    with pytest.raises(NotAnIntent, match=why):
        parse_intent(line)


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ({"action_type": "NOOP"}, {"action_type": "noop", "reasoning": ""}),
        ({"action_type": "noop", "reasoning": 7}, {"action_type": "noop", "reasoning": ""}),
        (
            {"action_type": "read_artifact", "artifact_id": "a", "reasoning": "r", "id": "1", "else": 1},
            {"action_type": "read_artifact", "reasoning": "r", "id": "1", "artifact_id": "a"},
        ),
        (
            {"action_type": "write_artifact", "artifact_id": "a", "content": 3},
            {
                "action_type": "write_artifact",
                "reasoning": "",
                "artifact_id": "a",
                "artifact_type": "generic",
                "content": "",
                "executable": False,
                "price": 0,
                "code": "",
                "depends_on": [],
            },
        ),
        (
            {"action_type": "invoke_artifact", "artifact_id": "a", "method": "run"},
            {
                "action_type": "invoke_artifact",
                "reasoning": "",
                "artifact_id": "a",
                "method": "run",
                "args": [],
                "budget": None,
                "delegate": None,
            },
        ),
    ],
)
def test_what_is_left_out_is_filled_in(said: JsonValue, understood: JsonValue) -> None:
    assert intent_to_json(parse_intent(json.dumps(said).encode())) == understood


def test_what_a_write_does_not_name_is_not_among_what_it_changes() -> None:
    named = parse_intent(b'{"action_type":"write_artifact","artifact_id":"a","policy":null}')
    assert named.named == {"policy"}
    assert intent_to_json(named)["policy"] is None


def test_what_others_pay_for_is_left_out() -> None:
    line = json.dumps(
        {"action_type": "write_artifact", "artifact_id": "a", "content": "secret", "code": "secret"}
    )
    assert "secret" not in line_without_content(line)
    assert json.loads(line_without_content(line))["artifact_id"] == "a"
    artifact: dict[str, JsonValue] = {"id": "a", "content": "secret", "code": "secret"}
    paid: list[dict[str, JsonValue]] = [
        {"artifact": artifact, "read_price_paid": 1},
        {"result": ["secret"], "price_paid": 2},
    ]
    for data in paid:
        told = without_content({"success": True, "message": "m", "data": data})
        assert isinstance(told, dict)
        assert ("secret" in json.dumps(told), told["message"]) == (False, "m")
    assert without_content(None) is None


@pytest.mark.parametrize(
    "code", ["runtime_error", "output_limit", "not_authorized", "not_found", "invalid_argument"]
)
def test_what_code_said_when_it_failed_is_left_out(code: str) -> None:
    consumed: dict[str, JsonValue] = {"cpu_seconds": 0.1}
    message = "ValueError: secret (line 3)"
    told = without_content(
        {"success": False, "message": message, "error_code": code, "resources_consumed": consumed}
    )
    assert isinstance(told, dict)
    assert (told["message"], told["error_code"]) == (WHY_IS_PAID, code)


def test_what_runward_itself_said_of_a_failure_is_not_left_out() -> None:
    consumed: dict[str, JsonValue] = {"scrip": 3}
    told = without_content(
        {"success": False, "message": "m", "error_code": "not_authorized", "resources_consumed": consumed}
    )
    assert isinstance(told, dict)
    assert told["message"] == "m"


def test_long_content_and_code_are_cut_where_they_are_shown() -> None:
    said = {"action_type": "write_artifact", "artifact_id": "a", "content": "x" * 101, "code": "y" * 100}
    told = shown(parse_intent(json.dumps(said).encode()))
    assert (told["content"], told["code"]) == ("x" * 100 + "...", "y" * 100)
