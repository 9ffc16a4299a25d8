"""An exchange in memory: it answers what the handlers ask and applies what they decide, and checks both."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from runward.config.exchange import ExchangeRules
from runward.config.json_value import JsonValue
from runward.handlers.asking import Given, Question
from runward.handlers.effects import Deciding, Effects, Emit, Explain
from runward.handlers.exchange import act, create, mint
from runward.handlers.exchange.effects import KeepArtifact, KeepPrincipal, Post, RecordAction, UseCpu
from runward.handlers.exchange.events import (
    ActionRequested,
    IntentMade,
    MintRequested,
    PrincipalCreateRequested,
)
from runward.handlers.exchange.facts import (
    MINT,
    SCRIP,
    BalanceOf,
    CpuUsedBy,
    ExchangeRulesNow,
    Executed,
    ExecutionOf,
    Existing,
    ExistingInExchange,
    Principal,
    PrincipalOf,
    Running,
    SharedArtifact,
    SharedArtifactOf,
    described,
)


@dataclass
class Exchange:
    """What there is, and what was done."""

    rules: ExchangeRules = ExchangeRules()  # noqa: RUF009 # it is a value
    artifacts: dict[str, SharedArtifact] = field(default_factory=dict)
    principals: dict[str, Principal] = field(default_factory=dict)
    balances: Counter[tuple[str, str]] = field(default_factory=Counter)
    actions: list[RecordAction] = field(default_factory=list)
    number: int = 0
    cpu: list[tuple[str, float, float]] = field(default_factory=list)
    asked: list[ExecutionOf] = field(default_factory=list)
    execute: Callable[[ExecutionOf], Running | Executed] = lambda asked: Executed(
        None, 1, None, 0.5, "a sandbox"
    )

    def create(self, name: str, scrip: int = 0, **further: object) -> None:
        """A person creates a principal. Raises `AssertionError` if it is refused."""
        event = PrincipalCreateRequested(f"r{self._next()}", 1.0, name, scrip=scrip, said_by="ann", **further)  # type: ignore[arg-type] # each test names real fields
        refused = self.refused(self._apply(create.decide(event, self._given())))
        assert not refused, refused

    def mint(self, name: str, amount: int) -> list[str]:
        """A person mints; returns why not."""
        event = MintRequested(f"r{self._next()}", 1.0, name, amount, said_by="ann")
        return self.refused(self._apply(mint.decide(event, self._given())))

    def act(self, who: str, kind: str, artifact: str = "", **further: JsonValue) -> dict[str, JsonValue]:
        """Someone acts through the inbox; returns the result."""
        intent: dict[str, JsonValue] = {"action_type": kind, "reasoning": "why", **further}
        if artifact:
            intent["artifact_id"] = artifact
        return self.say(who, json.dumps(intent))

    def say(self, who: str, text: str) -> dict[str, JsonValue]:
        """Someone acts with this text as intent; returns the result."""
        event = ActionRequested(f"r{self._next()}", 1.0, who, text, said_by="ann")
        self._apply(act.act_for_person(event, self._given()))
        return self._last()

    def line(
        self, agent: str | None, text: str, owner: str | None = None, complaint: str | None = None
    ) -> dict[str, JsonValue]:
        """A run of this agent writes a line; returns the result."""
        number = self._next()
        event = IntentMade("native:runs/one", 1, number, 1.0, agent, text, complaint, owner)
        self._apply(act.act_in_run(event, self._given()))
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
            while True:
                answer = self._answer(deciding.send(answer))
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
                return self.principals.get(name)
            case BalanceOf(account=account, resource=resource):
                return self.balances[account, resource]
            case ExchangeRulesNow():
                return self.rules
            case CpuUsedBy(principal=name):
                return tuple((at, used) for who, at, used in self.cpu if who == name)
            case ExecutionOf():
                self.asked.append(question)
                return self.execute(question)
            case ExistingInExchange():
                bare = [described(each) for _, each in sorted(self.artifacts.items())]
                scrip = {
                    account: amount for (account, kind), amount in self.balances.items() if kind == SCRIP
                }
                return Existing(tuple(bare), tuple(sorted(self.principals)), scrip)
            case _:
                raise AssertionError(question)

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
            case Emit() | Explain():
                pass
            case _:
                raise AssertionError(effect)

    @staticmethod
    def refused(effects: Effects) -> list[str]:
        """Why something was refused."""
        return [each.summary for each in effects if isinstance(each, Explain) and each.verdict == "refused"]
