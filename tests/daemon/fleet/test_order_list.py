"""`runward fleet orders`: who ordered what, and what became of it."""

from collections.abc import Iterable
from typing import Any

import pytest
from psycopg.types.json import Jsonb
from tests.daemon.cli.calling import Place, Result
from tests.daemon.fleet.attacked import Fleet
from tests.daemon.fleet.database import Server
from tests.daemon.fleet.places import joined

from runward.config.json_value import JsonValue


def _has(fleet: Fleet, *orders: dict[str, Any]) -> None:
    """Orders of mallory for the victim, unless it is said otherwise, each a minute older than the one before."""
    usual = {"origin": "mallory", "wanted_host": "victim", "wanted_labels": [], "skill": "train", "body": {}}
    with fleet.admin() as admin:
        for age, order in enumerate(orders):
            row = {**usual, **order}
            given = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in row.items()}
            names, places = ", ".join(row), ", ".join(f"%({name})s" for name in row)
            insert = (
                f"insert into runward.orders ({names}, placed_at)"
                f" values ({places}, clock_timestamp() - interval '{age + 1} min')"
            )
            admin.execute(insert.encode(), given)


_TAKEN = {"state": "taken", "taken_by": "victim", "takes": 1, "taken_at": "2026-01-02 03:04:05+00"}
_ORDERS = (
    {"id": "waits"},
    {"id": "labels", "wanted_host": None, "wanted_labels": ["big", "gpu"], "skill": "render"},
    {"id": "stops", **_TAKEN, "cancelled": True, "taken_at": None},
    {"id": "ended", **_TAKEN, "state": "ended", "result": {"status": "failed"}, "taken_at": None},
    {
        "id": "lost",
        "state": "declined",
        "given_up": {"host": "victim", "take": 1, "by": "mallory", "note": "it was stolen\u001b[31m"},
    },
    {"id": "refused", "state": "declined", "declined": {"victim": "it accepts nothing from mallory"}},
)


def _lines(told: Result) -> list[str]:
    assert (told.code, told.err) == (0, "")
    return [" ".join(line.split()) for line in told.out.splitlines()]


def _ids(told: Result) -> list[object]:
    assert (told.code, told.err) == (0, "")
    return [each["id"] for each in told.objects()]


def test_orders_are_listed_with_who_took_them_and_what_became_of_them(fleet: Fleet, office: Place) -> None:
    assert office.call("fleet", "orders").out == "nothing was ordered\n"
    _has(fleet, *_ORDERS)
    assert _lines(office.call("fleet", "orders")) == [
        "STATE FROM FOR SKILL PLACED TAKER TAKEN OUTCOME ORDER",
        "open mallory victim train 1m ago - - - waits",
        "open mallory label big, gpu render 2m ago - - - labels",
        "taken mallory victim train 3m ago victim - cancelled stops",
        "ended mallory victim train 4m ago victim - failed ended",
        "given up mallory victim train 5m ago - - mallory: it was stolen\\x1b[31m lost",
        "declined mallory victim train 6m ago - - victim: it accepts nothing from mallory refused",
    ]
    assert _ids(office.call("fleet", "orders", "--open", "--json")) == ["waits", "labels", "stops"]


def test_json_has_all_that_is_known_but_the_values(fleet: Fleet, office: Place) -> None:
    _has(fleet, {"id": "1", **_TAKEN, "body": {"with": {"key": "hidden"}}})
    told = office.call("fleet", "orders", "--json")
    (order,) = told.objects()
    assert isinstance(order.pop("placed_at"), str)
    assert order == {
        "origin": "mallory",
        "id": "1",
        "host": "victim",
        "labels": [],
        "skill": "train",
        "state": "taken",
        "cancelled": False,
        "takes": 1,
        "taken_by": "victim",
        "begun": False,
        "status": None,
        "receipt": None,
        "artifacts": [],
        "declined": {},
        "given_up": None,
        "taken_at": "2026-01-02T03:04:05.000Z",
        "begin_by": None,
        "ended_at": None,
        "settled_at": None,
    }
    assert "hidden" not in told.out


def test_json_says_of_which_orders_their_takers_say_that_they_begin(fleet: Fleet, office: Place) -> None:
    _has(fleet, {"id": "1", **_TAKEN, "begun_take": 1}, {"id": "2", **_TAKEN, "takes": 2, "begun_take": 1})
    told = office.call("fleet", "orders", "--json")
    assert {order["id"]: order["begun"] for order in told.objects()} == {"1": True, "2": False}


HASH = "ab" * 32
MODEL: dict[str, JsonValue] = {"id": "model", "path": "out/model", "size": 7, "sha256": HASH, "problem": None}
NOT_HASHED: dict[str, JsonValue] = {"id": "model", "path": "out/model", "size": 7, "sha256": None}


@pytest.mark.parametrize(
    ("reported", "result", "shown"),
    [
        ([MODEL], {"key": "k"}, [{**NOT_HASHED, "sha256": HASH}]),
        ([{**MODEL, "sha256": None}], {"key": "k"}, [NOT_HASHED]),
        ([{**MODEL, "sha256": "\x1b[31m"}], {"key": "k"}, [NOT_HASHED]),
        ([MODEL], {}, [NOT_HASHED]),
        ([], {"key": "k"}, [NOT_HASHED]),
        ("nonsense", {"key": "k"}, []),
        ([MODEL] * 150, {"key": "k"}, [{**NOT_HASHED, "sha256": HASH}] * 100),
        ([{**MODEL, "path": "x" * 1100}], {"key": "k"}, []),
        ([{**MODEL, "id": "x" * 1000}] * 99, {"key": "k"}, []),
    ],
    ids=[
        *("hashed", "not hashed yet", "no hash", "an older taker", "a report without files", "nonsense"),
        *("many", "a long path", "more than is read"),
    ],
)
def test_an_order_that_ended_has_what_its_session_left_and_the_hashes_once_they_are_reported(
    fleet: Fleet, office: Place, reported: JsonValue, result: dict[str, JsonValue], shown: JsonValue
) -> None:
    told: JsonValue = [{"id": "model", "path": "out/model", "size": 7}]
    result = {"status": "completed", "session": "s", "artifacts": told, **result}
    _has(fleet, {"id": "1", **_TAKEN, "state": "ended", "result": result})
    with fleet.admin() as admin:
        admin.execute(
            "insert into runward.sessions (host, key, version, started_at, body) values ('victim', 'k', 1, 1.0, %s)",
            (Jsonb({"files": reported}),),
        )
    (order,) = office.call("fleet", "orders", "--json").objects()
    assert order["artifacts"] == shown


def test_an_order_that_ended_has_the_last_receipt_of_its_session_as_its_taker_reported_it(
    fleet: Fleet, office: Place
) -> None:
    ended = {**_TAKEN, "state": "ended", "result": {"status": "completed", "session": "fl_1-1"}}
    _has(fleet, {"id": "1", **ended}, {"id": "2", **ended, "result": {"session": "fl_2-1"}})
    with fleet.admin() as admin:
        for host, segment, number, session in (
            ("victim", 1, 1, "fl_1-1"),
            ("victim", 2, 1, "fl_1-1"),
            ("victim", 1, 2, "fl_3-1"),
            ("mallory", 3, 1, "fl_2-1"),
        ):
            admin.execute("alter table runward.receipts disable trigger receipts_follow")
            admin.execute(
                "insert into runward.receipts (host, segment, number, hash, session, attempt) values (%s, %s, %s, %s, %s, 1)",
                (host, segment, number, f"sha256:{segment}{number}{'0' * 62}", session),
            )
    told = office.call("fleet", "orders", "--json").objects()
    assert {each["id"]: each["receipt"] for each in told} == {"1": f"sha256:21{'0' * 62}", "2": None}


def test_a_host_lists_what_it_ordered_or_took_and_nothing_else(
    fleet: Fleet, office: Place, laptop: Place
) -> None:
    joined(office, laptop, "laptop")
    _has(fleet, *_ORDERS)
    assert laptop.call("fleet", "orders").out == "nothing was ordered\n"
    _has(
        fleet,
        {"id": "own", "origin": "laptop"},
        {"id": "done", **_TAKEN, "taken_by": "laptop", "state": "ended", "result": {}},
    )
    assert _ids(laptop.call("fleet", "orders", "--json")) == ["own", "done"]
    # It is the policy of the table that hides the others.
    with fleet.admin() as admin:
        admin.execute("alter table runward.orders disable row level security")
    assert len(_ids(laptop.call("fleet", "orders", "--json"))) == 2 + len(_ORDERS)


def _many() -> Iterable[dict[str, Any]]:
    return ({"id": f"{number:03}"} for number in range(230))


def test_a_list_of_many_orders_is_whole_and_as_long_as_one_wants(fleet: Fleet, office: Place) -> None:
    _has(fleet, *_many())
    with fleet.admin() as admin:
        # Many of one moment: the next page begins in the middle of them.
        admin.execute("update runward.orders set placed_at = '2026-01-01' where id >= '050'")
    assert _ids(office.call("fleet", "orders", "--limit", "0", "--json")) == [
        f"{number:03}" for number in range(230)
    ]
    told = office.call("fleet", "orders", "--limit", "2", "--columns", "ORDER")
    assert told.out.split() == ["ORDER", "000", "001"]
    assert told.err == "runward: there are more than these 2: `--limit 0` shows all\n"


EVIL = "\x1b[31m\u202e\x07"


def test_what_other_hosts_wrote_into_orders_is_escaped(fleet: Fleet, office: Place) -> None:
    _has(
        fleet,
        {"id": f"1{EVIL}", "skill": EVIL, "state": "declined", "declined": {"victim": EVIL + "x" * 10_000}},
        {"id": "2", **_TAKEN, "state": "ended", "result": {"status": EVIL}},
        {"id": "3", **_TAKEN, "state": "ended", "result": {"status": ["no", "text"]}},
    )
    told = office.call("fleet", "orders")
    assert (told.code, told.err) == (0, "")
    assert not {"\x1b", "\u202e", "\x07"} & {*told.out}
    assert max(map(len, told.out.splitlines())) < 1000


def test_a_host_can_not_spoil_lists_by_values_of_another_form(fleet: Fleet, office: Place) -> None:
    _has(fleet, {"id": "deep", "wanted_host": "mallory"}, {"id": "why", "wanted_host": "mallory"})
    deep = '{"artifacts": %s}' % ("[" * 2000 + "]" * 2000)
    place = "select runward.place_order(1, %s, null, %s::text[], 's', '{}', %s)"
    with fleet.login() as login:
        login.execute("select runward.greet(1, '1.0')")
        login.execute("select runward.take_orders(1, 9)")
        login.execute("select runward.end_order(1, 'mallory', 'deep', 1, %s::jsonb)", (deep,))
        login.execute("select runward.give_back(1, 'mallory', 'why', 1, null)")
        login.execute(place, ("far", "{gpu}", 9e12))
        login.execute(place, ("past", "{gpu}", -9e10))
        login.execute(place, ("nothing", "{null}", None))
        login.execute(place, ("lists", "{{a,b},{c,d}}", None))
        login.execute("select runward.pulse(1, 0, '{{one,null},{two,three}}')")
    told = office.call("fleet", "orders", "--json")
    assert sorted(map(str, _ids(told))) == ["deep", "far", "lists", "nothing", "past", "why"]
    orders = {each["id"]: each for each in told.objects()}
    assert orders["deep"]["artifacts"] == []
    assert orders["far"]["begin_by"] is orders["past"]["begin_by"] is None
    assert orders["lists"]["labels"] == ["a", "b", "c", "d"]
    (line,) = (line for line in _lines(office.call("fleet", "orders")) if line.endswith(" why"))
    assert "mallory: -" in line
    (told_of, *_) = (
        each for each in office.call("fleet", "hosts", "--json").objects() if each["host"] == "mallory"
    )
    assert told_of["problems"] == ["one", "two", "three"]
    assert "one; two; three" in office.call("fleet", "hosts").out


def test_without_a_fleet_or_its_database_there_is_no_list(
    postgresql: Server, office: Place, laptop: Place
) -> None:
    told = laptop.call("fleet", "orders")
    assert told.code == 1
    assert "belongs to no fleet" in told.err
    joined(office, laptop, "laptop")
    postgresql.stop()
    try:
        told = laptop.call("fleet", "orders")
    finally:
        postgresql.start()
    assert told.code == 75
    assert "try again later: what was taken runs on" in told.err


@pytest.mark.parametrize(
    "words",
    [
        ("fleet", "verify", "\udcff"),
        ("fleet", "remove", "\udcff"),
        ("fleet", "order", "give-up", "\udcff", "--note", "lost"),
        ("session", "list", "--fleet", "--search", "\udcff"),
        ("artifact", "list", "--fleet", "--kind", "\udcff"),
    ],
    ids=" ".join,
)
def test_a_word_that_is_not_utf_8_is_refused(office: Place, words: tuple[str, ...]) -> None:
    told = office.call(*words)
    assert (told.code, told.out) == (2, "")
    assert "is not valid UTF-8" in told.err
