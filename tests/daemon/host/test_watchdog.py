"""What systemd is told, and that only real progress keeps its watchdog quiet."""

import os
import signal
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.in_process import SILENT
from tests.daemon.notified import NotifySocket
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.host import systemd
from runward.daemon.host.systemd import LEAST_PATIENCE, Watchdog
from runward.daemon.store.connection import Database, WriterThread, connect
from runward.daemon.store.schema import migrate
from runward.daemon.store.store import Store
from runward.daemon.watch import notifications
from runward.daemon.watch.notifications import Inotify


@dataclass
class Daemon:
    """A daemon of which only this much is told."""

    is_ready: bool = True
    is_stopping: bool = False

    def doing(self) -> str:
        return "watching 1 root"


@dataclass
class Now:
    """A monotonic clock that stands where a test puts it."""

    at: float = 1000.0
    watcher: float | None = field(default=None)

    def __call__(self) -> float:
        return self.at

    def seen(self) -> float | None:
        return self.watcher


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[NotifySocket]:
    """What this process tells, as systemd would get it."""
    with closing(NotifySocket()) as made:
        monkeypatch.setenv("NOTIFY_SOCKET", made.address)
        yield made


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncIterator[WriterThread]:
    """The daemon's connection to a store."""
    migrate(tmp_path / "runward.db")
    made = await connect(tmp_path / "runward.db")
    yield made
    await made.close()


async def until(fact: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not fact():
            await anyio.sleep(0.005)


async def test_it_is_fed_while_store_and_watcher_get_on(connection: WriterThread, told: NotifySocket) -> None:
    now = Now(watcher=1000.0)
    watchdog = Watchdog(Store(connection), now.seen, Daemon(), SILENT, 0.04, now)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watchdog.run)
        first = await anyio.to_thread.run_sync(told.until, "WATCHDOG")
        await anyio.to_thread.run_sync(told.until, "WATCHDOG")
        tasks.cancel_scope.cancel()
    assert first[-1] == {"WATCHDOG": "1"}


async def test_a_store_that_hangs_ends_the_feeding_and_one_that_gets_on_begins_it_again(
    connection: WriterThread, told: NotifySocket
) -> None:
    hangs, release = threading.Event(), threading.Event()

    def hang(database: Database) -> None:
        hangs.set()
        release.wait(PATIENCE_S)

    now = Now()
    watchdog = Watchdog(Store(connection), now.seen, Daemon(), SILENT, 0.04, now)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watchdog.run)
        await anyio.to_thread.run_sync(told.until, "WATCHDOG")
        tasks.start_soon(connection.call, hang)
        await until(hangs.is_set)
        await anyio.wait_all_tasks_blocked()  # an answer from before has been taken note of
        now.at += LEAST_PATIENCE + 1
        assert watchdog.hanging() == ("store",)
        told.waiting()
        watchdog.feed()
        assert told.waiting() == []
        release.set()
        await anyio.to_thread.run_sync(told.until, "WATCHDOG")
        tasks.cancel_scope.cancel()


def test_a_receiver_that_reads_nothing_holds_up_no_sign_of_life(told: NotifySocket) -> None:
    full = 1000  # datagrams; a queue holds ten to some hundreds, by net.unix.max_dgram_qlen
    for number in range(full):
        systemd.alive(f"{number} runs")
    assert 0 < len(told.waiting()) < full


async def test_a_store_that_refuses_does_not_hang(tmp_path: Path) -> None:
    connection = await connect(tmp_path / "empty.db")  # without any table
    try:
        with anyio.fail_after(PATIENCE_S):
            await Store(connection).answer()
        with pytest.raises(sqlite3.Error):
            await Store(connection).read("select epoch from daemon")
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("period", "silent_for", "hanging"),
    [
        (None, LEAST_PATIENCE - 1, ()),
        (None, LEAST_PATIENCE + 1, ("watcher",)),
        (1.0, LEAST_PATIENCE - 1, ()),
        (120.0, 59.0, ()),
        (120.0, 61.0, ("watcher",)),
    ],
)
def test_a_watcher_hangs_after_half_of_the_units_time_but_not_between_two_passes(
    period: float | None, silent_for: float, hanging: tuple[str, ...]
) -> None:
    now = Now(watcher=1000.0 - silent_for)
    watchdog = Watchdog(Store.__new__(Store), now.seen, Daemon(), SILENT, period, now, _store_seen=now.at)
    assert watchdog.hanging() == hanging


@pytest.mark.parametrize(
    ("daemon", "sent"),
    [
        (Daemon(is_ready=False), [{"EXTEND_TIMEOUT_USEC": "30000000"}]),
        (Daemon(is_stopping=True), [{"EXTEND_TIMEOUT_USEC": "30000000"}]),
        (Daemon(), [{"WATCHDOG": "1"}, {"STATUS": "watching 1 root"}]),
    ],
    ids=["starting", "stopping", "running"],
)
def test_a_start_or_stop_that_gets_on_is_given_more_time(
    told: NotifySocket, daemon: Daemon, sent: list[dict[str, str]]
) -> None:
    now = Now()
    Watchdog(Store.__new__(Store), now.seen, daemon, SILENT, 30.0, now, _store_seen=now.at).feed()
    assert told.waiting() == sent


def test_a_start_in_which_something_hangs_is_given_no_more_time(told: NotifySocket) -> None:
    now = Now(watcher=1000.0 - LEAST_PATIENCE - 1)
    daemon = Daemon(is_ready=False)
    Watchdog(Store.__new__(Store), now.seen, daemon, SILENT, None, now, _store_seen=now.at).feed()
    assert told.waiting() == []


async def test_the_watchers_pulse_beats_with_its_passes_and_with_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, release = threading.Semaphore(0), threading.Event()
    begun: list[object] = []

    class Hangs:
        """A watcher that returns when a test lets it."""

        def __init__(self, *arguments: object) -> None:
            pass

        lacks = False

        def __len__(self) -> int:
            return 0

        def close(self) -> None:
            pass

        def wait(self, *arguments: object) -> set[str]:
            begun.append(arguments)
            while not release.is_set() and not passes.acquire(timeout=0.05):
                pass
            return set()

    monkeypatch.setattr(notifications, "Directories", Hangs)
    inotify = Inotify(tmp_path, 5, 20, 0.5, 1e9)
    assert inotify.seen() is None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(inotify.watch, [], print, print, print)
        await until(lambda: len(begun) == 1)
        before = time.monotonic()
        passes.release()
        await until(lambda: len(begun) == 2)
        assert (inotify.seen() or 0.0) >= before
        before = time.monotonic()
        await anyio.sleep(0.2)  # nothing beats by itself, however long this is
        assert (inotify.seen() or 0.0) < before
        release.set()
        tasks.cancel_scope.cancel()
    assert inotify.seen() is None


@pytest.mark.parametrize(
    ("microseconds", "pid", "period"),
    [
        ("2000000", None, 2.0),
        ("2000000", "our own", 2.0),
        ("2000000", "1", None),
        ("0", None, None),
        ("soon", None, None),
        (None, None, None),
    ],
)
def test_the_units_watchdog_is_for_the_process_that_it_names(
    monkeypatch: pytest.MonkeyPatch, microseconds: str | None, pid: str | None, period: float | None
) -> None:
    for name, value in (("WATCHDOG_USEC", microseconds), ("WATCHDOG_PID", pid)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value.replace("our own", str(os.getpid())))
    assert systemd.watchdog_period() == period


def test_a_status_is_one_line(told: NotifySocket) -> None:
    systemd.ready("degraded: no space\nREADY=0")
    assert told.waiting() == [{"STATUS": "degraded: no space READY=0"}, {"READY": "1"}]


@pytest.mark.parametrize("step", [systemd.ready, systemd.alive, systemd.stopping])
@pytest.mark.parametrize("trouble", ["a run's directory is full; ", "ä€😀 ", "\udcff"])
def test_no_status_is_too_long_for_systemd_or_keeps_what_matters_from_it(
    told: NotifySocket, step: Callable[[str], None], trouble: str
) -> None:
    step(trouble * 4000)
    state, status = sorted(told.waiting(), key=lambda each: "STATUS" in each)
    assert list(state.values()) == ["1"]
    said = status["STATUS"]
    assert 2000 < len(said.encode()) <= systemd.LONGEST_STATUS
    assert said.endswith("…")
    assert "\ufffd" not in said


def test_nobody_there_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/at/all")
    systemd.ready("fine")


def test_a_daemon_tells_its_start_its_life_a_reload_and_its_end(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.furnish()
    (place.directory / "playbooks/wrong.playbook.yaml").unlink()
    with closing(NotifySocket()) as told:
        daemon = place.start_process("daemon", NOTIFY_SOCKET=told.address, WATCHDOG_USEC="1000000")
        try:
            starting = told.until("READY")
            assert starting[-2:] == [{"STATUS": "watching 1 root"}, {"READY": "1"}]
            assert any("EXTEND_TIMEOUT_USEC" in each for each in starting)
            told.until("WATCHDOG")
            assert told.until("STATUS") == [{"STATUS": "watching 1 root"}]
            before = time.monotonic_ns() // 1000
            daemon.send_signal(signal.SIGHUP)
            reloading = told.until("RELOADING")[-1]
            assert before <= int(reloading["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
            assert told.until("READY")[-2:] == [{"STATUS": "watching 1 root"}, {"READY": "1"}]
            daemon.send_signal(signal.SIGTERM)
            told.until("STOPPING")
            assert told.until("STATUS")[-1]["STATUS"].startswith("stopping")
            assert daemon.wait(PATIENCE_S) == 0
        finally:
            with suppress(ProcessLookupError):
                daemon.kill()
            daemon.communicate(timeout=PATIENCE_S)


def test_a_daemon_that_stands_still_feeds_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.furnish()
    with closing(NotifySocket()) as told:
        daemon = place.start_process("daemon", NOTIFY_SOCKET=told.address, WATCHDOG_USEC="200000")
        try:
            told.until("WATCHDOG")
            daemon.send_signal(signal.SIGSTOP)
            wait_for(lambda: Path(f"/proc/{daemon.pid}/stat").read_text().split()[2] == "T", "its stop")
            told.waiting()
            time.sleep(1.0)  # five times its period
            assert told.waiting() == []
        finally:
            daemon.kill()
            daemon.communicate(timeout=PATIENCE_S)
