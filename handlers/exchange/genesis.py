"""The artifacts that exist from the beginning: the ledger, the store and the four contracts. And resources.

CPU time and disk space are allocated to a principal. All other resources are balances, like scrip.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from runward.config.intent import MOST
from runward.config.json_value import JsonValue
from runward.handlers.exchange.accounts import Accounts, principal_artifact, taken
from runward.handlers.exchange.artifacts import metadata_of, transfer
from runward.handlers.exchange.contracts import CONTRACTS
from runward.handlers.exchange.intent import Refused
from runward.handlers.model.asking import Asking
from runward.handlers.model.exchange import (
    LEDGER,
    MILLIONTHS,
    SCRIP,
    STORE,
    SYSTEM,
    Existing,
    Principal,
    SharedArtifact,
)

CPU: Final = "cpu_seconds"
DISK: Final = "disk_bytes"
ALLOCATED: Final = (CPU, DISK)


def amount_of(accounts: Accounts, account: str, name: str) -> Asking[float | None]:
    """How much of a resource somebody has, in its units. None for no limit."""
    if name not in ALLOCATED:
        held = yield from accounts.balance(account, name)
        return held if name == SCRIP else held / MILLIONTHS
    principal = yield from accounts.principal(account, with_disk=name == DISK)
    return 0 if principal is None else _allocated(principal, name)


def resources_of(accounts: Accounts, account: str) -> Asking[dict[str, float | None]]:
    """All resources of somebody, without scrip, by their names."""
    names = yield from accounts.resources(account)
    principal = yield from accounts.principal(account)
    amounts: dict[str, float | None] = {}
    for name in (*names, *(() if principal is None else ALLOCATED)):
        amounts[name] = yield from amount_of(accounts, account, name)
    return amounts


def transfer_scrip(accounts: Accounts, giver: str, taker: str, amount: JsonValue) -> Asking[None]:
    """Give scrip to a principal or an artifact. Raises `Refused`."""
    if not isinstance(amount, int) or isinstance(amount, bool) or not 0 < amount <= MOST:
        raise Refused("invalid_argument", "the amount must be a whole number above 0, up to 2^53")
    principal = yield from accounts.principal(taker)
    if principal is None or not principal.has_standing:
        artifact = yield from accounts.artifact(taker)
        if artifact is None or artifact.deleted_at is not None:
            raise Refused("not_found", f"there is no {taker} to pay")
    yield from accounts.pay(giver, taker, amount, f"paid by {giver}")


def transfer_resource(
    accounts: Accounts, giver: str, taker: str, name: str, amount: JsonValue
) -> Asking[None]:
    """Give an amount of scrip or another resource; parts of a millionth stay where they are. Raises `Refused`."""
    if name == SCRIP:
        yield from transfer_scrip(accounts, giver, taker, amount)
        return
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 < amount <= MOST / MILLIONTHS:
        raise Refused(
            "invalid_argument", "the amount must be a number above 0, and not beyond 2^53 millionths"
        )
    # The decimal number that was written counts. As a float it may be a little less, and a millionth would be lost.
    units = int(Decimal(repr(amount)) * MILLIONTHS)
    if units == 0:
        raise Refused(
            "invalid_argument", f"{amount} of {name} can't be transferred: the smallest amount is a millionth"
        )
    if (yield from accounts.principal(taker)) is None:
        raise Refused("not_found", f"there is no principal {taker}")
    if name in ALLOCATED:
        yield from _transfer_allocation(accounts, giver, taker, name, Decimal(units) / MILLIONTHS)
        return
    yield from accounts.pay(giver, taker, units, f"paid by {giver}", name)


def _transfer_allocation(
    accounts: Accounts, giver: str, taker: str, name: str, amount: Decimal
) -> Asking[None]:
    gives = yield from accounts.principal(giver, with_disk=True)
    takes = yield from accounts.principal(taker, with_disk=True)
    if gives is None or takes is None or giver == taker:
        raise Refused("not_found", f"{name} can only be transferred from one principal to another")
    has = _allocated(gives, name)
    if has is None or _allocated(takes, name) is None:
        raise Refused("invalid_argument", f"a principal without a limit of {name} can't give or take it")
    # What the settings gave a principal stays with it.
    free = max(0, min(has, _given(gives, name)))
    if free < amount:
        why = f"{giver} has only {free:g} {name} to give, not {amount:g}"
        raise Refused("quota_exceeded", why if free == has else f"{why}: it keeps what the settings gave it")
    if name == DISK and amount != int(amount):
        raise Refused("invalid_argument", f"{name} are whole numbers")
    accounts.keep_principal(_with_more(gives, name, -amount))
    accounts.keep_principal(_with_more(takes, name, amount))


def _allocated(principal: Principal, name: str) -> float | None:
    """What a principal has: the CPU time in each window, and the unused disk space."""
    return principal.cpu_seconds if name == CPU else principal.disk_quota - principal.disk_used


def _given(principal: Principal, name: str) -> float:
    """What a principal has in addition to what the settings gave it, which stays with it."""
    if name == CPU:
        return (principal.cpu_seconds or 0.0) - principal.cpu_default
    return principal.disk_quota - (principal.disk_default or 0)


def _with_more(principal: Principal, name: str, more: Decimal) -> Principal:
    changed = principal._replace(version=principal.version + 1)
    if name == DISK:
        return changed._replace(disk_quota=principal.disk_quota + int(more))
    assert principal.cpu_seconds is not None, "one without a limit neither gives nor takes"
    return changed._replace(cpu_seconds=float(Decimal(repr(principal.cpu_seconds)) + more))


Arguments = tuple[JsonValue, ...]
Method = Callable[[Accounts, str, Arguments], Asking[JsonValue]]

CHANGING: Final = ("transfer", "transfer_ownership", "spawn_principal")
"""Methods of the ledger that change what belongs to the caller."""

_SPAWNED: Final = "principal_"


def genesis_artifact(artifact_id: str) -> SharedArtifact | None:
    """The genesis artifact with this id."""
    if artifact_id not in (*METHODS, *CONTRACTS):
        return None
    kind = "contract" if artifact_id in CONTRACTS else "service"
    return SharedArtifact(
        id=artifact_id,
        type=kind,
        content="",
        owner_id=SYSTEM,
        created_at=0.0,
        updated_at=0.0,
        executable=artifact_id in METHODS,
    )


def call(
    accounts: Accounts,
    caller: str,
    artifact_id: str,
    method: str,
    args: Arguments,
    *,
    may_change: bool = True,
) -> Asking[JsonValue]:
    """What a method of a genesis artifact returns. Raises `Refused`. `may_change` is false if the caller delegated
    nothing to the code that asks."""
    function = METHODS.get(artifact_id, {}).get(method)
    if function is None:
        raise Refused("not_found", f"{artifact_id} has no method {method}")
    if method in CHANGING and not may_change:
        raise Refused(
            "not_authorized", f"{caller} did not delegate {artifact_id}.{method} to code that others own"
        )
    return (yield from function(accounts, caller, args))


def _balance(accounts: Accounts, caller: str, args: Arguments) -> Asking[JsonValue]:
    (whose,) = _texts(args, 1)
    scrip = yield from accounts.balance(whose)
    return {"id": whose, SCRIP: scrip}


def _all_balances(accounts: Accounts, caller: str, args: Arguments) -> Asking[JsonValue]:
    _texts(args, 0)
    return (yield from accounts.shown(_balances))


def _balances(existing: Existing, text: str) -> JsonValue:
    return {name: {SCRIP: existing.scrip.get(name, 0)} for name in existing.principals}


def _transfer(accounts: Accounts, caller: str, args: Arguments) -> Asking[JsonValue]:
    if len(args) != 3:
        raise _wrong("three arguments: from, to and amount")
    giver, taker = _texts(args[:2], 2)
    if giver != caller:
        raise Refused("not_authorized", f"{caller} can't pay with the scrip of {giver}")
    yield from transfer_scrip(accounts, giver, taker, args[2])
    return {"from": giver, "to": taker, "amount": args[2]}


def _transfer_ownership(accounts: Accounts, caller: str, args: Arguments) -> Asking[JsonValue]:
    artifact, to = _texts(args, 2)
    return (yield from transfer(accounts, caller, artifact, to))


def _spawn_principal(accounts: Accounts, caller: str, args: Arguments) -> Asking[JsonValue]:
    name = f"{_SPAWNED}{accounts.token}" if not args else _texts(args, 1)[0]
    yield from create_principal(accounts, name, caller)
    return {"id": name}


def create_principal(accounts: Accounts, name: str, owner: str) -> Asking[None]:
    """Create a principal, which has nothing but what others give it: otherwise, agents would mint quotas.

    Raises `Refused`.
    """
    if (yield from accounts.principal(name)) is not None:
        raise taken(name, "it is a principal")
    principal = Principal(
        id=name, created_at=accounts.at, users=(), disk_quota=0, disk_used=0, cpu_seconds=0.0
    )
    yield from accounts.create_principal(principal, principal_artifact(name, owner, accounts.at))


def _get(accounts: Accounts, caller: str, args: Arguments) -> Asking[JsonValue]:
    (name,) = _texts(args, 1)
    artifact = genesis_artifact(name) or (yield from accounts.artifact(name))
    if artifact is None:
        raise Refused("not_found", f"there is no artifact {name}")
    return metadata_of(artifact)


def _listing(show: Callable[[Existing, str], JsonValue], arguments: int = 0) -> Method:
    def listed(accounts: Accounts, caller: str, args: Arguments) -> Asking[JsonValue]:
        texts = _texts(args, arguments)
        return (yield from accounts.shown(show, texts[0] if texts else ""))

    return listed


def _artifacts(wanted: Callable[[SharedArtifact, str], bool]) -> Callable[[Existing, str], JsonValue]:
    def shown(existing: Existing, text: str) -> JsonValue:
        return [
            metadata_of(each) for each in existing.artifacts if each.deleted_at is None and wanted(each, text)
        ]

    return shown


def _is_found(artifact: SharedArtifact, text: str) -> bool:
    description = (artifact.interface or {}).get("description")
    return any(
        text.lower() in part.lower()
        for part in (artifact.id, artifact.type, description)
        if isinstance(part, str)
    )


def _count(existing: Existing, text: str) -> JsonValue:
    return sum(each.deleted_at is None for each in existing.artifacts)


def _principals(existing: Existing, text: str) -> JsonValue:
    return list(existing.principals)


def _agents(existing: Existing, text: str) -> JsonValue:
    agents = {each.id for each in existing.artifacts if each.has_standing and each.can_execute}
    return [name for name in existing.principals if name in agents]


METHODS: Final[Mapping[str, Mapping[str, Method]]] = {
    LEDGER: {
        "balance": _balance,
        "all_balances": _all_balances,
        "transfer": _transfer,
        "transfer_ownership": _transfer_ownership,
        "spawn_principal": _spawn_principal,
    },
    STORE: {
        "get": _get,
        "list": _listing(_artifacts(lambda artifact, text: True)),
        "search": _listing(_artifacts(_is_found), 1),
        "list_by_type": _listing(_artifacts(lambda artifact, text: artifact.type == text), 1),
        "list_by_owner": _listing(_artifacts(lambda artifact, text: artifact.owner_id == text), 1),
        "list_principals": _listing(_principals),
        "list_agents": _listing(_agents),
        "count": _listing(_count),
    },
}


def _texts(args: Arguments, count: int) -> list[str]:
    texts = [each for each in args if isinstance(each, str)]
    if len(args) != count or len(texts) != count:
        raise _wrong(f"{count} {'text' if count == 1 else 'texts'}" if count else "no arguments")
    return texts


def _wrong(wanted: str) -> Refused:
    return Refused("invalid_argument", f"the method takes {wanted}")
