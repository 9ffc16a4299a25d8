"""The ticket of a start: a file in the state directory that ensures that a run is started only once.

A launcher that the daemon starts locks the ticket until its run is over and reads it before anything else. It writes to it
right before its command is released. So of all launchers for one start only one is alive at a time, and a later one
reads that the command may have run. The epoch is read inside the lock: a launcher of a daemon that was taken over
does nothing, so its successor may delete tickets of finished starts.

It is in the state directory, not in the run's, because a run directory may be moved, removed or unmounted. If it says
nothing yet, a `run.json` of this very start says that it began.
"""

import errno
import fcntl
import os
from collections.abc import Collection
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple

from runward.config.short_hash import sha256_hex
from runward.daemon.disk.durable import sync_directory
from runward.daemon.disk.epoch import read_epoch
from runward.daemon.launch.record import BegunAlready, RunDirectory, adopt_run_directory, make_run_directory

STARTS: Final = "starts"

_MARK: Final = b"begun\n"
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class TicketHeld(Exception):
    """Another launcher is about to begin this start."""


class EpochOver(Exception):
    """The daemon that ordered this was replaced; its successor orders it again."""


class Ticket:
    """A ticket that this process has locked. The lock ends with the process, or with `close`."""

    def __init__(self, descriptor: int, directory: str) -> None:
        self._descriptor = descriptor
        self._directory = directory

    @property
    def has_begun(self) -> bool:
        """Whether a launcher released the command of this start."""
        return os.fstat(self._descriptor).st_size > 0

    def mark(self, *, is_recorded: bool = False) -> float:
        """The command is about to be released: when, by the kernel's time for files. Durable when it returns, unless the
        store has recorded that; raises `OSError`."""
        os.write(self._descriptor, _MARK)
        # Durable before the command runs: after a crash, nobody could tell otherwise whether it ever ran. A start
        # that the store knows as begun is not asked for again, so then only processes need the mark.
        if not is_recorded:
            os.fsync(self._descriptor)
            sync_directory(self._directory)
        return os.fstat(self._descriptor).st_mtime

    def close(self) -> None:
        """Leave the start to the next launcher that tries; or the run is over, and this process has no more to do with it."""
        # Said, and not left to the closing: a process that was forked meanwhile may still have the file open.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


class Claim(NamedTuple):
    """What a launcher that may begin a run has: the ticket, and the run's empty directory."""

    ticket: Ticket
    directory: RunDirectory


def claim_start(state: Path, key: str, epoch: int, root: str, name: str) -> Claim:
    """Claim the start `key` for a launcher of the daemon of `epoch`: the run `name` in `root`.

    Raises `BegunAlready`, `TicketHeld`, `EpochOver`, `NameTaken`, and `OSError` if trying again may help.
    """
    ticket = take_ticket(state, key, epoch)
    try:
        # A launcher that has ended since released the command. Its run directory may even be gone again.
        if ticket.has_begun:
            raise BegunAlready
        if not os.path.isdir(root):
            # It is not made here: what is mounted there may only be absent for now.
            raise OSError(errno.ENOENT, "its root is missing", root)
        try:
            directory = make_run_directory(root, name)
        except FileExistsError:
            directory = adopt_run_directory(root, name, key)
    except BaseException:
        ticket.close()
        raise
    return Claim(ticket, directory)


def take_ticket(state: Path, key: str, epoch: int) -> Ticket:
    """The ticket of the start `key`, locked, for a launcher of the daemon of `epoch`.

    Raises `TicketHeld`, `BegunAlready` if its holder has released the command, `EpochOver` and `OSError`.
    """
    directory = f"{state}/{STARTS}"
    descriptor = os.open(ticket_path(state, key), _FLAGS, 0o600)
    ticket = Ticket(descriptor, directory)
    try:
        # The lock ends with the process, so a launcher that is killed leaves the start to the next one.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Checked under the lock. A launcher that an older daemon ordered, and that was late, begins nothing:
        # the successor orders the same start itself.
        current = read_epoch(state)
        if current != epoch:
            raise EpochOver(f"it was requested under epoch {epoch}, and now the epoch is {current}")
    except BlockingIOError:
        # The holder writes into the ticket before it releases the command. So its size tells a start that
        # happened from one that is happening.
        has_begun = ticket.has_begun
        ticket.close()
        raise (BegunAlready if has_begun else TicketHeld) from None
    except BaseException:
        ticket.close()
        raise
    return ticket


class TicketState(Enum):
    """What becomes of a start, as its ticket says it."""

    HELD = auto()
    """A launcher carries it out."""
    FREE = auto()
    """No launcher does any more, or none yet."""
    ABSENT = auto()
    """There is no such ticket."""


def ticket_state(state: Path, name: str) -> TicketState:
    """The state of the ticket of this name. Raises OSError if it can't be known now."""
    try:
        descriptor = os.open(f"{state}/{STARTS}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return TicketState.ABSENT
    try:
        # Shared: two that ask at the same time don't take each other for a launcher.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    except BlockingIOError:
        return TicketState.HELD
    finally:
        os.close(descriptor)
    return TicketState.FREE


def has_ticket(state: Path, key: str) -> bool:
    """Whether any launcher ever took up the start `key`, unless its ticket was deleted."""
    return os.path.lexists(ticket_path(state, key))


def ticket_path(state: Path, key: str) -> str:
    """Where the ticket of the start `key` is. It is written once, right before the command is released."""
    return f"{state}/{STARTS}/{name_of(key)}"


def throw_away(state: Path, owed: Collection[str]) -> None:
    """Remove the tickets of all starts but the `owed` ones.

    Only for a daemon that has begun its epoch and started nothing yet: no launcher of an earlier one can use them any
    more.
    """
    kept = {name_of(key) for key in owed}
    for name in os.listdir(f"{state}/{STARTS}"):
        if name in kept:
            continue
        # One that is held says that its launcher still carries out this run, and no other. One that can't be read may be.
        with suppress(OSError):
            if ticket_state(state, name) is TicketState.FREE:
                os.unlink(f"{state}/{STARTS}/{name}")


def name_of(key: str) -> str:
    """The name of the ticket of the start `key`."""
    return sha256_hex(key.encode())[:32]
