"""Sessions that are rows of a database: what happened is told, whenever one looks, and nothing is written beside it."""

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.handlers.layouts.directories import HUGE, json_text
from tests.handlers.layouts.opencode_rows import BEGAN_MS, KILO_INDEXES, SESSION, Log, Sessions, made
from tests.handlers.layouts.pi_lines import BEGAN

from runward.config.root import Root
from runward.daemon.rundir import database_sessions, databases
from runward.daemon.rundir.call_reading import told_by
from runward.daemon.rundir.database_sessions import sessions_in
from runward.daemon.rundir.databases import CannotAsk, kept_open
from runward.daemon.rundir.explaining import explain
from runward.daemon.rundir.message_reading import messages_of
from runward.daemon.rundir.run_directories import Listing
from runward.daemon.rundir.session_files import NOTHING_READ, FilesRead
from runward.daemon.rundir.session_places import Obstacle, Place, list_places, place_signature, sessions_under
from runward.daemon.rundir.session_reading import (
    SessionSight,
    final_message,
    identify,
    look_at_session,
    read_session,
)
from runward.daemon.watch.hints import ITSELF
from runward.daemon.watch.notifications import Translator
from runward.daemon.watch.roots import WatchedRoot
from runward.handlers.calls import Called, Paid, Returned
from runward.handlers.layouts.layout import LogLayout, Scan
from runward.handlers.layouts.opencode import OPENCODE_DATABASE
from runward.handlers.layouts.places import shape_of
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.layouts.transcript import Said, Told
from runward.handlers.model.files import Unreadable

LAYOUT: Final = LAYOUTS.named("opencode")
assert isinstance(LAYOUT, LogLayout)
SHAPE: Final = shape_of(LAYOUT)
NAME: Final = "opencode.db"
PLACE: Final = f"{NAME}/{SESSION}"

Write = Callable[[Log], Any]

SITUATIONS: Final[dict[str, tuple[Write, str, str | None, tuple[int, int], tuple[int, int] | None]]] = {
    "ok": (lambda log: log.prompt().say(), "closed", "run.completed.ok", (0, 0), (100, 10)),
    "a tool": (lambda log: log.prompt().call().result().say(), "closed", "run.completed.ok", (1, 0), (200, 20)),
    "a tool that failed": (lambda log: log.prompt().call().result(failed=True).say(), "closed", "run.completed.ok", (1, 1), (200, 20)),
    "two tools at once": (lambda log: log.prompt().call("a").run("b").returned().end("tool-calls").say(), "closed", "run.completed.ok", (2, 0), (200, 20)),
    "an API error": (lambda log: log.prompt().fail(), "closed", "run.failed.api_error", (0, 1), None),
    "another error": (lambda log: log.prompt().fail("UnknownError"), "closed", "run.failed.exception", (0, 1), None),
    "interrupted": (lambda log: log.prompt().fail("MessageAbortedError"), "closed", "run.aborted.user", (0, 0), None),
    "cut by the limit": (lambda log: log.prompt().say(finish="length"), "closed", "run.failed.limit_reached", (0, 1), (100, 10)),
    "killed before the prompt's text": (lambda log: log.message({"role": "user"}), "open", None, (0, 0), None),
    "killed in a request": (lambda log: log.prompt().begin(), "open", None, (0, 0), None),
    "killed in a tool": (lambda log: log.prompt().call(), "open", None, (1, 0), None),
    "killed after a tool": (lambda log: log.prompt().call().result(), "open", None, (1, 0), (100, 10)),
    "killed after a text": (lambda log: log.prompt().begin().write_text("Now"), "open", None, (0, 0), None),
    "tools that a person refused": (lambda log: log.prompt().call().result(failed=True), "open", None, (1, 1), (100, 10)),
    "an unknown finish": (lambda log: log.prompt().say(finish="unknown"), "open", None, (0, 0), (100, 10)),
    "resumed after a kill": (lambda log: log.prompt().call().prompt().say(), "closed", "run.completed.ok", (1, 0), (100, 10)),
    "a further prompt": (lambda log: log.prompt().say().prompt(), "open", None, (0, 0), (100, 10)),
    "nothing asked": (lambda log: log, "none", None, (0, 0), None),
    "a summary in between": (lambda log: summary(log.prompt().call().result(), auto=True), "open", None, (1, 0), (200, 20)),
    "a summary that a person asked for": (lambda log: summary(log.prompt().say(), auto=False), "closed", "run.completed.ok", (0, 0), (200, 20)),
}  # fmt: skip
"""What happened; then the turn, how it ended, calls and errors, and tokens."""

COMPLETES: Final = '"finish": "stop"'


def summary(log: Log, *, auto: bool) -> Log:
    log.asked = log.message({"role": "user"})
    log.part(log.asked, {"type": "compaction", "auto": auto})
    return log.begin(summary=True, mode="compaction").write_text("What was done").end("stop")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = made(tmp_path / NAME)
    yield connection
    connection.close()


def read(root: Path, session: str = SESSION, layout: str = "opencode") -> Told:
    found = read_session(LAYOUTS.named(layout), f"{root}/{NAME}/{session}")
    assert found.obstacles == ()
    return found.told


class Looks:
    """Looks at a session, as the daemon does: each continues where the last one ended."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.read: FilesRead = NOTHING_READ
        self.scan: Scan | None = None
        self.anew = 0
        self.bytes_read = 0

    def look(self, now: float = BEGAN + 10_000) -> Told:
        assert isinstance(LAYOUT, LogLayout)
        sight = look_at_session(str(self.root), PLACE, LAYOUT, self.read, 1 << 20, now)
        assert isinstance(sight, SessionSight), sight
        assert sight.obstacles == ()
        if self.scan is None or sight.anew:
            self.anew += sight.anew
            self.scan = LAYOUT.start(SESSION)
        for portion in sight.portions:
            self.scan, _ = self.scan.feed(portion.name, portion.lines)
        self.read, self.bytes_read = sight.read, sight.bytes_read
        # As it is stored in between.
        self.scan = LAYOUT.load(self.scan.dump())
        return self.scan.tell()


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_happened_is_told(tmp_path: Path, database: sqlite3.Connection, name: str) -> None:
    write, turn, reason, (calls, errors), usage = SITUATIONS[name]
    write(Sessions(database).session())
    found = read(tmp_path)
    assert (found.turn, None if found.close is None else found.close.reason_code) == (turn, reason)
    assert (found.counts.tool_calls, found.counts.errors) == (calls, errors)
    assert (None if found.usage is None else tuple(found.usage)) == usage
    assert (found.unreadable, found.headless, found.is_subagent) == (0, None, False)


@pytest.mark.parametrize("name", SITUATIONS)
def test_whenever_one_looks_the_end_is_the_same_and_no_unfinished_turn_is_complete(
    tmp_path: Path, database: sqlite3.Connection, name: str
) -> None:
    looks = Looks(tmp_path)
    newest = "select data from message order by time_created desc, id desc limit 1"

    def seen() -> None:
        found = looks.look(sessions.clock / 1000)
        assert found == read(tmp_path)
        if found.close is not None and found.close.status == "completed":
            (data,) = database.execute(newest).fetchone()
            assert COMPLETES in data
            assert '"completed"' in data

    sessions = Sessions(database, seen)
    SITUATIONS[name][0](sessions.session())
    assert looks.anew == 0, "what was read once stays as it is"


def test_who_where_what_and_the_cost_are_told(tmp_path: Path, database: sqlite3.Connection) -> None:
    sessions = Sessions(database)
    sessions.session().prompt().say()
    found = read(tmp_path)
    assert (found.session_id, found.cwd, found.model) == (SESSION, "/home/dev/app", "mock-model")
    assert (found.version, found.prompt) == ("1.18.33", "make a file")
    assert (found.started_at, found.moved_at) == (BEGAN, sessions.clock / 1000)
    (sums,) = found.counted
    assert (sums.fresh_input, sums.cache_read, sums.output, sums.replies) == (60, 40, 10, 1)
    assert sums.reported_nanousd == 2_000_000


def test_kilos_own_indexes_hinder_nobody(tmp_path: Path) -> None:
    database = made(tmp_path / "kilo.db")
    database.executescript(KILO_INDEXES)
    Sessions(database).session().prompt().call().result().say()
    (found,) = sessions_under(str(tmp_path), LAYOUTS)
    assert isinstance(found, Place)
    assert found.path == f"{tmp_path}/kilo.db/{SESSION}"
    assert isinstance(found.layout, LogLayout)
    assert found.layout.name == "kilo"
    assert read_session(found.layout, found.path).told.usage == (200, 20)
    database.close()


def test_a_cost_of_nothing_is_not_known(tmp_path: Path, database: sqlite3.Connection) -> None:
    Sessions(database).session().prompt().begin().end("stop", cost=0)
    (sums,) = read(tmp_path).counted
    assert sums.reported_nanousd is None


def test_calls_results_texts_and_the_last_message(tmp_path: Path, database: sqlite3.Connection) -> None:
    log = (
        Sessions(database)
        .session()
        .prompt("hello")
        .call(command="ls")
        .returned(exit_code=2)
        .end("tool-calls")
    )
    path = f"{tmp_path}/{PLACE}"
    assert final_message("opencode", path) is None
    log.say("Bye.")
    called, returned, *paid = told_by("opencode", path, lambda read: True)
    assert isinstance(called, Called)
    assert isinstance(returned, Returned)
    assert [each.usd for each in paid if isinstance(each, Paid)] == [0.002, 0.002]
    assert (called.id, called.tool, called.params, called.at) == (
        "call_1",
        "bash",
        {"command": "ls"},
        BEGAN + 3,
    )
    assert (returned.exit_code, returned.success, returned.error, returned.at) == (
        2,
        False,
        "fine",
        BEGAN + 4,
    )
    assert [each.said for each in messages_of("opencode", path)] == [
        Said(BEGAN + 1, "user", "hello"),
        Said(BEGAN + 7.006, "assistant", "Bye."),
    ]
    assert final_message("opencode", path) == "Bye."
    log.fail()
    assert final_message("opencode", path) is None


def test_a_fork_has_only_what_is_its_own(tmp_path: Path, database: sqlite3.Connection) -> None:
    sessions = Sessions(database)
    sessions.session().prompt("the first").call().result().say()
    forked_at = sessions.tick()
    fork = sessions.session("ses_fork")
    # The copies have their own ids, and the times of what they are copies of.
    for number, (at, data) in enumerate(
        database.execute("select time_created, data from message").fetchall()
    ):
        database.execute(
            "insert into message values (?, 'ses_fork', ?, ?, ?)", (f"msg_copy{number}", at, forked_at, data)
        )
    before = read(tmp_path, "ses_fork")
    assert (before.turn, before.usage, before.counts.tool_calls) == ("none", None, 0)
    fork.prompt("the second").say()
    found = read(tmp_path, "ses_fork")
    assert (found.prompt, found.counts.tool_calls, found.usage) == ("the second", 0, (100, 10))
    assert found.started_at == forked_at / 1000


def test_a_sub_agent_is_a_session_that_is_linked_and_its_calls_are_its_own(
    tmp_path: Path, database: sqlite3.Connection
) -> None:
    sessions = Sessions(database)
    log = sessions.session().prompt().call(tool="task")
    sessions.session("ses_child", SESSION).prompt("look").call().result().say()
    log.result().say()
    found = read(tmp_path)
    assert (found.counts.subagents, found.counts.tool_calls, found.usage) == (1, 1, (200, 20))
    child = read(tmp_path, "ses_child")
    assert (child.works_for, child.is_subagent, child.counts.tool_calls, child.usage) == (
        SESSION,
        False,
        1,
        (200, 20),
    )
    found_at = identify(str(tmp_path), PLACE, LAYOUTS)
    assert found_at is not None
    assert not isinstance(found_at, Unreadable)
    assert (found_at.layout.name, found_at.session_id) == ("opencode", SESSION)


def test_a_session_that_is_taken_back_is_read_anew(tmp_path: Path, database: sqlite3.Connection) -> None:
    log = Sessions(database).session().prompt().say().prompt("more").call().result().say()
    looks = Looks(tmp_path)
    assert looks.look().counts.tool_calls == 1
    database.execute(
        "delete from part where message_id in (select id from message order by rowid desc limit 3)"
    )
    database.execute("delete from message where id in (select id from message order by rowid desc limit 3)")
    log.all.clock = BEGAN_MS + 5_000
    log.prompt("instead")
    found = looks.look()
    assert (looks.anew, found.counts.tool_calls, found.turn) == (1, 0, "open")


def test_a_long_session_is_read_on_from_where_it_was_read(
    tmp_path: Path, database: sqlite3.Connection
) -> None:
    log = Sessions(database).session()
    for number in range(200):
        log.prompt("p" * 1000).call(f"call_{number}").result()
    looks = Looks(tmp_path)
    looks.look()
    assert looks.bytes_read > 200_000
    asked: list[object] = []
    database.set_trace_callback(asked.append)
    log.say()
    looks.look()
    assert looks.bytes_read < 2_000
    assert looks.anew == 0


# What a root has.


def listed(root: Path) -> Listing:
    found = list_places(str(root), SHAPE)
    assert isinstance(found, Listing)
    return found


def test_what_is_written_to_a_database_may_be_of_any_of_its_sessions() -> None:
    root = WatchedRoot(Root("a", "/home", "opencode"), SHAPE)
    assert root.is_shallow
    translate = Translator("/inbox", [root])
    for name in (NAME, f"{NAME}-wal", "opencode-dev.db-wal"):
        assert translate([f"/home/{name}"])[0] == [("a", ITSELF)]
    for name in (f"{NAME}-shm", "other.db", "log/opencode.log", "storage"):
        assert translate([f"/home/{name}"])[0] == []
    assert translate([f"/home/{PLACE}"])[0] == [("a", PLACE)]


def test_sessions_are_listed_with_what_changes_with_them(
    tmp_path: Path, database: sqlite3.Connection
) -> None:
    sessions = Sessions(database)
    before: dict[str, object] = {}

    def seen() -> None:
        found = listed(tmp_path).directories
        for place, signature in found.items():
            assert signature == place_signature(str(tmp_path), place, SHAPE)
        changed = {place for place in found if found[place] != before.get(place)}
        if before:
            # The diffs that are added to a prompt say nothing about the session.
            assert changed <= {PLACE, f"{NAME}/ses_other"}
        before.clear()
        before.update(found)

    sessions.session("ses_other").prompt().say()
    for number in range(50):
        sessions.session(f"ses_{number}").prompt()
    sessions.seen = seen
    log = sessions.session()
    previous = None
    steps: list[Callable[[], Log]] = [
        log.prompt,
        log.begin,
        lambda: log.write_text("a"),
        log.run,
        log.returned,
    ]
    for step in steps:
        step()
        assert before[PLACE] != previous
        previous = before[PLACE]
    database.execute("delete from session where id = 'ses_3'")
    assert f"{NAME}/ses_3" not in listed(tmp_path).directories


def test_nothing_is_asked_while_nothing_changes(
    tmp_path: Path, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = Sessions(database)
    for number in range(100):
        sessions.session(f"ses_{number}").prompt().say()
    for each in tmp_path.iterdir():
        os.utime(each, (BEGAN, BEGAN))
    first = listed(tmp_path)
    monkeypatch.setattr(database_sessions, "asked", None)  # a further question fails
    assert listed(tmp_path) == first
    assert place_signature(str(tmp_path), f"{NAME}/ses_7", SHAPE) == first.directories[f"{NAME}/ses_7"]


def test_only_what_was_added_to_is_asked_for(
    tmp_path: Path, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = Sessions(database)
    logs = [sessions.session(f"ses_{number}").prompt().say() for number in range(100)]
    first = listed(tmp_path).directories
    asked: list[str] = []
    standing = databases.standing

    def noting(connection: Any, database: Any, where: str = "", values: Any = ()) -> Any:
        asked.append(values[0] if values else "all")
        return standing(connection, database, where, values)

    monkeypatch.setattr(database_sessions, "standing", noting)
    logs[7].prompt("more")
    second = listed(tmp_path).directories
    assert asked == ["ses_7"]
    assert {place for place in first if first[place] != second[place]} == {f"{NAME}/ses_7"}
    # Rows of what was added to lately may change in place.
    logs[7].begin()
    listed(tmp_path)
    logs[7].end("stop")
    assert listed(tmp_path).directories[f"{NAME}/ses_7"] != second[f"{NAME}/ses_7"]
    assert set(asked) == {"ses_7"}


def test_inspect_finds_databases_by_their_tables(tmp_path: Path, database: sqlite3.Connection) -> None:
    Sessions(database).session().prompt().say()
    assert list(sessions_under(str(tmp_path), LAYOUTS)) == [Place(LAYOUT, f"{tmp_path}/{PLACE}")]
    assert list(sessions_under(f"{tmp_path}/{PLACE}", LAYOUTS)) == [Place(LAYOUT, f"{tmp_path}/{PLACE}")]
    assert list(sessions_under(f"{tmp_path}/{NAME}/other", LAYOUTS)) == []
    assert explain(f"{tmp_path}/{PLACE}", LAYOUTS, with_native=True).layout == "opencode"
    database.close()
    for name, layout in (("kilo.db", "kilo"), ("copy.db", "opencode")):
        for each in list(tmp_path.iterdir()):
            each.rename(tmp_path / f"{name}{each.name[each.name.index('.db') + 3 :]}")
        (found,) = sessions_under(str(tmp_path / name), LAYOUTS)
        assert isinstance(found, Place)
        assert isinstance(found.layout, LogLayout)
        assert found.layout.name == layout
    sqlite3.connect(tmp_path / "other.db").execute("create table t (a)")
    assert len(list(sessions_under(str(tmp_path), LAYOUTS))) == 1


# What is hostile, or in somebody else's hands.


def contents(directory: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in directory.iterdir() if each.is_file()}


@pytest.mark.parametrize("state", ["open", "closed", "killed"])
def test_nothing_is_written_beside_or_into_a_database(tmp_path: Path, state: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    database = made(home / NAME)
    Sessions(database).session().prompt().say()
    if state == "killed":
        kept = contents(home)
        database.close()
        for name, content in kept.items():
            (home / name).write_bytes(content)
    elif state == "closed":
        database.close()
    before = contents(home)
    assert set(before) == ({NAME} if state == "closed" else {NAME, f"{NAME}-wal", f"{NAME}-shm"})
    # In a process of its own: the files of one that writes are its reader's, too.
    code = (
        "from tests.daemon.rundir.test_database_sessions import *; from sys import argv; home = Path(argv[1])"
    )
    code = f"{code}; print(list(listed(home).directories), read(home).usage)"
    done = subprocess.run([sys.executable, "-c", code, str(home)], capture_output=True, text=True, check=True)
    assert done.stdout == f"['{PLACE}'] Usage(input_tokens=100, output_tokens=10)\n"
    assert contents(home) == before
    database.close()


def problem_of(root: Path) -> str:
    """The problem of the root. Its sessions stay known: nothing counts as gone."""
    found = listed(root)
    (problem,) = found.problems
    assert found.unlisted == (NAME,)
    assert found.directories == {}
    look = look_at_session(str(root), PLACE, LAYOUT, NOTHING_READ, 1 << 20, BEGAN)
    assert isinstance(look, Unreadable)
    assert all(isinstance(each, Obstacle) for each in sessions_under(str(root / NAME), LAYOUTS))
    return problem


def rewritten(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as connection:
        for each in statements:
            connection.execute(each)
    connection.close()


UNKNOWN: Final = {
    "a table is missing": (["drop table part"], "version 1.18.33): its table `part` is missing"),
    "a column is missing": (
        ["alter table message rename column data to content"],
        "version 1.18.33): its table `message` has no `data`",
    ),
    "a view": (
        [
            "alter table part rename to other",
            "create view part as select *, randomblob(100000000) from other",
        ],
        "its table `part` is missing",
    ),
    "a computed column": (
        [
            "alter table session drop column directory",
            "alter table session add column directory text generated always as (zeroblob(100000000)) virtual",
        ],
        "its table `session` has no `directory`",
    ),
    "a virtual table": (
        [
            "drop table part",
            "create virtual table part using fts5(id, message_id, session_id, time_created, time_updated, data)",
        ],
        "its table `part` is missing",
    ),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_an_unknown_schema_is_a_problem_in_words(
    tmp_path: Path, database: sqlite3.Connection, what: str
) -> None:
    Sessions(database).session().prompt().say()
    database.close()
    statements, words = UNKNOWN[what]
    rewritten(tmp_path / NAME, *statements)
    assert words in problem_of(tmp_path)
    assert "has a schema that isn't known" in problem_of(tmp_path)


def test_a_locked_database_is_a_problem_until_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "BUSY_S", 0.01)
    database = made(tmp_path / NAME)
    Sessions(database).session().prompt().say()
    database.execute("pragma journal_mode = delete")
    database.execute("begin exclusive")
    assert "can't be read: it can't be read now: database is locked" in problem_of(tmp_path)
    database.execute("rollback")
    assert list(listed(tmp_path).directories) == [PLACE]
    database.close()


@pytest.mark.parametrize("what", ["empty", "text", "cut", "garbled", "a link", "a directory"])
def test_what_is_no_database_is_a_problem(tmp_path: Path, what: str) -> None:
    path = tmp_path / "real.db"
    database = made(path)
    log = Sessions(database).session()
    for _ in range(50):
        log.prompt("x" * 500).say()
    database.close()
    whole, place = path.read_bytes(), tmp_path / "root" / NAME
    place.parent.mkdir()
    match what:
        case "empty":
            place.write_bytes(b"")
        case "text":
            place.write_bytes(b"hello" * 1000)
        case "cut":
            place.write_bytes(whole[: len(whole) // 3])
        case "garbled":
            place.write_bytes(whole[:4096] + bytes(reversed(whole[4096:])))
        case "a link":
            place.symlink_to(path)
        case "a directory":
            place.mkdir()
    if what in ("a link", "a directory"):
        assert listed(place.parent) == Listing({}, ())
        return
    assert any(
        words in problem_of(place.parent) for words in ("is empty", "is not a SQLite database", "malformed")
    )


def test_a_database_that_is_replaced_is_read_anew(tmp_path: Path, database: sqlite3.Connection) -> None:
    Sessions(database).session().prompt().call().result().say()
    looks = Looks(tmp_path)
    assert (looks.look().usage, len(listed(tmp_path).directories)) == ((200, 20), 1)
    database.close()
    other = made(tmp_path / "new.db")
    sessions = Sessions(other)
    sessions.session("ses_other")
    sessions.session().prompt("something else").say()
    other.close()
    (tmp_path / "new.db").rename(tmp_path / NAME)
    assert len(listed(tmp_path).directories) == 2
    assert (looks.look().usage, looks.anew) == ((100, 10), 1)


def test_a_log_that_nobody_may_read_without_writing_is_read_from_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = made(tmp_path / "real.db")
    Sessions(database).session().prompt().say()
    (tmp_path / "root").mkdir()
    for end in ("", "-wal"):
        (tmp_path / "root" / f"{NAME}{end}").write_bytes((tmp_path / f"real.db{end}").read_bytes())
    database.close()
    before = contents(tmp_path / "root")
    assert read(tmp_path / "root").usage == (100, 10)
    assert list(listed(tmp_path / "root").directories) == [PLACE]
    assert contents(tmp_path / "root") == before
    os.utime(tmp_path / "root" / f"{NAME}-wal", (BEGAN, BEGAN))
    monkeypatch.setattr(databases, "MOST_COPIED", 1000)
    assert "has a log (-wal), but no -shm file: it could only be read as a copy" in problem_of(
        tmp_path / "root"
    )


@pytest.mark.parametrize("text", ["x" * 2000, ""])
def test_prompts_without_a_reply_are_held_in_bounded_memory(
    tmp_path: Path, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    log = Sessions(database).session()
    for _ in range(20):
        log.message({"role": "user", "text": text})
    monkeypatch.setattr(database_sessions, "_LARGEST_ENTRY", 9_000)
    (obstacle,) = read_session(LAYOUT, f"{tmp_path}/{PLACE}").obstacles
    assert "of more than 9000 bytes" in str(obstacle)


def test_values_that_are_too_large_and_questions_that_take_too_long_end(
    tmp_path: Path, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Sessions(database).session().prompt()
    monkeypatch.setattr(databases, "LONGEST_VALUE", 10_000)
    log.prompt("x" * 20_000)
    found = read_session(LAYOUT, f"{tmp_path}/{PLACE}")
    assert [each.message for each in found.obstacles] == ["can't be read: string or blob too big"]
    monkeypatch.setattr(databases, "LONGEST_S", -1.0)
    monkeypatch.setattr(databases, "_STEPS", 1)
    with pytest.raises(CannotAsk, match="took more than -1 s to read"):
        sessions_in(f"{tmp_path}/{NAME}", OPENCODE_DATABASE)


def test_ids_that_are_no_names_are_no_places(tmp_path: Path, database: sqlite3.Connection) -> None:
    sessions = Sessions(database)
    for name in ("../../etc", "a/b", ".hidden", "", "x" * 200, "ok"):
        sessions.session(name)
    database.execute("insert into session select x'ff00', project_id, null, null, slug, directory, null, title, version,"
        " null, null, null, null, null, null, 0, 0, 0, null, null, null, null, 'text', x'00', null, null from session limit 1")  # fmt: skip
    assert list(listed(tmp_path).directories) == [f"{NAME}/ok"]


VALUES: Final = st.sampled_from(
    [None, 7, -1.5, "text", b"\xff\xfe", b"{}", "{", "[]", "7", '{"role": "assistant"}', '{"role": 3, "time": "x"}', 2**62, "\n{}\n",
     '{"role": "assistant", "time": {"completed": "x"}, "finish": ["stop"], "error": {"name": 7}, "tokens": {"cache": {"read": "a"}}}',
     '{"type": "tool", "callID": 9, "state": {"status": "completed", "input": [1,\n2], "time": {"start": -5, "end": 1e300}}}',
     '{"type": "text", "text": {"a": 1}, "time": {"end": "z"}}', "[" * 5000,
     *(f'{{"role": "assistant", "time": {{"created": {huge}, "completed": {huge}}}, "cost": {huge}, "tokens": {{"input": {huge}, "output": {huge}}}}}' for huge in map(json_text, HUGE)),
     *(f'{{"type": "tool", "callID": "c", "state": {{"status": "error", "input": {huge}, "time": {{"start": {huge}, "end": {huge}}}}}}}' for huge in map(json_text, HUGE))]
)  # fmt: skip


@given(data=st.data())
def test_columns_of_any_type_raise_nothing_and_are_told_alike(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("root")
    database = made(root / NAME)
    database.execute("pragma writable_schema = on")
    database.execute("update sqlite_master set sql = replace(sql, ' NOT NULL', '') where type = 'table'")
    database.execute("pragma writable_schema = reset")
    Sessions(database).session().prompt().call().result(failed=True).say()
    for _ in range(data.draw(st.integers(1, 3))):
        table = data.draw(st.sampled_from(["session", "message", "part"]))
        columns = [
            "time_created",
            "time_updated",
            *(["directory", "version", "parent_id"] if table == "session" else ["data"]),
        ]
        column = data.draw(st.sampled_from(columns))
        row = data.draw(st.integers(1, 4))
        database.execute(f"update {table} set {column} = ? where rowid = ?", (data.draw(VALUES), row))
    path = f"{root}/{PLACE}"

    def told() -> tuple[object, ...]:
        listing, session = listed(root), read_session(LAYOUT, path)
        calls = list(told_by("opencode", path, lambda read: True))
        texts = list(messages_of("opencode", path))
        return listing, session.told, calls, texts, final_message("opencode", path)

    assert told() == told(), "and the same is told again"
    database.close()


def test_questions_that_share_a_connection_see_what_was_written_and_release_it(
    tmp_path: Path, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    open_it = databases._opened

    def noting(path: str) -> object:
        opened.append(path)
        return open_it(path)

    monkeypatch.setattr(databases, "_opened", noting)
    log = Sessions(database).session().prompt()
    with kept_open():
        for number in range(5):
            log.call(f"call_{number}").result()
            assert read(tmp_path).counts.tool_calls == number + 1
            (busy, _, _) = database.execute("pragma wal_checkpoint(truncate)").fetchone()
            assert not busy
    log.say()
    assert len(opened) == 1
    with kept_open():
        for _ in range(5):
            assert read(tmp_path).turn == "closed"
    assert len(opened) == 2
    database.execute("pragma journal_mode = delete")  # possible only if nobody else has it open


def test_readers_in_threads_and_a_writer_disturb_nobody(tmp_path: Path, database: sqlite3.Connection) -> None:
    log = Sessions(database).session()
    stop = threading.Event()
    failed: list[object] = []

    def reads() -> None:
        while not stop.is_set():
            try:
                if listed(tmp_path).problems:
                    failed.append(listed(tmp_path).problems)
                read(tmp_path)
            except Exception as error:
                failed.append(error)

    threads = [threading.Thread(target=reads) for _ in range(2)]
    for each in threads:
        each.start()
    for number in range(30):
        log.prompt(f"{number}").call(f"call_{number}").result().say()
        (busy, _, _) = database.execute("pragma wal_checkpoint(passive)").fetchone()
        assert not busy
    stop.set()
    for each in threads:
        each.join()
    assert failed == []
    assert read(tmp_path).counts.tool_calls == 30
