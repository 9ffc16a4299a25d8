"""An artifact is invoked, a genesis artifact at once and the code of others in the sandbox; and what running code may ask.

Each function that code may call gets the frame of that code, and arguments whose shapes were checked. A failure
changes nothing.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from runward.config.intent import DEFAULT_METHOD, Intent
from runward.config.json_value import JsonValue
from runward.handlers.exchange import artifacts, genesis
from runward.handlers.exchange.accounts import Accounts, CodeRun, Frame
from runward.handlers.exchange.contracts import permitted, price
from runward.handlers.exchange.intent import ActionResult, Refused
from runward.handlers.model.asking import Asking
from runward.handlers.model.exchange import Existing, SharedArtifact


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
        accounts=accounts,
        caller=who,
        artifact_id=intent.artifact_id,
        method=intent.method,
        args=intent.args,
        outer=None,
        delegates=delegates,
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
    # The price is due only if the code succeeds, but what it needs must not be spent by the code meanwhile.
    yield from accounts.reserve(caller, cost, what)
    left = yield from accounts.cpu_left()
    frame = _frame(artifact, caller, outer, delegates=delegates)
    ran = yield from accounts.succeeded(
        CodeRun(
            artifact=artifact.id,
            code=artifact.code,
            function=method,
            args=args,
            cpu_s=left,
            dependencies=artifact.depends_on,
            frame=frame,
        )
    )
    accounts.release(cost)
    # The outermost call delivers only when its action is recorded, so its price is a change like others.
    paying = accounts.pay if outer is None else accounts.buy
    yield from paying(caller, artifact.owner_id, cost, what)
    owner, writer = artifact.owner_id, artifact.written_by
    idle = f"its code acts for nobody until {owner}, its owner, writes it: {writer} wrote it"
    return Returned(ran.result, cost, owner, None if artifact.acts else idle)


def _frame(artifact: SharedArtifact, caller: str, outer: Frame | None, *, delegates: bool) -> Frame:
    """On whose behalf an artifact's code runs: the caller's, if the caller owns it or the intent delegates to it.

    Code that the owner did not write acts for nobody, and neither does what it invokes.
    """
    delegates = delegates and artifact.acts
    is_lent = delegates or (
        (outer is None or outer.is_lent) and artifact.acts and artifact.owner_id == caller
    )
    owners = () if outer is None else outer.owners
    # Code that does not act for the caller reads only what those behind it may read as well. Otherwise it could carry
    # off what the caller may read.
    if not is_lent:
        behind = (artifact.owner_id, artifact.written_by)
        owners = tuple(dict.fromkeys((*owners, *(each for each in behind if each != caller))))
    depth, invoker = (0, None) if outer is None else (outer.depth + 1, outer.artifact)
    return Frame(
        artifact=artifact.id,
        caller=caller,
        depth=depth,
        is_lent=is_lent,
        owners=owners,
        delegates=delegates,
        acts=artifact.acts,
        invoker=invoker,
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


Arguments: TypeAlias = tuple[JsonValue, ...]
_Call: TypeAlias = Callable[[Accounts, Frame, Arguments], Asking[JsonValue]]
_Look: TypeAlias = Callable[[Accounts, Arguments], Asking[JsonValue]]


class UnknownCall(Exception):
    """Code of this kind may not ask this."""


class CallRefused(Exception):
    """A call is refused with a message that the code gets."""


def answered(accounts: Accounts, frame: Frame | None, name: str, args: Arguments) -> Asking[JsonValue]:
    """The result of a call. A contract, which has no frame, only looks. Raises `UnknownCall`, and `CallRefused`."""
    # A contract's code acts for nobody, so it may only look.
    if frame is None:
        look = CALLS_OF_CONTRACTS.get(name)
        if look is None:
            raise UnknownCall(name)
        return (yield from look(accounts, args))
    call = CALLS_OF_CODE.get(name)
    if call is None:
        raise UnknownCall(name)
    return (yield from call(accounts, frame, args))


def _attempted(accounts: Accounts, change: Asking[object]) -> Asking[Refused | None]:
    """Why a change was refused. Nothing is left of a refused change."""
    try:
        yield from accounts.attempt(change)
    except Refused as refused:
        return refused
    return None


def _own_balance(accounts: Accounts, frame: Frame, args: Arguments) -> Asking[JsonValue]:
    return (yield from accounts.balance(frame.artifact))


def _pay(accounts: Accounts, frame: Frame, args: Arguments) -> Asking[JsonValue]:
    to, amount = str(args[0]), args[1]
    if not frame.acts:
        error = f"the code of {frame.artifact} acts for nobody: its owner did not write it"
        return {"success": False, "amount": amount, "target": to, "error": error}
    refused = yield from _attempted(accounts, genesis.transfer_scrip(accounts, frame.artifact, to, amount))
    return {
        "success": refused is None,
        "amount": amount,
        "target": to,
        "error": None if refused is None else refused.message,
    }


def _invoke(accounts: Accounts, frame: Frame, args: Arguments) -> Asking[JsonValue]:
    name, method = str(args[0]), str(args[1])
    given = tuple(args[2]) if isinstance(args[2], list) else ()
    try:
        rules = yield from accounts.rules()
        if frame.depth >= rules.invoke_depth:
            raise Refused(
                "depth_exceeded",
                f"{name} would run at depth {frame.depth + 1}: {rules.invoke_depth} is the limit",
            )
        returned = yield from accounts.attempt(
            invoked(
                accounts=accounts,
                caller=frame.caller,
                artifact_id=name,
                method=method,
                args=given,
                outer=frame,
                delegates=frame.delegates,
            )
        )
    except Refused as refused:
        return {
            "success": False,
            "result": None,
            "error": refused.message,
            "error_code": refused.code,
            "price_paid": 0,
        }
    return {
        "success": True,
        "result": returned.result,
        "error": None,
        "error_code": None,
        "price_paid": returned.cost,
    }


def _read(accounts: Accounts, frame: Frame, args: Arguments) -> Asking[JsonValue]:
    """The content of an artifact, at its price. None if it may not be read. Raises `CallRefused` for want of means."""
    name, reader = str(args[0]), str(args[1])
    if reader != frame.caller and not _is_itself(frame, reader):
        return None
    behalf = frame if reader == frame.caller else None
    try:
        artifact, _ = yield from accounts.attempt(artifacts.bought(accounts, reader, name, behalf))
    except Refused as refused:
        # Code that was written for the seed's interface expects None where it may not read. For want of means it gets
        # an error.
        if refused.code == "insufficient_funds":
            raise CallRefused(refused.message) from None
        return None
    return artifact.content


def _transfer_scrip(accounts: Accounts, frame: Frame, args: Arguments) -> Asking[JsonValue]:
    giver, to, amount = str(args[0]), str(args[1]), args[2]
    if not _may_take(frame, giver):
        return False
    return (yield from _attempted(accounts, genesis.transfer_scrip(accounts, giver, to, amount))) is None


def _transfer_resource(accounts: Accounts, frame: Frame, args: Arguments) -> Asking[JsonValue]:
    giver, to, name, amount = str(args[0]), str(args[1]), str(args[2]), args[3]
    if not _may_take(frame, giver):
        return False
    return (
        yield from _attempted(accounts, genesis.transfer_resource(accounts, giver, to, name, amount))
    ) is None


def _write(accounts: Accounts, frame: Frame, args: Arguments) -> Asking[JsonValue]:
    writer, name, content, kind = (str(each) for each in args)
    if not _may_take(frame, writer):
        return False
    intent = Intent("write_artifact", artifact_id=name, artifact_type=kind, content=content)
    return (yield from _attempted(accounts, _written(accounts, frame, writer, intent))) is None


def _written(accounts: Accounts, frame: Frame, writer: str, intent: Intent) -> Asking[None]:
    # An artifact that is not a principal can change what lists it, but it can't own anything new.
    if (yield from accounts.principal(writer)) is None and (
        yield from accounts.artifact(intent.artifact_id)
    ) is None:
        raise Refused("not_authorized", f"{writer} is not a principal, so it can't own an artifact")
    yield from artifacts.write(accounts, writer, intent, frame if writer == frame.caller else None)


def _may_take(frame: Frame, whose: str) -> bool:
    """Whether code may take or write what belongs to `whose`: its own, and the caller's if the caller lent it."""
    return _is_itself(frame, whose) or (whose == frame.caller and frame.is_lent)


def _is_itself(frame: Frame, whose: str) -> bool:
    """Whether code may act as its own artifact: not if somebody else than its owner wrote it."""
    return whose == frame.artifact and frame.acts


def _balance(accounts: Accounts, args: Arguments) -> Asking[JsonValue]:
    return (yield from accounts.balance(str(args[0])))


def _resource(accounts: Accounts, args: Arguments) -> Asking[JsonValue]:
    return (yield from genesis.amount_of(accounts, str(args[0]), str(args[1])))


def _owned(accounts: Accounts, args: Arguments) -> Asking[JsonValue]:
    return (yield from accounts.shown(_ids_of, str(args[0])))


def _ids_of(existing: Existing, owner: str) -> JsonValue:
    return [each.id for each in existing.artifacts if each.owner_id == owner and each.deleted_at is None]


def _metadata(accounts: Accounts, args: Arguments) -> Asking[JsonValue]:
    name = str(args[0])
    artifact = genesis.genesis_artifact(name) or (yield from accounts.artifact(name))
    return None if artifact is None else artifacts.metadata_of(artifact)


def _can_afford(accounts: Accounts, args: Arguments) -> Asking[JsonValue]:
    has = yield from accounts.balance(str(args[0]))
    return isinstance(args[1], int | float) and has >= args[1]


def _can_spend(accounts: Accounts, args: Arguments) -> Asking[JsonValue]:
    has = yield from genesis.amount_of(accounts, str(args[0]), str(args[1]))
    return isinstance(args[2], int | float) and (has is None or has >= args[2])


def _all_resources(accounts: Accounts, args: Arguments) -> Asking[JsonValue]:
    return {**(yield from genesis.resources_of(accounts, str(args[0])))}


def _exists(accounts: Accounts, args: Arguments) -> Asking[JsonValue]:
    return (yield from accounts.principal(str(args[0]))) is not None


def _looking(look: _Look) -> _Call:
    return lambda accounts, frame, args: look(accounts, args)


CALLS_OF_CODE: Final[Mapping[str, _Call]] = {
    "get_balance": _own_balance,
    "pay": _pay,
    "invoke": _invoke,
    "kernel_state.get_balance": _looking(_balance),
    "kernel_state.get_resource": _looking(_resource),
    "kernel_state.list_artifacts_by_owner": _looking(_owned),
    "kernel_state.get_artifact_metadata": _looking(_metadata),
    "kernel_state.read_artifact": _read,
    "kernel_actions.transfer_scrip": _transfer_scrip,
    "kernel_actions.transfer_resource": _transfer_resource,
    "kernel_actions.write_artifact": _write,
}
CALLS_OF_CONTRACTS: Final[Mapping[str, _Look]] = {
    "ledger.get_scrip": _balance,
    "ledger.can_afford_scrip": _can_afford,
    "ledger.get_resource": _resource,
    "ledger.can_spend_resource": _can_spend,
    "ledger.get_all_resources": _all_resources,
    "ledger.principal_exists": _exists,
}
