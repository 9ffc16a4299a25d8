"""Actions: the tables of the seed, row by row, on an exchange in memory."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.handlers.exchange.played import Ask, Exchange

from runward.config.exchange import ExchangeRules
from runward.config.intent import CODES
from runward.config.json_value import JsonValue
from runward.handlers.exchange.accounts import CodeRun, Ran
from runward.handlers.model.asking import NotYet

CODE = "def run(*args):\n    return 1\n"


@pytest.fixture
def exchange() -> Exchange:
    """A writer who is rich, and a reader who has ten scrip."""
    made = Exchange()
    made.create("writer", 100)
    made.create("reader", 10)
    return made


def code(result: dict[str, JsonValue]) -> JsonValue:
    return result.get("error_code")


def data(result: dict[str, JsonValue], key: str) -> JsonValue:
    found = result["data"]
    assert isinstance(found, dict), result
    return found[key]


def write(exchange: Exchange, name: str, who: str = "writer", **further: Any) -> None:
    result = exchange.act(who, "write_artifact", name, **further)
    assert result["success"], result


def test_what_was_written_is_read_by_others(exchange: Exchange) -> None:
    write(exchange, "note", content="hello")
    result = exchange.act("reader", "read_artifact", "note")
    artifact = data(result, "artifact")
    assert isinstance(artifact, dict)
    assert (artifact["content"], artifact["owner_id"], artifact["version"]) == ("hello", "writer", 1)
    assert data(result, "read_price_paid") == 0
    write(exchange, "note", content="again")
    assert data(exchange.act("reader", "read_artifact", "note"), "artifact")["version"] == 2  # type: ignore[index,call-overload] # an object


@pytest.mark.parametrize(
    ("policy", "read", "write", "invoke"),
    [
        (None, True, False, True),
        ({}, True, False, True),
        ({"allow_read": []}, False, False, True),
        ({"allow_read": ["reader"], "allow_write": ["reader"], "allow_invoke": ["reader"]}, True, True, True),
        ({"allow_read": ["other"], "allow_invoke": ["other"]}, False, False, False),
        ({"allow_read": "*", "allow_write": "*", "allow_invoke": "*"}, True, False, True),
        ({"allow_write": ["*"]}, True, False, True),
        ({"allow_read": 7, "allow_write": None, "allow_invoke": {}}, False, False, False),
    ],
)
def test_the_policy_says_who_may_do_what(
    exchange: Exchange, policy: JsonValue, read: bool, write: bool, invoke: bool
) -> None:
    said: dict[str, JsonValue] = {
        "content": "x",
        "policy": policy,
        "executable": True,
        "code": CODE,
        "price": 0,
    }
    assert exchange.act("writer", "write_artifact", "a", **said)["success"]
    allowed = {
        "read": exchange.act("reader", "read_artifact", "a"),
        "invoke": exchange.act("reader", "invoke_artifact", "a", method="run"),
        "write": exchange.act("reader", "write_artifact", "a", content="y"),
    }
    refused = {use: code(result) == "not_authorized" for use, result in allowed.items()}
    assert refused == {"read": not read, "invoke": not invoke, "write": not write}
    assert code(exchange.act("writer", "read_artifact", "a")) is None, "the owner always may"


@pytest.mark.parametrize("use", ["allow_read", "allow_invoke", "allow_write"])
def test_a_reference_to_a_contract_is_refused_while_contracts_are_off(exchange: Exchange, use: str) -> None:
    write(exchange, "a", content="x", policy={use: "@gate"}, executable=True, code=CODE, price=0)
    kind = {
        "allow_read": "read_artifact",
        "allow_invoke": "invoke_artifact",
        "allow_write": "write_artifact",
    }[use]
    further: dict[str, JsonValue] = {"method": "run"} if use == "allow_invoke" else {}
    assert code(exchange.act("reader", kind, "a", **further)) == "not_configured"
    own = code(exchange.act("writer", kind, "a", **further))
    assert own == (None if use == "allow_write" else "not_configured"), "the owner may still write"
    assert code(exchange.act("writer", "write_artifact", "b", access_contract_id="gate")) == "not_configured"


def test_a_read_is_paid_to_the_owner_and_fails_without_enough_scrip(exchange: Exchange) -> None:
    write(exchange, "paper", content="x", policy={"read_price": 4})
    assert data(exchange.act("reader", "read_artifact", "paper"), "read_price_paid") == 4
    assert (exchange.scrip("reader"), exchange.scrip("writer")) == (6, 104)
    assert data(exchange.act("writer", "read_artifact", "paper"), "read_price_paid") == 0
    exchange.act("reader", "read_artifact", "paper")
    poor = exchange.act("reader", "read_artifact", "paper")
    assert (code(poor), poor["retriable"], poor["error_category"]) == ("insufficient_funds", True, "resource")
    assert (exchange.scrip("reader"), poor["data"]) == (2, None)


def test_the_codes_have_the_categories_and_retriability_of_the_seed() -> None:
    table = {code: (kind.category, kind.retriable) for code, kind in CODES.items()}
    assert table == {
        "not_found": ("resource", False),
        "not_authorized": ("permission", False),
        "insufficient_funds": ("resource", True),
        "quota_exceeded": ("resource", True),
        "invalid_argument": ("validation", False),
        "invalid_type": ("validation", False),
        "timeout": ("execution", True),
        "runtime_error": ("execution", False),
        "DELETED": ("resource", False),
        "rate_limited": ("resource", True),
        "depth_exceeded": ("execution", False),
        "output_limit": ("execution", False),
        "killed": ("execution", False),
        "not_configured": ("system", False),
        "conflict": ("system", True),
        "internal_error": ("system", True),
    }


def test_what_is_refused_has_its_code(exchange: Exchange) -> None:
    write(exchange, "data", content="x")
    write(exchange, "code", executable=True, code=CODE, price=11)
    act = exchange.act
    assert code(act("reader", "read_artifact", "nothing")) == "not_found"
    assert code(act("writer", "write_artifact", "genesis_mine", content="x")) == "not_authorized"
    assert code(act("writer", "delete_artifact", "genesis_ledger")) == "not_authorized"
    assert code(act("writer", "transfer_artifact", "genesis_store", to="reader")) == "not_authorized"
    assert code(act("reader", "write_artifact", "data", content="y")) == "not_authorized"
    assert code(act("reader", "delete_artifact", "data")) == "not_authorized"
    assert code(act("reader", "transfer_artifact", "data", to="reader")) == "not_authorized"
    assert code(act("writer", "transfer_artifact", "data", to="nobody")) == "not_found"
    assert code(act("reader", "invoke_artifact", "data", method="run")) == "invalid_type"
    assert code(act("reader", "invoke_artifact", "nothing", method="run")) == "not_found"
    assert code(act("reader", "invoke_artifact", "genesis_ledger", method="steal")) == "not_found"
    assert code(act("reader", "invoke_artifact", "code", method="run", budget=5)) == "insufficient_funds"
    assert code(act("writer", "write_artifact", "b", policy={"read_price": -1})) == "invalid_argument"
    assert code(exchange.say("writer", "{}")) == "invalid_argument"
    assert code(exchange.say("nobody", '{"action_type":"noop"}')) == "not_found"


def service(exchange: Exchange, **further: Any) -> None:
    write(exchange, "service", executable=True, code=CODE, price=4, **further)


@pytest.mark.parametrize(
    ("code_text", "executable", "refused"),
    [
        ("def run(:", True, True),
        ("def run(:", False, True),
        ("x = 1", True, True),
        ("x = 1", False, False),
        ("def run(): return 1", True, False),
        ("def check_permission(c, a, t, x): return 1", True, False),
        (" ", False, False),
    ],
)
def test_code_that_is_written_must_compile_and_if_it_is_executable_define_its_function(
    exchange: Exchange, code_text: str, executable: bool, refused: bool
) -> None:
    result = exchange.act("writer", "write_artifact", "code", executable=executable, code=code_text, price=0)
    assert code(result) == ("invalid_argument" if refused else None)
    assert ("code" in exchange.artifacts) is not refused


def test_where_no_code_runs_it_is_not_checked_either(exchange: Exchange) -> None:
    exchange.unable = "no code runs: workers = 0"
    assert (
        code(exchange.act("writer", "write_artifact", "code", executable=True, code="def", price=0)) is None
    )
    invoked = exchange.act("reader", "invoke_artifact", "code", method="run")
    assert (code(invoked), invoked["message"]) == ("not_configured", "no code runs: workers = 0")
    assert exchange.cpu == []


def ran(code: str | None) -> Callable[[CodeRun, Ask], Ran]:
    return lambda asked, ask: Ran(code, 7, None if code is None else "because")


def test_code_is_paid_for_when_it_succeeded_and_its_cpu_time_is_charged_in_any_case(
    exchange: Exchange,
) -> None:
    service(exchange)
    exchange.run = ran(None)
    result = exchange.act("reader", "invoke_artifact", "service", method="run", args=[1, "b"])
    assert result["data"] == {"result": 7, "price_paid": 4, "owner": "writer"}
    assert (result["resources_consumed"], result["charged_to"]) == (
        {"cpu_seconds": 0.5, "scrip": 4},
        "reader",
    )
    assert (exchange.scrip("reader"), exchange.scrip("writer")) == (6, 104)
    assert (exchange.asked[-1].args, exchange.asked[-1].frame.caller) == ((1, "b"), "reader")  # type: ignore[union-attr]
    exchange.run = ran("runtime_error")
    failed = exchange.act("reader", "invoke_artifact", "service", method="run")
    assert (code(failed), failed["message"]) == ("runtime_error", "because")
    assert (failed["resources_consumed"], failed["charged_to"]) == ({"cpu_seconds": 0.5}, "reader")
    assert (exchange.scrip("reader"), len(exchange.cpu)) == (6, 2)


def test_code_is_not_run_for_who_could_not_pay_and_an_action_waits_for_what_runs(exchange: Exchange) -> None:
    service(exchange)
    exchange.create("poor", 3)
    assert code(exchange.act("poor", "invoke_artifact", "service", method="run")) == "insufficient_funds"
    assert exchange.asked == []
    exchange.is_running = True
    with pytest.raises(NotYet) as waiting:
        exchange.act("reader", "invoke_artifact", "service", method="run")
    assert waiting.value.until == pytest.approx(1000.0 + exchange.number + 0.5)
    assert exchange.scrip("reader") == 10


@pytest.mark.parametrize(
    ("kind", "name", "further", "expected"),
    [
        ("read", "nothing", {}, ("not_found", "resource", False)),
        ("read", "secret", {}, ("not_authorized", "permission", False)),
        ("read", "dear", {}, ("insufficient_funds", "resource", True)),
        ("write", "genesis_mine", {}, ("not_authorized", "permission", False)),
        ("write", "secret", {}, ("not_authorized", "permission", False)),
        ("write", "big", {"content": "x" * 101}, ("quota_exceeded", "resource", True)),
        ("write", "bad", {"executable": True, "price": 0}, ("invalid_argument", "validation", False)),
        ("invoke", "nothing", {}, ("not_found", "resource", False)),
        ("invoke", "service", {"method": "other"}, ("not_found", "resource", False)),
        ("invoke", "dear", {}, ("invalid_type", "validation", False)),
        ("invoke", "secret", {}, ("not_authorized", "permission", False)),
        ("invoke", "dear_code", {}, ("insufficient_funds", "resource", True)),
        ("invoke", "slow", {}, ("timeout", "execution", True)),
        ("invoke", "service", {}, ("runtime_error", "execution", False)),
    ],
)
def test_each_row_of_the_seeds_table_of_errors(
    exchange: Exchange, kind: str, name: str, further: dict[str, JsonValue], expected: tuple[object, ...]
) -> None:
    code: dict[str, Any] = {"executable": True, "code": CODE}
    write(exchange, "secret", policy={"allow_read": [], "allow_invoke": []}, price=0, **code)
    write(exchange, "dear", policy={"read_price": 11})
    write(exchange, "dear_code", price=11, **code)
    write(exchange, "slow", price=0, **code)
    write(exchange, "service", price=0, **code)
    exchange.create("small", 10, disk_quota=100)
    exchange.run = ran("timeout" if name == "slow" else "runtime_error")
    said = {"method": "run", **further} if kind == "invoke" else further
    result = exchange.act("small", f"{kind}_artifact", name, **said)
    assert (result["error_code"], result["error_category"], result["retriable"]) == expected


def test_a_principal_runs_code_only_within_its_window(exchange: Exchange) -> None:
    service(exchange, policy={"invoke_price": 0})
    exchange.create("busy", cpu_seconds=1.0)
    exchange.run, exchange.cpu_s = ran(None), 0.7
    assert exchange.act("busy", "invoke_artifact", "service", method="run")["success"]
    assert exchange.asked[-1].cpu_s == 1.0
    assert exchange.act("busy", "invoke_artifact", "service", method="run")["success"]
    assert exchange.asked[-1].cpu_s == pytest.approx(0.3)
    limited = exchange.act("busy", "invoke_artifact", "service", method="run")
    assert (code(limited), limited["retriable"]) == ("rate_limited", True)
    details = limited["error_details"]
    assert isinstance(details, dict)
    assert details["available_in_s"] == pytest.approx(58.0)
    exchange.number += 60
    assert exchange.act("busy", "invoke_artifact", "service", method="run")["success"]
    exchange.run, exchange.cpu_s = ran("rate_limited"), 0.4
    assert code(exchange.act("busy", "invoke_artifact", "service", method="run")) == "rate_limited"
    exchange.create("unlimited", is_cpu_unlimited=True)
    exchange.act("unlimited", "invoke_artifact", "service", method="run")
    assert exchange.asked[-1].cpu_s is None


def test_a_method_is_called_only_if_the_interface_lists_it(exchange: Exchange) -> None:
    service(exchange, interface={"methods": [{"name": "add"}, "mul", 7]})
    exchange.run = ran(None)
    for method, why in {"run": None, "add": None, "mul": None, "sub": "not_found"}.items():
        result = exchange.act("writer", "invoke_artifact", "service", method=method)
        assert code(result) == why, method
    assert [each.function for each in exchange.asked] == ["run", "add", "mul"]


def test_only_the_owner_changes_what_a_write_may_keep(exchange: Exchange) -> None:
    write(exchange, "wiki", content="x", policy={"allow_write": ["reader"]}, interface={"description": "d"})
    write(exchange, "wiki", who="reader", content="y")
    assert exchange.artifacts["wiki"].policy == {"allow_write": ["reader"]}
    assert exchange.artifacts["wiki"].interface == {"description": "d"}
    assert exchange.artifacts["wiki"].owner_id == "writer"
    assert code(exchange.act("reader", "write_artifact", "wiki", policy=None)) == "not_authorized"
    write(exchange, "wiki", content="z", policy=None)
    assert exchange.artifacts["wiki"].policy != {"allow_write": ["reader"]}
    assert code(exchange.act("reader", "write_artifact", "wiki")) == "not_authorized"


def test_a_deleted_artifact_leaves_a_tombstone_that_everyone_may_read(exchange: Exchange) -> None:
    write(exchange, "note", content="hello", policy={"allow_read": [], "read_price": 5})
    used = exchange.principals["writer"].disk_used
    assert exchange.act("writer", "delete_artifact", "note")["success"]
    result = exchange.act("reader", "read_artifact", "note")
    stone = data(result, "artifact")
    assert isinstance(stone, dict)
    assert set(stone) == {"id", "owner_id", "deleted", "deleted_at", "deleted_by"}
    assert (stone["deleted"], stone["deleted_by"], data(result, "read_price_paid")) == (True, "writer", 0)
    for kind, further in {
        "write_artifact": {},
        "invoke_artifact": {"method": "run"},
        "delete_artifact": {},
        "transfer_artifact": {"to": "reader"},
    }.items():
        assert code(exchange.act("writer", kind, "note", **further)) == "DELETED", kind
    assert exchange.principals["writer"].disk_used == used, "it still counts"


def test_dependencies_are_checked_in_their_order(exchange: Exchange) -> None:
    exchange.rules = ExchangeRules(dependency_depth=3)

    def refused(name: str, *needs: str) -> JsonValue:
        result = exchange.act("writer", "write_artifact", name, depends_on=list(needs))
        details = result.get("error_details")
        return (
            None
            if result["success"]
            else details["reason"]
            if isinstance(details, dict)
            else result["error_code"]
        )

    assert refused("a", "a", "nothing") == "cycle"
    assert refused("a", "nothing") == "missing"
    assert refused("a", "genesis_ledger") is None
    assert refused("a") is None
    assert refused("b", "a") is None
    assert refused("a", "b") == "cycle"
    assert refused("c", "b") is None, "three deep is allowed"
    assert refused("d", "c") == "depth"
    assert refused("a", "c") == "cycle"
    assert exchange.act("writer", "delete_artifact", "a")["success"]
    assert refused("e", "a") == "missing"
    broken = data(exchange.act("reader", "read_artifact", "b"), "artifact")
    assert isinstance(broken, dict)
    assert broken["broken_dependencies"] == ["a"]


def test_by_default_ten_artifacts_may_depend_on_one_another(exchange: Exchange) -> None:
    for number in range(10):
        write(exchange, f"a{number}", depends_on=[f"a{number - 1}"] if number else [])
    deeper = exchange.act("writer", "write_artifact", "a10", depends_on=["a9"])
    assert (code(deeper), deeper["error_details"]) == ("invalid_argument", {"reason": "depth"})


def test_a_broken_dependency_keeps_an_artifact_from_being_invoked(exchange: Exchange) -> None:
    write(exchange, "helper", executable=True, code=CODE, price=0)
    write(exchange, "service", executable=True, code=CODE, price=0, depends_on=["helper"])
    exchange.act("writer", "delete_artifact", "helper")
    result = exchange.act("reader", "invoke_artifact", "service", method="run")
    assert (code(result), result["message"]) == ("not_found", "Dependency 'helper' not found or deleted")


def test_a_quota_holds_for_content_and_code_in_bytes(exchange: Exchange) -> None:
    exchange.create("small", disk_quota=10)
    write(exchange, "a", who="small", content="äöü", code="1234")
    full = exchange.act("small", "write_artifact", "a", content="äöü", code="12345")
    assert (code(full), full["retriable"]) == ("quota_exceeded", True)
    write(exchange, "a", who="small", content="")
    assert exchange.principals["small"].disk_used == 0
    write(exchange, "big", content="x" * 11)
    assert exchange.act("writer", "transfer_artifact", "big", to="small")["success"]
    assert code(exchange.act("small", "write_artifact", "big", content="x" * 11)) == "quota_exceeded"


def test_a_gift_uses_the_quota_of_its_giver_until_the_receiver_writes_it(exchange: Exchange) -> None:
    def used() -> list[int]:
        return [exchange.principals[name].disk_used for name in ("writer", "reader", "third")]

    exchange.create("third")
    write(exchange, "note", content="12345", policy={"allow_write": ["writer"]})
    assert exchange.act("writer", "transfer_artifact", "note", to="reader")["success"]
    assert used() == [5, 0, 0]
    write(exchange, "note", content="1234567")
    assert used() == [7, 0, 0], "it grows at the giver's cost"
    exchange.act("reader", "transfer_artifact", "note", to="third")
    assert used() == [7, 0, 0], "who passes it on has not asked for it either"
    write(exchange, "note", who="third", content="mine")
    assert used() == [0, 0, 4]
    exchange.act("third", "transfer_artifact", "note", to="writer")
    exchange.act("writer", "transfer_artifact", "note", to="third")
    assert used() == [0, 0, 4], "it came back"
    write(exchange, "gift", content="1")
    exchange.act("writer", "transfer_artifact", "gift", to="reader")
    exchange.act("reader", "delete_artifact", "gift")
    assert used() == [1, 0, 4], "a tombstone counts for its giver, too"


def spawn(exchange: Exchange, who: str, name: str) -> None:
    assert exchange.act(who, "invoke_artifact", "genesis_ledger", method="spawn_principal", args=[name])[
        "success"
    ]


MOVE = "def run(*said): return kernel_actions.transfer_resource(caller_id, *said)"


def moved(exchange: Exchange, who: str, to: str, name: str, amount: float) -> JsonValue:
    """Whether it could give so much of a resource away."""
    if f"{who}/mover" not in exchange.artifacts:
        write(exchange, f"{who}/mover", who=who, executable=True, code=MOVE, price=0)
    said = exchange.act(who, "invoke_artifact", f"{who}/mover", method="run", args=[to, name, amount])
    return data(said, "result")


def test_agents_mint_no_quotas_by_spawning_principals(exchange: Exchange) -> None:
    exchange.cpu_s = 0.01
    spawn(exchange, "writer", "child")
    child = exchange.principals["child"]
    assert (child.disk_quota, child.cpu_seconds) == (0, 0.0)
    assert code(exchange.act("child", "write_artifact", "x", content="y")) == "quota_exceeded"
    assert moved(exchange, "writer", "child", "disk_bytes", 1) is False, "what the settings gave stays"
    assert moved(exchange, "writer", "child", "cpu_seconds", 0.1) is False
    exchange.create("rich", cpu_seconds=2.0, disk_quota=1000)
    assert moved(exchange, "rich", "child", "disk_bytes", 10) is True, (
        "what a person named is its own to give"
    )
    assert moved(exchange, "rich", "child", "cpu_seconds", 1.5) is True
    write(exchange, "x", who="child", content="y")
    child = exchange.principals["child"]
    assert (child.disk_quota, child.cpu_seconds) == (10, 1.5)


@pytest.mark.parametrize("was_there", [False, True])
def test_only_a_run_that_a_launcher_started_brings_its_agent_the_defaults_and_once(
    exchange: Exchange, was_there: bool
) -> None:
    rules = ExchangeRules()
    if was_there:
        assert exchange.line("newcomer", '{"action_type":"noop"}')["success"]
        assert (exchange.principals["newcomer"].disk_quota, exchange.principals["newcomer"].cpu_seconds) == (
            0,
            0.0,
        )
    for _ in range(2):
        assert exchange.line("newcomer", '{"action_type":"noop"}', launched=True)["success"]
        newcomer = exchange.principals["newcomer"]
        assert (newcomer.disk_quota, newcomer.cpu_seconds) == (rules.disk_quota, rules.cpu_seconds)
    assert moved(exchange, "newcomer", "reader", "disk_bytes", 1) is False
    spawn(exchange, "writer", "child")
    assert exchange.line("child", '{"action_type":"noop"}', launched=True)["success"]
    assert exchange.principals["child"].disk_quota == 0, "it has what its spawner gives it"


def test_the_ledger_pays_only_with_what_belongs_to_the_caller(exchange: Exchange) -> None:
    def pay(who: str, *args: JsonValue) -> dict[str, JsonValue]:
        return exchange.act(who, "invoke_artifact", "genesis_ledger", method="transfer", args=list(args))

    assert pay("reader", "reader", "writer", 3)["success"]
    assert (exchange.scrip("reader"), exchange.scrip("writer")) == (7, 103)
    for args, why in {
        ("writer", "reader", 1): "not_authorized",
        ("reader", "nobody", 1): "not_found",
        ("reader", "writer", 8): "insufficient_funds",
        ("reader", "writer", 0): "invalid_argument",
        ("reader", "writer", -1): "invalid_argument",
        ("reader", "writer", True): "invalid_argument",
        ("reader", "writer"): "invalid_argument",
    }.items():
        assert code(pay("reader", *args)) == why, args
    assert exchange.scrip("reader") == 7
    balance = exchange.act("reader", "invoke_artifact", "genesis_ledger", method="balance", args=["writer"])
    assert data(balance, "result") == {"id": "writer", "scrip": 103}
    assert pay("reader", "reader", "reader", 7)["success"], "to itself"
    assert exchange.scrip("reader") == 7


def test_the_store_shows_what_there_is_and_never_its_content(exchange: Exchange) -> None:
    write(exchange, "note", content="secret", artifact_type="memo", policy={"allow_read": []})

    def ask(method: str, *args: JsonValue) -> JsonValue:
        return data(
            exchange.act("reader", "invoke_artifact", "genesis_store", method=method, args=list(args)),
            "result",
        )

    assert "secret" not in str([ask("list"), ask("get", "note"), ask("search", "not")])
    assert [each["size"] for each in ask("search", "note")] == [6]  # type: ignore[union-attr,index,call-overload] # a list
    assert [each["id"] for each in ask("list_by_type", "memo")] == ["note"]  # type: ignore[union-attr,index,call-overload] # a list
    assert [each["id"] for each in ask("list_by_owner", "reader")] == ["reader"]  # type: ignore[union-attr,index,call-overload] # a list
    assert ask("list_principals") == ["reader", "writer"]
    assert ask("list_agents") == []
    assert ask("count") == 3


def test_a_principal_spawns_another_without_scrip(exchange: Exchange) -> None:
    spawn = exchange.act(
        "writer", "invoke_artifact", "genesis_ledger", method="spawn_principal", args=["child"]
    )
    assert data(spawn, "result") == {"id": "child"}
    assert exchange.scrip("child") == 0
    assert exchange.artifacts["child"].owner_id == "writer"
    again = exchange.act(
        "writer", "invoke_artifact", "genesis_ledger", method="spawn_principal", args=["child"]
    )
    assert code(again) == "invalid_argument"
    named = exchange.act("writer", "invoke_artifact", "genesis_ledger", method="spawn_principal")
    assert str(data(named, "result")).startswith("{'id': 'principal_")


def test_an_agent_becomes_a_principal_with_its_first_intent(exchange: Exchange) -> None:
    assert exchange.line("newcomer", '{"action_type":"noop"}')["success"]
    assert exchange.artifacts["newcomer"].has_standing
    refused = exchange.line("other", '{"action_type":"read_artifact","artifact_id":"nothing"}')
    assert code(refused) == "not_found"
    assert "other" in exchange.principals, "it is one, although the action failed"


@pytest.mark.parametrize(
    ("agent", "text", "owner", "why"),
    [
        (None, '{"action_type":"noop"}', None, "not_authorized"),
        ("writer", '{"action_type":"noop","principal_id":"reader"}', None, "not_authorized"),
        ("writer", '{"action_type":"noop","principal_id":"writer"}', None, None),
        ("writer", '{"action_type":"noop"}', "mallory", "not_authorized"),
        ("shared", '{"action_type":"noop"}', "bob", None),
        ("shared", '{"action_type":"noop"}', "mallory", "not_authorized"),
        ("newcomer", '{"action_type":"noop"}', "mallory", "not_authorized"),
        ("x" * 129, '{"action_type":"noop"}', None, "invalid_argument"),
        ("a\nb", '{"action_type":"noop"}', None, "invalid_argument"),
        ("genesis_ledger", '{"action_type":"noop"}', None, "invalid_argument"),
        ("system", '{"action_type":"noop"}', None, "invalid_argument"),
        ("mint", '{"action_type":"noop"}', None, "invalid_argument"),
    ],
)
def test_the_daemon_decides_who_a_run_acts_as(
    exchange: Exchange, agent: str | None, text: str, owner: str | None, why: str | None
) -> None:
    exchange.create("shared", users=("bob",))
    before = set(exchange.principals)
    assert code(exchange.line(agent, text, owner)) == why
    assert set(exchange.principals) == before, "nobody new"


def test_a_line_that_can_not_be_read_gets_its_result(exchange: Exchange) -> None:
    result = exchange.line("writer", "", complaint="the line is not UTF-8 (byte 3)")
    assert (code(result), result["message"]) == ("invalid_argument", "the line is not UTF-8 (byte 3)")


def test_the_artifact_of_a_principal_is_written_by_nobody_else(exchange: Exchange) -> None:
    assert code(exchange.act("reader", "write_artifact", "writer", content="x")) == "not_authorized"
    write(exchange, "writer", content="about me")


def test_only_people_mint_and_take_back_no_more_than_there_is(exchange: Exchange) -> None:
    assert exchange.mint("reader", 5) == []
    assert exchange.scrip("reader") == 15
    assert exchange.mint("reader", -15) == []
    assert exchange.mint("reader", -1) != []
    assert exchange.mint("nobody", 1) == ["there is no principal nobody"]
    assert sum(exchange.balances.values()) == 0


def test_an_agent_with_a_memory_has_the_artifacts_of_the_seeds_factories(exchange: Exchange) -> None:
    exchange.create("thinker", is_agent=True, has_memory=True, config="be kind")
    agent, memory = exchange.artifacts["thinker"], exchange.artifacts["thinker_memory"]
    assert (agent.content, agent.has_standing, agent.can_execute) == ("be kind", True, True)
    assert (agent.memory_artifact_id, memory.owner_id, memory.type) == ("thinker_memory", "thinker", "memory")
    assert code(exchange.act("reader", "read_artifact", "thinker_memory")) == "not_authorized"
