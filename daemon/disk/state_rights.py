"""Who may control the daemon through its state directory: its own user, and nobody else.

A request in the inbox makes the daemon run a playbook's command, and the store says what work is open. So anyone who
can write there can make this user's daemon run a command.
"""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from runward.daemon.users import as_root, is_known, name_of, others_may_write, run_as

STEERING: Final = (
    "runward.db",
    "runward.db-wal",
    "runward.db-shm",
    "lock",
    "epoch",
    "clock",
    "status.json",
    "checked-chains.json",
    "inbox",
    "rejected",
    "starts",
    "sessions",
    "log",
    "tokens",
)
"""Files in the state directory that control the daemon, or that it writes without further checks."""

_STEERED: Final = "{} could have this daemon run any command"


class StateDirectoryUnsafe(Exception):
    """Somebody else could control a daemon of this state directory; the message says who, and what to do."""


class Opening(NamedTuple):
    """A way in for another user, and how to close it."""

    message: str
    fix: str


def check(state: Path) -> None:
    """Raises `StateDirectoryUnsafe` if somebody else may write to what controls the daemon of `state`."""
    problems = list(openings(state))
    if problems:
        raise StateDirectoryUnsafe("; ".join(f"{each.message}: {each.fix}" for each in problems))


@contextmanager
def naming_its_user(state: Path) -> Iterator[None]:
    """What the system refuses in another user's state directory is refused with the command as that user.

    Raises `StateDirectoryUnsafe` and what is raised inside.
    """
    try:
        yield
    except PermissionError:
        check(state)
        raise


def openings(state: Path, me: int | None = None) -> Iterator[Opening]:
    """What in the state directory belongs to another user than `me` (the caller), then what others may write to.

    Raises `OSError`.
    """
    entries = [
        (path, status) for path in (state, *(state / name for name in STEERING)) if (status := _stat(path))
    ]
    me = os.geteuid() if me is None else me
    if entries and (owner := entries[0][1].st_uid) != me:
        problem = f"{_names([state])} belongs to {name_of(owner)}, and this is {name_of(me)}"
        yield Opening(f"{problem}: {_STEERED.format(name_of(owner))}", _fix_of_owner(state, owner, me))
        entries = [each for each in entries if each[1].st_uid != owner]
    foreign: dict[int, list[Path]] = {}
    for path, status in entries:
        if status.st_uid != me:
            foreign.setdefault(status.st_uid, []).append(path)
    for uid, paths in foreign.items():
        owner_name, names = name_of(uid), _names(paths)
        problem = f"{names} {'belongs' if len(paths) == 1 else 'belong'} to {owner_name}, and the daemon here runs as {name_of(me)}"
        yield Opening(
            f"{problem}: {_STEERED.format(owner_name)}",
            f"take over what is there: {as_root(f'chown {shlex.quote(name_of(me))}: {names}')}",
        )
    writable = [path for path, status in entries if status.st_uid == me and others_may_write(path, status)]
    if writable:
        names = _names(writable)
        yield Opening(
            f"other users may write to {names}, and could have this daemon run any command",
            f"chmod go-w {names}",
        )


def _fix_of_owner(state: Path, owner: int, me: int) -> str:
    """Nothing is taken over from a user who has a daemon there."""
    if is_known(owner):
        use = f"as {name_of(owner)}: `{run_as(name_of(owner), str(state), '…')}`"
    elif me == 0:
        use = f"after `chown {shlex.quote(name_of(me))}: {_names([state])}`, because no user has this number"
    else:
        return "set another state_dir (RUNWARD_STATE_DIR)"
    return f"use it {use}; or set another state_dir (RUNWARD_STATE_DIR)"


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, PermissionError):
        return None  # missing, or in another user's directory, which is reported for the directory itself


def _names(paths: list[Path]) -> str:
    return " ".join(shlex.quote(str(path)) for path in paths)
