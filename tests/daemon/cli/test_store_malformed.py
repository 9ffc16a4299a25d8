"""A store that contradicts itself: the daemon and every command end, and say what to do."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.store.test_schema import LIE, change
from tests.waiting import PATIENCE_S

from runward.daemon.cli.exits import NOT_SO, TRY_AGAIN

PAGES = ("sqlite_schema", "daemon", "cursors", "sessions", "jobs_open", "journal_lines", "cancellations_of")
"""Read when the connection is set up, when the store is taken over, at a start, in a turn, beside it, or never."""


def spoilt(ended: Place, directory: Path, page: str) -> Place:
    """A recorded place with a run that nobody has looked at, and rubbish in the store where `page` has its root."""
    place = ended.copy_to(directory)
    place.add_run("new", exit_code=0)
    with closing(sqlite3.connect(place.state / "runward.db")) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
        (size,) = connection.execute("pragma page_size").fetchone()
        roots = dict(connection.execute("select name, rootpage from sqlite_schema"))
    with (place.state / "runward.db").open("r+b") as file:
        number, head = roots.get(page, 1) - 1, 100 if page == "sqlite_schema" else 0
        file.seek(number * size + head)
        file.write(b"\xff" * (size - head))
    return place


@pytest.mark.parametrize("page", PAGES[:-1])
@pytest.mark.parametrize("words", [("daemon",), ("daemon", "--once")])
def test_the_daemon_ends_with_its_error_at_whatever_stage_it_meets_it(
    ended: Place, tmp_path: Path, words: tuple[str, ...], page: str
) -> None:
    place = spoilt(ended, tmp_path, page)
    daemon = place.start(*words, "--quiet")
    _, err = daemon.communicate(timeout=PATIENCE_S)
    assert daemon.returncode == TRY_AGAIN
    assert "malformed: keep a copy of the store, then `runward restore BACKUP`" in err
    assert "Traceback" not in err
    log = (place.state / "log/runward.jsonl").read_text()
    assert '"store.malformed"' in log


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    "words",
    [
        ("session", "list"),
        ("session", "show", "stuck"),
        ("why", "stuck"),
        ("status",),
        ("queue", "list"),
        ("prune", "--older-than", "1d", "--dry-run"),
        ("backup", "copy.db"),
        ("session", "verify", "stuck"),
    ],
)
def test_no_command_calls_it_a_mistake_of_its_own_or_hangs(
    ended: Place, tmp_path: Path, words: tuple[str, ...], page: str
) -> None:
    told = spoilt(ended, tmp_path, page).call(*words)
    assert told.code in (0, 1, 3, TRY_AGAIN), told.err
    if told.code == TRY_AGAIN:
        assert "malformed" in told.err
        assert "runward restore BACKUP" in told.err


def test_a_backup_with_a_trigger_of_somebody_elses_is_not_restored(ended: Place, tmp_path: Path) -> None:
    place = ended.copy_to(tmp_path)
    assert place.call("backup", "copy.db").code == 0
    before = place.rows("select count(*) from sqlite_schema")
    change(place.directory / "copy.db", LIE)
    (place.directory / "copy.db-wal").unlink(missing_ok=True)
    told = place.call("restore", "copy.db")
    assert told.code == NOT_SO
    assert "nothing was changed" in told.err
    assert "the trigger 'lie' is not Runward's" in told.err
    assert place.rows("select count(*) from sqlite_schema") == before


def test_the_daemon_does_not_work_with_one(ended: Place, tmp_path: Path) -> None:
    place = ended.copy_to(tmp_path)
    change(place.state / "runward.db", LIE)
    told = place.call("daemon", "--once", "--quiet")
    assert told.code == TRY_AGAIN
    assert "somebody changed its schema: the trigger 'lie' is not Runward's" in told.err
