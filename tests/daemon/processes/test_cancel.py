"""A run that a person has ended: what the daemon tells whom, and what the launcher makes of it."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.daemon.launching import Launcher, members
from tests.unprivileged import as_unprivileged
from tests.waiting import wait_for

from runward.daemon.processes.cancelling import CANCEL, WORD, order_text, read_word
from runward.daemon.processes.ending_runs import EndNotOrdered, EndOrdered, tell_to_end
from runward.daemon.processes.proc import current_boot_id, identity_of, read_stat
from runward.daemon.rundir.run_directories import leave_word
from runward.handlers.model.processes import RecordedProcess, RunPlace
from runward.handlers.model.sessions import RunProcesses

DEAF = "trap '' TERM; sleep 1000 & echo > up; while :; do sleep 1000; done"


def word(said_by: str = "alice", reason: str = "wrong branch") -> bytes:
    return json.dumps({"said_by": said_by, "reason": reason}).encode()


def placed(directory: Path, content: bytes = word()) -> RunPlace:
    place = leave_word(str(directory), WORD, content)
    assert isinstance(place, RunPlace)
    return place


def recorded(pid: int) -> RecordedProcess:
    identity = identity_of(pid)
    return RecordedProcess(identity.pid, identity.start_ticks, identity.boot_id)


def named(launcher: Launcher, name: str) -> RunProcesses:
    """Whom the files of a run name, as the daemon reads them."""
    said = launcher.read(name, "run.json")["launcher"], launcher.read(name, "process.json")
    by, process = (
        RecordedProcess(int(str(each["pid"])), int(str(each["start_ticks"])), str(each["boot_id"]))
        for each in said
        if isinstance(each, dict)
    )
    return RunProcesses(by, process, os.uname().nodename)


def running(launcher: Launcher, *command: str, options: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    process = launcher.start("--name", "run", *options, "--", *command)
    pid = launcher.pid("run")
    first = command[0].rpartition("/")[2].encode()
    wait_for(lambda: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(first), "the command")
    return process


def test_a_launcher_that_is_told_ends_its_run_as_cancelled_by_whom_and_why(launcher: Launcher) -> None:
    process = running(launcher, "sleep", "1000")
    processes = named(launcher, "run")
    answer = tell_to_end(processes, placed(launcher.directory("run")))

    assert answer == EndOrdered(f"its launcher, process {process.pid}, was told")
    assert process.wait() == 143
    ending = launcher.ending("run")
    assert (ending["cause"], ending["signal"], ending["exit_code"]) == ("cancelled", None, None)
    assert ending["error"] == "cancelled by alice: wrong branch"


def test_a_cancelled_tree_that_ignores_it_is_dead_after_the_grace(launcher: Launcher) -> None:
    process = running(launcher, "sh", "-c", DEAF, options=("--grace", "300ms"))
    wait_for((launcher.work / "up").exists, "the trap")
    assert isinstance(tell_to_end(named(launcher, "run"), placed(launcher.directory("run"))), EndOrdered)

    assert process.wait() == 143
    assert launcher.ending("run")["cause"] == "cancelled"
    assert launcher.ending("run")["survivors_killed"], "what was asked in vain"
    assert members(str(launcher.directory("run"))) == []


def test_telling_again_changes_nothing(launcher: Launcher) -> None:
    report = "trap 'echo asked >> asked; sleep 1; exit 0' TERM; echo > up; while :; do sleep 0.01; done"
    process = running(launcher, "sh", "-c", report, options=("--grace", "20s"))
    wait_for((launcher.work / "up").exists, "the trap")
    processes, place = named(launcher, "run"), placed(launcher.directory("run"))
    for _ in range(5):
        tell_to_end(processes, place)
        wait_for(lambda: (launcher.work / "asked").exists(), "the request")

    assert process.wait() == 143
    assert (launcher.work / "asked").read_text() == "asked\n", "and nobody was killed: the grace is 20 s"
    assert launcher.ending("run")["survivors_killed"] == 0


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.mkdir(),
        lambda path: path.symlink_to("/etc/passwd"),
        lambda path: os.mkfifo(path),
        lambda path: path.write_bytes(b"[" * 100_000),
        lambda path: path.write_bytes(b'{"said_by": 7, "reason": null}'),
        lambda path: path.write_bytes(b"\xff" * 20_000),
    ],
    ids=["a directory", "a link", "a FIFO", "deep JSON", "no texts", "no text"],
)
def test_whatever_lies_there_instead_of_the_word_the_run_is_cancelled(
    launcher: Launcher, spoil: Callable[[Path], object]
) -> None:
    process = running(launcher, "sleep", "1000")
    spoil(launcher.directory("run") / WORD)
    status = launcher.directory("run").stat()
    answer = tell_to_end(named(launcher, "run"), RunPlace(status.st_uid, status.st_dev, status.st_ino))

    assert isinstance(answer, EndOrdered)
    assert process.wait() == 143
    ending = launcher.ending("run")
    assert (ending["cause"], ending["signal"], ending["error"]) == ("cancelled", None, None)


@pytest.mark.parametrize("reason", ["\\ud800", "\\u0000" * 2000, "\\ud83d\\ude00" * 1000])
def test_a_word_that_is_hard_to_write_down_does_not_keep_the_end_from_being_recorded(
    launcher: Launcher, reason: str
) -> None:
    process = running(launcher, "sleep", "1000")
    place = placed(launcher.directory("run"), f'{{"said_by": "x", "reason": "{reason}"}}'.encode())

    assert isinstance(tell_to_end(named(launcher, "run"), place), EndOrdered)
    assert process.wait() == 143
    assert launcher.ending("run")["cause"] == "cancelled"
    assert str(launcher.ending("run")["error"]).startswith("cancelled by x: ")
    assert (launcher.directory("run") / "exit.json").stat().st_size <= 4096


def test_the_command_can_not_cancel_its_own_run(launcher: Launcher) -> None:
    script = f"import os; os.kill(os.getppid(), {CANCEL}); print('on')"
    result = launcher.run("--name", "run", "--", sys.executable, "-c", script)

    assert (result.returncode, result.stdout) == (0, b"on\n")
    assert launcher.ending("run")["cause"] == "exited"


def test_where_the_launcher_is_gone_its_command_is_told_by_sigterm(launcher: Launcher) -> None:
    process = running(launcher, "sleep", "1000")
    processes = named(launcher, "run")
    process.kill()
    process.wait()

    assert processes.process is not None
    answer = tell_to_end(processes, placed(launcher.directory("run")))
    assert answer == EndOrdered(f"its process, process {processes.process.pid}, was told")
    wait_for(lambda: members(str(launcher.directory("run"))) == [], "the end of the command")
    assert isinstance(tell_to_end(processes, placed(launcher.directory("run"))), EndNotOrdered)


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that works in the directory of the run that names it."""
    with subprocess.Popen(["sleep", "1000"], cwd=tmp_path) as process:
        yield process
        process.kill()


def test_a_process_of_another_start_or_boot_is_never_told(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    theirs, place = recorded(sleeper.pid), placed(tmp_path)
    for other in (
        theirs._replace(start_ticks=theirs.start_ticks + 1),
        theirs._replace(boot_id="of-yesterday"),
    ):
        answer = tell_to_end(RunProcesses(other, other), place)
        assert isinstance(answer, EndNotOrdered)
        assert answer.why.count("is gone") == 2
    assert sleeper.poll() is None


def test_a_process_of_another_user_than_the_directory_is_never_told(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    place = placed(tmp_path)
    answer = tell_to_end(RunProcesses(None, recorded(sleeper.pid)), place._replace(owner=place.owner + 1))
    assert isinstance(answer, EndNotOrdered)
    assert "belongs to user" in answer.why
    assert sleeper.poll() is None


def test_a_process_that_does_not_say_itself_that_it_is_of_the_run_is_not_told(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    answer = tell_to_end(RunProcesses(None, recorded(sleeper.pid)), placed(trap))
    assert isinstance(answer, EndNotOrdered)
    assert "only by the run's files" in answer.why
    assert sleeper.poll() is None
    by_the_launcher = RunProcesses(None, recorded(sleeper.pid), is_recorded=True)
    assert isinstance(tell_to_end(by_the_launcher, placed(trap)), EndOrdered)


def test_a_thread_is_nobody_who_could_be_told_and_is_not_tried_again(tmp_path: Path) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    assert thread.native_id is not None
    boot = current_boot_id()
    ticks = read_stat(thread.native_id).start_ticks
    answer = tell_to_end(RunProcesses(None, RecordedProcess(thread.native_id, ticks, boot)), placed(tmp_path))
    stop.set()
    assert isinstance(answer, EndNotOrdered)
    assert "is the number of a thread" in answer.why


def test_the_daemon_itself_and_init_are_nobodys_run(tmp_path: Path) -> None:
    for pid in (os.getpid(), 1):
        answer = tell_to_end(RunProcesses(None, recorded(pid)), placed(tmp_path))
        assert isinstance(answer, EndNotOrdered)
        assert "is not a run's" in answer.why


def test_a_directory_that_names_another_runs_launcher_cannot_have_it_told(
    launcher: Launcher, tmp_path: Path
) -> None:
    process = running(launcher, "sleep", "1000")
    trap = tmp_path / "trap"
    trap.mkdir()
    answer = tell_to_end(named(launcher, "run"), placed(trap))

    assert isinstance(answer, EndNotOrdered)
    assert ("is the launcher of another run" if os.getuid() == 0 else "hides its files") in answer.why
    assert process.poll() is None
    assert not (launcher.directory("run") / "exit.json").exists()


HIDDEN = """
import encodings.ascii  # Python may be in a home that the other user can't read
import os, select, signal, sys
from runward.daemon.processes.cancelling import CANCEL
from runward.daemon.processes.ending_runs import EndOrdered, tell_to_end
from runward.daemon.processes.kernel import hide_memory, open_signal_descriptor
from runward.daemon.processes.proc import identity_of
from runward.handlers.model.processes import RecordedProcess, RunPlace
from runward.handlers.model.sessions import RunProcesses

if os.getuid() == 0:
    os.chown(sys.argv[1], 65534, 65534)
status = os.stat(sys.argv[1])
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
signal.pthread_sigmask(signal.SIG_BLOCK, {CANCEL})
is_hidden, hidden = os.pipe()
pid = os.fork()
if not pid:
    hide_memory()
    os.write(hidden, b".")
    os._exit(0 if select.select([open_signal_descriptor({CANCEL})], [], [], 20)[0] else 1)
os.read(is_hidden, 1)
identity = identity_of(pid)
launcher = RecordedProcess(identity.pid, identity.start_ticks, identity.boot_id)
processes = RunProcesses(launcher, None, is_recorded=True)
print(isinstance(tell_to_end(processes, RunPlace(status.st_uid, status.st_dev, status.st_ino)), EndOrdered))
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_launcher_that_hides_its_memory_is_told_by_an_ordinary_users_daemon(tmp_path: Path) -> None:
    """The kernel hides the open files of such a process, also from its own user."""
    told = subprocess.run(
        [sys.executable, "-c", HIDDEN, str(tmp_path)],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == ["True", "0"]


def test_a_launcher_that_only_its_runs_files_name_is_told_by_an_ordinary_users_daemon(
    ordinary: Launcher, tmp_path: Path
) -> None:
    """After a restore of an older store, for example."""
    process = running(ordinary, "sleep", "1000")
    trap = tmp_path / "trap"
    trap.mkdir()
    status = trap.stat()
    processes, owner = named(ordinary, "run"), ordinary.work.stat().st_uid
    of_another_run = RunPlace(owner, status.st_dev, status.st_ino)
    place = placed(ordinary.directory("run"))

    def answers() -> list[str]:
        return [str(tell_to_end(processes, each)) for each in (of_another_run, place)]

    refusal, answer = as_unprivileged(answers) if os.getuid() == 0 else answers()
    assert "EndNotOrdered" in refusal
    assert "nothing else shows that it is this run's launcher" in refusal
    # Where the fixture's first words are another program, that program becomes the launcher.
    assert answer == str(EndOrdered(f"its launcher, process {process.pid}, was told"))
    assert process.wait() == 143


def test_a_stopped_process_is_told_and_ends(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.send_signal(signal.SIGSTOP)
    assert isinstance(tell_to_end(RunProcesses(None, recorded(sleeper.pid)), placed(tmp_path)), EndOrdered)
    assert sleeper.wait(30) == -signal.SIGTERM


def test_where_nobody_is_named_nobody_is_told(tmp_path: Path) -> None:
    assert tell_to_end(RunProcesses(), placed(tmp_path)) == EndNotOrdered("its files name no process")


def test_a_word_is_left_for_its_owner_alone_and_in_place_of_what_was_there(tmp_path: Path) -> None:
    (tmp_path / WORD).symlink_to("/etc/passwd")
    assert placed(tmp_path, word("bob", "")).problem is None
    assert (tmp_path / WORD).stat().st_mode & 0o777 == 0o600
    descriptor = os.open(tmp_path, os.O_RDONLY)
    assert read_word(descriptor) == "cancelled by bob"
    os.close(descriptor)
    assert [each.name for each in tmp_path.iterdir()] == [WORD], "and nothing is left beside it"


def test_a_word_that_can_not_be_left_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / WORD).mkdir()
    place = placed(tmp_path)
    assert place.problem == "Is a directory"
    assert [each.name for each in tmp_path.iterdir()] == [WORD]


def test_an_order_is_never_taken_for_a_shutdown_and_never_long() -> None:
    assert order_text("alice", "shutdown") == "cancelled by alice: shutdown"
    assert len(order_text("alice", "x" * 100_000)) == 600


def test_a_sigterm_while_the_system_stops_is_the_systems(launcher: Launcher) -> None:
    _systemctl_says(launcher, "echo stopping; exit 1")
    process = running(launcher, "sleep", "1000")
    process.terminate()

    assert process.wait() == 143
    ending = launcher.ending("run")
    assert (ending["cause"], ending["signal"], ending["error"]) == ("cancelled", None, "shutdown")


def test_a_command_that_the_system_ends_before_its_launcher_is_the_systems_too(launcher: Launcher) -> None:
    _systemctl_says(launcher, "echo stopping; exit 1")
    result = launcher.run("--name", "run", "--", "sh", "-c", "kill -TERM $$")

    assert result.returncode == 143
    ending = launcher.ending("run")
    assert (ending["cause"], ending["signal"], ending["error"]) == ("cancelled", None, "shutdown")


@pytest.mark.parametrize("answer", ["echo running", "echo offline; exit 1", "exit 1", "sleep 1000"])
def test_any_other_answer_leaves_it_a_sigterm(launcher: Launcher, answer: str) -> None:
    _systemctl_says(launcher, answer)
    process = running(launcher, "sleep", "1000")
    process.terminate()

    assert process.wait() == 143
    ending = launcher.ending("run")
    assert (ending["cause"], ending["signal"], ending["error"]) == ("cancelled", signal.SIGTERM, None)


def _systemctl_says(launcher: Launcher, script: str) -> None:
    programs = launcher.work / "programs"
    programs.mkdir()
    (programs / "systemctl").write_text(f"#!/bin/sh\nexec sh -c '{script}'\n")
    (programs / "systemctl").chmod(0o755)
    launcher.environment["PATH"] = f"{programs}:{launcher.environment['PATH']}"
