"""Random intents of several principals, against what must hold in every exchange."""

import json
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.handlers.exchange.played import Exchange

from runward.config.json_value import JsonValue
from runward.handlers.exchange.action_result import CODES
from runward.handlers.exchange.facts import MINT, SCRIP, SharedArtifact
from runward.handlers.exchange.policy import policy_of

WHO: Final = ("a", "b", "c")
IDS: Final = ("x", "y", "z", "a", "b", "genesis_ledger", "genesis_store")

_policies = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "read_price": st.integers(0, 6),
        "allow_read": st.sampled_from([["*"], [], ["b"], "@x", 7]),
        "allow_write": st.sampled_from([["*"], [], ["b", "c"]]),
        "allow_invoke": st.sampled_from([["*"], [], ["c"]]),
    },
)
_writes = st.fixed_dictionaries(
    {"action_type": st.just("write_artifact"), "artifact_id": st.sampled_from(IDS)},
    optional={
        "content": st.text(max_size=12),
        "policy": _policies,
        "depends_on": st.lists(st.sampled_from(IDS), max_size=2),
        "executable": st.booleans(),
        "code": st.sampled_from(["", "def run(): pass"]),
        "price": st.integers(-1, 5),
    },
)
_uses = st.fixed_dictionaries(
    {
        "action_type": st.sampled_from(["read_artifact", "delete_artifact", "noop", "fly"]),
        "artifact_id": st.sampled_from(IDS),
    }
)
_gifts = st.fixed_dictionaries(
    {
        "action_type": st.just("transfer_artifact"),
        "artifact_id": st.sampled_from(IDS),
        "to": st.sampled_from((*WHO, "nobody")),
    }
)
_payments = st.fixed_dictionaries(
    {
        "action_type": st.just("invoke_artifact"),
        "artifact_id": st.just("genesis_ledger"),
        "method": st.just("transfer"),
        "args": st.tuples(st.sampled_from(WHO), st.sampled_from(WHO), st.integers(-1, 12)).map(list),
    }
)
_acts = st.tuples(st.sampled_from(WHO), st.one_of(_writes, _uses, _gifts, _payments))


def check_laws(exchange: Exchange, minted: int) -> None:
    """What holds after every action."""
    assert exchange.balances[MINT, SCRIP] == -minted, "only minting makes scrip"
    assert sum(exchange.balances.values()) == 0
    assert all(amount >= 0 for (who, _), amount in exchange.balances.items() if who != MINT)
    for name, principal in exchange.principals.items():
        owned = [each for each in exchange.artifacts.values() if each.owner_id == name]
        assert principal.disk_used == sum(each.size for each in owned) <= principal.disk_quota


def played(acts: list[tuple[str, dict[str, JsonValue]]]) -> None:
    exchange = Exchange()
    for name in WHO:
        exchange.create(name, 10, disk_quota=40)
    for number, (who, intent) in enumerate(acts, 1):
        before, artifacts = dict(exchange.balances), dict(exchange.artifacts)
        result = exchange.say(who, json.dumps(intent))
        assert len(exchange.actions) == number, "one result for each intent"
        check_laws(exchange, 30)
        if not result["success"]:
            assert result["error_code"] in CODES
            assert (dict(exchange.balances), exchange.artifacts) == (before, artifacts), "it changed nothing"
            continue
        target = artifacts.get(str(intent.get("artifact_id")))
        check_right(exchange, who, intent, target, before)


def check_right(
    exchange: Exchange,
    who: str,
    intent: dict[str, JsonValue],
    target: SharedArtifact | None,
    before: dict[tuple[str, str], int],
) -> None:
    """Who succeeded had the right to, and paid."""
    kind = intent["action_type"]
    if target is None or target.deleted_at is not None:
        assert kind not in ("delete_artifact", "transfer_artifact")
        return
    policy, is_owner = policy_of(target), target.owner_id == who
    if kind == "read_artifact":
        allowed = policy["allow_read"]
        assert is_owner or (isinstance(allowed, list) and (who in allowed or "*" in allowed))
        paid = before.get((who, SCRIP), 0) - exchange.scrip(who)
        assert paid == (0 if is_owner else policy["read_price"]), "no unpaid read"
    elif kind == "write_artifact":
        allowed = policy["allow_write"]
        assert is_owner or (isinstance(allowed, list) and who in allowed), "no write without the right to it"
    elif kind in ("delete_artifact", "transfer_artifact"):
        assert is_owner
    elif kind == "invoke_artifact":
        args = intent["args"]
        assert isinstance(args, list)
        assert args[0] == who, "nobody pays with what belongs to another"


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_acts, max_size=25))
def test_nothing_is_taken_made_or_written_without_the_right_to_it(
    acts: list[tuple[str, dict[str, JsonValue]]],
) -> None:
    played(acts)


@pytest.mark.prove
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_acts, min_size=10, max_size=50))
def test_so_it_is_in_a_thousand_longer_histories(acts: list[tuple[str, dict[str, JsonValue]]]) -> None:
    played(acts)
