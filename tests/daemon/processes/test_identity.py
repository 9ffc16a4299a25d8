"""Who a process is, and whether that very one still runs."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import wait_for

from runward.daemon.processes.proc import (
    ProcessIdentity,
    current_boot_id,
    identity_of,
    parse_stat,
    read_stat,
    state_of,
)


def test_a_running_process_is_alive_and_gone_after_its_end() -> None:
    process = subprocess.Popen(["sleep", "100"])
    identity = identity_of(process.pid)

    assert state_of(identity) == "alive"
    process.kill()
    process.wait()
    assert state_of(identity) == "gone"


def test_a_zombie_is_gone_already() -> None:
    process = subprocess.Popen(["sleep", "100"])
    identity = identity_of(process.pid)
    process.kill()
    wait_for(lambda: read_stat(process.pid).state == "Z", "the zombie")

    assert state_of(identity) == "gone"
    with pytest.raises(ProcessLookupError):
        identity_of(process.pid)
    process.wait()


def test_a_process_whose_first_thread_ended_is_alive_while_others_run() -> None:
    script = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(100,)).start()\n"
        "ctypes.CDLL(None).syscall(60 if __import__('os').uname().machine == 'x86_64' else 93, 0)"
    )
    process = subprocess.Popen([sys.executable, "-c", script])
    identity = identity_of(process.pid)
    wait_for(lambda: read_stat(process.pid).state == "Z", "the end of the first thread")

    assert state_of(identity) == "alive"
    process.kill()
    process.wait()


def test_the_same_number_with_another_start_is_somebody_else() -> None:
    ours = identity_of(os.getpid())

    assert state_of(ours._replace(start_ticks=ours.start_ticks + 1)) == "gone"


def test_a_process_of_another_boot_is_gone() -> None:
    assert state_of(identity_of(os.getpid())._replace(boot_id="of-yesterday")) == "gone"


def test_there_is_no_identity_where_no_process_is() -> None:
    process = subprocess.Popen(["true"])
    process.wait()

    with pytest.raises(ProcessLookupError):
        identity_of(process.pid)


@pytest.mark.parametrize("pid", [0, -1, 2**31 - 1, 2**40])
def test_numbers_that_are_no_process_are_gone(pid: int) -> None:
    assert state_of(ProcessIdentity(pid, 1, current_boot_id())) == "gone"


def test_where_proc_hides_a_process_that_exists_nobody_can_tell(tmp_path: Path) -> None:
    boot = tmp_path / "sys" / "kernel" / "random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text("this-boot\n")

    assert state_of(ProcessIdentity(os.getpid(), 1, "this-boot"), proc=str(tmp_path)) == "unknown"


def test_where_proc_cannot_be_read_nobody_can_tell(tmp_path: Path) -> None:
    boot = tmp_path / "sys" / "kernel" / "random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text("this-boot\n")
    (tmp_path / "1" / "stat").mkdir(parents=True)

    assert state_of(ProcessIdentity(1, 1, "this-boot"), proc=str(tmp_path)) == "unknown"


@given(name=st.binary(max_size=15))
def test_a_stat_line_is_read_whatever_the_process_calls_itself(name: bytes) -> None:
    rest = b"S 7 8 9 34816 11 12 13 14 15 16 17 18 19 20 21 22 5 24 987654 26 27"
    stat = parse_stat(b"4711 (" + name + b") " + rest)

    assert (stat.pid, stat.parent, stat.terminal, stat.threads, stat.start_ticks) == (
        4711,
        7,
        34816,
        5,
        987654,
    )


def test_our_own_line_agrees_with_what_python_says() -> None:
    stat = read_stat(os.getpid())

    assert stat.pid == os.getpid()
    assert stat.parent == os.getppid()
    assert stat.threads == threading.active_count() or stat.threads > threading.active_count()
    assert not stat.is_dead
