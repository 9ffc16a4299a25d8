"""A run that the daemon starts: by a launcher of its own that outlives it, and once however often it is asked for."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.daemon.launch.killed_at_a_step import program
from tests.daemon.launching import is_alive, members
from tests.daemon.world.recording import RecordingProcesses
from tests.waiting import wait_for

from runward.config.json_value import JsonValue
from runward.daemon.disk.epoch import EpochPassed, write_epoch
from runward.daemon.processes.proc import read_stat, send_signal
from runward.daemon.store.ownership import prepare
from runward.daemon.world import starting
from runward.daemon.world.processes import Begun, NotBegun
from runward.daemon.world.starting import environment
from runward.handlers.model.invocations import StartRun

EPOCH = 1
FAULTY = program(
    "runward.daemon.launch.detached",
    ("mkdir", "open", "write", "fsync", "rename", "unlink", "rmdir", "fork"),
)
"""A launcher that is killed at a step of its own."""


class Starter:
    """A state directory, a root, and the port that starts runs in it."""

    def __init__(self, base: Path) -> None:
        self.state, self.root, self.work = base / "state", base / "runs", base / "work"
        prepare(self.state)
        write_epoch(self.state, EPOCH)
        self.root.mkdir()
        self.work.mkdir()
        self.processes = RecordingProcesses(self.state)

    def order(self, name: str, *command: str, **further: object) -> StartRun:
        fields: dict[str, object] = {"cwd": str(self.work), **further}
        return StartRun(f"key of {name}", f"native:runs/{name}", str(self.root), name, command, **fields)  # type: ignore[arg-type] # each test names real fields

    def start(self, name: str, *command: str, **further: object) -> Begun | NotBegun:
        return self.processes.start(self.order(name, *command, **further), EPOCH)

    def read(self, name: str, file: str) -> dict[str, JsonValue]:
        value: dict[str, JsonValue] = json.loads((self.root / name / file).read_text())
        return value

    def output(self, name: str) -> list[str]:
        """What a command said, once it has ended."""
        self.wait(name)
        return (self.root / name / "stdout.log").read_text().splitlines()

    def wait(self, name: str) -> dict[str, JsonValue]:
        """How a run ended, once it has."""
        wait_for(lambda: (self.root / name / "exit.json").exists(), f"the end of {name}")
        return self.read(name, "exit.json")

    def launcher(self, name: str) -> int:
        launcher = self.read(name, "run.json")["launcher"]
        assert isinstance(launcher, dict)
        return int(str(launcher["pid"]))

    def close(self) -> None:
        """Leave no process behind: the commands end first, so that their launchers clean up."""
        self.processes.close()
        begun = [path.name for path in self.root.iterdir() if "process.json" in os.listdir(path)]
        launchers = [self.launcher(name) for name in begun]
        wait_for(lambda: self._killed() and not any(map(is_alive, launchers)), f"the end of {launchers}")

    def _killed(self) -> bool:
        """Kill every command that is there already: it is told of before it is let go."""
        for pid in members(str(self.root)):
            send_signal(pid, signal.SIGKILL)
        return True


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[Starter]:
    made = Starter(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("writes", ["echo", "echo 1 >> ../runs/RUN/artifacts/report"])
def test_a_run_that_falls_silent_is_ended_with_its_tree(starter: Starter, writes: str) -> None:
    loop = f"for i in 1 2 3 4 5 6 7 8; do {writes.replace('RUN', 'one')}; sleep 0.15; done"
    starter.start("one", "sh", "-c", f"{loop}; echo $$ > ../said; sleep 60 & wait", stale_after=0.8)
    end = starter.wait("one")
    assert (end["cause"], end["error"], end["signal"]) == ("timed_out", "stale", signal.SIGTERM)
    assert float(str(end["duration_s"])) >= 1.8, "it was not silent before"
    assert not is_alive(int((starter.root.parent / "said").read_text()))
    wait_for(lambda: not members(str(starter.root)), "the end of its tree")


def test_a_deadline_comes_before_a_silence_that_is_not_over(starter: Starter) -> None:
    starter.start("one", "sleep", "60", stale_after=50.0, timeout=0.2)
    end = starter.wait("one")
    assert (end["cause"], end["error"]) == ("timed_out", None)


def test_a_run_begins_and_leaves_the_record_of_any_other_launch(starter: Starter) -> None:
    contract: JsonValue = {"expected": []}
    told = starter.start(
        "one",
        "sh",
        "-c",
        "echo out; echo err >&2; exit 3",
        playbook="review",
        agent="reviewer",
        contract=contract,
        timeout=60.0,
        metadata=(("asked_by", "ann"),),
    )
    assert told == Begun()
    assert (starter.wait("one")["cause"], starter.wait("one")["exit_code"]) == ("exited", 3)
    run = starter.read("one", "run.json")
    assert (run["playbook"], run["agent"], run["contract"], run["timeout"]) == (
        "review",
        "reviewer",
        contract,
        60.0,
    )
    metadata = run["metadata"]
    assert isinstance(metadata, dict)
    assert (metadata["asked_by"], metadata["start"]) == ("ann", "key of one")
    assert (starter.root / "one" / "stdout.log").read_text() == "out\n"
    assert (starter.root / "one" / "stderr.log").read_text() == "err\n"


def test_asked_for_again_it_is_not_run_again(starter: Starter) -> None:
    order = starter.order("one", "sh", "-c", "echo ran >> ran")
    for _ in range(3):
        assert starter.processes.start(order, EPOCH) == Begun()
    starter.wait("one")
    assert starter.processes.start(order, EPOCH) == Begun()
    assert (starter.work / "ran").read_text() == "ran\n"


def test_a_run_that_goes_on_is_known_to_have_begun(starter: Starter) -> None:
    order = starter.order("one", "sleep", "60")
    assert [starter.processes.start(order, EPOCH) for _ in range(2)] == [Begun(), Begun()]
    assert is_alive(starter.launcher("one"))


def test_asked_for_by_many_at_once_it_is_run_once(starter: Starter) -> None:
    order = starter.order("one", "sh", "-c", "echo ran >> ran")
    answers: list[Begun | NotBegun] = []
    threads = [
        threading.Thread(target=lambda: answers.append(starter.processes.start(order, EPOCH)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    starter.wait("one")
    assert Begun() in answers
    assert {each for each in answers if each != Begun()} <= {
        NotBegun("another launcher is about to begin it")
    }
    assert (starter.work / "ran").read_text() == "ran\n"


def expected(starter: Starter) -> int:
    """Have something ready that forks launchers; returns its pid."""
    starter.processes.expect_start(EPOCH)
    return alone(starter)


def alone(starter: Starter) -> int:
    """The pid of what forks launchers: a launcher that it has just forked looks the same for a moment."""
    found: list[int] = []

    def is_alone() -> bool:
        found[:] = forking(starter)
        return len(found) == 1

    wait_for(is_alone, "what forks launchers, alone")
    return found[0]


def forking(starter: Starter) -> list[int]:
    """The processes of this state directory that fork launchers: their orders come to them on their stdin."""
    ending = f"\0{starter.state}\0{EPOCH}\0".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = (entry / "cmdline").read_bytes().endswith(ending)
            if is_ours and os.readlink(entry / "fd/0").startswith("socket:"):
                found.append(int(entry.name))
        except OSError:
            pass  # it ended meanwhile, or is a launcher, which hides what it has open
    # The process that started it is like it until it ends. It leads its session.
    return [pid for pid in found if not leads_a_session(pid)]


def leads_a_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return True


def test_a_forked_launcher_is_as_any_other(starter: Starter) -> None:
    pid = expected(starter)
    told = starter.start("one", "sh", "-c", "echo $X; pwd; sleep 60", environment=(("X", "given"),))
    assert told == Begun()
    launcher = starter.launcher("one")
    assert launcher != pid, "how old it is would not be how long the run takes"
    assert read_stat(launcher).parent not in (os.getpid(), pid)
    assert os.getsid(launcher) not in (os.getsid(0), os.getsid(pid), launcher)
    wait_for(
        lambda: (starter.root / "one" / "stdout.log").read_text() == f"given\n{starter.work}\n", "its words"
    )


@pytest.mark.skipif(os.getuid() != 0, reason="only root may see the descriptors of a launcher")
def test_a_forked_launcher_has_the_same_descriptors_as_any_other(starter: Starter) -> None:
    expected(starter)
    assert starter.start("one", "sleep", "60") == Begun()
    launcher, cold = starter.launcher("one"), cold_launcher(starter)
    wait_for(lambda: descriptors(launcher) == descriptors(cold), "the same descriptors")


def descriptors(pid: int) -> set[str]:
    return set(os.listdir(f"/proc/{pid}/fd"))


def cold_launcher(starter: Starter) -> int:
    starter.processes.close()
    starter.processes.start(starter.order("cold", "sleep", "60"), EPOCH)
    return starter.launcher("cold")


def test_many_orders_at_once_go_to_one_that_forks(starter: Starter) -> None:
    pid = expected(starter)
    starter.processes.expect_start(EPOCH)
    assert alone(starter) == pid, "one is enough"
    names = [f"run-{number}" for number in range(8)]
    threads = [threading.Thread(target=starter.start, args=(name, "true")) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [starter.wait(name)["exit_code"] for name in names] == [0] * 8


def test_where_what_forks_was_killed_or_hangs_launchers_begin_all_the_same(
    starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.kill(expected(starter), signal.SIGKILL)
    assert starter.start("one", "true") == Begun()
    starter.wait("one")
    monkeypatch.setattr(starting, "PATIENCE", 0.1)
    pid = expected(starter)
    os.kill(pid, signal.SIGSTOP)
    try:
        names, answered = ["two"], starter.start("two", "true")
        # Only one launcher can have been forked before, and have waited for an order.
        if answered == Begun():
            names, answered = ["two", "three"], starter.start("three", "true")
        assert answered == NotBegun("its launcher has not begun after 0.1 s")
        monkeypatch.undo()
        # On a slow machine, a launcher that was forked before may have the ticket by then.
        wait_for(lambda: starter.start(names[-1], "true") == Begun(), "its begin")
    finally:
        os.kill(pid, signal.SIGKILL)
    for name in names:
        starter.wait(name)


def test_what_forks_and_has_ended_is_replaced_before_it_is_asked(starter: Starter) -> None:
    pid = expected(starter)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: forking(starter) == [], "its end")
    assert expected(starter) != pid


def test_a_launcher_that_is_forked_after_its_epoch_starts_nothing(starter: Starter) -> None:
    expected(starter)
    write_epoch(starter.state, EPOCH + 1)
    with pytest.raises(EpochPassed):
        starter.start("one", "touch", "ran")
    assert starter.processes.start(starter.order("two", "true"), EPOCH + 1) == Begun()
    starter.wait("two")


def test_what_forks_launchers_ends_with_the_daemon_and_its_launchers_go_on(starter: Starter) -> None:
    script = f"""
import os, signal
from pathlib import Path
from tests.daemon.world.recording import RecordingProcesses
from runward.handlers.model.invocations import StartRun
processes = RecordingProcesses(Path({str(starter.state)!r}))
processes.expect_start({EPOCH})
processes.start(StartRun("key of one", "native:runs/one", {str(starter.root)!r}, "one", ("sleep", "60"), cwd="/"), {EPOCH})
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], check=False)
    wait_for(lambda: forking(starter) == [], "the end of what forks")
    assert is_alive(starter.launcher("one"))


def test_a_launcher_of_an_epoch_that_is_over_starts_nothing(starter: Starter) -> None:
    write_epoch(starter.state, EPOCH + 1)
    with pytest.raises(EpochPassed):
        starter.start("one", "touch", "ran")
    assert list(starter.root.iterdir()) == []


def test_the_launcher_is_nobodys_child_and_in_a_session_of_its_own(starter: Starter) -> None:
    starter.start("one", "sleep", "60")
    pid = starter.launcher("one")
    assert read_stat(pid).parent != os.getpid()
    assert os.getsid(pid) not in (os.getsid(0), pid)
    assert read_stat(pid).terminal == 0


def test_the_run_survives_a_kill_of_who_started_it_and_of_its_whole_group(starter: Starter) -> None:
    script = f"""
import os, signal
from tests.daemon.world.test_starting import Starter
class There(Starter):
    def __init__(self):
        pass
from pathlib import Path
from tests.daemon.world.recording import RecordingProcesses
there = There()
there.state, there.root, there.work = (Path({str(starter.state)!r}), Path({str(starter.root)!r}), Path({str(starter.work)!r}))
there.processes = RecordingProcesses(there.state)
print(there.start("one", "sleep", "60"), flush=True)
os.killpg(0, signal.SIGKILL)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        start_new_session=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, b"Begun()\n")
    assert is_alive(starter.launcher("one"))
    assert len(wait_for(lambda: members(str(starter.root)), "the command")) == 1


def test_the_command_holds_nothing_of_the_daemons(starter: Starter, tmp_path: Path) -> None:
    leaked = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(leaked, True)
    try:
        starter.start("fds", "ls", "/proc/self/fd")
        starter.start("stdin", "readlink", "/proc/self/fd/0")
    finally:
        os.close(leaked)
    assert starter.output("fds") == ["0", "1", "2", "3"], "the fourth is the directory that ls reads"
    assert starter.output("stdin") == ["/dev/null"]


def test_the_command_finds_its_directory_and_its_variables(starter: Starter) -> None:
    starter.start(
        "one",
        "sh",
        "-c",
        'pwd; echo "$RUNWARD_SESSION_ID|$RUNWARD_RUN_DIR|$RUNWARD_ARTIFACTS_DIR|$FURTHER"; printenv TRACEPARENT',
        environment=(
            ("FURTHER", "a b"),
            ("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"),
        ),
    )
    directory = starter.root / "one"
    pwd, variables, trace = starter.output("one")
    assert pwd == str(starter.work)
    assert variables == f"one|{directory}|{directory}/artifacts|a b"
    assert trace.startswith("00-0af7651916cd43dd8448eb211c80319c-")
    metadata = starter.read("one", "run.json")["metadata"]
    assert isinstance(metadata, dict)
    assert metadata["traceparent"] == trace


def test_what_was_given_to_the_daemon_alone_reaches_no_command() -> None:
    ours = {"PATH": "/bin", "NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "1", "RUNWARD_FAULT": "kill@1"}
    ours |= {"RUNWARD_RUN_FAULT": "kill@1", "RUNWARD_FLEET_FAULT": "kill@1"}
    ours |= {"CREDENTIALS_DIRECTORY": "/run/credentials/runward.service"}
    ours["TRACEPARENT"] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    assert environment(ours) == {"PATH": "/bin"}


def test_signals_that_the_daemon_ignores_end_its_runs_all_the_same(starter: Starter) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        starter.start("one", "sleep", "60")
    finally:
        signal.signal(signal.SIGTERM, before)
    os.kill(starter.launcher("one"), signal.SIGTERM)
    assert (starter.wait("one")["cause"], starter.wait("one")["signal"]) == ("cancelled", signal.SIGTERM)


@pytest.mark.parametrize(
    ("command", "changed", "error"),
    [
        (("/nowhere",), {}, "/nowhere: command not found"),
        (("true",), {"cwd": "/nowhere"}, "true: its directory /nowhere can't be entered: No such file"),
        (("true", "x" * 300_000), {}, "true: Argument list too long"),
    ],
)
def test_what_can_not_be_executed_is_a_run_that_says_so(
    starter: Starter, command: tuple[str, ...], changed: dict[str, str], error: str
) -> None:
    assert starter.start("one", *command, **changed) == Begun()
    assert starter.wait("one")["cause"] == "not_started"
    assert error in str(starter.wait("one")["error"])


def test_a_timeout_is_kept_without_the_daemon(starter: Starter) -> None:
    starter.start("one", "sleep", "60", timeout=0.2, grace=0.1)
    assert starter.wait("one")["cause"] == "timed_out"


def test_a_name_that_is_taken_is_refused_for_good(starter: Starter) -> None:
    (starter.root / "one").mkdir()
    (starter.root / "one" / "run.json").write_text("{}")
    told = starter.start("one", "touch", "ran")
    assert told == NotBegun("its run directory can't be made: it already contains a run", for_good=True)
    (starter.root / "one" / "run.json").unlink()


def test_a_root_that_is_away_is_worth_another_try(starter: Starter) -> None:
    starter.root.rename(starter.root.with_name("away"))
    told = starter.start("one", "touch", "ran")
    starter.root.with_name("away").rename(starter.root)
    assert isinstance(told, NotBegun)
    assert "its root is missing" in told.why
    assert not told.for_good
    assert starter.start("one", "touch", "ran") == Begun()


def test_an_interpreter_that_can_not_run_is_told_of_and_logged(
    starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "LAUNCHER", (sys.executable, "-c", "raise SystemExit('broken')"))
    told = starter.start("one", "true")
    assert isinstance(told, NotBegun)
    assert "log/launcher.log" in told.why
    assert (starter.state / "log" / "launcher.log").read_text() == "broken\n"
    monkeypatch.setattr(starting, "LAUNCHER", ("/nowhere/python",))
    assert starter.start("one", "true") == NotBegun("no launcher can be started: No such file or directory")


def test_one_that_does_not_begin_in_time_is_worth_another_try(
    starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "PATIENCE", 0.05)
    slow = "import os, time; os.fork() and os._exit(0); time.sleep(2)"
    monkeypatch.setattr(starting, "LAUNCHER", (sys.executable, "-c", slow))
    assert starter.start("one", "true") == NotBegun("its launcher has not begun after 0.05 s")


def _killed_at(starter: Starter, step: int, use: Callable[[Sequence[str]], None]) -> str:
    """Start a run by a launcher that is killed at `step`, then as often as it takes; what its command wrote then."""
    name = f"run{step}"
    ordinary = starting.LAUNCHER
    use((sys.executable, "-c", FAULTY, str(step)))
    first = starter.start(name, "sh", "-c", f"echo ran >> ran{step}")
    use(ordinary)
    for _ in range(20):
        if starter.start(name, "sh", "-c", f"echo ran >> ran{step}") == Begun():
            break
    else:
        raise AssertionError(f"killed at step {step} it never began")
    living = [starter.launcher(name)]
    if (starter.root / name / "process.json").exists():
        living.append(int(str(starter.read(name, "process.json")["pid"])))  # known before it runs the command
    wait_for(
        lambda: not any(map(is_alive, living)) and not members(str(starter.root / name)), "the end of the run"
    )
    ran = starter.work / f"ran{step}"
    times = ran.read_text() if ran.exists() else ""
    if not times:
        assert not (starter.root / name / "exit.json").exists(), "its record says that nobody saw its end"
    return "never killed" if (starter.root / name / "exit.json").exists() and first == Begun() else times


def test_a_launcher_killed_at_a_step_leaves_a_run_that_begins_once(
    starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = range(random.randrange(1, 6), 36, 6)
    seen = [
        _killed_at(starter, step, lambda words: monkeypatch.setattr(starting, "LAUNCHER", words))
        for step in steps
    ]
    assert {*seen} <= {"", "ran\n", "never killed"}, "at most once"


@pytest.mark.prove
def test_a_launcher_killed_at_any_step_leaves_a_run_that_begins_once(
    starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    while seen[-6:] != ["never killed"] * 6:
        seen.append(
            _killed_at(starter, len(seen) + 1, lambda words: monkeypatch.setattr(starting, "LAUNCHER", words))
        )
    assert {*seen} == {"", "ran\n", "never killed"}, "at most once; not once where killed before the release"
    assert len(seen) > 25
