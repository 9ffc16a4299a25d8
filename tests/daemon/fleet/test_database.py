"""The server of the tests leaves nothing behind, whatever becomes of the process that started it."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import wait_for

_PROGRAM = """
import os, pathlib, signal
from tests.daemon.fleet.database import server
with server() as running:
    children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text()
    print(running.directory, running.pid, children, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.prove
def test_the_server_dies_with_its_tests() -> None:
    root = Path(__file__).parents[3]
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=root,
        env={"PYTHONPATH": f"{root}:{root / 'src'}", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    directory, *pids = ended.stdout.split()
    assert len(pids) > 1
    wait_for(lambda: not any(map(_is_of_postgres, pids)), "the end of all processes of the server")
    shutil.rmtree(directory)


def _is_of_postgres(pid: str) -> bool:
    try:
        return "postgres" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False  # a process that has ended, and that nobody has waited for, has no words
