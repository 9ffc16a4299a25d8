"""Parts of an interface that claim to be JSON Schema: what is wrong with them is said, whatever stands there."""

import pytest

from runward.config.json_value import JsonValue
from runward.daemon.views.exchange import interface_problems

SEED: JsonValue = {
    "description": "Calculator service",
    "dataType": "service",
    "methods": [
        {
            "name": "add",
            "inputSchema": {"a": "number", "b": "number"},
            "outputSchema": {"type": "number"},
            "cost": 0,
            "examples": [{"input": {"a": 1, "b": 2}, "output": 3}],
        }
    ],
}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("interface", "places"),
    [
        (None, []),
        (SEED, []),
        ({"inputSchema": True, "linearization": 7, "cost": {}, "methods": {"add": 1}}, []),
        ({"inputSchema": {"$schema": DRAFT_7, "type": "object"}}, []),
        ({"type": "no schema unless it says so"}, []),
        ({"inputSchema": "text", "outputSchema": {"type": "nmber"}}, ["inputSchema", "outputSchema"]),
        (
            {"methods": ["run", {"name": "a", "inputSchema": {"properties": {"a": {"minimum": "x"}}}}]},
            ["methods[1].inputSchema"],
        ),
        ({"$schema": DRAFT_7, "type": 7}, ["interface"]),
        ({"inputSchema": {"$schema": "http://127.0.0.1:9/none"}}, ["inputSchema"]),
        ({"inputSchema": {"$schema": 7}}, ["inputSchema"]),
        ({"inputSchema": {"$ref": "http://127.0.0.1:9/none"}}, []),
    ],
)
def test_each_part_that_is_no_schema_is_named(interface: JsonValue, places: list[str]) -> None:
    assert [each.partition(":")[0] for each in interface_problems(interface)] == places


def test_an_unknown_dialect_is_not_looked_up() -> None:
    (problem,) = interface_problems({"outputSchema": {"$schema": "http://127.0.0.1:9/none", "type": 7}})
    assert problem == "outputSchema: $schema names no known version of JSON Schema"
