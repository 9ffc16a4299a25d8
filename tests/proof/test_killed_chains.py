"""`kill -9` of the daemon at every point while a chain runs: each step runs once, and the second on the first one's outcome."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from tests.proof.place import Place, write
from tests.proof.processes import Forks
from tests.waiting import wait_for

CHAIN: Final = """\
name: two
trigger: {event: asked, filter: {wanted: true}}
steps:
  - {id: review, skill: judge, with: {verdict: "{{ trigger.verdict }}"}}
  - {id: merge, skill: merge, condition: "{{ outcome.verdict == 'APPROVE' }}"}
"""
JUDGE: Final = """\
command:
  - sh
  - -c
  - 'until [ -e "$RUNWARD_RUN_DIR/../../go" ]; do sleep 0.02; done; echo judged >> "$RUNWARD_RUN_DIR/../../did"; echo "{\\"outcome_kind\\": \\"review_verdict\\", \\"summary\\": \\"s\\", \\"verdict\\": \\"$0\\"}" > "$RUNWARD_ARTIFACTS_DIR/outcome.json"'
  - "{{ with.verdict }}"
"""
MERGE: Final = """\
command: [sh, -c, 'echo merged >> "$RUNWARD_RUN_DIR/../../did"']
"""
PARTS: Final = 4
"""The sweep is dealt out in so many tests: a slow machine does each within its time."""
OVER: Final = "select status from chain_runs"


def fired(directory: Path, forks: Forks) -> Place:
    """A place where an event asks for the chain, twice under one name."""
    place = Place(directory, forks)
    place.set_up(further='chains = ["chains"]\nbatch = 1')
    for name in ("playbooks", "chains"):
        (place.directory / name).mkdir()
    write(place.directory / "playbooks" / "judge.playbook.yaml", JUDGE)
    write(place.directory / "playbooks" / "merge.playbook.yaml", MERGE)
    write(place.directory / "chains" / "two.yaml", CHAIN)
    fields = {"wanted": True, "verdict": "APPROVE"}
    asked = {"at": 1.0, "name": "asked", "id": "one", "fields": fields}
    place.put_request({"type": "EventOccurred", "version": 1, "payload": asked})
    return place


def play(place: Place, faults: Sequence[str | None]) -> list[int]:
    """Run daemons until the chain run is over, the first ones under these faults; their exit codes.

    The first step goes on until the first daemon has ended.
    """
    codes: list[int] = []
    while place.rows(OVER) in ([], [("running",)]):
        fault = faults[len(codes)] if len(codes) < len(faults) else None
        codes.append(place.once(fault))
        write(place.directory / "go", "")
        for (name,) in place.rows("select name from starts where state = 'begun'"):
            wait_for((place.runs / str(name) / "exit.json").exists, f"the end of {name}")
        assert len(codes) < len(faults) + 6, place.started[-1].said()[-3000:]
    return codes


def check(place: Place) -> None:
    """One run of two steps, each done once."""
    assert place.once() == 0
    assert place.rows("select chain, status, reason_code from chain_runs") == [
        ("two", "completed", "chain.completed.ok")
    ]
    assert place.rows("select step, attempt, status from chain_steps order by step") == [
        (0, 1, "completed"),
        (1, 1, "completed"),
    ]
    assert (place.directory / "did").read_text() == "judged\nmerged\n"
    assert sorted(place.statuses().values()) == ["completed", "completed"]


@pytest.mark.prove
@pytest.mark.longest
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("daemon", [0, 1], ids=["the first daemon", "the second"])
def test_a_daemon_killed_at_any_point_of_a_chain_runs_each_step_once(
    in_memory: Path, forks: Forks, daemon: int, part: int
) -> None:
    for number in count(1 + part, PARTS):
        place = fired(in_memory / f"chain-{daemon}-{number}", forks)
        faults = [*[None] * daemon, f"kill@{number}"]
        codes = play(place, faults)
        check(place)
        place.close()
        if codes[daemon] == 0:
            break
    assert number > 20, "the sweep ended before the chain did"


def test_a_chain_is_killed_where_its_step_has_just_begun(place: Place, forks: Forks) -> None:
    chain = fired(place.directory / "chain", forks)
    assert play(chain, ["kill@start.after", "kill@commit.start.before"])[:2] == [-9, -9]
    check(chain)
