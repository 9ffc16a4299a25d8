"""The JSON Schemas of a receipt and of a replay's line accept what the readers accept, and refuse what breaks a field."""

import json
from collections.abc import Iterator

import jsonschema_rs
import pytest
from tests.handlers.bundle.bundles import bundle

from runward.config.bundle_schema import ADDED_FIELDS, SEED_FIELDS, TELLING_FIELDS
from runward.config.json_value import JsonValue
from runward.config.schema import schema
from runward.handlers.bundle.receipt import field_problems


def called(name: str) -> dict[str, JsonValue]:
    """The schema of this name."""
    found = schema(name)
    assert isinstance(found, dict)
    return found


RECEIPT = jsonschema_rs.validator_for(called("receipt"))
REPLAY = jsonschema_rs.validator_for(called("replay"))
OTHERS: tuple[JsonValue, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    2,
    "",
    "x",
    [],
    {},
    f"sha256:{'0' * 64}",
    f"sha256:{'A' * 64}",
)


@pytest.mark.parametrize("seed", range(20))
def test_what_verifies_fits_the_schemas(seed: int) -> None:
    for plain in (True, False):
        made = bundle(seed, plain=plain)
        assert RECEIPT.is_valid(made.fields)
        for line in made.replay.splitlines():
            assert REPLAY.is_valid(json.loads(line)), line


def _changed(fields: dict[str, JsonValue]) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    for key in (*SEED_FIELDS, *ADDED_FIELDS):
        if key in fields:
            yield f"without {key}", {name: each for name, each in fields.items() if name != key}
        for other in OTHERS:
            if not (key.endswith("_at") and isinstance(other, str)):  # a schema's format is only a note
                yield f"{key} = {other!r}", {**fields, key: other}


@pytest.mark.parametrize("plain", [True, False], ids=["seed", "runward"])
def test_the_schema_of_a_receipt_refuses_what_the_reader_refuses(plain: bool) -> None:
    fields = bundle(3, plain=plain).fields
    apart = [
        said
        for said, changed in _changed(fields)
        if RECEIPT.is_valid(changed) != (not list(field_problems(changed)))
    ]
    assert apart == []


def test_the_schema_knows_the_fields_that_the_reader_knows() -> None:
    described = schema("receipt")
    assert isinstance(described, dict)
    properties, then = described["properties"], described["then"]
    assert isinstance(properties, dict)
    assert isinstance(then, dict)
    assert isinstance(then["required"], list)
    assert isinstance(described["required"], list)
    assert isinstance(then["properties"], dict)
    assert set(properties) == set(SEED_FIELDS)
    assert set(then["properties"]) == set(ADDED_FIELDS)
    assert set(described["required"]) == set(SEED_FIELDS)
    assert {*then["required"]} == set(ADDED_FIELDS)
    assert {*then["required"]} >= {*TELLING_FIELDS}


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"event": 1},
        {"event": "ToolCall", "tool": "x"},
        {"event": "ToolResult", "id": 7},
        {"event": "ToolCall", "id": "c", "params_hash": "abc"},
        {"event": "ToolResult", "id": "c", "step_utility": 2},
        {"event": "Verification", "commands": "pytest"},
        {"event": "SessionEnd", "total_tool_calls": "3"},
    ],
)
def test_a_broken_line_does_not_fit(line: JsonValue) -> None:
    assert not REPLAY.is_valid(line)


def test_an_unknown_event_fits() -> None:
    assert REPLAY.is_valid({"event": "Later", "id": 7})
