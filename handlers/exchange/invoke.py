"""An artifact is invoked: a genesis artifact at once, the code of others in the sandbox.

The price is reserved before code runs, and paid once it has succeeded. Running code may invoke further artifacts,
for the same caller and from the same budget.
"""

from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.exchange import artifacts, genesis
from runward.handlers.exchange.accounts import Accounts
from runward.handlers.exchange.action_result import ActionResult, Refused
from runward.handlers.exchange.intent import DEFAULT_METHOD, Intent
from runward.handlers.exchange.permission import permitted
from runward.handlers.exchange.policy import price
from runward.handlers.exchange.running_code import CodeRun, Frame
from runward.handlers.model.asking import Asking
from runward.handlers.model.exchange import SharedArtifact


class Returned(NamedTuple):
    """What an invocation returned, and what it cost."""

    result: JsonValue
    cost: int
    owner: str
    why_idle: str | None = None
    """Why the code acted for nobody."""


def invoke(accounts: Accounts, who: str, intent: Intent) -> Asking[ActionResult]:
    """Invoke a method of an artifact at its price. Raises `Refused`, and `NeedsCode` if code can't run."""
    delegates = intent.delegate
    if delegates is None:
        delegates = (yield from accounts.rules()).delegate
    accounts.budget = intent.budget
    returned = yield from invoked(
        accounts, who, intent.artifact_id, intent.method, intent.args, None, delegates=delegates
    )
    done = f"invoked {intent.artifact_id}.{intent.method}"
    return ActionResult(
        True,
        done if returned.why_idle is None else f"{done}; {returned.why_idle}",
        {"result": returned.result, "price_paid": returned.cost, "owner": returned.owner},
        {"cpu_seconds": 0.0, "scrip": accounts.spent},
        who,
    )


def invoked(
    accounts: Accounts,
    caller: str,
    artifact_id: str,
    method: str,
    args: tuple[JsonValue, ...],
    outer: Frame | None,
    *,
    delegates: bool,
) -> Asking[Returned]:
    """Invoke a method, from the code of `outer` or from the intent itself. Raises `Refused`, and `NeedsCode`."""
    own = genesis.genesis_artifact(artifact_id)
    artifact = own or (yield from artifacts.existing(accounts, artifact_id))
    if not artifact.executable:
        raise Refused("invalid_type", f"{artifact.id} is not executable")
    asked = yield from permitted(accounts, artifact, "invoke", caller, outer)
    if own is not None:
        may_change = outer is None or outer.is_lent
        result = yield from genesis.call(accounts, caller, own.id, method, args, may_change=may_change)
        return Returned(result, 0, own.owner_id)
    broken = yield from artifacts.broken_dependencies(accounts, artifact)
    if broken:
        raise Refused("not_found", f"Dependency '{broken[0]}' not found or deleted")
    if method != DEFAULT_METHOD and method not in _methods(artifact):
        raise Refused("not_found", f"{artifact.id} has no method {method}")
    cost = asked + price(artifact, "invoke", caller)
    what = f"invoke {artifact.id}"
    yield from accounts.reserve(caller, cost, what)
    left = yield from accounts.cpu_left()
    frame = _frame(artifact, caller, outer, delegates=delegates)
    ran = yield from accounts.succeeded(
        CodeRun(artifact.id, artifact.code, method, args, left, artifact.depends_on, frame)
    )
    accounts.release(cost)
    # The outermost call delivers only when its action is recorded, so its price is a change like others.
    paying = accounts.pay if outer is None else accounts.buy
    yield from paying(caller, artifact.owner_id, cost, what)
    return Returned(ran.result, cost, artifact.owner_id, None if artifact.acts else _why_idle(artifact))


def _frame(artifact: SharedArtifact, caller: str, outer: Frame | None, *, delegates: bool) -> Frame:
    """On whose behalf an artifact's code runs: the caller's, if the caller owns it or the intent delegates to it.

    Code that the owner did not write acts for nobody, and neither does what it invokes. It reads only what the one who
    wrote it may read as well: otherwise it could carry off what its owner may read.
    """
    delegates = delegates and artifact.acts
    is_lent = delegates or (
        (outer is None or outer.is_lent) and artifact.acts and artifact.owner_id == caller
    )
    owners = () if outer is None else outer.owners
    if not is_lent:
        behind = (artifact.owner_id, artifact.written_by)
        owners = tuple(dict.fromkeys((*owners, *(each for each in behind if each != caller))))
    depth, invoker = (0, None) if outer is None else (outer.depth + 1, outer.artifact)
    return Frame(artifact.id, caller, depth, is_lent, owners, delegates, artifact.acts, invoker)


def _why_idle(artifact: SharedArtifact) -> str:
    return f"its code acts for nobody until {artifact.owner_id}, its owner, writes it: {artifact.written_by} wrote it"


def _methods(artifact: SharedArtifact) -> frozenset[str]:
    """The methods that the interface lists, by name."""
    listed = (artifact.interface or {}).get("methods")
    names = (
        [each.get("name") if isinstance(each, dict) else each for each in listed]
        if isinstance(listed, list)
        else []
    )
    return frozenset(name for name in names if isinstance(name, str))
