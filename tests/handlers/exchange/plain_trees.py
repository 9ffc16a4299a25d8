"""The rules of call trees, as the interface states them: plain Python that shares no code with the handlers.

Code is a list of steps. `text_of` makes the text of an artifact's code from it, and `Rules` says what comes of it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

DEPTH: Final = 2
QUOTA: Final = 2500
SCRIP: Final = 20

Step: TypeAlias = tuple[Any, ...]

_STEPS: Final = {
    "invoke": "invoke({0!r})['success']",
    "pay": "pay({0!r}, {1})['success']",
    "ledger": "invoke('genesis_ledger', caller_id, {0!r}, {1}, method='transfer')['success']",
    "take": "kernel_actions.transfer_scrip(caller_id, {0!r}, {1})",
    "move": "kernel_actions.transfer_resource(caller_id, {0!r}, 'disk_bytes', {1})",
    "write": "kernel_actions.write_artifact(caller_id, {0!r}, {1!r})",
    "read": "kernel_state.read_artifact({0!r}, caller_id)",
    "balance": "get_balance()",
    "fail": "1 / 0",
}


class Contract(NamedTuple):
    """Allows these uses to anybody who has so much scrip, at a cost. An unsound one returns nothing."""

    uses: tuple[str, ...]
    least: int
    cost: int
    is_sound: bool = True


Code: TypeAlias = tuple[Step, ...] | Contract


def text_of(code: Code) -> str:
    """Code as an artifact has it."""
    if isinstance(code, Contract):
        said = f"{{'allowed': action in {code.uses} and ledger.get_scrip(caller) >= {code.least}, 'cost': {code.cost}}}"
        return f"def check_permission(caller, action, target, context, ledger):\n return {said if code.is_sound else None}"
    steps = ", ".join(_STEPS[kind].format(*args) for kind, *args in code)
    return f"def run():\n return [{steps}]"


class No(Exception):
    """An action is refused with this code."""


@dataclass
class Thing:
    """An artifact."""

    owner: str
    content: str = ""
    code: Code | None = None
    price: int = 0
    policy: dict[str, Any] = field(default_factory=dict)
    contract: str | None = None
    depends_on: tuple[str, ...] = ()
    deleted: bool = False
    writer: str = ""
    giver: str | None = None
    """Who gave it to its owner, who has not written it since."""

    @property
    def size(self) -> int:
        return len(self.content) + (0 if self.code is None else len(text_of(self.code)))


class Frame(NamedTuple):
    """Code that runs. `owners`: those who must also be allowed what it reads and invokes."""

    artifact: str
    caller: str
    depth: int
    is_lent: bool
    owners: tuple[str, ...]
    delegates: bool
    acts: bool


@dataclass
class Rules:
    """What there is."""

    scrip: Counter[str] = field(default_factory=Counter)
    quota: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    """What the settings gave, which nobody gives away."""
    things: dict[str, Thing] = field(default_factory=dict)
    payer: str = ""
    budget: int | None = None
    begun: Counter[str] = field(default_factory=Counter)
    """What everybody had when the action began."""
    given: Counter[str] = field(default_factory=Counter)
    bought: Counter[str] = field(default_factory=Counter)
    paid: list[tuple[str, str, int]] = field(default_factory=list)
    """What was bought and delivered: it stays paid."""
    reserved: int = 0

    def create(self, name: str, *, is_default: bool = False) -> None:
        """A principal comes to be, with a quota from a person or from the settings."""
        self.kept[name] = QUOTA if is_default else 0
        self.scrip[name], self.quota[name], self.things[name] = SCRIP, QUOTA, Thing(name)

    def act(self, who: str, act: Callable[[], Any]) -> Any:
        """An action of somebody. Raises `No`, and then nothing has changed."""
        self.payer, self.budget, self.reserved = who, None, 0
        self.begun, self.given, self.bought, self.paid = Counter(self.scrip), Counter(), Counter(), []
        with self._whole():
            return act()

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """What is done here is done as a whole or not at all, but that what was delivered stays paid."""
        before = deepcopy(self.__dict__)
        try:
            yield
        except No:
            paid = self.paid[len(before["paid"]) :]
            self.__dict__.update(before)
            for each in paid:
                self._deliver(*each)
            raise

    def _found(self, name: str) -> Thing:
        if name not in self.things:
            raise No("not_found")
        if self.things[name].deleted:
            raise No("DELETED")
        return self.things[name]

    def _permitted(self, name: str, use: str, who: str, frame: Frame | None) -> int:
        """What a contract costs the one who asks."""
        costs = [self._allowed(name, use, each) for each in (*(() if frame is None else frame.owners), who)]
        return costs[-1]

    def _allowed(self, name: str, use: str, who: str) -> int:
        thing = self.things[name]
        owns, named = thing.owner == who, thing.policy.get(f"allow_{use}", [] if use == "write" else ["*"])
        by_policy = use in ("read", "write", "invoke")
        contract = thing.contract
        if contract is None and by_policy and isinstance(named, str):
            contract = named[1:]
        if contract is None:
            if owns or (by_policy and (who in named or (use != "write" and "*" in named))):
                return 0
            raise No("not_authorized")
        if contract == "genesis_contract_public":
            return 0
        if contract == "genesis_contract_private":
            if owns:
                return 0
            raise No("not_authorized")
        found = self.things.get(contract)
        rule = None if found is None or found.deleted else found.code
        if isinstance(rule, Contract) and rule.is_sound:
            if use in rule.uses and self.scrip[who] >= rule.least:
                return 0 if owns else rule.cost
        elif owns and use in ("write", "delete", "transfer"):
            return 0
        raise No("not_authorized")

    def _means(self, giver: str, amount: int, *, buys: bool = False) -> None:
        pays = giver == self.payer
        reserved = self.reserved if pays else 0
        used = self.given[giver] + self.bought[giver] + reserved
        if amount and self.scrip[giver] - reserved < amount:
            raise No("insufficient_funds")
        if amount and buys and used + amount > self.begun[giver]:
            raise No("insufficient_funds")
        if amount and pays and self.budget is not None and used + amount > self.budget:
            raise No("insufficient_funds")

    def _pay(self, giver: str, taker: str, amount: int) -> None:
        self._means(giver, amount)
        self.scrip[giver] -= amount
        self.scrip[taker] += amount
        self.given[giver] += amount if giver != taker else 0

    def _buy(self, buyer: str, seller: str, amount: int) -> None:
        self._means(buyer, amount, buys=True)
        self._deliver(buyer, seller, amount)

    def _deliver(self, buyer: str, seller: str, amount: int) -> None:
        self.paid.append((buyer, seller, amount))
        self.scrip[buyer] -= amount
        self.scrip[seller] += amount
        self.bought[buyer] += amount if buyer != seller else 0

    def pay(self, giver: str, taker: str, amount: int) -> None:
        """Somebody gives scrip to a principal or an artifact."""
        if taker not in self.quota:
            thing = self.things.get(taker)
            if thing is None or thing.deleted:
                raise No("not_found")
        self._pay(giver, taker, amount)

    def used(self, owner: str) -> int:
        """What the artifacts of a principal take, and what it gave away that nobody took yet."""
        return sum(thing.size for thing in self.things.values() if (thing.giver or thing.owner) == owner)

    def _keep(self, name: str, thing: Thing, before: Thing | None) -> None:
        whose = thing.giver or thing.owner
        same = before is not None and (before.giver or before.owner) == whose
        grows = thing.size - (before.size if before is not None and same else 0)
        self.things[name] = thing
        if grows > 0 and self.used(whose) > self.quota[whose]:
            raise No("quota_exceeded")

    def read(self, who: str, name: str, frame: Frame | None = None) -> str:
        """Somebody reads an artifact; the tombstone of a deleted one is free."""
        if frame is None and name in self.things and self.things[name].deleted:
            return ""
        thing = self._found(name)
        cost = self._permitted(name, "read", who, frame)
        self._buy(who, thing.owner, cost + (0 if who == thing.owner else thing.policy.get("read_price", 0)))
        return thing.content

    def write(self, who: str, name: str, frame: Frame | None = None, **said: Any) -> None:
        """Somebody writes an artifact. What `said` doesn't name of policy and contract is kept."""
        before = self.things.get(name)
        if before is not None:
            self._found(name)
            self._pay(who, before.owner, self._permitted(name, "write", who, frame))
            if before.owner != who and {"policy", "contract"} & set(said):
                raise No("not_authorized")
        for each in said.get("depends_on", ()):
            if each == name or each not in self.things or self.things[each].deleted:
                raise No("invalid_argument")
        if any(name in self._below(each) for each in said.get("depends_on", ())):
            raise No("invalid_argument")
        kept = {} if before is None else {"policy": before.policy, "contract": before.contract}
        if before is not None and before.owner != who:
            kept["giver"] = before.giver
        owner = who if before is None else before.owner
        self._keep(name, Thing(**{"owner": owner, "writer": who, **kept, **said}), before)

    def _below(self, name: str) -> set[str]:
        thing = self.things.get(name)
        return {name}.union(*(self._below(each) for each in (() if thing is None else thing.depends_on)))

    def delete(self, who: str, name: str) -> None:
        """Somebody deletes an artifact, which still counts."""
        thing = self._found(name)
        self._pay(who, thing.owner, self._permitted(name, "delete", who, None))
        thing.deleted = True
        if thing.owner != name:
            self._pay(name, thing.owner, self.scrip[name])

    def transfer(self, who: str, name: str, to: str) -> None:
        """Somebody gives an artifact away."""
        thing = self._found(name)
        self._pay(who, thing.owner, self._permitted(name, "transfer", who, None))
        if to not in self.quota:
            raise No("not_found")
        giver = thing.giver or thing.owner
        thing.owner, thing.giver = to, None if giver == to else giver

    def invoke(self, who: str, name: str, budget: int | None, *, delegates: bool) -> list[Any]:
        """Somebody invokes an artifact."""
        self.budget = self.scrip[who] if budget is None else budget
        return self._invoke(who, name, None, delegates=delegates)

    def _invoke(self, who: str, name: str, outer: Frame | None, *, delegates: bool) -> list[Any]:
        thing = self._found(name)
        if thing.code is None:
            raise No("invalid_type")
        cost = self._permitted(name, "invoke", who, outer)
        if any(self.things[each].deleted for each in thing.depends_on):
            raise No("not_found")
        cost += 0 if who == thing.owner else thing.policy.get("invoke_price", thing.price)
        self._means(who, cost, buys=True)
        self.reserved += cost
        acts = thing.writer == thing.owner
        delegates = delegates and acts
        is_lent = delegates or ((outer is None or outer.is_lent) and acts and thing.owner == who)
        owners = () if outer is None else outer.owners
        owners = owners if is_lent else (*owners, *({thing.owner, thing.writer} - {who}))
        frame = Frame(name, who, 0 if outer is None else outer.depth + 1, is_lent, owners, delegates, acts)
        owner = thing.owner
        result = self._run(thing.code, frame)
        self.reserved -= cost
        self._buy(who, owner, cost)
        return result

    def _run(self, code: Code, frame: Frame) -> list[Any]:
        if isinstance(code, Contract) or ("fail",) in code:
            if not isinstance(code, Contract):
                for kind, *args in code[: code.index(("fail",))]:
                    self._step(frame, kind, args)
            raise No("runtime_error")
        return [self._step(frame, kind, args) for kind, *args in code]

    def _step(self, frame: Frame, kind: str, args: Sequence[Any]) -> Any:
        if kind == "balance":
            return self.scrip[frame.artifact]
        try:
            with self._whole():
                said = getattr(self, f"_step_{kind}")(frame, *args)
        except No as refused:
            if kind == "read" and str(refused) == "insufficient_funds":
                raise No("runtime_error") from None  # it is raised in the code, with the reason
            return None if kind == "read" else False
        return said if kind == "read" else True

    def _step_invoke(self, frame: Frame, name: str) -> None:
        if frame.depth >= DEPTH:
            raise No("depth_exceeded")
        self._invoke(frame.caller, name, frame, delegates=frame.delegates)

    def _step_pay(self, frame: Frame, to: str, amount: int) -> None:
        if not frame.acts:
            raise No("not_authorized")
        self.pay(frame.artifact, to, amount)

    def _step_ledger(self, frame: Frame, to: str, amount: int) -> None:
        if frame.depth >= DEPTH or not frame.is_lent:
            raise No("not_authorized")
        self.pay(frame.caller, to, amount)

    def _step_take(self, frame: Frame, to: str, amount: int) -> None:
        if not frame.is_lent:
            raise No("not_authorized")
        self.pay(frame.caller, to, amount)

    def _step_move(self, frame: Frame, to: str, amount: int) -> None:
        giver = frame.caller
        if not frame.is_lent or to not in self.quota or to == giver:
            raise No("not_authorized")
        if self.quota[giver] - max(self.used(giver), self.kept[giver]) < amount:
            raise No("quota_exceeded")
        self.quota[giver] -= amount
        self.quota[to] += amount

    def _step_write(self, frame: Frame, name: str, content: str) -> None:
        if not frame.is_lent:
            raise No("not_authorized")
        self.write(frame.caller, name, frame, content=content)

    def _step_read(self, frame: Frame, name: str) -> str:
        return self.read(frame.caller, name, frame)
