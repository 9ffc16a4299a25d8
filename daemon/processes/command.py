"""One command as a child that waits at a gate until its launcher lets it run."""

import errno
import os
import signal
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, NoReturn

NOT_FOUND = 127
NOT_EXECUTABLE = 126
_NEVER_RELEASED = 125

# Python ignores these two; a command expects them as its caller had them (subprocess restores the same).
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class StartFailure(NamedTuple):
    """Why a command could not be started: the exit code that a shell gives, and what to tell people."""

    exit_code: int
    message: str


class GatedCommand:
    """A forked child that has not become its command yet. It ends by itself if its launcher goes away."""

    def __init__(self, pid: int, gate: int, report: int) -> None:
        self.pid = pid
        self._gate = gate
        self._report = report

    def release(self) -> StartFailure | None:
        """Lets the command run; returns once it does, or why it can't."""
        try:
            os.write(self._gate, b"!")
        except BrokenPipeError:
            pass  # somebody killed it while it waited: its wait status will say so
        os.close(self._gate)
        report = bytearray()
        while part := os.read(self._report, 4096):
            report += part
        os.close(self._report)
        return _failure(bytes(report)) if report else None

    def abandon(self) -> None:
        """Ends the child before it became anything."""
        os.close(self._gate)
        os.close(self._report)
        os.waitpid(self.pid, 0)


def fork_command(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    streams: Mapping[int, int],
    signal_mask: AbstractSet[int],
) -> GatedCommand:
    """Forks the child that will become `arguments`, at the gate.

    `streams` says which descriptor (1, 2) the command gets from which of ours; it keeps the others, the
    directory, the process group and the terminal of the caller. `signal_mask` is the one to run under.
    """
    gate_out, gate_in = os.pipe()
    report_out, report_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gate_in)
        os.close(report_out)
        _become(arguments, environment, streams, signal_mask, gate_out, report_in)
    os.close(gate_out)
    os.close(report_in)
    return GatedCommand(pid, gate_in, report_out)


def _become(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    streams: Mapping[int, int],
    signal_mask: AbstractSet[int],
    gate: int,
    report: int,
) -> NoReturn:
    try:
        for number, descriptor in streams.items():
            os.dup2(descriptor, number)
        if not os.read(gate, 1):
            os._exit(_NEVER_RELEASED)
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)
        _execute(arguments, environment)
    except OSError as error:
        os.write(report, f"{error.errno} {error.strerror}".encode())
    except ValueError as error:  # a NUL or a lone surrogate in a word
        os.write(report, f"0 {error}".encode(errors="replace"))
    finally:
        os._exit(NOT_EXECUTABLE)  # whatever happened: the child must not return into its parent's stack


def _execute(arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """As execvp(3): along PATH, and by the shell what has no interpreter line."""
    try:
        os.execvpe(arguments[0], list(arguments), environment)  # noqa: S606  # a shell would not be the command
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    script = _on_path(arguments[0], environment)
    os.execve("/bin/sh", ["sh", script, *arguments[1:]], environment)  # noqa: S606  # as above


def _on_path(program: str, environment: Mapping[str, str]) -> str:
    if "/" in program:
        return program
    for directory in os.get_exec_path(environment):
        path = os.path.join(directory, program)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return program


def _failure(report: bytes) -> StartFailure:
    number, _, message = report.decode(errors="replace").partition(" ")
    if number == str(errno.ENOENT):
        return StartFailure(NOT_FOUND, "command not found")
    return StartFailure(NOT_EXECUTABLE, message)
