"""Events between hosts in the database: in which order they are read, and what a login can't do to those of others.

Each guard is also taken away, and then the test sees what would happen.
"""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.daemon.fleet.attacked import Connection, Fleet, without


def _greet(login: Connection) -> int:
    ((number,),) = login.execute("select runward.greet(1, '1.0')").fetchall()
    return int(number)


def _event(key: str, name: str = "data.ready") -> dict[str, object]:
    return {"key": key, "name": name, "id": key, "depth": 1, "fields": {"data": "set"}}


def _tell(login: Connection, number: int, *keys: str) -> None:
    login.execute("select runward.tell_events(%s, %s)", (number, Jsonb([_event(key) for key in keys])))


def _hears(fleet: Fleet, host: str, origin: str = "*", event: str = "data.ready") -> None:
    with fleet.admin() as admin:
        admin.execute("insert into runward.hears values (%s, %s, %s)", (host, origin, event))


def _of_victim(fleet: Fleet, key: str, **columns: object) -> None:
    row = {"host": "victim", "key": key, "name": "data.ready", "id": key, "depth": 1} | columns
    names, places = ", ".join(row), ", ".join(f"%({name})s" for name in row)
    insert = f"insert into runward.events ({names}, fields) values ({places}, '{{}}')"
    with fleet.admin() as admin:
        admin.execute(insert.encode(), row)


def _read(
    login: Connection, number: int, place: tuple[str, int] | None = None
) -> tuple[list[str], tuple[str, int], bool, list[str]]:
    """The keys that are read, where to go on, whether there is more, and what others accept."""
    rows: list[tuple[Any, ...]] = login.execute(
        "select key, xid::text, place, is_more, heard from runward.read_events(%s, %s::xid8, %s, 9)",
        (number, *(place or (None, None))),
    ).fetchall()
    *events, end = rows
    return [key for key, *_ in events], (end[1], end[2]), end[3], end[4] or []


def _reader(login: Connection) -> int:
    number = _greet(login)
    login.execute("select runward.begin_reading_events(%s)", (number,))
    return number


def test_a_host_reads_only_what_it_accepts_and_each_event_once(fleet: Fleet) -> None:
    _hears(fleet, "mallory", "victim")
    _of_victim(fleet, "before")
    with fleet.login() as login:
        number = _reader(login)
        _of_victim(fleet, "one")
        _of_victim(fleet, "another", name="other")
        keys, place, _, _ = _read(login, number)
        assert keys == ["one"]
        _of_victim(fleet, "two")
        assert _read(login, number, place)[0] == ["two"]
        # Until it says up to where it has them, it gets them again.
        assert _read(login, number)[0] == ["two"]
        without(fleet, "mine.event = known.name and", "read_events")
        assert "another" in _read(login, number, ("0", 0))[0]


@pytest.mark.parametrize("is_guarded", [True, False])
def test_what_becomes_visible_late_is_not_passed_over(fleet: Fleet, is_guarded: bool) -> None:
    """The transaction that began first ends last: its event has the lower number, and comes after the other one."""
    _hears(fleet, "mallory")
    if not is_guarded:
        without(fleet, "and known.xid < oldest", "read_events")
    with fleet.login() as login, fleet.admin() as late:
        number = _reader(login)
        late.autocommit = False
        late.execute("select pg_current_xact_id()")
        _of_victim(fleet, "early")
        keys, place, is_more, _ = _read(login, number)
        assert is_more
        late.execute(
            "insert into runward.events (host, key, name, id, depth, fields) values ('victim', 'late', 'data.ready', '', 1, '{}')"
        )
        late.commit()
        following, *_ = _read(login, number, place)
        assert sorted(keys + following) == ["early", "late"] if is_guarded else keys == ["early"]
        assert keys == ([] if is_guarded else ["early"])


def test_numbers_of_transactions_of_another_server_hold_up_nothing(fleet: Fleet) -> None:
    """So it is after a dump was restored elsewhere."""
    _hears(fleet, "mallory")
    with fleet.login() as login, fleet.admin() as admin:
        number = _reader(login)
        _of_victim(fleet, "of-the-dump", xid="99999999999")
        admin.execute("update runward.hosts set read_xid = '99999999999', read_number = 5")
        assert _read(login, number)[0] == []
        number = _reader(login)
        _of_victim(fleet, "new")
        assert sorted(_read(login, number)[0]) == ["new", "of-the-dump"]


def test_a_host_that_was_away_reads_what_was_told_then_whoever_comes_first_after_a_restore(
    fleet: Fleet,
) -> None:
    """By the other server's numbers it had come less far than this server is by now."""
    _hears(fleet, "mallory")
    begin = "select runward.begin_reading_events(%s)"
    with fleet.login() as login, fleet.admin() as admin, fleet.victim() as first:
        number = _reader(login)
        _of_victim(fleet, "of-the-dump", xid="99999999999")
        first.execute(begin, (_greet(first),))
        login.execute(begin, (number,))
        admin.execute("select pg_current_xact_id()")
        assert _read(login, number)[0] == ["of-the-dump"]


def test_a_host_that_was_away_for_longer_than_events_are_kept_is_told(fleet: Fleet) -> None:
    begin = "select runward.begin_reading_events(%s)"
    with fleet.login() as login, fleet.admin() as admin:
        number = _greet(login)
        assert login.execute(begin, (number,)).fetchall() == [(False,)]
        admin.execute("update runward.hosts set read_at = now() - interval '8 days'")
        assert login.execute(begin, (number,)).fetchall() == [(True,)]
        assert login.execute(begin, (number,)).fetchall() == [(False,)]


def test_each_host_removes_its_own_old_events_alone(fleet: Fleet) -> None:
    with fleet.login() as login, fleet.admin() as admin:
        number = _greet(login)
        _tell(login, number, "old")
        _of_victim(fleet, "old")
        admin.execute("update runward.events set told_at = now() - interval '8 days'")
        _tell(login, number, "new", "new")
        rows = "select host, key from runward.events order by host, key"
        assert admin.execute(rows).fetchall() == [("mallory", "new"), ("victim", "old")]
        whole = without(fleet, "known.host = own and", "tell_events")
        _tell(login, number, "newer")
        assert ("victim", "old") not in admin.execute(rows).fetchall()
        admin.execute(whole.encode())


def test_an_event_is_stamped_with_the_name_of_its_login(fleet: Fleet) -> None:
    with fleet.login() as login, fleet.admin() as admin:
        number = _greet(login)
        _tell(login, number, "mine")
        rows = "select host from runward.events order by host"
        assert admin.execute(rows).fetchall() == [("mallory",)]
        without(fleet, "select own, new.key", "tell_events", "select 'victim', new.key")
        _tell(login, number, "forged")
        assert admin.execute(rows).fetchall() == [("mallory",), ("victim",)]


def test_a_sender_learns_what_others_accept_of_it(fleet: Fleet) -> None:
    _hears(fleet, "victim", "mallory", "data.ready")
    _hears(fleet, "victim", "other", "other")
    _hears(fleet, "victim", "*", "session.finished")
    with fleet.login() as login, fleet.admin() as admin:
        number = _reader(login)
        assert _read(login, number)[3] == ["data.ready", "session.finished"]
        admin.execute("update runward.hosts set removed_at = now() where name = 'victim'")
        assert _read(login, number)[3] == []


def test_a_host_says_only_for_itself_what_it_accepts(fleet: Fleet) -> None:
    hear = "select runward.hear_events(%s, %s, %s)"
    _hears(fleet, "victim")
    with fleet.login() as login, fleet.admin() as admin:
        number = _greet(login)
        login.execute(hear, (number, ["*", "victim"], ["a", "b"]))
        login.execute(hear, (number, ["victim"], ["b"]))
        rows = "select host, origin, event from runward.hears order by host, origin"
        own, others = ("mallory", "victim", "b"), ("victim", "*", "data.ready")
        assert admin.execute(rows).fetchall() == [own, others]
        without(fleet, "where known.host = own;", "hear_events", ";")
        login.execute(hear, (number, ["victim"], ["c"]))
        assert others not in admin.execute(rows).fetchall()


@pytest.mark.parametrize(
    "call",
    [
        "tell_events(0, '[]')",
        "hear_events(0, '{}', '{}')",
        "begin_reading_events(0)",
        "read_events(0, null, null, 1)",
    ],
)
def test_a_program_that_is_not_the_last_one_neither_tells_nor_reads_events(fleet: Fleet, call: str) -> None:
    with fleet.login() as login:
        _greet(login)
        with pytest.raises(psycopg.Error, match="another program reports for this host"):
            login.execute(f"select runward.{call}".encode())


def test_the_tables_of_events_can_not_be_written(fleet: Fleet) -> None:
    _of_victim(fleet, "one")
    with fleet.login() as login:
        for attempt in (
            "insert into runward.events (host, key, name, id, depth, fields) values ('victim', 'x', 'a', 'a', 1, '{}')",
            "update runward.events set fields = '{\"a\": 1}'",
            "delete from runward.events",
            "insert into runward.hears values ('victim', '*', 'a')",
            "delete from runward.hears",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                login.execute(attempt.encode())
