"""One command as a child that waits at a gate until its launcher lets it run; on request in a PID namespace.

When the first process of the namespace ends, the kernel ends all others in it. There are two processes between launcher
and command. The first makes the namespaces and ends. The second is the namespace's first process: an `init`, which
reaps every process that nobody waits for, and passes the command's wait status to the launcher. An ordinary user needs a
user namespace around all this, in which everybody keeps their number.
"""

from __future__ import annotations

import errno
import os
import signal
import time

from runward.daemon.launch.cgroup import ContainmentUnavailable
from runward.daemon.processes import proc
from runward.daemon.processes.kernel import (
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    become_subreaper,
    mount_own_proc,
    unshare,
)
from runward.daemon.processes.stand_ins import Value

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import NoReturn


NOT_FOUND = 127
NOT_EXECUTABLE = 126
_NEVER_RELEASED = 125
_LONGEST_REPORT = 4096

# Python ignores these two; a command expects them as its caller had them (subprocess restores the same).
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class StartFailure(Value):
    """Why a command could not be started: the exit code that a shell gives, and what to tell people."""

    exit_code: int
    message: str


class Forked(Value):
    """A forked child, the pipe that releases it, and the pipe on which it reports why it can't start."""

    pid: int
    gate: int
    report: int


class GatedCommand:
    """A forked child that has not become its command yet. It ends if its launcher dies.

    `own` are the processes that do not count as its survivors. If its end is not learnt by waiting for a child,
    `status_descriptor` becomes readable then.
    """

    status_descriptor: int | None = None

    def __init__(self, forked: Forked) -> None:
        self.forked = forked
        self.pid = forked.pid
        self.own = frozenset({forked.pid})
        self._report = bytearray()

    def status_among(self, exits: Mapping[int, int]) -> int | None:
        """The command's wait status if it has ended; `exits` are those of the launcher's children."""
        return exits.get(self.pid)

    def release(self) -> None:
        """Lets the command run, and doesn't wait until it does: a directory or a program on a dead disk never answers."""
        try:
            os.write(self.forked.gate, b"!")
        except BrokenPipeError:
            pass  # somebody killed it while it waited: its wait status will say so
        os.close(self.forked.gate)
        os.set_blocking(self.forked.report, False)

    def has_begun(self) -> bool:
        """Whether the living child has become its command by now, or has reported why it can't."""
        # The other end is closed by a successful exec. So the end of the pipe, without a report, says that
        # the command runs.
        try:
            self._report += os.read(self.forked.report, _LONGEST_REPORT)
        except BlockingIOError:
            return False
        return True

    def start_failure(self) -> StartFailure | None:
        """What it reported; None if it became its command, or hangs. Asked once, when nothing more is expected of it."""
        try:
            while part := os.read(self.forked.report, _LONGEST_REPORT):
                self._report += part
        except BlockingIOError:
            pass
        os.close(self.forked.report)
        return _failure(bytes(self._report)) if self._report else None

    def abandon(self) -> None:
        """Ends the child before it becomes the command."""
        self.close()
        self._kill_and_wait(self.pid)

    def _kill_and_wait(self, child: int) -> None:
        # It ends by itself, unless somebody has stopped it. It is not waited for yet, so its number can't have been reused.
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    def close(self) -> None:
        """Releases the child's pipe, and the child ends."""
        os.close(self.forked.gate)
        os.close(self.forked.report)


def fork_command(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    streams: Mapping[int, int],
    signal_mask: AbstractSet[int],
    cwd: str | None = None,
    prepare: Callable[[tuple[int, ...]], None] | None = None,
    fork: Callable[[], int] = os.fork,
) -> GatedCommand:
    """Forks the child that will become `arguments`, and that waits at the gate.

    `streams` says which of our descriptors become the command's descriptors 1 and 2. It keeps the caller's other
    descriptors, process group and terminal, and its directory unless `cwd` is another. `signal_mask` is the one to run
    under. `prepare` is called in the child first; it may fork, and in the other processes it closes what only the
    command may hold.
    """
    # Two pipes hold the child: through one the launcher lets it go, through the other the child reports why
    # it can't start. If the launcher dies, the gate ends and so does the child, so no command runs without a
    # record.
    gate_out, gate_in = os.pipe()
    report_out, report_in = os.pipe()
    # Worked out before the fork: each page that the child touches until it is the command is copied for it.
    paths = _paths_of(arguments[0], environment)
    pid = fork()
    if pid == 0:
        os.close(gate_in)
        os.close(report_out)
        _become(
            paths=paths,
            arguments=arguments,
            environment=environment,
            streams=streams,
            signal_mask=signal_mask,
            cwd=cwd,
            prepare=prepare,
            gate=gate_out,
            report=report_in,
        )
    os.close(gate_out)
    os.close(report_in)
    return GatedCommand(Forked(pid, gate_in, report_out))


def _become(
    paths: Sequence[str],
    arguments: Sequence[str],
    environment: Mapping[str, str],
    streams: Mapping[int, int],
    signal_mask: AbstractSet[int],
    cwd: str | None,
    prepare: Callable[[tuple[int, ...]], None] | None,
    gate: int,
    report: int,
) -> NoReturn:
    try:
        if prepare is not None:
            prepare((gate, report))
        for number, descriptor in streams.items():
            os.dup2(descriptor, number)
        # An end without a byte: the launcher has died or gave the start up.
        if not os.read(gate, 1):
            os._exit(_NEVER_RELEASED)
        if cwd is not None:
            _enter(cwd)
        # Python ignores these for itself. A command would inherit that, and a pipeline would not end at
        # SIGPIPE.
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        # The launcher blocks the signals that it reads. The command runs under the mask that the caller had.
        signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)
        _execute(paths, arguments, environment)
    except OSError as error:
        os.write(report, f"{error.errno} {error.strerror}".encode())
    except ValueError as error:  # a NUL or a lone surrogate in a word, or no such directory
        os.write(report, f"0 {error}".encode(errors="replace"))
    finally:
        os._exit(NOT_EXECUTABLE)  # whatever happened: the child must not return into its parent's stack


def _enter(directory: str) -> None:
    """Raises ValueError: a missing directory doesn't mean that the command is not found."""
    try:
        os.chdir(directory)
    except OSError as error:
        raise ValueError(f"its directory {directory} can't be entered: {error.strerror}") from None


def _paths_of(program: str, environment: Mapping[str, str]) -> list[str]:
    """Where execvp(3) looks for a program, in order."""
    if "/" in program:
        return [program]
    return [os.path.join(directory, program) for directory in os.get_exec_path(environment)]


def _execute(paths: Sequence[str], arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Like execvp(3): the first of the paths that can be executed, and through the shell if there is no interpreter line."""
    words = list(arguments)
    refused: OSError | None = None
    absent: OSError | None = None
    for path in paths:
        try:
            os.execve(path, words, environment)  # noqa: S606  # a shell would not be the command
        except (FileNotFoundError, NotADirectoryError) as error:
            absent = error
        except OSError as error:
            refused = refused or error
    if refused is None:
        raise absent or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    file = arguments[0] if "/" in arguments[0] else _file_among(paths)
    if isinstance(refused, PermissionError) and file is None:
        # A directory of PATH that we may not search: a shell skips it.
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if refused.errno != errno.ENOEXEC:
        raise refused
    script = file or arguments[0]
    os.execve("/bin/sh", ["sh", script, *words[1:]], environment)  # noqa: S606  # as above


def _file_among(paths: Sequence[str]) -> str | None:
    """The first executable file of these; failing that, any file."""
    files = [path for path in paths if os.path.isfile(path)]
    return next((path for path in files if os.access(path, os.X_OK)), files[0] if files else None)


def _failure(report: bytes) -> StartFailure:
    number, _, message = report.decode(errors="replace").partition(" ")
    if number == str(errno.ENOENT):
        return StartFailure(NOT_FOUND, "command not found")
    return StartFailure(NOT_EXECUTABLE, message)


_TURN_S = 0.001
_PATIENCE_S = 10.0
"""Seconds for a namespace to be made. The process that makes it may be stopped, and the launcher hears no signal while it waits."""


class NamespacedCommand(GatedCommand):
    """A command whose parent is not the launcher but `init`, which writes its wait status to `status`."""

    def __init__(self, pid: int, init: int, forked: Forked, status: int) -> None:
        super().__init__(forked._replace(pid=pid))
        self.own = frozenset({pid, init})
        self.status_descriptor = status
        self._status = status
        self._init = init

    def status_among(self, exits: Mapping[int, int]) -> int | None:
        """See `GatedCommand`. If `init` was killed, everything in the namespace was."""
        try:
            text = os.read(self._status, 100)
        except BlockingIOError:
            return None
        return int(text) if text else exits.get(self._init)

    def abandon(self) -> None:
        """See `GatedCommand`. With `init`, the kernel ends all in its namespace."""
        self.close()
        self._kill_and_wait(self._init)


def fork_namespaced_command(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    streams: Mapping[int, int],
    signal_mask: AbstractSet[int],
    cwd: str | None = None,
) -> GatedCommand:
    """Like `fork_command`, in a PID namespace of its own. Raises ContainmentUnavailable."""
    become_subreaper()  # before the first process ends, so that `init` becomes our child
    others = proc.children()
    status_out, status_in = os.pipe()
    os.set_blocking(status_out, False)
    forked = fork_command(
        arguments,
        environment,
        streams=streams,
        signal_mask=signal_mask,
        cwd=cwd,
        prepare=lambda closed: _enter_namespaces(status_in, closed),
    ).forked
    os.close(status_in)
    # The first child only makes the namespaces and forks `init` into them; it ends at once, and `init`
    # becomes ours.
    give_up = time.monotonic() + _PATIENCE_S
    is_made = _has_succeeded(forked.pid, give_up)
    init = next(iter(proc.children() - others), None)
    pid = _only_child(init, give_up) if init is not None and is_made else None
    if init is None or pid is None:
        os.close(status_out)
        raise _unavailable(forked, others, is_late=time.monotonic() >= give_up)
    return NamespacedCommand(pid, init, forked, status_out)


def _has_succeeded(first: int, give_up: float) -> bool:
    """Whether the first child ends before that, and without an error."""
    while time.monotonic() < give_up:
        ended, status = os.waitpid(first, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(_TURN_S)
    return False


def _only_child(init: int, give_up: float) -> int | None:
    """The command, as soon as it exists; None if `init` ends without it, or doesn't start it before that."""
    while not (children := proc.children_of(init)):
        if init in proc.reap() or time.monotonic() >= give_up:
            return None
        time.sleep(_TURN_S)
    return children[0]


def _unavailable(forked: Forked, others: AbstractSet[int], *, is_late: bool) -> ContainmentUnavailable:
    """Ends what was forked, and says why there is no namespace."""
    proc.kill_tree(others)
    os.close(forked.gate)
    # A process on a dead disk can't be killed, and then holds the other end.
    os.set_blocking(forked.report, False)
    try:
        report = os.read(forked.report, _LONGEST_REPORT).decode(errors="replace").partition(" ")[2]
    except BlockingIOError:
        report = ""
    os.close(forked.report)
    late = f"it was not made within {_PATIENCE_S:g} s" if is_late else "the process that makes it was ended"
    return ContainmentUnavailable(f"there can be no PID namespace: {report or late}")


def _enter_namespaces(status: int, closed: tuple[int, ...]) -> None:
    """Makes the namespaces, in the forked child; returns only in the command. Raises OSError before that."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        unshare(CLONE_NEWPID | CLONE_NEWNS)
    else:
        # Without root the other namespaces need a user namespace. In it, the user keeps their own number, so
        # files look the same.
        unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS)
        # The kernel wants this before an unprivileged process may write its group map (user_namespaces(7)).
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    # A PID namespace applies to children: this one is its first process, and `init`.
    if os.fork():
        os._exit(0)
    # Else /proc would show the processes of the namespace outside.
    mount_own_proc()
    command = os.fork()
    if command:
        # `init` must not hold the command's pipes: the launcher would wait for their end forever.
        for descriptor in closed:
            os.close(descriptor)
        _be_init(command, status)
    os.close(status)


def _be_init(command: int, status: int) -> NoReturn:
    """Waits for all processes. Signals don't end a namespace's first process, unless the launcher kills it."""
    while True:
        try:
            pid, wait_status = os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(0)
        if pid == command:
            os.write(status, str(wait_status).encode())


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
