"""What code in the sandbox tries, and what is left of it, seen from outside."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.sandbox.attempts import ATTEMPTS, Attempt
from tests.daemon.sandbox.machine import (
    BOUNDED,
    PATIENT,
    SECRET,
    Machine,
    as_expected,
    attempt_it,
    children,
    expected_of,
    machine_for_attempts,
    surprises,
)
from tests.unprivileged import as_unprivileged

from runward.daemon.sandbox import bubblewrap, workers
from runward.daemon.sandbox.interpreter import interpreter
from runward.daemon.sandbox.isolated import NOBODY, NoSandbox
from runward.daemon.sandbox.workers import Job, Worker, execute

SAMPLE = ("reads a secret by its path", "forks", "connects to a listener of the machine", "spins", "aborts")
"""What is tried in each test run; the rest in `make prove`."""


@pytest.fixture(scope="module", autouse=True)
def _sandbox() -> None:
    """Skips where this machine has none; there, only `not_configured` can be tested."""
    try:
        Worker(BOUNDED).close()
    except NoSandbox as missing:
        pytest.skip(f"no sandbox here: {missing}")


@pytest.fixture
def machine() -> Iterator[Machine]:
    interpreter(NOBODY if os.geteuid() == 0 else None)
    with machine_for_attempts() as made:
        yield made


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(each, id=each.name, marks=() if each.name in SAMPLE else pytest.mark.prove)
        for each in ATTEMPTS
    ],
)
def test_code_that(attempt: Attempt, machine: Machine) -> None:
    execution = attempt_it(attempt, machine.told())
    assert as_expected(attempt, execution), execution
    assert SECRET not in str(execution)
    if expected_of(attempt, "bubblewrap")[0] == "timeout":
        assert execution.wall_ms < 1000 * (BOUNDED.timeout + 1)
    assert len(str(execution.error)) < 5000
    machine.is_untouched()
    assert _answering_s() < 1.0, "others wait for what is left"


def _answering_s() -> float:
    """Seconds until a legitimate piece of code is answered, but for those in which others kept the processors or disks busy."""
    began, waited = time.monotonic(), _waited_s()
    assert execute(Job("def run(a): return a + 1", [1]), PATIENT).result == 2
    return time.monotonic() - began - (_waited_s() - waited)


def _waited_s() -> float:
    """Seconds since the boot in which something waited for a processor or a disk, if the kernel counts them."""
    return sum(
        int(line.rpartition("total=")[2]) / 1e6
        for path in (Path("/proc/pressure/cpu"), Path("/proc/pressure/io"))
        if path.exists()
        for line in path.read_text().splitlines()
        if line.startswith("some ")
    )


def test_each_attempt_is_there_once() -> None:
    names = [each.name for each in ATTEMPTS]
    assert len(names) == len(set(names)) >= 60
    assert set(SAMPLE) <= set(names)


STOPPED_BY_THE_FILTER = ("forks", "reads the kernel's keys", "takes the filter off")


def test_without_the_filter_some_of_the_same_code_gets_further(machine: Machine) -> None:
    attempts = [each for each in ATTEMPTS if each.name in STOPPED_BY_THE_FILTER]
    assert len(attempts) == len(STOPPED_BY_THE_FILTER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "Worker", lambda executor: Worker(executor, filtered=False))
        escaped = [each for each in attempts if not as_expected(each, attempt_it(each, machine.told()))]
    assert escaped == attempts
    machine.is_untouched()


def test_without_namespaces_the_secret_is_read(machine: Machine) -> None:
    job = json.dumps({"code": "def run(path): return open(path).read()", "args": [str(machine.secret)]})
    told = subprocess.run(_bare_worker(), input=f"{SETUP}\n{job}", capture_output=True, text=True, check=True)
    assert SECRET in told.stdout


SETUP = json.dumps({"filter": "", "preloaded": [], "output": 65536, "niceness": 0, "limits": {}})
LEAVES = "import sys\ndef run():\n    was, sys.left = getattr(sys, 'left', 0), 1\n    return was"
TWICE = """
import os, sys
class Again(BaseException):
    pass
def again(code):
    worker["_talking"].release()
    raise Again
worker = {"__name__": "worker"}
exec(open(sys.argv[1]).read(), worker)
os._exit = again
for _ in range(2):
    try:
        worker["_run"]({"code": sys.argv[2], "args": [], "dependencies": []}, {"__builtins__": __builtins__})
    except Again:
        pass
"""


def test_a_worker_that_is_used_twice_passes_on_what_was_left() -> None:
    source = Path(workers.__file__).with_name("worker.py")
    words = (sys.executable, "-I", "-S", "-c", TWICE, str(source), LEAVES)
    told = subprocess.run(words, capture_output=True, text=True, check=True)
    assert [json.loads(line.lstrip("*")) for line in told.stdout.splitlines()] == [
        {"result": 0},
        {"result": 1},
    ]
    assert [execute(Job(LEAVES, []), BOUNDED._replace(timeout=20.0)).result for _ in range(2)] == [0, 0]


def _bare_worker() -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", str(Path(workers.__file__).with_name("worker.py")))


@pytest.mark.prove
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_has_the_same_sandbox(machine: Machine) -> None:
    readable = interpreter(NOBODY)

    def attempts() -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bubblewrap, "interpreter", lambda uid: readable)
            return surprises("bubblewrap", machine.told())

    assert as_unprivileged(attempts) == [""]
    machine.is_untouched()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives its user up")
def test_a_worker_of_root_is_not_root_outside_either() -> None:
    others = children()
    with Worker(BOUNDED):
        owners = {Path(f"/proc/{pid}").stat().st_uid for pid in children() - others}
        assert owners == {NOBODY}
