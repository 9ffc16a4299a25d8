"""Rows of queries are read by the fields of their class."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Literal, NamedTuple

import pytest

from runward.config.json_value import JsonValue
from runward.daemon.store.rows import (
    columns,
    groups_of,
    row_of,
    rows_by_attempt,
    rows_by_key,
    rows_of,
    select,
    value_of,
    values_of,
)


class Place(NamedTuple):
    line: int
    column: int = 1


class Found(NamedTuple):
    key: str
    at: float
    state: Literal["open", "over"]
    is_known: bool
    told: bool | None
    facts: JsonValue
    names: tuple[str, ...]
    place: Place
    places: tuple[Place, ...]
    note: str | None = None


ROW = ("a", 1, "open", 1, None, '{"x": [1]}', '["b", "c"]', "[7]", "[[1, 2], [3]]")


@pytest.fixture
def store() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table places (name text, line integer, c integer)")
        connection.executemany("insert into places values (?, ?, ?)", [("a", 1, 2), ("b", 3, 4), ("a", 5, 6)])
        yield connection


def test_the_types_of_the_fields_say_how_values_are_read() -> None:
    (found,) = rows_of(Found, [ROW])
    assert found == Found(
        key="a",
        at=1.0,
        state="open",
        is_known=True,
        told=None,
        facts={"x": [1]},
        names=("b", "c"),
        place=Place(7),
        places=(Place(1, 2), Place(3)),
    )
    assert (type(found), type(found.at), type(found.is_known)) == (Found, float, bool)


def test_rows_with_values_of_other_types_are_read_after_each_other() -> None:
    first, second, third = rows_of(Found, [(*ROW[:4], each, *ROW[5:]) for each in (None, 0, 1)])
    assert (first.told, second.told, third.told) == (None, False, True)


@pytest.mark.parametrize(("place", "value"), [(0, None), (0, 1), (1, "1"), (3, 1.0), (5, 1), (6, None)])
def test_a_value_that_its_field_cant_have_is_an_error(place: int, value: object) -> None:
    with pytest.raises(TypeError, match=Found._fields[place]):
        rows_of(Found, [(*ROW[:place], value, *ROW[place + 1 :])])


@pytest.mark.parametrize("row", [ROW[:-1], (*ROW, "note", "more")])
def test_a_row_with_other_columns_than_fields_is_an_error(row: tuple[object, ...]) -> None:
    with pytest.raises(TypeError, match="columns"):
        rows_of(Found, [row])


def test_a_field_may_have_a_way_of_its_own() -> None:
    assert rows_of(Place, [("x", 2)], line=len) == [Place(1, 2)]
    assert row_of(Place, ("xy", 2), line=len) == Place(2, 2)
    assert row_of(Place, None, line=len) is None


def test_a_query_asks_for_the_fields(store: sqlite3.Connection) -> None:
    assert columns(Place, "p", column="p.c") == "p.line, p.c"
    assert columns(Place, column=None) == "line"
    query = select(Place, "from places p order by line", "p", by="p.name", column="p.c")
    rows = store.execute(query).fetchall()
    assert groups_of(Place, rows) == {"a": (Place(1, 2), Place(5, 6)), "b": (Place(3, 4),)}
    assert rows_by_key(Place, rows) == {"a": Place(5, 6), "b": Place(3, 4)}
    assert rows_by_attempt(Place, [("a", 1, 2, 3)]) == {("a", 1): Place(2, 3)}
    assert rows_of(tuple[str, int], [row[:2] for row in rows]) == [("a", 1), ("b", 3), ("a", 5)]


def test_single_values_are_read_by_their_type(store: sqlite3.Connection) -> None:
    assert values_of(str, store.execute("select name from places order by line")) == ["a", "b", "a"]
    assert values_of(float, [(1,), (2.5,)]) == [1.0, 2.5]
    assert value_of(int, store.execute("select max(line) from places").fetchone()) == 5
    assert value_of(int, (None,)) is None
    assert value_of(int, None) is None
    with pytest.raises(TypeError):
        values_of(str, [("a",), (1,)])
