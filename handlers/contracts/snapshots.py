"""A session's contract: what is declared for it now, and the snapshot, the text that is kept."""

import json
from functools import lru_cache
from typing import Final, NamedTuple

from runward.config.contract import Contract, contract_from_json, contract_to_json, resolve_contract
from runward.config.json_value import JsonValue, from_stored_json, stored_json
from runward.config.root import NATIVE
from runward.handlers.model.asking import Asking, ask
from runward.handlers.model.contracts import DeclaredContract, Ruled, RuledPlaybook
from runward.handlers.model.sessions import SessionDeclaration

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
    text = stored_json(value)
    return _checked(text) if len(text) <= REMEMBERED else _check(text)


def _check(text: bytes) -> Snapshot:
    parsed = contract_from_json(from_stored_json(text), "run.json")
    if parsed.value is None:
        return Snapshot(None, None, "run.json: " + "; ".join(each.message for each in parsed.errors))
    return snapshot_of(parsed.value)


def stored_contract(text: str) -> Contract:
    """The contract of a stored snapshot. Raises `BrokenSnapshot`."""
    return _stored(text) if len(text) <= REMEMBERED else _read(text)


def _read(text: str) -> Contract:
    parsed = contract_from_json(from_stored_json(text), "the store")
    if parsed.value is None:
        raise BrokenSnapshot(parsed.problems[0].render())
    return parsed.value


class BrokenSnapshot(ValueError):
    """The store contains an invalid contract. That is a bug of Runward: it was checked before it was stored."""


# Most sessions of a root have one of a few contracts, and each verdict reads the contract again.
_checked = lru_cache(maxsize=256)(_check)
_stored = lru_cache(maxsize=256)(_read)


class DeclaredNow(NamedTuple):
    """The contract that a session gets, and its playbook. `rule` is the place of the rule that says so."""

    snapshot: Snapshot
    playbook: str | None
    rule: str | None


def declared_now(declaration: SessionDeclaration) -> Asking[DeclaredNow]:
    """What counts for the session if it is fixed at this moment."""
    ruled = yield from _ruled(declaration)
    snapshot = yield from _declared(ruled)
    playbook = ruled.playbook if ruled.rule is not None else declaration.playbook
    return DeclaredNow(snapshot, playbook, ruled.rule)


def _ruled(declaration: SessionDeclaration) -> Asking[Ruled]:
    """What the session's contract is made from: what it names, or what the settings' rules name.

    The agent of another tool's session counts if it has a profile.
    """
    if declaration.layout == NATIVE:
        return Ruled(declaration.playbook, declaration.agent)
    ruled = yield from ask(
        RuledPlaybook(declaration.layout, declaration.cwd, declaration.agent, declaration.prompt)
    )
    # What a session names itself takes precedence over any rule.
    return ruled if declaration.playbook is None else Ruled(declaration.playbook, ruled.agent)


def _declared(ruled: Ruled) -> Asking[Snapshot]:
    """What the playbook and the agent declare now, or the operator's problem."""
    if ruled.playbook is None and ruled.agent is None:
        return NO_CONTRACT
    answer = yield from ask(DeclaredContract(ruled.playbook, ruled.agent))
    if answer.problem is not None:
        named = f" (named by the rule at {ruled.rule})" if ruled.rule is not None else ""
        return Snapshot(None, None, f"{answer.problem}{named}")
    return snapshot_of(resolve_contract(playbook=answer.playbook, agent=answer.agent))
