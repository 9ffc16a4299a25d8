"""A person creates a principal, with its artifact and its initial resources."""

from typing import Final

from runward.handlers.exchange.accounts import (
    Accounts,
    accounts_of,
    memory_artifact,
    principal_artifact,
    taken,
)
from runward.handlers.exchange.action_result import Refused
from runward.handlers.model.asking import Asking, Given
from runward.handlers.model.effects import Deciding, Explain
from runward.handlers.model.exchange import Principal, PrincipalCreateRequested

MEMORY: Final = "_memory"
"""The suffix of the id of a principal's memory."""

SUBJECT: Final = "principal:"
"""How `why` names a principal."""


def decide(event: PrincipalCreateRequested, given: Given) -> Deciding:
    """A person creates a principal, with its artifact and its initial resources."""
    accounts = accounts_of(event.key, given)
    try:
        yield from _create(accounts, event)
    except Refused as refused:
        return (Explain(f"{SUBJECT}{event.principal}", "refused", refused.message),)
    said = f"created by {event.said_by}, with {event.scrip} scrip"
    return *accounts.all_effects, Explain(f"{SUBJECT}{event.principal}", "decided", said)


def _create(accounts: Accounts, event: PrincipalCreateRequested) -> Asking[None]:
    name = event.principal
    if (yield from accounts.principal(name)) is not None:
        raise Refused("invalid_argument", f"the principal {name} already exists")
    owner = event.owner or name
    if owner != name and (yield from accounts.principal(owner)) is None:
        raise Refused("not_found", f"its owner {owner} is not a principal")
    rules = yield from accounts.rules()
    cpu = rules.cpu_seconds if event.cpu_seconds is None else event.cpu_seconds
    quota = rules.disk_quota if event.disk_quota is None else event.disk_quota
    memory = f"{name}{MEMORY}" if event.has_memory else None
    is_default_cpu = event.cpu_seconds is None and not event.is_cpu_unlimited
    principal = Principal(
        *(name, accounts.at, event.users, quota, 0, None if event.is_cpu_unlimited else cpu),
        disk_default=rules.disk_quota if event.disk_quota is None else 0,
        cpu_default=rules.cpu_seconds if is_default_cpu else 0.0,
    )
    artifact = principal_artifact(name, owner, accounts.at, event.is_agent, event.config, memory)
    yield from accounts.create_principal(principal, artifact)
    if memory is not None:
        yield from accounts.check_name(memory)
        kept = yield from accounts.artifact(memory)
        if kept is not None and kept.owner_id != name:
            raise taken(memory, f"an artifact of {kept.owner_id} has it")
        if kept is None:
            yield from accounts.keep(memory_artifact(memory, name, accounts.at))
    yield from accounts.mint(name, event.scrip, f"created by {event.said_by}")
