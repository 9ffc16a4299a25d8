"""Random call trees of several principals, some of them while others act, against the plain rules and the laws."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.daemon.exchange.histories import mostly
from tests.handlers.exchange.plain_trees import DEPTH, QUOTA, SCRIP, Contract, No, Rules, text_of
from tests.handlers.exchange.played import Exchange

from runward.config.exchange import ExchangeRules
from runward.config.intent import CODES
from runward.config.json_value import JsonValue
from runward.handlers.exchange import invoke
from runward.handlers.exchange.accounts import Accounts
from runward.handlers.exchange.reading import Reading
from runward.handlers.model.asking import Asking
from runward.handlers.model.exchange import MINT, SharedArtifact
from runward.handlers.model.exchange import SCRIP as MONEY

WHO: Final = ("a", "b", "c")
IDS: Final = ("p", "q", "r", "x")
CONTRACT: Final = "k"
RULES: Final = ExchangeRules(invoke_depth=DEPTH, use_contracts=True, cpu_seconds=1000.0)
CPU_S: Final = 0.5


class Act(NamedTuple):
    """Somebody does something. `meanwhile` is what another one does while its code runs."""

    who: str
    kind: str
    name: str
    said: Mapping[str, Any]
    meanwhile: "Act | None" = None


Acts: TypeAlias = list[Act]

_who, _ids = st.sampled_from(WHO), st.sampled_from(IDS)
_to = st.sampled_from((*WHO, *IDS, "nobody"))
_few = st.integers(1, 9)
_steps = mostly(
    (5, st.tuples(st.just("invoke"), _ids)),
    (2, st.tuples(st.just("pay"), _to, _few)),
    (2, st.tuples(st.sampled_from(("ledger", "take")), _to, _few)),
    (1, st.tuples(st.just("move"), _to, st.sampled_from((100, 2000)))),
    (2, st.tuples(st.just("write"), _ids, st.sampled_from(("new", "n" * 400)))),
    (1, st.tuples(st.just("read"), _ids)),
    (1, st.sampled_from((("balance",), ("fail",)))),
)
_programs = st.lists(_steps, min_size=1, max_size=3).map(tuple)
_uses = st.sampled_from((("read", "write", "invoke", "delete", "transfer"), ("read", "invoke"), ("invoke",)))
_contracts = st.tuples(
    _uses, st.sampled_from((0, 15)), st.integers(0, 3), st.sampled_from((True, True, False))
).map(lambda each: Contract(*each))
_allowed = st.sampled_from((["*"], ["*"], ["b"], ["a", "c"], [], f"@{CONTRACT}", "@genesis_contract_public"))
_policies = st.fixed_dictionaries(
    {},
    optional={
        "read_price": st.integers(0, 6),
        "allow_read": _allowed,
        "allow_write": st.sampled_from(([], ["a", "b", "c"], f"@{CONTRACT}")),
        "allow_invoke": _allowed,
    },
)
_deciding = st.sampled_from((None, None, None, CONTRACT, "genesis_contract_private"))
_written = st.fixed_dictionaries(
    {"code": _programs, "price": st.integers(0, 6)},
    optional={
        "policy": _policies,
        "contract": _deciding,
        "depends_on": st.lists(_ids, max_size=1).map(tuple),
    },
)
_invoked = st.fixed_dictionaries(
    {"delegates": st.booleans(), "budget": st.sampled_from((None, None, None, 0, 5, 30))}
)


def _acting(
    kind: str, said: st.SearchStrategy[Mapping[str, Any]], name: st.SearchStrategy[str] = _ids
) -> Any:
    return st.tuples(_who, st.just(kind), name, said).map(lambda each: Act(*each))


_texts = st.fixed_dictionaries(
    {"content": st.sampled_from(("c", "c" * 1500))}, optional={"policy": _policies}
)
_ruling = st.fixed_dictionaries({"code": _contracts, "price": st.just(0)})
_writes = st.one_of(
    _acting("write", _written), _acting("write", _texts), _acting("write", _ruling, st.just(CONTRACT))
)
_changes = st.one_of(
    _acting("read", st.just({})),
    _acting("delete", st.just({})),
    _acting("transfer", st.fixed_dictionaries({"to": st.sampled_from((*WHO, "nobody"))})),
)
_invocations = st.tuples(
    _acting("invoke", _invoked), st.none() | st.none() | _writes | _acting("invoke", _invoked)
).map(lambda each: each[0]._replace(meanwhile=each[1]))
_beginning = st.tuples(
    *(
        st.tuples(st.just(who), st.just("write"), st.just(name), said).map(lambda each: Act(*each))
        for who, name, said in (
            ("c", CONTRACT, _ruling),
            ("a", "p", _written),
            ("b", "q", _written),
            ("c", "r", _written),
            ("b", "x", _texts),
        )
    )
)
"""Everybody has code to offer."""

_acts = st.tuples(
    _beginning,
    st.lists(mostly((6, _invocations), (2, _writes), (1, _changes)), min_size=6, max_size=14),
).map(lambda both: [*both[0], *both[1]])


def intended(act: Act) -> dict[str, JsonValue]:
    """The intent of an act."""
    intent: dict[str, JsonValue] = {"action_type": f"{act.kind}_artifact", "artifact_id": act.name}
    if act.kind == "invoke":
        intent |= {"method": "run", "delegate": act.said["delegates"]}
        if act.said["budget"] is not None:
            intent["budget"] = act.said["budget"]
    elif act.kind == "write":
        intent["content"] = act.said.get("content", "")
        if "code" in act.said:
            intent |= {"executable": True, "code": text_of(act.said["code"]), "price": act.said["price"]}
        for name, key in (("policy", "policy"), ("contract", "access_contract_id")):
            if name in act.said:
                intent[key] = act.said[name]
        intent["depends_on"] = list(act.said.get("depends_on", ()))
    elif act.kind == "transfer":
        intent["to"] = act.said["to"]
    return intent


def due(rules: Rules, act: Act) -> tuple[str | None, Any]:
    """What must come of an act: the code of its refusal, or what it returns."""
    try:
        return None, rules.act(act.who, lambda: getattr(rules, act.kind)(act.who, act.name, **act.said))
    except No as refused:
        return str(refused), None


class Player:
    """One history as it is played."""

    def __init__(self) -> None:
        self.exchange, self.rules = Exchange(RULES, cpu_s=CPU_S), Rules()
        for name in WHO:
            self.exchange.create(name, SCRIP, disk_quota=QUOTA)
            self.rules.create(name)

    def play(self, act: Act) -> None:
        """Play an act and hold it against the rules and the laws."""
        exchange, other = self.exchange, act.meanwhile
        if other is not None:
            exchange.meanwhile = [lambda: self.play(other)]
        owned = {name: each for name, each in exchange.artifacts.items() if each.owner_id == act.who}
        result = exchange.say(act.who, json.dumps(intended(act)))
        exchange.meanwhile = []
        said = f"{act} became {result}"
        code, came = due(self.rules, act)
        assert (result["success"], result.get("error_code")) == (code is None, code), said
        if code is not None:
            assert CODES[code] == (result["error_category"], result["retriable"])
        elif act.kind == "invoke":
            assert isinstance(result["data"], dict)
            assert result["data"]["result"] == came, said
        if act.kind == "invoke" and not act.said["delegates"] and other is None:
            root = exchange.artifacts.get(act.name)
            if root is not None and root.owner_id != act.who:
                now = {name: exchange.artifacts[name] for name in owned}
                assert now == owned, f"nothing is written that was not lent: {said}"
        self._compare(said)

    def _compare(self, said: str) -> None:
        exchange, rules = self.exchange, self.rules
        held = {who: amount for (who, what), amount in exchange.balances.items() if what == MONEY and amount}
        assert held.pop(MINT) == -SCRIP * len(WHO), "scrip changes only by minting"
        assert held == {who: amount for who, amount in rules.scrip.items() if amount}, said
        assert all(amount > 0 for amount in held.values())
        assert sum(held.values()) == SCRIP * len(WHO)
        things = {
            name: (each.owner_id, each.content, each.code, each.deleted_at is not None)
            for name, each in exchange.artifacts.items()
        }
        assert things == {
            name: (each.owner, each.content, "" if each.code is None else text_of(each.code), each.deleted)
            for name, each in rules.things.items()
        }, said
        for name, principal in exchange.principals.items():
            assert (principal.disk_used, principal.disk_quota) == (rules.used(name), rules.quota[name]), said


def played(acts: Acts) -> Player:
    player = Player()
    for each in acts:
        player.play(each)
        charged = sum(seconds for _, _, seconds in player.exchange.cpu)
        ran = len(player.exchange.asked)
        assert charged == CPU_S * ran, "the CPU time of each run is charged, and once"
    return player


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(_acts)
def test_call_trees_end_as_the_rules_say(acts: Acts) -> None:
    exchange = played(acts).exchange
    assert len(exchange.actions) >= len(acts), "one result for each intent"


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_a_thousand_histories_follow_the_rules_and_meet_all_kinds_of_ends() -> None:
    met: set[object] = set()
    reruns = 0

    @settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
    @given(_acts)
    def one(acts: Acts) -> None:
        nonlocal reruns
        exchange = played(acts).exchange
        assert len(exchange.actions) >= len(acts), "one result for each intent"
        met.update(each.error_code for each in exchange.actions)
        reruns += exchange.reruns

    one()
    assert met == {
        None,
        "not_found",
        "not_authorized",
        "insufficient_funds",
        "quota_exceeded",
        "invalid_argument",
        "invalid_type",
        "DELETED",
        "runtime_error",
    }
    assert reruns > 100, "others changed what a tree had read, so it was worked out again"


def _does(who: str, kind: str, name: str, meanwhile: Act | None = None, **said: Any) -> Act:
    return Act(who, kind, name, said, meanwhile)


_FREELY: Final[Mapping[str, Any]] = {"delegates": False, "budget": None}
ONE_WALLET: Final = [
    _does("a", "write", "q", code=(("take", "p", 5),), price=0),
    _does("a", "write", "p", code=(("pay", "b", 5),), price=0),
    _does("a", "invoke", "q", **_FREELY),
    _does("b", "invoke", "p", _does("c", "invoke", "p", **_FREELY), **_FREELY),
]
"""Two callers invoke at the same time what pays from its own wallet, which has enough for one of them."""

TAKING: Final = [
    _does("a", "write", "p", code=(("take", "a", 3), ("write", "mine", "a"), ("invoke", "q")), price=4),
    _does("a", "write", "q", code=(("pay", "a", 1), ("invoke", "r")), price=2),
    _does("a", "write", "r", code=(("take", "q", 2), ("fail",)), price=1),
    _does("c", "invoke", "p", **_FREELY),
    _does("c", "invoke", "p", delegates=True, budget=None),
]
"""Code that takes what it can, and whose innermost call fails."""


BUYING: Final = [
    _does("b", "write", "q", code=(("pay", "a", 1),), price=3),
    _does("b", "write", "x", content="c", policy={"read_price": 2}),
    _does("a", "write", "p", code=(("invoke", "q"), ("read", "x"), ("fail",)), price=4),
    _does("c", "invoke", "p", **_FREELY),
]
"""Code that buys, and then fails."""


FOREIGN: Final = [
    _does("a", "write", "q", code=(("take", "p", 5),), price=0),
    _does("a", "write", "p", code=(("balance",),), price=0, policy={"allow_write": ["c"]}),
    _does("a", "invoke", "q", **_FREELY),
    _does("c", "write", "p", code=(("pay", "c", 5), ("take", "c", 5)), price=0),
    _does("a", "invoke", "p", delegates=True, budget=None),
]
"""Code that somebody else wrote into the artifact of the one who invokes it."""


def test_two_callers_never_spend_one_wallet_twice() -> None:
    player = played(ONE_WALLET)
    assert player.exchange.scrip("p") == 0
    assert player.exchange.times == 4, "the later one was worked out again"


def unchecked(reading: Reading) -> Asking[bool]:
    yield from ()
    return True


def _play_both() -> None:
    for acts in (ONE_WALLET, TAKING, BUYING, FOREIGN):
        played(acts)


@pytest.mark.parametrize(
    ("of", "name", "broken"),
    [
        (Reading, "holds", unchecked),
        (invoke, "_may_take", lambda frame, whose: True),
        (invoke, "price", lambda artifact, use, who: 0),
        (Accounts, "attempt", lambda accounts, change: change),
        (Accounts, "buy", Accounts.pay),
        (SharedArtifact, "acts", True),
    ],
    ids=[
        "a check whether what was read has changed",
        "lending",
        "prices",
        "the way back",
        "what is bought",
        "who wrote the code",
    ],
)
def test_without_one_of_the_rules_a_history_fails(
    monkeypatch: pytest.MonkeyPatch, of: object, name: str, broken: object
) -> None:
    monkeypatch.setattr(of, name, broken)
    with pytest.raises(AssertionError):
        _play_both()
