"""`kill -9` of the launcher at each of its points, beside a daemon: nothing is lost, and the verdict is the right one.

What is left of a run is then only what its files say and who still lives. Before the command was let go it never
runs; afterwards it goes on under the daemon's eyes, until it ends by itself or is cancelled.
"""

import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from tests.daemon.launching import members
from tests.proof.place import Place
from tests.proof.processes import Process
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.processes.proc import send_signal

NO_SESSION: Final = ("launch.directory", "launch.forked", "launch.contained", "launch.announced")
"""Points before `run.json`: what is left is not a session."""

GONE: Final = ("launch.run_json", "launch.process_json", "launch.ended", "launch.announced_again")
"""Points at which nobody lives and no end is written."""

COMMAND: Final = 'echo ran > "$RUNWARD_ARTIFACTS_DIR/ran"; {then}'
LIVES_ON: Final = "exec sleep 1000"


def launched(
    place: Place, name: str, *command: str, fault: str | None, means: str, options: Sequence[str] = ()
) -> Process:
    """`runward run`, killed at the point `fault`."""
    environment = {
        "HOME": str(place.directory),
        "PATH": "/usr/bin:/bin",
        "RUNWARD_CONFIG": str(place.settings),
    }
    if fault is not None:
        environment["RUNWARD_RUN_FAULT"] = f"kill@{fault}"
    process = place.forks.start(
        "run", "--name", name, "--containment", means, *options, "--", *command,
        environment=environment, output=place.directory / f"output-of-{name}",
    )  # fmt: skip
    place.started.append(process)
    return process


def killed(place: Place, means: str) -> None:
    """A launcher killed at each of the points; they are named after them."""
    points = (*NO_SESSION, *GONE, "launch.released", "launch.exit_json")
    processes = {}
    for name in points:
        then = LIVES_ON if name == "launch.released" else "true"
        command = ("sh", "-c", COMMAND.format(then=then))
        processes[name] = launched(place, name, *command, fault=name, means=means)
    for name, process in processes.items():
        code = process.wait()
        if code == 2:
            pytest.skip(process.said().strip())
        assert code == -signal.SIGKILL, f"{name}: {code}: {process.said()}"


@pytest.fixture
def cleaned(place: Place) -> Iterator[Place]:
    yield place
    for pid in members(str(place.runs)):
        send_signal(pid, signal.SIGKILL)


def verdicts(place: Place) -> Mapping[str, tuple[object, ...]]:
    rows = place.rows("select key, status, reason_code, ended_by from sessions")
    return {str(key).rpartition("/")[2]: tuple(rest) for key, *rest in rows}


def check(place: Place) -> None:
    """What must have come of the killed launchers, and then of the command that lives on."""
    expected = 6
    wait_for(lambda: len(verdicts(place)) == expected, f"{expected} sessions, not {verdicts(place)}")
    place.wait_ended(expected - 1)
    found = verdicts(place)
    assert {name: found[name] for name in GONE} == dict.fromkeys(
        GONE, ("aborted", "run.aborted.process_gone", "process_gone")
    )
    assert found["launch.exit_json"] == ("completed", "run.completed.ok", "declared")
    assert found["launch.released"] == ("running", "run.started.ok", None)
    assert not found.keys() & set(NO_SESSION)
    wait_for(lambda: living(place) == [b"sleep\x001000\x00"], f"the one that lives on, not {living(place)}")
    ran = {path.parts[-3] for path in place.runs.glob("*/artifacts/ran")}
    let_go = {"launch.released", "launch.ended", "launch.announced_again", "launch.exit_json"}
    assert ran == let_go, "nobody else was let go"
    cancelled(place, "launch.released")
    assert members(str(place.runs)) == []


def living(place: Place) -> list[bytes]:
    """What every living process of a run executes."""
    return [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in members(str(place.runs))]


def cancelled(place: Place, name: str) -> None:
    """A person has the command ended that lost its launcher."""
    payload = {"at": 1.0, "session_key": f"native:runs/{name}", "attempt": 1, "reason": "it is alone"}
    place.put_request({"type": "SessionCancelRequested", "version": 1, "payload": payload})
    wait_for(lambda: verdicts(place)[name][0] != "running", "the end of the cancelled one")
    assert verdicts(place)[name] == ("cancelled", "run.cancelled.user", "process_gone")


@pytest.mark.prove
@pytest.mark.parametrize("means", ["subreaper", "cgroup", "pidns"])
def test_a_launcher_killed_at_any_point_beside_a_daemon_is_judged_rightly(cleaned: Place, means: str) -> None:
    with cleaned.serving():
        killed(cleaned, means)
        check(cleaned)


@pytest.mark.prove
def test_a_launcher_killed_while_no_daemon_runs_is_judged_by_the_next_one(cleaned: Place) -> None:
    killed(cleaned, "subreaper")
    with cleaned.serving():
        check(cleaned)


@pytest.mark.prove
def test_a_daemon_killed_meanwhile_knows_the_runs_again(cleaned: Place) -> None:
    daemon = cleaned.daemon()
    cleaned.wait_ready(daemon)
    living = launched(cleaned, "living", "sleep", "1000", fault=None, means="subreaper")
    killed(cleaned, "subreaper")
    wait_for(lambda: "living" in verdicts(cleaned), "the run to be seen", PATIENCE_S)
    daemon.kill()
    with cleaned.serving():
        place_before = verdicts(cleaned)["living"]
        living.send(signal.SIGTERM)
        assert living.wait() == 143
        wait_for(lambda: verdicts(cleaned)["living"][0] != "running", "the end of the living one")
        assert place_before == ("running", "run.started.ok", None)
        assert verdicts(cleaned)["living"][1] == "run.cancelled.sigterm"
