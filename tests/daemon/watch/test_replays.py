"""A whole daemon follows recordings of real programs while they are written: each gets its one verdict, once."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.daemon.in_process import StillClock, ToldProcesses, daemon
from tests.daemon.recordings import RECORDINGS, calls_of, copied, reason_of
from tests.handlers.layouts import cline_lines, opencode_rows

from runward.config.root import Root
from runward.daemon.rundir.session_reading import read_session

AFTER_ALL = 1_795_700_000.0
"""A time after all recordings (Unix seconds)."""

HISTORY = """
select root,
    (select group_concat(reason_code, ' ') from
        (select reason_code from status_history where session_key = s.key order by id)),
    ended_by,
    (select count(*) from attempts where session_key = s.key),
    (select sum(fresh_input + cache_read + cache_write_5m) from usage where session_key = s.key)
from sessions s order by root
"""
"""What became of each session: the reasons for its statuses in order, the evidence of its end, its attempts, and its input tokens."""

ROOTS = {f"{agent}-{situation}": (agent, situation) for agent, situation in RECORDINGS}


def _torn(writes: list[tuple[Path, bytes]], portions: Random) -> Iterator[tuple[Path, bytes]]:
    """The same, and before each of them a part of it, as a reader may find it in between."""
    before = b""
    for path, content in writes:
        begins = len(before) if content.startswith(before) else 0
        yield path, content[: portions.randrange(begins, len(content))]
        yield path, content
        before = content


async def _replay(material: Path, base: Path, portions: Random | None) -> None:
    """Replay all recordings at once, line by line or in portions, with a daemon that is restarted now and then."""
    copies = {root: copied(material, base / root, *each) for root, each in ROOTS.items()}
    told = {root: read_session(each.layout, str(each.path)).told for root, each in copies.items()}
    wanted = [
        (
            root,
            " ".join(filter(None, ("run.started.ok", reason_of(*ROOTS[root])))),
            reason_of(*ROOTS[root]) and "declared",
            1,
            # What the agent asks a model for itself is counted as well.
            sum(one.fresh_input + one.cache_read + one.cache_write_5m for one in each.counted) or None,
        )
        for root, each in sorted(told.items())
    ]
    assert {root: each.counts.tool_calls for root, each in told.items()} == {
        root: calls_of(situation) for root, (_, situation) in ROOTS.items()
    }
    left = {root: list(each.writes()) for root, each in copies.items()}
    if portions is not None:
        left = {root: list(_torn(writes, portions)) for root, writes in left.items()}
    for path in {path for writes in left.values() for path, _ in writes}:
        path.unlink()
    clock = StillClock(wall=AFTER_ALL)
    roots = tuple(Root(root, str(base / root), agent, "live") for root, (agent, _) in ROOTS.items())
    is_over = False
    while not is_over:
        is_over = not any(left.values())  # a daemon that begins after everything changes nothing
        async with daemon(base, clock, ToldProcesses(), roots=roots) as running:
            for _ in range(5 if portions is None else portions.randrange(1, 9)):
                for writes in left.values():
                    count = 1 if portions is None else portions.randrange(4)
                    for path, content in writes[:count]:
                        path.write_bytes(content)
                        os.utime(path, (clock.wall, clock.wall))
                    del writes[:count]
                for seconds in (0, 6, 6) if portions is None else (0, portions.choice((0, 1, 20))):
                    clock.move(seconds)
                    running.supervisor.assembly.queue.may_be_due = True  # as when a wait for it ends
                    await running.settle()
            found = await running.rows(HISTORY), await running.rows("select path, message from problems")
    assert found == (wanted, [])


def test_recordings_that_grow_line_by_line_get_one_verdict_each(material: Path, tmp_path: Path) -> None:
    anyio.run(_replay, material, tmp_path, None)


@pytest.mark.prove
@pytest.mark.timeout(600)  # an example is a whole life of 23 sessions, of a few seconds alone
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
def test_recordings_that_grow_in_any_portions_get_one_verdict_each(material: Path, seed: int) -> None:
    with TemporaryDirectory() as base:
        anyio.run(_replay, material, Path(base), Random(seed))


class _Rows(sqlite3.Connection):
    """Keeps what would be written to a database."""

    def __init__(self) -> None:
        super().__init__(":memory:")
        self.statements: list[tuple[str, Any]] = []

    def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
        self.statements.append((statement, values))
        return super().execute("select 1")


LIVES: dict[str, tuple[Callable[[opencode_rows.Log], object], tuple[object, ...]]] = {
    "ok": (lambda log: log.prompt().say(), ("run.started.ok run.completed.ok", "declared", 1, 100)),
    "tool": (
        lambda log: log.prompt().call().result().say(),
        ("run.started.ok run.completed.ok", "declared", 1, 200),
    ),
    "err400": (lambda log: log.prompt().fail(), ("run.started.ok run.failed.api_error", "declared", 1, None)),
    "int_tool": (lambda log: log.prompt().call(), ("run.started.ok", None, 1, None)),
}
"""The same situations in a database, and what becomes of each: there are no recordings of it."""


async def test_databases_that_grow_row_by_row_get_one_verdict_for_each_session(tmp_path: Path) -> None:
    layouts, clock = ("opencode", "kilo"), StillClock(wall=AFTER_ALL)
    roots = tuple(
        Root(f"{layout}-{situation}", str(tmp_path / f"{layout}-{situation}"), layout, "live")
        for layout in layouts
        for situation in LIVES
    )
    left: dict[str, list[tuple[str, Any]]] = {}
    databases = {}
    for root in roots:
        layout, _, situation = root.name.partition("-")
        Path(root.path).mkdir()
        databases[root.name] = opencode_rows.made(Path(root.path) / f"{layout}.db")
        rows = _Rows()
        LIVES[situation][0](opencode_rows.Sessions(rows).session(f"ses_{root.name}"))
        left[root.name] = rows.statements
    is_over = False
    while not is_over:
        is_over = not any(left.values())  # a daemon that begins after everything changes nothing
        async with daemon(tmp_path, clock, ToldProcesses(), roots=roots) as running:
            for _ in range(5):
                for name, statements in left.items():
                    if statements:
                        databases[name].execute(*statements.pop(0))
                for seconds in (0, 6, 6):
                    clock.move(seconds)
                    running.supervisor.assembly.queue.may_be_due = True  # as when a wait for it ends
                    await running.settle()
            found = await running.rows(HISTORY), await running.rows("select path, message from problems")
    assert found == ([(root, *LIVES[root.partition("-")[2]][1]) for root in sorted(left)], [])
    for each in databases.values():
        each.close()


async def test_no_verdict_is_given_while_what_may_object_is_being_written(tmp_path: Path) -> None:
    clock, place = StillClock(), tmp_path / "cline" / cline_lines.SESSION
    place.mkdir(parents=True)
    documents = cline_lines.Log().prompt().fail().documents("completed")
    async with daemon(
        tmp_path, clock, ToldProcesses(), roots=(Root("cline", str(tmp_path / "cline"), "cline", "live"),)
    ) as running:
        for kept in (50, None):
            for document, content in zip(documents, (None, kept), strict=True):
                (place / document.name).write_bytes(document.content[:content])
                os.utime(place / document.name, (clock.wall, clock.wall))
            await running.settle()
            assert await running.rows(HISTORY) == (
                [] if kept else [("cline", "run.started.ok run.failed.api_error", "declared", 1, None)]
            )
            clock.move(1)
