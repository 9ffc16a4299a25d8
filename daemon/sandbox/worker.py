"""What runs inside the sandbox: it gives up its rights, runs one job, writes one answer and ends.

The daemon hands this file's text to the interpreter inside, which has the standard library and nothing else. Before
foreign code runs, this process is trusted. From then on the daemon trusts nothing that it writes.

It reads a line of limits, writes `+`, reads a line with its job, and writes its answer as a line. A `*` before the first
line says that foreign code began. Where the job allows it, code may ask the daemon before that: a line for each call, and
a line for its answer.
"""

import base64
import ctypes
import io
import json
import os
import resource
import signal
import sys
from _thread import allocate_lock
from contextlib import suppress
from importlib import import_module
from opcode import opmap
from types import CodeType, SimpleNamespace
from typing import NoReturn

_QUESTIONS, _ANSWERS, _PRINTS = 0, 1, 2
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_CAPABILITY_VERSION_3 = 0x20080522
_LANDLOCK_RESTRICT_SELF = 446
_SECCOMP_MODE_FILTER = 2
_LONGEST_TEXT = 2000
_TOO_MUCH = "output_limit"
_LARGEST = 2**63 - 1
_LEVELS, _LEVELS_OF_ARGUMENTS = 49, 48
"""What the daemon's reader of JSON takes (`config/json_value.py`): its levels, less those that the line has itself."""
_NOT_FOR_CONTRACTS = ("__import__", "open", "eval", "exec", "compile", "input")
_USUAL = ("run", "check_permission")
"""The functions that code has; others are methods that its interface lists."""
_STORING = (opmap["STORE_NAME"], opmap["STORE_GLOBAL"])
_EXTENDED = opmap["EXTENDED_ARG"]
_SECONDS_OF_CONTRACT = 1.0
"""For a contract's definition, and for its call again."""


class _Program(ctypes.Structure):
    """`struct sock_fprog` of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class _Counting(io.TextIOBase):
    """Discards what the code prints, unless it is shown, and ends the process if it prints too much."""

    def __init__(self, most: int, shown: bool) -> None:
        self._left = most
        self._shown = shown

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        content = str(text).encode("utf-8", "replace")
        self._left -= len(content)
        if self._left < 0:
            _answer({"code": _TOO_MUCH})
        if self._shown:
            os.write(_PRINTS, content)
        return len(text)


_talking = allocate_lock()
"""Held while a call waits for its answer, and from the last answer to the end: lines of two threads don't mix."""


def _write(line: bytes) -> None:
    while line:
        line = line[os.write(_ANSWERS, line) :]


def _answer(fields: dict[str, object]) -> NoReturn:
    """Write the answer, and end before anything else can."""
    line = json.dumps(fields, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"
    # Never released: what other threads still want to say would stand behind the answer.
    _talking.acquire()
    _write(line)
    os._exit(0)


class _Kernel:
    """What the code may ask the daemon. The daemon checks each call again, because code can forge calls."""

    def __init__(self) -> None:
        self._asked = 0

    def ask(self, name: str, *args: object) -> object:
        """The daemon's answer. Raises `ValueError` with its message if it refuses the call."""
        try:
            plain = [_as_json(each, _LEVELS_OF_ARGUMENTS) for each in args]
        except _TooMuch as error:
            raise ValueError(f"{name}: an argument {error}") from None
        line = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        words = f'"name": "{name}", "args": {line}}}\n'.encode()
        # The answer of one thread must not be read by another.
        with _talking:
            self._asked += 1
            _write(b'{"call": %d, ' % self._asked + words)
            answer = json.loads(self._line())
        if "error" in answer:
            raise ValueError(answer["error"])
        value: object = answer["value"]
        return value

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            piece = os.read(_QUESTIONS, 1 << 16)
            if not piece:
                os._exit(1)
            line += piece
        return line

    def ledger(self) -> object:
        """What a contract may look at."""
        ask = self.ask
        return SimpleNamespace(
            get_scrip=lambda each: ask("ledger.get_scrip", each),
            can_afford_scrip=lambda each, amount: ask("ledger.can_afford_scrip", each, amount),
            get_resource=lambda each, name: ask("ledger.get_resource", each, name),
            can_spend_resource=lambda each, name, amount: ask(
                "ledger.can_spend_resource", each, name, amount
            ),
            get_all_resources=lambda each: ask("ledger.get_all_resources", each),
            principal_exists=lambda each: ask("ledger.principal_exists", each),
        )

    def names(self, dependencies: list[str]) -> dict[str, object]:
        """The globals through which the code asks."""
        ask = self.ask

        def invoke(artifact_id: str, *args: object, method: str = "run") -> object:
            return ask(
                "invoke", artifact_id, method, [_as_json(each, _LEVELS_OF_ARGUMENTS - 1) for each in args]
            )

        def dependency(artifact_id: str) -> object:
            return SimpleNamespace(invoke=lambda *args: invoke(artifact_id, *args))

        def get_resource(principal_id: str, name: str) -> object:
            return ask("kernel_state.get_resource", principal_id, name)

        def read_artifact(artifact_id: str, caller_id: str) -> object:
            return ask("kernel_state.read_artifact", artifact_id, caller_id)

        def transfer_scrip(caller_id: str, to: str, amount: object) -> object:
            return ask("kernel_actions.transfer_scrip", caller_id, to, amount)

        def transfer_resource(caller_id: str, to: str, name: str, amount: object) -> object:
            return ask("kernel_actions.transfer_resource", caller_id, to, name, amount)

        def write_artifact(caller_id: str, artifact_id: str, content: str, type: str = "generic") -> object:  # noqa: A002  # the name that code uses
            return ask("kernel_actions.write_artifact", caller_id, artifact_id, content, type)

        return {
            "get_balance": lambda: ask("get_balance"),
            "pay": lambda to, amount: ask("pay", to, amount),
            "invoke": invoke,
            "context": SimpleNamespace(dependencies={each: dependency(each) for each in dependencies}),
            "kernel_state": SimpleNamespace(
                get_balance=lambda principal_id: ask("kernel_state.get_balance", principal_id),
                get_resource=get_resource,
                list_artifacts_by_owner=lambda owner: ask("kernel_state.list_artifacts_by_owner", owner),
                get_artifact_metadata=lambda each: ask("kernel_state.get_artifact_metadata", each),
                read_artifact=read_artifact,
            ),
            "kernel_actions": SimpleNamespace(
                transfer_scrip=transfer_scrip,
                transfer_resource=transfer_resource,
                write_artifact=write_artifact,
            ),
        }


def _limit(limits: dict[str, int]) -> None:
    for name, most in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        try:
            resource.setrlimit(kind, (most, most))
        except (OSError, ValueError) as error:
            hard = resource.getrlimit(kind)[1]
            raise OSError(f"the kernel refuses RLIMIT_{name} {most}, the hard limit is {hard}") from error


def _give_way(niceness: int) -> None:
    """Lower the priority and the class of the code, so that verdicts don't wait for it. The daemon lowers its session.

    If a unit forbids that, it keeps the daemon's: slower for the daemon, but just as safe.
    """
    with suppress(PermissionError):
        os.nice(niceness)
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _install(program: bytes) -> None:
    """Have the kernel refuse every system call that the filter doesn't allow, from here to the end."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    held = ctypes.create_string_buffer(program, len(program))
    described = _Program(len(program) // 8, ctypes.cast(held, ctypes.c_void_p))
    refusal = "the kernel accepts no system call filter"
    _check(prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), refusal)
    _check(prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0), refusal)


def _restrict(ruleset: int) -> None:
    """Do what namespaces would do: end with the daemon, and give up all rights and all files but the ruleset's."""
    libc = ctypes.CDLL(None, use_errno=True)
    this = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    refusal = "the kernel accepts no Landlock ruleset"
    _check(libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), refusal)
    _check(libc.capset(ctypes.byref(this), ctypes.byref((ctypes.c_uint32 * 6)())), refusal)
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), refusal)
    _check(libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0), refusal)
    os.close(ruleset)


def _check(returned: int, refusal: str) -> None:
    """Raise if a system call failed: a plain `OSError`, never a subclass, so that its line always begins the same way."""
    if returned != 0:
        raise OSError(f"{refusal}: {os.strerror(ctypes.get_errno())}")


def _text(value: object) -> str:
    """The value's text, whatever its own `__repr__` does."""
    try:
        return str(value)[: 1 << 20].encode("utf-8", "backslashreplace").decode("utf-8")
    except BaseException:  # noqa: BLE001  # foreign code runs in __str__
        return f"<{type(value).__name__} without a text>"


def _line_of(error: BaseException) -> str:
    """Where in the code the error was raised."""
    trace, line = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<code>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {line})" if line else ""


def _refused(error: BaseException) -> NoReturn:
    if isinstance(error, MemoryError):
        _answer({"code": "killed", "error": "the code needed more memory than its limit"})
    text = f"{type(error).__name__}: {_text(error)[:_LONGEST_TEXT]}"
    _answer({"code": "runtime_error", "error": text + _line_of(error)})


class _TooMuch(Exception):
    """A value is too deep or too long to be told."""


def _as_json(value: object, levels: int) -> object:
    """The value if the daemon's JSON can hold it, else its text. Raises `_TooMuch`.

    The daemon refuses what other programs read differently: large integers, keys that become the same, many levels.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
        plain: object = json.loads(text, object_pairs_hook=_once, parse_int=_whole)
        if _fits(plain, levels):
            return plain
    except (TypeError, ValueError, RecursionError):
        pass  # then its text says what it is
    try:
        return str(value).encode("utf-8", "backslashreplace").decode("utf-8")
    except RecursionError:
        raise _TooMuch("is nested too deeply") from None
    except MemoryError:
        raise
    except BaseException as error:  # noqa: BLE001  # foreign code runs in __str__
        if isinstance(error, ValueError) and str(error).startswith("Exceeds the limit"):
            raise _TooMuch("has too many digits") from None
        return _text(value)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key appears twice")
    return table


def _whole(digits: str) -> int:
    number = int(digits)
    if abs(number) > _LARGEST:
        raise ValueError("an integer has more than 64 bits")
    return number


def _fits(plain: object, levels: int) -> bool:
    """Whether no object or list of it is deeper than this."""
    level = [plain]
    for _ in range(levels):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return not any(isinstance(each, dict | list) for each in level)


def _compiled(source: str) -> CodeType:
    if not source.strip():
        _answer({"code": "invalid_argument", "error": "the code is empty"})
    try:
        # The future statements of this file must not change the meaning of foreign code.
        code = compile(source, "<code>", "exec", dont_inherit=True)
    except MemoryError:
        _answer({"code": "invalid_argument", "error": "the code is nested too deeply to be compiled"})
    except SyntaxError as error:
        message = f"SyntaxError: {error.msg} (line {error.lineno})"
        _answer({"code": "invalid_argument", "error": message})
    except (ValueError, RecursionError, OverflowError) as error:
        _answer({"code": "invalid_argument", "error": f"{type(error).__name__}: {_text(error)}"})
    return code


def _check_function(code: CodeType, function: str) -> None:
    named = code.co_names if function in _USUAL else _defined(code)
    if function not in named:
        kind = "invalid_argument" if function in _USUAL else "not_found"
        _answer({"code": kind, "error": f"the code defines no function {function}"})


def _check_definitions(code: CodeType, functions: list[str]) -> NoReturn:
    """Answer whether the code defines one of these, without running it."""
    if functions and not _defined(code) & set(functions):
        error = f"the code defines no function {' or '.join(functions)}"
        _answer({"code": "invalid_argument", "error": error})
    _answer({"result": None})


def _defined(code: CodeType) -> set[str]:
    """The names that the code itself gives a value to, as its instructions say, without running it."""
    defined, argument = set(), 0
    for operation, byte in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument = argument << 8 | byte
        if operation in _STORING:
            defined.add(code.co_names[argument])
        if operation != _EXTENDED:
            argument = 0
    return defined


def _run(job: dict[str, object], known: dict[str, object]) -> NoReturn:
    function, arguments, names = str(job.get("function", "run")), job["args"], job.get("names", {})
    assert isinstance(arguments, list)
    assert isinstance(names, dict)
    code = _compiled(str(job["code"]))
    defines = job.get("defines")
    if isinstance(defines, list):
        _check_definitions(code, defines)
    _check_function(code, function)
    known |= names
    is_contract = job.get("contract") is True
    dependencies = job.get("dependencies")
    if is_contract:
        ledger = _Kernel().ledger()
        known |= {"ledger": ledger, "__builtins__": _builtins_of_contracts()}
    elif isinstance(dependencies, list):
        known |= _Kernel().names(dependencies)
    else:
        # Code that may ask nothing gets no pipe to the daemon.
        os.close(_QUESTIONS)
    # Foreign code begins here. What goes wrong before it is not the code's fault.
    os.write(_ANSWERS, b"*")
    try:
        _limit_contract(is_contract)
        exec(code, known)  # noqa: S102  # it is what the sandbox is for
        called = known.get(function)
        if not callable(called):
            raise TypeError(f"the code defines no function {function}")
        if is_contract and _takes_ledger(called):
            arguments = [*arguments, ledger]
        # Once more: the definitions and the call each have the whole time.
        _limit_contract(is_contract)
        result = _as_json(called(*arguments), _LEVELS)
    except _TooMuch as error:
        _answer({"code": _TOO_MUCH, "error": f"the result {error}"})
    except BaseException as error:  # noqa: BLE001  # sys.exit and KeyboardInterrupt are errors of the code, too
        _refused(error)
    _answer({"result": result})


def _builtins_of_contracts() -> dict[str, object]:
    """The built-in names that a contract may use."""
    names = vars(sys.modules["builtins"])
    return {name: value for name, value in names.items() if name not in _NOT_FOR_CONTRACTS}


def _takes_ledger(called: object) -> bool:
    code = getattr(called, "__code__", None)
    return isinstance(code, CodeType) and code.co_argcount > 4


def _limit_contract(is_contract: bool) -> None:
    if is_contract:
        signal.signal(signal.SIGALRM, _too_long)
        signal.setitimer(signal.ITIMER_REAL, _SECONDS_OF_CONTRACT)


def _too_long(number: int, frame: object) -> NoReturn:
    """A contract's time is up. It may hold the lock `_talking`, so the answer doesn't wait for that."""
    message = f"the contract took longer than {_SECONDS_OF_CONTRACT:g} s"
    _write(json.dumps({"code": "runtime_error", "error": message}).encode() + b"\n")
    os._exit(0)


def main() -> NoReturn:
    """Give up all rights that can be given up, then run the job."""
    setup = json.loads(sys.stdin.buffer.readline())
    known: dict[str, object] = {"__name__": "__artifact__", "__builtins__": __builtins__}
    # Before the rights are given up, because modules are files.
    known |= {name: import_module(name) for name in setup["preloaded"]}
    program = base64.b64decode(setup["filter"])
    # The order is that of what each step still needs: limits first, then the files, and last the filter,
    # which forbids the calls that the others make.
    _limit(setup["limits"])
    _give_way(setup["niceness"])
    if "ruleset" in setup:
        _restrict(setup["ruleset"])
    if program:
        _install(program)
    # From here on the process can't get any right back.
    os.write(_ANSWERS, b"+")
    job = json.loads(sys.stdin.buffer.readline())
    is_shown = job.get("shown") is True
    if not is_shown:
        os.close(_PRINTS)
    counting = _Counting(setup["output"], is_shown)
    for name, stream in (("stdin", None), ("stdout", counting), ("stderr", counting)):
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = [""]
    _run(job, known)


if __name__ == "__main__":
    main()
