"""An artifact is invoked: a genesis artifact at once, the code of others in the sandbox.

The code runs beside the worker. The action waits for it, and is decided by what holds when it has ended: the price is paid
only then, and CPU time is charged in any case. If the daemon dies meanwhile, the code runs again; its effects happen once.
"""

from typing import Final

from pydantic_core import to_json

from runward.config.json_value import JsonValue
from runward.handlers.asking import Asking, NotYet, ask
from runward.handlers.exchange import artifacts, genesis
from runward.handlers.exchange.accounts import Accounts
from runward.handlers.exchange.action_result import ActionResult, Refused
from runward.handlers.exchange.effects import UseCpu
from runward.handlers.exchange.facts import CpuUsedBy, Executed, ExecutionOf, Running, SharedArtifact
from runward.handlers.exchange.intent import DEFAULT_METHOD, Intent
from runward.handlers.exchange.policy import check_allowed, price

SOON: Final = 0.01
"""Seconds until it is asked again what became of code, at first; later after a quarter of the time that it runs."""

LATEST: Final = 0.5


def invoke(accounts: Accounts, who: str, intent: Intent) -> Asking[ActionResult]:
    """Invoke a method of an artifact at its price. Raises `Refused`, and `NotYet` while code runs."""
    own = genesis.genesis_artifact(intent.artifact_id)
    artifact = own or (yield from artifacts.existing(accounts, intent.artifact_id))
    if not artifact.executable:
        raise Refused("invalid_type", f"{artifact.id} is not executable")
    check_allowed(artifact, "invoke", who)
    cost = price(artifact, "invoke", who)
    if intent.budget is not None and cost > intent.budget:
        raise Refused("insufficient_funds", f"{artifact.id} costs {cost}, and the budget is {intent.budget}")
    if own is None:
        return (yield from _execute(accounts, who, intent, artifact, cost))
    result = yield from genesis.call(accounts, who, artifact.id, intent.method, intent.args)
    return _result(intent, artifact, result, cost, 0.0, who)


def _result(
    intent: Intent,
    artifact: SharedArtifact,
    result: JsonValue,
    cost: int,
    cpu_s: float,
    who: str,
    sandbox: str | None = None,
) -> ActionResult:
    return ActionResult(
        True,
        f"invoked {artifact.id}.{intent.method}",
        {"result": result, "price_paid": cost, "owner": artifact.owner_id},
        {"cpu_seconds": cpu_s},
        who,
        sandbox=sandbox,
    )


def _execute(
    accounts: Accounts, who: str, intent: Intent, artifact: SharedArtifact, cost: int
) -> Asking[ActionResult]:
    broken = yield from artifacts.broken_dependencies(accounts, artifact)
    if broken:
        raise Refused("not_found", f"Dependency '{broken[0]}' not found or deleted")
    if intent.method != DEFAULT_METHOD and intent.method not in _methods(artifact):
        raise Refused("not_found", f"{artifact.id} has no method {intent.method}")
    if (yield from accounts.balance(who)) < cost:
        yield from accounts.pay(who, artifact.owner_id, cost, f"invoke {artifact.id}")  # which refuses it
    left = yield from _cpu_left(accounts, who)
    ended = yield from ask(
        ExecutionOf(
            accounts.action,
            artifact.id,
            artifact.version,
            artifact.code,
            intent.method,
            to_json(intent.args).decode(),
            who,
            left,
            artifact.depends_on,
        )
    )
    if isinstance(ended, Running):
        raise NotYet(accounts.at + min(LATEST, max(SOON, ended.seconds / 4)))
    rules = yield from accounts.rules()
    if ended.cpu_s > 0.0:
        accounts.effects.append(UseCpu(who, accounts.at, ended.cpu_s, accounts.at - rules.cpu_window))
        accounts.settle()
    if ended.code is not None:
        raise _failed(ended, rules.cpu_window)
    try:
        yield from accounts.pay(who, artifact.owner_id, cost, f"invoke {artifact.id}")
    except Refused as refused:  # the price is another one than before the code ran
        refused.cpu_s, refused.sandbox = ended.cpu_s, ended.sandbox
        raise
    return _result(intent, artifact, ended.result, cost, ended.cpu_s, who, ended.sandbox)


def _failed(ended: Executed, window: float) -> Refused:
    assert ended.code is not None, "it failed"
    refused = Refused(ended.code, ended.error or ended.code)
    if ended.code == "rate_limited":
        refused.details = {"available_in_s": window}
    refused.cpu_s, refused.sandbox = ended.cpu_s, ended.sandbox
    return refused


def _cpu_left(accounts: Accounts, who: str) -> Asking[float | None]:
    """The CPU time (seconds) that a principal may still use in its window; None for no limit. Raises `Refused`."""
    principal = yield from accounts.principal(who)
    if principal is None or principal.cpu_seconds is None:
        return None
    rules = yield from accounts.rules()
    since = accounts.at - rules.cpu_window
    used = [(at, seconds) for at, seconds in (yield from ask(CpuUsedBy(who))) if at > since]
    left = principal.cpu_seconds - sum(seconds for _, seconds in used)
    if left > 0.0:
        return left
    first = min((at for at, _ in used), default=accounts.at)
    raise Refused(
        "rate_limited",
        f"{who} has used its {principal.cpu_seconds:g} s of CPU time in {rules.cpu_window:g} s",
        available_in_s=round(max(0.0, first + rules.cpu_window - accounts.at), 3),
    )


def _methods(artifact: SharedArtifact) -> frozenset[str]:
    """The methods that the interface lists, by name."""
    listed = (artifact.interface or {}).get("methods")
    names = (
        [each.get("name") if isinstance(each, dict) else each for each in listed]
        if isinstance(listed, list)
        else []
    )
    return frozenset(name for name in names if isinstance(name, str))
