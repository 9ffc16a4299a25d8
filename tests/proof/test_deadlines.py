"""A run that keeps its launcher from ending it is ended by the daemon, with all its processes."""

from typing import Final

import pytest
from tests.daemon.launching import members
from tests.proof.place import Place
from tests.proof.test_killed_launchers import cleaned, launched, verdicts  # noqa: F401 - the fixture is used by name
from tests.waiting import wait_for

from runward.daemon.processes.proc import read_stat

GONE: Final = ("aborted", "run.aborted.process_gone", "process_gone")
LATE: Final = ("timed_out", "run.timed_out.deadline", "process_gone")
AGAINST: Final = {
    "stops": "kill -STOP $PPID; (setsid sleep 1000 &); exec sleep 1000",
    "kills": "kill -KILL $PPID; (setsid sleep 1000 &); exec sleep 1000",
    "forgets": "kill -STOP $PPID; exec env -i /bin/sleep 1000",
}


@pytest.mark.prove
@pytest.mark.parametrize("daemon", ["up", "down"])
def test_a_run_that_stops_or_kills_its_launcher_ends_at_its_deadline(cleaned: Place, daemon: str) -> None:  # noqa: F811
    place = cleaned
    if daemon == "up":
        place.wait_ready(place.daemon())
    options = ("--timeout", "1s", "--grace", "100ms")
    processes = [
        launched(place, name, "sh", "-c", script, fault=None, means="subreaper", options=options)
        for name, script in AGAINST.items()
    ]
    if daemon == "down":
        wait_for(lambda: len(members(str(place.runs))) >= 4, "the commands")
        place.wait_ready(place.daemon())
    expected = dict.fromkeys(AGAINST, LATE)
    wait_for(lambda: verdicts(place) == expected, f"{expected}, not {verdicts(place)}")
    assert members(str(place.runs)) == []
    for process in processes:
        process.wait()


@pytest.mark.prove
def test_a_launcher_that_ends_its_run_in_time_is_left_alone(cleaned: Place) -> None:  # noqa: F811
    place = cleaned
    place.wait_ready(place.daemon())
    options = ("--timeout", "300ms", "--grace", "100ms")
    process = launched(place, "late", "sleep", "1000", fault=None, means="subreaper", options=options)
    assert process.wait() == 124
    wait_for(lambda: verdicts(place) == {"late": ("timed_out", "run.timed_out.deadline", "declared")}, "it")
    wait_for(
        lambda: place.rows("select state from jobs where handler = 'sessions/deadline'") == [("done",)],
        "the end of its timer",
    )
    assert place.rows("select count(*) from cancellations") == [(0,)]


ORPHAN: Final = (
    "env -i /usr/bin/setsid /bin/sh -c 'echo $$ >{pid}.x; mv {pid}.x {pid}; exec sleep 1000' & "
    "until [ -e {pid} ]; do sleep 0.05; done; kill -KILL $PPID; "
)
"""A child with a session of its own and without an environment, whose launcher is killed: only the cgroup knows it."""


@pytest.mark.prove
@pytest.mark.parametrize(
    ("then", "options", "verdict"),
    [
        ("exit 0", (), GONE),
        ("exec sleep 1000", ("--timeout", "3s", "--grace", "100ms"), LATE),
    ],
    ids=["its command ends, too", "its time passes"],
)
def test_what_a_run_left_in_its_cgroup_does_not_outlive_it(
    cleaned: Place,  # noqa: F811
    then: str,
    options: tuple[str, ...],
    verdict: tuple[str, str, str],
) -> None:
    place, left = cleaned, cleaned.directory / "left"
    place.wait_ready(place.daemon())
    script = ORPHAN.format(pid=left) + then
    process = launched(place, "orphan", "sh", "-c", script, fault=None, means="cgroup", options=options)
    if process.wait() == 2:
        pytest.skip(process.said().strip())
    wait_for(lambda: verdicts(place) == {"orphan": verdict}, f"{verdict}, not {verdicts(place)}")
    pid = int(left.read_text())
    wait_for(lambda: not is_alive(pid), "the end of what it left")


def is_alive(pid: int) -> bool:
    try:
        return not read_stat(pid).is_dead
    except (FileNotFoundError, ProcessLookupError):
        return False
