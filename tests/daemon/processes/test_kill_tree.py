"""The end of a process tree whose processes fork and leave while they are looked at."""

import subprocess
import sys
from typing import Final

import pytest

from runward.daemon.processes import kernel, proc

PROGRAM: Final = f"""
import os, sys
from {proc.__name__.rpartition(".")[0]} import proc
from {kernel.__name__} import become_subreaper

asked, ask = os.pipe()
told, tell = os.pipe()
hops = int(sys.argv[1])
become_subreaper()
if os.fork() == 0:
    os.close(ask)
    while os.read(asked, 1):
        if os.fork():
            os._exit(0)
        os.setsid()
        os.write(tell, b".")
    os._exit(0)

was_dead = proc._is_dead

def is_dead(pid):
    # It was listed, and goes on in a child before it is asked.
    global hops
    if hops and not was_dead(pid):
        hops -= 1
        os.write(ask, b".")
        os.read(told, 1)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return was_dead(pid)

proc._is_dead = is_dead
killed = proc.kill_tree()
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("nobody", sorted(killed.left), hops)
else:
    print("somebody is left")
"""


@pytest.mark.parametrize("hops", range(6))
def test_a_process_that_goes_on_in_a_child_before_each_look_is_ended(hops: int) -> None:
    words = [sys.executable, "-c", PROGRAM, str(hops)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "nobody [] 0\n"
