"""Contracts decide who may do what with an artifact: those of genesis by a table, all others by their code."""

import itertools

import pytest
from tests.handlers.exchange.played import Exchange

from runward.config.exchange import ExchangeRules
from runward.config.json_value import JsonValue
from runward.handlers.exchange.accounts import Accounts
from runward.handlers.exchange.contracts import ACTIONS, CONTRACT, Verdict, evaluated, read_verdict
from runward.handlers.model.exchange import SharedArtifact

OWNER, OTHER = "owner", "other"

ALLOWS: dict[str, tuple[str, str]] = {
    # contract: who may read, execute and invoke; who may write, delete and transfer; O owner, I itself, A anyone else
    "freeware": ("OIA", "O"),
    "self_owned": ("OI", "OI"),
    "private": ("O", "O"),
    "public": ("OIA", "OIA"),
}


@pytest.mark.parametrize(("name", "action"), [*itertools.product(ALLOWS, ACTIONS)])
def test_each_genesis_contract_allows_what_its_row_says(name: str, action: str) -> None:
    target = SharedArtifact("thing", "generic", "", OWNER, 1.0, 1.0)
    uses, changes = ALLOWS[name]
    allowed = uses if action in ("read", "execute", "invoke") else changes
    for letter, who in {"O": OWNER, "I": "thing", "A": OTHER}.items():
        asking = evaluated(Accounts("k", 1.0, "t"), f"{CONTRACT}{name}", who, action, target, None)
        with pytest.raises(StopIteration) as stopped:
            next(asking)
        verdict = stopped.value.value
        assert (verdict.allowed, verdict.cost, verdict.is_sound) == (letter in allowed, 0, True), (
            letter,
            verdict,
        )
        assert verdict.reason


def test_a_context_that_is_given_counts_for_genesis_contracts_too() -> None:
    target = SharedArtifact("thing", "generic", "", OWNER, 1.0, 1.0)
    allowed = []
    for context in ({"owner": OTHER, "artifact_id": "thing"}, {"owner": OWNER, "artifact_id": OTHER}, {}):
        asking = evaluated(
            Accounts("k", 1.0, "t"), f"{CONTRACT}self_owned", OTHER, "read", target, None, context
        )
        with pytest.raises(StopIteration) as stopped:
            next(asking)
        allowed.append(stopped.value.value.allowed)
    assert allowed == [True, True, False]


@pytest.fixture
def exchange() -> Exchange:
    exchange = Exchange(rules=ExchangeRules(use_contracts=True))
    for name, scrip in {OWNER: 0, OTHER: 100, "third": 0}.items():
        exchange.create(name, scrip)
    return exchange


def contract(
    exchange: Exchange, body: str, name: str = "gate", parameters: str = "caller, action, target, context"
) -> None:
    code = f"def check_permission({parameters}):\n    {body}"
    result = exchange.act("third", "write_artifact", name, executable=True, code=code, price=0)
    assert result["success"], result


def thing(exchange: Exchange, **further: JsonValue) -> None:
    result = exchange.act(
        OWNER, "write_artifact", "thing", content="x", **{"access_contract_id": "gate", **further}
    )
    assert result["success"], result


USES: dict[str, tuple[str, dict[str, JsonValue]]] = {
    "read": ("read_artifact", {}),
    "write": (
        "write_artifact",
        {"content": "y", "executable": True, "code": "def run(): return 1", "price": 0},
    ),
    "invoke": ("invoke_artifact", {"method": "run"}),
    "transfer": ("transfer_artifact", {"to": "third"}),
    "delete": ("delete_artifact", {}),
}


@pytest.mark.parametrize("use", USES)
def test_a_contract_decides_each_action_and_what_it_costs(exchange: Exchange, use: str) -> None:
    contract(
        exchange,
        f"return {{'allowed': caller == 'other' and action == '{use}', 'reason': 'so it is', 'cost': 3}}",
    )
    thing(exchange, executable=True, code="def run(): return 1", price=0)
    kind, further = USES[use]
    denied = exchange.act("third", kind, "thing", **further)
    assert (denied["success"], denied["error_code"]) == (False, "not_authorized")
    assert "so it is" in str(denied["message"])
    result = exchange.act(OTHER, kind, "thing", **further)
    assert result["success"], result
    assert (exchange.scrip(OTHER), exchange.scrip(OWNER)) == (97, 3)


def test_a_contract_is_told_its_caller_action_target_and_context(exchange: Exchange) -> None:
    contract(exchange, "raise KeyError([caller, action, target, context])")
    thing(exchange)
    told = str(exchange.act(OTHER, "read_artifact", "thing")["message"])
    now = 1000.0 + exchange.number
    context = {
        "owner": OWNER, "artifact_type": "generic", "artifact_id": "thing", "now": now, "depth": 0, "invoker": None,
    }  # fmt: skip
    assert str([OTHER, "read", "thing", context]) in told


def test_a_contract_knows_whose_code_asks(exchange: Exchange) -> None:
    contract(exchange, "return {'allowed': context['invoker'] == 'front' and context['depth'] == 1}")
    thing(exchange, executable=True, code="def run(): return 7", price=0)
    code = "def run(): return invoke('thing')['result']"
    assert exchange.act("third", "write_artifact", "front", executable=True, code=code, price=0)["success"]
    assert exchange.act(OTHER, "invoke_artifact", "thing", method="run")["error_code"] == "not_authorized"
    result = exchange.act(OTHER, "invoke_artifact", "front", method="run")
    assert result["data"] == {"result": 7, "price_paid": 0, "owner": "third"}


@pytest.mark.parametrize(
    "parameters", ["caller, action, target, context, ledger", "caller, action, target, context"]
)
def test_a_contract_looks_at_the_ledger(exchange: Exchange, parameters: str) -> None:
    contract(
        exchange,
        "return {'allowed': ledger.can_afford_scrip(caller, 50) and ledger.principal_exists(caller)"
        " and ledger.get_scrip(caller) == 100 and not ledger.can_spend_resource(caller, 'gold', 1)"
        " and ledger.get_resource(caller, 'gold') == 0 and sorted(ledger.get_all_resources(caller))"
        " == ['cpu_seconds', 'disk_bytes']}",
        parameters=parameters,
    )
    thing(exchange)
    assert exchange.act(OTHER, "read_artifact", "thing")["success"]
    assert exchange.act("third", "read_artifact", "thing")["error_code"] == "not_authorized"


def test_a_contract_only_looks(exchange: Exchange) -> None:
    contract(exchange, "return {'allowed': pay('third', 1)}")
    thing(exchange)
    result = exchange.act(OTHER, "read_artifact", "thing")
    assert (result["error_code"], "NameError" in str(result["message"])) == ("not_authorized", True)


UNSOUND: dict[str, str | None] = {
    "an error": "return 1 / 0",
    "no object": "return True",
    "no verdict": "return {'reason': 'well'}",
    "a verdict that is no boolean": "return {'allowed': 1}",
    "a missing contract": None,
}


@pytest.mark.parametrize("body", UNSOUND.values(), ids=UNSOUND)
def test_in_doubt_a_contract_denies_and_only_the_owner_can_correct_it(
    exchange: Exchange, body: str | None
) -> None:
    if body is not None:
        contract(exchange, body)
    thing(exchange, executable=True, code="def run(): return 1", price=0)
    for who, use in itertools.product((OTHER, OWNER), USES):
        kind, further = USES[use]
        if use == "delete" and who == OWNER:
            continue
        result = exchange.act(who, kind, "thing", **further)
        may = who == OWNER and use in ("write", "transfer")
        assert result["success"] is may, (who, use, result)
        if not may:
            assert result["error_code"] == "not_authorized"
    assert exchange.act("third", "delete_artifact", "thing")["success"], "it was transferred to the third"


def test_a_contract_that_says_no_binds_the_owner_too(exchange: Exchange) -> None:
    contract(exchange, "return {'allowed': False, 'reason': 'frozen'}")
    thing(exchange)
    for use in ("read", "write", "delete", "transfer"):
        kind, further = USES[use]
        assert exchange.act(OWNER, kind, "thing", **further)["error_code"] == "not_authorized"


def test_a_policy_may_refer_single_uses_to_a_contract(exchange: Exchange) -> None:
    contract(exchange, "return {'allowed': caller == 'other', 'cost': '2.9'}")
    thing(exchange, access_contract_id=None, policy={"allow_read": "@gate", "read_price": 5})
    assert exchange.act("third", "read_artifact", "thing")["error_code"] == "not_authorized"
    result = exchange.act(OTHER, "read_artifact", "thing")
    assert isinstance(result["data"], dict)
    assert result["data"]["read_price_paid"] == 7
    assert exchange.act(OTHER, "write_artifact", "thing")["error_code"] == "not_authorized"


@pytest.mark.parametrize(
    ("said", "cost"),
    [(3, 3), ("4", 4), ("4.7", 4), (2.9, 2), (-1, 0), ("much", 0), (None, 0), ([1], 0), (True, 0), (1e300, 0), ("nan", 0)],
)  # fmt: skip
def test_a_cost_is_a_whole_number_of_0_or_more(said: JsonValue, cost: int) -> None:
    assert read_verdict({"allowed": True, "cost": said}).cost == cost


@pytest.mark.parametrize("cost", ["2**53 + 1", "2**64", "-(-2**70)", "1e300", "'9' * 40", "float('inf')"])
@pytest.mark.parametrize("use", USES)
def test_a_contract_whose_cost_is_above_2_to_the_53_denies_and_takes_nothing(
    exchange: Exchange, use: str, cost: str
) -> None:
    contract(exchange, f"return {{'allowed': True, 'cost': {cost}}}")
    thing(exchange, executable=True, code="def run(): return 1", price=0)
    kind, further = USES[use]
    denied = exchange.act(OTHER, kind, "thing", **further)
    assert (denied["success"], denied["error_code"]) == (False, "not_authorized")
    assert "the contract's cost is above 2^53" in str(denied["message"])
    assert (exchange.scrip(OTHER), exchange.scrip(OWNER)) == (100, 0)


def test_a_contract_may_cost_2_to_the_53() -> None:
    assert read_verdict({"allowed": True, "cost": 1 << 53}) == Verdict(True, "No reason provided", 1 << 53)


def test_a_verdict_without_a_reason_has_a_default_one() -> None:
    assert read_verdict({"allowed": True}).reason == "No reason provided"
    assert read_verdict({"allowed": False, "reason": 7}).reason == "7"


def test_the_cpu_time_of_a_contract_is_the_callers(exchange: Exchange) -> None:
    contract(exchange, "return {'allowed': True}")
    thing(exchange)
    result = exchange.act(OTHER, "read_artifact", "thing")
    assert (result["resources_consumed"], result["charged_to"]) == ({"cpu_seconds": 0.5}, OTHER)
    assert exchange.cpu == [(OTHER, exchange.cpu[0][1], 0.5)]
    exchange.cpu_s = 5.0
    assert exchange.act(OTHER, "read_artifact", "thing")["success"]
    assert exchange.act(OTHER, "read_artifact", "thing")["error_code"] == "rate_limited"
