"""Workers: started in the sandbox, given one piece of code, and killed with everything that it started."""

import base64
import json
import math
import os
import platform
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Protocol, Self, TypeAlias

from runward.config.exchange import Executor
from runward.config.json_value import JsonValue
from runward.daemon.processes.giving_way import NICENESS, session_gives_way
from runward.daemon.sandbox import system_calls
from runward.daemon.sandbox.bubblewrap import Bubblewrapped
from runward.daemon.sandbox.execution import (
    ENDING_S,
    MOST_LINE,
    Answer,
    Calls,
    CpuTime,
    EndExecution,
    Execution,
    is_call,
    read_answer,
    too_much,
)
from runward.daemon.sandbox.isolated import (
    END_S,
    Isolated,
    NoSandbox,
    cpu_of,
    milliseconds,
    pipes_of,
    readable,
    signal_to,
)
from runward.daemon.sandbox.landlock import Landlocked


class IsolationMethod(Protocol):
    """Starts processes that are isolated."""

    def __call__(self, executor: Executor, arguments: tuple[str, ...], /) -> Isolated:
        """Start one. Raises `NoSandbox`."""

    def check(self) -> None:
        """Raise `NoSandbox` if it is clearly unavailable. This starts nothing."""


ISOLATION_METHODS: Final[Mapping[str, IsolationMethod]] = MappingProxyType(
    {"bubblewrap": Bubblewrapped, "landlock": Landlocked}
)


MOST_CODE: Final = 1 << 20
"""The bytes that a piece of code may have, its arguments included."""

_START: Final = (
    "let the daemon start processes and open files: `ulimit -u` and `ulimit -n`, or Limit…= of its unit"
)
_START_S: Final = 20.0
_ENVELOPE: Final = 256
_LONGEST_COMPLAINT: Final = 4096
_OPEN_FILES: Final = 64
_TURN_S: Final = 0.05
_LONG_S: Final = 0.25
"""CPU seconds after which code gives way by its session, too. Most code has ended by then, on a busy machine as well."""
_SHORTEST_TURN_S: Final = 0.002

_SILENT: Final = "free memory and processor time, and look into the kernel's log for what ended it: `journalctl -k`, or `dmesg`"
"""What to do if a worker ended or hung without a complaint."""

_FIXES: Final = (
    ("Unknown option", "install bubblewrap 0.8 or later"),
    ("No module named", "correct preloaded_imports in [exchange.executor]: modules of the standard library"),
    (
        "the kernel refuses RLIMIT_",
        "raise this hard limit of the daemon: `ulimit -H`, or Limit…= of its unit",
    ),
    (
        "the kernel accepts no system call filter",
        "use a kernel with seccomp filters, and let a container or a unit's SystemCallFilter= allow prctl and seccomp",
    ),
    (
        "PermissionError: ",
        "let the daemon's processes do this: a unit's SystemCallFilter=, AppArmor or SELinux forbids it",
    ),
)
"""Words in a worker's complaint, and what to do about it."""

_ABOUT_THE_MEANS: Final = ("namespace", "Landlock", "not permitted", "denied", "No space left")
"""Words that only complaints of the isolation method contain: its own fix helps.

`No space left`: no further namespace is allowed.
"""

_UNKNOWN: Final = "run `runward doctor --only sandbox` again, and report this if it stays"

_End: TypeAlias = Literal["answer", "death", "files", "time", "cpu"]


class _Bounds(NamedTuple):
    """The deadline of the code (monotonic seconds), and the CPU time that it may use."""

    deadline: float
    cpu: CpuTime


class Job(NamedTuple):
    """What a worker runs: a function of the code, with arguments and further names that are global in it.

    Code that may ask the daemon has an `answer`, and finds its `dependencies` in `context`; a contract asks its ledger.
    """

    code: str
    arguments: Sequence[JsonValue]
    function: str = "run"
    names: Mapping[str, JsonValue] = MappingProxyType({})
    answer: Answer | None = None
    dependencies: Sequence[str] = ()
    is_contract: bool = False
    defines: Sequence[str] | None = None
    """Only compile the code, which must define one of these functions if there are any."""
    is_shown: bool = False
    """Whether what the code prints is kept, for a person who tries it."""


def execute(
    job: Job,
    executor: Executor,
    cpu: CpuTime | None = None,
    deadline: float = math.inf,
    take: "Callable[[Executor], Worker] | None" = None,
) -> Execution:
    """Run a job once, in a worker of its own. Blocks; never raises for what the code does.

    `take` gives the worker, by default one that is started now. `cpu` bounds and counts its CPU time. It ends at the
    `deadline` (monotonic seconds) at the latest. Exceptions of the job's `answer`, except its own two errors,
    propagate.
    """
    fields: dict[str, JsonValue] = {
        "code": job.code,
        "function": job.function,
        "args": list(job.arguments),
        "names": dict(job.names),
        "contract": job.is_contract,
    }
    if job.answer is not None:
        fields["dependencies"] = list(job.dependencies)
    if job.is_shown:
        fields["shown"] = True
    if job.defines is not None:
        fields["defines"] = list(job.defines)
    # The code and its arguments go in one line: the worker reads it whole before anything of it runs.
    line = json.dumps(fields).encode()
    if len(line) > MOST_CODE:
        return Execution(
            "invalid_argument", error=f"the code and its arguments are larger than {MOST_CODE} bytes"
        )
    if cpu is not None and cpu.is_used_up:
        return Execution("rate_limited", error=f"less than {ENDING_S:g} s of CPU time are left")
    try:
        with Worker(executor) if take is None else take(executor) as worker:
            return worker.run(line, cpu, job.answer, deadline, is_shown=job.is_shown)
    except NoSandbox as missing:
        return Execution("not_configured", error=f"no sandbox: {missing}", fix=missing.fix, sandbox=None)


class Worker:
    """A process in the sandbox that waits for one job. Closing it kills it and all that it started."""

    def __init__(self, executor: Executor, *, filtered: bool = True) -> None:
        """Start it, and wait until it has given up its rights. Raises `NoSandbox`.

        `filtered=False` leaves out the filter of system calls, so that a test can show what it is for.
        """
        self._executor = executor
        self._start_s = 0.0  # the CPU time of its start, which is charged to nobody
        self._inside = 0
        self._inside_s = 0.0
        self._seen_s = 0.0  # the CPU time of the job at the last check
        self._cpu_s: float | None = None
        self._full: str | None = None
        self._used = False
        self._gives_way = False
        self._prints = bytearray()
        self._is_shown = False
        try:
            source = Path(__file__).with_name("worker.py").read_text(encoding="utf-8")
            self._isolated = ISOLATION_METHODS[executor.sandbox](
                executor, ("-I", "-S", "-B", "-X", "utf8", "-c", source)
            )
            self._process = self._isolated.process
            self._stdin, self._stdout, self._stderr = pipes_of(self._process)
            try:
                self._get_ready(filtered)
            except BaseException:
                self.close()
                raise
        except OSError as error:
            raise NoSandbox(f"a worker can't be started: {error.strerror}", _START) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        job: bytes,
        cpu: CpuTime | None = None,
        answer: Answer | None = None,
        deadline: float = math.inf,
        *,
        is_shown: bool = False,
    ) -> Execution:
        """Have it run the job, and end it. The size of its answer and its time are bounded.

        `cpu` bounds the CPU time, to within some hundredths of a second. `answer` answers the code's calls, if it may
        make any.
        """
        if self._used:
            raise RuntimeError("a worker is used once")
        # Code could leave anything behind in the process, so the next piece of code gets another one.
        self._used = True
        began_at = time.monotonic()
        bounds = _Bounds(min(deadline, began_at + self._executor.timeout), cpu or CpuTime())
        so_far = self._cpu_so_far
        bounds.cpu.begin(so_far)
        try:
            self._is_shown = is_shown
            ended = self._run(job, bounds, answer, began_at)
            return ended._replace(printed=self._prints.decode("utf-8", "replace"))
        finally:
            self.close()
            bounds.cpu.end(so_far, self._cpu_s or 0.0)

    def _run(self, job: bytes, bounds: _Bounds, answer: Answer | None, began_at: float) -> Execution:
        self._write(job + b"\n", bounds.deadline)
        calls = None if answer is None else Calls(answer)
        # Without its pipe, the code can't even wait for an answer.
        if calls is None:
            self._stdin.close()
        ended: EndExecution | None = None
        try:
            began, output, end = self._hear(bounds, calls)
        except EndExecution as raised:
            began, output, end, ended = True, b"", "answer", raised
        wall_ms = (time.monotonic() - began_at) * 1000
        if self._is_shown:
            self._read_prints()
        # Killed before what it wrote is looked at: the code's threads can't use anything more.
        self.close()
        execution = (
            self._became(output, end, bounds, asking=calls is not None and is_call(output))
            if ended is None
            else Execution(ended.code, error=ended.error)
        )
        began = began or execution.code in ("timeout", "killed", "rate_limited")
        return execution._replace(
            began=began, wall_ms=wall_ms, cpu_s=self._cpu_s or 0.0, sandbox=self._isolated.means
        )

    def _became(self, output: bytes, end: _End, bounds: _Bounds, *, asking: bool) -> Execution:
        """The result of the code, from its last line and the reason why no more followed."""
        line, newline, _ = output.partition(b"\n")
        if newline and not asking:
            return read_answer(line, self._executor.output)
        match end:
            case "answer" if asking:
                return Execution("output_limit", error=f"a call of the code is larger than {MOST_LINE} bytes")
            case "answer":
                return too_much(self._executor.output)
            case "files":
                return Execution("killed", error=self._full)
            case "cpu":
                most = bounds.cpu.most or 0.0
                return Execution(
                    "rate_limited", error=f"the code used up the remaining {most:.3g} s of CPU time"
                )
            case "death":
                return Execution("killed", error=f"the worker died without an answer{self._how()}")
            case "time":
                return Execution("timeout", error=f"the code took longer than {self._executor.timeout:g} s")

    @property
    def pid(self) -> int:
        """The process that runs the code."""
        return self._inside

    @property
    def is_waiting(self) -> bool:
        """Whether it is alive, waits for its job, and would still be started with the same limits."""
        return not self._used and not self.has_died and self._isolated.is_current()

    @property
    def has_died(self) -> bool:
        """Whether it, or what isolates it, has ended. Ask this before closing it."""
        return any(readable(each, 0.0) for each in (self._isolated.outer, self._inner))

    def close(self) -> None:
        """End it, and count its CPU time."""
        if self._cpu_s is not None:
            return
        seen = self._cpu_so_far() if self._used else 0.0
        self._cpu_s = max(seen, self._isolated.end() - self._start_s)

    @property
    def _inner(self) -> int:
        assert self._isolated.inner is not None, "it was started"
        return self._isolated.inner

    @property
    def _most(self) -> int:
        return self._executor.output + _ENVELOPE

    def _get_ready(self, filtered: bool) -> None:
        deadline = time.monotonic() + _START_S
        pid = self._isolated.find(deadline)
        if pid is None:
            raise NoSandbox(*self._complaint())
        # Made here, because the worker has no packages. It is installed by the worker on itself, as the last
        # of its rights goes.
        allowed = system_calls.program(platform.machine(), self._isolated.has_namespaces) if filtered else b""
        setup = {
            "filter": base64.b64encode(allowed).decode(),
            "preloaded": list(self._executor.preloaded_imports),
            "output": self._executor.output,
            "niceness": NICENESS,
            "limits": {
                "AS": self._executor.memory,
                "FSIZE": self._executor.tmp,
                "CPU": int(self._executor.timeout) + 2,
                "NOFILE": _OPEN_FILES,
                "NPROC": self._isolated.threads,
                "CORE": 0,
                "MEMLOCK": 0,
                "MSGQUEUE": 0,
            },
            **self._isolated.setup,
        }
        self._write(json.dumps(setup).encode() + b"\n", deadline)
        # Only after this sign has it given up its rights, and asked the kernel to end with its parent. No job is given to a
        # worker that didn't say so, or whose parent was gone by then.
        if not self._says_that_it_is_ready(deadline) or readable(self._isolated.outer, 0.0):
            raise NoSandbox(*self._complaint())
        try:
            self._isolated.watch()
            self._inside = pid
            self._inside_s = cpu_of(pid)
            # The start of the interpreter is nobody's code, so it isn't charged.
            self._start_s = (
                self._inside_s if pid == self._process.pid else cpu_of(self._process.pid) + self._inside_s
            )
        except OSError as error:
            raise NoSandbox(
                f"the worker can't be watched: {error}", "let the daemon see its own processes in /proc"
            ) from error

    def _says_that_it_is_ready(self, deadline: float) -> bool:
        poll = select.poll()
        for each in (self._stdout.fileno(), self._isolated.outer):
            poll.register(each, select.POLLIN)
        poll.poll(milliseconds(deadline))
        return readable(self._stdout.fileno(), 0.0) and os.read(self._stdout.fileno(), 1) == b"+"

    def _give_way(self) -> None:
        """Have its session give way once the code has worked for long. If the kernel refuses that, it is tried again."""
        if not self._gives_way and self._seen_s >= _LONG_S:
            self._gives_way = session_gives_way(self._inside, lambda: not readable(self._inner, 0.0))

    def _complaint(self) -> tuple[str, str]:
        """Why it didn't start, according to the last line on stderr, and what to do about it."""
        complaint = b""
        deadline = time.monotonic() + END_S
        while len(complaint) < _LONGEST_COMPLAINT and readable(self._stderr.fileno(), deadline):
            piece = os.read(self._stderr.fileno(), _LONGEST_COMPLAINT)
            if not piece:
                break
            complaint += piece
        lines = complaint.decode("utf-8", "replace").strip().splitlines()
        if not lines:
            return "the worker didn't start, and gave no reason", _SILENT
        why = lines[-1]
        for words, fix in _FIXES:
            if words in why:
                return why, fix
        return why, self._isolated.fix if any(each in why for each in _ABOUT_THE_MEANS) else _UNKNOWN

    def _write(self, data: bytes, deadline: float) -> bytes:
        """Write as much as it takes before the deadline, and return the rest."""
        # The code may never read. A write that waited for it would hold this thread past the deadline.
        os.set_blocking(self._stdin.fileno(), False)
        poll = select.poll()
        poll.register(self._stdin.fileno(), select.POLLOUT)
        while data and poll.poll(milliseconds(deadline)):
            try:
                data = data[os.write(self._stdin.fileno(), data) :]
            except BrokenPipeError:  # it died; its answer will be missing
                return b""
        return data

    def _read_prints(self) -> None:
        """Take what the code has printed, so that it can print on. Only bytes that it may print are kept."""
        while len(self._prints) < self._most and readable(self._stderr.fileno(), 0.0):
            piece = os.read(self._stderr.fileno(), self._most)
            if not piece:
                break
            self._prints += piece

    def _hear(self, bounds: _Bounds, calls: Calls | None) -> tuple[bool, bytes, _End]:
        """Whether foreign code began, the first line that isn't a call (or its beginning), and why no more followed."""
        output = bytearray()
        began = False
        look_again_at = 0.0
        while True:
            # The worker's own mark that foreign code begins. What fails before it is not the code's fault,
            # and costs nothing.
            if not began and output.startswith(b"*"):
                began = True
                del output[:1]
            asking = calls if began and is_call(output) else None
            end = output.find(b"\n")
            if (asking is None and end >= 0) or len(output) > (self._most if asking is None else MOST_LINE):
                # Code may have written too much since that was last measured: then its answer doesn't count.
                self._full = self._isolated.overfull(is_over=True)
                if self._full is not None:
                    return began, bytes(output.partition(b"\n")[0]), "files"
                return began, bytes(output), "answer"
            # Whatever it prints or asks, its bounds are checked after each turn.
            if time.monotonic() >= look_again_at:
                passed = self._passed(bounds)
                if passed is not None:
                    return began, bytes(output.partition(b"\n")[0]), passed
                self._give_way()
                if self._is_shown:
                    self._read_prints()
                look_again_at = time.monotonic() + _turn(bounds.cpu)
            if asking is not None and end >= 0:
                line = bytes(output[:end])
                del output[: end + 1]
                self._reply(line, bounds, asking)
            elif readable(self._stdout.fileno(), min(bounds.deadline, look_again_at)):
                piece = os.read(self._stdout.fileno(), 65536)
                if not piece:
                    return began, bytes(output), "death"
                output += piece

    def _reply(self, line: bytes, bounds: _Bounds, calls: Calls) -> None:
        """Answer a call."""
        # All its threads stand still while the daemon works out the answer, so no CPU time passes unwatched.
        signal_to(self._inner, signal.SIGSTOP)
        try:
            reply = calls.reply(line)
        finally:
            signal_to(self._inner, signal.SIGCONT)
        while reply and self._passed(bounds) is None:  # which is found again before the next line
            reply = self._write(reply, min(bounds.deadline, time.monotonic() + _TURN_S))

    def _passed(self, bounds: _Bounds) -> _End | None:
        """Which of its bounds the code has exceeded."""
        self._cpu_so_far()
        self._full = self._isolated.overfull()
        if self._full is not None:
            return "files"
        if time.monotonic() >= bounds.deadline:
            return "time"
        if bounds.cpu.is_used_up:
            return "cpu"
        return None

    def _cpu_so_far(self) -> float:
        """The CPU seconds of the job; after its death, those of the last check."""
        try:
            # Remembered at each look: if what isolates it is killed first, the kernel doesn't add the time up
            # at the end.
            self._seen_s = max(self._seen_s, cpu_of(self._inside) - self._inside_s)
        except OSError:
            pass  # the end of its pipe says so
        return self._seen_s

    def _how(self) -> str:
        """Which signal killed it, if bubblewrap's exit code says so."""
        code = self._process.returncode
        number = code - 128 if code > 128 else -code
        try:
            return f" ({signal.Signals(number).name})"
        except ValueError:
            return f" (exit {code})"


def _turn(cpu: CpuTime) -> float:
    """How long code may run unwatched (seconds): too short for all its threads to use up the CPU time that is left."""
    # All its threads together may use as many seconds as there are cores, in one second.
    return min(_TURN_S, max(_SHORTEST_TURN_S, cpu.left / (os.cpu_count() or 1)))


IDLE_S: Final = 60.0
"""How long workers are kept ready after code ran last."""


# One thread starts them and lives as long as the daemon: the kernel kills a worker when the thread that
# started it ends. They are kept ready only for a while after code ran, since most daemons never run any.
class ReadyWorkers:
    """Keeps as many workers ready as may run at the same time, for each kind that was used recently."""

    def __init__(self, idle_s: float = IDLE_S, died: Callable[[str], None] = lambda reason: None) -> None:
        """`died` is called for each worker that ended while it waited."""
        self._died = died
        self._idle_s = idle_s
        self._ready: dict[Executor, deque[Worker]] = {}
        self._asked: dict[Executor, float] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def take(self, executor: Executor) -> Worker:
        """An unused worker, a ready one if there is any. The caller closes it. Raises `NoSandbox`."""
        with self._changed:
            self._asked[executor] = time.monotonic()
            self._ensure_thread()
        worker = self._alive(executor)
        return Worker(executor) if worker is None else worker

    def _ensure_thread(self) -> None:
        if self._thread is not None or self._is_closed:
            return
        thread = threading.Thread(target=self._keep, name="ready workers", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the machine has no thread left: none is kept ready for now
            return
        self._thread = thread

    def close(self) -> None:
        """End the waiting workers. From then on, each worker is started when it is taken."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    @property
    def count(self) -> int:
        """How many are ready."""
        with self._changed:
            return sum(len(each) for each in self._ready.values())

    def _alive(self, executor: Executor) -> Worker | None:
        while True:
            with self._changed:
                waiting = self._ready.get(executor)
                worker = waiting.popleft() if waiting else None
                # Not before: the thread would find none missing, and the next one would be started only when another is taken.
                self._changed.notify()
            # The rest is outside the lock: the end of a worker may take long, and others must not wait for it.
            if worker is None:
                return None
            try:
                # It may have died while it waited, or its limits may no longer fit the machine.
                if worker.is_waiting:
                    return worker
                if worker.has_died:
                    self._died("it ended while it waited for code")
            except OSError:
                pass  # its limits can't be compared for now; nobody else ends it
            worker.close()

    def _keep(self) -> None:
        while True:
            with self._changed:
                idle = self._take_idle()
                is_closed = self._is_closed
                lacking = next(
                    (each for each in self._asked if len(self._ready.get(each, ())) < each.workers), None
                )
                if lacking is None and not idle and not is_closed:
                    self._changed.wait(self._idle_s if self._asked else None)
                    continue
            # Outside the lock: the end of a worker may take long, and `take` must not wait for it.
            for each in idle:
                each.close()
            if is_closed:
                return
            if lacking is None:
                continue
            try:
                # Outside the lock: a start takes long, and `take` must not wait for it.
                worker = Worker(lacking)
            except NoSandbox:  # the code that needs one gets the error
                with self._changed:
                    self._asked.pop(lacking, None)
                continue
            with self._changed:
                self._ready.setdefault(lacking, deque()).append(worker)

    def _take_idle(self) -> list[Worker]:
        """The workers that nobody has asked for in a while: they are to be closed."""
        now = time.monotonic()
        for executor, asked in list(self._asked.items()):
            if self._is_closed or now >= asked + self._idle_s:
                del self._asked[executor]
        return [
            worker
            for executor in self._ready.keys() - self._asked.keys()
            for worker in self._ready.pop(executor)
        ]
