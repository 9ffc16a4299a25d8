"""A launcher takes one order after the other, and nothing of a run reaches the next one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import pytest
from tests.daemon.launch.changed_launcher import CALLS, HAS_SLICES, SLICE
from tests.daemon.launching import SOURCES, Launcher, is_alive
from tests.daemon.world.test_starting import EPOCH, Starter
from tests.unprivileged import as_unprivileged
from tests.waiting import wait_for

from runward.config.json_value import JsonValue
from runward.daemon.inbox.launches import launch_of
from runward.daemon.launch.cgroup import ContainmentUnavailable, cgroup_of
from runward.daemon.launch.ticket import TicketState, throw_away, ticket_state
from runward.daemon.processes.ending_runs import EndNotOrdered, EndOrdered
from runward.daemon.processes.proc import read_stat, send_signal
from runward.daemon.world import starting
from runward.daemon.world.processes import Announced
from runward.daemon.world.starting import StartingProcesses
from runward.handlers.model.processes import RecordedProcess, RunPlace
from runward.handlers.model.sessions import RunProcesses

SEEN = """
import json, os, resource, signal, sys
limits = [resource.getrlimit(each) for each in range(16)]
blocked = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
ignored = [each for each in signal.valid_signals() if signal.getsignal(each) is signal.SIG_IGN]
own = {"RUNWARD_SESSION_ID", "RUNWARD_RUN_DIR", "RUNWARD_ARTIFACTS_DIR", "TRACEPARENT"}
print(json.dumps([
    limits, blocked, [int(each) for each in ignored],
    {name: os.environ[name] for name in sorted({*os.environ} - own)}, os.getcwd(), os.umask(0o22),
    os.getpriority(os.PRIO_PROCESS, 0), sorted(os.sched_getaffinity(0)), os.sched_getscheduler(0),
    sorted(os.readlink(f"/proc/self/fd/{each}").partition(":")[0] for each in os.listdir("/proc/self/fd") if int(each) < 3),
    len(os.listdir("/proc/self/fd")), open("/proc/self/oom_score_adj").read(),
]))
"""
"""What a command inherits."""


MOST_RUNS: Final = 2
SURVIVOR: Final = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with open("survivor.new", "w") as file:
            file.write(str(os.getpid()))
        os.rename("survivor.new", "survivor")
        os.execve("/bin/sleep", ["sleep", "1000"], {})
    os._exit(0)
os.wait()
while not os.path.exists("survivor"):
    time.sleep(0.01)
"""
"""A command that leaves behind what nothing shows to be the run's: forked twice, in a session of its own, without environment."""


def launchers_with(change: str) -> tuple[str, ...]:
    """The words that start launchers in which this was changed."""
    return (
        sys.executable,
        "-P",
        "-c",
        f"from runward.daemon.launch import containment, detached, launch; {change}; detached.main()",
    )


NO_CGROUPS: Final = "containment._AUTO = ('subreaper',); launch.cgroup_ahead = lambda *_: None"


class Listening(Starter):
    """What starts runs, and listens to their launchers until they are free again."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.listening = StartingProcesses(self.state)
        self.launched: dict[str, Announced] = {}

    def begin(self, name: str, *command: str, **environment: str) -> RecordedProcess:
        """Start a run and let its command go; returns its launcher."""
        self.listening.expect_start(EPOCH)
        order = self.order(name, *command, environment=tuple(environment.items()))
        answer = self.listening.start(order, EPOCH)
        assert isinstance(answer, Announced)
        answer.channel.acknowledge()
        self.launched[name] = answer
        return launch_of(answer.launch).launcher

    def end(self, name: str) -> None:
        """Wait for the end of a run, and until its launcher is free or gone."""
        anyio.run(self.launched[name].channel.freed)

    def run(self, name: str, *command: str, **environment: str) -> RecordedProcess:
        launcher = self.begin(name, *command, **environment)
        self.end(name)
        return launcher

    def said(self, name: str) -> JsonValue:
        value: JsonValue = json.loads((self.root / name / "stdout.log").read_text())
        return value

    def recorded(self, name: str) -> tuple[RunProcesses, RunPlace]:
        launch, status = launch_of(self.launched[name].launch), (self.root / name).stat()
        processes = RunProcesses(launch.launcher, launch.process, is_recorded=True, cgroup=launch.cgroup)
        return processes, RunPlace(status.st_uid, status.st_dev, status.st_ino)

    def close(self) -> None:
        self.let_go()
        super().close()

    def let_go(self) -> None:
        """The daemon ends."""
        self.listening.close()
        for each in self.launched.values():
            each.channel.close()


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[Listening]:
    made = Listening(tmp_path)
    yield made
    made.close()


def test_a_launcher_whose_run_is_over_takes_the_next_order(starter: Listening) -> None:
    first = starter.run("one", "true")
    second = starter.run("two", "sh", "-c", "exit 3")
    assert second[:3] == first[:3]
    assert second.ticket != first.ticket
    assert starter.listening.state(second) == "gone", "it waits, and belongs to no run"
    assert [starter.read(name, "exit.json")["exit_code"] for name in ("one", "two")] == [0, 3]


def test_a_launcher_ends_after_so_many_runs_and_takes_no_order_that_it_will_not_carry_out(
    starter: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "LAUNCHER", launchers_with(f"detached.MOST_RUNS = {MOST_RUNS}"))
    pids = [starter.run(f"run{number}", "true").pid for number in range(MOST_RUNS)]
    assert len({*pids}) == 1
    assert len(starter.listening._free) == 1, "the one that is ready"
    wait_for(lambda: not is_alive(pids[0]), "its end")
    assert starter.run("next", "true").pid != pids[0]


def test_while_one_runs_another_is_ready(starter: Listening) -> None:
    first = starter.begin("one", "sleep", "1000")
    second = starter.run("two", "true")
    third = starter.run("three", "true")
    assert second.pid != first.pid
    assert third.pid == second.pid
    assert [starter.listening.state(each) for each in (first, second, third)] == ["alive", "gone", "gone"]


def test_the_next_command_inherits_what_the_first_one_did(starter: Listening) -> None:
    first = starter.run("one", sys.executable, "-c", SEEN, SECRET="of the first")
    busy = "import os, signal; os.umask(0); os.chdir('/'); signal.signal(signal.SIGUSR1, signal.SIG_IGN); os.setsid()"
    starter.run("two", sys.executable, "-c", busy, SECRET="of the second", HOME="/of/the/second", OTHER="too")
    third = starter.run("three", sys.executable, "-c", SEEN, SECRET="of the first")
    assert third.pid == first.pid
    assert starter.said("three") == starter.said("one")
    assert b"of the first" not in (starter.root / "two" / "run.json").read_bytes()


SPOILING = {
    "a limit": "resource.prlimit(launcher, resource.RLIMIT_NOFILE, (100, 100))",
    "its nice value": "os.setpriority(os.PRIO_PROCESS, launcher, 7)",
    "its processors": "os.sched_setaffinity(launcher, {min(os.sched_getaffinity(0))})",
    "its scheduler": "os.sched_setscheduler(launcher, os.SCHED_BATCH, os.sched_param(0))",
    "its badness": "put(f'/proc/{launcher}/oom_score_adj', b'500')",
    "what a dump of it has": "put(f'/proc/{launcher}/coredump_filter', b'0x7f')",
    "its timer slack": "put(f'/proc/{launcher}/timerslack_ns', b'1234567')",
    "the nice value of its session": "assert open('/proc/self/autogroup').read(); put('/proc/self/autogroup', b'5')",
    "its priority for the disk": "subprocess.run(['ionice', '-c', '3', '-p', str(launcher)], check=True)",
    "its children's scheduler": (
        "os.sched_setscheduler(launcher, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))"
    ),
    "its slice of time": f"assert {HAS_SLICES} and call({CALLS.get('sched_setattr')}, launcher, {SLICE!r}, 0) == 0",
    "its session keyring": (
        f"assert call({CALLS.get('keyctl')}, 1, None) > 0 and call({CALLS.get('keyctl')}, 18) == 0"  # to the parent
    ),
    "how its input is open": "fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK)",
}
"""What a command may do to its launcher from outside, where it may."""


@pytest.mark.parametrize("spoil", SPOILING.values(), ids=SPOILING)
def test_a_launcher_that_its_command_has_changed_takes_no_further_order(
    starter: Listening, spoil: str
) -> None:
    before = starter.run("before", sys.executable, "-c", SEEN)
    imports = "import ctypes, fcntl, os, resource, subprocess; call = ctypes.CDLL(None).syscall"
    put = "put = lambda path, content: os.write(os.open(path, os.O_WRONLY), content)"
    spoiled = f"{imports}; {put}; launcher = os.getppid(); {spoil}"
    assert starter.run("spoiling", sys.executable, "-c", spoiled).pid == before.pid
    if starter.read("spoiling", "exit.json")["exit_code"] != 0:
        pytest.skip("a command may not change its launcher here")
    assert starter.run("after", sys.executable, "-c", SEEN).pid != before.pid
    assert starter.said("after") == starter.said("before")
    wait_for(lambda: not is_alive(before.pid), "its end")


def test_a_launcher_that_its_command_moves_into_another_cgroup_takes_no_further_order(
    starter: Listening,
) -> None:
    try:
        other = Path(cgroup_of(os.getpid())) / f"test-{os.urandom(4).hex()}"
        other.mkdir()
    except (ContainmentUnavailable, OSError) as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    before = starter.run("before", "true")
    try:
        starter.run("moving", "sh", "-c", f"echo $PPID > {other}/cgroup.procs")
        assert starter.read("moving", "exit.json")["exit_code"] == 0
        assert starter.run("after", "true").pid != before.pid
    finally:
        starter.let_go()
        wait_for(lambda: not is_alive(before.pid), "its end")
        other.rmdir()


@pytest.mark.parametrize("change", ["pass", NO_CGROUPS], ids=["the usual hold", "subreaper"])
def test_a_child_that_a_command_left_behind_is_dead_when_the_next_run_begins(
    starter: Listening, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(starting, "LAUNCHER", launchers_with(change))
    first = starter.run("one", sys.executable, "-c", SURVIVOR)
    survivor = int((starter.work / "survivor").read_text())
    try:
        assert not is_alive(survivor)
    finally:
        send_signal(survivor, signal.SIGKILL)
    assert starter.run("two", "true").pid == first.pid
    assert [starter.read(name, "exit.json")["survivors_killed"] for name in ("one", "two")] == [1, 0]


def test_a_launcher_with_a_child_that_was_left_takes_no_further_order(
    starter: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    unseen = f"{NO_CGROUPS}; containment.Subreaper.is_empty = lambda hold: True"
    monkeypatch.setattr(starting, "LAUNCHER", launchers_with(unseen))
    first = starter.run("one", sys.executable, "-c", SURVIVOR)
    survivor = int((starter.work / "survivor").read_text())
    try:
        assert is_alive(survivor), "its launcher did not see it"
        assert starter.run("two", "true").pid != first.pid
    finally:
        send_signal(survivor, signal.SIGKILL)


def test_no_other_process_of_the_user_reads_the_memory_of_launchers(ordinary: Launcher) -> None:
    """Neither of one that has carried out a run, nor of one that waits for its first, nor of what forks them.

    Who has a memory open may read it as long as the process lives. So it must be refused before there is anything in it.
    """
    words = launchers_with("pass")
    if os.getuid() == 0:
        words = (ordinary.python, *words[1:])

    def read() -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(starting, "LAUNCHER", words)
            patch.setenv("PYTHONPATH", str(SOURCES))
            made = Listening(ordinary.work)
            try:
                made.run("one", "true", SECRET="of the first")
                with subprocess.Popen(["sleep", "1000"]) as sleep:
                    try:
                        wait_for(lambda: "environ" in readable(sleep.pid), "that of an ordinary process")
                    finally:
                        sleep.kill()
                return [readable(pid) for pid in processes_of(made.state)]
            finally:
                made.close()

    said = as_unprivileged(read) if os.getuid() == 0 else read()
    assert said == ["", "", ""]


def readable(pid: int) -> str:
    """Which of the files are readable that show the memory of a process."""
    found = []
    for name in ("environ", "mem"):
        with suppress(PermissionError):
            os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY))
            found.append(name)
    return " ".join(found)


def processes_of(state: Path) -> list[int]:
    """All processes that were started as launchers of this daemon, or as what forks them."""
    pids = [int(each) for each in os.listdir("/proc") if each.isdigit()]
    return [pid for pid in pids if os.fsencode(state) in command_line(pid)]


def command_line(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def test_a_signal_to_the_launcher_of_a_run_that_is_over_reaches_no_other_run(starter: Listening) -> None:
    first = starter.run("one", "true")
    os.kill(first.pid, signal.SIGTERM)
    second = starter.begin("two", "sleep", "0.2")
    assert second.pid != first.pid
    starter.end("two")
    assert starter.read("two", "exit.json")["cause"] == "exited"


def test_a_launcher_that_dies_while_it_waits_is_replaced(starter: Listening) -> None:
    first = starter.run("one", "true")
    os.kill(first.pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(first.pid), "its end")
    assert starter.run("two", "true").pid != first.pid
    assert (starter.root / "two" / "exit.json").exists()


def test_a_run_without_its_exit_json_is_gone_though_its_launcher_carries_out_another(
    starter: Listening,
) -> None:
    first = starter.run("one", "true")
    (starter.root / "one" / "exit.json").unlink()
    second = starter.begin("two", "sleep", "1000")
    assert second.pid == first.pid
    assert starter.listening.state(first) == "gone"
    assert starter.listening.state(second) == "alive"


def test_cancelling_or_killing_the_earlier_run_leaves_the_one_that_runs_alone(starter: Listening) -> None:
    first = starter.run("one", "true")
    earlier = starter.recorded("one")
    second = starter.begin("two", "sleep", "1000")
    assert second.pid == first.pid
    told = starter.listening.tell_to_end(*earlier)
    assert isinstance(told, EndNotOrdered)
    assert told.too_late
    assert isinstance(starter.listening.end_tree(earlier[0], str(starter.root / "one")), EndNotOrdered)
    assert starter.listening.state(second) == "alive"
    assert isinstance(starter.listening.tell_to_end(*starter.recorded("two")), EndOrdered)
    starter.end("two")
    assert starter.read("two", "exit.json")["cause"] == "cancelled"


def test_a_launcher_that_takes_the_next_order_while_the_earlier_run_is_killed_goes_on(
    starter: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = starter.run("one", "true")
    earlier, _ = starter.recorded("one")
    second = starter.begin("two", "sleep", "1000")
    assert second.pid == first.pid
    look, looks = starter.listening._is_of_run, []

    def is_of_run(recorded: RecordedProcess) -> bool:
        """As if the launcher had taken the second order between the first look at the ticket and its stop."""
        looks.append(recorded)
        if len(looks) == 2:
            wait_for(lambda: read_stat(first.pid).state == "T", "its stop: it takes no order any more", 10)
        return len(looks) == 1 or look(recorded)

    monkeypatch.setattr(starter.listening, "_is_of_run", is_of_run)
    answer = starter.listening.end_tree(earlier, str(starter.root / "one"))
    assert answer == EndNotOrdered("its launcher and its process have ended", too_late=True)
    assert looks[:2] == [first, first]
    launch = launch_of(starter.launched["two"].launch)
    assert launch.process is not None
    assert [read_stat(each.pid).state in "RSD" for each in (second, launch.process)] == [True, True]
    monkeypatch.undo()
    assert starter.listening.state(second) == "alive"


def test_a_launcher_that_does_not_end_its_run_is_killed_with_it(starter: Listening) -> None:
    first = starter.begin("one", "sleep", "1000")
    processes, _ = starter.recorded("one")
    os.kill(first.pid, signal.SIGSTOP)  # else it sees its command die, and is free before it can be killed
    assert isinstance(starter.listening.end_tree(processes, str(starter.root / "one")), EndOrdered)
    starter.end("one")
    assert starter.listening.state(first) == "gone"
    assert starter.run("two", "true").pid != first.pid


def test_launchers_that_wait_end_with_their_daemon_and_one_that_runs_stays(starter: Listening) -> None:
    idle = starter.run("one", "true")
    running = starter.begin("two", "sleep", "1000")
    spare = starter.run("three", "true")
    assert idle.pid == running.pid != spare.pid
    starter.let_go()
    wait_for(lambda: not is_alive(spare.pid), "the end of the one that waits")
    throw_away(starter.state, ())
    held = ticket_state(starter.state, running.ticket)
    assert held is TicketState.HELD, "a successor knows that it still belongs to its run"
    assert starter.listening.state(running) == "alive"
    starter.listening.tell_to_end(*starter.recorded("two"))
    wait_for(lambda: not is_alive(running.pid), "the end of the run, and of its launcher")


@pytest.mark.prove
def test_a_thousand_runs_in_one_launcher_leave_nothing_behind(starter: Listening) -> None:
    launcher = starter.run("first", "true")

    def held() -> tuple[int, int]:
        status = Path(f"/proc/{launcher.pid}/status").read_text()
        memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
        return len(os.listdir(f"/proc/{launcher.pid}/fd")), memory

    for number in range(200):
        starter.run(f"early{number}", "true")
    before = held()
    for number in range(800):
        assert starter.run(f"run{number}", "true").pid == launcher.pid
    after = held()
    assert after[0] == before[0]
    assert after[1] <= before[1] * 1.05 + 256, "kB"
