"""An artifact is invoked: a genesis artifact at once, the code of others in the sandbox.

The price is reserved before code runs, and paid once it has succeeded. Running code may invoke further artifacts,
for the same caller and from the same budget.
"""

from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.asking import Asking
from runward.handlers.exchange import artifacts, genesis
from runward.handlers.exchange.accounts import Accounts
from runward.handlers.exchange.action_result import ActionResult, Refused
from runward.handlers.exchange.facts import SharedArtifact
from runward.handlers.exchange.intent import DEFAULT_METHOD, Intent
from runward.handlers.exchange.permission import permitted
from runward.handlers.exchange.policy import price
from runward.handlers.exchange.running_code import CodeRun, Frame


class Returned(NamedTuple):
    """What an invocation returned, and what it cost."""

    result: JsonValue
    cost: int
    owner: str


def invoke(accounts: Accounts, who: str, intent: Intent) -> Asking[ActionResult]:
    """Invoke a method of an artifact at its price. Raises `Refused`, and `NeedsCode` if code can't run."""
    delegates = intent.delegate
    if delegates is None:
        delegates = (yield from accounts.rules()).delegate
    accounts.budget = intent.budget
    returned = yield from invoked(
        accounts, who, intent.artifact_id, intent.method, intent.args, None, delegates=delegates
    )
    return ActionResult(
        True,
        f"invoked {intent.artifact_id}.{intent.method}",
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
    ran = yield from accounts.run(
        CodeRun(artifact.id, artifact.code, method, args, left, artifact.depends_on, frame)
    )
    if ran.code == "rate_limited":
        rules = yield from accounts.rules()
        raise Refused(ran.code, ran.error or ran.code, available_in_s=rules.cpu_window)
    if ran.code is not None:
        raise Refused(ran.code, ran.error or ran.code)
    accounts.release(cost)
    # The outermost call delivers only when its action is recorded, so its price is a change like others.
    paying = accounts.pay if outer is None else accounts.buy
    yield from paying(caller, artifact.owner_id, cost, what)
    return Returned(ran.result, cost, artifact.owner_id)


def _frame(artifact: SharedArtifact, caller: str, outer: Frame | None, *, delegates: bool) -> Frame:
    """On whose behalf an artifact's code runs: the caller's, if the caller owns it or the intent delegates to it."""
    is_lent = delegates or ((outer is None or outer.is_lent) and artifact.owner_id == caller)
    owners = () if outer is None else outer.owners
    if not is_lent and artifact.owner_id not in (*owners, caller):
        owners = (*owners, artifact.owner_id)
    depth = 0 if outer is None else outer.depth + 1
    return Frame(artifact.id, caller, depth, is_lent, owners, delegates)


def _methods(artifact: SharedArtifact) -> frozenset[str]:
    """The methods that the interface lists, by name."""
    listed = (artifact.interface or {}).get("methods")
    names = (
        [each.get("name") if isinstance(each, dict) else each for each in listed]
        if isinstance(listed, list)
        else []
    )
    return frozenset(name for name in names if isinstance(name, str))
