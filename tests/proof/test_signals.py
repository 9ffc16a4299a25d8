"""SIGTERM ends the daemon with 0, at whatever point it comes and however often; SIGHUP reads the settings again.

Field test design: the graceful stop matrix. The signal is sent while the daemon stands still at a point, so that it
is what the daemon meets next.
"""

import signal
import time
from pathlib import Path

import pytest
from tests.proof.account import Account, account, difference
from tests.proof.history import first_chapter, let_go
from tests.proof.place import Place
from tests.proof.processes import Forks
from tests.waiting import wait_for

BOUND = 10.0
"""Seconds that a stop may take on a machine that is busy with other tests; alone it is well under one."""


@pytest.fixture(scope="module")
def undisturbed(in_memory: Path, forks: Forks) -> tuple[Account, list[str]]:
    """The account of a history that nobody disturbed, and the names of a serving daemon's points in order."""
    place = Place(in_memory / "undisturbed", forks)
    first_chapter(place)
    daemon = place.daemon(fault="list")
    place.wait_ready(daemon)
    wait_for(lambda: place.rows('select 1 from journal_lines where "offset" is not null'), "the first sweep")
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0
    said = daemon.said()
    passed = [line.split()[1] for line in said.splitlines() if line.startswith("point ")]
    points = [
        name for name in passed if not name.startswith("commit.stop.")
    ]  # only a daemon that stops comes there
    assert place.once() == 0
    let_go(place)
    return account(place), points


def _stopped_at(place: Place, point: int | str, times: int = 1) -> float:
    """Seconds that a daemon takes to end after SIGTERM met it at a point."""
    first_chapter(place)
    daemon = place.daemon(fault=f"stop@{point}")
    assert daemon.wait_stopped(), daemon.said()
    began = time.monotonic()
    daemon.send(signal.SIGTERM)
    daemon.go_on()
    for _ in range(times - 1):
        wait_for(lambda: '"stopping"' in daemon.said() or daemon.ended(), "the first SIGTERM")
        if not daemon.ended():
            daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0, f"at {point}:\n{daemon.said()}"
    assert "Traceback" not in daemon.said()
    return time.monotonic() - began


@pytest.mark.prove
@pytest.mark.timeout(300)
@pytest.mark.longest
def test_sigterm_at_some_kinds_of_points_ends_0_and_loses_nothing(
    undisturbed: tuple[Account, list[str]], in_memory: Path, forks: Forks
) -> None:
    expected, points = undisturbed
    for name in list(dict.fromkeys(points))[::4]:  # every point is met in the sweep below
        if name.startswith("sweep") or "commit.outbox" in name:
            continue  # five seconds after the start: in the sweep below
        place = Place(in_memory / name, forks)
        assert _stopped_at(place, name) < BOUND
        assert place.once() == 0
        let_go(place)
        parted = difference(expected, account(place))
        assert not parted, f"{name}:\n{parted}"


@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.longest
def test_sigterm_at_every_point_ends_0_and_loses_nothing(
    undisturbed: tuple[Account, list[str]], in_memory: Path, forks: Forks
) -> None:
    expected, points = undisturbed
    for index, name in enumerate(points):
        place = Place(in_memory / f"every-{index}", forks)
        assert _stopped_at(place, index + 1) < BOUND
        assert place.once() == 0
        let_go(place)
        parted = difference(expected, account(place))
        assert not parted, f"{index + 1}, {name}:\n{parted}"


def test_a_second_sigterm_is_harmless(
    undisturbed: tuple[Account, list[str]], in_memory: Path, forks: Forks
) -> None:
    place = Place(in_memory / "twice", forks)
    assert _stopped_at(place, "commit.finish.begin", times=3) < BOUND
    assert place.once() == 0
    let_go(place)
    assert not difference(undisturbed[0], account(place))


def test_an_idle_daemon_ends_0_on_sigint_too(place: Place) -> None:
    daemon = place.daemon()
    place.wait_ready(daemon)
    daemon.send(signal.SIGINT)
    assert daemon.wait(BOUND) == 0
    assert '"signal":"SIGINT","event":"stopping"' in daemon.said()


def test_sigterm_before_the_daemon_has_begun_ends_0(place: Place) -> None:
    daemon = place.daemon(hangs="the settings are read")
    wait_for(lambda: "it hangs" in daemon.said(), "a daemon that reads its settings")
    daemon.send(signal.SIGTERM)
    assert daemon.wait(BOUND) == 0, daemon.said()


def test_sigterm_while_daemon_once_waits_for_what_is_due_soon_ends_0(place: Place) -> None:
    # A live run in the middle of a line: its journal is tried again and again for fifteen seconds.
    place.start_run("in-a-line")
    (place.runs / "in-a-line" / "events.jsonl").write_text('{"event": "half')
    daemon = place.daemon("--once")
    wait_for(lambda: place.log("journal.delayed"), "a delayed journal")
    daemon.send(signal.SIGTERM)
    assert daemon.wait(BOUND) == 0, daemon.said()


def test_sighup_takes_a_new_root_into_force(place: Place) -> None:
    further = place.directory / "further"
    further.mkdir()
    with place.serving() as daemon:
        place.finished_run("before")
        place.wait_ended(1)
        place.set_up(place.runs, further)
        daemon.send(signal.SIGHUP)
        wait_for(lambda: place.log("reloaded"), "the reload")
        place.finished_run("after", further)
        place.wait_ended(2)
        assert place.statuses() == {"before": "completed", "after": "completed"}
    assert place.log("reloaded")[0]["roots"] == ["runs", "further"]


def test_a_broken_new_version_is_refused_with_its_place_and_the_old_one_stays_in_force(place: Place) -> None:
    with place.serving() as daemon:
        right = place.settings.read_text()
        place.settings.write_text(right + 'layuot = "native"\n')
        daemon.send(signal.SIGHUP)
        (refused,) = wait_for(lambda: place.log("settings.refused"), "the refusal")
        line = right.count("\n") + 1
        problems = refused["problems"]
        assert isinstance(problems, list)
        (problem,) = problems
        assert problem.startswith(f"{place.settings}:{line}:1: roots[0].layuot: unknown key")
        place.finished_run("after")
        place.wait_ended(1)
        place.settings.write_text(right)
        daemon.send(signal.SIGHUP)
        wait_for(lambda: place.log("reloaded"), "the fixed settings")
    assert daemon.code == 0


def test_a_new_state_directory_is_refused_while_the_daemon_runs(place: Place) -> None:
    with place.serving() as daemon:
        text = place.settings.read_text().replace(str(place.state), str(place.directory / "elsewhere"))
        place.settings.write_text(text)
        daemon.send(signal.SIGHUP)
        (refused,) = wait_for(lambda: place.log("settings.refused"), "the refusal")
        assert "state_dir" in str(refused["problems"])
        place.finished_run("after")
        place.wait_ended(1)


def test_a_sighup_while_the_daemon_starts_is_obeyed_once_it_has_begun(place: Place) -> None:
    daemon = place.daemon(fault="stop@commit.roots.begin")
    assert daemon.wait_stopped(), daemon.said()
    daemon.send(signal.SIGHUP)
    daemon.go_on()
    wait_for(lambda: place.log("reloaded") or daemon.ended(), "the reload")
    assert daemon.code is None, daemon.said()
    place.finished_run("after")
    place.wait_ended(1)
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0, daemon.said()
