"""An action while it is worked out: what it asks the exchange, what it changes, and on whose behalf its code runs.

Later steps of the same action see what earlier ones changed.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

from runward.config.exchange import ExchangeRules
from runward.config.intent import MOST
from runward.config.json_value import JsonValue
from runward.handlers.exchange.intent import Refused, why_no_name
from runward.handlers.exchange.reading import Reading, View, existing_with
from runward.handlers.model.asking import Asking, Given, Question, ask
from runward.handlers.model.exchange import (
    GENESIS,
    MINT,
    SCRIP,
    SYSTEM,
    BalanceOf,
    CpuUsedBy,
    ExchangeEffect,
    ExchangeRulesNow,
    Existing,
    KeepArtifact,
    KeepPrincipal,
    NamesLike,
    Post,
    Principal,
    PrincipalOf,
    ResourcesOf,
    SharedArtifact,
    SharedArtifactOf,
    without_case,
)


class Frame(NamedTuple):
    """An invocation whose code runs. The intent's own has depth 0.

    `caller` is the principal of the intent, who pays for everything below. `is_lent` is whether the code may take and
    write what belongs to the caller. If not, it reads and invokes only what all `owners` of such code above it may,
    too. `acts` is whether it may take and write what belongs to its artifact. `invoker` is the artifact whose code
    invokes it, None for the intent itself.
    """

    artifact: str
    caller: str
    depth: int
    is_lent: bool
    owners: tuple[str, ...]
    delegates: bool
    acts: bool = True
    invoker: str | None = None

    @property
    def names(self) -> dict[str, JsonValue]:
        """What the code is given as globals: who pays, and who invokes it."""
        return {"caller_id": self.caller, "invoker": self.invoker}


class Ran(NamedTuple):
    """The result of code. `code` is None if it succeeded, else the code of the error."""

    code: str | None
    result: JsonValue
    error: str | None


class CodeRun(Question[Ran], frozen=True):
    """Question: the result of this code. Answer: `Ran`. Only asked where code runs, in parallel with the worker.

    `cpu_s` are the seconds of CPU time that everything below the action may use, None for no limit. A contract's code
    has no `frame`: it acts for nobody.
    """

    artifact: str
    code: str
    function: str
    args: tuple[JsonValue, ...]
    cpu_s: float | None
    dependencies: tuple[str, ...] = ()
    frame: Frame | None = None
    defines: tuple[str, ...] | None = None
    """Only compile the code, which must define one of these functions if any are named. Nothing of it runs."""


T = TypeVar("T")


class NeedsCode(Exception):
    """Code must run before this can be decided, and it can't run here."""


_Sums: TypeAlias = defaultdict[BalanceOf, int]
"""Units by balance."""


@dataclass(slots=True)
class Accounts:
    """The exchange as one action sees it. `action` is the action's key, `at` its time (Unix seconds).

    `token` is a text that no other action has. `runs_code` is whether code may run while it is worked out.
    """

    action: str
    at: float
    token: str
    runs_code: bool = False
    effects: list[ExchangeEffect] = field(default_factory=list)
    """What the action changes, and what is undone if it fails."""
    paid: list[Post] = field(default_factory=list)
    """What was bought and delivered. It stays paid, whatever fails later: the content may have got out."""
    reading: Reading = field(default_factory=Reading)
    why_no_code: str | None = None
    """Why code can't run anywhere: then what needs it is worked out without it."""
    payer: str | None = None
    budget: int | None = None
    """The most scrip that the action may cost its payer. None for no limit except the balance."""
    _changed: dict[Question[Any], Any] = field(default_factory=dict)
    """The artifacts and principals that this action changed, by the question whose answer they are."""
    _moved: _Sums = field(default_factory=lambda: defaultdict(int))
    """How `effects` changed balances."""
    _given: _Sums = field(default_factory=lambda: defaultdict(int))
    """What `effects` took from balances, whatever came back."""
    _settled: _Sums = field(default_factory=lambda: defaultdict(int))
    """How `paid` changed balances."""
    _bought: _Sums = field(default_factory=lambda: defaultdict(int))
    """What `paid` took from balances."""
    _reserved: int = 0
    _cpu_left: float | None = None

    def let_code_run(self) -> None:
        """Work the action out where code may run, and may read only so much."""
        self.runs_code = self.reading.is_bounded = True

    def attempt(self, change: Asking[T]) -> Asking[T]:
        """Make a change. If it fails, only the payments for what was delivered are left of it."""
        effects, changed, reserved = len(self.effects), {**self._changed}, self._reserved
        moved, given = self._moved.copy(), self._given.copy()
        try:
            return (yield from change)
        except Exception:
            # What was bought and delivered stays paid. The content may have left the exchange, whatever fails after
            # that.
            del self.effects[effects:]
            self._changed, self._moved, self._given, self._reserved = changed, moved, given, reserved
            raise

    @property
    def all_effects(self) -> tuple[ExchangeEffect, ...]:
        """Everything that is to be recorded: payments first, for which there was enough at the beginning."""
        return (*self.paid, *self.effects)

    @property
    def spent(self) -> int:
        """What the action has cost its payer."""
        if self.payer is None:
            return 0
        payer = BalanceOf(self.payer)
        return self._bought[payer] + self._given[payer]

    def adopt(self, effects: Sequence[ExchangeEffect]) -> None:
        """Take over what was worked out for this action elsewhere."""
        self.effects += effects
        for each in effects:
            match each:
                case Post(giver=giver, taker=taker, resource=resource, amount=amount):
                    self._moved[BalanceOf(giver, resource)] -= amount
                    self._moved[BalanceOf(taker, resource)] += amount
                case KeepPrincipal(principal=principal):
                    self._changed[PrincipalOf(principal.id)] = principal
                case KeepArtifact(artifact=artifact):
                    self._changed[SharedArtifactOf(artifact.id)] = artifact
                case _:
                    pass

    def settle(self, paid: Sequence[Post]) -> Asking[None]:
        """Pay for what was delivered to code that ran in vain, as far as there still is enough."""
        for each in paid:
            # The code ran in vain, but its purchases were delivered. Others may have taken from the balance since, so
            # as much is paid as there is.
            amount = min(each.amount, (yield from self.balance(each.giver)))
            yield from self.pay(each.giver, each.taker, amount, each.reason)

    def _ask(self, question: Question[T], *, exact: bool = True) -> Asking[T]:
        if question in self._changed:
            changed: T = self._changed[question]
            return changed
        return (yield from self.reading.answer(question, exact=exact))

    def rules(self) -> Asking[ExchangeRules]:
        """Show the settings in force."""
        return (yield from self._ask(ExchangeRulesNow()))

    def artifact(self, artifact_id: str) -> Asking[SharedArtifact | None]:
        """The artifact with this id, deleted ones included."""
        return (yield from self._ask(SharedArtifactOf(artifact_id)))

    def principal(self, principal_id: str, *, with_disk: bool = False) -> Asking[Principal | None]:
        """The principal with this id. Its use of the disk is only relied on `with_disk`."""
        return (yield from self._ask(PrincipalOf(principal_id), exact=with_disk))

    def check_name(self, name: str) -> Asking[None]:
        """Raises `Refused` if no artifact or principal may take this name, because another one has it in other case."""
        why = why_no_principal(name)
        if why is not None:
            raise Refused("invalid_argument", f"the name {name[:80]!r} can't be taken: it {why}")
        # Principals and artifacts share their names, so that nobody owns the account of a principal to come.
        like = yield from self._ask(NamesLike(without_case(name)))
        kept = (each.artifact.id for each in self.effects if isinstance(each, KeepArtifact))
        for other in (*like, *(each for each in kept if without_case(each) == without_case(name))):
            if other != name:
                raise taken(name, f"{other} has it")

    def balance(self, account: str, resource: str = SCRIP) -> Asking[int]:
        """The units that an account has."""
        balance = BalanceOf(account, resource)
        return (yield from self.reading.answer(balance)) + self._moved[balance] + self._settled[balance]

    def resources(self, account: str) -> Asking[tuple[str, ...]]:
        """The names of the resources that an account has or has had, without scrip."""
        names = yield from self._ask(ResourcesOf(account))
        posted = (
            each
            for each in self.all_effects
            if isinstance(each, Post) and account in (each.giver, each.taker)
        )
        return tuple(sorted({*names, *(each.resource for each in posted)} - {SCRIP}))

    def shown(self, show: Callable[[Existing, str], JsonValue], text: str = "") -> Asking[JsonValue]:
        """What a list shows of everything in the exchange."""
        view = View(show, text)
        existing = yield from self.reading.existing(view)
        for effect in self.all_effects:
            existing = existing_with(existing, effect)
        return view.of(existing)

    def cpu_left(self) -> Asking[float | None]:
        """The CPU time (seconds) that the payer may use, as it was before any code ran. None for no limit.

        Raises `Refused` if nothing is left.
        """
        principal = None if self.payer is None else (yield from self.principal(self.payer))
        if principal is None or principal.cpu_seconds is None:
            return None
        # What counts is what was left before any code ran: the kernel counts the CPU time of all workers of the call
        # tree together.
        if self._cpu_left is None:
            self._cpu_left = yield from self._cpu_of(principal, principal.cpu_seconds)
        return self._cpu_left

    def _cpu_of(self, principal: Principal, allocated: float) -> Asking[float]:
        rules = yield from self.rules()
        since = self.at - rules.cpu_window
        used = [(at, seconds) for at, seconds in (yield from ask(CpuUsedBy(principal.id))) if at > since]
        left = allocated - sum(seconds for _, seconds in used)
        if left > 0.0:
            return left
        first = min((at for at, _ in used), default=self.at)
        raise Refused(
            "rate_limited",
            f"{principal.id} has used its {allocated:g} s of CPU time in {rules.cpu_window:g} s",
            available_in_s=round(max(0.0, first + rules.cpu_window - self.at), 3),
        )

    def run(self, code: CodeRun) -> Asking[Ran]:
        """The result of running code. Raises `NeedsCode` if it can't run."""
        if self.why_no_code is not None:
            return Ran("not_configured", None, self.why_no_code)
        if not self.runs_code:
            raise NeedsCode
        return (yield from ask(code))

    def succeeded(self, code: CodeRun) -> Asking[Ran]:
        """The result of code that ended well. Raises `Refused` if it failed, and `NeedsCode`."""
        ran = yield from self.run(code)
        if ran.code is None:
            return ran
        rules = yield from self.rules()
        details: dict[str, JsonValue] = (
            {"available_in_s": rules.cpu_window} if ran.code == "rate_limited" else {}
        )
        raise Refused(ran.code, ran.error or ran.code, **details)

    def keep(self, artifact: SharedArtifact) -> Asking[None]:
        """Store a new artifact, or the next version of one, within the quota that it uses. Raises `Refused`."""
        before = yield from self.artifact(artifact.id)
        whose: dict[str, int] = {artifact.counts_for: artifact.size}
        # A transfer moves what an artifact occupies from one quota to another, so both owners may change.
        if before is not None:
            whose[before.counts_for] = whose.get(before.counts_for, 0) - before.size
            artifact = artifact._replace(version=before.version + 1)
        for owner, added in whose.items():
            yield from self._use_disk(owner, added)
        self._changed[SharedArtifactOf(artifact.id)] = artifact
        self.effects.append(KeepArtifact(artifact))
        if before is not None and before.stands != artifact.stands:
            principal = yield from self.principal(artifact.id)
            if principal is not None:
                self._changed[PrincipalOf(artifact.id)] = principal._replace(has_standing=artifact.stands)

    def _use_disk(self, owner: str, added: int) -> Asking[None]:
        if added == 0:
            return
        principal = yield from self.principal(owner, with_disk=True)
        if principal is None:
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
        """Store a new principal, or its next version."""
        # The whole row is written back, so nothing of it may have changed since it was read.
        self.reading.exact.add(PrincipalOf(principal.id))
        self._changed[PrincipalOf(principal.id)] = principal
        self.effects.append(KeepPrincipal(principal))

    def create_principal(self, principal: Principal, artifact: SharedArtifact) -> Asking[None]:
        """Store a principal, and the artifact that it is. An artifact of the same owner gets standing instead.

        Raises `Refused` if the name is taken.
        """
        # An artifact of the same owner may already have this name. It becomes the principal. Nobody else's does.
        yield from self.check_name(principal.id)
        before = yield from self.artifact(artifact.id)
        if before is not None and (before.owner_id != artifact.owner_id or before.deleted_at is not None):
            raise taken(artifact.id, f"an artifact of {before.owner_id} has it")
        self.keep_principal(principal)
        if before is not None:
            artifact = before._replace(
                content=artifact.content or before.content,
                updated_at=self.at,
                has_standing=True,
                can_execute=artifact.can_execute or before.can_execute,
                memory_artifact_id=artifact.memory_artifact_id or before.memory_artifact_id,
            )
        yield from self.keep(artifact)

    def give_defaults(self, principal: Principal) -> Asking[None]:
        """Give a principal what the settings give to each run that a launcher started, once."""
        rules = yield from self.rules()
        self.keep_principal(
            principal._replace(
                disk_quota=principal.disk_quota + rules.disk_quota,
                disk_default=rules.disk_quota,
                cpu_seconds=(principal.cpu_seconds or 0.0) + rules.cpu_seconds,
                cpu_default=rules.cpu_seconds,
                version=principal.version + 1,
            )
        )

    def reserve(self, payer: str, amount: int, what: str) -> Asking[None]:
        """Reserve units of the payer's scrip for something that costs them when it succeeds. Raises `Refused`."""
        yield from self._check_means(payer, amount, SCRIP, what, buys=True)
        self._reserved += amount

    def release(self, amount: int) -> None:
        """Release what was reserved, so that it can be spent."""
        self._reserved -= amount

    def pay(self, giver: str, taker: str, amount: int, reason: str, resource: str = SCRIP) -> Asking[None]:
        """Move units from one account to another; 0 moves nothing. Raises `Refused` if the giver has too little."""
        if amount == 0:
            return
        yield from self._check_means(giver, amount, resource, reason)
        if giver != taker:
            self._moved[BalanceOf(giver, resource)] -= amount
            self._moved[BalanceOf(taker, resource)] += amount
            self._given[BalanceOf(giver, resource)] += amount
        self.effects.append(
            Post(
                at=self.at,
                action=self.action,
                giver=giver,
                taker=taker,
                resource=resource,
                amount=amount,
                reason=reason,
            )
        )

    def mint(self, taker: str, amount: int, reason: str, resource: str = SCRIP) -> Asking[None]:
        """Create units, or take them back if the amount is below 0. Raises `Refused`."""
        # The mint's balance is what was taken from it, below zero. So it says how many units there are.
        minted = -(yield from self.balance(MINT, resource)) + amount
        if max(abs(amount), minted) > MOST:
            raise Refused("invalid_argument", f"there can't be more than 2^53 units of {resource}")
        giver, to = (MINT, taker) if amount > 0 else (taker, MINT)
        yield from self.pay(giver, to, abs(amount), reason, resource)

    def buy(self, buyer: str, seller: str, amount: int, reason: str) -> Asking[None]:
        """Pay for what is delivered now. Raises `Refused` if too little is left of what the buyer began with.

        Only that counts, because what came in since is taken back if the action fails, and this payment is not.
        """
        if amount == 0:
            return
        yield from self._check_means(buyer, amount, SCRIP, reason, buys=True)
        if buyer != seller:
            self._settled[BalanceOf(buyer)] -= amount
            self._settled[BalanceOf(seller)] += amount
            self._bought[BalanceOf(buyer)] += amount
        self.paid.append(
            Post(
                at=self.at,
                action=self.action,
                giver=buyer,
                taker=seller,
                resource=SCRIP,
                amount=amount,
                reason=reason,
            )
        )

    def _check_means(
        self, giver: str, amount: int, resource: str, what: str, *, buys: bool = False
    ) -> Asking[None]:
        if giver == MINT or amount == 0:
            return
        balance = BalanceOf(giver, resource)
        before = yield from self.reading.answer(balance, exact=False)
        is_payer = giver == self.payer and resource == SCRIP
        reserved = self._reserved if is_payer else 0
        moved = self._moved[balance] + self._settled[balance]
        used = self._given[balance] + self._bought[balance] + reserved
        available = before + moved - reserved
        if available < amount:
            # A refusal depends on the exact balance: with one unit more it might not be one. A payment only needs the
            # balance to be large enough.
            self.reading.exact.add(balance)
            raise _too_little(
                f"{giver} has {available} {resource}, and {what} costs {amount}", amount, available
            )
        if is_payer and self.budget is not None and used + amount > self.budget:
            left = self.budget - used
            why = f"{left} of the budget of {self.budget} {resource} are left, and {what} costs {amount}"
            raise _too_little(why, amount, left)
        # What came in during the action is taken back if the action fails, and a purchase is not. So a purchase counts
        # on the beginning alone, and so does everything that the payer spends without a budget.
        counts_from_beginning = buys or (is_payer and self.budget is None)
        if counts_from_beginning and used + amount > before:
            self.reading.exact.add(balance)
            left = before - used
            why = f"{left} of the {before} {resource} that {giver} began with are left, and {what} costs {amount}"
            raise _too_little(why, amount, left)
        # Others may pay in and out meanwhile, as long as this much is there.
        self.reading.needs(balance, amount + (used if counts_from_beginning else reserved - moved))


def _too_little(why: str, needed: int, available: int) -> Refused:
    return Refused("insufficient_funds", why, needed=needed, available=available)


def accounts_of(action: str, given: Given) -> Accounts:
    """The exchange as this action sees it."""
    return Accounts(action, given.at, given.event_hash[7:19])


def is_reserved(name: str) -> bool:
    """Whether this id is reserved, in any case: its account or its artifacts are the exchange's own."""
    return name.lower() in (SYSTEM, MINT) or name.lower().startswith(GENESIS)


def why_no_principal(name: str) -> str | None:
    """What keeps a new principal or artifact from having this id."""
    return "is reserved" if is_reserved(name) else why_no_name(name)


def taken(name: str, by: str) -> Refused:
    """The refusal of a name that somebody else has."""
    return Refused("invalid_argument", f"the name {name} is taken: {by}", reason="taken")


def principal_artifact(
    name: str, owner: str, at: float, is_agent: bool = False, config: str = "", memory: str | None = None
) -> SharedArtifact:
    """The artifact that a principal is: an agent's has its config as content (the seed's factory of agents)."""
    return SharedArtifact(
        id=name,
        type="agent" if is_agent else "principal",
        content=config,
        owner_id=owner,
        created_at=at,
        updated_at=at,
        policy={"allow_read": [owner], "allow_invoke": []} if is_agent else None,
        has_standing=True,
        can_execute=is_agent,
        memory_artifact_id=memory,
        written_by=owner,
    )


def memory_artifact(memory: str, owner: str, at: float) -> SharedArtifact:
    """Where an agent keeps what it learned; only its owner reads and writes it (the seed's factory of memories)."""
    policy: dict[str, JsonValue] = {"allow_read": [], "allow_write": [], "allow_invoke": []}
    return SharedArtifact(
        id=memory,
        type="memory",
        content="",
        owner_id=owner,
        created_at=at,
        updated_at=at,
        policy=policy,
        written_by=owner,
    )
