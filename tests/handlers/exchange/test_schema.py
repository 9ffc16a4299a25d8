"""The schemas of the exchange say what the readers say, and every result has its shape."""

import json

import pytest
from jsonschema_rs import validator_for
from tests.handlers.exchange.played import Exchange

from runward.config.intent import CODES, NotAnIntent
from runward.config.json_value import JsonValue
from runward.config.schema import schema
from runward.handlers.exchange.intent import parse_intent


def called(name: str) -> dict[str, JsonValue]:
    """The schema of this name."""
    found = schema(name)
    assert isinstance(found, dict)
    return found


INTENT = validator_for(called("intent"))
RESULT = validator_for(called("action_result"))

SAID: list[dict[str, JsonValue]] = [
    {"action_type": "noop"},
    {"action_type": "read_artifact", "artifact_id": "a", "reasoning": "r"},
    {"action_type": "read_artifact"},
    {"action_type": "read_artifact", "artifact_id": ""},
    {"action_type": "write_artifact", "artifact_id": "a", "policy": None, "depends_on": ["b"], "price": 3},
    {"action_type": "write_artifact", "artifact_id": "a", "price": -1},
    {"action_type": "write_artifact", "artifact_id": "a", "executable": "yes"},
    {"action_type": "invoke_artifact", "artifact_id": "a", "method": "run", "args": [1], "budget": 5},
    {"action_type": "invoke_artifact", "artifact_id": "a"},
    {"action_type": "delete_artifact", "artifact_id": "a"},
    {"action_type": "transfer_artifact", "artifact_id": "a", "to": "b"},
    {"action_type": "transfer_artifact", "artifact_id": "a"},
    {"action_type": "fly"},
]


@pytest.mark.parametrize("said", SAID, ids=str)
def test_an_intent_that_the_reader_takes_has_the_shape_of_the_schema_and_no_other(
    said: dict[str, JsonValue],
) -> None:
    try:
        parse_intent(json.dumps(said).encode())
    except NotAnIntent:
        assert not INTENT.is_valid(said)
    else:
        assert INTENT.is_valid(said)


def test_every_result_has_the_shape_of_its_schema() -> None:
    exchange = Exchange()
    exchange.create("a", 10)
    exchange.create("b")
    for said in SAID:
        for who in ("a", "b"):
            result = exchange.say(who, json.dumps(said))
            RESULT.validate(result)
            assert result["success"] or result["error_code"] in CODES
