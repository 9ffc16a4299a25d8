"""JSON Schemas (draft 2020-12) of the files that people and programs write: `runward schema NAME`.

A schema helps while typing. The reader decides, and it also knows rules that no schema can express.
"""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final, cast

from runward.config.json_value import JsonValue

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_DESCRIBED: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "settings": ("settings", "settings_schema"),
        "playbook": ("playbook", "playbook_schema"),
        "agent": ("agent", "agent_schema"),
        "flow": ("flow", "flow_schema"),
        "chain": ("chain", "chain_schema"),
        "outcome": ("outcome", "outcome_schema"),
        "run": ("run_schema", "run_schema"),
        "exit": ("run_schema", "exit_schema"),
        "intent": ("intent", "intent_schema"),
        "action_result": ("intent", "action_result_schema"),
        "policy": ("intent", "policy_schema"),
        "receipt": ("bundle_schema", "receipt_schema"),
        "replay": ("bundle_schema", "replay_schema"),
    }
)
"""The module of each document, and the function in it that gives its schema."""

SCHEMAS: Final = tuple(_DESCRIBED)
"""The names that `schema` knows."""


def schema(name: str) -> JsonValue:
    """The JSON Schema called `name`, one of `SCHEMAS`. Raises KeyError for any other name."""
    module, function = _DESCRIBED[name]
    # Only the module that is asked is imported: some take long, and completion asks for the names alone.
    describe = getattr(import_module(f"runward.config.{module}"), function)
    return {"$schema": DIALECT, **cast("Mapping[str, JsonValue]", describe())}
