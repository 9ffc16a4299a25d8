import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.contract import contract_from_json, declaration_schema
from runward.config.duration import DURATION_PATTERN
from runward.config.json_value import JsonValue
from runward.config.playbook import read_playbook
from runward.config.schema import DIALECT, SCHEMAS, schema
from runward.config.settings import SETTINGS


def look_up(value: JsonValue, *keys: str) -> JsonValue:
    for key in keys:
        assert isinstance(value, dict)
        value = value[key]
    return value


def fields(value: JsonValue, name: str) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Every field that a schema describes, with its dotted name."""
    if isinstance(value, list):
        for item in value:
            yield from fields(item, name)
    elif isinstance(value, dict):
        properties = value.get("properties", {})
        assert isinstance(properties, dict)
        for key, field in properties.items():
            assert isinstance(field, dict)
            yield f"{name}.{key}", field
        for key, item in value.items():
            yield from fields(item, f"{name}.{key}")


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_names_its_dialect_and_its_title(name: str) -> None:
    assert look_up(schema(name), "$schema") == DIALECT
    assert str(look_up(schema(name), "title")).startswith("Runward ")


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_field_of_a_schema_is_described(name: str) -> None:
    found = dict(fields(schema(name), name))
    assert len(found) >= 3
    assert [field for field, shape in found.items() if not shape.get("description")] == []


def test_a_duration_of_a_playbook_is_described_by_its_pattern_in_the_order_that_editors_have_stored() -> None:
    timeout = look_up(schema("playbook"), "properties", "timeout")
    assert isinstance(timeout, dict)
    assert list(timeout) == ["anyOf", "default", "description", "title"]
    assert timeout["anyOf"] == [
        {"examples": ["30s", "5min", "1h30m", "2d"], "pattern": DURATION_PATTERN, "type": "string"},
        {"type": "null"},
    ]


def test_an_unknown_schema_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        schema("nonsense")


def test_the_settings_schema_has_the_keys_that_the_reader_knows() -> None:
    properties = look_up(schema("settings"), "properties")
    assert isinstance(properties, dict)
    assert set(properties) == set(SETTINGS.keys)
    assert look_up(schema("settings"), "additionalProperties") is False


def test_a_playbook_may_hold_every_key_of_its_schema() -> None:
    properties = look_up(schema("playbook"), "properties")
    assert isinstance(properties, dict)
    text = "".join(f"{key}:\n" for key in properties)
    assert read_playbook(text, "x.playbook.yaml").problems == ()


def entry_pattern(key: str) -> str:
    pattern = look_up(declaration_schema(), "properties", "expected", "items", "properties", key, "pattern")
    assert isinstance(pattern, str)
    return pattern


@given(st.text(alphabet="./ab*-_é\0", max_size=8))
def test_the_patterns_of_ids_and_paths_say_what_the_reader_says(text: str) -> None:
    for key, other in (("id", "path"), ("path", "id")):
        entry: JsonValue = {key: text, other: "x"}
        accepted = not contract_from_json({"expected": [entry]}, "f").errors
        assert (re.search(entry_pattern(key), text) is not None) == accepted, (key, text)
