"""What the login of a host can't do to chains of receipts, its own included. Each guard is also taken away, and then the attempt succeeds."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.daemon.fleet.attacked import Connection, Fleet, without

FOLLOWS = "does not follow"


def digest(number: int, of: str = "") -> str:
    return f"sha256:{of}{number:0{64 - len(of)}x}"


def _row(number: int, prev: str | None, of: str = "") -> dict[str, Any]:
    return {"number": number, "hash": digest(number, of), "prev": prev}


def _greet(login: Connection) -> int:
    ((number,),) = login.execute("select runward.greet(1, '1.0')").fetchall()
    return int(number)


def _report(login: Connection, number: int, *rows: dict[str, Any], segment: int = 1) -> bool:
    ((answer,),) = login.execute(
        "select runward.report_receipts(%s, %s, %s)", (number, segment, Jsonb([*rows]))
    ).fetchall()
    return bool(answer)


def _head(login: Connection, number: int, event: int, of: str = "a", segment: int = 1) -> bool:
    ((answer,),) = login.execute(
        "select runward.report_head(%s, %s, %s, %s)", (number, segment, event, of * 64)
    ).fetchall()
    return bool(answer)


def _chains(fleet: Fleet) -> list[tuple[Any, ...]]:
    with fleet.admin() as admin:
        return admin.execute(
            "select host, segment, number, hash, prev from runward.receipts order by 1, 2, 3"
        ).fetchall()


@pytest.fixture
def chained(fleet: Fleet) -> Fleet:
    """The victim has two receipts and a head, and so has mallory."""
    with fleet.admin() as admin:
        for host in ("mallory", "victim"):
            for number, prev in ((1, None), (2, digest(1))):
                admin.execute(
                    "insert into runward.receipts (host, segment, number, hash, prev) values (%s, 1, %s, %s, %s)",
                    (host, number, digest(number), prev),
                )
            admin.execute(
                "insert into runward.heads (host, segment, number, hash) values (%s, 1, 5, %s)",
                (host, "a" * 64),
            )
    return fleet


def test_receipts_are_stamped_with_the_name_of_their_login_and_may_be_said_again(chained: Fleet) -> None:
    before = _chains(chained)
    with chained.login() as login:
        number = _greet(login)
        for _ in range(2):
            assert _report(login, number, _row(2, digest(1)), _row(4, digest(2)), _row(9, digest(4)))
    mine = ("mallory", 1)
    more = [(*mine, 4, digest(4), digest(2)), (*mine, 9, digest(9), digest(4))]
    assert _chains(chained) == [*before[:2], *more, *before[2:]]
    without(chained, "select own, of_segment, new", "report_receipts", "select 'victim', of_segment, new")
    with chained.login() as login:
        assert _report(login, _greet(login), _row(7, digest(2)))
    assert ("victim", 1, 7, digest(7), digest(2)) in _chains(chained)


BREAKS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "it forks its chain": ([_row(3, digest(1))], "or new.prev is distinct from last.hash"),
    "it exchanges a receipt": (
        [_row(2, digest(1), "f")],
        "new.number <= last.number or new.prev is distinct from last.hash",
    ),
    "it skips a receipt": ([_row(4, digest(3))], "or new.prev is distinct from last.hash"),
    "it begins anew": ([_row(3, None)], "or new.prev is distinct from last.hash"),
    "it inserts one before others": (
        [_row(1, digest(2), "f")],
        "new.number <= last.number or new.prev is distinct from last.hash",
    ),
    "it forks within what it says at once": (
        [_row(3, digest(2)), _row(4, digest(2))],
        "or new.prev is distinct from last.hash",
    ),
}


@pytest.mark.parametrize(("rows", "guard"), BREAKS.values(), ids=BREAKS)
def test_a_host_can_not_break_its_own_chain(chained: Fleet, rows: list[dict[str, Any]], guard: str) -> None:
    before = _chains(chained)
    with chained.login() as login, pytest.raises(psycopg.Error, match=FOLLOWS) as refused:
        _report(login, _greet(login), *rows)
    assert refused.value.sqlstate == "RW004"
    assert _chains(chained) == before
    instead = "false" if guard.startswith("new.number") else ""
    without(chained, guard, "receipt_follows", instead)
    with chained.login() as login:
        try:
            _report(login, _greet(login), *rows)
        except psycopg.errors.UniqueViolation:
            # The key of the table is one more guard.
            return
    assert _chains(chained) != before


def test_a_head_is_behind_the_last_one(chained: Fleet) -> None:
    with chained.login() as login:
        number = _greet(login)
        assert _head(login, number, 5)
        for event, of in ((4, "a"), (5, "b")):
            with pytest.raises(psycopg.Error, match=FOLLOWS):
                _head(login, number, event, of)
        assert _head(login, number, 6)
        without(chained, "new.number <=", "head_follows", "0 =")
        assert _head(login, number, 4)
    with chained.admin() as admin:
        rows = admin.execute("select host, number from runward.heads order by 1, 2").fetchall()
    assert rows == [("mallory", 4), ("mallory", 5), ("mallory", 6), ("victim", 5)]


@pytest.mark.parametrize("table", ["receipts", "heads"])
@pytest.mark.parametrize(
    "attempt", ["update {} set number = 8 where number = 2", "delete from {}", "truncate {}"]
)
def test_nobody_changes_a_chain_not_even_the_owner(chained: Fleet, table: str, attempt: str) -> None:
    statement = attempt.format(f"runward.{table}").encode()
    with chained.login() as login, pytest.raises(psycopg.errors.InsufficientPrivilege):
        login.execute(statement)
    with chained.admin() as admin:
        with pytest.raises(psycopg.Error, match=f"what {table} has is never changed"):
            admin.execute(statement)
        admin.execute(f"drop trigger {table}_stay on runward.{table}".encode())
        admin.execute(statement)


def test_another_segment_begins_once_and_only_of_the_own_chain(chained: Fleet) -> None:
    with chained.login() as login:
        number = _greet(login)
        assert _report(login, number, _row(1, None), segment=2) is False, "it is not the host's yet"
        assert _head(login, number, 1, segment=2) is False
        for _ in range(2):
            assert login.execute("select runward.begin_segment(1)").fetchall() == [(2,)]
        assert _report(login, number, _row(3, digest(2))) is False, "the earlier one is over"
        assert _report(login, number, _row(1, None, "f"), _row(2, digest(1, "f")), segment=2)
        assert _head(login, number, 1, segment=2)
    with chained.admin() as admin:
        segments = admin.execute("select name, segment from runward.hosts order by 1").fetchall()
    assert segments == [("mallory", 2), ("victim", 1)]
    without(chained, "login = session_user and", "begin_segment", "name = 'victim' and")
    with chained.login() as login:
        login.execute("select runward.begin_segment(1)")
    with chained.admin() as admin:
        assert admin.execute("select name, segment from runward.hosts order by 1").fetchall()[1] == (
            "victim",
            2,
        )


def _segments_filled(login: Connection, behind: int, upto: int) -> int:
    """Begin segments, each once the one before has a receipt; returns the last one."""
    number = _greet(login)
    for segment in range(behind, upto):
        assert login.execute("select runward.begin_segment(%s)", (segment,)).fetchall() == [(segment + 1,)]
        assert _report(login, number, _row(1, None), segment=segment + 1)
    return upto


def test_a_host_can_not_fill_the_fleet_with_segments(chained: Fleet) -> None:
    with chained.login() as login:
        last = _segments_filled(login, 1, 10)
        with pytest.raises(psycopg.DatabaseError, match="had ten segments within a day"):
            login.execute("select runward.begin_segment(%s)", (last,))
    with chained.admin() as admin:
        admin.execute("alter table runward.receipts disable trigger receipts_stay")
        admin.execute("alter table runward.heads disable trigger heads_stay")
        for table in ("receipts", "heads"):
            admin.execute(
                f"update runward.{table} set reported_at = reported_at - interval '1 day'"
                " where host = 'mallory' and segment = 1".encode()
            )
    with chained.login() as login:
        _segments_filled(login, 10, 11)
        with pytest.raises(psycopg.DatabaseError, match="had ten segments"):
            login.execute("select runward.begin_segment(11)")
    without(chained, "segment = behind - 9", "begin_segment", "false")
    with chained.login() as login:
        _segments_filled(login, 11, 13)


def test_a_segment_without_anything_has_none_behind_it(chained: Fleet) -> None:
    with chained.login() as login:
        assert login.execute("select runward.begin_segment(1)").fetchall() == [(2,)]
        assert login.execute("select runward.begin_segment(2)").fetchall() == [(2,)]
        without(
            chained,
            "or not exists (select from receipts",
            "begin_segment",
            "or false and not exists (select from receipts",
        )
        assert login.execute("select runward.begin_segment(2)").fetchall() == [(3,)]


CALLS: dict[str, tuple[str, Callable[[Connection, int], bool]]] = {
    "receipts": ("report_receipts", lambda login, number: _report(login, number, _row(3, digest(2)))),
    "a head": ("report_head", lambda login, number: _head(login, number, 9)),
}


@pytest.mark.parametrize(("function", "call"), CALLS.values(), ids=CALLS)
def test_an_earlier_program_reports_no_chain(
    chained: Fleet, function: str, call: Callable[[Connection, int], bool]
) -> None:
    with chained.login() as login:
        number = _greet(login)
        _greet(login)
        with pytest.raises(psycopg.Error, match="another program reports for this host"):
            call(login, number)
        without(
            chained,
            f"own_name({function}.number)",
            function,
            "(select name from hosts where login = session_user)",
        )
        assert call(login, number)


def test_what_is_no_hash_is_refused(chained: Fleet) -> None:
    with chained.login() as login:
        number = _greet(login)
        with pytest.raises(psycopg.errors.CheckViolation):
            _report(login, number, {"number": 3, "hash": "x" * 71, "prev": digest(2)})
        with pytest.raises(psycopg.errors.CheckViolation):
            _head(login, number, 9, of="X")
