"""Snapshots: a contract as the text that is kept, and back.

Thousands of runs have the same contract, so a snapshot is remembered once it was read, if it is small:
a snapshot in a run directory is hostile and may be a megabyte.
"""

import json
from functools import lru_cache
from typing import Final, NamedTuple

from pydantic_core import from_json, to_json

from runward.config.contract import Contract, contract_from_json, contract_to_json
from runward.config.json_value import JsonValue

REMEMBERED: Final = 16 << 10
"""Bytes of the largest snapshot that is remembered."""


class Snapshot(NamedTuple):
    """A contract with the text that is stored for it, or why there is none."""

    contract: Contract | None
    text: str | None
    problem: str | None


NO_CONTRACT: Final = Snapshot(None, None, None)


def snapshot_of(contract: Contract | None) -> Snapshot:
    """The snapshot of a contract that was resolved from what people declared."""
    if contract is None:
        return NO_CONTRACT
    text = json.dumps(contract_to_json(contract), ensure_ascii=False, separators=(",", ":"))
    return Snapshot(contract, text, None)


def snapshot_from_run(value: JsonValue) -> Snapshot:
    """The snapshot that a launcher wrote into `run.json`, checked like everything in there."""
    if value is None:
        return NO_CONTRACT
    text = to_json(value)
    return _checked(text) if len(text) <= REMEMBERED else _check(text)


def _check(text: bytes) -> Snapshot:
    parsed = contract_from_json(from_json(text), "run.json")
    if parsed.value is None:
        return Snapshot(None, None, "run.json: " + "; ".join(each.message for each in parsed.errors))
    return snapshot_of(parsed.value)


def stored_contract(text: str) -> Contract:
    """The contract of a stored snapshot. Raises `BrokenSnapshot`."""
    return _stored(text) if len(text) <= REMEMBERED else _read(text)


def _read(text: str) -> Contract:
    parsed = contract_from_json(from_json(text), "the store")
    if parsed.value is None:
        raise BrokenSnapshot(parsed.problems[0].render())
    return parsed.value


class BrokenSnapshot(ValueError):
    """The store contains an invalid contract. That is a bug of Runward: it was checked before it was stored."""


_checked = lru_cache(maxsize=256)(_check)
_stored = lru_cache(maxsize=256)(_read)
