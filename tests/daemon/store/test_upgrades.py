"""Stores of every version from the first schema on are brought up to date with all that is in them; how they were made: `tests/golden/`."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec
import pytest
from tests.daemon.cli.calling import Place, Recorded
from tests.waiting import wait_for

from runward.daemon.backup import Examined, examine
from runward.daemon.rundir.session_files import FilesRead, LogRead
from runward.daemon.rundir.session_logs import Cursor
from runward.daemon.store.schema import migrate, migrations
from runward.daemon.store.tables.actions import WantedActions, actions
from runward.daemon.store.tables.session_lists import unseen_failures
from runward.daemon.store.tables.shared_artifacts import shared_artifact
from runward.daemon.store.tables.shows import shows
from runward.daemon.watch.remembered import Remembered, dump_remembered, load_remembered
from runward.handlers.model.files import Signature

GOLDEN: Final = Path(__file__).parents[2] / "golden"
STORES: Final = {int(path.stem): path for path in sorted(GOLDEN.glob("*.sql"))}
VERSIONS: Final = [step.number for step in migrations()]
OLDEST: Final = VERSIONS[0]
STATUSES: Final = {"delivers": "completed", "goes-on": "running", "lacks": "failed"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place in which commands are called."""
    made = Place(tmp_path)
    made.furnish()
    return made


def load(version: int, path: Path) -> None:
    """The store as it was at this version. One that no program ever wrote is the one before it, brought there."""
    made = max(number for number in STORES if number <= version)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma auto_vacuum = incremental")
        connection.execute("pragma journal_mode = wal")
        connection.executescript(STORES[made].read_text())
        for step in migrations():
            if made < step.number <= version:
                connection.executescript(step.sql + f"; pragma user_version = {step.number};")
    path.chmod(0o600)


def content(path: Path, columns_of: dict[str, list[str]] | None = None) -> dict[str, list[dict[str, object]]]:
    """The rows of each table by the names of their columns, or of those columns only."""
    found: dict[str, list[dict[str, object]]] = {}
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        for (name,) in connection.execute("select name from sqlite_master where type = 'table'").fetchall():
            if columns_of is not None and name not in columns_of:
                continue
            rows = [dict(row) for row in connection.execute(f"select * from {name}")]
            wanted = None if columns_of is None else columns_of[name]
            found[name] = [row if wanted is None else {each: row[each] for each in wanted} for row in rows]
    return found


def schema(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute("select type, name, sql from sqlite_master order by 1, 2").fetchall()


def test_there_is_a_store_of_every_version_that_a_program_ever_wrote() -> None:
    """Anyone who adds a migration makes the one before it."""
    assert {*VERSIONS[:-1]} <= STORES.keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_store_is_brought_up_to_date_with_all_that_is_in_it(tmp_path: Path, version: int) -> None:
    path = tmp_path / "runward.db"
    load(version, path)
    before = content(path)
    assert {str(row["session_id"]): row["status"] for row in before["sessions"]} == STATUSES
    assert migrate(path) == VERSIONS[-1]
    columns = {name: list(rows[0]) for name, rows in before.items() if rows}
    assert content(path, columns) == {name: before[name] for name in columns}
    found = examined(path)
    assert (found.version, found.sessions, found.head.seq) == (VERSIONS[-1], 3, len(before["events"]))
    migrate(tmp_path / "fresh.db")
    assert schema(path) == schema(tmp_path / "fresh.db")


def test_the_code_of_an_earlier_store_acts_only_for_who_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "runward.db"
    load(31, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("insert into contents (hash, content) values ('h', '')")
        for name in ("own", "foreign", "made"):
            connection.execute(
                "insert into shared_artifacts (id, type, content, code, owner_id, created_at, updated_at, executable, price,"
                " depends_on, has_standing, can_execute, version) values (?, 'x', 'h', 'h', 'ann', 1, 1, 1, 0, '[]', 0, 0, 1)",
                (name,),
            )
        wrote = (
            ("own", "bob", 1),
            ("own", "ann", 1),
            ("foreign", "ann", 1),
            ("foreign", "bob", 1),
            ("foreign", "ann", 0),
        )
        for number, (name, who, is_success) in enumerate(wrote):
            connection.execute(
                "insert into actions (key, seq, at, principal, action_type, artifact_id, intent, result, is_success)"
                " values (?1, ?1, 1, ?2, 'write_artifact', ?3, '{}', '{}', ?4)",
                (number, who, name, is_success),
            )
    migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        found = {name: shared_artifact(connection, name) for name in ("own", "foreign", "made")}
    acting = {name: artifact is not None and artifact.acts for name, artifact in found.items()}
    assert acting == {"own": True, "foreign": False, "made": True}


def test_the_actions_of_an_earlier_store_have_the_hashes_of_their_events(tmp_path: Path) -> None:
    path = tmp_path / "runward.db"
    load(33, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        facts = (
            ("native:runs/x#intent/1", "IntentMade", '{"attempt": 2}'),
            ("native:runs/x#2/action/1/taken", "ActionTaken", "{}"),
            ("asked", "ActionRequested", "{}"),
            ("asked/taken", "ActionTaken", "{}"),
            ("pruned", "ActionRequested", "{}"),
        )
        for number, (key, kind, payload) in enumerate(facts):
            connection.execute(
                "insert into events (seq, key, type, version, lane, at, recorded_at, payload, hash)"
                " values (?, ?, ?, 1, 'l', 1.0, 1.0, ?, 'hash of ' || ?2)",
                (9000 + number, key, kind, payload),
            )
        for number, session, line in ((9000, "native:runs/x", 1), (9002, None, None), (9004, None, None)):
            connection.execute(
                "insert into actions (key, seq, at, session_key, line, intent, result, is_success)"
                " select key, seq, 1, ?, ?, '{}', '{}', 1 from events where seq = ?",
                (session, line, number),
            )
    migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        assert [(each.key, each.hash) for each in actions(connection, WantedActions())] == [
            ("native:runs/x#intent/1", "hash of native:runs/x#2/action/1/taken"),
            ("asked", "hash of asked/taken"),
            ("pruned", None),
        ]


def test_the_shows_of_an_earlier_store_are_those_of_its_plays(tmp_path: Path) -> None:
    path = tmp_path / "runward.db"
    load(31, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        keys = [key for (key,) in connection.execute("select key from sessions order by key")]
        for key, show, at in zip(keys, ("/a", "/b", "/a"), (3.0, 2.0, 1.0), strict=True):
            connection.execute(
                "insert into plays (session_key, show, topic, name, depends_on, created_at, updated_at)"
                " values (?1, ?2, 't', ?1, '[]', ?3, ?3)",
                (key, show, at),
            )
        before = connection.execute(
            "select path, topic, plays, created_at from shows order by path"
        ).fetchall()
    migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select * from shows order by path").fetchall() == before
        assert [(each.path, each.plays, each.created_at) for each in shows(connection)] == [
            ("/b", 1, 2.0),
            ("/a", 2, 1.0),
        ]


def test_the_failures_that_nobody_saw_in_an_earlier_store_still_wait(tmp_path: Path) -> None:
    path, now = tmp_path / "runward.db", 1e6
    load(31, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        keys = [key for (key,) in connection.execute("select key from sessions order by key")]
        for key, ended in zip(keys, (now - 5.0, now - 500.0, now - 90.0), strict=True):
            connection.execute(
                "update sessions set status = 'failed', reason_code = 'run.failed.exit_nonzero', origin = 'live',"
                " packed = 0, finished_at = ? where key = ?",
                (ended, key),
            )
        connection.execute(
            "insert into events (seq, key, type, version, lane, at, recorded_at, payload, hash)"
            " select 9999, key || '#' || attempt || '/seen', 'SessionSeenRequested', 1, key, 1.0, 1.0, '{}', ''"
            " from sessions where key = ?",
            (keys[2],),
        )
    migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        total, newest = unseen_failures(connection, now)
        assert (total, [row.key for row in newest]) == (2, [keys[0], keys[1]])


def examined(path: Path) -> Examined:
    """What is in the store, once its log is in it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = delete")
    return examine(path)


@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_what_it_was_before_is_kept_as_it_was(tmp_path: Path, version: int) -> None:
    path = tmp_path / "runward.db"
    load(version, path)
    before = content(path), schema(path)
    migrate(path)
    (kept,) = tmp_path.glob(f"runward.before-upgrade-{version:04d}-*.db")
    assert (content(kept), schema(kept)) == before
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("version", [number for number in STORES if number < VERSIONS[-1]])
def test_an_upgraded_store_is_listed_shown_and_explained(place: Place, version: int) -> None:
    place.state.mkdir()
    load(version, place.state / "runward.db")
    told = place.call("session", "list")
    assert (told.code, "start the daemon of this version once" in told.err) == (75, True)
    migrate(place.state / "runward.db")
    listed = place.call("session", "list", "--json").json()
    assert isinstance(listed, list)
    assert {str(each["session_id"]): each["status"] for each in listed if isinstance(each, dict)} == STATUSES
    shown = place.call("session", "show", "lacks").out
    assert "run.failed.missing_artifact" in shown
    assert "report.md" in shown
    why = place.call("why", "lacks")
    assert (why.code, "missing required artifacts: report (report.md)" in why.out) == (0, True)


@pytest.mark.parametrize(
    ("version", "fix"), [(9999, "install"), (OLDEST - 1, "use the Runward that wrote it")]
)
def test_a_store_of_a_version_that_this_program_does_not_know_is_refused_and_not_touched(
    place: Place, version: int, fix: str
) -> None:
    place.daemon_once()
    place.change_store(f"pragma user_version = {version}")
    store = (place.state / "runward.db").read_bytes()
    epoch = (place.state / "epoch").read_bytes()
    for arguments in (("daemon", "--once", "--quiet"), ("session", "list"), ("backup", "copy.db")):
        process = place.start(*arguments)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 78, arguments
        assert f"has version {version}" in said or f"(version {version})" in said
        assert fix in said
    assert (place.state / "runward.db").read_bytes() == store
    assert (place.state / "epoch").read_bytes() == epoch
    assert [each.name for each in place.state.iterdir() if "before" in each.name] == []


@pytest.fixture(scope="module")
def recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A place that a daemon of this version began."""
    place = Place(tmp_path_factory.mktemp("begun"))
    place.furnish()
    place.daemon_once()
    return Recorded(place)


@pytest.mark.parametrize("version", STORES)
def test_an_old_backup_is_restored_and_brought_up_to_date(recorded_once: Recorded, version: int) -> None:
    place = recorded_once.anew()
    load(version, place.directory / "old.db")
    with closing(sqlite3.connect(place.directory / "old.db")) as connection:
        connection.execute("update roots set path = ?", (str(place.runs),))  # its root is this place's
        if version >= 32:  # since then the store says whose it is
            connection.execute("update daemon set state_dir = ?", (str(place.state),))
        connection.commit()
        connection.execute("pragma journal_mode = delete")
    result = place.call("restore", "old.db", "--json")
    assert result.code == 0, result.err
    listed = place.call("session", "list", "--json").json()
    assert isinstance(listed, list)
    assert {str(each["session_id"]): each["status"] for each in listed if isinstance(each, dict)} == STATUSES
    assert list(place.state.glob("*before-upgrade*")) == [], "the backup is there, and unchanged"
    assert examine(place.directory / "old.db").version == version


def test_a_backup_of_a_version_before_the_first_schema_is_refused(recorded_once: Recorded) -> None:
    place = recorded_once.anew()
    load(OLDEST, place.directory / "old.db")
    with closing(sqlite3.connect(place.directory / "old.db")) as connection:
        connection.execute(f"pragma user_version = {OLDEST - 1}")
        connection.execute("pragma journal_mode = delete")
    before = (place.state / "runward.db").read_bytes()
    result = place.call("restore", "old.db")
    assert (result.code, "use the Runward that wrote it" in result.err) == (78, True)
    assert (place.state / "runward.db").read_bytes() == before


@pytest.mark.prove
@pytest.mark.parametrize("version", STORES)
def test_a_daemon_works_on_with_a_store_of_any_version(place: Place, version: int) -> None:
    place.state.mkdir()
    load(version, place.state / "runward.db")
    place.add_run("new", exit_code=0)
    with place.daemon():  # `--once` would wait for goes-on, whose root is not here
        wait_for(
            lambda: place.rows("select 1 from sessions where session_id = 'new' and status = 'completed'"),
            "it",
        )
    rows = place.rows("select session_id, status from sessions where session_id <> 'goes-on' order by 1")
    assert rows == [("delivers", "completed"), ("lacks", "failed"), ("new", "completed")]
    assert examined(place.state / "runward.db").sessions == 4


def test_sessions_with_sub_agents_are_read_again_and_the_others_stay_as_they_were_read(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runward.db"
    load(38, path)
    read = FilesRead((LogRead("a.jsonl", Cursor(1, 2, 300)),), listed=(("a", Signature(2, 310, 10**18)),))
    states = {
        "claude-code:alone": dump_remembered(Remembered("claude", "a.jsonl", read=read, scan=scan_of(0))),
        "claude-code:delegates": dump_remembered(Remembered("claude", "b.jsonl", read=read, scan=scan_of(1))),
        "codex:thread": dump_remembered(Remembered("codex", "c.jsonl", read=read, scan="[1, 2]")),
        "claude-code:damaged": "[",
    }
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for key, state in states.items():
            stored = state
            if state != "[":
                remembered = msgspec.json.decode(state)
                remembered[3].insert(3, ["0123456789ab"])
                stored = msgspec.json.encode(remembered).decode()
            connection.execute(
                "insert into cursors (key, root, directory, session_key, phase, state) values (?1, 'r', ?1, ?1, 'idle', ?2)",
                (key, stored),
            )
            connection.execute("insert into usage_read (session_key, looks) values (?, 3)", (key,))
            connection.execute(
                "insert into places (key, root, place, session_key, signature) values (?1, 'r', ?1, ?1, 'known')",
                (key,),
            )
    migrate(path)
    with closing(sqlite3.connect(path)) as connection:
        assert states == dict(
            connection.execute("select key, state from cursors where session_key not glob 'native:*'")
        )
        again = [("claude-code:delegates",)]
        assert connection.execute("select session_key from usage_read where looks = 0").fetchall() == again
        assert (
            connection.execute("select session_key from places where signature is null").fetchall() == again
        )


def test_what_the_agent_reported_of_some_replies_is_read_again_as_the_cost_of_those_alone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runward.db"
    load(39, path)
    read = FilesRead((LogRead("a.jsonl", Cursor(1, 2, 300)),), listed=(("a", Signature(2, 310, 10**18)),))
    remembered = Remembered("r", "a.jsonl", read=read, scan="[1]")
    costs = {"pi:paid": 5, "pi:priced": None, "codex:thread": None, "copilot:one": None, "qwen:one": None}
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for key, reported in costs.items():
            connection.execute(
                "insert into cursors (key, root, directory, session_key, phase, state) values (?1, 'r', ?1, ?1, 'idle', ?2)",
                (key, dump_remembered(remembered)),
            )
            connection.execute("insert into usage_read (session_key, looks) values (?, 3)", (key,))
            connection.execute(
                "insert into places (key, root, place, session_key, signature) values (?1, 'r', ?1, ?1, 'known')",
                (key,),
            )
            connection.execute(
                "insert into usage values (7, ?, 'm', 'standard', 0, 2, 3, 0, 0, 0, 4, ?)", (key, reported)
            )
    migrate(path)
    again = {"pi:paid", "copilot:one", "qwen:one"}
    with closing(sqlite3.connect(path)) as connection:
        assert dict(connection.execute("select session_key, reported_nanousd from usage")) == costs
        assert dict(connection.execute("select session_key, looks from usage_read")) == {
            key: 0 if key in again else 3 for key in costs
        }
        unread = connection.execute("select session_key from places where signature is null")
        assert {key for (key,) in unread} == again
        states = connection.execute("select key, state from cursors where session_key not glob 'native:*'")
        assert {key: load_remembered(state).scan for key, state in states} == {
            key: None if key in again else "[1]" for key in costs
        }


def scan_of(agent_files: int) -> str:
    """The state that the scanner of that version had of a session: what matters of it."""
    return msgspec.json.encode([4, *([0] * 31), agent_files]).decode()
