"""The launcher as the daemon starts it: `python -m runward.daemon.launch.detached STATE EPOCH NAME`.

Without a NAME it waits on a socket for orders, and forks a launcher for each, which saves starting an interpreter.
Nothing is decided before the fork, so such a launcher takes the same path as any other.

It is the same launcher as `runward run`, except for its beginning. The order comes as JSON on stdin, and stdout is a
socket on which it speaks with the daemon (`channel.py`). The launcher is nobody's child and has its own session. Its
later complaints go to stderr, a file. However often it is started for one order, the command runs once: see `ticket.py`.
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from runward.config.json_value import JsonValue
from runward.daemon.launch import channel
from runward.daemon.launch.channel import DaemonSpokenTo

if TYPE_CHECKING:
    from runward.daemon.launch.launch import Order
    from runward.daemon.launch.ticket import Claim

PATIENCE: Final = 300.0
"""Seconds that it waits for another order. It holds some 20 MB meanwhile."""

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
        with open(0, encoding="utf-8", closefd=False) as file:
            ordered = Ordered(**json.load(file))
        # Before anything is started, so that no command inherits the daemon's descriptors.
        daemon = _let_go_of_streams()
        _ignore_no_signal()
        _carry_out(ordered, state, epoch, daemon)
    except Exception:  # noqa: BLE001  # it goes to the log, and who ordered it finds no answer
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        # Shutting down the interpreter takes as long as a fork, and nobody asks for an exit code.
        os._exit(0)


def _import_ahead() -> None:
    """Load what a launch needs in advance."""
    from runward.daemon.launch import cgroup, launch, record, ticket, worktree  # noqa: F401


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


def _carry_out(ordered: Ordered, state: Path, epoch: int, daemon: DaemonSpokenTo) -> None:
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
        # Before the command exists, so that it is outside of the unit, too.
        _leave_service(ordered.name)
        _launch(ordered, state, claim, daemon)


def _launch(ordered: Ordered, state: Path, claim: "Claim", daemon: DaemonSpokenTo) -> None:
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
        return
    daemon.answer(channel.BEGUN)  # also if the command could not be started: the run's record says so
    for complaint in launched.complaints:
        _complain(ordered.name, complaint)


def _order(ordered: Ordered, state: Path) -> "Order":
    from runward.daemon.launch.launch import Order
    from runward.daemon.launch.record import START
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


def _leave_service(name: str) -> None:
    """Leave the daemon's own unit: stopping it would otherwise end every run that it started.

    If systemd can't be asked, the launcher stays in the unit, and the unit file that we ship leaves it alone
    (KillMode=process).
    """
    from runward.daemon.launch.cgroup import ContainmentUnavailable, Held, cgroup_of, make_scope

    us = os.getpid()
    try:
        if cgroup_of(us).endswith(".service"):
            held = Held(us, frozenset({us}), f"launcher of {name}", None)
            make_scope(f"runward-{os.urandom(6).hex()}.scope", held, os.environ)
    except ContainmentUnavailable:
        pass


if __name__ == "__main__":
    main()
