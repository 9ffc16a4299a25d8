"""Ending what is left in the cgroup of a run: only in one that a launcher made, and never where the daemon is itself."""

import codecs
import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unprivileged import as_unprivileged
from tests.waiting import wait_for

from runward.daemon.launch import cgroup, containment
from runward.daemon.launch.cgroup import Cgroup, ContainmentUnavailable, Held, cgroup_of, end_run_in
from runward.daemon.processes import proc
from runward.daemon.processes.ending_runs import EndOrdered
from runward.daemon.processes.kernel import fork_into
from runward.daemon.processes.proc import ProcessStat, Signalled
from runward.daemon.world import processes
from runward.handlers.model.sessions import RunProcesses


@pytest.fixture
def below_ours() -> Iterator[Path]:
    """A cgroup that may be written to, in which tests make others."""
    try:
        made = Path(cgroup_of(os.getpid())) / f"test-{os.urandom(4).hex()}"
        made.mkdir()
    except (ContainmentUnavailable, OSError) as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    yield made
    for directory, _, _ in os.walk(made, topdown=False):
        os.rmdir(directory)


def sleeping_in(directory: Path) -> subprocess.Popen[bytes]:
    directory.mkdir(exist_ok=True)
    process = subprocess.Popen(["sleep", "1000"])
    (directory / "cgroup.procs").write_text(str(process.pid))
    return process


def test_all_that_is_in_the_cgroup_of_a_run_is_killed(below_ours: Path) -> None:
    run = below_ours / "runward-a-1f"
    processes = [sleeping_in(run), sleeping_in(run), sleeping_in(run / "made by the command")]
    assert end_run_in(str(run)) == 3
    assert [each.wait() for each in processes] == [-9, -9, -9]
    assert not run.exists()


def test_who_is_in_the_cgroup_is_asked_to_end_though_it_is_not_below_us_and_nobody_else(
    below_ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containment, "become_subreaper", lambda: None)
    run = below_ours / "runward-a-1f"
    run.mkdir()
    inside = sleeping_in(run / "made by the command")
    # Its parent ends, and it is not ours: nobody is a subreaper here.
    start = "echo $$ > $0/cgroup.procs; sleep 1000 > /dev/null & echo $!"
    orphan = int(subprocess.check_output(["sh", "-c", start, str(run)]))
    hold = containment.InCgroup(
        Held(inside.pid, frozenset({inside.pid}), "run", None, Cgroup(str(run)), True)
    )
    asked: list[int] = []
    with monkeypatch.context() as patched:
        # A number that was listed there may be another process's by now.
        listed = frozenset({inside.pid, orphan, os.getppid()})
        patched.setattr(Cgroup, "members", lambda self: listed)
        patched.setattr(proc, "descendants", lambda without: iter(()))
        patched.setattr(proc, "signal_meant", noting(asked))
        # Nothing is sent to our own parent by this test, whatever the code does.
        patched.setattr(signal, "SIGTERM", 0)
        patched.setattr(signal, "SIGCONT", 0)
        hold.terminate()
    for pid in (inside.pid, orphan):
        os.kill(pid, signal.SIGKILL)
    inside.wait()
    wait_for(lambda: not Cgroup(str(run)).members(), "both have ended")
    assert set(asked) == {inside.pid, orphan}


def noting(asked: list[int]) -> Callable[[int, int, Callable[[ProcessStat], bool]], Signalled | None]:
    """Signals as usual, and notes to whom a signal was sent."""
    signalled = proc.signal_meant

    def signal_meant(pid: int, number: int, is_meant: Callable[[ProcessStat], bool]) -> Signalled | None:
        found = signalled(pid, number, is_meant)
        if found is not None:
            asked.append(pid)
        return found

    return signal_meant


def test_what_killed_launchers_left_is_looked_for_once_a_minute(
    below_ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Cgroup(str(below_ours / "runward-ours"))

    def is_left(after: float) -> bool:
        left = below_ours / "runward-left"
        left.mkdir(exist_ok=True)
        old = SimpleNamespace(time=lambda: time.time() + 100, monotonic=lambda: 1000 + after)
        monkeypatch.setattr(cgroup, "time", old)
        ours.remove_old_siblings()
        return left.exists()

    assert [is_left(after) for after in (0, 59, 60, 61, 121)] == [False, True, False, True, False]


def test_a_command_that_takes_the_right_to_kill_its_cgroup_from_its_user_is_killed() -> None:
    def killed() -> list[str]:
        # Plain files stand for those of a cgroup.
        with tempfile.TemporaryDirectory() as run:
            kill = Path(run, "cgroup.kill")
            kill.touch(0)
            Path(run, "cgroup.events").write_text("populated 0")
            os.chmod(run, 0)
            Cgroup(run).kill()
            return [kill.read_text()]

    # A user who can't read this Python's files could not load it.
    codecs.lookup("ascii")
    # Root may write to all.
    assert (as_unprivileged(killed) if os.geteuid() == 0 else killed()) == ["1"]


@pytest.mark.parametrize("name", ["else", "runward-a/../else", "runward-a/else"])
def test_what_no_launcher_made_is_left_alone(below_ours: Path, name: str) -> None:
    (below_ours / "runward-a").mkdir()
    process = sleeping_in(below_ours / name)
    try:
        assert end_run_in(f"{below_ours}/{name}") == 0
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_cgroup_that_contains_the_daemon_is_left_alone(
    below_ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = below_ours / "runward-a-1f"
    process = sleeping_in(run)
    monkeypatch.setattr(cgroup, "cgroup_of", lambda pid: f"{run}/daemon")
    try:
        assert end_run_in(str(run)) == 0
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_ending_a_run_begins_with_its_cgroup_also_if_its_recorded_processes_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed: list[str] = []

    def kill(path: str) -> int:
        killed.append(path)
        return 2

    monkeypatch.setattr("runward.daemon.launch.cgroup.end_run_in", kill)
    answer = processes.RealProcesses().end_tree(RunProcesses(cgroup="/sys/fs/cgroup/runward-a-1f"), "/runs/a")
    assert killed == ["/sys/fs/cgroup/runward-a-1f"]
    assert answer == EndOrdered("2 processes in its cgroup were killed")


def test_a_directory_elsewhere_is_not_a_cgroup(tmp_path: Path) -> None:
    (tmp_path / "runward-a").mkdir()
    assert end_run_in(f"{tmp_path}/runward-a") == 0
    assert end_run_in(f"{tmp_path}/runward-gone") == 0


def beginning_in(directory: Path) -> tuple[int, bool]:
    """Fork a child into a cgroup; its pid, and whether it was in there at its very first step."""
    made = Cgroup(str(directory))
    told_out, told_in = os.pipe()
    pid = made.fork()
    if pid is None:
        pytest.skip("this kernel, or its rules here, let no process begin in a cgroup")
    if pid == 0:
        os.write(told_in, b"1" if os.path.basename(cgroup_of(os.getpid())) == directory.name else b"0")
        signal.pause()
    is_inside = os.read(told_out, 1) == b"1"
    os.close(told_out)
    os.close(told_in)
    return pid, is_inside


def test_a_process_begins_in_its_cgroup(below_ours: Path) -> None:
    run = below_ours / "runward-a-1f"
    run.mkdir()
    pid, is_inside = beginning_in(run)
    made = Cgroup(str(run))
    assert is_inside
    assert made.members() == {pid}
    made.kill()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    made.remove()


def test_a_process_that_began_there_is_a_python_of_its_own(below_ours: Path) -> None:
    run = below_ours / "runward-a-1f"
    run.mkdir()
    pid = Cgroup(str(run)).fork()
    if pid is None:
        pytest.skip("this kernel, or its rules here, let no process begin in a cgroup")
    if pid == 0:
        ours = threading.main_thread()
        helper = threading.Thread(target=lambda: None)
        helper.start()
        helper.join()
        os._exit(0 if ours is threading.current_thread() and not helper.is_alive() else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_what_the_kernel_refuses_leaves_one_process(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    before = os.getpid()
    with pytest.raises(OSError, match="clone3"):  # EBADF, or ENOSYS where a filter knows no such call
        fork_into(directory)
    os.close(directory)
    assert os.getpid() == before
    helper = threading.Thread(target=lambda: None)
    helper.start()
    helper.join()
    assert subprocess.run(["true"], check=False).returncode == 0, "and it forks on"


def launched_where(refusal: str, root: Path, name: str = "run") -> subprocess.CompletedProcess[str]:
    """Launch a command in a cgroup by a Python of its own, in which something is refused."""
    script = f"""
import os, sys
from runward.daemon.launch import launch
from runward.daemon.processes import kernel
def refused(*_, **__):
    raise OSError({refusal.partition(" ")[2]}, "refused")
{refusal.partition(" ")[0]} = refused
order = launch.Order(command=("cat", "/proc/self/cgroup"), root=sys.argv[1], name=sys.argv[2], containment="cgroup")
launch.launch(order, dict(os.environ))
"""
    return subprocess.run(
        [sys.executable, "-c", script, str(root), name], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.EBUSY, errno.EACCES])
def test_where_no_process_can_begin_in_a_cgroup_the_command_is_moved_there(
    number: int, tmp_path: Path, below_ours: Path
) -> None:
    process = launched_where(f"kernel.fork_into {number}", tmp_path)
    assert process.returncode == 0, process.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["containment"] == "cgroup"
    assert "/runward-run-" in (tmp_path / "run" / "stdout.log").read_text()


def test_a_launch_that_fails_leaves_no_cgroup(tmp_path: Path, below_ours: Path) -> None:
    name = f"fails-{os.urandom(4).hex()}"
    process = launched_where(f"launch.fork_command {errno.EAGAIN}", tmp_path, name)
    assert "refused" in process.stderr
    assert [each for each in os.listdir(below_ours.parent) if name in each] == []
