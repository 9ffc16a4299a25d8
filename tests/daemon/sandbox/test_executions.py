"""What becomes of code in the sandbox: results, errors, measures, limits."""

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.daemon.sandbox.machine import children
from tests.waiting import wait_for

from runward.config.exchange import Executor
from runward.config.json_value import JsonValue
from runward.daemon.processes.giving_way import NICENESS, OF_SESSION, session_gives_way
from runward.daemon.sandbox import workers
from runward.daemon.sandbox.execution import CpuTime, execution_to_json, read_answer
from runward.daemon.sandbox.isolated import NoSandbox, cpu_of
from runward.daemon.sandbox.workers import MOST_CODE, Job, Worker, execute

USUAL = Executor()

NO_NAMESPACES = """
import ctypes, json, os, sys
from runward.config.exchange import Executor
from runward.daemon.sandbox.execution import execution_to_json
from runward.daemon.sandbox.workers import Job, execute
user, group = os.geteuid(), os.getegid()
if ctypes.CDLL(None).unshare(0x10000000) != 0:
    sys.exit(77)
for file, text in (
    ("/proc/self/setgroups", "deny"),
    ("/proc/self/uid_map", f"1000 {user} 1"),
    ("/proc/self/gid_map", f"1000 {group} 1"),
    ("/proc/sys/user/max_user_namespaces", "0"),
):
    with open(file, "w") as opened:
        opened.write(text)
job = Job("def run(): return 1", [])
print(json.dumps([execution_to_json(execute(job, Executor(sandbox=each))) for each in ("bubblewrap", "landlock")]))
"""

FEW_FILES = """
import json, resource
from runward.config.exchange import Executor
from runward.daemon.sandbox.execution import execution_to_json
from runward.daemon.sandbox.workers import Job, execute
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
print(json.dumps(execution_to_json(execute(Job("def run(): return 1", []), Executor()))))
"""


@pytest.fixture(scope="module")
def sandbox() -> None:
    """Skips where this machine has none."""
    try:
        Worker(USUAL).close()
    except NoSandbox as missing:
        pytest.skip(f"no sandbox here: {missing}")


NESTED = """
def run(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value
"""


@pytest.mark.parametrize(
    ("source", "arguments", "result"),
    [
        ("def run(): return 1", [], 1),
        ("def run(*words): return words", ["a", 2, None, {"b": [True]}], ["a", 2, None, {"b": [True]}]),
        ("def run(): return math.floor(2.5), json.dumps({}), random.Random(1).randint(1, 1)", [], [2, "{}", 1]),
        ("def run(): return datetime.date(2024, 2, 29).isoformat()", [], "2024-02-29"),
        ("run = lambda: 'é\\u2028'", [], "é\u2028"),
        ("def run(): return float('nan')", [], "nan"),
        ("def run(): return {1, }", [], "{1}"),
        ("def run(): return [Exception('x')]", [], "[Exception('x')]"),
        ("def run(): return '\\ud800'", [], "\\ud800"),
        ("x = []\nx.append(x)\ndef run(): return x", [], "[[...]]"),
        ("def run(): return 2 ** 64", [], "18446744073709551616"),
        ("def run(): return [2 ** 63 - 1, -2 ** 63 + 1]", [], [2 ** 63 - 1, -(2 ** 63) + 1]),
        ("def run(): return {1: 'a', '1': 'b'}", [], "{1: 'a', '1': 'b'}"),
        ("def run(): return {1: 'a', 2.5: 'b', None: 'c'}", [], {"1": "a", "2.5": "b", "null": "c"}),
        (NESTED, [49], json.loads("[" * 49 + "]" * 49)),
        (NESTED, [50], "[" * 50 + "]" * 50),
        (NESTED, [60], "[" * 60 + "]" * 60),
        ("import decimal, sqlite3, hashlib, re, zlib, ctypes, ssl\ndef run(): return 2", [], 2),
        ("def run():\n    open('/tmp/a', 'w').write('x' * 1000)\n    return len(open('/tmp/a').read())", [], 1000),
        ("import threading\nx = []\ndef run():\n    t = threading.Thread(target=x.append, args=(1,))\n    t.start(); t.join()\n    return x", [], [1]),
        ("def run():\n    print('x' * 60000)\n    return 1", [], 1),
    ],
)  # fmt: skip
def test_code_gives_what_json_can_hold_or_its_text(
    sandbox: None, source: str, arguments: list[JsonValue], result: JsonValue
) -> None:
    execution = execute(Job(source, arguments), USUAL)
    assert (execution.code, execution.result, execution.error) == (None, result, None)
    said = execution_to_json(execution)
    assert list(said) == ["success", "result", "error", "execution_time_ms", "resources_consumed"]


IMPORTS = """
def run(names):
    missing = []
    for name in names:
        try:
            __import__(name)
        except ImportError:
            missing.append(name)
    return missing
"""
WITH_A_SCREEN = {"tkinter", "_tkinter", "turtle", "turtledemo", "idlelib"}
NOT_FOR_CODE = {"antigravity", "this", "ensurepip", "lib2to3", "test"}


def test_the_standard_library_can_be_imported(sandbox: None) -> None:
    names: list[JsonValue] = [*sorted(sys.stdlib_module_names - WITH_A_SCREEN - NOT_FOR_CODE)]
    ended = execute(Job(IMPORTS, [names]), USUAL._replace(timeout=60.0))
    assert isinstance(ended.result, list), ended
    assert [each for each in ended.result if find_spec(str(each)) is not None] == []


@pytest.mark.parametrize(
    ("source", "code", "error"),
    [
        ("def run(): return 1 / 0", "runtime_error", "ZeroDivisionError: division by zero (line 1)"),
        ("\n\ndef run():\n    raise KeyError('x')", "runtime_error", "KeyError: 'x' (line 4)"),
        ("def run(a): pass", "runtime_error", "TypeError: run() missing 1 required positional argument: 'a'"),
        ("1 / 0\ndef run(): pass", "runtime_error", "ZeroDivisionError: division by zero (line 1)"),
        ("run = 5", "runtime_error", "TypeError: the code defines no function run"),
        ("def run(): exit(3)", "runtime_error", "NameError: name 'exit' is not defined (line 1)"),
        ("def run(): raise SystemExit(3)", "runtime_error", "SystemExit: 3 (line 1)"),
        ("def run(): input()", "runtime_error", "RuntimeError: input(): lost sys.stdin (line 1)"),
        ("import os\ndef run(): os._exit(0)", "killed", "the worker died without an answer (exit 0)"),
        ("import ctypes\ndef run(): ctypes.string_at(0)", "killed", "the worker died without an answer (SIGSEGV)"),
        ("def run(): return bytearray(1 << 32)", "killed", "the code needed more memory than its limit"),
        ("def run(): return 'x' * 70000", "output_limit", "the output or the result is larger than 65536 bytes"),
        ("def run(): return [2 ** 64] * 4000", "output_limit", "the output or the result is larger than 65536 bytes"),
        ("def run(): return 10 ** 5000", "output_limit", "the result has too many digits"),
        (NESTED.replace("(levels)", "(levels=50000)"), "output_limit", "the result is nested too deeply"),
    ],
)  # fmt: skip
def test_what_ran_and_failed_has_its_code_its_place_and_its_measures(
    sandbox: None, source: str, code: str, error: str
) -> None:
    execution = execute(Job(source, []), USUAL)
    assert (execution.code, execution.error, execution.result) == (code, error, None)
    assert "resources_consumed" in execution_to_json(execution)


def test_code_can_not_choose_why_its_worker_was_killed() -> None:
    ended = read_answer(b'{"code": "killed", "error": "a secret"}', 100)
    assert (ended.code, ended.error) == ("killed", "the code needed more memory than its limit"), (
        "`status` shows it to everybody"
    )


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("", "the code is empty"),
        ("  \n", "the code is empty"),
        ("def walk(): pass", "the code defines no function run"),
        ("def run(:", "SyntaxError: invalid syntax (line 1)"),
        ("x" * MOST_CODE, f"the code and its arguments are larger than {MOST_CODE} bytes"),
    ],
)
def test_what_never_ran_has_no_measures(sandbox: None, source: str, error: str) -> None:
    assert execution_to_json(execute(Job(source, []), USUAL)) == {
        "success": False,
        "result": None,
        "error": error,
        "error_code": "invalid_argument",
    }


@pytest.mark.parametrize(
    "source",
    [
        "def run(): pass",
        "say = 'x'.upper\ndef run(): return say, other",
        "def run():\n    def say(): pass\nprint(other.say)",
    ],
)
def test_a_method_that_the_code_lacks_is_not_found_and_does_not_run(sandbox: None, source: str) -> None:
    ended = execute(Job(source, [], "talk"), USUAL)
    assert (ended.code, ended.error, ended.began) == ("not_found", "the code defines no function talk", False)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("def run(): return 1", None),
        ("if True:\n    import math as check_permission", None),
        ("from math import floor as run", None),
        ("1 / 0\nclass run: pass", None),
        ("x = run", "the code defines no function run or check_permission"),
        ("def outer():\n    def run(): pass", "the code defines no function run or check_permission"),
        ("def run(:", "SyntaxError: invalid syntax (line 1)"),
        ("", "the code is empty"),
        ("(" * 5000, "SyntaxError: too many nested parentheses (line 1)"),
    ],
)
def test_code_is_checked_without_being_run(sandbox: None, source: str, error: str | None) -> None:
    ended = execute(Job(source, [], "", defines=("run", "check_permission")), USUAL)
    assert (ended.error, ended.result, ended.began) == (error, None, False)
    assert ended.code == (None if error is None else "invalid_argument")
    assert (execute(Job("x = 1", [], "", defines=()), USUAL).code) is None


def test_what_code_prints_is_shown_to_who_tries_it_also_if_it_fails(sandbox: None) -> None:
    prints = "import sys\ndef run(then):\n    print('é', 1)\n    print('x' * 1000, file=sys.stderr)\n    exec(then)"
    for then, code in {"pass": None, "1 / 0": "runtime_error", "while True: pass": "timeout"}.items():
        ended = execute(Job(prints, [then], is_shown=True), USUAL._replace(timeout=1.0))
        assert (ended.code, ended.printed) == (code, f"é 1\n{'x' * 1000}\n")
    much = execute(Job("def run():\n    for _ in range(100): print('x' * 9999)", [], is_shown=True), USUAL)
    assert (much.code, len(much.printed)) == ("output_limit", 6 * 10_000)
    assert execute(Job(prints, ["pass"]), USUAL).printed == ""


def test_what_the_code_claims_about_its_measures_counts_for_nothing(sandbox: None) -> None:
    forged = 'import os\ndef run():\n    os.write(1, b\'{"code": "invalid_argument", "error": ""}\\n\')'
    assert "resources_consumed" in execution_to_json(execute(Job(forged, []), USUAL))


def test_cpu_time_is_counted_for_code_that_never_answers(sandbox: None) -> None:
    spins = execute(Job("def run():\n    while True: pass", []), USUAL._replace(timeout=1.0))
    sleeps = execute(Job("import time\ndef run(): time.sleep(60)", []), USUAL._replace(timeout=0.3))
    assert (spins.code, sleeps.code) == ("timeout", "timeout")
    assert spins.cpu_s > 0.05  # a share of one core, on a busy machine
    assert sleeps.cpu_s < 0.1


def test_limits_are_those_of_the_settings(sandbox: None) -> None:
    small = Executor(memory=64 << 20, tmp=64 << 10, output=2000, preloaded_imports=("statistics",))
    assert execute(Job("def run(): return len(bytearray(60 << 20))", []), small).code == "killed"
    assert execute(Job("def run(): return len(bytearray(60 << 20))", []), USUAL).result == 60 << 20
    assert execute(Job("def run(): open('/tmp/x', 'wb', 0).write(bytes(65 << 10))", []), small)
    assert execute(Job("def run(): return 'x' * 3000", []), small).code == "output_limit"
    assert execute(Job("def run(): return statistics.mean([1, 3])", []), small).result == 2
    assert execute(Job("def run(): return math", []), small).code == "runtime_error"


def test_nothing_passes_from_one_execution_to_the_next(sandbox: None) -> None:
    leaves = "import sys, json\ndef run():\n    json.dumps = sys.left = 1\n    return open('/tmp/x', 'w').write('x')"
    execute(Job(leaves, []), USUAL)
    looks = (
        "import os, sys, json\ndef run(): return [hasattr(sys, 'left'), os.listdir('/tmp'), json.dumps([])]"
    )
    assert execute(Job(looks, []), USUAL).result == [False, [], "[]"]


LOOKS_AT_CLOCKS = """
import time, ctypes
def run():
    uptime = (ctypes.c_long * 14)()
    ctypes.CDLL(None).sysinfo(uptime)
    return [time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME), uptime[0]]
"""


def test_the_clocks_since_boot_begin_with_the_worker_and_else_results_say_so(
    sandbox: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = time.monotonic()
    ended = execute(Job(LOOKS_AT_CLOCKS, []), USUAL)
    passed = time.monotonic() - before
    assert isinstance(ended.result, list)
    is_own = max(float(str(each)) for each in ended.result) <= passed + 2.0
    assert is_own == (ended.sandbox == "bubblewrap+seccomp"), ended
    monkeypatch.setattr("runward.daemon.sandbox.bubblewrap.UNSHARE", "no such program")
    assert execute(Job("def run(): return 1", []), USUAL).sandbox == "bubblewrap+seccomp, no time namespace"


def test_code_yields_when_the_daemon_needs_the_processor(sandbox: None) -> None:
    with Worker(USUAL) as worker:
        assert os.getpriority(os.PRIO_PROCESS, worker.pid) == os.getpriority(os.PRIO_PROCESS, 0) + NICENESS
        assert os.sched_getscheduler(worker.pid) == os.SCHED_BATCH


def test_the_session_of_code_that_works_for_long_yields_also_if_that_is_refused_at_first(
    sandbox: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = 3
    asked: list[int] = []

    def gives_way(process: int, is_that: Callable[[], bool]) -> bool:
        asked.append(process)
        return len(asked) > refused and session_gives_way(process, is_that)

    monkeypatch.setattr(workers, "session_gives_way", gives_way)
    with ThreadPoolExecutor(1) as pool, Worker(USUAL) as worker:
        session = Path(f"/proc/{worker.pid}/autogroup")
        running = pool.submit(worker.run, b'{"code": "def run():\\n    while True: pass", "args": []}')
        if session.exists():
            wait_for(
                lambda: session.read_text().endswith(f"nice {OF_SESSION}\n"), "its session gives way", 20.0
            )
        running.result()
    assert set(asked) == {worker.pid}
    assert len(asked) > refused


def test_the_cpu_time_that_is_left_is_hardly_exceeded(sandbox: None) -> None:
    def used() -> float:
        cpu = CpuTime(0.02)
        assert execute(Job("def run():\n    while True: pass", []), USUAL, cpu).code == "rate_limited"
        return cpu.used

    assert min(used() for _ in range(5)) < 0.04, "it is looked at before the usual turn of 50 ms is over"


def test_several_at_once_each_get_their_own_answer(sandbox: None) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda n: execute(Job("def run(n): return n * n", [n]), USUAL).result, range(24))
        assert list(found) == [n * n for n in range(24)]


def test_a_worker_that_is_killed_from_outside_is_an_answer_and_charged(sandbox: None) -> None:
    others = children()
    with ThreadPoolExecutor(1) as pool, Worker(USUAL) as worker:
        (bubblewrap,) = children() - others
        begun = cpu_of(worker.pid)
        running = pool.submit(worker.run, b'{"code": "def run():\\n    while True: pass", "args": []}')
        wait_for(lambda: cpu_of(worker.pid) > begun + 0.3, "the code runs", 20.0)
        os.kill(bubblewrap, signal.SIGKILL)
        ended = running.result(10)
        assert ended.code == "killed"
        assert ended.cpu_s > 0.1, "bubblewrap is gone, and with it the kernel's count of all that it started"


def test_without_bubblewrap_code_is_refused_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    said = execution_to_json(execute(Job("def run(): return 1", []), USUAL))
    assert (said["success"], said["error_code"]) == (False, "not_configured")
    assert said["error"] == "no sandbox: bubblewrap isn't installed"
    assert said["fix"] == "install the package bubblewrap"


def fake_bubblewrap(patch: pytest.MonkeyPatch, directory: Path, text: str) -> None:
    fake = directory / "bwrap"
    fake.write_text(text)
    fake.chmod(0o755)
    for each in fake.parents[: len(fake.parents) - 2]:
        each.chmod(0o755)  # root's worker starts it as nobody
    patch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


def test_where_bubblewrap_can_not_be_started_no_namespaces_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fake_bubblewrap(monkeypatch, tmp_path_factory.mktemp("bin"), "#!/nowhere\n")
    said = execute(Job("def run(): return 1", []), USUAL)
    assert said.error == "no sandbox: bubblewrap can't be started: No such file or directory"
    assert str(said.fix).startswith("let the daemon run bwrap")


@pytest.mark.parametrize(
    ("complaint", "fix"),
    [
        ("bwrap: No permissions to create new namespace", "allow user namespaces"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "bwrap-userns-restrict"),
        ("bwrap: Unknown option --disable-userns", "bubblewrap 0.8"),
        ("bwrap: Can't find source path /gone: No such file or directory", "report this"),
        ("PermissionError: [Errno 1] Operation not permitted", "SystemCallFilter=, AppArmor or SELinux"),
        ("OSError: the kernel accepts no system call filter: Invalid argument", "seccomp filters"),
    ],
)
def test_where_no_worker_starts_code_is_refused_with_what_was_said_and_its_fix(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, complaint: str, fix: str
) -> None:
    script = f"#!/bin/sh\necho {shlex.quote(complaint)} >&2\nexit 1\n"
    fake_bubblewrap(monkeypatch, tmp_path_factory.mktemp("bin"), script)
    said = execute(Job("def run(): return 1", []), USUAL)
    assert (said.code, said.error) == ("not_configured", f"no sandbox: {complaint}")
    assert said.fix is not None
    assert fix in said.fix


def test_a_worker_that_ends_in_silence_is_not_blamed_on_namespaces(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fake_bubblewrap(monkeypatch, tmp_path_factory.mktemp("bin"), "#!/bin/sh\nkill -KILL $$\n")
    said = execute(Job("def run(): return 1", []), USUAL)
    assert said.error == "no sandbox: the worker didn't start, and gave no reason"
    assert "namespaces" not in str(said.fix)
    assert "dmesg" in str(said.fix)


@pytest.mark.parametrize(
    ("means", "name", "number"),
    [
        ("bubblewrap", "pipe", 1),
        ("bubblewrap", "pidfd_open", 1),
        ("bubblewrap", "pidfd_open", 2),
        ("landlock", "pidfd_open", 1),
    ],
)
def test_without_a_descriptor_left_code_is_refused_with_the_fix_and_nothing_runs_on(
    monkeypatch: pytest.MonkeyPatch, means: str, name: str, number: int
) -> None:
    executor, call, left = USUAL._replace(sandbox=means), getattr(os, name), number
    try:
        Worker(executor).close()
    except NoSandbox as missing:
        pytest.skip(f"no {means} here: {missing}")

    def called(*words: int) -> object:
        nonlocal left
        left -= 1
        if left == 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return call(*words)

    before, descriptors = children(), os.listdir("/proc/self/fd")
    monkeypatch.setattr(os, name, called)
    said = execute(Job("def run(): return 1", []), executor)
    assert left <= 0, "the call was made; what ends the worker may make it again"
    assert (said.code, said.cpu_s) == ("not_configured", 0.0)
    assert "Too many open files" in str(said.error)
    assert "ulimit -n" in str(said.fix)
    assert (children(), os.listdir("/proc/self/fd")) == (before, descriptors)


def test_where_namespaces_are_switched_off_only_the_weaker_means_run_code(sandbox: None) -> None:
    words = (sys.executable, "-c", NO_NAMESPACES)
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    if ran.returncode == 77:
        pytest.skip("no user namespace can be made here")
    assert ran.returncode == 0, ran.stderr
    refused, weaker = json.loads(ran.stdout)
    assert refused["error_code"] == "not_configured"
    assert "namespace" in refused["error"]
    assert refused["fix"].startswith("allow user namespaces")
    assert weaker["result"] == 1 or weaker["error_code"] == "not_configured", weaker


def test_a_limit_that_can_not_be_set_is_named_with_the_fix(sandbox: None) -> None:
    ran = subprocess.run(
        (sys.executable, "-c", FEW_FILES), capture_output=True, text=True, check=True, timeout=60
    )
    said = json.loads(ran.stdout)
    assert said["error"] == "no sandbox: OSError: the kernel refuses RLIMIT_NOFILE 64, the hard limit is 40"
    assert said["fix"].startswith("raise this hard limit of the daemon")


def test_a_module_that_can_not_be_preloaded_is_named(sandbox: None) -> None:
    said = execute(Job("def run(): return 1", []), USUAL._replace(preloaded_imports=("pydantic",)))
    assert said.code == "not_configured"
    assert said.error == "no sandbox: ModuleNotFoundError: No module named 'pydantic'"
    assert said.fix == "correct preloaded_imports in [exchange.executor]: modules of the standard library"
