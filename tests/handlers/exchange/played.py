"""An exchange in memory: it answers what the handlers ask and applies what they decide, and checks both."""

import builtins
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runward.config.exchange import ExchangeRules
from runward.config.json_value import JsonValue
from runward.daemon.engine.deciding import MOST_QUESTIONS
from runward.daemon.sandbox import worker
from runward.handlers.exchange import act, invoke
from runward.handlers.exchange.accounts import Accounts, CodeRun, Ran, accounts_of
from runward.handlers.exchange.reading import Acted, ActedWithCode, CodeOf, CodeRan, Running, Unable, Worked
from runward.handlers.model.asking import Asking, Given, Question
from runward.handlers.model.effects import Deciding, Effects, Emit, Explain
from runward.handlers.model.exchange import (
    MINT,
    SCRIP,
    ActionRequested,
    BalanceOf,
    CountIntent,
    CpuUsedBy,
    ExchangeRulesNow,
    Existing,
    ExistingInExchange,
    IntentMade,
    KeepArtifact,
    KeepPrincipal,
    MintRequested,
    NamesLike,
    Post,
    Principal,
    PrincipalCreateRequested,
    PrincipalOf,
    RecordAction,
    ResourcesOf,
    SharedArtifact,
    SharedArtifactOf,
    UseCpu,
    described,
    without_case,
)

Ask = Callable[..., Any]
"""Asks the exchange from within code: a call's name and its arguments."""


def interpreted(asked: CodeRun, ask: Ask) -> Ran:
    """Runs the code here, without a sandbox, with the names that it has there."""
    kernel = worker._Kernel()
    kernel.ask = ask  # type: ignore[method-assign] # there is no pipe
    names: dict[str, Any] = {"__builtins__": vars(builtins)}
    if asked.frame is None:
        names["ledger"] = kernel.ledger()
    else:
        names |= {**kernel.names(list(asked.dependencies)), **asked.frame.names}
    try:
        exec(asked.code, names)  # the tests' own code
        function = names[asked.function]
        more = (names["ledger"],) if asked.frame is None and worker._takes_ledger(function) else ()
        return Ran(None, function(*asked.args, *more), None)
    except Exception as error:  # as the sandbox does
        return Ran("runtime_error", None, f"{type(error).__name__}: {error}")


def checked(asked: CodeRun) -> Ran:
    """Whether the code can be compiled, and defines what it must."""
    try:
        compiled = compile(asked.code, "<code>", "exec")
    except SyntaxError as error:
        return Ran("invalid_argument", None, f"SyntaxError: {error.msg}")
    if asked.defines and not {*asked.defines} & {*compiled.co_names}:
        return Ran("invalid_argument", None, "the code defines no function")
    return Ran(None, None, None)


@dataclass
class Exchange:
    """What there is, and what was done."""

    rules: ExchangeRules = ExchangeRules()  # noqa: RUF009 # it is a value
    artifacts: dict[str, SharedArtifact] = field(default_factory=dict)
    principals: dict[str, Principal] = field(default_factory=dict)
    balances: Counter[tuple[str, str]] = field(default_factory=Counter)
    actions: list[RecordAction] = field(default_factory=list)
    counted: int = 0
    number: int = 0
    cpu: list[tuple[str, float, float]] = field(default_factory=list)
    asked: list[CodeRun] = field(default_factory=list)
    run: Callable[[CodeRun, Ask], Ran] = interpreted
    cpu_s: float = 0.5
    """What each piece of code uses."""
    is_running: bool = False
    """Whether code has not ended yet."""
    meanwhile: list[Callable[[], object]] = field(default_factory=list)
    """What others do while code runs, once each."""
    unable: str | None = None
    """Why no code can run."""
    in_vain: CodeRan = field(default_factory=CodeRan)
    """What ran for an action before others made it unnecessary."""
    reruns: int = 0
    """How often actions were worked out once more."""
    times: int = 0
    """How often actions, other than writes, were worked out beside the worker."""
    _worked: dict[str, tuple[int, float, Worked]] = field(default_factory=dict)

    def create(self, name: str, scrip: int = 0, **further: object) -> None:
        """A person creates a principal. Raises `AssertionError` if it is refused."""
        event = PrincipalCreateRequested(f"r{self._next()}", 1.0, name, scrip=scrip, said_by="ann", **further)  # type: ignore[arg-type] # each test names real fields
        refused = self.refused(self._apply(act.create_as_asked(event, self._given())))
        assert not refused, refused

    def request(self, event: PrincipalCreateRequested) -> list[str]:
        """A person asks for a principal; returns why not."""
        self._next()
        return self.refused(self._apply(act.create_as_asked(event, self._given())))

    def mint(self, name: str, amount: int) -> list[str]:
        """A person mints; returns why not."""
        event = MintRequested(f"r{self._next()}", 1.0, name, amount, said_by="ann")
        return self.refused(self._apply(act.mint_units(event, self._given())))

    def act(self, who: str, kind: str, artifact: str = "", **further: JsonValue) -> dict[str, JsonValue]:
        """Someone acts through the inbox; returns the result."""
        intent: dict[str, JsonValue] = {"action_type": kind, "reasoning": "why", **further}
        if artifact:
            intent["artifact_id"] = artifact
        return self.say(who, json.dumps(intent))

    def say(self, who: str, text: str) -> dict[str, JsonValue]:
        """Someone acts with this text as intent; returns the result."""
        event = ActionRequested(f"r{self._next()}", 1.0, who, text, said_by="ann")
        self._apply(act.carry_out(event, self._given()))
        return self._last()

    def line(
        self,
        agent: str | None,
        text: str,
        owner: str | None = None,
        complaint: str | None = None,
        *,
        launched: bool = False,
    ) -> dict[str, JsonValue]:
        """A run of this agent writes a line; returns the result."""
        number = self._next()
        event = IntentMade(
            "native:runs/one", 1, number, 1.0, agent, text, complaint, owner, launched=launched
        )
        self._apply(act.carry_out(event, self._given()))
        return self._last()

    def scrip(self, who: str) -> int:
        """What somebody holds."""
        return self.balances[who, SCRIP]

    def _last(self) -> dict[str, JsonValue]:
        result = self.actions[-1].result
        assert isinstance(result, dict)
        return result

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _given(self) -> Given:
        return Given(f"sha256:{self.number:064x}", 1000.0 + self.number)

    def _apply(self, deciding: Deciding) -> Effects:
        answer: object = None
        try:
            for _ in range(MOST_QUESTIONS + 1):
                answer = self._answer(deciding.send(answer))
            raise AssertionError("the daemon would hold this action: it asks too much")
        except StopIteration as stopped:
            effects: Effects = stopped.value
        for effect in effects:
            self._take(effect)
        return effects

    def _answer(self, question: Question[object]) -> object:
        match question:
            case SharedArtifactOf(id=name):
                return self.artifacts.get(name)
            case PrincipalOf(id=name):
                return self._principal(name)
            case NamesLike(name=name):
                return tuple(each for each in self.artifacts if without_case(each) == name)
            case BalanceOf(account=account, resource=resource):
                return self.balances[account, resource]
            case ExchangeRulesNow():
                return self.rules
            case CpuUsedBy(principal=name):
                return tuple((at, used) for who, at, used in self.cpu if who == name)
            case ActedWithCode():
                return self._with_code(question)
            case CodeOf():
                return self.in_vain
            case ResourcesOf(account=account):
                return tuple(sorted(kind for owner, kind in self.balances if owner == account))
            case ExistingInExchange():
                bare = [described(each) for _, each in sorted(self.artifacts.items())]
                scrip = {
                    account: amount for (account, kind), amount in self.balances.items() if kind == SCRIP
                }
                return Existing(tuple(bare), tuple(sorted(self.principals)), scrip)
            case _:
                raise AssertionError(question)

    def _principal(self, name: str) -> Principal | None:
        found = self.principals.get(name)
        return None if found is None else found._replace(has_standing=self.artifacts[name].stands)

    def _with_code(self, asked: ActedWithCode) -> Running | Acted | Unable:
        if self.unable is not None:
            return Unable(self.unable)
        if self.is_running:
            return Running(2.0)
        number, cpu_s, worked = self._worked.get(asked.event.key, (0, 0.0, None))
        if worked is None or number == asked.after:
            self.reruns += number > 0
            number, worked = number + 1, self._work(asked)
            cpu_s += worked.cpu_s
            self._worked[asked.event.key] = number, cpu_s, worked
            if self.meanwhile:
                self.meanwhile.pop(0)()
        return Acted(number, cpu_s, worked)

    def _work(self, asked: ActedWithCode) -> Worked:
        self.times += "write_artifact" not in asked.event.text
        accounts = accounts_of(asked.event.key, asked.given)
        accounts.let_code_run()
        before = len(self.asked)
        decided = self._driven(act.worked_out(accounts, asked.event), accounts)
        ran = len(self.asked) - before
        return Worked(
            decided,
            accounts.all_effects,
            tuple(accounts.paid),
            accounts.reading,
            ran * self.cpu_s,
            "a sandbox",
        )

    def _driven(self, asking: Asking[Any], accounts: Accounts) -> Any:
        """What it returns; code runs here and now."""
        answer: object = None
        try:
            while True:
                question = asking.send(answer)
                answer = (
                    self._ran(question, accounts) if isinstance(question, CodeRun) else self._answer(question)
                )
        except StopIteration as stopped:
            return stopped.value

    def _ran(self, asked: CodeRun, accounts: Accounts) -> Ran:
        if asked.defines is not None:
            return checked(asked)
        self.asked.append(asked)

        def ask(name: str, *args: JsonValue) -> Any:
            try:
                return self._driven(invoke.answered(accounts, asked.frame, name, args), accounts)
            except invoke.CallRefused as refused:
                raise ValueError(str(refused)) from None

        return self.run(asked, ask)

    def _take(self, effect: object) -> None:
        match effect:
            case KeepArtifact(artifact=kept):
                before = self.artifacts.get(kept.id)
                assert kept.version == (1 if before is None else before.version + 1)
                self.artifacts[kept.id] = kept
            case KeepPrincipal(principal=principal):
                known = self.principals.get(principal.id)
                assert principal.version == (1 if known is None else known.version + 1)
                self.principals[principal.id] = principal
            case Post(giver=giver, taker=taker, resource=resource, amount=amount):
                assert amount > 0
                self.balances[giver, resource] -= amount
                self.balances[taker, resource] += amount
                assert giver == MINT or self.balances[giver, resource] >= 0
            case UseCpu(principal=name, at=at, seconds=seconds):
                self.cpu.append((name, at, seconds))
            case RecordAction():
                self.actions.append(effect)
            case CountIntent():
                assert self.actions[-1].session_key == effect.session_key
                self.counted += 1
            case Emit() | Explain():
                pass
            case _:
                raise AssertionError(effect)

    @staticmethod
    def refused(effects: Effects) -> list[str]:
        """Why something was refused."""
        return [each.summary for each in effects if isinstance(each, Explain) and each.verdict == "refused"]
