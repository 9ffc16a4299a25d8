"""An action as it is worked out: what it asks of the exchange, and what it changes.

What was changed earlier in the same action is seen by what follows in it.
"""

from dataclasses import dataclass, field

from runward.config.exchange import ExchangeRules
from runward.handlers.asking import Asking, Given, ask
from runward.handlers.exchange.action_result import Refused
from runward.handlers.exchange.effects import ExchangeEffect, KeepArtifact, KeepPrincipal, Post
from runward.handlers.exchange.facts import (
    GENESIS,
    MINT,
    SCRIP,
    SYSTEM,
    BalanceOf,
    ExchangeRulesNow,
    Existing,
    ExistingInExchange,
    Principal,
    PrincipalOf,
    SharedArtifact,
    SharedArtifactOf,
    described,
)
from runward.handlers.exchange.intent import why_no_id


@dataclass(slots=True)
class Accounts:
    """The exchange as one action sees it. `action` is the action's key, `at` its time (Unix seconds).

    `token` is a text that no other action has.
    """

    action: str
    at: float
    token: str
    effects: list[ExchangeEffect] = field(default_factory=list)
    _artifacts: dict[str, SharedArtifact | None] = field(default_factory=dict)
    _principals: dict[str, Principal | None] = field(default_factory=dict)
    _balances: dict[tuple[str, str], int] = field(default_factory=dict)
    _settled: int = 0
    _before: "tuple[dict[str, SharedArtifact | None], dict[str, Principal | None], dict[tuple[str, str], int]]" = field(
        default_factory=lambda: ({}, {}, {})
    )
    """What was known when it was settled."""

    def settle(self) -> None:
        """What was changed so far stays, whatever becomes of the action."""
        self._settled = len(self.effects)
        self._before = dict(self._artifacts), dict(self._principals), dict(self._balances)

    def roll_back(self) -> None:
        """Nothing is changed that was not settled."""
        del self.effects[self._settled :]
        self._artifacts, self._principals, self._balances = (dict(each) for each in self._before)  # type: ignore[assignment] # in their order

    def rules(self) -> Asking[ExchangeRules]:
        """The settings in force."""
        return (yield from ask(ExchangeRulesNow()))

    def artifact(self, artifact_id: str) -> Asking[SharedArtifact | None]:
        """The artifact with this id, deleted ones included."""
        if artifact_id not in self._artifacts:
            self._artifacts[artifact_id] = yield from ask(SharedArtifactOf(artifact_id))
        return self._artifacts[artifact_id]

    def principal(self, principal_id: str) -> Asking[Principal | None]:
        """The principal with this id."""
        if principal_id not in self._principals:
            self._principals[principal_id] = yield from ask(PrincipalOf(principal_id))
        return self._principals[principal_id]

    def balance(self, account: str, resource: str = SCRIP) -> Asking[int]:
        """What an account holds."""
        if (account, resource) not in self._balances:
            self._balances[account, resource] = yield from ask(BalanceOf(account, resource))
        return self._balances[account, resource]

    def existing(self) -> Asking[Existing]:
        """All that there is, without content and code."""
        found = yield from ask(ExistingInExchange())
        artifacts = {each.id: each for each in found.artifacts}
        artifacts |= {name: described(each) for name, each in self._artifacts.items() if each is not None}
        principals = {
            *found.principals,
            *(name for name, each in self._principals.items() if each is not None),
        }
        scrip = {name: amount for (name, resource), amount in self._balances.items() if resource == SCRIP}
        return Existing(
            tuple(artifacts[name] for name in sorted(artifacts)),
            tuple(sorted(principals)),
            {**found.scrip, **scrip},
        )

    def keep(self, artifact: SharedArtifact) -> Asking[None]:
        """Keep a new artifact, or the next version of one, within the quota of its owner. Raises `Refused`."""
        before = yield from self.artifact(artifact.id)
        whose: dict[str, int] = {artifact.owner_id: artifact.size}
        if before is not None:
            whose[before.owner_id] = whose.get(before.owner_id, 0) - before.size
            artifact = artifact._replace(version=before.version + 1)
        for owner, added in whose.items():
            yield from self._use_disk(owner, added)
        self._artifacts[artifact.id] = artifact
        self.effects.append(KeepArtifact(artifact))

    def _use_disk(self, owner: str, added: int) -> Asking[None]:
        principal = yield from self.principal(owner)
        if principal is None or added == 0:
            return
        used = principal.disk_used + added
        if added > 0 and used > principal.disk_quota:
            raise Refused(
                "quota_exceeded",
                f"{owner} has {principal.disk_quota - principal.disk_used} bytes left, and this needs {added}",
                needed=added,
                available=principal.disk_quota - principal.disk_used,
            )
        self.keep_principal(principal._replace(disk_used=used, version=principal.version + 1))

    def keep_principal(self, principal: Principal) -> None:
        """Keep a new principal, or its next version."""
        self._principals[principal.id] = principal
        self.effects.append(KeepPrincipal(principal))

    def create_principal(self, principal: Principal, artifact: SharedArtifact) -> Asking[None]:
        """Keep a principal, and the artifact that it is unless there is one with its id."""
        self.keep_principal(principal)
        if (yield from self.artifact(artifact.id)) is None:
            yield from self.keep(artifact)

    def create_default(self, name: str, owner: str) -> Asking[None]:
        """Keep a principal with what the settings give to a new one."""
        rules = yield from self.rules()
        principal = Principal(name, self.at, (), rules.disk_quota, 0, rules.cpu_seconds)
        yield from self.create_principal(principal, principal_artifact(name, owner, self.at))

    def pay(self, giver: str, taker: str, amount: int, reason: str, resource: str = SCRIP) -> Asking[None]:
        """Move units from one account to another; 0 moves nothing. Raises `Refused` where the giver has too little."""
        if amount == 0:
            return
        has = yield from self.balance(giver, resource)
        if giver != MINT and has < amount:
            raise Refused(
                "insufficient_funds",
                f"{giver} has {has} {resource}, and this costs {amount}",
                needed=amount,
                available=has,
            )
        gets = yield from self.balance(taker, resource)
        if giver != taker:
            self._balances[giver, resource] = has - amount
            self._balances[taker, resource] = gets + amount
        self.effects.append(Post(self.at, self.action, giver, taker, resource, amount, reason))


def accounts_of(action: str, given: Given) -> Accounts:
    """The exchange as this action sees it."""
    return Accounts(action, given.at, given.event_hash[7:19])


def is_reserved(name: str) -> bool:
    """Whether nobody may have this id: its account or its artifacts are the exchange's own."""
    return name in (SYSTEM, MINT) or name.startswith(GENESIS)


def why_no_principal(name: str) -> str | None:
    """What keeps a principal from having this id."""
    return "is reserved" if is_reserved(name) else why_no_id(name)


def principal_artifact(
    name: str, owner: str, at: float, is_agent: bool = False, config: str = "", memory: str | None = None
) -> SharedArtifact:
    """The artifact that a principal is: an agent's has its config as content (the seed's factory of agents)."""
    return SharedArtifact(
        name,
        "agent" if is_agent else "principal",
        config,
        owner,
        at,
        at,
        policy={"allow_read": [owner], "allow_invoke": []} if is_agent else None,
        has_standing=True,
        can_execute=is_agent,
        memory_artifact_id=memory,
    )


def memory_artifact(memory: str, owner: str, at: float) -> SharedArtifact:
    """Where an agent keeps what it learned; only its owner reads and writes it (the seed's factory of memories)."""
    return SharedArtifact(
        memory, "memory", "", owner, at, at, policy={"allow_read": [], "allow_write": [], "allow_invoke": []}
    )
