"""The rules of the exchange, as its interface states them: plain Python that shares no code with the handlers.

An action may break several rules at once. Which of them its refusal names is left open, except where the rules say so.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

DEPTH: Final = 3
QUOTA: Final = 60
CPU: Final = 1.0
WINDOW: Final = 60.0

METHODS: Final = {
    "genesis_ledger": ("balance", "all_balances", "transfer", "transfer_ownership", "spawn_principal"),
    "genesis_store": ("get", "count", "list_by_owner", "list_principals"),
}
GENESIS: Final = (
    *METHODS,
    *(f"genesis_contract_{name}" for name in ("freeware", "self_owned", "private", "public")),
)
RESERVED: Final = ("mint", "system")


class Ran(NamedTuple):
    """What became of code that ran: the code of its error if it failed, and its CPU time (seconds)."""

    code: str | None
    cpu: float


class Due(NamedTuple):
    """What must come of an action: success with this data, or a refusal with one of these codes."""

    codes: frozenset[str] = frozenset()
    data: Mapping[str, Any] | None = None
    reason: str | None = None
    """The reason in the details of the error, where the rules say which."""
    cpu: float | None = None
    """The CPU time that is charged."""


@dataclass
class Thing:
    """An artifact."""

    owner: str
    content: str = ""
    code: str = ""
    executable: bool = False
    price: int = 0
    policy: dict[str, Any] | None = None
    methods: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    deleted: bool = False
    version: int = 1
    giver: str | None = None
    """Who gave it to its owner, who has not written it since."""

    @property
    def size(self) -> int:
        return len(self.content.encode()) + len(self.code.encode())

    def rule(self, key: str) -> Any:
        if self.policy is not None and key in self.policy:
            return self.policy[key]
        return {"read_price": 0, "invoke_price": self.price, "allow_write": []}.get(key, ["*"])


def refused(*codes: str, **further: Any) -> Due:
    return Due(frozenset(codes), **further)


@dataclass
class Rules:
    """An exchange by its rules."""

    things: dict[str, Thing] = field(default_factory=dict)
    scrip: Counter[str] = field(default_factory=Counter)
    allocations: dict[str, float] = field(default_factory=dict)
    """The principals, with their CPU seconds in a window."""
    quotas: dict[str, int] = field(default_factory=dict)
    used: list[tuple[str, float, float]] = field(default_factory=list)
    minted: int = 0
    now: float = 0.0

    def create(self, name: str, owner: str | None = None, scrip: int = 0, *, by_person: bool = False) -> None:
        """A principal comes to be, with the artifact that it is. Only a person, and what a launcher starts, bring
        quotas."""
        self.allocations[name], self.quotas[name] = (CPU, QUOTA) if by_person else (0.0, 0)
        self.things.setdefault(name, Thing(owner or name))
        self.mint(name, scrip)

    def mint(self, name: str, amount: int) -> bool:
        """A person makes scrip, or takes it back; whether that is possible."""
        if name not in self.allocations or self.scrip[name] + amount < 0:
            return False
        self.scrip[name] += amount
        self.minted += amount
        return True

    def others(self, name: str) -> set[str]:
        """What has this name in other case."""
        return {each for each in self.things if each.lower() == name.lower()} - {name}

    def stands(self, name: str) -> bool:
        """Whether it is a principal that may act, own and be paid."""
        return name in self.allocations and not self.things[name].deleted

    def disk(self, owner: str) -> int:
        """What a principal's artifacts take, deleted ones included, and what it gave away that nobody took yet."""
        return sum(thing.size for thing in self.things.values() if (thing.giver or thing.owner) == owner)

    def act(
        self, who: str, in_run: bool, intent: Mapping[str, Any] | None, at: float, ran: Ran | None
    ) -> Due:
        """What must come of an intent; None stands for what is not one. What it changes is changed."""
        self.now = at
        if intent is None:
            return refused("invalid_argument")
        if in_run:
            if intent.get("principal_id", who) != who:
                return refused("not_authorized")
            if who not in self.allocations:
                if self.others(who) or who in self.things:
                    return refused("invalid_argument", reason="taken")
                self.create(who)
        elif who not in self.allocations:
            return refused("not_found")
        if not self.stands(who):
            return refused("not_authorized")
        kind = intent["action_type"].lower()
        if kind == "noop":
            return Due()
        if kind == "invoke_artifact":
            return self._invoke(who, intent, at, ran)
        return getattr(self, f"_{kind.removesuffix('_artifact')}")(who, intent)  # type: ignore[no-any-return] # a Due

    def _found(self, name: str) -> Thing | Due:
        thing = self.things.get(name)
        if thing is None:
            return refused("not_found")
        return refused("DELETED") if thing.deleted else thing

    def _forbidden(self, thing: Thing, use: str, who: str) -> list[str]:
        allowed = thing.rule(f"allow_{use}")
        if isinstance(allowed, str) and allowed.startswith("@"):
            return [] if use == "write" and who == thing.owner else ["not_configured"]
        names = [allowed] if allowed == "*" else allowed if isinstance(allowed, list) else []
        may = who == thing.owner or who in names or (use != "write" and "*" in names)
        return [] if may else ["not_authorized"]

    def _cost(self, thing: Thing, use: str, who: str) -> int:
        return 0 if who == thing.owner else int(thing.rule(f"{use}_price"))

    def _read(self, who: str, intent: Mapping[str, Any]) -> Due:
        name = intent["artifact_id"]
        if name in GENESIS:
            return Due(data={"price": 0, "owner": "system", "content": ""})
        thing = self.things.get(name)
        if thing is not None and thing.deleted:
            return Due(data={"price": 0, "owner": thing.owner, "deleted": True})
        if thing is None:
            return refused("not_found")
        cost = self._cost(thing, "read", who)
        wrong = self._forbidden(thing, "read", who)
        wrong += ["insufficient_funds"] * (self.scrip[who] < cost)
        if wrong:
            return refused(*wrong)
        self._pay(who, thing.owner, cost)
        told = {"price": cost, "owner": thing.owner, "content": thing.content, "version": thing.version}
        return Due(data=told)

    def _pay(self, giver: str, taker: str, amount: int) -> None:
        self.scrip[giver] -= amount
        self.scrip[taker] += amount

    def _write(self, who: str, intent: Mapping[str, Any]) -> Due:
        name, before = intent["artifact_id"], self.things.get(intent["artifact_id"])
        if before is not None and before.deleted:
            return refused("DELETED")
        wrong = ["not_authorized"] * _is_reserved(name)
        taken = before is None and bool(self.others(name))
        owns = before is None or before.owner == who
        if before is not None:
            wrong += self._forbidden(before, "write", who)
        if not owns and {"policy", "interface", "access_contract_id"} & set(intent):
            wrong.append("not_authorized")
        if intent.get("access_contract_id") is not None:
            wrong.append("not_configured")
        policy = intent.get("policy")
        if policy is not None and not _is_policy(policy):
            wrong.append("invalid_argument")
        depends_on = tuple(dict.fromkeys(intent.get("depends_on") or ()))
        reason = self._broken_rule(name, depends_on)
        wrong += ["invalid_argument"] * ((reason is not None) + taken)
        reason = "taken" if taken else reason
        thing = Thing(who) if before is None else before
        after = Thing(
            thing.owner,
            intent.get("content", ""),
            intent.get("code", ""),
            intent.get("executable", False),
            intent.get("price", 0),
            intent.get("policy", thing.policy),
            tuple(intent["interface"]["methods"]) if "interface" in intent else thing.methods,
            depends_on,
            version=1 if before is None else thing.version + 1,
            giver=thing.giver if thing.owner != who else None,
        )
        whose = after.giver or after.owner
        added = after.size - (
            thing.size if before is not None and (thing.giver or thing.owner) == whose else 0
        )
        wrong += ["quota_exceeded"] * (added > 0 and self.disk(whose) + added > self.quotas[whose])
        checks_code = bool(after.code.strip()) or after.executable
        wrong += ["rate_limited"] * (checks_code and self.cpu_used(who, self.now) >= self.allocations[who])
        if wrong:
            return refused(*wrong, reason=reason if len(wrong) == 1 else None)
        self.things[name] = after
        return Due(data={"artifact_id": name, "version": after.version, "created": before is None})

    def _broken_rule(self, name: str, depends_on: Iterable[str]) -> str | None:
        """The first rule of dependencies that is broken."""
        if name in depends_on:
            return "cycle"
        for each in depends_on:
            thing = self.things.get(each)
            if each not in GENESIS and (thing is None or thing.deleted):
                return "missing"
        paths = list(self._paths(name, tuple(depends_on)))
        if any(name in path[1:] for path in paths):
            return "cycle"
        return "depth" if max(map(len, paths)) > DEPTH else None

    def _paths(self, name: str, depends_on: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
        yield (name,)
        for each in depends_on:
            thing = self.things.get(each)
            for path in self._paths(each, () if thing is None else thing.depends_on):
                yield (name, *path)

    def _delete(self, who: str, intent: Mapping[str, Any]) -> Due:
        if _is_reserved(intent["artifact_id"]):
            return refused("not_authorized")
        thing = self._found(intent["artifact_id"])
        if isinstance(thing, Due):
            return thing
        if thing.owner != who:
            return refused("not_authorized")
        thing.deleted = True
        thing.version += 1
        if thing.owner != intent["artifact_id"]:
            self._pay(intent["artifact_id"], thing.owner, self.scrip[intent["artifact_id"]])
        return Due(data={"artifact_id": intent["artifact_id"]})

    def _transfer(self, who: str, intent: Mapping[str, Any]) -> Due:
        return self._give(who, intent["artifact_id"], intent["to"])

    def _give(self, who: str, name: str, to: str) -> Due:
        if _is_reserved(name):
            return refused("not_authorized")
        thing = self._found(name)
        if isinstance(thing, Due):
            return thing
        wrong = ["not_authorized"] * (thing.owner != who) + ["not_found"] * (not self.stands(to))
        if wrong:
            return refused(*wrong)
        thing.version += thing.owner != to
        giver = thing.giver or thing.owner
        thing.owner, thing.giver = to, None if giver == to else giver
        return Due(data={"artifact_id": name, "from": who, "to": to})

    def _invoke(self, who: str, intent: Mapping[str, Any], at: float, ran: Ran | None) -> Due:
        name, method = intent["artifact_id"], intent["method"]
        if name in GENESIS:
            if method not in METHODS.get(name, ()):
                return refused("not_found" if name in METHODS else "invalid_type")
            found = getattr(self, f"_{name}_{method}")(who, *intent.get("args", ()))
            return found if isinstance(found, Due) else Due(data={"result": found, "price": 0})
        thing = self._found(name)
        if isinstance(thing, Due):
            return thing._replace(cpu=self._use(who, at, ran))
        if not thing.executable:
            return refused("invalid_type", cpu=self._use(who, at, ran))
        cost = self._cost(thing, "invoke", who)
        wrong = self._forbidden(thing, "invoke", who)
        wrong += ["insufficient_funds"] * (self.scrip[who] < cost or intent.get("budget", cost) < cost)
        wrong += ["not_found"] * (method != "run" and method not in thing.methods)
        wrong += ["not_found"] * any(self._is_broken(each) for each in thing.depends_on)
        wrong += ["rate_limited"] * (self.cpu_used(who, at) >= self.allocations[who])
        if wrong:
            return refused(*wrong, cpu=self._use(who, at, ran))
        assert ran is not None, f"nothing ran, and nothing forbids it: {who} {intent}"
        if ran.code == "rate_limited":
            assert self.cpu_used(who, at) + ran.cpu >= self.allocations[who]
        self._use(who, at, ran)
        if ran.code is not None:
            return refused(ran.code, cpu=ran.cpu)
        self._pay(who, thing.owner, cost)
        return Due(data={"result": "done", "price": cost}, cpu=ran.cpu)

    def _use(self, who: str, at: float, ran: Ran | None) -> float | None:
        """Charge what code used, whatever became of the action."""
        if ran is not None:
            self.used.append((who, at, ran.cpu))
        return None if ran is None else ran.cpu

    def _is_broken(self, name: str) -> bool:
        return name not in GENESIS and (name not in self.things or self.things[name].deleted)

    def cpu_used(self, who: str, at: float) -> float:
        """What a principal used in the window that ends now."""
        return sum(seconds for name, when, seconds in self.used if name == who and when > at - WINDOW)

    def _genesis_ledger_balance(self, who: str, name: str) -> Any:
        return {"id": name, "scrip": -self.minted if name == "mint" else self.scrip[name]}

    def _genesis_ledger_all_balances(self, who: str) -> Any:
        return {name: {"scrip": self.scrip[name]} for name in self.allocations}

    def _genesis_ledger_transfer(self, who: str, giver: str, taker: str, amount: int) -> Any:
        wrong = ["invalid_argument"] * (amount <= 0) + ["not_authorized"] * (giver != who)
        known = self.stands(taker) or (taker in self.things and not self.things[taker].deleted)
        wrong += ["not_found"] * (not known)
        wrong += ["insufficient_funds"] * (self.scrip[giver] < amount)
        if wrong:
            return refused(*wrong)
        self._pay(giver, taker, amount)
        return {"from": giver, "to": taker, "amount": amount}

    def _genesis_ledger_transfer_ownership(self, who: str, name: str, to: str) -> Any:
        due = self._give(who, name, to)
        return due if due.codes else due.data

    def _genesis_ledger_spawn_principal(self, who: str, name: str) -> Any:
        if _is_reserved(name):
            return refused("invalid_argument")
        thing = self.things.get(name)
        is_own = thing is not None and thing.owner == who and not thing.deleted
        if name in self.allocations or self.others(name) or not (thing is None or is_own):
            return refused("invalid_argument", reason="taken")
        if thing is not None:
            thing.version += 1
        self.create(name, who)
        return {"id": name}

    def _genesis_store_get(self, who: str, name: str) -> Any:
        found = self.things.get(name)
        if found is None and name not in GENESIS:
            return refused("not_found")
        return {"id": name, "owner_id": "system" if found is None else found.owner}

    def _genesis_store_count(self, who: str) -> Any:
        return sum(not thing.deleted for thing in self.things.values())

    def _genesis_store_list_by_owner(self, who: str, owner: str) -> Any:
        return [
            {"id": name}
            for name, thing in sorted(self.things.items())
            if thing.owner == owner and not thing.deleted
        ]

    def _genesis_store_list_principals(self, who: str) -> Any:
        return sorted(self.allocations)


def _is_reserved(name: str) -> bool:
    return name.lower().startswith("genesis_") or name.lower() in RESERVED


def _is_policy(policy: Mapping[str, Any]) -> bool:
    prices = [policy.get(f"{use}_price", 0) for use in ("read", "invoke")]
    references = [policy.get(f"allow_{use}") for use in ("read", "write", "invoke")]
    return all(type(each) is int and each >= 0 for each in prices) and "@" not in references
