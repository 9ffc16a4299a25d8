"""Who may do what with an artifact, and at what price: its policy, and contracts as code or from genesis."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.intent import EVERYONE, MOST, POLICY_DEFAULTS
from runward.config.json_value import JsonValue
from runward.handlers.exchange.accounts import Accounts, CodeRun, Frame
from runward.handlers.exchange.intent import Refused
from runward.handlers.model.asking import Asking
from runward.handlers.model.exchange import GENESIS, SharedArtifact

Use: TypeAlias = Literal["read", "write", "invoke", "delete", "transfer"]

_DONE: Final[dict[Use, str]] = {
    "read": "read",
    "write": "written",
    "invoke": "invoked",
    "delete": "deleted",
    "transfer": "transferred",
}
_BY_POLICY: Final = ("read", "write", "invoke")
_TO_CORRECT: Final = ("write", "delete", "transfer")
"""What owners may do even if a contract can't be evaluated."""


def permitted(
    accounts: Accounts, artifact: SharedArtifact, use: Use, who: str, frame: Frame | None = None
) -> Asking[int]:
    """What a contract charges for this use, in scrip for the owner. Raises `Refused` if the use is not allowed.

    If the code of `frame` asks, the use must also be allowed to everyone on whose behalf it does not act.
    """
    # Code must not do for its caller what those behind it may not do themselves.
    for owner in () if frame is None else frame.owners:
        if owner != who:
            yield from _permitted(accounts, artifact, use, owner, frame)
    return (yield from _permitted(accounts, artifact, use, who, frame))


def _permitted(
    accounts: Accounts, artifact: SharedArtifact, use: Use, who: str, frame: Frame | None
) -> Asking[int]:
    contract = _contract(artifact, use)
    is_owner = who == artifact.owner_id
    if contract is None:
        if is_owner or (use in _BY_POLICY and is_listed(policy_of(artifact)[f"allow_{use}"], use, who)):
            return 0
        raise _denied(artifact, use, who, "its policy does not allow it" if use in _BY_POLICY else "")
    rules = yield from accounts.rules()
    if not rules.use_contracts:
        if is_owner and use in _TO_CORRECT:
            return 0
        raise Refused(
            "not_configured",
            f"a contract decides who may use {artifact.id}, and contracts are off (use_contracts in [exchange])",
        )
    verdict = yield from evaluated(
        accounts=accounts, contract=contract, caller=who, action=use, target=artifact, frame=frame
    )
    if verdict.allowed:
        return verdict.cost if not is_owner else 0
    # An owner can always correct an artifact whose contract is broken. A sound contract that denies also denies its
    # owner.
    if is_owner and use in _TO_CORRECT and not verdict.is_sound:
        return 0
    raise _denied(artifact, use, who, verdict.reason)


def _contract(artifact: SharedArtifact, use: Use) -> str | None:
    """The contract that decides."""
    if artifact.access_contract_id is not None:
        return artifact.access_contract_id
    allowed = policy_of(artifact)[f"allow_{use}"] if use in _BY_POLICY else None
    if isinstance(allowed, str) and allowed.startswith(REFERENCE):
        return allowed.removeprefix(REFERENCE)
    return None


def _denied(artifact: SharedArtifact, use: Use, who: str, why: str) -> Refused:
    if not why:
        return Refused("not_authorized", f"only {artifact.owner_id}, its owner, may {use} {artifact.id}")
    return Refused("not_authorized", f"{artifact.id} can't be {_DONE[use]} by {who}: {why}")


REFERENCE: Final = "@"


def policy_of(artifact: SharedArtifact) -> dict[str, JsonValue]:
    """The complete policy of an artifact. Its price is its `invoke_price`, unless the policy names one."""
    return {**POLICY_DEFAULTS, "invoke_price": artifact.price, **(artifact.policy or {})}


def price(artifact: SharedArtifact, use: Literal["read", "invoke"], who: str) -> int:
    """The price of this use. The owner pays nothing, and a price that is not a whole number above 0 counts as none."""
    value = policy_of(artifact).get(f"{use}_price")
    if who == artifact.owner_id or not isinstance(value, int) or isinstance(value, bool):
        return 0
    return max(0, value)


def is_listed(allowed: JsonValue, use: str, who: str) -> bool:
    """Whether an `allow_*` value of a policy names a principal."""
    names = [allowed] if allowed == EVERYONE else allowed
    if not isinstance(names, list):
        return False
    return who in names or (EVERYONE in names and use != "write")


CONTRACT: Final = f"{GENESIS}contract_"
"""The prefix of the ids of the genesis contracts."""

FUNCTION: Final = "check_permission"
ACTIONS: Final = ("read", "write", "execute", "invoke", "delete", "transfer")

_USES: Final = frozenset({"read", "execute", "invoke"})
_EVERYONE, _OWNER, _ITSELF = "everyone", "the owner", "the artifact itself"

GENESIS_CONTRACTS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "freeware": {each: (_EVERYONE,) if each in _USES else (_OWNER,) for each in ACTIONS},
    "self_owned": dict.fromkeys(ACTIONS, (_OWNER, _ITSELF)),
    "private": dict.fromkeys(ACTIONS, (_OWNER,)),
    "public": dict.fromkeys(ACTIONS, (_EVERYONE,)),
}
"""Whom the genesis contracts allow each action (the table "Genesis contracts" of the exchange's page)."""

CONTRACTS: Final = tuple(f"{CONTRACT}{name}" for name in GENESIS_CONTRACTS)

_LONGEST_REASON: Final = 1000


class Verdict(NamedTuple):
    """What a contract decided. `cost` is scrip for the owner. `is_sound` is false where it could not be evaluated."""

    allowed: bool
    reason: str
    cost: int = 0
    is_sound: bool = True


def evaluated(
    accounts: Accounts,
    contract: str,
    caller: str,
    action: str,
    target: SharedArtifact,
    frame: Frame | None,
    context: Mapping[str, JsonValue] | None = None,
) -> Asking[Verdict]:
    """What a contract says about an action. `context` replaces what the target would give. If in doubt, it denies."""
    known = context_of(accounts, target, frame) if context is None else context
    if contract.startswith(CONTRACT):
        return _of_genesis(contract, caller, action, known)
    # If in doubt, it denies: a contract that is missing or broken allows nothing.
    artifact = yield from accounts.artifact(contract)
    if artifact is None or artifact.deleted_at is not None:
        return Verdict(False, f"there is no contract {contract}", is_sound=False)
    if not artifact.executable:
        return Verdict(False, f"the contract {contract} is not executable", is_sound=False)
    return (
        yield from run_contract(
            accounts=accounts,
            contract=contract,
            code=artifact.code,
            caller=caller,
            action=action,
            target=target.id,
            context=known,
        )
    )


def run_contract(
    accounts: Accounts,
    contract: str,
    code: str,
    caller: str,
    action: str,
    target: str,
    context: Mapping[str, JsonValue],
) -> Asking[Verdict]:
    """What this code says about an action."""
    left = yield from accounts.cpu_left()
    ran = yield from accounts.run(
        CodeRun(contract, code, FUNCTION, (caller, action, target, dict(context)), left)
    )
    if ran.code is not None:
        return Verdict(False, f"the contract {contract} failed: {ran.error}", is_sound=False)
    return read_verdict(ran.result)


def context_of(accounts: Accounts, target: SharedArtifact, frame: Frame | None) -> dict[str, JsonValue]:
    """What a contract is given about its target. There are no ticks: `now` (Unix seconds) replaces them."""
    return {
        "owner": target.owner_id,
        "artifact_type": target.type,
        "artifact_id": target.id,
        "now": accounts.at,
        "depth": 0 if frame is None else frame.depth + 1,
        "invoker": None if frame is None else frame.artifact,
    }


def read_verdict(answer: JsonValue) -> Verdict:
    """What a contract returned. Anything but an object with a boolean `allowed` denies."""
    # The answer is the result of code that others wrote, so its types are checked.
    if not isinstance(answer, dict) or not isinstance(answer.get("allowed"), bool):
        return Verdict(False, "the contract returned no object with a boolean allowed", is_sound=False)
    reason = answer.get("reason", "No reason provided")
    cost = _cost(answer.get("cost"))
    if cost is None:
        return Verdict(False, "the contract's cost is above 2^53", is_sound=False)
    return Verdict(bool(answer["allowed"]), str(reason)[:_LONGEST_REASON], cost)


def _cost(written: JsonValue) -> int | None:
    """A whole number of 0 or more; text and fractions are truncated, and nonsense is 0. None if it is too large."""
    if isinstance(written, bool) or not isinstance(written, str | int | float):
        return 0
    try:
        cost = int(float(written)) if isinstance(written, str) else int(written)
    except OverflowError:
        return None
    except ValueError:
        return 0
    return max(0, cost) if cost <= MOST else None


def _of_genesis(contract: str, caller: str, action: str, context: Mapping[str, JsonValue]) -> Verdict:
    rules = GENESIS_CONTRACTS.get(contract.removeprefix(CONTRACT))
    if rules is None:
        return Verdict(False, f"there is no contract {contract}", is_sound=False)
    allowed = rules.get(action, ())
    who = {
        _EVERYONE,
        *((_OWNER,) if caller == context.get("owner") else ()),
        *((_ITSELF,) if caller == context.get("artifact_id") else ()),
    }
    if who & set(allowed):
        return Verdict(True, f"{contract} allows {action} to {' and '.join(allowed)}")
    return Verdict(False, f"{contract} allows {action} only to {' and '.join(allowed) or 'nobody'}")
