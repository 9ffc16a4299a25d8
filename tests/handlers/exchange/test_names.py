"""Who has a name: principals and artifacts share one set of names, and nobody acts without standing."""

from typing import Any

import pytest
from tests.handlers.exchange.played import Exchange

from runward.config.json_value import JsonValue
from runward.handlers.model.exchange import PrincipalCreateRequested

NOOP = '{"action_type": "noop"}'


@pytest.fixture
def exchange() -> Exchange:
    """A writer, and a mallory who takes what she can."""
    made = Exchange()
    made.create("writer", 100)
    made.create("mallory", 10)
    return made


def why(result: dict[str, JsonValue]) -> tuple[JsonValue, JsonValue]:
    """The code of a refusal, and the reason in its details."""
    details = result.get("error_details")
    return result.get("error_code"), details.get("reason") if isinstance(details, dict) else None


def spawn(exchange: Exchange, who: str, name: str) -> dict[str, JsonValue]:
    return exchange.act(who, "invoke_artifact", "genesis_ledger", method="spawn_principal", args=[name])


def asked(exchange: Exchange, name: str, **further: Any) -> list[str]:
    """Why a person can't create this principal."""
    return exchange.request(PrincipalCreateRequested("r-new", 1.0, name, said_by="ann", **further))


TAKEN = ("invalid_argument", "taken")


def test_nobody_owns_the_wallet_of_a_principal_to_come(exchange: Exchange) -> None:
    assert exchange.act("mallory", "write_artifact", "alice", content="mine")["success"]
    assert asked(exchange, "alice") == ["the name alice is taken: an artifact of mallory has it"]
    assert asked(exchange, "Alice") == ["the name Alice is taken: alice has it"]
    assert why(exchange.line("alice", NOOP)) == TAKEN
    assert why(exchange.line("ALICE", NOOP)) == TAKEN
    assert why(spawn(exchange, "writer", "alice")) == TAKEN
    assert set(exchange.principals) == {"writer", "mallory"}
    exchange.act("mallory", "delete_artifact", "alice")
    assert why(exchange.line("alice", NOOP)) == TAKEN, "a tombstone keeps its name"


def test_no_artifact_takes_the_name_of_a_principal_or_of_another_artifact(exchange: Exchange) -> None:
    assert why(exchange.act("mallory", "write_artifact", "Writer")) == TAKEN
    assert why(exchange.act("writer", "write_artifact", "WRITER")) == TAKEN, (
        "its own name in other case neither"
    )
    exchange.act("writer", "write_artifact", "note")
    assert why(exchange.act("mallory", "write_artifact", "NOTE")) == TAKEN
    exchange.create("thinker")
    exchange.act("mallory", "write_artifact", "guard_memory")
    assert asked(exchange, "guard", has_memory=True) == [
        "the name guard_memory is taken: an artifact of mallory has it"
    ]
    assert "guard" not in exchange.principals


def test_an_owner_gives_standing_to_its_own_artifact_and_to_nobody_elses(exchange: Exchange) -> None:
    for name in ("one", "two", "three"):
        exchange.act("writer", "write_artifact", name, content="mine")
    assert spawn(exchange, "writer", "one")["success"]
    assert asked(exchange, "two", owner="mallory") != []
    assert asked(exchange, "two", owner="writer") == []
    assert why(exchange.act("mallory", "write_artifact", "three", has_standing=True))[0] == "not_authorized"
    assert exchange.act("writer", "write_artifact", "three", content="mine", has_standing=True)["success"]
    for name in ("one", "two", "three"):
        kept = exchange.artifacts[name]
        assert (kept.content, kept.owner_id, kept.stands) == ("mine", "writer", True)
        assert exchange.act(name, "noop")["success"]
    assert (exchange.principals["three"].disk_quota, exchange.principals["three"].cpu_seconds) == (0, 0.0)


def test_without_standing_nobody_acts_owns_or_is_paid(exchange: Exchange) -> None:
    spawn(exchange, "writer", "child")
    exchange.act("writer", "write_artifact", "note")
    exchange.act("writer", "write_artifact", "child", has_standing=False)
    assert why(exchange.act("child", "noop"))[0] == "not_authorized"
    assert why(exchange.line("child", NOOP))[0] == "not_authorized"
    assert why(exchange.act("writer", "transfer_artifact", "note", to="child"))[0] == "not_found"
    exchange.act("writer", "write_artifact", "child", has_standing=True)
    assert exchange.act("child", "noop")["success"]
    exchange.act("writer", "delete_artifact", "child")
    assert why(exchange.act("child", "noop"))[0] == "not_authorized"
    pay = exchange.act(
        "writer", "invoke_artifact", "genesis_ledger", method="transfer", args=["writer", "child", 1]
    )
    assert why(pay)[0] == "not_found"


def test_scrip_of_a_deleted_artifact_goes_to_its_owner(exchange: Exchange) -> None:
    exchange.act("writer", "write_artifact", "purse")
    exchange.act(
        "mallory", "invoke_artifact", "genesis_ledger", method="transfer", args=["mallory", "purse", 7]
    )
    assert exchange.act("writer", "delete_artifact", "purse")["success"]
    assert (exchange.scrip("purse"), exchange.scrip("writer"), exchange.scrip("mallory")) == (0, 107, 3)


MOST = 1 << 53


def test_prices_and_amounts_above_2_to_the_53_are_refused(exchange: Exchange) -> None:
    def refused(kind: str, name: str, **further: Any) -> bool:
        return why(exchange.act("writer", kind, name, **further))[0] == "invalid_argument"

    for amount, is_refused in ((MOST, False), (MOST + 1, True), (1 << 64, True)):
        assert refused("write_artifact", "note", policy={"read_price": amount}) == is_refused
        assert refused("write_artifact", "note", policy={"invoke_price": amount}) == is_refused
        assert refused("write_artifact", "note", price=amount) == is_refused
        pay: dict[str, Any] = {"method": "transfer", "args": ["writer", "mallory", amount]}
        assert refused("invoke_artifact", "genesis_ledger", **pay) == is_refused, "else there is too little"
    assert exchange.mint("writer", MOST + 1) != []
    assert exchange.mint("writer", MOST) != [], "nor is there more than that of anything"
    assert exchange.mint("writer", MOST - 110) == []


@pytest.mark.parametrize(
    ("name", "is_allowed"),
    [
        ("a", True),
        ("A.b_c:d/e-9", True),
        ("9" * 128, True),
        ("x" * 129, False),
        ("-a", False),
        ("a/", False),
        ("a b", False),
        ("é", False),
        ("\u212aelvin", False),
        ("Genesis_x", False),
        ("MINT", False),
        ("System", False),
    ],
)
def test_new_names_are_plain(exchange: Exchange, name: str, is_allowed: bool) -> None:
    assert exchange.act("writer", "write_artifact", name)["success"] == is_allowed
    other = f"{name}x" if is_allowed and len(name) < 128 else name
    if other != name or not is_allowed:
        assert (asked(exchange, other) == []) == is_allowed
        assert exchange.line(other, NOOP)["success"] == is_allowed


def test_names_of_older_versions_keep_working(exchange: Exchange) -> None:
    artifact, principal = exchange.artifacts["writer"], exchange.principals["writer"]
    for name in ("old name", "System"):
        exchange.artifacts[name] = artifact._replace(id=name, owner_id=name)
        exchange.principals[name] = principal._replace(id=name)
        assert exchange.act(name, "write_artifact", name, content="again")["success"]
        assert exchange.line(name, NOOP)["success"]
        assert exchange.act("mallory", "read_artifact", name)["success"]
