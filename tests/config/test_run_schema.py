"""The schemas of a run directory's files have what the launcher writes."""

import json
from pathlib import Path

import pytest
from tests.daemon.launching import Launcher

from runward.config.json_value import JsonValue
from runward.config.schema import schema


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
