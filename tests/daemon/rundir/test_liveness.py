"""Who writes a session, by real pid files and real locks."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.daemon.writers import held, kill
from tests.handlers.layouts import cline_lines
from tests.waiting import wait_for

from runward.config.json_value import JsonValue
from runward.daemon.processes import kernels_locks
from runward.daemon.processes.proc import identity_of
from runward.daemon.processes.whereabouts import NotThere
from runward.daemon.rundir import liveness
from runward.daemon.rundir.liveness import Writers
from runward.daemon.world.processes import RealProcesses
from runward.handlers.model.processes import FIRST_NAMESPACE, NO_TICKS, RecordedProcess
from runward.handlers.sessions.over import Absence, Writer

_LEAVE_TO_A_CHILD = """
import fcntl, os, sys
file = open(sys.argv[1])
fcntl.flock(file, fcntl.LOCK_EX)
gone, going = os.pipe()
if os.fork():
    os._exit(0)
os.close(going)
os.read(gone, 1)
print("held", flush=True)
sys.stdin.read()
"""
THREAD = "01a1fd0a-53a7-7c50-98f9-4e09b80d7c4f"


def recorded(pid: int) -> RecordedProcess:
    it = identity_of(pid)
    return RecordedProcess(it.pid, it.start_ticks, it.boot_id)


class Claude:
    """A directory of Claude Code's with one transcript."""

    def __init__(self, config: Path) -> None:
        self.sessions = config / "sessions"
        self.sessions.mkdir()
        self.transcript = config / "projects/-home-dev-app/s.jsonl"

    def pid_file(self, pid: int, **further: JsonValue) -> None:
        ticks = str(identity_of(pid).start_ticks) if "procStart" not in further else None
        said = {"pid": pid, "sessionId": "s", "procStart": ticks, **further}
        (self.sessions / f"{pid}.json").write_text(json.dumps(said))

    def liveness(self, session_id: str = "s") -> str:
        return Writers().writer("claude-code", str(self.transcript), session_id).liveness


@pytest.fixture
def claude(tmp_path: Path) -> Claude:
    return Claude(tmp_path)


def test_a_pid_file_whose_process_lives_says_so_until_it_is_killed(
    claude: Claude, process: subprocess.Popen[bytes]
) -> None:
    claude.pid_file(process.pid)
    assert claude.liveness() == "alive"
    assert claude.liveness("another session") == "unknown"
    kill(process)
    assert claude.liveness() == "gone"


def test_another_process_under_the_same_number_is_not_the_sessions(
    claude: Claude, process: subprocess.Popen[bytes]
) -> None:
    claude.pid_file(process.pid, procStart="1")
    assert claude.liveness() == "gone"


def test_a_pid_file_without_a_start_time_only_tells_that_nobody_is_there(
    claude: Claude, process: subprocess.Popen[bytes]
) -> None:
    claude.pid_file(process.pid, procStart=None)
    assert claude.liveness() == "unknown"
    kill(process)
    assert claude.liveness() == "gone"


@pytest.mark.parametrize(
    ("later", "state"), [(0.0, "alive"), (5.0, "alive"), (-3600.0, "unknown"), (3600.0, "unknown")]
)
def test_a_pid_file_without_a_start_time_names_the_process_that_started_when_it_says(
    claude: Claude, process: subprocess.Popen[bytes], later: float, state: str
) -> None:
    """The next start of Claude Code sweeps it: who the process was has to be known before."""
    claude.pid_file(process.pid, procStart=None, startedAt=int((time.time() + later) * 1000))
    found = Writers().writer("claude-code", str(claude.transcript), "s")
    assert (found.liveness, found.process) == (state, recorded(process.pid) if state == "alive" else None)
    kill(process)
    assert claude.liveness() == "gone"


def test_a_session_that_was_resumed_lives_beside_the_pid_file_of_a_killed_process(
    claude: Claude, process: subprocess.Popen[bytes]
) -> None:
    killed = subprocess.Popen(["sleep", "60"])
    claude.pid_file(killed.pid)
    kill(killed)
    claude.pid_file(process.pid)
    assert claude.liveness() == "alive"


def test_a_living_process_may_say_that_it_waits_for_a_person(
    claude: Claude, process: subprocess.Popen[bytes]
) -> None:
    claude.pid_file(process.pid, status="waiting", waitingFor="permission prompt")
    who = recorded(process.pid)
    assert Writers().writer("claude-code", str(claude.transcript), "s") == Writer(
        "alive", "waiting", who, asks="permission prompt"
    )
    kill(process)
    gone = Writers().writer("claude-code", str(claude.transcript), "s")
    assert gone._replace(absence=None) == Writer("gone", None, who)


@pytest.mark.parametrize("ticks", ["as it is", None])
def test_what_this_machine_can_say_about_a_missing_process_is_reported_with_it(
    claude: Claude, process: subprocess.Popen[bytes], ticks: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = recorded(process.pid)
    if ticks is None:
        claude.pid_file(process.pid, procStart=None)
        named = named._replace(start_ticks=NO_TICKS)
    else:
        claude.pid_file(process.pid)
    kill(process)
    writers = Writers()
    monkeypatch.setattr(liveness, "pid_namespace", lambda: FIRST_NAMESPACE)
    monkeypatch.setattr(liveness, "is_local", lambda path: path == str(claude.sessions.parent))
    everything = Absence((named,), is_in_first_namespace=True, is_local=True, is_nowhere=True)
    assert claude_writer(claude, writers).absence == everything
    monkeypatch.setattr(liveness, "pid_namespace", lambda: FIRST_NAMESPACE - 1)
    assert claude_writer(claude, writers).absence == everything._replace(is_in_first_namespace=False)
    monkeypatch.setattr(liveness, "pid_namespace", lambda: FIRST_NAMESPACE)
    monkeypatch.setattr(liveness, "is_local", lambda path: False)
    assert claude_writer(claude, writers).absence == everything._replace(is_local=False)
    monkeypatch.setattr(liveness, "is_local", lambda path: True)
    monkeypatch.setattr(liveness, "number_of", lambda inner, ticks: NotThere(is_certain=False))
    assert claude_writer(claude, writers).absence == everything._replace(is_nowhere=False)


def claude_writer(claude: Claude, writers: Writers) -> Writer:
    return writers.writer("claude-code", str(claude.transcript), "s")


def test_every_process_that_a_sessions_files_name_is_reported_as_missing(claude: Claude) -> None:
    killed = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    named = {recorded(each.pid) for each in killed}
    for each in killed:
        claude.pid_file(each.pid)
        kill(each)
    absence = claude_writer(claude, Writers()).absence
    assert absence is not None
    assert set(absence.named) == named


def test_a_free_lock_says_nothing_of_other_machines_that_share_the_home(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_local in (True, False):
        monkeypatch.setattr(liveness, "is_local", lambda path, answer=is_local: answer)
        absence = liveness.codex_writer(str(tmp_path), THREAD).absence
        assert absence is not None
        assert absence.proves_death(grew_elsewhere=False) == is_local


@pytest.mark.parametrize(
    ("said", "status"), [("busy", "busy"), ("idle", "idle"), ("asleep", None), (7, None)]
)
def test_what_a_program_says_of_itself_is_told_where_it_is_known(
    claude: Claude, process: subprocess.Popen[bytes], said: JsonValue, status: str | None
) -> None:
    claude.pid_file(process.pid, status=said)
    assert Writers().writer("claude-code", str(claude.transcript), "s").status == status


def test_of_several_pid_files_that_of_the_living_process_speaks(
    claude: Claude, process: subprocess.Popen[bytes]
) -> None:
    killed = subprocess.Popen(["sleep", "60"])
    claude.pid_file(killed.pid, status="waiting")
    claude.pid_file(process.pid, status="idle")
    kill(killed)
    writer = Writers().writer("claude-code", str(claude.transcript), "s")
    assert writer == Writer("alive", "idle", recorded(process.pid))


def test_a_process_that_names_another_session_is_reported_to_the_one_that_it_left(
    claude: Claude, process: subprocess.Popen[bytes]
) -> None:
    claude.pid_file(process.pid)
    assert claude_writer(claude, Writers()).elsewhere == frozenset()
    claude.pid_file(process.pid, sessionId="after /clear")
    assert claude_writer(claude, Writers()) == Writer("unknown", elsewhere=frozenset({recorded(process.pid)}))


def test_without_a_pid_file_nobody_knows(claude: Claude) -> None:
    assert claude.liveness() == "unknown"
    claude.sessions.rmdir()
    assert claude.liveness() == "unknown"


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"sessionId": "s"}', '{"sessionId": "s", "pid": "x"}', '{"sessionId": "s", "pid": 0}'],
)
def test_a_half_written_pid_file_says_nothing(claude: Claude, content: str) -> None:
    (claude.sessions / "77.json").write_text(content)
    assert claude.liveness() == "unknown"


def test_only_files_that_are_named_by_a_number_are_pid_files(
    claude: Claude, process: subprocess.Popen[bytes]
) -> None:
    claude.pid_file(process.pid)
    (claude.sessions / f"{process.pid}.json").rename(claude.sessions / "elsewhere")
    (claude.sessions / f"{process.pid}.json").symlink_to("elsewhere")
    (claude.sessions / "notes.json").hardlink_to(claude.sessions / "elsewhere")
    assert claude.liveness() == "unknown"


def test_a_pid_file_under_another_number_is_nobodys(claude: Claude, process: subprocess.Popen[bytes]) -> None:
    claude.pid_file(process.pid)
    (claude.sessions / f"{process.pid}.json").rename(claude.sessions / f"{process.pid + 1}.json")
    assert claude.liveness() == "unknown"


@contextmanager
def running(program: Path, **environment: str) -> Iterator[RecordedProcess]:
    """A process of this program, which waits, in a launched run."""
    program.parent.mkdir(exist_ok=True)
    shutil.copy("/bin/sleep", program)
    started = subprocess.Popen([program, "100"], env={"RUNWARD_SESSION_ID": "night", **environment})
    try:
        environ, words = (Path(f"/proc/{started.pid}/{each}") for each in ("environ", "cmdline"))
        wait_for(lambda: b"night" in environ.read_bytes() and words.read_bytes(), "the program")
        yield recorded(started.pid)
    finally:
        kill(started)


@pytest.mark.parametrize(
    ("name", "variable", "directory", "launcher"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", ".", "night"),
        ("claude", "CLAUDE_CONFIG_DIR", "elsewhere", None),
        ("claude", "HOME", ".", None),
        ("review", "CLAUDE_CONFIG_DIR", ".", None),
    ],
)
def test_a_pid_file_links_only_a_process_that_says_itself_whose_it_is(
    tmp_path: Path, claude: Claude, name: str, variable: str, directory: str, launcher: str | None
) -> None:
    (tmp_path / "elsewhere").mkdir()
    with running(tmp_path / "bin" / name, **{variable: str(tmp_path / directory)}) as process:
        claude.pid_file(process.pid)
        writer = Writers().writer("claude-code", str(claude.transcript), "s")
        assert (writer.liveness, writer.process) == ("alive", process)
        found = RealProcesses().launcher_of(process, "claude-code", str(claude.transcript))
        assert found == launcher
        assert RealProcesses().launcher_of(process, "codex", "/elsewhere/rollout.jsonl") == "night"
    assert RealProcesses().launcher_of(process, "claude-code", str(claude.transcript)) is None


def test_a_transcript_elsewhere_has_no_pid_files(claude: Claude, process: subprocess.Popen[bytes]) -> None:
    claude.pid_file(process.pid)
    claude.transcript = claude.sessions / "s.jsonl"
    assert claude.liveness() == "unknown"


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / f"thread-writer-locks/{THREAD}.lock"
    path.parent.mkdir()
    path.touch()
    return path


@pytest.mark.parametrize(
    "rollout",
    [f"sessions/2026/11/21/rollout-{THREAD}.jsonl", f"archived_sessions/rollout-{THREAD}.jsonl.zst"],
)
@pytest.mark.parametrize("listed", [True, False], ids=["in the kernel's list", "in another namespace"])
def test_a_lock_that_is_held_says_that_its_writer_lives(
    tmp_path: Path, lock: Path, rollout: str, listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not listed:
        monkeypatch.setattr(kernels_locks, "_LIST", os.devnull)
    path = str(tmp_path / rollout)
    with held(lock) as holder:
        process = recorded(holder.pid) if listed else None
        assert Writers().writer("codex", path, THREAD) == Writer("alive", process=process)
    assert Writers().writer("codex", path, THREAD).liveness == "gone"
    lock.unlink()
    assert Writers().writer("codex", path, THREAD).liveness == "unknown"


def test_a_process_that_has_other_threads_but_not_this_one_has_let_it_go(tmp_path: Path, lock: Path) -> None:
    """As an app-server does, which hosts several threads."""
    path = str(tmp_path / "archived_sessions" / f"rollout-2026-11-21T08-37-55-{THREAD}.jsonl")
    with held(lock.rename(lock.with_name(f"{THREAD[:-1]}0.lock"))) as holder:
        writer = Writers().writer("codex", path, THREAD)
        assert writer == Writer("unknown", elsewhere=frozenset({recorded(holder.pid)}))
    assert Writers().writer("codex", path, THREAD) == Writer("unknown")


def test_a_lock_that_a_child_holds_on_names_nobody_when_the_one_that_took_it_is_gone(
    tmp_path: Path, lock: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _LEAVE_TO_A_CHILD, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    process.wait()
    assert liveness.codex_writer(str(tmp_path), THREAD) == Writer("alive")
    process.communicate()  # the child ends with its input


def test_asking_for_a_held_lock_never_takes_it(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    monkeypatch.setattr(fcntl, "flock", lambda descriptor, how: taken.append(how))
    with held(lock):
        assert liveness.codex_writer(str(tmp_path), THREAD).liveness == "alive"
    assert taken == []


def test_asking_leaves_the_lock_free(tmp_path: Path, lock: Path) -> None:
    assert liveness.codex_writer(str(tmp_path), THREAD).liveness == "gone"
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("thread", ["", "../locks", "a/b", "x" * 65, "\0"])
def test_what_is_no_threads_name_has_no_lock(tmp_path: Path, lock: Path, thread: str) -> None:
    assert liveness.codex_writer(str(tmp_path), thread).liveness == "unknown"


def test_a_lock_that_is_a_link_or_a_pipe_says_nothing(tmp_path: Path, lock: Path) -> None:
    lock.unlink()
    os.mkfifo(lock)
    assert liveness.codex_writer(str(tmp_path), THREAD).liveness == "unknown"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A directory of Copilot's."""
    path = tmp_path / "session-state/e0b2836c-d3cf-4193-8da5-bc187366a4cc"
    path.mkdir(parents=True)
    (path / "events.jsonl").touch()
    return path


def test_copilots_hold_says_that_its_writer_lives_and_missing_that_it_is_gone(session: Path) -> None:
    def writer() -> Writer:
        return Writers().writer("copilot", str(session), session.name)

    assert writer() == liveness.NOBODY_KNOWS
    lock = session / "inuse.1.hold"
    lock.touch()
    with held(lock) as holder:
        lock = lock.rename(session / f"inuse.{holder.pid}.hold")
        process = recorded(holder.pid)
        assert writer() == Writer("alive", process=process)
    absence = writer().absence
    assert absence is not None
    assert absence.named == (RecordedProcess(process.pid, NO_TICKS, process.boot_id),)
    lock.unlink()
    assert writer() == liveness.NOBODY_KNOWS, "it ended well, or never began"


def test_a_free_hold_of_copilot_proves_nothing_while_any_process_has_its_number(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    monkeypatch.setattr(fcntl, "flock", lambda descriptor, how: taken.append(how))
    (session / f"inuse.{os.getpid()}.hold").touch()
    for name in ("inuse.1.lock", "inuse.x.hold", "inuse.01.hold"):
        (session / name).touch()
    assert Writers().writer("copilot", str(session), session.name) == liveness.NOBODY_KNOWS
    assert taken == [], "it is only looked up"


@pytest.fixture
def cline(tmp_path: Path) -> Callable[..., Writer]:
    """What is known of who writes a session of Cline's whose document says this."""
    name = cline_lines.SESSION
    directory = tmp_path / "sessions" / name
    directory.mkdir(parents=True)

    def writer(content: str | None = None, status: str = "running", **fields: JsonValue) -> Writer:
        document = cline_lines.session(status, **fields).content.decode() if content is None else content
        (directory / f"{name}.json").write_text(document)
        return Writers().writer("cline", str(directory), name)

    return writer


@pytest.mark.parametrize("status", ["running", "pending", "idle"])
def test_a_process_of_cline_that_is_missing_is_gone_whether_it_was_the_hub_or_not(
    cline: Callable[..., Writer], process: subprocess.Popen[bytes], status: str
) -> None:
    pid = process.pid
    assert cline(status=status, pid=pid) == liveness.NOBODY_KNOWS, "the hub lives on without the session"
    kill(process)
    found = cline(status=status, pid=pid)
    assert (found.liveness, found.process) == ("gone", None)
    assert found.absence is not None
    assert [each.pid for each in found.absence.named] == [pid]


def test_half_a_character_in_a_prompt_hides_no_missing_process_of_cline(
    cline: Callable[..., Writer], process: subprocess.Popen[bytes]
) -> None:
    kill(process)
    content = json.dumps({"session_id": "s", "pid": process.pid, "status": "running", "prompt": "cut \ud83d"})
    assert cline(content).liveness == "gone"


def test_a_process_of_cline_says_nothing_once_the_session_is_over(
    cline: Callable[..., Writer], process: subprocess.Popen[bytes]
) -> None:
    kill(process)
    for status in ("completed", "failed", "cancelled"):
        assert cline(status=status, pid=process.pid) == liveness.NOBODY_KNOWS


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        *(
            f'{{"status": "running", "pid": {pid}}}'
            for pid in ('"7"', "true", "-7", "0", "1", "1e9", str(2**40))
        ),
    ],
)
def test_what_cline_does_not_write_says_nothing_of_its_process(
    cline: Callable[..., Writer], content: str
) -> None:
    assert cline(content) == liveness.NOBODY_KNOWS


def test_other_layouts_name_no_process(tmp_path: Path) -> None:
    assert Writers().writer("ctcp", str(tmp_path / "run"), "s").liveness == "unknown"


_UNSHARE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")
_SAY_WHO_IS_DEAD = """
import sys
from runward.daemon.rundir.liveness import Writers
writer = Writers().writer("claude-code", sys.argv[1], "s")
print(writer.liveness, writer.absence is not None and writer.absence.proves_death(grew_elsewhere=False))
"""


@pytest.fixture
def namespaces() -> None:
    if shutil.which("unshare") is None or subprocess.run([*_UNSHARE, "true"], check=False).returncode != 0:
        pytest.skip("no PID namespace can be made here")


@pytest.mark.usefixtures("namespaces")
def test_from_inside_a_pid_namespace_a_process_outside_is_missing_and_not_dead(
    claude: Claude, process: subprocess.Popen[bytes]
) -> None:
    claude.pid_file(process.pid)
    assert claude.liveness() == "alive"
    command = [*_UNSHARE, sys.executable, "-c", _SAY_WHO_IS_DEAD, str(claude.transcript)]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "gone False\n"


@pytest.mark.usefixtures("namespaces")
def test_an_agent_inside_a_pid_namespace_lives_until_no_process_has_its_number_in_there(
    claude: Claude,
) -> None:
    command = [*_UNSHARE, "sh", "-c", "echo ready; exec sleep 100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as inside:
        assert inside.stdout is not None
        inside.stdout.readline()
        (outer,) = Path(f"/proc/{inside.pid}/task/{inside.pid}/children").read_text().split()
        ticks = str(identity_of(int(outer)).start_ticks)
        said = {"pid": 1, "sessionId": "s", "procStart": ticks}
        (claude.sessions / "1.json").write_text(json.dumps(said))
        writer = claude_writer(claude, Writers())
        assert (writer.liveness, writer.process) == ("alive", recorded(int(outer)))
        kill(inside)
    wait_for(lambda: claude.liveness() == "gone", "the end of what was inside")
    absence = claude_writer(claude, Writers()).absence
    assert absence is not None
    assert absence.is_nowhere
