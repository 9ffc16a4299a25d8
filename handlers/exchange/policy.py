"""Who may do what with an artifact by its policy, and what it costs."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.exchange.action_result import Refused
from runward.handlers.exchange.facts import SharedArtifact

Use: TypeAlias = Literal["read", "write", "invoke"]

EVERYONE: Final = "*"
REFERENCE: Final = "@"

DEFAULTS: Final[Mapping[str, JsonValue]] = {
    "read_price": 0,
    "invoke_price": 0,
    "allow_read": [EVERYONE],
    "allow_write": [],
    "allow_invoke": [EVERYONE],
}
"""The policy of an artifact that has none; one that has some of the keys has these for the others."""

_DONE: Final[Mapping[Use, str]] = {"read": "read", "write": "written", "invoke": "invoked"}


def policy_of(artifact: SharedArtifact) -> dict[str, JsonValue]:
    """The whole policy of an artifact. Its price is its `invoke_price`, unless the policy names one."""
    return {**DEFAULTS, "invoke_price": artifact.price, **(artifact.policy or {})}


def price(artifact: SharedArtifact, use: Use, who: str) -> int:
    """What this use costs; the owner pays nothing, and a price that is not a whole number above 0 is none."""
    value = policy_of(artifact).get(f"{use}_price")
    if who == artifact.owner_id or not isinstance(value, int) or isinstance(value, bool):
        return 0
    return max(0, value)


def check_allowed(artifact: SharedArtifact, use: Use, who: str) -> None:
    """Whether `who` may use the artifact so. Raises `Refused`."""
    allowed = policy_of(artifact)[f"allow_{use}"]
    is_owner = who == artifact.owner_id
    is_referred = isinstance(allowed, str) and allowed.startswith(REFERENCE)
    if (is_referred or artifact.access_contract_id is not None) and not (is_owner and use == "write"):
        raise Refused(
            "not_configured",
            f"a contract decides who may use {artifact.id}, and contracts are off (use_contracts in [exchange])",
        )
    if is_owner or _is_listed(allowed, use, who):
        return
    raise Refused(
        "not_authorized", f"{artifact.id} can't be {_DONE[use]} by {who}: its policy does not allow it"
    )


def _is_listed(allowed: JsonValue, use: Use, who: str) -> bool:
    names = [allowed] if allowed == EVERYONE else allowed
    if not isinstance(names, list):
        return False
    return who in names or (EVERYONE in names and use != "write")
