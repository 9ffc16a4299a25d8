"""Code that invokes, pays, reads and writes: who pays, what is rolled back, and on whose behalf it acts."""

from collections.abc import Callable

import pytest
from tests.handlers.exchange.played import Exchange

from runward.config.exchange import ExchangeRules
from runward.config.json_value import JsonValue
from runward.handlers.exchange.reading import MOST_READ, CodeRan, ReadTooMuch
from runward.handlers.model.exchange import Post


@pytest.fixture
def exchange() -> Exchange:
    """A caller with 100 scrip, and two who write code."""
    exchange = Exchange()
    for name, scrip in {"caller": 100, "author": 0, "other": 0}.items():
        exchange.create(name, scrip, cpu_seconds=5.0, disk_quota=100 << 20)
    return exchange


def offer(exchange: Exchange, name: str, code: str, owner: str = "author", **further: JsonValue) -> None:
    result = exchange.act(
        owner, "write_artifact", name, executable=True, code=code, **{"price": 0, **further}
    )
    assert result["success"], result


def call(
    exchange: Exchange, name: str, *args: JsonValue, who: str = "caller", **further: JsonValue
) -> JsonValue:
    """What an invocation that succeeds returns."""
    result = exchange.act(who, "invoke_artifact", name, method="run", args=list(args), **further)
    assert result["success"], result
    assert isinstance(result["data"], dict)
    return result["data"]["result"]


def failing(exchange: Exchange, name: str, **further: JsonValue) -> tuple[object, object]:
    result = exchange.act("caller", "invoke_artifact", name, method="run", **further)
    assert not result["success"], result
    return result["error_code"], result["message"]


def test_one_caller_pays_for_everything_below(exchange: Exchange) -> None:
    offer(exchange, "leaf", "def run(n): return n + 1", owner="other", price=5)
    offer(
        exchange,
        "root",
        "def run(n):\n    said = invoke('leaf', n)\n    return [said, get_balance()]",
        price=7,
    )
    assert call(exchange, "root", 1) == [
        {"success": True, "result": 2, "error": None, "error_code": None, "price_paid": 5},
        0,
    ]
    assert [exchange.scrip(each) for each in ("caller", "author", "other")] == [88, 7, 5]
    assert exchange.cpu == [("caller", exchange.cpu[0][1], 1.0)]


def test_a_dependency_is_invoked_like_any_other(exchange: Exchange) -> None:
    offer(exchange, "leaf", "def run(n): return n + 1", price=5)
    code = "def run(n): return context.dependencies['leaf'].invoke(n)['result']"
    offer(exchange, "root", code, owner="other", depends_on=["leaf"])
    assert call(exchange, "root", 1) == 2
    assert exchange.scrip("author") == 5


def test_a_nested_call_that_fails_costs_only_cpu_time_and_what_it_was_given_itself(
    exchange: Exchange,
) -> None:
    offer(
        exchange,
        "leaf",
        "def run():\n    pay('other', 3)\n    invoke('deep')\n    raise KeyError('x')",
        price=5,
    )
    offer(exchange, "deep", "def run(): return 1", price=2)
    offer(exchange, "root", "def run(): return invoke('leaf')", owner="other", price=7)
    give(exchange, "leaf", 10)
    before = exchange.scrip("caller")
    assert call(exchange, "root") == {
        "success": False,
        "result": None,
        "error": "KeyError: 'x'",
        "error_code": "runtime_error",
        "price_paid": 0,
    }
    assert before - exchange.scrip("caller") == 9
    assert (exchange.scrip("leaf"), exchange.scrip("other"), exchange.scrip("author")) == (10, 7, 2)
    assert exchange.cpu[-1][2] == 1.5


def test_if_the_outermost_call_fails_only_what_was_delivered_is_paid(exchange: Exchange) -> None:
    exchange.act("other", "write_artifact", "news", content="rain", policy={"read_price": 4})
    offer(exchange, "leaf", "def run(to):\n    pay(to, 3)\n    return 1", price=5)
    write = "    kernel_actions.write_artifact(caller_id, 'new', 'text')\n"
    code = f"def run():\n    assert invoke('leaf', 'other')['success']\n{write}"
    code += "    raise KeyError(kernel_state.read_artifact('news', caller_id))"
    offer(exchange, "root", code, owner="other", price=7)
    give(exchange, "leaf", 10)
    before = exchange.scrip("caller")
    result = exchange.act("caller", "invoke_artifact", "root", method="run", delegate=True)
    assert (result["error_code"], "rain" in str(result["message"])) == ("runtime_error", True)
    assert result["resources_consumed"] == {"cpu_seconds": 1.0, "scrip": 9}
    assert (before - exchange.scrip("caller"), exchange.actions[-1].scrip_after) == (9, before - 9)
    assert [exchange.scrip(each) for each in ("author", "other", "leaf")] == [5, 4, 10]
    assert "new" not in exchange.artifacts


def test_an_artifact_pays_from_its_own_wallet_for_what_it_read_before_it_failed(exchange: Exchange) -> None:
    exchange.act("other", "write_artifact", "news", content="rain", policy={"read_price": 4})
    offer(exchange, "reader", "def run(): raise KeyError(kernel_state.read_artifact('news', 'reader'))")
    give(exchange, "reader", 5)
    assert "rain" in str(failing(exchange, "reader")[1])
    assert (exchange.scrip("reader"), exchange.scrip("other")) == (1, 4)


def test_a_tree_buys_only_from_what_it_began_with(exchange: Exchange) -> None:
    exchange.act("other", "write_artifact", "news", content="rain", policy={"read_price": 4})
    read = "    try: said = kernel_state.read_artifact('news', {0})\n    except ValueError: said = None\n"
    fill = "    assert kernel_actions.transfer_scrip(caller_id, 'reader', 4)\n"
    offer(exchange, "reader", f"def run():\n{fill}{read.format(repr('reader'))}    raise KeyError(said)")
    assert "rain" not in str(failing(exchange, "reader", delegate=True)[1]), (
        "what came in would be taken back"
    )
    assert (exchange.scrip("reader"), exchange.scrip("other"), exchange.scrip("caller")) == (0, 0, 100)
    offer(exchange, "till", f"def run():\n    pay(caller_id, 5)\n{read.format('caller_id')}    return said")
    give(exchange, "till", 5)
    give(exchange, "other", 93)
    assert (call(exchange, "till"), exchange.scrip("caller")) == (None, 7), "it began with 2"


def test_a_caller_pays_once_for_what_was_delivered_to_code_that_others_overtook(exchange: Exchange) -> None:
    exchange.act("other", "write_artifact", "news", content="rain", policy={"read_price": 4})
    offer(
        exchange,
        "shop",
        "def run():\n    kernel_state.read_artifact('news', caller_id)\n    return get_balance()",
    )
    exchange.mint("other", 10)
    to_shop = lambda: exchange.act(
        "other", "invoke_artifact", "genesis_ledger", method="transfer", args=["other", "shop", 1]
    )
    meanwhile(exchange, 3, to_shop)
    result = exchange.act("caller", "invoke_artifact", "shop", method="run")
    assert (result["error_code"], result["resources_consumed"]) == (
        "conflict",
        {"cpu_seconds": 1.5, "scrip": 4},
    )
    assert (exchange.scrip("caller"), exchange.actions[-1].scrip_after) == (96, 96)
    exchange.act("author", "delete_artifact", "shop")
    exchange.in_vain = CodeRan(0.5, (Post(1.0, "r1", "caller", "other", "scrip", 4, "read news"),))
    result = exchange.act("caller", "invoke_artifact", "shop", method="run")
    assert (result["error_code"], exchange.scrip("caller")) == ("DELETED", 92), "what it got before was paid"
    assert result["resources_consumed"] == {"cpu_seconds": 0.5, "scrip": 4}


@pytest.mark.parametrize(("depth", "succeeds"), [(4, True), (5, True), (6, False)])
def test_five_levels_below_the_intents_own_run(exchange: Exchange, depth: int, succeeds: bool) -> None:
    code = "def run(n): return n and (lambda said: said['result'] or said['error_code'])(invoke('again', n - 1)) or 'end'"
    offer(exchange, "again", code)
    assert call(exchange, "again", depth) == ("end" if succeeds else "depth_exceeded")


def test_the_budget_bounds_the_whole_tree(exchange: Exchange) -> None:
    offer(exchange, "leaf", "def run(): return 1", price=5)
    code = "def run(): return [invoke('leaf')['error_code'] for _ in range(3)]"
    offer(exchange, "root", code, owner="other", price=7)
    assert call(exchange, "root", budget=17) == [None, None, "insufficient_funds"]
    assert exchange.scrip("caller") == 83
    assert failing(exchange, "root", budget=6)[0] == "insufficient_funds"


def test_a_budget_that_is_too_small_for_a_read_says_so(exchange: Exchange) -> None:
    exchange.act("other", "write_artifact", "news", content="rain", policy={"read_price": 4})
    offer(exchange, "reader", "def run(): return kernel_state.read_artifact('news', caller_id)", price=2)
    said = "ValueError: 3 of the budget of 5 scrip are left, and read news costs 4"
    assert failing(exchange, "reader", budget=5) == ("runtime_error", said)
    assert call(exchange, "reader", budget=6) == "rain"


def test_a_price_is_reserved_while_its_code_runs(exchange: Exchange) -> None:
    offer(exchange, "leaf", "def run(): return 1", price=60)
    offer(exchange, "root", "def run(): return invoke('leaf')['error_code']", owner="other", price=50)
    assert call(exchange, "root") == "insufficient_funds"
    assert exchange.scrip("caller") == 50


def give(exchange: Exchange, artifact: str, amount: int) -> None:
    """The caller fills the wallet of an artifact."""
    exchange.act(
        "caller", "invoke_artifact", "genesis_ledger", method="transfer", args=["caller", artifact, amount]
    )


def test_code_pays_from_its_own_wallet(exchange: Exchange) -> None:
    offer(exchange, "shop", "def run(to, amount): return [pay(to, amount), get_balance()]")
    give(exchange, "shop", 10)
    assert call(exchange, "shop", "other", 4) == [
        {"success": True, "amount": 4, "target": "other", "error": None},
        6,
    ]
    wrong: tuple[tuple[str, JsonValue], ...] = (
        ("other", 7), ("other", 0), ("other", -1), ("other", 1.5), ("other", True), ("nobody", 1),
        ("other", str(1 << 90)), ("other", "4"),
    )  # fmt: skip
    for to, amount in wrong:
        match call(exchange, "shop", to, amount):
            case [{"success": False, "error": str()}, 6]:
                pass
            case other:
                raise AssertionError((to, amount, other))
    assert exchange.scrip("other") == 4


TAKES: dict[str, str] = {
    "scrip": "kernel_actions.transfer_scrip(caller_id, 'author', 9)",
    "scrip by its other name": "kernel_actions.transfer_resource(caller_id, 'author', 'scrip', 9)",
    "CPU time": "kernel_actions.transfer_resource(caller_id, 'author', 'cpu_seconds', 1)",
    "disk": "kernel_actions.transfer_resource(caller_id, 'author', 'disk_bytes', 1000)",
    "an artifact": "kernel_actions.write_artifact(caller_id, 'diary', 'gone')",
    "a new artifact": "kernel_actions.write_artifact(caller_id, 'new', 'x')",
    "by the ledger": "invoke('genesis_ledger', caller_id, 'author', 9, method='transfer')['success']",
    "ownership": "invoke('genesis_ledger', 'diary', 'author', method='transfer_ownership')['success']",
    "a principal": "invoke('genesis_ledger', 'child', method='spawn_principal')['success']",
}


@pytest.mark.parametrize("taking", TAKES.values(), ids=TAKES)
def test_code_of_others_takes_and_writes_only_what_was_lent(exchange: Exchange, taking: str) -> None:
    exchange.act("caller", "write_artifact", "diary", content="dear")
    offer(exchange, "thief", f"def run(): return {taking}")
    offer(exchange, "own", f"def run(): return {taking}", owner="caller")
    offer(exchange, "front", "def run(): return invoke('own')['result']")
    before = snapshot(exchange)
    assert call(exchange, "thief") is False
    assert call(exchange, "front") is False, (
        "the caller's own code, called by code of others, has no more rights"
    )
    assert snapshot(exchange) == before
    assert call(exchange, "own") is True
    assert snapshot(exchange) != before
    exchange.rules = ExchangeRules(delegate=True)
    if "diary" not in taking and "child" not in taking:
        assert call(exchange, "thief") is True


@pytest.mark.parametrize("taking", TAKES.values(), ids=TAKES)
def test_code_of_others_acts_on_the_callers_behalf_if_the_intent_delegates_it(
    exchange: Exchange, taking: str
) -> None:
    exchange.act("caller", "write_artifact", "diary", content="dear")
    offer(exchange, "helper", f"def run(): return {taking}")
    offer(exchange, "front", "def run(): return invoke('helper')['result']", owner="other")
    assert call(exchange, "front", delegate=True) is True


def snapshot(exchange: Exchange) -> tuple[object, ...]:
    """What can be taken: without the CPU time that was used."""
    return dict(exchange.artifacts), dict(exchange.principals), +exchange.balances


def test_a_call_names_the_caller_or_the_artifact_itself(exchange: Exchange) -> None:
    offer(exchange, "thief", "def run(who): return kernel_actions.transfer_scrip(who, 'author', 1)")
    give(exchange, "thief", 3)
    exchange.mint("other", 10)
    assert call(exchange, "thief", "other", delegate=True) is False
    assert call(exchange, "thief", "thief") is True
    assert (exchange.scrip("other"), exchange.scrip("thief"), exchange.scrip("author")) == (10, 2, 1)


def test_code_of_others_reads_and_invokes_only_what_its_owner_may_too(exchange: Exchange) -> None:
    private: dict[str, JsonValue] = {"allow_read": [], "allow_invoke": []}
    exchange.act("caller", "write_artifact", "diary", content="dear", policy=private)
    offer(exchange, "tool", "def run(): return 1", owner="caller", policy=private)
    exchange.act("author", "write_artifact", "notes", content="mine", policy=private)
    code = (
        "def run(): return [kernel_state.read_artifact('diary', caller_id), invoke('tool')['error_code'],"
        " kernel_state.read_artifact('notes', caller_id)]"
    )
    offer(exchange, "spy", code)
    offer(exchange, "front", "def run(): return invoke('spy')['result']", owner="other")
    for root in ("spy", "front"):
        assert call(exchange, root) == [None, "not_authorized", None]
    assert call(exchange, "spy", delegate=True) == ["dear", None, None]


def test_reading_costs_the_reader_its_price(exchange: Exchange) -> None:
    exchange.act("other", "write_artifact", "news", content="rain", policy={"read_price": 4})
    code = "def run(who): return kernel_state.read_artifact('news', {'me': caller_id}.get(who, who))"
    offer(exchange, "reader", code)
    assert call(exchange, "reader", "me") == "rain"
    assert (exchange.scrip("caller"), exchange.scrip("other")) == (96, 4)
    empty = failing(exchange, "reader", args=["reader"])
    assert empty == ("runtime_error", "ValueError: reader has 0 scrip, and read news costs 4")
    give(exchange, "reader", 5)
    assert call(exchange, "reader", "reader") == "rain"
    assert (exchange.scrip("reader"), exchange.scrip("other")) == (1, 8)
    assert call(exchange, "reader", "author") is None, "it is neither the caller nor the artifact itself"


def test_code_sees_what_it_has_changed(exchange: Exchange) -> None:
    code = (
        "def run():\n"
        "    kernel_actions.write_artifact(caller_id, 'new', 'text')\n"
        "    invoke('genesis_ledger', 'child', method='spawn_principal')\n"
        "    kernel_actions.transfer_scrip(caller_id, 'child', 9)\n"
        "    kernel_actions.transfer_resource(caller_id, 'child', 'cpu_seconds', 1.5)\n"
        "    return [kernel_state.read_artifact('new', caller_id), kernel_state.get_balance('child'),"
        " kernel_state.get_resource('child', 'cpu_seconds'), kernel_state.list_artifacts_by_owner(caller_id),"
        " invoke('genesis_store', method='list_principals')['result'],"
        " kernel_state.get_artifact_metadata('new')['size']]"
    )
    offer(exchange, "own", code, owner="caller")
    assert call(exchange, "own") == [
        "text", 9, 1.5, ["caller", "child", "new", "own"], ["author", "caller", "child", "other"], 4,
    ]  # fmt: skip
    assert exchange.principals["caller"].cpu_seconds == 3.5


def test_allocations_move_within_what_there_is(exchange: Exchange) -> None:
    offer(
        exchange,
        "own",
        "def run(*said): return kernel_actions.transfer_resource(caller_id, *said)",
        owner="caller",
    )
    exchange.create("unlimited", is_cpu_unlimited=True)
    exchange.cpu_s = 0.1
    quota = exchange.principals["caller"].disk_quota
    for to, name, amount, moves in (
        ("other", "cpu_seconds", 5.5, False),
        ("other", "cpu_seconds", 0.25, True),
        ("unlimited", "cpu_seconds", 1, False),
        ("caller", "cpu_seconds", 1, False),
        ("other", "disk_bytes", quota, False),
        ("other", "disk_bytes", 1.5, False),
        ("other", "disk_bytes", 1000, True),
        ("other", "gold", 1, False),
        ("other", "cpu_seconds", 0.0000009, False),
        ("other", "cpu_seconds", 0.0000019, True),
        ("nobody", "disk_bytes", 1, False),
        ("other", "disk_bytes", "1", False),
    ):
        assert call(exchange, "own", to, name, amount) is moves, (to, name, amount)
    assert (exchange.principals["caller"].cpu_seconds, exchange.principals["other"].cpu_seconds) == (
        4.749999,
        5.250001,
    )
    assert exchange.principals["other"].disk_quota == quota + 1000


def meanwhile(exchange: Exchange, times: int, what: Callable[[], object]) -> None:
    exchange.meanwhile = [what] * times


def test_an_action_is_worked_out_again_if_others_changed_what_it_read(exchange: Exchange) -> None:
    offer(exchange, "shop", "def run(): return get_balance()", price=60)
    pay_away: dict[str, JsonValue] = {"method": "transfer", "args": ["caller", "other", 50]}
    meanwhile(exchange, 1, lambda: exchange.act("caller", "invoke_artifact", "genesis_ledger", **pay_away))
    assert failing(exchange, "shop")[0] == "insufficient_funds"
    assert (exchange.scrip("caller"), exchange.scrip("author"), exchange.times) == (50, 0, 2)
    assert exchange.cpu[-1][2] == 0.5, "the time that it ran is charged, though it did not count"


def test_two_callers_never_spend_one_balance_twice(exchange: Exchange) -> None:
    offer(exchange, "till", "def run(): return pay(caller_id, 10)['success']")
    give(exchange, "till", 10)
    other = lambda: call(exchange, "till", who="other")
    meanwhile(exchange, 1, other)
    assert call(exchange, "till") is False
    assert (exchange.scrip("till"), exchange.scrip("other"), exchange.scrip("caller")) == (0, 10, 90)


def test_changes_elsewhere_do_not_matter(exchange: Exchange) -> None:
    offer(exchange, "shop", "def run(): return 1", price=6)
    meanwhile(exchange, 1, lambda: exchange.act("other", "write_artifact", "x", content="y"))
    assert call(exchange, "shop") == 1
    assert exchange.times == 1


NOBODYS: dict[str, str] = {
    "its wallet": "pay('author', 3)['success']",
    "its wallet by another name": "kernel_actions.transfer_scrip('shop', 'author', 3)",
    "a purchase from its wallet": "kernel_state.read_artifact('news', 'shop') is not None",
    "what it may write": "kernel_actions.write_artifact('shop', 'board', 'gone')",
    "what the caller lent": "kernel_actions.transfer_scrip(caller_id, 'author', 3)",
    "what the caller lent to code below": "invoke('helper')['result']",
    "what only its owner may read": "kernel_state.read_artifact('diary', caller_id) is not None",
}


@pytest.mark.parametrize("acting", NOBODYS.values(), ids=NOBODYS)
@pytest.mark.parametrize("how", ["written by somebody else", "given away"])
def test_code_acts_for_nobody_until_its_owner_writes_it(exchange: Exchange, acting: str, how: str) -> None:
    exchange.act("other", "write_artifact", "news", content="rain", policy={"read_price": 4})
    exchange.act("other", "write_artifact", "board", content="x", policy={"allow_write": ["shop"]})
    exchange.act("caller", "write_artifact", "diary", content="dear", policy={"allow_read": []})
    take = "def run(): return kernel_actions.transfer_scrip(caller_id, 'author', 3)"
    offer(exchange, "helper", take, owner="other")
    code = f"def run(): return {acting}"
    if how == "given away":
        offer(exchange, "shop", code, owner="author")
        exchange.act("author", "transfer_artifact", "shop", to="caller")
    else:
        offer(exchange, "shop", "def run(): return 1", owner="caller", policy={"allow_write": ["author"]})
        offer(exchange, "shop", code, owner="author")
    give(exchange, "shop", 10)
    before = snapshot(exchange)
    result = exchange.act("caller", "invoke_artifact", "shop", method="run", delegate=True)
    assert isinstance(result["data"], dict)
    assert result["data"]["result"] is False
    assert result["message"] == (
        "invoked shop.run; its code acts for nobody until caller, its owner, writes it: author wrote it"
    )
    assert snapshot(exchange) == before
    offer(exchange, "shop", code, owner="caller")
    assert call(exchange, "shop", delegate=True) is True
    assert exchange.artifacts["shop"].written_by == "caller"


def test_code_that_acts_for_nobody_says_so_when_it_pays(exchange: Exchange) -> None:
    offer(exchange, "shop", "def run(): return pay('author', 1)", owner="author")
    exchange.act("author", "transfer_artifact", "shop", to="caller")
    assert call(exchange, "shop") == {
        "success": False,
        "amount": 1,
        "target": "author",
        "error": "the code of shop acts for nobody: its owner did not write it",
    }


def test_code_knows_who_invoked_it_and_can_refuse_others(exchange: Exchange) -> None:
    offer(exchange, "who", "def run(): return [caller_id, invoker]")
    offer(exchange, "front", "def run(): return invoke('who')['result']", owner="other")
    offer(exchange, "outer", "def run(): return invoke('front')['result']")
    assert call(exchange, "who") == ["caller", None]
    assert call(exchange, "front") == ["caller", "front"]
    assert call(exchange, "outer") == ["caller", "front"], "the nearest one"
    checked = "def run(to):\n    if invoker != 'front2': raise PermissionError(invoker)\n    return pay(to, 2)['success']"
    offer(exchange, "till", checked)
    give(exchange, "till", 5)
    offer(exchange, "front2", "def run(): return invoke('till', 'author')['success']")
    offer(exchange, "thief", "def run(): return invoke('till', 'other')['success']", owner="other")
    assert failing(exchange, "till", args=["other"])[0] == "runtime_error"
    assert call(exchange, "thief") is False
    assert call(exchange, "front2") is True
    assert (exchange.scrip("till"), exchange.scrip("author"), exchange.scrip("other")) == (3, 2, 0)


def test_code_that_others_overtake_each_time_fails_and_is_charged_for_each_attempt(
    exchange: Exchange,
) -> None:
    offer(exchange, "shop", "def run():\n    pay('other', 1)\n    return get_balance()", price=6)
    give(exchange, "shop", 10)
    meanwhile(exchange, 3, lambda: give(exchange, "shop", 1))
    before, ran = exchange.scrip("caller"), exchange.times
    result = exchange.act("caller", "invoke_artifact", "shop", method="run")
    assert (result["error_code"], result["retriable"], exchange.times - ran) == ("conflict", True, 3)
    assert (exchange.scrip("caller"), exchange.scrip("other")) == (before - 3, 0), "only what was given"
    assert exchange.cpu[-1] == ("caller", exchange.cpu[-1][1], 1.5)
    assert exchange.actions[-1].scrip_after == before - 3
    meanwhile(exchange, 2, lambda: give(exchange, "shop", 1))
    assert call(exchange, "shop") == 14, "the third attempt counts, and is paid once"
    assert exchange.scrip("author") == 6


LISTS: dict[str, tuple[str, bool, bool]] = {
    "a list by owner": ("kernel_state.list_artifacts_by_owner('caller')", False, False),
    "a list by owner of the store": (
        "invoke('genesis_store', 'caller', method='list_by_owner')",
        False,
        True,
    ),
    "a list by type": ("invoke('genesis_store', 'kept', method='list_by_type')", False, True),
    "a search": ("invoke('genesis_store', 'kept', method='search')", False, True),
    "the whole list": ("invoke('genesis_store', method='list')", True, True),
    "a count": ("invoke('genesis_store', method='count')", True, False),
    "the principals": ("invoke('genesis_store', method='list_principals')", False, False),
    "the agents": ("invoke('genesis_store', method='list_agents')", False, False),
    "the balances": ("invoke('genesis_ledger', method='all_balances')", False, False),
}
"""How code lists; whether an artifact of somebody else that is new conflicts, and a change of one that is shown."""


@pytest.mark.parametrize(("listing", "new_conflicts", "change_conflicts"), LISTS.values(), ids=LISTS)
def test_a_list_conflicts_only_with_writes_that_change_what_it_showed(
    exchange: Exchange, listing: str, new_conflicts: bool, change_conflicts: bool
) -> None:
    kept: dict[str, JsonValue] = {"artifact_type": "kept"}
    exchange.act("caller", "write_artifact", "kept", content="1", **kept)
    offer(exchange, "lister", f"def run():\n    {listing}\n    return 1")
    for conflicts, write in (
        (new_conflicts, lambda: exchange.act("other", "write_artifact", "new", content="x")),
        (change_conflicts, lambda: exchange.act("caller", "write_artifact", "kept", content="2", **kept)),
        (listing in _OF_PRINCIPALS, lambda: exchange.create("agent", 5, is_agent=True)),
    ):
        before = exchange.times
        meanwhile(exchange, 1, write)
        assert call(exchange, "lister") == 1
        assert exchange.times - before == 1 + conflicts


_OF_PRINCIPALS = [
    LISTS[each][0] for each in LISTS if "kept" not in LISTS[each][0] and "caller" not in LISTS[each][0]
]


def test_what_others_pay_and_write_meanwhile_is_no_conflict_unless_it_leaves_too_little(
    exchange: Exchange,
) -> None:
    exchange.act("author", "write_artifact", "board", content="1", policy={"allow_write": ["other"]})
    offer(exchange, "shop", "def run(): return 1", price=60)
    exchange.mint("other", 200)
    bought = lambda: exchange.act("other", "invoke_artifact", "shop", method="run")
    wrote = lambda: exchange.act("other", "write_artifact", "board", content="12345")
    given = lambda: exchange.act(
        "other", "invoke_artifact", "genesis_ledger", method="transfer", args=["other", "caller", 10]
    )
    for meantime in (bought, wrote, given):
        before = exchange.times
        exchange.mint("caller", 60)
        meanwhile(exchange, 1, meantime)
        assert call(exchange, "shop") == 1
        assert exchange.times - before == 1 + (meantime is bought), "the other one's code runs once"
    assert exchange.actions[-1].scrip_after == exchange.scrip("caller") == 110


LOOKING = "    for each in range(n): kernel_state.get_balance(str(each))\n"


def test_code_that_reads_too_much_ends_and_costs_only_cpu_time(exchange: Exchange) -> None:
    offer(exchange, "reader", f"def run(n):\n    pay('other', 1)\n{LOOKING}    return 'done'", price=5)
    offer(exchange, "outer", "def run(): return invoke('reader', 1200)['error_code']")
    give(exchange, "reader", 10)
    assert call(exchange, "reader", MOST_READ // 2) == "done"
    before = exchange.scrip("caller"), len(exchange.cpu)
    refused = failing(exchange, "reader", args=[1200])
    assert refused == ("runtime_error", f"ReadTooMuch: {ReadTooMuch()}")
    assert (exchange.scrip("caller"), len(exchange.cpu)) == (before[0], before[1] + 1)
    assert call(exchange, "outer") == "runtime_error"
    assert call(exchange, "reader", 1) == "done"


def test_an_action_whose_contract_has_read_much_reads_too_much_itself(exchange: Exchange) -> None:
    exchange.rules = ExchangeRules(use_contracts=True, dependency_depth=400)
    look = f"def check_permission(c, a, t, context, ledger):\n    n = {MOST_READ - 100}\n"
    look += LOOKING.replace("kernel_state.get_balance", "ledger.get_scrip") + "    return {'allowed': True}"
    offer(exchange, "gate", look)
    for each in range(200):
        exchange.act("author", "write_artifact", f"d{each}", depends_on=[f"d{each - 1}"] if each else [])
    exchange.act("author", "write_artifact", "gated", access_contract_id="gate")
    few = exchange.act("author", "write_artifact", "gated", depends_on=["d0"])
    assert few["success"], few
    many = exchange.act("author", "write_artifact", "gated", depends_on=["d199"])
    assert (many["error_code"], many["message"]) == ("runtime_error", str(ReadTooMuch()))
