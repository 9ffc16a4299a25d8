"""The words that run a command of `runward` without importing it anew: for tests in which its start is not the subject."""

import atexit
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import runward.daemon

_HERE = Path(__file__).parent
_SOURCES = Path(runward.daemon.__file__).parents[2]


def argv(*arguments: str) -> list[str]:
    """What to start instead of `runward ARGUMENTS…`. Its process stands for the command's, whose number is another."""
    return [sys.executable, "-I", "-S", str(_HERE / "client.py"), _server(), *arguments]


@cache
def _server() -> str:
    """The socket of this process's server, which ends with it."""
    directory = tempfile.TemporaryDirectory(prefix="runward-preloaded-")
    path = f"{directory.name}/socket"
    server = subprocess.Popen(
        [sys.executable, _HERE / "server.py", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(_SOURCES), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"},
    )

    def end() -> None:
        server.communicate()
        directory.cleanup()

    atexit.register(end)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return path
