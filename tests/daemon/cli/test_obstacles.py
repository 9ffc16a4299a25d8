"""Why another tool's session still counts as running, by what is known of its process."""

import sqlite3
import subprocess
from contextlib import closing
from types import SimpleNamespace

import pytest

from runward.daemon.processes.proc import identity_of
from runward.daemon.processes.whereabouts import own_whereabouts
from runward.daemon.store.tables import cursors
from runward.daemon.views import why
from runward.daemon.watch.remembered import Remembered, dump_remembered
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.sessions.follow import NEVER_FOLLOWED


@pytest.mark.parametrize(
    ("is_seen", "said"),
    [
        (True, "is gone"),
        (
            False,
            (
                "is not here, but it may be on another machine or in another PID namespace;"
                " it has been silent for 1m 40s"
            ),
        ),
    ],
)
def test_a_missing_process_is_gone_only_if_it_was_seen_here(
    is_seen: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["sleep", "100"]) as process:
        identity = identity_of(process.pid)
        process.kill()
    followed = NEVER_FOLLOWED._replace(
        phase="open",
        turn="open",
        process=RecordedProcess(identity.pid, identity.start_ticks, identity.boot_id),
        seen_in=own_whereabouts() if is_seen else None,
    )
    text = dump_remembered(Remembered("claude", "s.jsonl", followed))
    monkeypatch.setattr(cursors, "remembered_of", lambda connection, key: text)
    row = SimpleNamespace(key="claude-code:s", layout="claude-code", path="/dev/null/s", moved_at=400.0)
    with closing(sqlite3.connect(":memory:")) as connection:
        found = why._goes_on(connection, row, is_up=True, now=500.0)  # type: ignore[arg-type] # all it reads of it
    assert found.why == f"its turn is open, and its process {identity.pid} {said}"
