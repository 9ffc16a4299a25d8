"""A launch from beginning to end: given this command, then this exit code and these files."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.daemon.launch.killed_at_a_step import program
from tests.daemon.launching import Launcher, is_alive, members
from tests.waiting import wait_for

from runward.daemon.launch.launch import child_traceparent
from runward.daemon.processes.proc import ProcessIdentity, state_of


def test_a_command_that_ends_well_leaves_its_whole_record(launcher: Launcher) -> None:
    result = launcher.run("--name", "good", "--timeout", "1min", "--", "sh", "-c", "echo out; echo err >&2")

    assert result.returncode == 0
    assert launcher.ending("good") == {
        "exit_code": 0,
        "signal": None,
        "cause": "exited",
        "error": None,
        "finished_at": launcher.ending("good")["finished_at"],
        "duration_s": launcher.ending("good")["duration_s"],
        "survivors_killed": 0,
        "secret": launcher.ending("good")["secret"],
    }
    run = launcher.read("good", "run.json")
    assert run["schema"] == "runward-run-v1"
    assert run["session_id"] == "good"
    assert run["kind"] == "agent"
    assert run["command"] == ["sh", "-c", "echo out; echo err >&2"]
    assert run["artifacts_path"] == "artifacts"
    assert run["timeout"] == 60.0
    assert run["contract"] is None
    assert run["playbook"] is None
    assert run["agent"] is None
    assert isinstance(run["metadata"], dict)
    assert list(run["metadata"]) == ["traceparent"]
    assert run["host"] == os.uname().nodename
    assert str(run["started_at"]) < str(launcher.ending("good")["finished_at"])


def test_everything_in_a_run_directory_is_its_owners_alone(launcher: Launcher) -> None:
    launcher.run("--name", "private", "--", "true")

    directory = launcher.directory("private")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (directory, *directory.iterdir())}
    assert modes == {
        "private": 0o700,
        "artifacts": 0o700,
        "run.json": 0o600,
        "process.json": 0o600,
        "exit.json": 0o600,
        "stdout.log": 0o600,
        "stderr.log": 0o600,
    }
    assert stat.S_IMODE(launcher.state.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("command", "code", "ending"),
    [
        (["sh", "-c", "exit 3"], 3, {"cause": "exited", "exit_code": 3, "signal": None}),
        (["sh", "-c", "kill -TERM $$"], 143, {"cause": "signalled", "exit_code": None, "signal": 15}),
        (["sh", "-c", "kill -KILL $$"], 137, {"cause": "signalled", "exit_code": None, "signal": 9}),
        (["no-such-program"], 127, {"cause": "not_started", "exit_code": 127, "signal": None}),
        (["./no/such/file"], 127, {"cause": "not_started", "exit_code": 127, "signal": None}),
        (["/etc/passwd"], 126, {"cause": "not_started", "exit_code": 126, "signal": None}),
        (["/"], 126, {"cause": "not_started", "exit_code": 126, "signal": None}),
    ],
)
def test_the_launcher_ends_as_a_shell_would_and_writes_down_why(
    launcher: Launcher, command: list[str], code: int, ending: dict[str, object]
) -> None:
    result = launcher.run("--name", "run", "--", *command)

    assert result.returncode == code
    assert ending.items() <= launcher.ending("run").items()


def test_a_command_that_is_not_there_is_named_on_stderr_and_in_the_record(launcher: Launcher) -> None:
    result = launcher.run("--name", "absent", "--", "no-such-program")

    assert result.stderr == b"runward run: no-such-program: command not found\n"
    assert launcher.ending("absent")["error"] == "no-such-program: command not found"
    assert (launcher.directory("absent") / "process.json").exists()


def test_a_script_without_an_interpreter_line_is_run_by_the_shell(launcher: Launcher) -> None:
    script = launcher.work / "script"
    script.write_text("echo by the shell: $1\n")
    script.chmod(0o755)

    assert launcher.run("--", "./script", "word").stdout == b"by the shell: word\n"


def test_the_command_keeps_directory_and_stdin_and_learns_of_its_session(launcher: Launcher) -> None:
    show = 'pwd; cat; echo "$RUNWARD_SESSION_ID|$RUNWARD_RUN_DIR|$RUNWARD_ARTIFACTS_DIR"'
    result = launcher.run("--name", "told", "--", "sh", "-c", show, stdin=b"typed\n")

    directory = launcher.directory("told")
    expected = f"{launcher.work}\ntyped\ntold|{directory}|{directory}/artifacts\n"
    assert result.stdout.decode() == expected


def test_the_command_has_the_class_and_the_priority_of_the_caller(launcher: Launcher) -> None:
    usual = (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))
    show = "import os; print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))"

    said = launcher.run("--", launcher.python, "-c", show).stdout.split()

    assert tuple(map(int, said)) == usual


def test_the_command_continues_the_callers_trace_as_a_span_of_its_own(launcher: Launcher) -> None:
    launcher.environment["TRACEPARENT"] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

    version, trace, span, flags = (
        launcher.run("--", "printenv", "TRACEPARENT").stdout.decode().strip().split("-")
    )

    assert (version, trace, flags) == ("00", "0af7651916cd43dd8448eb211c80319c", "00")
    assert len(span) == 16
    assert span != "b7ad6b7169203331"


def test_the_command_begins_a_trace_where_the_caller_has_none(launcher: Launcher) -> None:
    launcher.environment["TRACEPARENT"] = "nonsense"

    version, trace, span, _ = launcher.run("--", "printenv", "TRACEPARENT").stdout.decode().strip().split("-")

    assert (version, len(trace), len(span)) == ("00", 32, 16)


@pytest.mark.parametrize(
    "parent",
    [
        None,
        "",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-00",
        "00-00000000000000000000000000000000-b7ad6b7169203331-00",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333-000",
    ],
)
def test_what_is_no_trace_is_not_continued(parent: str | None) -> None:
    version, trace, span, flags = child_traceparent(parent).split("-")

    assert (version, len(trace), len(span), flags) == ("00", 32, 16, "01")
    assert trace not in (parent or "").lower()


def test_the_trace_and_what_else_the_command_was_told_is_kept_in_the_record(launcher: Launcher) -> None:
    told = launcher.run("--name", "kept", "--", "printenv", "TRACEPARENT").stdout.decode().strip()
    run = launcher.read("kept", "run.json")

    assert run["metadata"] == {"traceparent": told}
    assert (run["session_id"], run["artifacts_path"]) == ("kept", "artifacts")


def test_the_command_finds_signals_as_a_program_expects_them(launcher: Launcher) -> None:
    lines = launcher.run("--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status").stdout.split()

    assert int(lines[1], 16) == 0, "no signal is blocked"
    ours = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("SigIgn")
    )
    inherited = int(ours.split()[1], 16)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores by itself
        inherited &= ~(1 << (number - 1))
    assert int(lines[3], 16) & ~inherited == 0, "none is ignored but what our caller ignores, SIGPIPE neither"


def test_the_command_holds_no_descriptor_but_its_three(launcher: Launcher) -> None:
    result = launcher.run("--", "ls", "/proc/self/fd")

    assert result.stdout.split() == [b"0", b"1", b"2", b"3"], "3 is the directory that ls itself reads"


def test_artifacts_may_lie_elsewhere(launcher: Launcher) -> None:
    result = launcher.run(
        "--name", "far", "--artifacts", "../else/where", "--", "printenv", "RUNWARD_ARTIFACTS_DIR"
    )

    place = launcher.work.parent / "else" / "where"
    assert result.stdout.decode() == f"{place}\n"
    assert launcher.read("far", "run.json")["artifacts_path"] == str(place)
    assert place.is_dir()
    assert not (launcher.directory("far") / "artifacts").exists()


def test_words_that_are_no_utf_8_reach_the_command_and_are_readable_in_the_record(launcher: Launcher) -> None:
    result = launcher.run("--name", "bytes", "--", "printf", "%s", os.fsdecode(b"caf\xe9"))

    assert result.stdout == b"caf\xe9"
    assert launcher.read("bytes", "run.json")["command"] == ["printf", "%s", "caf�"]


def test_the_record_names_command_and_launcher_while_they_run(launcher: Launcher) -> None:
    process = launcher.start("--name", "running", "--", "sleep", "100")
    pid = launcher.pid("running")

    recorded = launcher.read("running", "process.json")
    assert (
        state_of(ProcessIdentity(pid, int(str(recorded["start_ticks"])), str(recorded["boot_id"]))) == "alive"
    )
    wait_for(lambda: Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x00100\x00", "the command's start")
    by = launcher.read("running", "run.json")["launcher"]
    assert isinstance(by, dict)
    assert (by["pid"], by["uid"]) == (process.pid, os.getuid())
    assert not (launcher.directory("running") / "exit.json").exists()


def test_a_killed_launcher_leaves_a_record_that_names_the_command(launcher: Launcher) -> None:
    process = launcher.start("--name", "orphan", "--containment", "subreaper", "--", "sleep", "100")
    pid = launcher.pid("orphan")
    wait_for(lambda: Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x00100\x00", "the command's start")
    process.kill()
    process.wait()

    assert not (launcher.directory("orphan") / "exit.json").exists()
    assert is_alive(pid)
    recorded = launcher.read("orphan", "process.json")
    identity = ProcessIdentity(pid, int(str(recorded["start_ticks"])), str(recorded["boot_id"]))
    assert state_of(identity) == "alive"
    os.kill(pid, 9)
    wait_for(lambda: state_of(identity) == "gone", "its end")


def test_no_command_runs_before_it_is_written_down(launcher: Launcher) -> None:
    look = 'cat "$RUNWARD_RUN_DIR/run.json" "$RUNWARD_RUN_DIR/process.json"; echo $$'
    result = launcher.run("--name", "order", "--", "sh", "-c", look)

    assert result.returncode == 0
    assert result.stdout.decode().splitlines()[-1] == str(launcher.pid("order"))


def test_a_name_that_is_taken_is_refused_and_nothing_is_touched(launcher: Launcher) -> None:
    launcher.run("--name", "twice", "--", "true")
    before = launcher.ending("twice")

    result = launcher.run("--name", "twice", "--", "touch", "ran")

    assert result.returncode == 2
    assert b"the name twice is already used" in result.stderr
    assert launcher.ending("twice") == before
    assert not (launcher.work / "ran").exists()


def test_runs_without_a_name_get_one_of_time_and_chance(launcher: Launcher) -> None:
    for _ in range(2):
        launcher.run("--", "true")

    first, second = sorted(path.name for path in (launcher.state / "runs").iterdir())
    assert first != second
    assert len(first) == len("20261121T101530Z-1a2b3c")
    assert first[8] == "T"
    assert first[15:17] == "Z-"


def test_what_the_command_puts_in_the_way_does_not_keep_exit_json_out(launcher: Launcher) -> None:
    hinder = 'cd "$RUNWARD_RUN_DIR"; rm -f .exit*; mkdir exit.json; touch exit.json/x; chmod 500 .; exit 4'

    assert launcher.run("--name", "hindered", "--", "sh", "-c", hinder).returncode == 4
    assert launcher.ending("hindered")["exit_code"] == 4


def test_a_link_in_place_of_the_record_leads_no_write_elsewhere(launcher: Launcher) -> None:
    target = launcher.work / "precious"
    target.write_text("mine")
    lure = f'cd "$RUNWARD_RUN_DIR"; ln -s {target} exit.json; for f in .exit*; do ln -sf {target} $f; done'

    launcher.run("--name", "lured", "--", "sh", "-c", lure)

    assert target.read_text() == "mine"
    assert not (launcher.directory("lured") / "exit.json").is_symlink()
    assert launcher.ending("lured")["exit_code"] == 0


def test_a_run_directory_that_is_gone_at_the_end_is_reported(launcher: Launcher) -> None:
    result = launcher.run("--name", "vanished", "--", "sh", "-c", 'rm -r "$RUNWARD_RUN_DIR"; exit 5')

    assert result.returncode == 5
    assert b"exit.json can't be written" in result.stderr


def test_a_root_that_cannot_be_written_starts_nothing(launcher: Launcher) -> None:
    launcher.state.write_text("a file where a directory is needed")

    result = launcher.run("--", "touch", "ran")

    assert result.returncode == 126
    assert b"no run directory can be created" in result.stderr
    assert not (launcher.work / "ran").exists()


def test_an_end_leaves_no_process(launcher: Launcher) -> None:
    launcher.run("--name", "clean", "--", "true")

    assert members(str(launcher.directory("clean"))) == []


SPY = """
import os, stat, sys
calls = []
rename, fsync, write = os.rename, os.fsync, os.write
def note_rename(source, target, **where):
    calls.append(target)
    rename(source, target, **where)
def note_fsync(descriptor):
    calls.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
    fsync(descriptor)
    if "start" in calls:
        open("synced", "w").close()
def note_write(descriptor, content):
    if bytes(content) == b"!":
        calls.append("start")
    return write(descriptor, content)
os.rename, os.fsync, os.write = note_rename, note_fsync, note_write
"""

BY_HAND = """
from runward.daemon.cli.run_launch import main
code = main(["--", "true"])
print(*calls)
"""

ORDERED = """
from runward.daemon.launch import supervision
from runward.daemon.launch.launch import Order, launch
class Daemon:
    def announce(self, record):
        calls.append("announced")
        return IS_RECORDED
    def ended(self):
        calls.append("told")
        return True
supervision._SETTLED_S = SETTLED_S
order = Order(command=COMMAND, root=os.getcwd(), state=os.environ["RUNWARD_STATE_DIR"])
launch(order, os.environ, before_release=lambda is_recorded: calls.append("mark"), channel=Daemon())
print(*calls)
"""
UNTIL_SYNCED = '("sh", "-c", "until [ -e synced ]; do sleep 0.01; done")'


def steps_of(launcher: Launcher, program: str) -> list[str]:
    """What a launch syncs, renames, says and lets go, in order."""
    result = subprocess.run(
        [sys.executable, "-c", SPY + program],
        env=launcher.environment,
        cwd=launcher.work,
        capture_output=True,
        check=True,
    )
    return ["launch" if each.startswith("launch-") else each for each in result.stdout.decode().split()]


def test_a_launch_that_the_daemon_recorded_waits_for_no_process_json(launcher: Launcher) -> None:
    begin = ["directory", "file", "run.json", "directory", "process.json", "announced", "mark", "start"]
    settled = ["file", "directory"]
    end = ["exit.json", "told", "file", "directory"]
    # What lasts for so long that it is made durable is not for this machine's speed to say.
    short = f"IS_RECORDED, SETTLED_S = True, 1000.0{ORDERED}".replace("COMMAND", '("true",)')
    assert steps_of(launcher, short) == [*begin, *end, *settled]
    longer = f"IS_RECORDED, SETTLED_S = True, 0.0{ORDERED}".replace("COMMAND", UNTIL_SYNCED)
    assert steps_of(launcher, longer) == [*begin, *settled, *end], "what lasts is made durable meanwhile"


def test_a_launch_that_nobody_recorded_is_durable_before_its_command_is_released(launcher: Launcher) -> None:
    program = f"IS_RECORDED, SETTLED_S = False, 1000.0{ORDERED}".replace("COMMAND", '("true",)')
    assert steps_of(launcher, program) == [
        *("directory", "file", "run.json", "directory", "process.json", "announced"),
        *("file", "directory"),
        *("file", "launch", "directory", "mark", "start"),
        *("file", "launch", "directory"),
        *("file", "exit.json", "directory"),
    ]


def test_the_command_starts_only_when_its_record_is_durable(launcher: Launcher) -> None:
    assert steps_of(launcher, BY_HAND) == [
        *("directory", "file", "launch", "directory"),
        *("file", "run.json", "directory"),
        *("file", "process.json", "directory", "start"),
        *("file", "launch", "directory"),
        *("file", "exit.json", "directory"),
    ]


def test_a_full_disk_does_not_keep_the_end_from_being_recorded(launcher: Launcher) -> None:
    disk = launcher.work / "disk"
    disk.mkdir()
    fill = 'yes > "$RUNWARD_ARTIFACTS_DIR/fill"; exit 3'
    words = launcher.shell_words("--name", "full", "--", "sh", "-c", fill)
    script = f"mount -t tmpfs -o size=256k tmpfs {disk} && {words} >&2; echo $?; df --output=avail {disk} | tail -1"
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{script}; cat {disk}/runs/full/exit.json"],
        env=launcher.environment | {"RUNWARD_STATE_DIR": str(disk)},
        cwd=launcher.work,
        capture_output=True,
        check=False,
    )
    if b"unshare" in result.stderr:
        pytest.skip(f"no file system can be mounted here: {result.stderr.decode().strip()}")

    code, available, *ending = result.stdout.decode().splitlines()
    assert (code, available.strip()) == ("3", "0")
    assert json.loads("\n".join(ending))["exit_code"] == 3


KILLED = program(
    "runward.daemon.cli.run_launch", ("mkdir", "open", "write", "fsync", "rename", "fork"), "sys.argv[1:]"
)


def test_a_launcher_killed_at_any_step_leaves_nothing_half_done(launcher: Launcher) -> None:
    seen = []
    for step in range(1, 1000):
        words = [sys.executable, "-c", KILLED, str(step), "--name", f"run{step}"]
        words += ["--containment", "subreaper", "--", "touch", f"ran{step}"]
        code = subprocess.run(words, env=launcher.environment, cwd=launcher.work, check=False).returncode
        directory = launcher.directory(f"run{step}")
        if (directory / "process.json").exists():
            pid = launcher.pid(f"run{step}")
            wait_for(lambda pid=pid: not is_alive(pid), "the command's end")  # type: ignore[misc]  # bound at once
        files = {path.name for path in directory.iterdir()} if directory.exists() else set()
        whole = [name for name in ("run.json", "process.json", "exit.json") if name in files]
        assert all(launcher.read(f"run{step}", name) for name in whole)
        assert whole == ["run.json", "process.json", "exit.json"][: len(whole)], "in this order"
        if (launcher.work / f"ran{step}").exists():
            assert whole[:2] == ["run.json", "process.json"]
        seen.append(len(whole))
        if code == 0:
            break
    assert set(seen) == {0, 1, 2, 3}
    assert code == 0
