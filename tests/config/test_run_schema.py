"""The schemas of a run directory's files have what the launcher writes, and what the layout's reader knows."""

import json
from pathlib import Path

import pytest
from tests.daemon.launching import Launcher

from runward.config.json_value import JsonValue
from runward.config.schema import schema
from runward.handlers.layouts import native


def _properties(name: str) -> dict[str, JsonValue]:
    found = schema(name)
    assert isinstance(found, dict)
    properties = found["properties"]
    assert isinstance(properties, dict)
    return properties


@pytest.mark.parametrize(("name", "file"), [("run", "run.json"), ("exit", "exit.json")])
def test_all_that_a_launcher_writes_is_described(tmp_path: Path, name: str, file: str) -> None:
    launcher = Launcher(tmp_path)
    launcher.run("--name", "a", "--", "true")
    (written,) = tmp_path.rglob(f"a/{file}")
    assert set(json.loads(written.read_text())) <= set(_properties(name))


def test_the_words_are_those_of_the_reader() -> None:
    assert _properties("run")["kind"] == {**_object(_properties("run")["kind"]), "enum": list(native.KINDS)}
    assert _object(_properties("run")["schema"])["const"] == native.SCHEMA
    assert _object(_properties("exit")["cause"])["enum"] == list(native.CAUSES)


def _object(value: JsonValue) -> dict[str, JsonValue]:
    assert isinstance(value, dict)
    return value
