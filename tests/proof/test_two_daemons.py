"""One daemon a state directory: the second one is refused, and told who holds it."""

import os
import shutil
import signal

from tests.proof.place import Place
from tests.waiting import wait_for

TRY_AGAIN = 75


def test_a_second_daemon_ends_75_and_names_the_holders_pid(place: Place) -> None:
    with place.serving() as first:
        second = place.daemon()
        assert second.wait() == TRY_AGAIN
        assert f"{place.state} is held by daemon {first.pid}: stop it first" in second.said()
        assert "Traceback" not in second.said()
        assert place.rows("select epoch from daemon") == [(1,)], "it touched nothing"


def test_a_second_daemon_once_asks_the_first_for_a_scan_and_ends_0(place: Place) -> None:
    with place.serving():
        wait_for(lambda: place.status().get("coverage"), "the first report")
        assert place.once() == 0
        wait_for(lambda: place.rows("select 1 from events where type = 'ScanRequested'"), "the request")
        wait_for(lambda: os.listdir(place.state / "inbox") == [], "a cleared inbox")


def test_the_lock_of_a_killed_daemon_holds_nobody_up(place: Place) -> None:
    first = place.daemon()
    place.wait_ready(first)
    first.send(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    with place.serving():
        assert place.rows("select epoch from daemon") == [(2,)]


def test_a_daemon_whose_state_directory_was_removed_ends_for_it_could_only_judge_into_the_void(
    place: Place,
) -> None:
    daemon = place.daemon()
    place.wait_ready(daemon)
    removed = place.state.with_name("removed")
    place.state.rename(removed)
    shutil.rmtree(removed, ignore_errors=True)  # its daemon may be writing into it
    assert daemon.wait() == TRY_AGAIN
    assert f"the state directory {place.state} was removed" in daemon.said()


def test_a_daemon_whose_state_directory_was_replaced_leaves_it_to_the_new_one(place: Place) -> None:
    first = place.daemon()
    place.wait_ready(first)
    first.stop()
    place.state.rename(place.state.with_name("aside"))
    with place.serving() as second:
        first.go_on()
        assert first.wait() == TRY_AGAIN
        assert f"the state directory {place.state} was replaced by another" in first.said()
        place.finished_run("made-later")
        place.wait_ended(1)
        wait_for(lambda: place.status().get("pid") == second.pid, "the report of the new one")
