"""What code in the sandbox tries, and what is left of it, seen from outside."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.sandbox.attempts import ANY, ATTEMPTS, PROCESSES, RIGHTS, Attempt
from tests.nobody import as_nobody
from tests.waiting import wait_for

from runward.config.executor import Executor
from runward.config.json_value import JsonValue
from runward.daemon.sandbox import workers
from runward.daemon.sandbox.bubblewrap import NOBODY
from runward.daemon.sandbox.execution import Execution
from runward.daemon.sandbox.interpreter import interpreter
from runward.daemon.sandbox.workers import Job, NoSandbox, Worker, execute

BOUNDED = Executor(timeout=0.5)
SECRET = "the machine's secret"
CALLS = ("clone", "keyctl", "bpf", "io_uring_setup", "userfaultfd", "perf_event_open", "seccomp")


@pytest.fixture(scope="module", autouse=True)
def _sandbox() -> None:
    """Skips where this machine has none; there, only `not_configured` can be tested."""
    try:
        Worker(BOUNDED).close()
    except NoSandbox as missing:
        pytest.skip(f"no sandbox here: {missing}")


class Machine:
    """Things of this machine that code in the sandbox must not reach."""

    def __init__(self, directory: Path) -> None:
        self.secret = directory / "secret"
        self.secret.write_text(SECRET)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.victim = subprocess.Popen(["sleep", "600"])
        self.others = children()
        self.before = self.traces()

    def told(self) -> dict[str, JsonValue]:
        """Where they are, as code would know it."""
        import pyseccomp  # it fails where libseccomp is missing, and the tests here skip then

        numbers = {name: int(pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)) for name in CALLS}
        port = self.listener.getsockname()[1]
        return {"secret": str(self.secret), "port": port, "pid": self.victim.pid, **numbers}

    def traces(self) -> tuple[list[str], list[str], int]:
        """Files beside the secret, mounts of a sandbox, and open descriptors of this process."""
        all_mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        mounts = [
            each for each in all_mounts if any(word in each for word in ("newroot", "oldroot", " /python"))
        ]
        return sorted(os.listdir(self.secret.parent)), mounts, len(os.listdir("/proc/self/fd"))

    def is_untouched(self) -> None:
        """Nothing was read, reached, ended or left."""
        assert self.secret.read_text() == SECRET
        assert self.victim.poll() is None
        with pytest.raises(BlockingIOError):
            self.listener.accept()
        assert self.traces() == self.before
        wait_for(lambda: not children() - self.others, "every process of the sandbox ends", 5.0)

    def close(self) -> None:
        self.listener.close()
        self.victim.kill()
        self.victim.wait()


def children() -> set[int]:
    """All processes below this one."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            found |= {int(pid) for pid in (task / "children").read_text().split()}
        except FileNotFoundError:
            pass  # a thread that ended meanwhile, whose children are those of another now
    return found


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    interpreter(NOBODY if os.geteuid() == 0 else None)
    made = Machine(tmp_path)
    yield made
    made.close()


def attempt_it(attempt: Attempt, told: JsonValue) -> Execution:
    return execute(Job(attempt.source, [told], answer=(lambda _: 7) if attempt.may_ask else None), BOUNDED)


def as_expected(attempt: Attempt, execution: Execution) -> bool:
    return attempt.code == ANY or (execution.code, execution.result) == (attempt.code, attempt.result)


@pytest.mark.prove
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=[each.name for each in ATTEMPTS])
def test_code_that(attempt: Attempt, machine: Machine) -> None:
    execution = attempt_it(attempt, machine.told())
    assert as_expected(attempt, execution), execution
    assert SECRET not in str(execution)
    assert execution.wall_ms < 1000 * (BOUNDED.timeout + 1)
    assert len(str(execution.error)) < 5000
    machine.is_untouched()
    assert execute(Job("def run(a): return a + 1", [1]), BOUNDED).result == 2


def test_each_attempt_is_there_once() -> None:
    names = [each.name for each in ATTEMPTS]
    assert len(names) == len(set(names)) >= 60


def test_without_the_filter_some_of_the_same_code_gets_further(machine: Machine) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "Worker", lambda executor: Worker(executor, filtered=False))
        escaped = [
            each.name
            for each in (*PROCESSES, *RIGHTS)
            if not as_expected(each, attempt_it(each, machine.told()))
        ]
    assert {"forks", "reads the kernel's keys", "takes the filter off"} <= set(escaped)
    machine.is_untouched()


def test_without_namespaces_the_secret_is_read(machine: Machine) -> None:
    setup = json.dumps({"filter": "", "preloaded": [], "output": 65536, "limits": {}})
    job = json.dumps({"code": "def run(path): return open(path).read()", "args": [str(machine.secret)]})
    bare = (sys.executable, "-I", "-S", Path(workers.__file__).with_name("worker.py"))
    told = subprocess.run(bare, input=f"{setup}\n{job}", capture_output=True, text=True, check=True)
    assert SECRET in told.stdout


@pytest.mark.prove
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_has_the_same_sandbox(machine: Machine) -> None:
    readable = interpreter(NOBODY)

    def attempts() -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(workers, "interpreter", lambda uid: readable)
            return [
                each.name
                for each in (*PROCESSES, *RIGHTS)
                if not as_expected(each, attempt_it(each, machine.told()))
            ]

    assert as_nobody(attempts) == [""]
    machine.is_untouched()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives its user up")
def test_a_worker_of_root_is_not_root_outside_either() -> None:
    others = children()
    with Worker(BOUNDED):
        owners = {Path(f"/proc/{pid}").stat().st_uid for pid in children() - others}
        assert owners == {NOBODY}
