"""A disk that is full: the daemon says why it is degraded, loses nothing, and goes on when there is space again."""

import json
import signal
from pathlib import Path

import pytest
from tests.proof.account import account
from tests.proof.disks import Disk, small_disk
from tests.proof.place import Place
from tests.proof.processes import Forks, Process
from tests.waiting import wait_for

TRY_AGAIN = 75
COUNT = 40


def _until_it_is_full(directory: Path, forks: Forks) -> Place:
    """A place whose daemon takes in what it can, until the disk refuses."""
    place = Place(directory, forks)
    place.set_up(further='low_disk = "0B"')
    return place


def _prepared(place: Place, count: int) -> list[Path]:
    """Runs that are going on and will deliver; their ends are written but not declared yet."""
    runs = []
    for number in range(count):
        directory = place.start_run(f"run-{number}", [("report.md", True)])
        (directory / "artifacts" / "report.md").write_text("done\n")
        (directory / "exit.json.tmp").write_text(json.dumps({"exit_code": 0}))
        runs.append(directory)
    return runs


def _declare_ends(runs: list[Path]) -> None:
    for directory in runs:
        (directory / "exit.json.tmp").rename(directory / "exit.json")


def _fill_and_end(place: Place, daemon: Process, disk: Disk, runs: list[Path]) -> None:
    """Once the daemon knows all runs, leave it no space and end them; it complains."""
    wait_for(lambda: len(place.statuses()) == len(runs), "every start")
    disk.fill()
    _declare_ends(runs)
    wait_for(lambda: "store.trouble" in daemon.said(), "a complaint on stderr")


def _write_up_to_the_end_of_a_page(journal: Path) -> None:
    """Lines of the run's own, up to where the disk takes the beginning of our next line and no more."""
    with journal.open("a") as file:
        fill = "." * (4096 - 100 - journal.stat().st_size - len('{"event":"mine","fill":""}\n'))
        file.write(f'{{"event":"mine","fill":"{fill}"}}\n')


def _degraded(place: Place) -> list[str]:
    """What the daemon says of its own troubles."""
    return [str(each) for each in place.status().get("degraded", [])]  # type: ignore[attr-defined] # a list, as the report has it


def _all_is_well(place: Place, count: int) -> None:
    account(place)
    assert place.rows("pragma integrity_check") == [("ok",)]
    assert list(place.statuses().values()) == ["completed"] * count
    assert place.rows("select count(*) from outbox") == [(0,)]
    for name in place.statuses():
        told = place.journal_of_ours(name)
        assert [told.count(event) for event in ("session_started", "session_finished")] == [1, 1], name


def test_a_full_state_directory_delays_verdicts_and_loses_none(tmp_path: Path, forks: Forks) -> None:
    with small_disk(tmp_path / "state", "4m") as disk:
        place = _until_it_is_full(tmp_path, forks)
        runs = _prepared(place, COUNT)
        with place.serving() as daemon:
            wait_for(lambda: place.log("journals.written"), "the first lines")
            wait_for(place.status, "a report")
            _fill_and_end(place, daemon, disk, runs)
            assert "database or disk is full" in daemon.said()
            wait_for(lambda: "store: database or disk is full" in _degraded(place), "a report that says why")
            assert place.ended() < COUNT
            disk.free()
            place.wait_ended(COUNT)
            wait_for(lambda: not _degraded(place), "a report that says that all is well")
        _all_is_well(place, COUNT)
        assert place.log("store.recovered")


def test_sigterm_ends_a_daemon_whose_disk_is_full_and_the_next_one_loses_nothing(
    tmp_path: Path, forks: Forks
) -> None:
    with small_disk(tmp_path / "state", "4m") as disk:
        place = _until_it_is_full(tmp_path, forks)
        runs = _prepared(place, COUNT)
        daemon = place.daemon()
        place.wait_ready(daemon)
        _fill_and_end(place, daemon, disk, runs)
        daemon.send(signal.SIGTERM)
        assert daemon.wait(15.0) == 0, daemon.said()
        # Nor can one start there: it says so.
        second = place.daemon()
        assert second.wait() == TRY_AGAIN, second.said()
        assert "full" in second.said() or "No space left" in second.said()
        assert "Traceback" not in second.said()
        disk.free()
        assert place.once() == 0
        _all_is_well(place, COUNT)


def test_kill_9_on_a_full_disk_loses_nothing(tmp_path: Path, forks: Forks) -> None:
    with small_disk(tmp_path / "state", "4m") as disk:
        place = _until_it_is_full(tmp_path, forks)
        runs = _prepared(place, COUNT)
        daemon = place.daemon()
        place.wait_ready(daemon)
        _fill_and_end(place, daemon, disk, runs)
        daemon.kill()
        disk.free()
        assert place.once() == 0
        _all_is_well(place, COUNT)


@pytest.mark.prove
def test_a_full_root_delays_its_journals_and_no_verdict(tmp_path: Path, forks: Forks) -> None:
    with small_disk(tmp_path / "runs", "4m") as disk:
        place = _until_it_is_full(tmp_path, forks)
        runs = _prepared(place, COUNT)
        with place.serving() as daemon:
            wait_for(lambda: len(place.statuses()) == COUNT, "every start")
            wait_for(lambda: place.rows("select count(*) from outbox") == [(0,)], "every first line synced")
            for directory in runs:
                _write_up_to_the_end_of_a_page(directory / "events.jsonl")
            disk.fill()
            _declare_ends(runs)
            place.wait_ended(COUNT)
            wait_for(lambda: place.log("journal.delayed"), "a delayed journal")
            wait_for(lambda: "o space left" in " ".join(_degraded(place)), "a report that says why")
            assert daemon.code is None
            disk.free()
            wait_for(lambda: not _degraded(place), "a report that says that all is well")
            wait_for(lambda: place.rows("select count(*) from outbox") == [(0,)], "every line synced")
        _all_is_well(place, COUNT)


def test_where_little_space_is_left_no_run_is_looked_at_until_there_is_more(
    tmp_path: Path, forks: Forks
) -> None:
    with small_disk(tmp_path / "state", "32m") as disk:
        place = Place(tmp_path, forks)
        runs = _prepared(place, COUNT)
        with place.serving() as daemon:
            wait_for(lambda: len(place.statuses()) == COUNT, "every start")
            disk.fill(leaving=2 << 20)  # of what is asked for, 3.2 MB
            wait_for(lambda: "low disk" in str(_degraded(place)), "a report that says why")
            _declare_ends(runs)
            asked = place.put_request({"type": "ScanRequested", "version": 1, "payload": {"at": 2.0}})
            wait_for(
                lambda: place.rows("select 1 from events where key = ?", asked), "what a person asked for"
            )
            assert place.ended() == 0
            assert "store.trouble" not in daemon.said(), "it never got as far as a full disk"
            disk.free()
            place.wait_ended(COUNT)
            wait_for(lambda: not _degraded(place), "a report that says that all is well")
            wait_for(lambda: place.rows("select count(*) from outbox") == [(0,)], "every line marked")
        _all_is_well(place, COUNT)
        assert [len(place.log(event)) for event in ("disk.low", "disk.recovered")] == [1, 1]


def test_a_daemon_that_waits_for_space_stops_in_order_and_a_later_one_goes_on(
    tmp_path: Path, forks: Forks
) -> None:
    with small_disk(tmp_path / "state", "32m") as disk:
        place = Place(tmp_path, forks)
        assert place.once() == 0
        disk.fill(leaving=2 << 20)
        _declare_ends(_prepared(place, COUNT))
        with place.serving():
            wait_for(lambda: "low disk" in str(_degraded(place)), "a report that says why")
        waiting = place.daemon("--once")
        wait_for(lambda: len(place.log("disk.low")) == 2, "the second one's complaint")
        assert place.statuses() == {}
        disk.free()
        assert waiting.wait() == 0
        _all_is_well(place, COUNT)


def test_a_daemon_whose_stderr_can_not_be_written_works_and_ends_0(place: Place) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    daemon = place.daemon(output=full)
    place.finished_run("delivers")
    wait_for(lambda: place.ended() == 1 or daemon.ended(), "the verdict")
    assert place.statuses() == {"delivers": "completed"}
    daemon.send(signal.SIGTERM)
    wait_for(daemon.ended, "its end")
    assert daemon.code == 0


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(kept, marks=pytest.mark.prove if kept % 80 == 0 else pytest.mark.sweep)
        for kept in range(0, 400, 16)
    ],
)
def test_space_that_ends_anywhere_breaks_nothing(tmp_path: Path, forks: Forks, kept: int) -> None:
    """State and root share the disk; what is left varies in steps of 4 KiB, so the space ends at another write."""
    with small_disk(tmp_path / "disk", "6m") as disk:
        place = _until_it_is_full(tmp_path / "disk", forks)
        runs = _prepared(place, COUNT)
        with place.serving() as daemon:
            wait_for(lambda: len(place.statuses()) == COUNT, "every start")
            spare = disk.path / "spare"
            spare.write_bytes(b"\0" * (kept << 10))
            disk.fill()
            spare.unlink()
            _declare_ends(runs)
            wait_for(
                lambda: (
                    place.ended() == COUNT
                    or place.log("journal.delayed")
                    or "store:" in str(_degraded(place))
                ),
                "every verdict, or trouble",
            )
            assert daemon.code is None
            disk.free()
            place.wait_ended(COUNT)
        assert place.once() == 0
        _all_is_well(place, COUNT)
