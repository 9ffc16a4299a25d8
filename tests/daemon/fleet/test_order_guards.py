"""What the login of a host can't do to the orders of others. Each guard is also taken away, and then the attempt succeeds."""

from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.daemon.fleet.attacked import Connection, Fleet, without


def _has(fleet: Fleet, **columns: object) -> None:
    """An order of the victim, for the victim, unless it is said otherwise."""
    row = {
        "origin": "victim",
        "id": "1",
        "wanted_host": "victim",
        "wanted_labels": [],
        "skill": "train",
    } | columns
    given = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in row.items()}
    names, places = ", ".join(row), ", ".join(f"%({name})s" for name in row)
    with fleet.admin() as admin:
        insert = f"insert into runward.orders ({names}, body) values ({places}, '{{}}')"
        admin.execute(insert.encode(), given)


def _orders(fleet: Fleet) -> list[tuple[Any, ...]]:
    with fleet.admin() as admin:
        return admin.execute("select * from runward.orders order by origin, id").fetchall()


def _greet(login: Connection) -> int:
    ((number,),) = login.execute("select runward.greet(1, '1.0')").fetchall()
    return int(number)


def _call(function: str, *given: object) -> Callable[[Connection, int], bool]:
    """Whether the function has an effect, or says that it had."""

    def attempt(login: Connection, number: int) -> bool:
        places = ", ".join(["%s"] * (len(given) + 1))
        rows = login.execute(
            f"select * from runward.{function}({places})".encode(), (number, *given)
        ).fetchall()
        return bool(rows) and rows[0][0] not in (False, None)

    return attempt


class Guard(NamedTuple):
    """An attempt on an order, and the guard of a function that stops it."""

    order: dict[str, object]
    attempt: Callable[[Connection, int], bool]
    function: str
    guard: str
    instead: str = ""


_TAKEN = {"state": "taken", "taken_by": "victim", "takes": 1}
_MINE = {"wanted_host": "mallory", "state": "taken", "taken_by": "mallory", "takes": 2}
_ENDED = {**_MINE, "takes": 1, "state": "ended", "result": {"status": "done"}}
_TAKE = _call("take_orders", 9)
_GIVE_BACK = _call("give_back", "victim", "1", 1, "no")
_END = _call("end_order", "victim", "1", 1, Jsonb({"status": "forged"}))

GUARDS = {
    "it takes what is taken": Guard(
        {**_TAKEN, "wanted_host": "mallory"}, _TAKE, "take_orders", "open.state = 'open'", "true"
    ),
    "it takes what another host is wanted for": Guard(
        {}, _TAKE, "take_orders", "open.wanted_host = own or", "true or"
    ),
    "it takes what needs labels that it doesn't have": Guard(
        {"wanted_host": None, "wanted_labels": ["gpu"]},
        _TAKE,
        "take_orders",
        "and open.wanted_labels <@ me.labels",
    ),
    "it takes again what it gave back": Guard(
        {"wanted_host": "mallory", "declined": {"mallory": "no"}},
        _TAKE,
        "take_orders",
        "and not open.declined ? own",
    ),
    "it takes what nobody waits for any more": Guard(
        {"wanted_host": "mallory", "begin_by": "2001-01-01"},
        _TAKE,
        "take_orders",
        "and (open.begin_by is null or open.begin_by > clock_timestamp())",
    ),
    "it gives back what another host took": Guard(_TAKEN, _GIVE_BACK, "give_back", "or its.taken_by <> own"),
    "it gives back by an earlier take": Guard(_MINE, _GIVE_BACK, "give_back", "or its.takes <> take"),
    "it gives back what has ended": Guard(
        _ENDED,
        # The table, too, refuses a result of what was declined.
        lambda login, number: _refused_by_table(login, _GIVE_BACK, number),
        "give_back",
        "its.state is distinct from 'taken' or",
    ),
    "it ends what another host took": Guard(_TAKEN, _END, "end_order", "and taken_by = own"),
    "it ends by an earlier take": Guard(_MINE, _END, "end_order", "and takes = take"),
    "it ends again what has ended": Guard(
        _ENDED,
        _END,
        "end_order",
        "and state = 'taken'",
    ),
    "it cancels what another host ordered": Guard(
        {}, _call("cancel_order", "1"), "cancel_order", "origin = own and"
    ),
    "it settles what another host ordered": Guard(
        {"state": "withdrawn"}, _call("settle_order", "1"), "settle_order", "origin = own and"
    ),
    "it settles what has not ended": Guard(
        {"origin": "mallory"},
        _call("settle_order", "1"),
        "settle_order",
        "and state in ('ended', 'declined', 'withdrawn')",
    ),
}


def _refused_by_table(login: Connection, attempt: Callable[[Connection, int], bool], number: int) -> bool:
    try:
        return attempt(login, number)
    except psycopg.errors.CheckViolation:
        return True


def test_an_order_can_be_changed_only_by_whom_and_when_it_may(fleet: Fleet) -> None:
    with fleet.login() as login, fleet.admin() as admin:
        number = _greet(login)
        for what, guard in GUARDS.items():
            admin.execute("truncate runward.orders")
            _has(fleet, **guard.order)
            before = _orders(fleet)
            assert not guard.attempt(login, number), what
            assert _orders(fleet) == before, what
            whole = without(fleet, guard.guard, guard.function, guard.instead)
            assert guard.attempt(login, number), f"without its guard, {what}"
            admin.execute(whole.encode())


@pytest.mark.parametrize(
    ("order", "guard"),
    [(_TAKEN, "and taken_by = own"), (_MINE, "and takes = take"), (_ENDED, "and state = 'taken'")],
)
def test_only_the_taker_says_that_a_step_began_and_only_of_its_take(
    fleet: Fleet, order: dict[str, object], guard: str
) -> None:
    begin = _call("begin_order", "victim", "1", 1)
    _has(fleet, **order)
    before = _orders(fleet)
    with fleet.login() as login:
        number = _greet(login)
        assert begin(login, number), "it decides nothing, so it is not refused"
        assert _orders(fleet) == before
        without(fleet, guard, "begin_order", "")
        assert begin(login, number)
        assert _orders(fleet) != before


def test_an_order_is_stamped_with_the_name_of_its_login(fleet: Fleet) -> None:
    place = _call("place_order", "1", "victim", [], "train", Jsonb({}), None)
    with fleet.login() as login:
        number = _greet(login)
        assert place(login, number)
        assert [each[:2] for each in _orders(fleet)] == [("mallory", "1")]
        without(fleet, "values (own,", "place_order", "values ('victim',")
        place(login, number)
        assert [each[:2] for each in _orders(fleet)] == [("mallory", "1"), ("victim", "1")]


def test_the_program_before_the_last_one_changes_nothing(fleet: Fleet) -> None:
    _has(fleet, wanted_host="mallory")
    with fleet.login() as earlier, fleet.login() as later:
        number = _greet(earlier)
        _greet(later)
        with pytest.raises(psycopg.Error, match="another program reports for this host"):
            _TAKE(earlier, number)
        without(fleet, "and connections = number", "own_name")
        assert _TAKE(earlier, number)


def test_a_host_that_was_only_invited_orders_and_takes_nothing(fleet: Fleet) -> None:
    _has(fleet, wanted_host="mallory")
    with fleet.admin() as admin:
        admin.execute("update runward.hosts set joined_at = null where name = 'mallory'")
    with fleet.login() as login:
        with pytest.raises(psycopg.Error, match="another program reports for this host"):
            _TAKE(login, 0)
        without(fleet, "and joined_at is not null", "own_name")
        assert _TAKE(login, 0)


def test_the_values_of_an_order_are_seen_by_its_origin_and_its_taker_alone(fleet: Fleet) -> None:
    select = "select id from runward.orders"
    _has(fleet)
    _has(fleet, **(_TAKEN | {"id": "2"}))
    _has(fleet, origin="mallory", id="3")
    _has(fleet, **(_MINE | {"id": "4"}))
    with fleet.login() as login:
        assert sorted(login.execute(select).fetchall()) == [("3",), ("4",)]
        with fleet.admin() as admin:
            admin.execute("alter table runward.orders disable row level security")
        assert len(login.execute(select).fetchall()) == 4


WRITES = {
    "it writes an order of another host": "insert into runward.orders (origin, id, wanted_host, wanted_labels, skill, body)"
    " values ('victim', '2', 'mallory', '{}', 'train', '{}')",
    "it takes by itself": "update runward.orders set state = 'taken', taken_by = 'mallory'",
    "it deletes orders": "delete from runward.orders",
    "it empties the table": "truncate runward.orders",
}


def test_the_table_of_orders_can_not_be_written(fleet: Fleet) -> None:
    with fleet.login() as login, fleet.admin() as admin:
        _has(fleet)
        before = _orders(fleet)
        for attempt in WRITES.values():
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                login.execute(attempt.encode())
            assert _orders(fleet) == before
        # It is the missing right that refuses.
        admin.execute("grant all on runward.orders to host_mallory")
        admin.execute("alter table runward.orders disable row level security")
        for what, attempt in WRITES.items():
            admin.execute("truncate runward.orders")
            _has(fleet)
            before = _orders(fleet)
            login.execute(attempt.encode())
            assert _orders(fleet) != before, what


_SHADOW = (
    "create temp table hosts (name text, labels text[], says_begun boolean); insert into hosts values ('mallory', '{gpu}');"
    " set search_path = pg_temp, runward"
)


def test_a_temporary_table_gives_nobody_an_order_of_another(fleet: Fleet) -> None:
    _has(fleet, wanted_host=None, wanted_labels=["gpu"])

    def attempt() -> bool:
        with fleet.login() as login:
            number = _greet(login)
            login.execute(_SHADOW)
            return _TAKE(login, number)

    assert not attempt()
    with fleet.admin() as admin:
        admin.execute("alter function runward.take_orders reset search_path")
    assert attempt()


def test_every_function_has_the_fixed_path_and_is_for_hosts_alone(fleet: Fleet) -> None:
    with fleet.admin() as admin:
        rows = admin.execute(
            "select p.proname, p.proconfig, p.prosecdef, has_function_privilege('public', p.oid, 'execute') from pg_proc p"
            " join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'runward'"
        ).fetchall()
    assert {name for name, *_ in rows} >= {"greet", "report_sessions", "take_orders", "own_name"}
    path = ["search_path=pg_catalog, runward, pg_temp"]
    assert [(name, *rest) for name, *rest in rows if rest != [path, True, False]] == []
