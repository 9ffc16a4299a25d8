"""`sandbox = "landlock"`: the weaker means. What they promise to stop, they stop, and where they are missing no code runs."""

import errno
import fcntl
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from tests.daemon.sandbox.attempts import ATTEMPTS, NEEDS_NAMESPACES, WITHOUT_NAMESPACES
from tests.daemon.sandbox.machine import Machine, children, machine_for_attempts, surprises
from tests.unprivileged import as_unprivileged
from tests.waiting import wait_for

from runward.config.exchange import Executor
from runward.daemon.sandbox import landlock, workers
from runward.daemon.sandbox.execution import execution_to_json
from runward.daemon.sandbox.interpreter import interpreter
from runward.daemon.sandbox.isolated import NOBODY, NoSandbox
from runward.daemon.sandbox.landlock import PrivateDirectory
from runward.daemon.sandbox.workers import Job, ReadyWorkers, Worker, execute

WEAKER = Executor(sandbox="landlock", timeout=20.0)
FEW_THREADS = """
import threading
def run():
    made = [threading.Thread(target=len, args=((),)) for _ in range(10)]
    [each.start() for each in made]
    return len(made)
"""
SAMPLE = (
    "reads a secret by its path",
    "changes a secret's rights and times",
    "empties a secret",
    "has a pipe signal a process",
    "connects to a listener of the machine",
    "fills the disk by many files",
    "nests directories without end",
)


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Skips where the kernel has no Landlock; there, only `not_configured` can be tested."""
    try:
        Worker(WEAKER).close()
    except NoSandbox as missing:
        pytest.skip(f"no weaker sandbox here: {missing}")
    with machine_for_attempts() as made:
        yield made


def test_results_record_it(machine: Machine) -> None:
    answered = execute(Job("def run(a): return a + 1", [1]), WEAKER)
    assert (answered.result, answered.sandbox) == (2, "landlock+seccomp")
    assert answered.cpu_s > 0.0


def test_it_stops_the_worst(machine: Machine) -> None:
    assert surprises("landlock", machine.told(), [each for each in ATTEMPTS if each.name in SAMPLE]) == []
    machine.is_untouched()


def test_what_wrote_too_much_between_two_checks_has_no_result(machine: Machine) -> None:
    bounds = Executor(sandbox="landlock", timeout=20.0, tmp=100_000)
    quick = "def run():\n    return [open(f'{n}', 'wb').write(b'x' * 60_000) for n in range(2)]"
    answered = execute(Job(quick, []), bounds)
    assert (answered.code, answered.result, answered.error) == (
        "killed",
        None,
        "the code wrote more than 100000 bytes to its directory",
    )


def test_what_is_written_to_removed_files_counts(machine: Machine) -> None:
    bounds = Executor(sandbox="landlock", timeout=20.0, tmp=100_000)
    hiding = """
import os, time
def run():
    for n in range(4):
        held = os.open(f"{n}", os.O_RDWR | os.O_CREAT)
        os.unlink(f"{n}")
        os.write(held, b"x" * 60_000)
        os.dup(held)
    time.sleep(1)
"""
    answered = execute(Job(hiding, []), bounds)
    assert (answered.code, answered.error) == (
        "killed",
        "the code wrote more than 100000 bytes to its directory",
    )
    once = hiding.replace("range(4)", "range(1)").replace("sleep(1)", "sleep(0.2)")
    assert execute(Job(once, []), bounds).code is None, "a file counts once"


def test_what_may_not_be_looked_at_of_an_ending_process_is_not_the_codes_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = os.stat

    def refuse(path: str, **more: bool) -> os.stat_result:
        if path.startswith("/proc/"):
            raise PermissionError(errno.EACCES, "its descriptors are its own")
        return real(path, **more)

    made = PrivateDirectory(None)
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", refuse)
        assert made.overfull(1 << 20, is_over=True, holder=os.getpid()) is None
    made.remove()


@pytest.mark.parametrize(("module", "name"), [(os, "open"), (fcntl, "flock")])
def test_a_directory_that_can_not_be_held_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    held = os.listdir("/proc/self/fd")

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "none is left")

    with monkeypatch.context() as patched:
        patched.setattr(module, name, refuse)
        with pytest.raises(OSError, match="none is left"):
            PrivateDirectory(None)
    assert list(tmp_path.iterdir()) == []
    assert os.listdir("/proc/self/fd") == held


@pytest.mark.prove
def test_it_stops_all_that_it_promises_to(machine: Machine) -> None:
    assert set(WITHOUT_NAMESPACES) | NEEDS_NAMESPACES | set(SAMPLE) <= {each.name for each in ATTEMPTS}
    assert surprises("landlock", machine.told()) == []
    machine.is_untouched()


@pytest.mark.prove
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_it_also_stops_an_ordinary_user_who_owns_the_secret(machine: Machine) -> None:
    readable = interpreter(NOBODY)

    def attempts() -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(landlock, "interpreter", lambda uid: readable)
            return surprises("landlock", machine.told())

    assert as_unprivileged(attempts) == [""]
    machine.is_untouched()


def test_with_the_oldest_landlock_the_filter_forbids_what_that_lets_through(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "version", lambda: 1)
    assert surprises("landlock", machine.told(), [each for each in ATTEMPTS if each.name in SAMPLE]) == []
    machine.is_untouched()


def test_without_the_filter_the_same_user_changes_a_secret(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "Worker", lambda executor: Worker(executor, filtered=False))
    changes = next(each for each in ATTEMPTS if each.name == "changes a secret's rights and times")
    assert surprises("landlock", machine.told(), [changes]) != []


def test_what_its_user_started_while_it_waited_takes_no_threads_from_code(machine: Machine) -> None:
    ready = ReadyWorkers()
    try:
        ready.take(WEAKER).close()
        wait_for(lambda: ready.count == WEAKER.workers, "workers that wait")
        with _many_processes():
            answered = execute(Job(FEW_THREADS, []), WEAKER, take=ready.take)
            assert (answered.result, answered.error) == (10, None)
    finally:
        ready.close()


@contextmanager
def _many_processes() -> Iterator[None]:
    """64 of them, which belong to the user that code runs as."""
    started = subprocess.Popen(
        ("sh", "-c", "for _ in $(seq 64); do sleep 600 & done; echo all run; wait"),
        user=NOBODY if os.geteuid() == 0 else None,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == b"all run\n"
        yield
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives its user up")
def test_a_worker_of_root_is_not_root(machine: Machine) -> None:
    others = children()
    with Worker(WEAKER):
        assert {Path(f"/proc/{pid}").stat().st_uid for pid in children() - others} == {NOBODY}


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.ENOSYS, "this kernel has no Landlock"),
        (errno.EOPNOTSUPP, "Landlock is switched off in this kernel"),
        (errno.EPERM, "Landlock can't be used: Operation not permitted"),
    ],
)
def test_without_landlock_in_the_kernel_code_is_refused_with_the_fix(
    number: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(landlock, "_call", refused)
    landlock.version.cache_clear()
    said = execution_to_json(execute(Job("def run(): return 1", []), WEAKER))
    assert (said["error_code"], said["error"]) == ("not_configured", f"no sandbox: {why}")
    assert "lsm=" in str(said["fix"])


def test_a_directory_is_removed_however_deep_and_forbidding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = PrivateDirectory(None)
    before = os.open(".", os.O_RDONLY)
    os.chdir(made.path)
    try:
        for _ in range(300):
            os.mkdir("d", 0o300)
            Path("file").touch()
            os.chdir("d")
    finally:
        os.fchdir(before)
        os.close(before)
    assert made.overfull(1 << 30, is_over=False) is not None
    made.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_removes_directories_that_forbid_that_too() -> None:
    def left() -> list[str]:
        made = PrivateDirectory(None)
        for mode in (0o000, 0o300, 0o500):
            os.makedirs(f"{made.path}/{mode:o}")
            os.mkdir(f"{made.path}/{mode:o}/inner", mode)
        made.remove()
        return [made.path] if os.path.exists(made.path) else []

    assert as_unprivileged(left) == [""]


def test_what_a_killed_daemon_left_is_removed_once_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, held = tmp_path / "runward-sandbox-left", PrivateDirectory(None)
    (left / "deep").mkdir(parents=True)
    PrivateDirectory(None).remove()
    assert left.exists(), "it may have just been made"
    monkeypatch.setattr(landlock, "_ABANDONED_S", -1.0)
    PrivateDirectory(None).remove()
    assert not left.exists()
    assert Path(held.path).exists(), "its daemon lives"
    held.remove()


def test_cpu_time_is_counted_though_the_disk_refuses_to_remove_the_directory(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(directory: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    before = _directories()
    with monkeypatch.context() as broken:
        broken.setattr(landlock, "_empty", refuse)
        told = execute(Job("def run(): open('left', 'w').close(); return sum(range(10**6))", []), WEAKER)
    assert told.result == 499999500000, told.error
    assert told.cpu_s > 0.0
    assert len(_directories() - before) == 1
    monkeypatch.setattr(landlock, "_ABANDONED_S", -1.0)
    assert execute(Job("def run(): return 1", []), WEAKER).result == 1
    assert _directories() == before, "a later worker removes it"


def _directories() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("runward-sandbox-*"))
