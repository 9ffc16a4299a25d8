"""A store is restored that knows foreign sessions, whose journals lie among Runward's own state."""

import json
import shutil
from pathlib import Path

import pytest
from tests.handlers.layouts import codex_lines
from tests.handlers.layouts.claude_code_lines import good_turn
from tests.proof.homes import Homes, add, rollout
from tests.proof.place import Place
from tests.proof.test_restore import carried_out

pytestmark = pytest.mark.prove

SESSION = "5d0f8a52-1c7e-4b7b-9a63-0f2d6c1e8b11"
THREAD = codex_lines.THREAD
OK = ("completed", "run.completed.ok")


def told(homes: Homes) -> dict[str, list[dict[str, object]]]:
    """What each journal says, but for the hashes of events."""
    found: dict[str, list[dict[str, object]]] = {}
    for path in homes.journals():
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        found[str(path.relative_to(homes.place.state))] = [
            {key: value for key, value in line.items() if key != "hash"} for line in lines
        ]
    return found


def lived_through(homes: Homes) -> Path:
    """Two sessions end before the backup; one of them is resumed after it. No daemon runs afterwards."""
    backup = homes.place.directory / "backup.db"
    with homes.place.serving():
        transcript = homes.transcript(SESSION)
        good_turn(transcript)
        add(homes.log_of(SESSION), transcript.lines)
        add(homes.rollout_of(THREAD), rollout(THREAD))
        homes.wait_standing(SESSION, *OK, 1)
        homes.wait_standing(THREAD, *OK, 1)
        carried_out(homes.place, "backup", str(backup))
        before = len(transcript.lines)
        transcript.prompt("go on")
        transcript.api_error()
        add(homes.log_of(SESSION), transcript.lines[before:])
        homes.wait_standing(SESSION, "failed", "run.failed.api_error", 2)
    assert homes.place.once() == 0
    assert homes.place.rows("select count(*) from outbox") == [(0,)]
    return backup


def test_sessions_of_other_tools_are_read_on_and_nothing_is_told_twice(place: Place) -> None:
    homes = Homes(place, history="live")
    backup = lived_through(homes)
    journals = {path: path.read_bytes() for path in homes.journals()}
    assert len(journals) == 2, "those of both sessions"
    carried_out(place, "restore", str(backup))
    assert homes.attempts(SESSION) == [(1, "completed")]
    assert place.once() == 0
    assert homes.attempts(SESSION) == [(1, "completed"), (2, "failed")]
    assert {path: path.read_bytes() for path in homes.journals()} == journals


def test_with_the_whole_state_directory_lost_journals_are_written_again(place: Place) -> None:
    homes = Homes(place, history="live")
    backup = lived_through(homes)
    before = told(homes)
    shutil.rmtree(place.state)
    carried_out(place, "restore", str(backup))
    assert place.once() == 0
    assert homes.attempts(SESSION) == [(1, "completed"), (2, "failed")]
    after = told(homes)
    assert after.keys() == before.keys()
    for name, lines in after.items():
        written = [line for line in lines if line["event"] != "journal_repaired"]
        assert sorted(map(str, written)) == sorted(map(str, before[name])), name
    assert place.rows("select count(*) from outbox") == [(0,)]
    assert place.rows("select count(*) from uncompared") == [(0,)]
