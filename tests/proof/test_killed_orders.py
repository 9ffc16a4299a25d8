"""`kill -9` of the daemon around an order to end a run: the next one sees to it, and the verdict is that person's."""

import json
import os
import signal
from collections.abc import Iterator
from typing import Final

import pytest
from tests.daemon.launching import members
from tests.proof.place import Place
from tests.proof.processes import Process
from tests.waiting import wait_for

from runward.daemon.processes.proc import send_signal

POINTS: Final = (
    "cancel.before",
    "cancel.after",
    "commit.cancel.begin",
    "commit.cancel.before",
    "commit.cancel.after",
)


@pytest.fixture
def cleaned(place: Place) -> Iterator[Place]:
    yield place
    for pid in members(str(place.runs)):
        send_signal(pid, signal.SIGKILL)


def started(place: Place) -> Process:
    """A launcher with a command that goes on, both known to the daemon."""
    environment = {
        "HOME": str(place.directory),
        "PATH": os.environ["PATH"],
        "RUNWARD_CONFIG": str(place.settings),
    }
    words = ("run", "--name", "run", "--containment", "subreaper", "--", "sleep", "1000")
    process = place.forks.start(*words, environment=environment, output=place.directory / "output-of-run")
    place.started.append(process)
    wait_for((place.runs / "run" / "process.json").exists, "process.json")
    pid = json.loads((place.runs / "run" / "process.json").read_bytes())["pid"]
    wait_for(
        lambda: any(str(pid) in str(state) for (state,) in place.rows("select state from cursors")), "it"
    )
    return process


@pytest.mark.prove
@pytest.mark.parametrize("who", ["launcher", "command"])
@pytest.mark.parametrize("point", POINTS)
def test_a_daemon_killed_while_it_carries_out_an_order_leaves_a_cancelled_run(
    cleaned: Place, point: str, who: str
) -> None:
    daemon = cleaned.daemon(fault=f"kill@{point}")
    cleaned.wait_ready(daemon)
    launcher = started(cleaned)
    if who == "command":
        launcher.kill()
    said = {"at": 1.0, "session_key": "native:runs/run", "attempt": 1, "reason": "enough"}
    cleaned.put_request({"type": "SessionCancelRequested", "version": 1, "payload": said})
    assert daemon.wait() == -signal.SIGKILL

    carried_out = "select count(*), sum(carried_out_at is null) from cancellations"
    with cleaned.serving():
        cleaned.wait_ended(1)
        wait_for(lambda: cleaned.rows(carried_out) == [(1, 0)], "one order, and that nobody owes it any more")
    evidence = "declared" if who == "launcher" else "process_gone"
    assert cleaned.rows("select status, reason_code, ended_by from sessions") == [
        ("cancelled", "run.cancelled.user", evidence)
    ]
    assert cleaned.rows(carried_out) == [(1, 0)]
    assert members(str(cleaned.runs)) == []
