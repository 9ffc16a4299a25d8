"""No page and no figure of the menu reads, counts or sorts a whole table, however many rows there are."""

import html
import re
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from typing import Final
from urllib.parse import urljoin

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.studio.conftest import Studio
from tests.daemon.studio.crowded import UNLINKED, crowded, kind_of, unvisited

from runward.daemon.store import reading

__all__ = ["crowded"]

LISTS: Final = (
    "/",
    "/sessions",
    "/sessions?status=running",
    "/sessions?failed=true",
    "/sessions?after=9999999999.5,native:runs/a",
    "/invocations",
    "/outcomes",
    "/outcomes?kind=review_verdict&passed=false&since=7d",
    "/chains",
    "/shows",
    "/exchange",
    "/daemon",
)

OLDER: Final = (
    "/shows?after=9.5,/a",
    "/daemon?notices_after=9.5,nt_a",
    "/exchange?owner=writer&type=code",
    "/exchange?artifacts_after=a&principals_after=a&ledger_before=9&log_before=9",
    "/invocations?after=9.5,inv_a",
    "/invocations?skill=chain&status=failed&since=7d",
    "/outcomes?after=9.5,ar_a&session=native:runs/all",
    "/outcomes?chain_run=cr_a",
    "/chains?after=9.5,cr_a&status=failed&since=7d",
)
"""What follows a part of a list, and filters that no link has."""

SMALL: Final = {
    "daemon": "has one row",
    "session_counts": "has a row for each status",
    "chain_run_counts": "has a row for each status",
    "roots": "has a row for each root of the settings",
    "chains": "has a row for each chain that a person paused or disabled",
    "schedules": "has a row for each chain with a schedule",
    "problems": "has what is wrong with files now, all of which is shown",
    "unseen_counts": "has a row for each minute of the last day",
}
"""Tables that may be read as a whole, and why."""

OPEN: Final = {
    "approvals_asked": "what waits for a person",
    "chain_runs_open": "what runs",
    "chain_steps_slots": "what runs",
    "cursors_open": "what runs",
    "jobs_due": "what is not done",
    "jobs_open": "what is not done",
    "jobs_running": "what is not done",
    "notices_dead": "what was given up",
    "notices_pending": "what is not delivered",
    "sessions_unseen": "what failed within one minute and nobody has seen, or the newest of it",
}
"""Partial indexes that may be read as a whole, and what they have."""

OF_ONE: Final = {
    "cpu_use_principal": "what a principal used within one window",
    "invocations_of_steps": "the steps of one chain run",
}
"""Indexes of which a range may be read, and what is in it."""

_TABLE = re.compile(
    r"\b(?:from|join)\s+(?:main\.)?(\w+)(?:\s+(?:as\s+)?(?!where\b|join\b|on\b|left\b|cross\b)(\w+))?"
)
_INDEX = re.compile(r" USING (?:COVERING )?INDEX (\w+)")
_SORT = re.compile(r"USE TEMP B-TREE FOR ")
_BOUND = re.compile(r"[<>]\(?\?")
"""Of a range. One with both bounds is what is recorded of one subject: its keys, its numbers, its names; of the cursors, a whole root."""


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the Studio asks the store."""
    seen: list[str] = []
    connect = reading._connect

    def traced(path: str) -> sqlite3.Connection:
        connection = connect(path)
        connection.set_trace_callback(
            lambda sql: seen.append(sql) if sql[:6] in ("select", "with r") else None
        )
        return connection

    monkeypatch.setattr(reading, "_connect", traced)
    return seen


@pytest.mark.parametrize("path", LISTS)
async def test_no_page_with_a_list_reads_or_sorts_a_whole_table(
    filled: Studio, statements: list[str], path: str
) -> None:
    assert (await filled.get(path)).status == 200
    assert statements
    with closing(sqlite3.connect(filled.state / "runward.db")) as store:
        wrong = {sql: steps for sql in statements if (steps := _unbounded(store, sql))}
    assert not wrong


async def test_the_result_of_a_request_is_found_without_reading_what_else_was_recorded(
    filled: Studio, statements: list[str]
) -> None:
    await filled.get(f"/sessions?request={uuid.uuid4()}")
    with closing(sqlite3.connect(filled.state / "runward.db")) as store:
        assert not [sql for sql in statements if _unbounded(store, sql)]


@pytest.mark.prove
async def test_no_page_at_all_reads_or_sorts_a_whole_table(
    crowded: Place, studio_over: Callable[[Place], Studio], statements: list[str]
) -> None:
    studio = studio_over(crowded)
    waiting = [*LISTS, *UNLINKED, *OLDER]
    known = {kind_of(each) for each in waiting}
    visited = []
    wrong: dict[str, list[str]] = {}
    with closing(sqlite3.connect(studio.state / "runward.db")) as store:
        while waiting:
            path = waiting.pop(0)
            text = (await studio.get(path)).text
            visited.append(path)
            wrong |= {f"{path}: {sql}": steps for sql in statements if (steps := _unbounded(store, sql))}
            statements.clear()
            for found in re.findall('<a [^>]*href="([^"#]+)', text.partition("<main")[2]):
                link = urljoin(path, html.unescape(found))
                if (
                    link.startswith("/")
                    and not re.search("download=|format=json", link)
                    and kind_of(link) not in known
                ):
                    known.add(kind_of(link))
                    waiting.append(link)
    assert unvisited(visited) == []
    assert not wrong


def _unbounded(store: sqlite3.Connection, sql: str) -> list[str]:
    """The steps of a plan that grow with a table: they read all of it, or much, and it is no part in its own order."""
    tables = {name for (name,) in store.execute("select name from sqlite_schema where type = 'table'")}
    names = {alias or table: table for table, alias in _TABLE.findall(sql)} | {name: name for name in tables}
    plan = [(parent, str(step)) for _, parent, _, step in store.execute(f"explain query plan {sql}")]
    sorted_groups = {parent for parent, step in plan if _SORT.match(step)}
    inner = {step.split()[1] for _, step in plan if step.startswith(("CO-ROUTINE", "MATERIALIZE"))}
    wrong = []
    for parent, step in plan:
        kind, alias = (*step.split(), "")[:2]
        table, index = names.get(alias), _INDEX.search(step)
        if (
            alias in inner
            or table not in tables
            or table in SMALL
            or (index and index[1] in {*OPEN, *OF_ONE})
        ):
            continue
        bounds = len(_BOUND.findall(step))
        is_range = kind == "SEARCH" and (bounds == 1 or (bounds == 2 and table == "cursors"))
        is_part = " limit " in sql and parent not in sorted_groups
        # In the order of the rows' numbers, all may be read until one meets the condition.
        is_search = kind == "SCAN" and index is None and " where " in sql
        if (kind == "SCAN" or is_range) and (not is_part or is_search):
            wrong.append(step)
    return wrong
