"""A backup that is taken beside load and restored later: nothing is lost, and nothing is there twice."""

import os
import signal
from pathlib import Path

import pytest
from tests.proof.account import account
from tests.proof.history import PLAYBOOK, ask_to_play, let_go
from tests.proof.place import Place, write
from tests.proof.processes import Process
from tests.waiting import wait_for

TRY_AGAIN = 75
BEFORE, BESIDE, AFTER = 10, 30, 10
"""Runs that end before the backup, while it may be being taken, and after it."""


def command(place: Place, *arguments: str) -> Process:
    """A command other than the daemon, here."""
    environment = {
        "HOME": str(place.directory),
        "PATH": os.environ["PATH"],
        "RUNWARD_CONFIG": str(place.settings),
    }
    output = place.directory / f"command-{len(place.started)}"
    process = place.forks.start(*arguments, environment=environment, output=output)
    place.started.append(process)
    return process


def carried_out(place: Place, *arguments: str) -> None:
    process = command(place, *arguments)
    assert process.wait() == 0, process.said()


def deliver(place: Place, kind: str, count: int) -> None:
    """So many runs that end: every third lacks what it should leave, every fourth wrote into its own journal."""
    for number in range(count):
        run = place.start_run(f"{kind}-{number}", [("report.md", True)])
        if number % 3:
            write(run / "artifacts" / "report.md", "found nothing\n")
        if number % 4 == 0:
            with (run / "events.jsonl").open("a") as file:
                file.write('{"event":"mine"}\nno JSON\n')
        place.finish_run(run, exit_code=number % 2)


def journals(place: Place) -> dict[str, bytes]:
    """Every journal as it stands."""
    found = {
        str(path.relative_to(place.runs)): path.read_bytes() for path in place.runs.glob("*/events.jsonl")
    }
    assert found
    return found


def resume(place: Place, name: str, exit_code: int) -> None:
    """The run begins and ends once more."""
    run = place.runs / name
    write(
        run / "run.json",
        f'{{"schema": "runward-run-v1", "session_id": "{name}", "started_at": "2026-02-03T05:00:00Z"}}',
    )
    place.finish_run(run, finished_at="2026-02-03T05:01:00Z", exit_code=exit_code)


def lived_through(place: Place) -> Path:
    """A daemon's work with a backup taken in the midst of it; returns the backup. Nobody runs afterwards."""
    backup = place.directory / "backup.db"
    (place.directory / "playbooks").mkdir()
    write(place.directory / "playbooks" / "played.playbook.yaml", PLAYBOOK)
    with place.serving():
        deliver(place, "before", BEFORE)
        ends_later = place.start_run("ends-later", [("report.md", True)])
        place.start_run("goes-on")
        place.wait_ended(BEFORE)
        copying = command(place, "backup", str(backup))
        deliver(place, "beside", BESIDE)
        assert copying.wait() == 0, copying.said()
        deliver(place, "after", AFTER)
        write(ends_later / "artifacts" / "report.md", "late\n")
        place.finish_run(ends_later)
        place.wait_ended(BEFORE + BESIDE + AFTER + 1)
        place.start_run("begins-late")
        ask_to_play(place, "played", word="x")
        wait_for(lambda: list(place.runs.glob("played-*/artifacts/ran")), "the run that was asked for")
        let_go(place)
        wait_for(
            lambda: place.statuses().get("begins-late") and place.ended() == BEFORE + BESIDE + AFTER + 2,
            "every verdict",
        )
    resume(place, "before-1", 0)
    assert place.once() == 0  # a stop leaves lines to the next daemon where they would take it too long
    assert place.rows(
        "select attempt, status from attempts where session_key = 'native:runs/before-1' order by 1"
    ) == [
        (1, "failed"),
        (2, "completed"),
    ]
    assert place.rows("select count(*) from outbox") == [(0,)]
    account(place)
    return backup


def holds_after(place: Place, statuses: dict[str, str], lines: dict[str, bytes]) -> None:
    """All is as it was before the restore, though the record of it was made anew."""
    account(place)
    assert place.statuses() == statuses
    assert journals(place) == lines
    assert place.rows("select count(*) from outbox") == [(0,)]
    (played,) = place.runs.glob("played-*")
    assert (played / "artifacts" / "ran").read_text() == "ran\n", "it was started twice"


@pytest.mark.prove
def test_what_was_judged_after_a_backup_is_found_again_and_no_line_is_written_twice(place: Place) -> None:
    backup = lived_through(place)
    statuses, lines = place.statuses(), journals(place)
    ((epoch,),) = place.rows("select epoch from daemon")
    carried_out(place, "restore", str(backup))
    assert len(place.rows("select 1 from sessions")) < len(statuses)
    ((restored,),) = place.rows("select epoch from daemon")
    assert int(str(restored)) > int(str(epoch))
    assert int((place.state / "epoch").read_text()) == restored
    with place.serving():
        place.wait_ended(len(statuses) - 2)
        wait_for(lambda: place.statuses() == statuses, "every status")
        wait_for(lambda: place.rows("select count(*) from outbox") == [(0,)], "every line marked")
    holds_after(place, statuses, lines)
    ((kept,),) = [list(place.state.glob("runward.before-restore-*.db"))]
    # It is a store like any other: what it knew can be had back.
    carried_out(place, "restore", str(kept))
    assert place.once() == 0
    holds_after(place, statuses, lines)


@pytest.mark.parametrize(
    "fault",
    [
        "kill@journal.append.after",
        *(
            pytest.param(f"kill@{point}", marks=pytest.mark.prove)
            for point in (
                "outbox.after",
                "commit.outbox.before",
                "commit.outbox.after",
                "commit.finish.after",
                "sweep.sync.before",
                "40",
                "90",
            )
        ),
    ],
)
def test_kill_9_after_a_restore_changes_nothing_of_it(place: Place, fault: str) -> None:
    backup = lived_through(place)
    statuses, lines = place.statuses(), journals(place)
    carried_out(place, "restore", str(backup))
    code = place.once(fault=fault)
    assert code in (0, -signal.SIGKILL)
    assert place.once() == 0
    holds_after(place, statuses, lines)


def test_a_store_is_not_restored_under_a_daemon(place: Place) -> None:
    place.finished_run("one")
    with place.serving():
        place.wait_ended(1)
        carried_out(place, "backup", str(place.directory / "backup.db"))
        refused = command(place, "restore", str(place.directory / "backup.db"))
        assert refused.wait() == TRY_AGAIN
        assert "is held by daemon" in refused.said()
    assert place.rows("select count(*) from restores") == [(0,)]


@pytest.mark.prove
def test_what_was_noticed_later_than_before_is_not_told_twice_either(place: Place) -> None:
    """When a run's process was gone nobody wrote down: the daemon that looks again notices it at another time."""
    assert place.once() == 0
    carried_out(place, "backup", str(place.directory / "backup.db"))
    gone = {"pid": 4711, "start_ticks": 1, "boot_id": "of-yesterday"}
    place.start_run("is-gone", launcher=gone)
    assert place.once() == 0
    assert place.statuses() == {"is-gone": "aborted"}
    lines = journals(place)
    carried_out(place, "restore", str(place.directory / "backup.db"))
    assert place.once() == 0
    assert place.statuses() == {"is-gone": "aborted"}
    assert journals(place) == lines
    account(place)
