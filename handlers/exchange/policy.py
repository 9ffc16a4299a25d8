"""What the policy of an artifact says: who may use it, and at what price."""

from collections.abc import Mapping
from typing import Final, Literal

from runward.config.json_value import JsonValue
from runward.handlers.model.exchange import SharedArtifact

EVERYONE: Final = "*"
REFERENCE: Final = "@"

DEFAULTS: Final[Mapping[str, JsonValue]] = {
    "read_price": 0,
    "invoke_price": 0,
    "allow_read": [EVERYONE],
    "allow_write": [],
    "allow_invoke": [EVERYONE],
}
"""The policy of an artifact that has none. A policy with some of the keys gets the others from here."""


def policy_of(artifact: SharedArtifact) -> dict[str, JsonValue]:
    """The complete policy of an artifact. Its price is its `invoke_price`, unless the policy names one."""
    return {**DEFAULTS, "invoke_price": artifact.price, **(artifact.policy or {})}


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
