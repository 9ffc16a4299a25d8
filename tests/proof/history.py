"""A scripted history: runs that end in every way that the files can tell, in three chapters with a daemon after each.

Every time in it is fixed, so that two daemons which saw it must have recorded the same.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.proof.place import Place, write
from tests.waiting import wait_for

TWO: Final = [("review.md", True), ("notes.md", False)]
LAUNCHER: Final = {"pid": 4711, "start_ticks": 1, "boot_id": "of-yesterday"}
BATCH: Final = 3
"""Few jobs a turn, so that the history has many commits."""

CALL: Final = '{"event": "ToolCall", "id": "a", "tool": "Read", "params": {}, "t": "2026-02-03T04:05:06Z"}\n'
"""With its first call, a run's replay begins while it goes on."""

PLAYBOOK: Final = """\
command: [sh, -c, 'echo ran >> "$RUNWARD_ARTIFACTS_DIR/ran"; until [ -e "$RUNWARD_RUN_DIR/../../go" ]; do sleep 0.02; done', "{{ with.word }}"]
timeout: 1min
artifacts:
  expected:
    - {id: ran, path: ran}
"""
"""Its run goes on until `go` is there, so that every daemon of the first chapter sees it running."""


def first_chapter(place: Place) -> None:
    """Runs that deliver, lack something, crash, go on, say nothing that can be read, or write into their journal."""
    place.set_up(further=f"batch = {BATCH}")
    _delivering(place, "delivers")
    lacking = place.start_run("lacks-required", TWO)
    write(lacking / "artifacts" / "notes.md", "only notes\n")
    place.finish_run(lacking)
    optional = place.start_run("lacks-optional", TWO)
    write(optional / "artifacts" / "review.md", "all is well\n")
    place.finish_run(optional)
    crashed = place.start_run("crashes", TWO)
    place.finish_run(crashed, exit_code=None, signal=11, cause="signalled")
    going = place.start_run("goes-on", TWO)
    write(going / "trace.jsonl", CALL)
    place.start_run("is-cancelled", launcher=LAUNCHER, host="elsewhere")
    place.start_run("names-nobody")
    ill = place.start_run("ill-formed")
    write(ill / "exit.json", '{"exit_code": "zero"}')
    foreign = _delivering(place, "writes-lines")
    write(foreign / "events.jsonl", '{"event":"mine","n":1}\nno JSON at all\n{"event":"torn')
    place.put_request({"type": "JobRetryRequested", "version": 1, "payload": {"at": 1.0, "job": 4711}})
    write(place.state / "inbox" / "not-a-request.json", "{")
    (place.directory / "playbooks").mkdir()
    write(place.directory / "playbooks" / "played.playbook.yaml", PLAYBOOK)
    ask_to_play(place, "played", word="x")
    ask_to_play(place, "played")
    ask_to_play(place, "unheard-of")


def let_go(place: Place) -> None:
    """Have the run that was started end."""
    write(place.directory / "go", "")
    (played,) = place.runs.glob("played-*")
    wait_for((played / "exit.json").exists, "the end of the run that was asked for")


def ask_to_play(place: Place, playbook: str, **given: str) -> None:
    """A person wants a playbook's command started."""
    said = {"at": 4.0, "playbook": playbook, "given": given, "cwd": "/"}
    place.put_request({"type": "PlayRunRequested", "version": 1, "payload": said})


def second_chapter(place: Place) -> None:
    """The one that went on ends, the ill-formed end is fixed, one is resumed, one is new."""
    going = place.runs / "goes-on"
    write(going / "artifacts" / "review.md", "late\n")
    place.finish_run(going)
    place.finish_run(place.runs / "ill-formed", exit_code=3)
    resumed = place.runs / "delivers"
    later = {"schema": "runward-run-v1", "session_id": "delivers", "started_at": "2026-02-03T05:00:00Z"}
    write(resumed / "run.json", json.dumps(later))
    place.finish_run(resumed, finished_at="2026-02-03T05:01:00Z", exit_code=1)
    _delivering(place, "comes-later")
    let_go(place)
    # An order for a run that names no process is tried for seven seconds, which hundreds of daemons would wait for.
    for run in ("is-cancelled", "crashes", "never-was"):
        said = {"at": 3.0, "session_key": f"native:runs/{run}", "attempt": 1, "reason": "enough"}
        place.put_request({"type": "SessionCancelRequested", "version": 1, "payload": said})
    place.put_request({"type": "ScanRequested", "version": 1, "payload": {"at": 2.0}})


def third_chapter(place: Place) -> None:
    """The power goes, and takes lines back that were synced; a run goes on where its own journal was cut."""
    place.lose_power()
    _cut(place.runs / "delivers" / "events.jsonl", -30)
    _cut(place.runs / "writes-lines" / "events.jsonl", -700, b'{"event":"mine","n":2}\n')
    _cut(place.runs / "names-nobody" / "events.jsonl", -1)
    _delivering(place, "comes-last")


CHAPTERS: Final[tuple[Callable[[Place], None], ...]] = (first_chapter, second_chapter, third_chapter)


def _cut(path: Path, at: int, foreign: bytes = b"") -> None:
    path.write_bytes(path.read_bytes()[:at] + foreign)


def _delivering(place: Place, name: str) -> Path:
    run = place.start_run(name, TWO)
    write(run / "artifacts" / "review.md", "all is well\n")
    write(run / "artifacts" / "notes.md", "some notes\n")
    place.finish_run(run)
    return run
