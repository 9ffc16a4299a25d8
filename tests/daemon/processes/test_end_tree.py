"""The end of a run's tree by the daemon, where descriptors are few."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.daemon.launching import is_alive
from tests.waiting import wait_for

from runward.daemon.processes import ending_runs
from runward.daemon.processes.ending_runs import EndNotOrdered, EndOrdered, end_tree
from runward.daemon.processes.proc import identity_of, read_stat
from runward.handlers.model import processes, sessions
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.sessions import RunProcesses


def recorded(pid: int) -> RunProcesses:
    known = identity_of(pid)
    return RunProcesses(launcher=None, process=RecordedProcess(known.pid, known.start_ticks, known.boot_id))


def test_want_of_descriptors_is_not_the_end_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen(["sleep", "1000"])
    try:
        of_run = recorded(process.pid)
        with monkeypatch.context() as patched:

            def refused(pid: int, flags: int = 0) -> int:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

            patched.setattr(os, "pidfd_open", refused)
            with pytest.raises(OSError, match="Too many open files"):
                end_tree(of_run, str(tmp_path))
        assert end_tree(of_run, str(tmp_path)) == EndOrdered("1 processes were killed")
        assert process.wait(60) == -9
        assert isinstance(end_tree(of_run, str(tmp_path)), EndNotOrdered)
    finally:
        process.kill()


def test_a_launcher_is_not_left_stopped_where_it_is_not_known_whose_it_is(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "1000"])
    looks = iter([True])

    def is_of_run(recorded: RecordedProcess) -> bool:
        for each in looks:
            return each
        raise OSError(errno.EAGAIN, "its ticket can't be read now")

    try:
        with pytest.raises(OSError, match="its ticket"):
            end_tree(recorded(process.pid), str(tmp_path), is_of_run)
        wait_for(lambda: read_stat(process.pid).state == "S", "a process that goes on")
    finally:
        process.kill()
        process.wait()


TREE: Final = """
import os, time
for _ in range(40):
    if os.fork() == 0:
        time.sleep(1000)
print("stands", flush=True)
time.sleep(1000)
"""

ENDING: Final = f"""
import resource, sys
from {ending_runs.__name__} import end_tree
from {processes.__name__} import RecordedProcess
from {sessions.__name__} import RunProcesses

resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
pid, started, boot = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
print(end_tree(RunProcesses(launcher=None, process=RecordedProcess(pid, started, boot)), "/nowhere").who)
"""


def test_a_tree_with_more_processes_than_there_are_descriptors_is_killed() -> None:
    tree = subprocess.Popen([sys.executable, "-c", TREE], stdout=subprocess.PIPE)
    try:
        assert tree.stdout is not None
        with tree.stdout:
            assert tree.stdout.readline() == b"stands\n"
        of_tree = identity_of(tree.pid)
        below = [int(each) for each in Path(f"/proc/{tree.pid}/task/{tree.pid}/children").read_text().split()]
        words = [sys.executable, "-c", ENDING, str(tree.pid), str(of_tree.start_ticks), of_tree.boot_id]
        ran = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
        assert ran.stdout == "41 processes were killed\n"
        assert tree.wait(60) == -9
        wait_for(lambda: not any(map(is_alive, below)), "the end of all")
    finally:
        tree.kill()
