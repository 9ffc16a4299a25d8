"""Whether a principal may do something with an artifact, and what a contract charges for it."""

from typing import Final, Literal, TypeAlias

from runward.handlers.exchange.accounts import Accounts
from runward.handlers.exchange.action_result import Refused
from runward.handlers.exchange.contracts import evaluated
from runward.handlers.exchange.policy import REFERENCE, is_listed, policy_of
from runward.handlers.exchange.running_code import Frame
from runward.handlers.model.asking import Asking
from runward.handlers.model.exchange import SharedArtifact

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
    verdict = yield from evaluated(accounts, contract, who, use, artifact, frame)
    if verdict.allowed:
        return verdict.cost if not is_owner else 0
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
