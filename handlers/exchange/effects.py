"""What can be ordered for the exchange: rows of its tables."""

from typing import NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.exchange.facts import Principal, SharedArtifact


class KeepArtifact(NamedTuple):
    """Store this version of an artifact. Refused unless it follows the stored version."""

    artifact: SharedArtifact


class KeepPrincipal(NamedTuple):
    """Store this version of a principal. Refused unless it follows the stored version."""

    principal: Principal


class Post(NamedTuple):
    """An entry of the ledger: `amount` units of a resource from one account to another. No balance may fall below
    zero."""

    at: float
    action: str
    giver: str
    taker: str
    resource: str
    amount: int
    reason: str


class UseCpu(NamedTuple):
    """A principal used CPU time (seconds) at a moment (Unix seconds). Times before `kept` no longer count."""

    principal: str
    at: float
    seconds: float
    kept: float


class RecordAction(NamedTuple):
    """Store an action with its result: one for each intent."""

    key: str
    at: float
    principal: str | None
    session_key: str | None
    line: int | None
    action_type: str | None
    artifact_id: str | None
    intent: JsonValue
    result: JsonValue
    is_success: bool
    error_code: str | None
    scrip_after: int | None
    sandbox: str | None = None


class CountIntent(NamedTuple):
    """Count one more intent of a run as finished: it has its result, or will never have one."""

    session_key: str


ExchangeEffect: TypeAlias = KeepArtifact | KeepPrincipal | Post | UseCpu | RecordAction | CountIntent
