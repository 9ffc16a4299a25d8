"""What an artifact depends on: no cycle, nothing missing, and no path that is too long."""

from typing import Final

from runward.handlers.exchange.accounts import Accounts
from runward.handlers.exchange.action_result import Refused
from runward.handlers.exchange.contracts import CONTRACTS
from runward.handlers.model.asking import Asking
from runward.handlers.model.exchange import LEDGER, STORE

FROM_THE_BEGINNING: Final = frozenset({LEDGER, STORE, *CONTRACTS})
"""The genesis artifacts, which depend on nothing."""

MOST: Final = 500
"""Artifacts that are examined for one write. A larger graph counts as too deep."""


def check_dependencies(
    accounts: Accounts, artifact: str, depends_on: tuple[str, ...], deepest: int
) -> Asking[None]:
    """Raises `Refused`: the artifact itself first, then what is missing, then longer cycles, then the depth."""
    if artifact in depends_on:
        raise _refused("cycle", f"{artifact} can't depend on itself")
    for each in depends_on:
        if each in FROM_THE_BEGINNING:
            continue
        found = yield from accounts.artifact(each)
        if found is None or found.deleted_at is not None:
            raise _refused("missing", f"{artifact} depends on {each}, which does not exist")
    net: dict[str, tuple[str, ...]] = {artifact: depends_on}
    waiting = list(depends_on)
    while waiting:
        name = waiting.pop()
        if name in net or name in FROM_THE_BEGINNING:
            continue
        if len(net) > MOST:
            raise _refused("depth", f"{artifact} depends on more than {MOST} artifacts")
        found = yield from accounts.artifact(name)
        net[name] = () if found is None else found.depends_on
        if artifact in net[name]:
            raise _refused("cycle", f"{name} depends on {artifact}, which would depend on it")
        waiting += net[name]
    depth = _depth(net, artifact)
    if depth > deepest:
        raise _refused("depth", f"{artifact} would be {depth} artifacts deep; {deepest} are allowed")


def _depth(net: dict[str, tuple[str, ...]], artifact: str) -> int:
    """The number of artifacts on the longest path from this one, including itself. No cycle contains this one."""
    depths: dict[str, int] = {}
    stack: list[tuple[str, bool]] = [(artifact, False)]
    while stack:
        name, is_left = stack.pop()
        if is_left:
            depths[name] = 1 + max((depths.get(each, 1) for each in net.get(name, ())), default=0)
        elif name not in depths:
            depths[name] = 1  # also for a cycle among others, which would come back to it
            stack.append((name, True))
            stack += [(each, False) for each in net.get(name, ()) if each not in depths]
    return depths[artifact]


def _refused(reason: str, message: str) -> Refused:
    return Refused("invalid_argument", message, reason=reason)
