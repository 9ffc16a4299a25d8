"""`[exchange.executor]`: how code of the exchange is run."""

import pytest
from tests.config.test_settings import complaints, good

from runward.config.exchange import Executor
from runward.config.settings import settings_from_json, settings_to_json

ALL = """
[exchange.executor]
sandbox = "bubblewrap"
timeout = "250ms"
memory = "128MB"
tmp = "1MB"
output = "2KB"
preloaded_imports = ["statistics"]
"""


def test_without_the_table_the_defaults_hold() -> None:
    assert good("batch = 3").exchange.executor == Executor(
        "bubblewrap", 5.0, 256 << 20, 16 << 20, 2, 64 << 10, ("math", "json", "random", "datetime")
    )


def test_each_key_replaces_its_default_alone() -> None:
    settings = good('[exchange.executor]\ntimeout = "1s"')
    assert settings.exchange.executor == Executor(timeout=1.0)
    assert "exchange.executor.memory" not in settings.origin
    assert settings.origin["exchange.executor.timeout"].endswith(":2")


@pytest.mark.parametrize("text", [ALL, "batch = 3"])
def test_they_survive_the_way_through_json(text: str) -> None:
    settings = good(text)
    again = settings_from_json(settings_to_json(settings))
    assert again is not None
    assert again.exchange.executor == settings.exchange.executor


def test_all_keys_are_read() -> None:
    assert good(ALL).exchange.executor == Executor(
        "bubblewrap", 0.25, 128 << 20, 1 << 20, output=2048, preloaded_imports=("statistics",)
    )


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('sandbox = "none"', "'none' is not known"),
        ('memory = "1KB"', "must be 64MB to 64GB"),
        ('tmp = "0B"', "must be 4KB to 4GB"),
        ('output = "2MB"', "must be 1KB to 1MB"),
        ('timeout = "1ms"', "must be at least 10ms"),
        ('timeout = "1h"', "must be at least 1us and at most"),
        ('preloaded_imports = ["os; x"]', "can't be the name of a module"),
        ("workers = 65", "must be a whole number from 0 to 64"),
        ("slots = 2", "slots"),
    ],
)
def test_what_is_wrong_is_refused(line: str, complaint: str) -> None:
    assert complaint in str(complaints(f"[exchange.executor]\n{line}"))
