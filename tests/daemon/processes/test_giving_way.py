"""What works in the background gives way: by its own class and nice value, and by that of its session."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from runward.daemon.processes.giving_way import NICENESS, OF_SESSION, session_gives_way

_SAYS = (
    "import os\n"
    "from runward.daemon.processes.giving_way import give_way\n"
    "give_way()\n"
    "print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0) == os.SCHED_BATCH)"
)
needs_autogroups = pytest.mark.skipif(
    not Path("/proc/self/autogroup").exists(), reason="this kernel has no autogroups"
)


def _niceness_of_session(process: int | str) -> int:
    return int(Path(f"/proc/{process}/autogroup").read_text().rsplit(maxsplit=1)[-1])


@pytest.fixture
def in_own_session() -> Iterator[int]:
    """A process that leads a session, and does nothing."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def test_a_process_gives_way_and_stays_like_that() -> None:
    said = subprocess.run([sys.executable, "-c", _SAYS], stdout=subprocess.PIPE, check=True, text=True)
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    assert said.stdout.split() == [str(min(19, usual + NICENESS)), "True"]


@needs_autogroups
def test_the_session_that_it_leads_gives_way_too() -> None:
    says = f"{_SAYS}\nprint(open('/proc/self/autogroup').read())"
    said = subprocess.run(
        [sys.executable, "-c", says], stdout=subprocess.PIPE, check=True, text=True, start_new_session=True
    )
    assert int(said.stdout.split()[-1]) == OF_SESSION


_AT_TIMES = """
import os
from runward.daemon.processes.giving_way import OF_SESSION, GivingWay

def niceness():
    return int(open("/proc/self/autogroup").read().split()[-1])

giving = GivingWay()
print(niceness(), os.sched_getscheduler(0) == os.SCHED_BATCH)
for is_wanted, expected in ((True, OF_SESSION), (False, 0)):
    while niceness() != expected:  # the kernel lets a user change few of them in a second
        giving.give_way(is_wanted)
    print(niceness(), os.sched_getscheduler(0) == os.SCHED_BATCH)
"""


@needs_autogroups
def test_one_that_gives_way_at_times_is_as_before_in_between() -> None:
    command = [sys.executable, "-c", _AT_TIMES]
    said = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, text=True, start_new_session=True, timeout=PATIENCE_S
    )
    assert said.stdout.split() == ["0", "False", str(OF_SESSION), "True", "0", "False"]


@needs_autogroups
def test_the_session_of_who_started_it_does_not() -> None:
    starts = (
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, '-c', {_SAYS!r}], stdout=subprocess.DEVNULL, check=True)\n"
        "print(open('/proc/self/autogroup').read())"
    )
    # In a session of its own: the one that the tests run in may be the kernel's default, which has no nice value.
    said = subprocess.run(
        [sys.executable, "-c", starts], stdout=subprocess.PIPE, check=True, text=True, start_new_session=True
    )
    assert int(said.stdout.split()[-1]) == 0


@needs_autogroups
@pytest.mark.parametrize(("is_that", "niceness"), [(True, OF_SESSION), (False, 0)])
def test_a_session_is_left_alone_if_its_number_is_somebody_elses_by_now(
    is_that: bool, niceness: int, in_own_session: int
) -> None:
    while not session_gives_way(in_own_session, lambda: is_that):
        pass  # another test of this user had its session give way a moment ago
    assert _niceness_of_session(in_own_session) == niceness


def test_what_the_kernel_refuses_for_the_moment_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: int, content: bytes) -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "write", refuse)
    assert not session_gives_way("self", lambda: True)


def test_who_is_gone_needs_not_give_way() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert session_gives_way(process.pid, lambda: True)
