"""Whatever functions and tables the fleet's database has: each function refuses an earlier program by its own fence, and no table
can be written. New ones are found here by themselves."""

import re
from typing import Final, NamedTuple

import psycopg
import pytest
from tests.daemon.fleet.attacked import Fleet

from runward.daemon.fleet.schema import READ

FENCED: Final = "RW003"

_FENCES: Final = {
    r"own_name\([\w.]*number\)": "(select name from hosts where login = session_user)",
    r"connections = number": "connections >= 0",
}
"""How a function refuses an earlier program, and what it would be without that."""


class Function(NamedTuple):
    """A function that hosts call with the number of their program, its types, and its text."""

    oid: int
    name: str
    types: tuple[str, ...]
    text: str

    @property
    def call(self) -> str:
        """With nothing but the number: the fence comes before all that is given."""
        given = ", ".join(["%s", *(f"null::{each}" for each in self.types[1:])])
        return f"select runward.{self.name}({given})"


def _functions(fleet: Fleet) -> list[Function]:
    with fleet.admin() as admin:
        rows = admin.execute(
            "select p.oid, p.proname, array(select format_type(t, null) from unnest(p.proargtypes) with ordinality u(t, n)"
            " order by n), pg_get_functiondef(p.oid) from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
            " where n.nspname = 'runward' and p.proargnames[1] = 'number' order by p.proname"
        ).fetchall()
    return [Function(oid, name, tuple(types), text) for oid, name, types, text in rows]


def _is_fenced(fleet: Fleet, function: Function) -> bool:
    """Whether the function refuses the program before the last one."""
    with fleet.login() as earlier, fleet.login() as later:
        ((number,),) = earlier.execute("select runward.greet(1, '1.0')").fetchall()
        later.execute("select runward.greet(1, '1.0')")
        try:
            earlier.execute(function.call.encode(), (number,))
        except psycopg.Error as error:
            # Without its fence it may find fault with what it is given.
            return error.sqlstate == FENCED
        return False


def test_each_function_refuses_an_earlier_program_by_a_fence_of_its_own(fleet: Fleet) -> None:
    functions = _functions(fleet)
    assert {each.name for each in functions} >= {"heard", "place_order", "take_orders", "own_name"}
    for function in functions:
        assert _is_fenced(fleet, function), function.name
        unfenced = function.text
        for fence, instead in _FENCES.items():
            unfenced = re.sub(fence, instead, unfenced)
        with fleet.admin() as admin:
            admin.execute(unfenced.encode())
            try:
                assert not _is_fenced(fleet, function), f"{function.name} without its fence"
            finally:
                admin.execute(function.text.encode())


def test_what_a_host_may_read_is_listed_and_it_may_write_nothing(fleet: Fleet) -> None:
    def found() -> dict[str, list[str]]:
        with fleet.admin() as admin:
            rows = admin.execute(
                "select c.relname, array(select p from unnest(array['select', 'insert', 'update', 'delete', 'truncate',"
                " 'references', 'trigger']) p where has_table_privilege('host_mallory', c.oid, p)"
                " or p in ('select', 'insert', 'update', 'references') and has_any_column_privilege('host_mallory', c.oid, p))"
                " from pg_class c join pg_namespace n on n.oid = c.relnamespace"
                " where n.nspname = 'runward' and c.relkind in ('r', 'p', 'v', 'm')"
            ).fetchall()
        return {str(name): list(rights) for name, rights in rows}

    expected = {name: ["select"] if name in READ else [] for name in found()}
    assert {*READ} <= {*expected}
    assert found() == expected
    # One column is enough to be noticed.
    with fleet.admin() as admin:
        admin.execute("grant update (labels) on runward.hosts to host_mallory")
    assert found() != expected


@pytest.mark.parametrize("change", ["reset search_path", "set search_path = runward", "security invoker"])
def test_a_function_that_trusts_its_caller_is_found(fleet: Fleet, change: str) -> None:
    def trusting() -> list[str]:
        with fleet.admin() as admin:
            rows = admin.execute(
                "select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
                " where n.nspname = 'runward' and (not p.prosecdef"
                " or p.proconfig is distinct from '{\"search_path=pg_catalog, runward, pg_temp\"}')"
            ).fetchall()
        return [str(name) for (name,) in rows]

    assert trusting() == []
    with fleet.admin() as admin:
        admin.execute(f"alter function runward.settle_order {change}".encode())
    assert [name.partition("(")[0] for name in trusting()] == ["runward.settle_order"]
