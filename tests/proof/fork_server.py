"""Starts daemons by forking: everything is imported once, for that costs most of a second a start.

A fork is a real process which runs the real command to its end, so `kill -9` and SIGSTOP are real.
Requests come on standard input and answers go to standard output, a JSON value a line:

    {"do": "start", "arguments": […], "environment": {…}, "output": PATH, "fences_out": […], "unprivileged": BOOL,
     "hangs": NAME | null, "terminal": PATH | null, "code_in_process": BOOL}
    {"do": "poll", "pid": N}

The first answers `{"pid": N}`, the second `{"state": "running" | "stopped" | "ended", "code": N | null}`, where a
code below 0 is the signal that ended it. What still lives when standard input ends is killed.
"""

import ctypes
import gc
import json
import os
import signal
import struct
import sys
from pathlib import Path

import runward.daemon.cli

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests import code_in_process
from tests.preloaded import ending, everything  # noqa: F401 - to have it imported is all
from tests.proof.fences import FENCES
from tests.proof.hangs import HANGS, WAITS

_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2)."""

_LIBC = ctypes.CDLL(None)


class Server:
    """The parent of all forks."""

    def __init__(self) -> None:
        self._living: set[int] = set()

    def serve(self) -> dict[str, object] | None:
        """Answer requests until there are none; in a fork, returns the request that it is to carry out."""
        for line in sys.stdin:
            request = json.loads(line)
            if request["do"] == "poll":
                answer = self._poll(request["pid"])
            else:
                pid = os.fork()
                if pid == 0:
                    return request  # type: ignore[no-any-return] # a JSON object, by this file's protocol
                self._living.add(pid)
                answer = {"pid": pid}
            print(json.dumps(answer), flush=True)
        for pid in self._living:
            os.kill(pid, signal.SIGKILL)
        return None

    def _poll(self, pid: int) -> dict[str, object]:
        try:
            found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        except ChildProcessError:  # it died with the server that started it
            return {"state": "ended", "code": -signal.SIGKILL}
        if found == 0 or os.WIFCONTINUED(status):
            return {"state": "running", "code": None}
        if os.WIFSTOPPED(status):
            return {"state": "stopped", "code": None}
        self._living.discard(pid)
        return {"state": "ended", "code": os.waitstatus_to_exitcode(status)}


def carry_out(request: dict[str, object]) -> None:
    """Become the command that is asked for."""
    _LIBC.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if request["terminal"] is not None:
        os.setsid()
        os.close(
            os.open(str(request["terminal"]), os.O_RDWR)
        )  # the first one that a session opens is its own
    for descriptor, path in ((0, os.devnull), (1, str(request["output"])), (2, str(request["output"]))):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload] # a JSON object of texts
    if request["unprivileged"]:
        _give_up_capabilities()
    for name in request["fences_out"]:  # type: ignore[attr-defined] # a list of names
        FENCES[name]()
    if request["hangs"] is not None:
        {**HANGS, **WAITS}[str(request["hangs"])]()
    if request["code_in_process"]:
        code_in_process.stand_in()
    sys.argv = ["runward", *request["arguments"]]  # type: ignore[misc] # a list of texts
    ending.to_its_end(runward.daemon.cli.main)


def _give_up_capabilities() -> None:
    """From here on modes of files hold for root too (capset(2), version 3)."""
    header, nothing = struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", 0, 0, 0, 0, 0, 0)
    assert _LIBC.capset(header, nothing) == 0


if __name__ == "__main__":
    gc.freeze()
    asked = Server().serve()
    if asked is not None:
        carry_out(asked)
