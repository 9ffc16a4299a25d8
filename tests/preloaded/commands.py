"""The words that run a command of `runward` without importing it anew: for tests in which its start is not the subject."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import runward.daemon

_HERE = Path(__file__).parent
_PREFIX = "runward-preloaded-"
_SOURCES = (Path(runward.daemon.__file__).parents[2], _HERE.parents[1])


def argv(*arguments: str) -> list[str]:
    """What to start instead of `runward ARGUMENTS…`. Its process stands for the command's, whose number is another."""
    return [sys.executable, "-I", "-S", str(_HERE / "client.py"), socket(), *arguments]


@cache
def socket() -> str:
    """The socket of this process's server, which ends with it."""
    _remove_what_the_killed_left()
    directory = tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-")
    path = f"{directory.name}/socket"
    server = subprocess.Popen(
        [sys.executable, _HERE / "server.py", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={
            "PYTHONPATH": ":".join(map(str, _SOURCES)),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
        },
    )

    def end() -> None:
        server.communicate()
        directory.cleanup()

    atexit.register(end)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return path


def _remove_what_the_killed_left() -> None:
    """Remove the directories of processes that were killed: their names say whose they are."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = directory.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path(f"/proc/{pid}").exists():
            shutil.rmtree(directory, ignore_errors=True)
