"""Runs whose files are touched, or copied without their times, after their end: their content is what it was."""

import json
import os
import shutil
import sqlite3
from contextlib import closing

import pytest
from tests.proof.place import WRITTEN_AT, Place

from runward.handlers.layouts.native import dated_digest


def _judged(place: Place) -> None:
    """A run that delivered, one that didn't and one that names no moment of its start; all judged."""
    place.finished_run("delivered")
    place.finish_run(place.start_run("missing", [("report.md", True)]))
    nameless = place.start_run("nameless")
    (nameless / "run.json").write_text('{"schema": "runward-run-v1"}')
    place.finish_run(nameless)
    assert place.once() == 0
    assert place.statuses() == {"delivered": "completed", "missing": "failed", "nameless": "completed"}


def _touch(place: Place) -> None:
    for path in place.runs.glob("*/*.json"):
        os.utime(path)


def _copy(place: Place) -> None:
    place.runs.rename(place.directory / "old")
    shutil.copytree(place.directory / "old", place.runs, copy_function=shutil.copyfile)


@pytest.mark.parametrize("change", [_touch, _copy], ids=["touched", "copied"])
def test_what_was_judged_stays_as_it_is(place: Place, change: object) -> None:
    _judged(place)
    with closing(sqlite3.connect(place.state / "runward.db", isolation_level=None)) as connection:
        connection.execute("update decisions set at = at - 3600")  # nothing is waited for any more
    assert callable(change)
    change(place)
    (place.runs / "missing" / "artifacts" / "report.md").write_text("too late\n")
    assert place.once() == 0
    assert place.statuses() == {"delivered": "completed", "missing": "failed", "nameless": "completed"}
    assert place.rows("select distinct attempt from attempts") == [(1,)]
    assert place.rows("select message from problems") == []
    assert place.rows("select count(*) from events where type = 'SessionFinished'") == [(3,)]


def test_what_an_earlier_version_judged_stays_as_it_is(place: Place) -> None:
    """It remembered a digest over the time and the content of a file."""
    _judged(place)
    with closing(sqlite3.connect(place.state / "runward.db", isolation_level=None)) as connection:
        for key, state in connection.execute("select key, state from cursors").fetchall():
            remembered = json.loads(state)
            directory = place.directory / key
            for name, at in (("run.json", 3), ("exit.json", 5)):
                path = directory / name
                remembered[at] = dated_digest(path.read_bytes(), path.stat().st_mtime_ns)
            connection.execute("update cursors set state = ? where key = ?", (json.dumps(remembered), key))
    _touch(place)
    assert place.once() == 0
    assert place.rows("select distinct attempt from attempts") == [(1,)]
    assert place.rows("select message from problems") == []
    assert (place.runs / "delivered" / "exit.json").stat().st_mtime_ns != WRITTEN_AT
