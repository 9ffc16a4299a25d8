"""Things of this machine that code in the sandbox must not reach, and how an attempt at them is judged."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from tests.daemon.sandbox.attempts import (
    ANY,
    ATTEMPTS,
    NEEDS_NAMESPACES,
    ONLY_LOOK,
    WITHOUT_NAMESPACES,
    Attempt,
    together,
)
from tests.waiting import wait_for

from runward.config.exchange import Executor
from runward.config.json_value import JsonValue
from runward.daemon.sandbox import leftovers
from runward.daemon.sandbox.execution import Call, Execution
from runward.daemon.sandbox.isolated import NOBODY
from runward.daemon.sandbox.workers import Job, execute

BOUNDED = Executor(timeout=0.5)
PATIENT = Executor(timeout=20.0)
"""For code that ends by itself, on a busy machine too."""

SECRET = "the machine's secret"
CALLS = ("clone", "keyctl", "bpf", "io_uring_setup", "userfaultfd", "perf_event_open", "seccomp")
MOST_GROWTH = 32 << 20
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Ten thousand files take long on a busy disk."""


class Machine:
    """A secret, a listener and a process that an ordinary user owns, who may reach all of them."""

    def __init__(self, directory: Path) -> None:
        leftovers.new_mark()  # what stays of the first start of bubblewrap is there before
        self.secret = directory / "secret"
        self.secret.write_text(SECRET)
        owner = NOBODY if os.geteuid() == 0 else None
        if owner is not None:
            directory.chmod(0o755)
            for each in (directory, self.secret):
                os.chown(each, owner, owner)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.victim = subprocess.Popen(["sleep", "600"], user=owner)
        self.others = children()
        self.before = self.traces()
        self.memory = _own_memory()

    def told(self) -> dict[str, JsonValue]:
        """Where they are, as code would know it."""
        import pyseccomp  # it fails where libseccomp is missing, and the tests here skip then

        numbers = {name: int(pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)) for name in CALLS}
        port = self.listener.getsockname()[1]
        program = os.path.realpath(sys.executable)
        return {
            "secret": str(self.secret),
            "port": port,
            "pid": self.victim.pid,
            "program": program,
            **numbers,
        }

    def traces(self) -> tuple[list[str], tuple[int, int], list[str], list[str], int]:
        """Files next to the secret, its rights, mounts and directories of a sandbox, and open descriptors of this process."""
        all_mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        mounts = [
            each for each in all_mounts if any(word in each for word in ("newroot", "oldroot", " /python"))
        ]
        seen = self.secret.stat()
        left = sorted(os.listdir(tempfile.gettempdir()))
        files = sorted(os.listdir(self.secret.parent))
        return files, (seen.st_mode, seen.st_mtime_ns), mounts, left, len(os.listdir("/proc/self/fd"))

    def is_untouched(self) -> None:
        """Nothing was read, reached, ended or left."""
        assert self.secret.read_text() == SECRET
        assert self.victim.poll() is None
        try:
            self.listener.accept()
        except BlockingIOError:
            pass
        else:
            raise AssertionError("the listener was reached")
        assert self.traces() == self.before
        wait_for(lambda: not children() - self.others, "every process of the sandbox ends", 5.0)
        assert _own_memory() - self.memory < MOST_GROWTH

    def close(self) -> None:
        self.listener.close()
        self.victim.kill()
        self.victim.wait()


@contextmanager
def machine_for_attempts() -> Iterator[Machine]:
    """In a directory that every user may reach, with a directory for temporary files next to the secret."""
    directory = Path(tempfile.mkdtemp(prefix="secrets-", dir=IN_MEMORY))
    temporary = directory / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    with patch.object(tempfile, "tempdir", str(temporary)):
        made = Machine(directory)
        try:
            yield made
        finally:
            made.close()
            shutil.rmtree(directory)


def children() -> set[int]:
    """All processes that this one started, but the one that ends what is left of bubblewrap: that stays."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            found |= {int(pid) for pid in (task / "children").read_text().split()}
        except FileNotFoundError:
            pass  # a thread that ended meanwhile, whose children are those of another now
    return {each for each in found if each != leftovers.WATCHER.pid}


def _own_memory() -> int:
    """The memory of this process alone, in bytes: what the kernel took away meanwhile and gives back is not growth."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return sum(int(status[name].split()[0]) << 10 for name in ("RssAnon", "VmSwap"))


def attempt_it(attempt: Attempt, told: JsonValue, sandbox: str = "bubblewrap") -> Execution:
    """What becomes of it. Code that is expected to run on without end gets little time."""
    bounds = BOUNDED if expected_of(attempt, sandbox)[0] in ("timeout", ANY) else PATIENT
    job = Job(attempt.source, [told], answer=_answered if attempt.may_ask else None)
    return execute(job, bounds._replace(sandbox=sandbox))


def _answered(call: Call) -> JsonValue:
    return call.args[1] if call.name == "pay" else 7


def expected_of(attempt: Attempt, sandbox: str) -> tuple[str | None, JsonValue]:
    """The code and the result that it must come to."""
    usual = (attempt.code, attempt.result)
    return WITHOUT_NAMESPACES.get(attempt.name, usual) if sandbox == "landlock" else usual


def as_expected(attempt: Attempt, execution: Execution, sandbox: str = "bubblewrap") -> bool:
    if sandbox == "landlock" and attempt.name in NEEDS_NAMESPACES:
        return True
    expected = expected_of(attempt, sandbox)
    return expected[0] == ANY or (execution.code, execution.result) == expected


def surprises(sandbox: str, told: JsonValue, attempts: Sequence[Attempt] = ATTEMPTS) -> list[str]:
    """What became of the attempts that didn't come to what they must.

    Those that only look share a worker, and the others are tried several at once.
    """

    def tried(attempt: Attempt) -> tuple[Attempt, Execution]:
        return attempt, attempt_it(attempt, told, sandbox)

    looking = [each for each in attempts if each in ONLY_LOOK]
    others = [each for each in attempts if each not in ONLY_LOOK]
    with ThreadPoolExecutor(6) as pool:
        looked = [pool.submit(_looked, looking, told, sandbox)] if looking else []
        became = [*pool.map(tried, others), *(each for one in looked for each in one.result())]
    return [
        f"{attempt.name}: {execution}"
        for attempt, execution in became
        if not as_expected(attempt, execution, sandbox) or SECRET in str(execution)
    ]


def _looked(attempts: Sequence[Attempt], told: JsonValue, sandbox: str) -> list[tuple[Attempt, Execution]]:
    """What became of attempts that are made by one piece of code: if it fails, all of them did."""
    execution = execute(Job(together(attempts), [told]), PATIENT._replace(sandbox=sandbox))
    got = execution.result if isinstance(execution.result, dict) else None
    return [
        (each, execution if got is None else execution._replace(result=got.get(each.name)))
        for each in attempts
    ]
