"""The launcher as the daemon starts it: `python -m runward.daemon.launch.detached STATE EPOCH NAME`.

Without a NAME it waits on a socket, and forks a launcher whenever one is wanted, which saves starting an interpreter.
Nothing is decided before the fork, so such a launcher takes the same path as any other.

It is the same launcher as `runward run`, except for its beginning. The order comes as JSON on stdin, and stdout is a
socket on which it speaks with the daemon (`channel.py`). The launcher is nobody's child and has its own session. Its
later complaints go to stderr, a file. However often it is started for one order, the command runs once: see `ticket.py`.

When its run is over and nothing of the run is left, it waits for another order on the socket. So does one that was forked
ahead, without an order. It belongs to a run only while it holds that run's ticket.
"""

import gc
import json
import os
import signal
import socket
import sys
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from runward.config.json_value import JsonValue
from runward.daemon.faults import point
from runward.daemon.launch import channel
from runward.daemon.launch.channel import DaemonSpokenTo

if TYPE_CHECKING:
    from runward.daemon.launch.launch import Order
    from runward.daemon.launch.ticket import Claim

PATIENCE: Final = 300.0
"""Seconds that it waits for another order. It holds some 20 MB meanwhile."""

MOST_RUNS: Final = 4096
"""The runs of one launcher. What Python doesn't give back of one is little, and there is an end to it."""

_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)


class Ordered(NamedTuple):
    """The fields of `runward.handlers.model.effects.StartRun`, as they come in JSON."""

    key: str
    session: str
    root: str
    name: str
    command: list[str]
    cwd: str
    environment: list[tuple[str, str]]
    playbook: str | None
    agent: str | None
    contract: JsonValue
    timeout: float | None
    grace: float | None
    metadata: list[tuple[str, JsonValue]]
    stale_after: float | None = None
    worktree: list[str] | None = None
    kind: str = "agent"
    invocation_id: str | None = None


def main() -> NoReturn:
    """Carries out the order on stdin, in a child of this process; this process ends at once."""
    state, epoch = Path(sys.argv[1]), int(sys.argv[2])
    # The daemon waits for this process and gets its child's work done without being its parent: launchers
    # outlive the daemon.
    if os.fork():
        os._exit(0)
    # The fork server: Python and the launcher's modules are loaded once. Each order then costs a fork, not a
    # start.
    if len(sys.argv) == 3:
        _import_ahead()
        if not _is_launcher_forked():
            os._exit(0)
    try:
        first = _read(os.dup(0))
        # Before anything is started, so that no command inherits the daemon's descriptors.
        daemon = _let_go_of_streams()
        _ignore_no_signal()
        # Before any command exists, so that it is outside of the unit, too.
        _leave_service()
        _carry_out_orders(first, state, epoch, daemon)
    except Exception:  # noqa: BLE001  # it goes to the log, and who ordered it finds no answer
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        # Shutting down the interpreter takes as long as a fork, and nobody asks for an exit code.
        os._exit(0)


def _import_ahead() -> None:
    """Make ready what all launchers share: modules that are loaded, and memory that others can't open."""
    from runward.daemon.launch import cgroup, launch, record, ticket, worktree  # noqa: F401
    from runward.daemon.processes.kernel import hide_memory

    # A launcher may wait long for its first order. A process that opened its memory meanwhile could read it during every run.
    hide_memory()
    # What is loaded stays, and the collector needn't look at it in each launcher: a page that it looks at is copied first.
    gc.collect()
    gc.freeze()


def _is_launcher_forked() -> bool:
    """Wait for orders; True in the launcher of one of them, with its descriptors as stdin, stdout and stderr.

    False if no more will come: the daemon ended, or started nothing for `PATIENCE` seconds.
    """
    with socket.socket(fileno=os.dup(0)) as daemon:
        daemon.settimeout(PATIENCE)
        while True:
            try:
                # Each order comes as three descriptors: where to read it, what to answer on, and where the log
                # is.
                _, descriptors, _, _ = socket.recv_fds(daemon, 1, 3)
            except OSError:
                return False
            if len(descriptors) != 3:
                return False
            if not os.fork():
                break
            # The server must not keep them: the daemon waits for the end of what the launcher holds.
            for descriptor in descriptors:
                os.close(descriptor)
            os.wait()
    # A session of its own: a Ctrl-C at the daemon's terminal doesn't reach the runs.
    os.setsid()
    if os.fork():
        os._exit(0)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    return True


def _carry_out_orders(first: Ordered | None, state: Path, epoch: int, daemon: DaemonSpokenTo) -> None:
    """One run after the other, as long as each leaves this process as it found it."""
    born = inherited()
    ordered = first or _next(daemon.order(PATIENCE))
    for runs in count(1):
        if ordered is None or not _carry_out(ordered, state, epoch, daemon):
            return
        # What was sent to this launcher because of the run that is over is pending until here. It ends the launcher, as it
        # would have then, and never the next run.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if runs == MOST_RUNS or inherited() != born:
            return
        point("launch.over")
        ordered = _next(daemon.next_order(PATIENCE))


def _next(content: int | None) -> Ordered | None:
    return None if content is None else _read(content)


def _read(content: int) -> Ordered | None:
    """The order in a file; None if it is empty. The file may be read by several launchers, one after the other."""
    try:
        text = os.pread(content, os.fstat(content).st_size, 0)
    finally:
        os.close(content)
    return Ordered(**json.loads(text)) if text else None


_INHERITED_STATUS: Final = frozenset(
    [
        "Umask",
        "TracerPid",
        "Uid",
        "Gid",
        "Groups",
        "Threads",
        "SigPnd",
        "ShdPnd",
        "SigBlk",
        "SigIgn",
        "SigCgt",
        "CapInh",
        "CapPrm",
        "CapEff",
        "CapBnd",
        "CapAmb",
        "NoNewPrivs",
        "Seccomp_filters",
        "Cpus_allowed",
    ]
)
"""Lines of /proc/self/status (proc(5))."""

_INHERITED_FILES: Final = (
    "limits",
    "cgroup",
    "oom_score_adj",
    "coredump_filter",
    "timerslack_ns",
    "autogroup",
    "fdinfo/0",
)
"""Files in /proc/self. A command shares its input with its launcher, and may set its flags and lock it."""

_LONGEST_OWN: Final = 64 << 10
"""Bytes of such a file, which the kernel gives in one piece."""

_INHERITED_STAT: Final = (2, 4)
"""Of the fields of /proc/self/stat after the name: process group and terminal."""


def inherited() -> tuple[object, ...]:
    """All of this process that a command inherits from it, or that would be in the way of the next run.

    A command of the same user may change much of it from outside: limits by prlimit(2), priorities, processors, cgroups.
    What can't change without something else that is compared is not here.
    """
    from runward.daemon.processes import proc
    from runward.daemon.processes.kernel import inherited_unseen

    status = {name: rest for name, _, rest in (line.partition(":") for line in _own("status").splitlines())}
    fields = _own("stat").rpartition(")")[2].split()
    return (
        {name: status.get(name) for name in _INHERITED_STATUS},
        [_own(name) for name in _INHERITED_FILES],
        [fields[index] for index in _INHERITED_STAT],
        inherited_unseen(),
        {number: _target(f"fd/{number}") for number in os.listdir("/proc/self/fd")},
        # By number: a process sees its own root as /, whatever it is.
        [(place.st_dev, place.st_ino) for place in map(os.stat, (".", "/"))],
        dict(os.environ),
        proc.children(),
    )


def _own(name: str) -> str:
    # Without a file object, which costs as much again: a launcher reads all of these after each run.
    try:
        descriptor = os.open(f"/proc/self/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, _LONGEST_OWN).decode(errors="backslashreplace")
        finally:
            os.close(descriptor)
    except OSError:
        return ""  # this kernel has no such file


def _target(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/{name}")
    except OSError:
        return ""  # the descriptor by which this directory was listed


def _carry_out(ordered: Ordered, state: Path, epoch: int, daemon: DaemonSpokenTo) -> bool:
    """Carry an order out; returns whether this launcher may get another one."""
    from runward.daemon.launch.record import BegunAlready, NameTaken
    from runward.daemon.launch.ticket import EpochOver, TicketHeld, claim_start

    try:
        claim = claim_start(state, ordered.key, epoch, ordered.root, ordered.name)
    except BegunAlready:
        daemon.answer(channel.BEGUN)
    except TicketHeld:
        daemon.answer(channel.HELD)
    except EpochOver:
        daemon.answer(channel.SUPERSEDED)
    except NameTaken as error:
        daemon.answer(channel.TAKEN, str(error))
    except OSError as error:
        daemon.answer(channel.FAILED, str(error))
    else:
        return _launch(ordered, state, claim, daemon)
    return False


def _launch(ordered: Ordered, state: Path, claim: "Claim", daemon: DaemonSpokenTo) -> bool:
    from runward.daemon.launch.cgroup import ContainmentUnavailable
    from runward.daemon.launch.launch import launch

    def before_release(is_recorded: bool) -> None:
        # The mark is durable before the answer. A successor that asks again learns that the run began, and
        # starts nothing.
        at = claim.ticket.mark(is_recorded=is_recorded)
        if not is_recorded:
            daemon.answer(channel.BEGUN, at=at)

    environment = {**os.environ, **dict(ordered.environment)}
    try:
        launched = launch(_order(ordered, state), environment, claim.directory, before_release, daemon)
    except (OSError, ContainmentUnavailable) as error:
        daemon.answer(channel.FAILED, str(error))
        return False
    if not launched.is_told:
        daemon.answer(channel.BEGUN)  # also if the command could not be started: the run's record says so
    for complaint in launched.complaints:
        _complain(ordered.name, complaint)
    # From here on this process has nothing to do with the run.
    claim.ticket.close()
    return launched.is_told and not launched.complaints


def _order(ordered: Ordered, state: Path) -> "Order":
    from runward.daemon.launch.launch import Order
    from runward.daemon.launch.record import START
    from runward.daemon.launch.ticket import name_of
    from runward.daemon.launch.worktree import place_of

    order = Order(
        command=tuple(ordered.command),
        root=ordered.root,
        name=ordered.name,
        playbook=ordered.playbook,
        agent=ordered.agent,
        contract=ordered.contract,
        timeout=ordered.timeout,
        stale_after=ordered.stale_after,
        cwd=ordered.cwd if ordered.worktree is None else place_of(str(state), ordered.name),
        worktree=None if ordered.worktree is None else (ordered.worktree[0], ordered.worktree[1]),
        metadata={**dict(ordered.metadata), START: ordered.key},
        ticket=name_of(ordered.key),
        kind=ordered.kind,
        invocation_id=ordered.invocation_id,
        state=str(state),
        root_name=ordered.session.removeprefix("native:").removesuffix(f"/{ordered.name}"),
    )
    return order if ordered.grace is None else order._replace(grace=ordered.grace)


def _let_go_of_streams() -> DaemonSpokenTo:
    """The command's streams lead only into the run's logs; nobody reads the launcher's own."""
    daemon = DaemonSpokenTo(os.dup(1))  # Python lets no command inherit these
    sys.stderr = open(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115  # for its life
    # 0, 1 and 2 must stay open, or the next files would get these numbers.
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return daemon


def _complain(name: str, message: str) -> None:
    """One line for people, in the launchers' log."""
    from runward.config.problem import printable

    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print(f"{moment} {name}: {printable(message)}", file=sys.stderr, flush=True)  # noqa: T201  # it is its log


def _ignore_no_signal() -> None:
    """A daemon that is about to end ignores signals; its runs must not inherit that."""
    for number in signal.valid_signals():
        if signal.getsignal(number) is signal.SIG_IGN and number not in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _leave_service() -> None:
    """Leave the daemon's own unit: stopping it would otherwise end every run that it started.

    If systemd can't be asked, the launcher stays in the unit, and the unit file that we ship leaves it alone
    (KillMode=process).
    """
    from runward.daemon.launch.cgroup import ContainmentUnavailable, Held, cgroup_of, make_scope

    us = os.getpid()
    try:
        if cgroup_of(us).endswith(".service"):
            held = Held(us, frozenset({us}), "launcher", None)
            make_scope(f"runward-{os.urandom(6).hex()}.scope", held, os.environ)
    except ContainmentUnavailable:
        pass


if __name__ == "__main__":
    main()
