"""Resources other than scrip. CPU time and disk space are allocated to a principal; all others are balances."""

from decimal import Decimal
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.exchange.accounts import Accounts
from runward.handlers.exchange.intent import MOST, Refused
from runward.handlers.model.asking import Asking
from runward.handlers.model.exchange import MILLIONTHS, SCRIP, Principal

CPU: Final = "cpu_seconds"
DISK: Final = "disk_bytes"
ALLOCATED: Final = (CPU, DISK)


def amount(accounts: Accounts, account: str, name: str) -> Asking[float | None]:
    """How much of a resource somebody has, in its units. None for no limit."""
    if name not in ALLOCATED:
        held = yield from accounts.balance(account, name)
        return held if name == SCRIP else held / MILLIONTHS
    principal = yield from accounts.principal(account, with_disk=name == DISK)
    return 0 if principal is None else _allocated(principal, name)


def all_of(accounts: Accounts, account: str) -> Asking[dict[str, float | None]]:
    """All resources of somebody, without scrip, by their names."""
    names = yield from accounts.resources(account)
    principal = yield from accounts.principal(account)
    found: dict[str, float | None] = {}
    for name in (*names, *(() if principal is None else ALLOCATED)):
        found[name] = yield from amount(accounts, account, name)
    return found


def transfer_scrip(accounts: Accounts, giver: str, taker: str, said: JsonValue) -> Asking[None]:
    """Give scrip to a principal or an artifact. Raises `Refused`."""
    if not isinstance(said, int) or isinstance(said, bool) or not 0 < said <= MOST:
        raise Refused("invalid_argument", "the amount must be a whole number above 0, up to 2^53")
    principal = yield from accounts.principal(taker)
    if principal is None or not principal.has_standing:
        artifact = yield from accounts.artifact(taker)
        if artifact is None or artifact.deleted_at is not None:
            raise Refused("not_found", f"there is no {taker} to pay")
    yield from accounts.pay(giver, taker, said, f"paid by {giver}")


def transfer(accounts: Accounts, giver: str, taker: str, name: str, said: JsonValue) -> Asking[None]:
    """Give an amount of scrip or another resource; parts of a millionth stay where they are. Raises `Refused`."""
    if name == SCRIP:
        yield from transfer_scrip(accounts, giver, taker, said)
        return
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 < said <= MOST / MILLIONTHS:
        raise Refused(
            "invalid_argument", "the amount must be a number above 0, and not beyond 2^53 millionths"
        )
    units = int(Decimal(repr(said)) * MILLIONTHS)
    if units == 0:
        raise Refused(
            "invalid_argument", f"{said} of {name} can't be transferred: the smallest amount is a millionth"
        )
    if (yield from accounts.principal(taker)) is None:
        raise Refused("not_found", f"there is no principal {taker}")
    if name in ALLOCATED:
        yield from _transfer_allocation(accounts, giver, taker, name, Decimal(units) / MILLIONTHS)
        return
    yield from accounts.pay(giver, taker, units, f"paid by {giver}", name)


def _transfer_allocation(
    accounts: Accounts, giver: str, taker: str, name: str, said: Decimal
) -> Asking[None]:
    gives = yield from accounts.principal(giver, with_disk=True)
    takes = yield from accounts.principal(taker, with_disk=True)
    if gives is None or takes is None or giver == taker:
        raise Refused("not_found", f"{name} can only be transferred from one principal to another")
    has = _allocated(gives, name)
    if has is None or _allocated(takes, name) is None:
        raise Refused("invalid_argument", f"a principal without a limit of {name} can't give or take it")
    free = max(0, min(has, _given(gives, name)))
    if free < said:
        why = f"{giver} has only {free:g} {name} to give, not {said:g}"
        raise Refused("quota_exceeded", why if free == has else f"{why}: it keeps what the settings gave it")
    if name == DISK and said != int(said):
        raise Refused("invalid_argument", f"{name} are whole numbers")
    accounts.keep_principal(_with_more(gives, name, -said))
    accounts.keep_principal(_with_more(takes, name, said))


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
