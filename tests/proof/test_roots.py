"""Roots that appear, vanish, return, are replaced, are links, or can't be read; and what lies inside them."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.proof.place import NEVER_SCANNED, Place, write
from tests.proof.processes import Process
from tests.waiting import wait_for


@pytest.fixture
def place(place: Place) -> Place:
    """A place whose periodic scan never comes: it would find everything anyway."""
    place.set_up(further=NEVER_SCANNED)
    return place


def _root(place: Place, name: str = "runs") -> dict[str, object]:
    """What the daemon's report says of a root."""
    roots = place.status().get("roots", [])
    return next((root for root in roots if root["name"] == name), {})  # type: ignore[attr-defined] # the report's own shape


def _wait_health(place: Place, health: str, name: str = "runs") -> None:
    wait_for(lambda: _root(place, name).get("health") == health, f"{health}, not {_root(place, name)}")


def _watches(daemon: Process) -> int:
    """How many inotify watches a daemon holds."""
    found = 0
    for entry in Path(f"/proc/{daemon.pid}/fdinfo").iterdir():
        try:
            found += sum(line.startswith("inotify ") for line in entry.read_text().splitlines())
        except FileNotFoundError:
            continue
    return found


def test_a_root_that_appears_after_the_start_is_watched(place: Place) -> None:
    place.runs.rmdir()
    with place.serving():
        _wait_health(place, "missing")
        assert "root runs: the directory is not there" in str(place.status()["degraded"])
        place.runs.mkdir()
        place.finished_run("first")
        place.wait_ended(1)
        _wait_health(place, "ok")
        place.finished_run("second")
        place.wait_ended(2)


def test_a_root_that_vanishes_ends_nothing_and_goes_on_when_it_returns(place: Place) -> None:
    with place.serving():
        run = place.start_run("goes-on")
        wait_for(lambda: place.statuses() == {"goes-on": "running"}, "the start")
        aside = place.directory / "aside"
        place.runs.rename(aside)
        _wait_health(place, "missing")
        place.finish_run(aside / run.name)
        assert place.statuses() == {"goes-on": "running"}, "what can't be read is not gone"
        aside.rename(place.runs)
        place.wait_ended(1)
        assert place.statuses() == {"goes-on": "completed"}
        lines = ["session_started", "status_changed", "session_finished"]
        wait_for(lambda: place.journal("goes-on") == lines, "its journal")


def test_while_another_directory_stands_in_for_a_root_nothing_of_it_is_judged(place: Place) -> None:
    with place.serving():
        run = place.start_run("goes-on", [("report.md", True)])
        wait_for(lambda: place.statuses() == {"goes-on": "running"}, "the start")
        aside = place.directory / "aside"
        place.runs.rename(aside)
        place.runs.mkdir()
        _wait_health(place, "replaced")
        place.finished_run("of-the-other")
        assert "runward root accept runs" in str(place.status()["degraded"])
        write(aside / run.name / "artifacts" / "report.md", "found nothing\n")
        place.finish_run(aside / run.name)
        place.runs.rename(place.directory / "other")
        aside.rename(place.runs)
        place.wait_ended(1)
        assert place.statuses() == {"goes-on": "completed"}
        _wait_health(place, "ok")
    assert place.rows("select count(*) from attempts") == [(1,)]


@pytest.fixture
def mounted(place: Place) -> Iterator[Callable[..., None]]:
    """Mounts over the root, and unmounts; where it is not mounted, its mount point is there."""

    def mount(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, text=True)

    disk = place.directory / "disk"
    disk.mkdir()
    try:
        mount("mount", "-t", "tmpfs", "tmpfs", str(disk))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"nothing can be mounted here: {error}")
    try:
        mount("mount", "--bind", str(disk), str(place.runs))
        yield mount
    finally:
        for path in (place.runs, disk):
            subprocess.run(["umount", "-l", str(path)], check=False, capture_output=True)


def test_an_unmounted_root_ends_nothing(place: Place, mounted: Callable[..., None]) -> None:
    run = place.start_run("goes-on", [("report.md", True)])
    place.finished_run("over")
    with place.serving():
        wait_for(lambda: place.statuses() == {"goes-on": "running", "over": "completed"}, "the verdict")
        mounted("umount", "-l", str(place.runs))
        _wait_health(place, "replaced")
        assert place.statuses() == {"goes-on": "running", "over": "completed"}
    with place.serving():
        # Nor is the mount point taken for the root by the next daemon, with nothing of it in memory.
        _wait_health(place, "replaced")
        disk = place.directory / "disk"
        write(disk / run.name / "artifacts" / "report.md", "found nothing\n")
        place.finish_run(disk / run.name)
        assert place.statuses() == {"goes-on": "running", "over": "completed"}
        mounted("mount", "--bind", str(disk), str(place.runs))
        place.wait_ended(2)
        assert place.statuses() == {"goes-on": "completed", "over": "completed"}


def test_a_mount_point_is_not_taken_for_a_root_in_which_all_is_over(
    place: Place, mounted: Callable[..., None]
) -> None:
    place.finished_run("over")
    with place.serving():
        place.wait_ended(1)
    mounted("umount", str(place.runs))
    with place.serving():
        _wait_health(place, "replaced")


def test_a_verdict_that_a_killed_daemon_owes_waits_until_the_root_is_itself(place: Place) -> None:
    run = place.finished_run("honest")
    # More than is foreseen of a verdict, so that it is not in the transaction that records the end.
    (run / "artifacts" / "outcomes").mkdir()
    for number in range(12):
        (run / "artifacts" / "outcomes" / f"{number}.json").write_text(json.dumps({"pad": "x" * 1_000_000}))
    daemon = place.daemon(fault="kill@commit.turn.after")
    daemon.wait()
    assert place.rows("select count(*) from jobs where state = 'running'") != [(0,)], "the verdict is owed"
    place.runs.rename(place.directory / "aside")
    place.runs.mkdir()
    with place.serving():
        _wait_health(place, "replaced")
        wait_for(lambda: place.log("job.delayed"), "a delay")
        place.runs.rmdir()
        (place.directory / "aside").rename(place.runs)
        place.wait_ended(1)
        lines = [
            "session_started",
            "contract_snapshotted",
            "artifact_verified",
            "status_changed",
            "session_finished",
        ]
        wait_for(lambda: place.journal(run.name) == lines, f"its journal, not {place.journal(run.name)}")
    assert place.statuses() == {"honest": "completed"}


def test_a_person_may_say_that_another_directory_is_the_root(place: Place) -> None:
    place.start_run("of-the-old")
    with place.serving():
        wait_for(lambda: place.statuses(), "the start")
        place.runs.rename(place.directory / "old")
        place.runs.mkdir()
        place.finished_run("of-the-new")
        _wait_health(place, "replaced")
        found = place.runs.stat()
        payload = {"at": 2.0, "root": "runs", "identity": f"{found.st_dev}:{found.st_ino}"}
        place.put_request({"type": "RootAcceptRequested", "version": 1, "payload": payload})
        wait_for(lambda: place.statuses().get("of-the-new") == "completed", "the new root's run")
        place.finished_run("another")
        wait_for(lambda: place.statuses().get("another") == "completed", "its next run")
        # In a root that can be read, a directory that is gone is gone.
        wait_for(lambda: place.statuses()["of-the-old"] == "aborted", "the end of the old")
        _wait_health(place, "ok")
    assert place.rows("select reason_code from sessions where key like '%of-the-old'") == [
        ("run.aborted.vanished",)
    ]


def test_a_root_that_was_restored_into_another_directory_is_known_by_its_runs(place: Place) -> None:
    place.start_run("goes-on")
    place.finished_run("over")
    with place.serving():
        wait_for(lambda: len(place.statuses()) == 2, "the starts")
    place.runs.rename(place.directory / "old")
    shutil.copytree(place.directory / "old", place.runs)
    with place.serving():
        _wait_health(place, "ok")
        place.finish_run(place.runs / "goes-on")
        place.wait_ended(2)
    assert set(place.statuses().values()) == {"completed"}


def test_a_root_that_is_deleted_and_made_again_is_watched_again(place: Place) -> None:
    with place.serving():
        place.finished_run("before")
        place.wait_ended(1)
        place.runs.rename(place.directory / "away")
        _wait_health(place, "missing")
        place.runs.mkdir()
        _wait_health(place, "ok")
        place.finished_run("after")
        place.wait_ended(2)
        assert place.statuses() == {"before": "completed", "after": "completed"}


def test_a_root_that_is_a_link_to_a_directory_is_watched(place: Place) -> None:
    real = place.directory / "real"
    place.runs.rename(real)
    place.runs.symlink_to(real)
    with place.serving():
        _wait_health(place, "ok")
        place.finished_run("through-the-link")
        place.wait_ended(1)
        place.finished_run("beside-the-link", real)
        place.wait_ended(2)


def test_a_dangling_root_is_missing_until_what_it_leads_to_is_there(place: Place) -> None:
    real = place.directory / "real"
    place.runs.rmdir()
    place.runs.symlink_to(real)
    with place.serving():
        _wait_health(place, "missing")
        real.mkdir()
        place.finished_run("at-last")
        place.wait_ended(1)
        _wait_health(place, "ok")


def test_a_root_that_may_not_be_read_ends_nothing_and_is_scanned_when_it_may(place: Place) -> None:
    # Without its capabilities, for root may read everything.
    daemon = place.daemon(unprivileged=True)
    place.wait_ready(daemon)
    run = place.start_run("goes-on")
    wait_for(lambda: place.statuses() == {"goes-on": "running"}, "the start")
    place.runs.chmod(0)
    _wait_health(place, "unreadable")
    if os.geteuid() == 0:
        place.finish_run(run)
        assert place.statuses() == {"goes-on": "running"}
    place.runs.chmod(0o755)
    if os.geteuid() != 0:
        place.finish_run(run)
    place.wait_ended(1)
    assert place.statuses() == {"goes-on": "completed"}
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0, daemon.said()


@pytest.mark.parametrize("when", ["before", "moved in", "made later"])
def test_a_run_with_a_link_to_the_whole_machine_does_not_have_it_watched(place: Place, when: str) -> None:
    """Anyone who makes runs may make a link to anywhere."""
    place.set_up(further='scan.period = "1s"')  # as often it is asked whether the watch is still right
    machine = place.directory / "machine"
    for number in range(300):
        (machine / f"directory-{number}" / "below").mkdir(parents=True)
    far = place.start_run("links-far", root=place.runs if when == "before" else place.directory)
    if when == "before":
        (far / "everything").symlink_to(machine)
    with place.serving() as daemon:
        if when == "moved in":
            (far / "everything").symlink_to(machine)
            far = far.rename(place.runs / "links-far")
        elif when == "made later":
            far = far.rename(place.runs / "links-far")
            wait_for(lambda: place.statuses(), "the start")
            (far / "everything").symlink_to(machine)
        wait_for(lambda: place.statuses(), "the start")
        place.finished_run("another")
        wait_for(lambda: place.statuses().get("another") == "completed", "a run beside it")
        place.finish_run(far)
        place.wait_ended(2)
        wait_for(lambda: _watches(daemon) < 50, f"few watches, not {_watches(daemon)}")


@pytest.mark.parametrize("when", ["before", "moved in"])
def test_a_run_with_a_maze_of_links_holds_nobody_up(place: Place, when: str) -> None:
    """24 directories with two links each to the next one are 2^24 paths."""
    maze = (place.start_run("maze", root=place.runs if when == "before" else place.directory)) / "artifacts"
    for number in range(24):
        (maze / f"d{number}").mkdir()
        for name in ("left", "right"):
            (maze / f"d{number}" / name).symlink_to(f"../d{number + 1}")
    with place.serving() as daemon:
        if when == "moved in":
            (place.directory / "maze").rename(place.runs / "maze")
        wait_for(lambda: place.statuses() == {"maze": "running"}, "the start")
        place.finished_run("beside")
        place.finish_run(place.runs / "maze")
        place.wait_ended(2)
        assert place.status()["degraded"] == []
        assert _watches(daemon) < 50
    assert set(place.statuses().values()) == {"completed"}
