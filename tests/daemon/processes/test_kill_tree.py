"""The end of a process tree whose processes fork and leave while they are looked at."""

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Final

import pytest

from runward.daemon.launch import containment
from runward.daemon.launch.cgroup import Held
from runward.daemon.processes import kernel, proc

PROGRAM: Final = f"""
import os, signal, sys
from {proc.__name__.rpartition(".")[0]} import proc
from {kernel.__name__} import become_subreaper

asked, ask = os.pipe()
told, tell = os.pipe()
hops = int(sys.argv[1])
become_subreaper()
refused = 0
if sys.argv[2:] == ["beside one that may not be signalled"]:
    refused = os.fork()
    if refused == 0:
        os.close(ask)
        signal.pause()
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
    if hops and pid != refused and not was_dead(pid):
        hops -= 1
        os.write(ask, b".")
        os.read(told, 1)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return was_dead(pid)

def send(pid, number, is_meant):
    if pid == refused:
        return proc.Signalled(proc.read_stat(pid), False)
    return was_sent(pid, number, is_meant)

proc._is_dead = is_dead
was_sent, proc.signal_meant = proc.signal_meant, send
killed = proc.kill_tree()
left = proc.children()
print(hops, left == killed.left == (frozenset([refused]) if refused else frozenset()))
for pid in left:
    os.kill(pid, signal.SIGKILL)
"""


@pytest.mark.parametrize("hops", range(6))
def test_a_process_that_goes_on_in_a_child_before_each_look_is_ended(hops: int) -> None:
    words = [sys.executable, "-c", PROGRAM, str(hops)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "0 True\n"


@pytest.mark.parametrize("hops", range(8))
def test_it_is_ended_also_beside_one_that_may_not_be_signalled(hops: int) -> None:
    words = [sys.executable, "-c", PROGRAM, str(hops), "beside one that may not be signalled"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "0 True\n"


def test_a_number_that_was_another_childs_may_become_one_of_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's own child is spared only until it was waited for."""
    numbers = frozenset({4_000_001})
    monkeypatch.setattr(proc, "children", lambda: numbers)
    monkeypatch.setattr(containment, "become_subreaper", lambda: None)
    hold = containment.Subreaper(Held(1, frozenset(), "run", None))
    assert hold.is_empty()
    hold.note_exits(dict.fromkeys(numbers, 0))
    assert not hold.is_empty()


REUSED: Final = f"""
import os, signal, subprocess, sys, time
from {proc.__name__.rpartition(".")[0]} import proc
from {containment.__name__.rpartition(".")[0]} import containment
from {kernel.__name__} import become_subreaper

become_subreaper()
stranger = int(sys.argv[1])
if os.fork() == 0:
    signal.pause()
(ours,) = proc.children()

# What was listed has ended by the time it is signalled, and its number is another process's.
was_listed = proc.descendants
proc.descendants = lambda without=frozenset(): [stranger, *was_listed(without)]
if sys.argv[2] == "terminate":
    containment._terminate(frozenset(proc.descendants()), proc.is_below)
    assert os.WTERMSIG(os.waitpid(ours, 0)[1]) == signal.SIGTERM
else:
    print(proc._stop_and_kill(frozenset(), set()))
    os.waitpid(ours, 0)
"""


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_a_number_that_became_another_process_s_is_not_signalled(how: str) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        try:
            words = [sys.executable, "-c", REUSED, str(stranger.pid), how]
            ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
            assert ran.stdout == ("" if how == "terminate" else "set()\n")
            assert stranger.poll() is None
            assert proc.read_stat(stranger.pid).state == "S"
        finally:
            stranger.kill()


def test_a_number_that_becomes_another_process_s_after_the_stop_is_not_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        was_sent, sent = proc.signal_meant, []

        def sends(
            pid: int, number: int, is_meant: Callable[[proc.ProcessStat], bool]
        ) -> proc.Signalled | None:
            found = was_sent(pid, number, is_meant)
            sent.append((number, found is not None))
            # Its number belongs to one that started at another time from here on.
            later = proc.read_stat(pid)._replace(start_ticks=1)
            monkeypatch.setattr(proc, "read_stat", lambda pid: later)
            return found

        monkeypatch.setattr(proc, "signal_meant", sends)
        proc._stop_and_kill(proc.children() - {child.pid}, set())
        monkeypatch.undo()
        assert sent == [(signal.SIGSTOP, True), (signal.SIGKILL, False)]
        assert child.poll() is None
        child.kill()
