"""A person says that the host that took an order will not come back: who may, and what its taker can do afterwards."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.attacked import Connection, Fleet, without

_ROW: dict[str, Any] = {
    "origin": "mallory",
    "id": "1",
    "wanted_host": "victim",
    "wanted_labels": [],
    "skill": "train",
    "body": {},
    "state": "taken",
    "taken_by": "victim",
    "takes": 1,
}


def _has(fleet: Fleet, **others: Any) -> None:
    """An order of mallory that the victim took, unless it is said otherwise."""
    row = {name: Jsonb(each) if isinstance(each, dict) else each for name, each in {**_ROW, **others}.items()}
    names, places = ", ".join(row), ", ".join(f"%({name})s" for name in row)
    with fleet.admin() as admin:
        admin.execute(f"insert into runward.orders ({names}) values ({places})".encode(), row)


def _state(fleet: Fleet, name: str = "1") -> tuple[Any, ...]:
    with fleet.admin() as admin:
        (row,) = admin.execute(
            "select state, taken_by, given_up ->> 'by', given_up ->> 'note' from runward.orders where id = %s",
            (name,),
        ).fetchall()
    return row


def _give_up(connection: Connection, origin: str, name: str = "1", note: str = "stolen") -> object:
    ((state,),) = connection.execute(
        "select runward.give_up_order(%s, %s, %s)", (origin, name, note)
    ).fetchall()
    return state


LOST = ("declined", None, "mallory", "stolen")


def test_its_origin_gives_it_up_and_saying_it_again_changes_nothing(fleet: Fleet) -> None:
    _has(fleet)
    with fleet.login() as login:
        assert _give_up(login, "mallory") == "given_up"
        assert _give_up(login, "mallory", note="again") == "given_up"
        assert _give_up(login, "mallory", "2") is None
    assert _state(fleet) == LOST


def test_another_host_may_not_and_the_administrator_may(fleet: Fleet) -> None:
    _has(fleet, origin="victim", taken_by="mallory")
    with fleet.login() as login:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="only its origin"):
            _give_up(login, "victim")
        with fleet.admin() as admin:
            assert _give_up(admin, "victim") == "given_up"
        assert _state(fleet)[2] == "admin"
        # It is the look at who calls that stops it.
        _has(fleet, id="2", origin="victim", taken_by="mallory")
        without(fleet, "own is distinct from of_origin and not", "give_up_order", "false and not")
        assert _give_up(login, "victim", "2") == "given_up"


def test_a_host_that_was_only_invited_may_not(fleet: Fleet) -> None:
    _has(fleet)
    with fleet.admin() as admin:
        admin.execute("update runward.hosts set joined_at = null where name = 'mallory'")
    with fleet.login() as login:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="only its origin"):
            _give_up(login, "mallory")
        without(fleet, "and joined_at is not null", "give_up_order")
        assert _give_up(login, "mallory") == "given_up"


@pytest.mark.parametrize(
    ("state", "others"),
    [
        ("open", {"taken_by": None}),
        ("ended", {"result": {}}),
        ("declined", {"taken_by": None}),
        ("withdrawn", {"taken_by": None}),
    ],
)
def test_what_nobody_has_taken_or_what_is_over_stays_as_it_is(
    fleet: Fleet, state: str, others: dict[str, Any]
) -> None:
    _has(fleet, state=state, **others)
    with fleet.login() as login:
        assert _give_up(login, "mallory") == state
    assert _state(fleet)[0] == state


def test_its_taker_can_not_end_it_give_it_back_or_take_it_again(fleet: Fleet) -> None:
    _has(fleet, origin="victim", taken_by="mallory", wanted_host=None, wanted_labels=["gpu"])
    with fleet.admin() as admin:
        _give_up(admin, "victim")
        before = _state(fleet)
        admin.execute("update runward.hosts set labels = '{gpu}'")
    with fleet.login() as login:
        ((number,),) = login.execute("select runward.greet(1, '1.0')").fetchall()
        for call in (
            "select runward.end_order(%s, 'victim', '1', 1, '{}')",
            "select runward.give_back(%s, 'victim', '1', 1, 'no')",
        ):
            assert login.execute(call.encode(), (number,)).fetchall() == [(False,)]
        assert login.execute("select * from runward.take_orders(%s, 9)", (number,)).fetchall() == []
        # It sees that it lost it.
        assert login.execute("select given_up ->> 'note' from runward.orders").fetchall() == [("stolen",)]
    assert _state(fleet) == before


@pytest.mark.parametrize("note", ["", "n" * 1001])
def test_a_note_is_bounded(fleet: Fleet, note: str) -> None:
    _has(fleet)
    with fleet.login() as login, pytest.raises(psycopg.DataError, match="1000 characters"):
        _give_up(login, "mallory", note=note)


def test_the_command_says_what_became_of_it(fleet: Fleet, office: Place) -> None:
    _has(fleet)
    _has(fleet, id="waits", state="open", taken_by=None)
    _has(fleet, id="waits", origin="victim", state="open", taken_by=None, wanted_host="mallory")
    told = office.call("fleet", "order", "give-up", "1", "--note", "stolen")
    assert (told.code, told.out) == (0, "the order 1 of mallory is given up; its step fails\n")
    assert _state(fleet)[2:] == ("admin", "stolen")
    for words, code, said in (
        (("nothing", "--note", "x"), 3, "there is no order 'nothing'"),
        (("waits", "--note", "x"), 1, "mallory/waits, victim/waits"),
        (("mallory/waits", "--note", "x"), 1, "nobody has taken it"),
        (("1", "--note", ""), 2, "the note has 0 characters"),
        (("1",), 2, "--note"),
    ):
        told = office.call("fleet", "order", "give-up", *words)
        assert told.code == code, told.err
        assert said in told.err
    (listed,) = [each for each in office.call("fleet", "orders", "--json").objects() if each["id"] == "1"]
    given_up = listed["given_up"]
    assert isinstance(given_up, dict)
    assert (given_up["host"], given_up["take"], given_up["by"]) == ("victim", 1, "admin")
