"""JSON Schemas (draft 2020-12) of the files that people and programs write: `runward schema NAME`.

A schema helps while typing. The reader decides, and it also knows rules that no schema can express.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from runward.config.json_value import JsonValue

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def _settings() -> Mapping[str, JsonValue]:
    from runward.config.settings import SETTINGS
    from runward.config.shape import described

    return {"title": "Runward settings", **described(SETTINGS)}


def _playbook() -> Mapping[str, JsonValue]:
    from runward.config.playbook import PlaybookFile

    return PlaybookFile.model_json_schema()


def _agent() -> Mapping[str, JsonValue]:
    from runward.config.agent import AgentFrontmatter

    return AgentFrontmatter.model_json_schema()


def _flow() -> Mapping[str, JsonValue]:
    from runward.config.flow_schema import FLOW_SCHEMA

    return FLOW_SCHEMA


def _chain() -> Mapping[str, JsonValue]:
    from runward.config.chain import chain_schema

    return chain_schema()


def _outcome() -> Mapping[str, JsonValue]:
    from runward.config.outcome_schema import outcome_schema

    return outcome_schema()


def _intent() -> Mapping[str, JsonValue]:
    from runward.config.exchange_schema import INTENT_SCHEMA

    return INTENT_SCHEMA


def _action_result() -> Mapping[str, JsonValue]:
    from runward.config.exchange_schema import ACTION_RESULT_SCHEMA

    return ACTION_RESULT_SCHEMA


def _policy() -> Mapping[str, JsonValue]:
    from runward.config.exchange_schema import POLICY_SCHEMA

    return POLICY_SCHEMA


def _run() -> Mapping[str, JsonValue]:
    from runward.config.run_schema import RUN_SCHEMA

    return RUN_SCHEMA


def _exit() -> Mapping[str, JsonValue]:
    from runward.config.run_schema import EXIT_SCHEMA

    return EXIT_SCHEMA


def _receipt() -> Mapping[str, JsonValue]:
    from runward.config.bundle_schema import RECEIPT_SCHEMA

    return RECEIPT_SCHEMA


def _replay() -> Mapping[str, JsonValue]:
    from runward.config.bundle_schema import REPLAY_SCHEMA

    return REPLAY_SCHEMA


_MAKERS: Final[Mapping[str, Callable[[], Mapping[str, JsonValue]]]] = MappingProxyType(
    {
        "settings": _settings,
        "playbook": _playbook,
        "agent": _agent,
        "flow": _flow,
        "chain": _chain,
        "outcome": _outcome,
        "run": _run,
        "exit": _exit,
        "intent": _intent,
        "action_result": _action_result,
        "policy": _policy,
        "receipt": _receipt,
        "replay": _replay,
    }
)

SCHEMAS: Final = tuple(_MAKERS)
"""The names that `schema` knows."""


def schema(name: str) -> JsonValue:
    """The JSON Schema called `name`, one of `SCHEMAS`. Raises KeyError for any other name."""
    return {"$schema": DIALECT, **_MAKERS[name]()}
