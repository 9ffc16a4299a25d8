"""Artifacts as actions read, write, delete and transfer them."""

from typing import Final

from runward.config.intent import DEFAULT_METHOD, KEPT, MOST, PRICES, RIGHTS, Intent
from runward.config.json_value import JsonValue
from runward.handlers.exchange.accounts import Accounts, CodeRun, Frame, is_reserved
from runward.handlers.exchange.contracts import CONTRACTS, FUNCTION, REFERENCE, permitted, policy_of, price
from runward.handlers.exchange.intent import ActionResult, Refused
from runward.handlers.model.asking import Asking
from runward.handlers.model.exchange import GENESIS, LEDGER, STORE, Principal, SharedArtifact
from runward.handlers.times import iso_time


def artifact_to_json(artifact: SharedArtifact) -> dict[str, JsonValue]:
    """An artifact with all its fields (the seed's, and the exchange's own)."""
    return {
        "id": artifact.id,
        "type": artifact.type,
        "content": artifact.content,
        "owner_id": artifact.owner_id,
        "created_at": iso_time(artifact.created_at),
        "updated_at": iso_time(artifact.updated_at),
        "executable": artifact.executable,
        "code": artifact.code,
        "policy": policy_of(artifact),
        "deleted": artifact.deleted_at is not None,
        "deleted_at": None if artifact.deleted_at is None else iso_time(artifact.deleted_at),
        "deleted_by": artifact.deleted_by,
        "interface": artifact.interface,
        "depends_on": list(artifact.depends_on),
        "has_standing": artifact.has_standing,
        "can_execute": artifact.can_execute,
        "memory_artifact_id": artifact.memory_artifact_id,
        "access_contract_id": artifact.access_contract_id,
        "version": artifact.version,
        "written_by": artifact.written_by,
        "size": artifact.size,
    }


def metadata_of(artifact: SharedArtifact) -> dict[str, JsonValue]:
    """An artifact without content and code, which only a read returns; the tombstone of a deleted one."""
    metadata = tombstone(artifact) if artifact.deleted_at is not None else artifact_to_json(artifact)
    return {key: value for key, value in metadata.items() if key not in ("content", "code")}


def tombstone(artifact: SharedArtifact) -> dict[str, JsonValue]:
    """What everyone may read about a deleted artifact."""
    return {
        "id": artifact.id,
        "owner_id": artifact.owner_id,
        "deleted": True,
        "deleted_at": None if artifact.deleted_at is None else iso_time(artifact.deleted_at),
        "deleted_by": artifact.deleted_by,
    }


def existing(accounts: Accounts, artifact_id: str) -> Asking[SharedArtifact]:
    """The artifact with this id that is not deleted. Raises `Refused`."""
    artifact = yield from accounts.artifact(artifact_id)
    if artifact is None:
        raise Refused("not_found", f"there is no artifact {artifact_id}")
    if artifact.deleted_at is not None:
        raise Refused("DELETED", f"{artifact_id} was deleted by {artifact.deleted_by}")
    return artifact


def read(accounts: Accounts, who: str, intent: Intent) -> Asking[ActionResult]:
    """Read an artifact at its price. Raises `Refused`."""
    stored = yield from accounts.artifact(intent.artifact_id)
    if stored is not None and stored.deleted_at is not None:
        return ActionResult(
            True, f"{stored.id} was deleted", {"artifact": tombstone(stored), "read_price_paid": 0}
        )
    artifact, cost = yield from bought(accounts, who, intent.artifact_id)
    broken = yield from broken_dependencies(accounts, artifact)
    metadata: JsonValue = {**artifact_to_json(artifact), "broken_dependencies": list(broken)}
    return ActionResult(True, f"read {artifact.id}", {"artifact": metadata, "read_price_paid": cost})


def bought(
    accounts: Accounts, who: str, artifact_id: str, frame: Frame | None = None
) -> Asking[tuple[SharedArtifact, int]]:
    """An artifact whose reading was paid for, and what it cost. Raises `Refused`."""
    artifact = yield from existing(accounts, artifact_id)
    cost = yield from permitted(accounts, artifact, "read", who, frame)
    cost += price(artifact, "read", who)
    # The content is delivered here, so it stays paid also if the action fails later.
    yield from accounts.buy(who, artifact.owner_id, cost, f"read {artifact.id}")
    return artifact, cost


def broken_dependencies(accounts: Accounts, artifact: SharedArtifact) -> Asking[tuple[str, ...]]:
    """The deleted artifacts that an artifact depends on."""
    broken: list[str] = []
    for name in artifact.depends_on:
        if name.startswith(GENESIS):
            continue
        stored = yield from accounts.artifact(name)
        if stored is None or stored.deleted_at is not None:
            broken.append(name)
    return tuple(broken)


def write(accounts: Accounts, who: str, intent: Intent, frame: Frame | None = None) -> Asking[ActionResult]:
    """Create an artifact or replace its content. Raises `Refused`."""
    name = intent.artifact_id
    yield from _refuse_reserved(accounts, name, "written")
    before = yield from accounts.artifact(name)
    if before is not None and before.deleted_at is not None:
        raise Refused("DELETED", f"{name} was deleted by {before.deleted_by} and can't be written")
    if before is not None:
        cost = yield from permitted(accounts, before, "write", who, frame)
        yield from accounts.pay(who, before.owner_id, cost, f"write {name}")
        # Others may be allowed to write the content. What says who may do what stays with the owner.
        if before.owner_id != who and intent.named:
            raise Refused(
                "not_authorized",
                f"only {before.owner_id} may change {', '.join(sorted(intent.named))} of {name}",
            )
    else:
        yield from accounts.check_name(name)
    rules = yield from accounts.rules()
    if intent.access_contract_id is not None and not rules.use_contracts:
        raise Refused("not_configured", "contracts are off (use_contracts in [exchange])")
    _check_policy(intent.policy)
    yield from check_dependencies(accounts, name, intent.depends_on, rules.dependency_depth)
    kept = {each: getattr(intent, each) for each in KEPT if before is None or each in intent.named}
    written = before or SharedArtifact(
        id=name, type="", content="", owner_id=who, created_at=accounts.at, updated_at=accounts.at
    )
    written = written._replace(
        type=intent.artifact_type,
        content=intent.content,
        executable=intent.executable,
        code=intent.code,
        price=intent.price,
        depends_on=intent.depends_on,
        updated_at=accounts.at,
        written_by=who,
        **kept,
    )
    yield from _check_code(accounts, written)
    if who == written.owner_id:
        # What it was given counts for its own quota once it writes it: until then it counts for the giver.
        written = written._replace(disk_of=None)
    used = written.size - (0 if before is None else before.size)
    yield from accounts.keep(written)
    if written.has_standing and "has_standing" in intent.named:
        yield from _give_standing(accounts, name)
    version = 1 if before is None else before.version + 1
    return ActionResult(
        True,
        f"wrote {name}",
        {"artifact_id": name, "version": version, "created": before is None},
        {"disk_bytes": used},
        written.owner_id,
    )


def _give_standing(accounts: Accounts, name: str) -> Asking[None]:
    """Make an artifact a principal. It has nothing but what others give it."""
    if (yield from accounts.principal(name)) is None:
        accounts.keep_principal(
            Principal(id=name, created_at=accounts.at, users=(), disk_quota=0, disk_used=0, cpu_seconds=0.0)
        )


def _check_code(accounts: Accounts, artifact: SharedArtifact) -> Asking[None]:
    """Raises `Refused` if the code can't be compiled, or is executable and lacks its function; and `NeedsCode`.

    Compiling takes time and memory that the code decides about, so it is done in the sandbox. Without one it is not
    checked: nothing runs it, either.
    """
    if not artifact.code.strip() and not artifact.executable:
        return
    left = yield from accounts.cpu_left()
    functions = (DEFAULT_METHOD, FUNCTION) if artifact.executable else ()
    check = CodeRun(artifact.id, artifact.code, "", (), left, defines=functions)
    try:
        yield from accounts.succeeded(check)
    except Refused as refused:
        if refused.code != "not_configured":
            raise


def _check_policy(policy: dict[str, JsonValue] | None) -> None:
    for key in PRICES:
        value = (policy or {}).get(key, 0)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
            raise Refused(
                "invalid_argument", f"{key} of a policy must be a whole number of 0 or more, up to 2^53"
            )
    for key in RIGHTS:
        value = (policy or {}).get(key)
        if isinstance(value, str) and value.startswith(REFERENCE) and len(value) == 1:
            raise Refused("invalid_argument", f"{key} of a policy names no contract after {REFERENCE}")


def delete(accounts: Accounts, who: str, intent: Intent) -> Asking[ActionResult]:
    """Replace an artifact by a tombstone. Raises `Refused`."""
    yield from _refuse_reserved(accounts, intent.artifact_id, "deleted")
    artifact = yield from existing(accounts, intent.artifact_id)
    cost = yield from permitted(accounts, artifact, "delete", who)
    yield from accounts.pay(who, artifact.owner_id, cost, f"delete {artifact.id}")
    yield from accounts.keep(artifact._replace(deleted_at=accounts.at, deleted_by=who))
    if artifact.owner_id != artifact.id:  # nobody could spend it any more
        left = yield from accounts.balance(artifact.id)
        yield from accounts.pay(
            artifact.id, artifact.owner_id, left, f"left in {artifact.id}, which was deleted"
        )
    return ActionResult(True, f"deleted {artifact.id}", {"artifact_id": artifact.id})


def transfer_artifact(accounts: Accounts, who: str, intent: Intent) -> Asking[ActionResult]:
    """Give an artifact to another principal. Raises `Refused`."""
    data = yield from transfer(accounts, who, intent.artifact_id, intent.to)
    return ActionResult(True, f"{intent.artifact_id} belongs to {intent.to}", data)


def transfer(accounts: Accounts, who: str, artifact_id: str, to: str) -> Asking[dict[str, JsonValue]]:
    """Give an artifact to another principal. It uses no quota of that one until that one writes it. Raises `Refused`."""
    yield from _refuse_reserved(accounts, artifact_id, "transferred")
    artifact = yield from existing(accounts, artifact_id)
    cost = yield from permitted(accounts, artifact, "transfer", who)
    yield from accounts.pay(who, artifact.owner_id, cost, f"transfer {artifact.id}")
    receiver = yield from accounts.principal(to)
    if receiver is None:
        raise Refused("not_found", f"there is no principal {to}")
    if not receiver.has_standing:
        raise Refused("not_found", f"{to} has no standing, so it can't own anything")
    if to != artifact.owner_id:
        # A gift takes nothing from the quota of the receiver. Otherwise gifts could fill it, and deleting them would
        # not help, because tombstones count.
        giver = None if artifact.counts_for == to else artifact.counts_for
        yield from accounts.keep(artifact._replace(owner_id=to, updated_at=accounts.at, disk_of=giver))
    return {"artifact_id": artifact_id, "from": artifact.owner_id, "to": to}


def _refuse_reserved(accounts: Accounts, artifact_id: str, done: str) -> Asking[None]:
    """Raises `Refused`, except for an artifact that has such an id since an older version."""
    if is_reserved(artifact_id) and (yield from accounts.artifact(artifact_id)) is None:
        raise Refused("not_authorized", f"{artifact_id} can't be {done}: this id is the exchange's own")


FROM_THE_BEGINNING: Final = frozenset({LEDGER, STORE, *CONTRACTS})
"""The genesis artifacts, which depend on nothing."""

MOST_DEEP: Final = 500
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
        stored = yield from accounts.artifact(each)
        if stored is None or stored.deleted_at is not None:
            raise _refused("missing", f"{artifact} depends on {each}, which does not exist")
    # The graph is walked with a list and not by recursion: its depth is what others wrote.
    net: dict[str, tuple[str, ...]] = {artifact: depends_on}
    waiting = list(depends_on)
    while waiting:
        name = waiting.pop()
        if name in net or name in FROM_THE_BEGINNING:
            continue
        if len(net) > MOST_DEEP:
            raise _refused("depth", f"{artifact} depends on more than {MOST_DEEP} artifacts")
        stored = yield from accounts.artifact(name)
        net[name] = () if stored is None else stored.depends_on
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
