"""Where a path is after directories were moved."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.daemon.store import moving
from runward.daemon.store.batch import Batch
from runward.daemon.store.connection import connect
from runward.daemon.store.due_jobs import due_jobs
from runward.daemon.store.hash_chain import GENESIS_HEAD
from runward.daemon.store.moving import Moves, asked, common_move, move_rows
from runward.daemon.store.packed_document import COLUMNS, Document, pack, unpack
from runward.daemon.store.schema import make_empty
from runward.daemon.store.store import Store
from runward.daemon.store.tables.all import MOVED, statements
from runward.daemon.store.tables.events import add_event
from runward.daemon.store.transaction import Row
from runward.handlers.model.sessions import AttemptStarted, SessionDeclaration

HOME = Moves((("/home/a", "/home/b"), ("/home/a/work", "/srv/work"), ("/x", "/home/a")))


@pytest.mark.parametrize(
    ("path", "now"),
    [
        ("/home/a", "/home/b"),
        ("/home/a/.claude", "/home/b/.claude"),
        ("/home/ab", "/home/ab"),
        ("/home/ab/a", "/home/ab/a"),
        ("/home/a/work", "/srv/work"),
        ("/home/a/work/app", "/srv/work/app"),
        ("/home/a/works", "/home/b/works"),
        ("/x/y", "/home/a/y"),
        ("/home", "/home"),
        ("home/a", "home/a"),
        ("sessions/home/a", "sessions/home/a"),
        ("look into /home/a", "look into /home/a"),
        ("/home/a look", "/home/a look"),
        ("", ""),
    ],
)
def test_the_innermost_old_directory_counts_and_each_path_is_moved_once(path: str, now: str) -> None:
    assert HOME.path(path) == now


def test_in_json_only_values_that_are_paths_are_moved() -> None:
    text = '{"cwd":"/home/a/app","words":["ls /home/a","/home/a"],"/home/a":1,"name":"/home/ab"}'
    moved = '{"cwd":"/home/b/app","words":["ls /home/a","/home/b"],"/home/a":1,"name":"/home/ab"}'
    assert HOME.in_json(text) == moved
    kept = '{ "a" : "/home/ab", "b": "in /home/a" }'
    assert HOME.in_json(kept) is kept


_NAMES = st.sampled_from(("a", "ab", "b"))
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))


@given(st.dictionaries(_PATHS, _PATHS, max_size=4), _PATHS)
def test_moves_are_what_a_walk_up_the_tree_finds(pairs: dict[str, str], path: str) -> None:
    names, rest = path.split("/"), list[str]()
    while len(names) > 1 and "/".join(names) not in pairs:
        rest.insert(0, names.pop())
    found = pairs.get("/".join(names))
    expected = path if found is None else "/".join([found, *rest])
    assert Moves(tuple(pairs.items())).path(path) == expected


def test_what_is_asked_is_read_with_or_without_slashes_at_the_ends() -> None:
    assert [*asked(("/a=/b", "/c//d/=/e/"))] == [("/a", "/b"), ("/c/d", "/e")]


@pytest.mark.parametrize(
    "text", ["", "/a", "/a=", "=/a", "a=/b", "/a=b", "/=/b", "/a=/", "/a/../b=/c", "/a=/b/."]
)
def test_what_is_no_pair_of_absolute_paths_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        list(asked((text,)))


def test_one_directory_is_moved_to_one_place() -> None:
    with pytest.raises(ValueError, match="moved twice"):
        list(asked(("/a=/b", "/a/=/c")))


@pytest.mark.parametrize(
    ("old", "new", "move"),
    [
        ("/home/a/.local/state/runward", "/home/b/.local/state/runward", ("/home/a", "/home/b")),
        ("/home/a/state", "/srv/data/state", ("/home/a", "/srv/data")),
        ("/var/lib/runward", "/var/lib/other", None),
        ("/a/b", "/a/b", None),
        ("/a", "/x/a", None),
    ],
)
def test_where_a_directory_went_is_guessed_from_the_names_that_stayed(
    old: str, new: str, move: tuple[str, str] | None
) -> None:
    assert common_move(old, new) == move


_RELATIVE: Final = {"cursors.directory", "files.path", "artifacts.file_path"}
"""Below a root, and below the artifacts of a session."""

_BEGIN_ANEW: Final = {"watched_files.path"}
"""A restore empties the table."""


def test_every_column_that_is_called_after_a_place_is_moved() -> None:
    with closing(sqlite3.connect(":memory:")) as store:
        make_empty(store)
        called = {
            f"{table}.{column}"
            for (table,) in store.execute("select name from sqlite_schema where type = 'table'").fetchall()
            for (column,) in store.execute("select name from pragma_table_info(?)", (table,))
            if column in ("path", "directory", "repo", "show") or column.endswith(("_path", "_dir"))
        }
    moved = {
        f"{statement.split()[1]}.{column}"
        for statement in (*MOVED, *moving.FURTHER)
        for column in re.findall(r"(\w+) = moved\(\1\)", statement)
    }
    assert called - moved == _RELATIVE | _BEGIN_ANEW


def store_with(tmp_path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(tmp_path / "runward.db", isolation_level=None)
    make_empty(connection)
    return connection


async def test_an_open_job_reads_where_its_session_is_now_and_the_event_stays(tmp_path: Path) -> None:
    declaration = SessionDeclaration(
        "one", "native", "runs", "/home/a/runs/one", "agent", "/home/a/runs/one/artifacts", prompt="/home/ab"
    )
    events = [
        AttemptStarted(f"native:runs/{name}", 1, 5.0, declaration) for name in ("done", "waiting", "held")
    ]
    with closing(store_with(tmp_path)) as connection:
        batch = Batch(GENESIS_HEAD, 1, 6.0, 6.0)
        for event in events:
            add_event(batch, event)
        for statement in statements(batch):
            connection.executemany(statement.sql, statement.rows)
        connection.execute("update jobs set state = 'done' where lane = 'native:runs/done'")
        connection.execute("update jobs set state = 'held' where lane = 'native:runs/held'")
        before = connection.execute("select * from events").fetchall()
        move_rows(connection, Moves((("/home/a", "/home/b"),)), MOVED)
        assert connection.execute("select * from events").fetchall() == before
        assert connection.execute("select event from moved_payloads order by 1").fetchall() == [(2,), (3,)]
    store = Store(await connect(tmp_path / "runward.db"))
    try:
        (job,) = {each.event: each for each in (await due_jobs(store, 10.0, 9)).jobs}
    finally:
        await store.close()
    assert isinstance(job, AttemptStarted)
    assert job.session_key == "native:runs/waiting"
    assert job.declaration is not None
    assert job.declaration.path == "/home/b/runs/one"
    assert job.declaration.artifacts_path == "/home/b/runs/one/artifacts"
    assert job.declaration.prompt == "/home/ab"


def test_a_packed_session_has_its_journals_where_they_are_now(tmp_path: Path) -> None:
    rows: dict[str, list[Row]] = {table: [] for table in COLUMNS}
    own, of_run = "sessions/codex/aa/own", "/home/a/runs/one"
    for number, directory in enumerate((own, of_run)):
        rows["journal_lines"].append((number, directory, "events.jsonl", 0, b"in /home/a\n", 0, None, None))
    with closing(store_with(tmp_path)) as connection:
        connection.execute(
            "insert into packed values ('codex:a', 1.0, ?)", (pack(Document("[]", None, {}, rows)),)
        )
        schema = connection.execute("select name, sql from sqlite_schema order by 1").fetchall()
        move_rows(connection, Moves((("/home/a", "/home/b"),)), MOVED)
        ((document,),) = connection.execute("select document from packed").fetchall()
        assert connection.execute("select name, sql from sqlite_schema order by 1").fetchall() == schema
    lines = unpack(document).rows["journal_lines"]
    assert [line[1] for line in lines] == [own, "/home/b/runs/one"]
    assert [line[4] for line in lines] == [b"in /home/a\n"] * 2


def test_a_packed_session_that_can_not_be_read_is_said(tmp_path: Path) -> None:
    with closing(store_with(tmp_path)) as connection:
        connection.execute("insert into packed values ('codex:a', 1.0, x'00')")
        with pytest.raises(ValueError, match="a packed session can't be read"):
            move_rows(connection, Moves((("/home/a", "/home/b"),)), MOVED)
