"""Names that are no UTF-8, wherever the daemon watches: it goes on, and so do all others, also after a restart."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.proof.place import NEVER_SCANNED, Place
from tests.proof.processes import Forks
from tests.waiting import wait_for

NAME = b"\xe9"

CLAUDE = """
[[roots]]
name = "claude"
path = "claude"
layout = "claude-code"
"""


def _run(place: Place) -> Path:
    directory = place.runs / "hostile"
    (directory / "artifacts").mkdir(parents=True)
    (directory / "run.json").write_text('{"schema": "runward-run-v1"}')
    return directory


def _below(directory: Path) -> bytes:
    return os.fsencode(directory) + b"/" + NAME


def _judge(place: Place, name: str) -> None:
    place.finished_run(name)
    wait_for(lambda: place.statuses().get(name) == "completed", f"the verdict on {name}")


PLACES: dict[str, Callable[[Place], bytes]] = {
    "a directory among a run's artifacts": lambda place: _below(_run(place) / "artifacts"),
    "a directory in a run": lambda place: _below(_run(place)),
    "a directory in a root": lambda place: _below(place.runs),
    "a directory in the root of an agent": lambda place: _below(place.directory / "claude"),
    "a directory in the inbox": lambda place: _below(place.state / "inbox"),
}


@pytest.mark.parametrize("where", PLACES)
def test_everybody_is_judged_beside_a_name_that_is_no_utf_8(
    in_memory: Path, forks: Forks, where: str
) -> None:
    place = Place(in_memory / f"undecodable-{list(PLACES).index(where)}", forks)
    (place.directory / "claude").mkdir(parents=True)
    place.set_up(further=NEVER_SCANNED + CLAUDE)
    for life in ("the first", "the next"):
        daemon = place.daemon()
        place.wait_ready(daemon)
        if life == "the first":
            hostile = PLACES[where](place)
            os.mkdir(hostile)
        for number in range(3):
            os.close(os.open(hostile + b"/file", os.O_CREAT | os.O_WRONLY, 0o600))
            os.unlink(hostile + b"/file")
            _judge(place, f"{life}-{number}")
        assert not daemon.ended(), daemon.said()[-3000:]
        daemon.send(signal.SIGTERM)
        assert daemon.wait() == 0, daemon.said()[-3000:]
    place.close()
