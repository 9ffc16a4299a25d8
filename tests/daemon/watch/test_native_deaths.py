"""When the missing processes of a run without an end are dead, and when it ended then."""

import json
import os
from pathlib import Path

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon

from runward.config.json_value import JsonValue
from runward.daemon.world.files import Files
from runward.handlers.model.processes import FIRST_NAMESPACE, Whereabouts
from runward.handlers.sessions.observe import GRACE

LAUNCHER = 41
INSIDE = 4_026_532_100
RUNNING, ABORTED = "running", "aborted"


def begin(base: Path, boot: str, host: str | None = "here", namespace: int | None = FIRST_NAMESPACE) -> Path:
    """A run whose launcher was started under this boot."""
    directory = base / "runs" / "run"
    (directory / "artifacts").mkdir(parents=True)
    launcher: dict[str, JsonValue] = {"pid": LAUNCHER, "start_ticks": 7, "boot_id": boot}
    if namespace is not None:
        launcher["pid_namespace"] = namespace
    run = {
        "schema": "runward-run-v1",
        "started_at": "2026-02-03T04:05:06Z",
        "host": host,
        "launcher": launcher,
    }
    (directory / "run.json").write_text(json.dumps(run))
    os.utime(directory / "run.json", (1_780_000_000, 1_780_000_000))
    return directory


class Told(ToldProcesses):
    """Of this host and its first PID namespace."""

    def host(self) -> str:
        return f"here/pid:{FIRST_NAMESPACE}"


async def status(running: Daemon, clock: StillClock) -> str:
    """The state of the run after the grace period."""
    await running.settle()
    clock.move(GRACE + 1)
    await running.settle()
    ((found,),) = await running.rows("select status from sessions")
    return str(found)


@pytest.mark.parametrize(
    ("boot", "namespace", "is_local", "was_seen", "expected"),
    [
        ("this boot", FIRST_NAMESPACE, False, False, ABORTED),
        ("another boot", FIRST_NAMESPACE, False, False, RUNNING),
        ("another boot", FIRST_NAMESPACE, True, False, ABORTED),
        ("another boot", FIRST_NAMESPACE, False, True, ABORTED),
        ("this boot", INSIDE, True, False, RUNNING),
        ("this boot", None, False, False, ABORTED),
        ("another boot", None, False, False, RUNNING),
    ],
    ids=[
        "a process of this boot",
        "another machine of the same name writes into a shared root",
        "this machine was started again, and only it writes there",
        "this machine was started again, and had seen the process",
        "a container on this machine",
        "of this boot, without a namespace",
        "of another boot, without a namespace",
    ],
)
async def test_a_missing_process_ends_its_run_only_if_it_can_not_be_alive_elsewhere(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    boot: str,
    namespace: int | None,
    is_local: bool,
    was_seen: bool,
    expected: str,
) -> None:
    monkeypatch.setattr(Files, "is_local", lambda files, path: is_local)
    begin(tmp_path, boot, namespace=namespace)
    clock, processes = StillClock(), Told()
    if was_seen:
        processes.here = Whereabouts("this machine", boot, FIRST_NAMESPACE)
        async with daemon(tmp_path, clock, processes) as running:
            assert await status(running, clock) == RUNNING
    processes.here = None
    processes.gone.add(LAUNCHER)
    async with daemon(tmp_path, clock, processes) as running:
        assert await status(running, clock) == expected


async def test_a_run_of_which_some_process_of_the_machine_may_be_the_launcher_goes_on(tmp_path: Path) -> None:
    class InContainer(Told):
        def is_nowhere(self, process: object) -> bool:
            return False

    begin(tmp_path, "this boot", namespace=None)
    clock, processes = StillClock(), InContainer()
    processes.gone.add(LAUNCHER)
    async with daemon(tmp_path, clock, processes) as running:
        assert await status(running, clock) == RUNNING


async def ended(running: Daemon) -> tuple[float, float]:
    """When the run ended, and when its process was first found gone."""
    ((finished_at, payload),) = await running.rows(
        "select s.finished_at, e.payload from sessions s join events e on e.type = 'AttemptEnded'"
    )
    event = json.loads(str(payload))
    assert isinstance(finished_at, float)
    assert finished_at == event["at"]
    return finished_at, event["gone_by"]


async def test_a_killed_run_ended_when_its_process_was_last_seen_alive(tmp_path: Path) -> None:
    begin(tmp_path, "this boot")
    clock, processes = StillClock(), Told()
    async with daemon(tmp_path, clock, processes) as running:
        await running.settle()
        clock.move(100)
        await running.settle()
        alive_at = clock.now()
        clock.move(7)
        processes.gone.add(LAUNCHER)
        gone_by = clock.now()
        assert await status(running, clock) == ABORTED
        assert await ended(running) == (alive_at, gone_by)


async def test_a_run_that_was_killed_while_no_daemon_ran_ended_after_its_last_output(tmp_path: Path) -> None:
    directory = begin(tmp_path, "this boot")
    clock, processes = StillClock(), Told()
    async with daemon(tmp_path, clock, processes) as running:
        await running.settle()
    wrote_at = clock.now() + 50
    (directory / "stdout.log").write_text("working\n")
    os.utime(directory / "stdout.log", (wrote_at, wrote_at))
    clock.move(1000)
    processes.gone.add(LAUNCHER)
    async with daemon(tmp_path, clock, processes) as running:
        gone_by = clock.now()
        assert await status(running, clock) == ABORTED
        assert await ended(running) == (wrote_at, gone_by)


async def test_a_time_that_a_run_gave_to_its_files_does_not_move_its_end_beyond_what_was_seen(
    tmp_path: Path,
) -> None:
    directory = begin(tmp_path, "this boot")
    os.utime(directory / "run.json", (1_900_000_000, 1_900_000_000))
    clock, processes = StillClock(), Told()
    processes.gone.add(LAUNCHER)
    async with daemon(tmp_path, clock, processes) as running:
        gone_by = clock.now()
        assert await status(running, clock) == ABORTED
        assert await ended(running) == (gone_by, gone_by)
