"""Runs that forge their own records: only the launcher says under which contract a run stands and how it ended."""

import json
import os
from typing import Final

import pytest
from tests.proof.place import Place
from tests.proof.test_killed_launchers import cleaned, launched, verdicts  # noqa: F401 - the fixture is used by name
from tests.waiting import wait_for

from runward.daemon.processes.cancelling import CANCEL, WORD

FORGE: Final = """\
cd "$RUNWARD_RUN_DIR"
echo '{"schema":"runward-run-v1","contract":null}' >x; mv x run.json
echo '{"exit_code":0,"cause":"exited"}' >x; mv x exit.json
"""
STEAL: Final = 'rm -f $(grep -l "/$RUNWARD_SESSION_ID\\"" "$HOME"/state/inbox/*); '
WORK_ON: Final = "sleep 1.5"
RUNS: Final = {
    "forges": FORGE + WORK_ON,
    "steals": STEAL + FORGE + WORK_ON,
    "kills": FORGE + 'rm process.json; kill -9 "$PPID"; sleep 1.5',
}
PLAYBOOK: Final = "artifacts: {expected: [{id: review, path: review.md}]}\n"
MISSING: Final = ("failed", "run.failed.missing_artifact", "declared")
GONE: Final = ("aborted", "run.aborted.process_gone", "process_gone")


def contracts(place: Place) -> dict[str, object]:
    rows = place.rows("select key, artifact_contract_json from sessions")
    return {str(key).rpartition("/")[2]: contract for key, contract in rows}


@pytest.mark.parametrize("daemon", ["up", "down"])
def test_a_run_gains_nothing_by_what_it_writes_deletes_or_kills(cleaned: Place, daemon: str) -> None:  # noqa: F811
    place = cleaned
    (place.directory / "review.yaml").write_text(PLAYBOOK)
    if daemon == "up":
        place.wait_ready(place.daemon())
    words = ("--playbook", str(place.directory / "review.yaml"))
    processes = [
        launched(place, name, "sh", "-c", script, fault=None, means="subreaper", options=words)
        for name, script in RUNS.items()
    ]
    for process in processes:
        process.wait()
    if daemon == "down":
        place.wait_ready(place.daemon())
    expected = {"forges": MISSING, "steals": MISSING, "kills": GONE}
    wait_for(lambda: verdicts(place) == expected, f"{expected}, not {verdicts(place)}")
    assert all("review.md" in str(contract) for contract in contracts(place).values())


def test_a_cancellation_that_no_person_ordered_is_not_recorded_as_one(cleaned: Place) -> None:  # noqa: F811
    place = cleaned
    place.wait_ready(place.daemon())
    process = launched(place, "forged", "sleep", "1000", fault=None, means="subreaper")
    wait_for(lambda: "forged" in verdicts(place), "its session")
    run = place.runs / "forged"
    (run / WORD).write_text('{"said_by": "root", "reason": "not wanted any more"}')
    os.kill(json.loads((run / "run.json").read_text())["launcher"]["pid"], CANCEL)
    process.wait()
    wait_for(lambda: verdicts(place)["forged"][0] != "running", "its verdict")
    assert verdicts(place)["forged"] == ("failed", "run.failed.signal", "declared")


def test_a_cancellation_that_a_person_ordered_is_one(cleaned: Place) -> None:  # noqa: F811
    place = cleaned
    place.wait_ready(place.daemon())
    process = launched(place, "ordered", "sleep", "1000", fault=None, means="subreaper")
    wait_for(lambda: "ordered" in verdicts(place), "its session")
    payload = {"at": 1.0, "session_key": "native:runs/ordered", "attempt": 1, "reason": "enough"}
    place.put_request({"type": "SessionCancelRequested", "version": 1, "payload": payload})
    process.wait()
    wait_for(lambda: verdicts(place)["ordered"][0] != "running", "its verdict")
    assert verdicts(place)["ordered"] == ("cancelled", "run.cancelled.user", "declared")
