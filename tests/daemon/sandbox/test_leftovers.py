"""Whatever is killed, and when: nothing of bubblewrap stays alive."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest
from tests.waiting import PATIENCE_S, wait_for

from runward.config.exchange import Executor
from runward.daemon.sandbox import bubblewrap, leftovers
from runward.daemon.sandbox.isolated import NoSandbox
from runward.daemon.sandbox.workers import Worker

HELD_UP: Final = """
import os, signal, sys, time
from runward.config.exchange import Executor
from runward.daemon.processes.proc import children_of
from runward.daemon.sandbox import bubblewrap, leftovers
from runward.daemon.sandbox.isolated import NoSandbox
from runward.daemon.sandbox.workers import Worker

begin = bubblewrap.start

def start(command, tells, *others):
    # bubblewrap tells that it has forked, and lets its child go on, only when this pipe is read.
    os.set_blocking(tells, False)
    try:
        while True:
            os.write(tells, b" ")
    except BlockingIOError:
        os.set_blocking(tells, True)
    process, outer = begin(command, tells, *others)
    while not (inner := children_of(process.pid)):
        time.sleep(0.001)
    print(inner[0], flush=True)
    if sys.argv[1] == "bubblewrap":
        process.kill()
    elif sys.argv[1] == "both":
        os.kill(leftovers.WATCHER.pid, signal.SIGKILL)
    if sys.argv[1] != "bubblewrap":
        os.kill(os.getpid(), signal.SIGKILL)
    return process, outer

bubblewrap.start = start
try:
    Worker(Executor())
except NoSandbox as error:
    print(error, flush=True)
"""
"""Starts bubblewrap, and kills it or itself when bubblewrap has forked and nobody knows of it."""

AT_ANY_MOMENT: Final = """
import os, random, signal, sys, threading, time
from runward.config.exchange import Executor
from runward.daemon.sandbox import bubblewrap, leftovers
from runward.daemon.sandbox.isolated import NoSandbox
from runward.daemon.sandbox.workers import Worker

seed, times = int(sys.argv[1]), int(sys.argv[2])
begin, chance = bubblewrap.start, random.Random(seed)
Worker(Executor()).close()  # what is found out once is known to all forks

def start(*words):
    began = time.monotonic()
    if whom != "bubblewrap":
        threading.Thread(target=end, args=(os.getpid(), began + later), daemon=True).start()
    process, outer = begin(*words)
    if whom != "starter":
        threading.Thread(target=end, args=(process.pid, began + delay), daemon=True).start()
    return process, outer

def end(pid, at):
    time.sleep(max(0.0, at - time.monotonic()))
    os.kill(pid, signal.SIGKILL)

bubblewrap.start = start
for number in range(times):
    whom = ("bubblewrap", "starter", "both")[number % 3]
    delay = chance.uniform(0.0, 0.02)
    later = delay + chance.uniform(0.0, 0.003) * (whom == "both")
    pid = os.fork()
    if pid == 0:
        leftovers.WATCHER = leftovers.Watcher()
        try:
            with Worker(Executor()):
                time.sleep(0.03)
        except (NoSandbox, OSError):
            pass
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
"""
"""Starts a worker in one fork after the other, and kills bubblewrap, who started it, or both within the first 20 ms."""


@pytest.fixture(autouse=True)
def sandbox() -> None:
    """Skips where this machine has no sandbox."""
    try:
        Worker(Executor()).close()
    except NoSandbox as missing:
        pytest.skip(f"no sandbox here: {missing}")


@pytest.fixture
def label() -> Iterator[str]:
    """What all descendants of this process inherit and nobody else has: how readily the kernel ends them without memory."""
    own = Path("/proc/self/oom_score_adj")
    before = own.read_text()
    label = str(300 + os.getpid() % 600)
    own.write_text(label)
    yield label
    try:
        own.write_text(before)
    except PermissionError:  # an ordinary user can only raise it
        pass


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def labelled(label: str) -> set[int]:
    found = set()
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdecimal() and (each / "oom_score_adj").read_text().strip() == label:
                found.add(int(each.name))
        except OSError:
            continue
    return {each for each in found if is_alive(each)}


def told(program: str, *words: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""
    return ended.stdout.splitlines()


def test_the_inner_process_of_a_bubblewrap_that_was_killed_before_it_told_is_ended() -> None:
    inner, why = told(HELD_UP, "bubblewrap")
    assert why == "the worker didn't start, and gave no reason"
    assert not is_alive(int(inner))


def test_the_inner_process_ends_if_who_started_bubblewrap_is_killed() -> None:
    (inner,) = told(HELD_UP, "starter")
    wait_for(lambda: not is_alive(int(inner)), "nothing of it is left")


def test_what_is_left_because_the_watching_process_was_killed_too_is_ended_by_the_next_who_starts_one() -> (
    None
):
    (inner,) = told(HELD_UP, "both")
    try:
        assert is_alive(int(inner)), "nobody is there who ends it"
        told("from runward.daemon.sandbox.leftovers import new_mark; new_mark()")
        wait_for(lambda: not is_alive(int(inner)), "the next one ends it")
    finally:
        if is_alive(int(inner)):
            os.kill(int(inner), signal.SIGKILL)


def test_nothing_is_left_whenever_who_is_killed(label: str) -> None:
    _kill_at_any_moment(label, 9)


@pytest.mark.prove
@pytest.mark.timeout(400)
def test_nothing_is_left_in_hundreds_of_starts(label: str) -> None:
    _kill_at_any_moment(label, 200)


def _kill_at_any_moment(label: str, times: int) -> None:
    others = labelled(label)
    told(AT_ANY_MOMENT, str(times), str(times))
    wait_for(lambda: not labelled(label) - others, "all processes of all starts end")


def test_only_marks_of_this_process_are_ended(tmp_path: Path) -> None:
    mark = leftovers.new_mark()
    others = [f"{mark}0", f"{mark.partition('/')[0]}0/1", "no mark", ""]
    running = [_sleep(each) for each in (mark, f"{mark}/1", *others)]
    try:
        leftovers.end_marked(mark, 10.0)
        assert [each.poll() for each in running[:2]] == [-signal.SIGKILL] * 2
        assert [each.poll() for each in running[2:]] == [None] * 4
    finally:
        for each in running:
            each.kill()
            each.wait()


def test_what_carries_a_mark_is_ended_once_there_are_descriptors_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark, refusals = leftovers.new_mark(), [errno.EMFILE, errno.ENOMEM]
    take = os.pidfd_open

    def pidfd_open(pid: int) -> int:
        if refusals:
            raise OSError(refusals.pop(), "none is left")
        return take(pid)

    monkeypatch.setattr(os, "pidfd_open", pidfd_open)
    left = _sleep(mark)
    try:
        leftovers.end_marked(mark, 10.0)
        assert left.poll() == -signal.SIGKILL
    finally:
        left.kill()
        left.wait()


def test_a_watching_process_that_has_ended_is_reported_until_there_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher, held = leftovers.Watcher(), len(os.listdir("/proc/self/fd"))
    assert watcher.trouble() is None
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho first >&2\necho 'ImportError: no more' >&2\nexit 3\n")
    broken.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", str(broken))
        watcher.ensure("1:1:1")
        wait_for(lambda: watcher.trouble() is not None, "it ends")
    assert "has ended (exit 3): ImportError: no more; the next code" in str(watcher.trouble())

    watcher.ensure("1:1:1")
    assert watcher.trouble() is None
    pid = watcher.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: "has ended (signal 9); the next" in str(watcher.trouble()), "it is told")

    def pidfd_open(pid: int) -> int:
        raise OSError(errno.EMFILE, "none is left")

    monkeypatch.setattr(os, "pidfd_open", pidfd_open)
    with pytest.raises(OSError, match="none is left"):
        watcher.ensure("1:1:1")
    assert watcher.pid is None
    assert len(os.listdir("/proc/self/fd")) == held, "nothing is kept of one that can't be watched"


def test_what_could_not_be_ended_is_reported_and_ended_with_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watcher, mark = leftovers.Watcher(), f"{leftovers.new_mark()}/1"
    left = _sleep(mark)

    def pidfd_open(pid: int) -> int:
        raise OSError(errno.EMFILE, "none is left")

    def is_settled() -> bool:
        watcher.ensure("1:1:1")
        return watcher.trouble() is None

    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "pidfd_open", pidfd_open)
            watcher.end(mark, 0.1)
            assert left.poll() is None
            assert "of a sandbox that is over may still be alive" in str(watcher.trouble())
        watcher.ensure("1:1:1")
        assert left.wait(PATIENCE_S) == -signal.SIGKILL
        wait_for(is_settled, "nothing of it is left")
    finally:
        left.kill()
        left.wait()
        watcher._forget()


def test_a_number_that_is_another_process_s_by_now_is_not_taken_for_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stranger = subprocess.Popen(["sleep", "600"])
    told = SimpleNamespace(loads=lambda content: {"child-pid": stranger.pid})
    monkeypatch.setattr(bubblewrap, "json", told)
    held = os.listdir("/proc/self/fd")
    try:
        with pytest.raises(NoSandbox):
            Worker(Executor())
        assert stranger.poll() is None
        assert os.listdir("/proc/self/fd") == held
    finally:
        stranger.kill()
        stranger.wait()


def _sleep(mark: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"], env={leftovers.VARIABLE: mark})
