"""Rights: of the state directory, what is in it, and the operator's files."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runward.daemon.disk.state_rights import openings
from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.store.reading import STORE
from runward.daemon.users import as_root, name_of, run_as

PRIVATE: Final = (
    STORE,
    f"{STORE}-wal",
    f"{STORE}-shm",
    "lock",
    "epoch",
    "status.json",
    "checked-chains.json",
    "inbox",
    "log",
    "starts",
)
"""What is in the state directory and is nobody else's to read."""

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """The state directory first, then the files that say what the daemon does."""
    state = installation.state
    try:
        status = state.stat()
    except FileNotFoundError:
        yield _to_be_made(state)
    else:
        yield from _of_state(state, status)
    yield from _of_operators_files(installation)


def _to_be_made(state: Path) -> Finding:
    above = next(each for each in state.parents if each.is_dir())
    if os.access(above, os.W_OK | os.X_OK):
        return Finding("ok", f"{state} doesn't exist yet; the first daemon creates it")
    said = f"{state} doesn't exist and can't be created in {above}"
    return Finding("failed", said, "create it for this user, or set another state_dir (RUNWARD_STATE_DIR)")


def _of_state(state: Path, status: os.stat_result) -> Iterator[Finding]:
    if not stat.S_ISDIR(status.st_mode):
        yield Finding("failed", f"{state} is not a directory", "move it away, or set another state_dir")
        return
    owner, me = name_of(status.st_uid), os.geteuid()
    # Root examines the directory as its owner uses it.
    for opening in openings(state, status.st_uid if me == 0 else me):
        yield Finding("failed", opening.said, opening.fix)
    if status.st_uid != me:
        if me != 0:
            return  # the openings say so
        said = f"{state} belongs to {owner}, and this is root: what root may read and start says nothing of {owner}"
        yield Finding("warning", said, f"`{run_as(owner, str(state), 'doctor')}`")
    if not os.access(state, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("failed", f"{state} can't be read and written", f"chmod 700 {state}")
    open_to_others = [path for path in (state, *(state / name for name in PRIVATE)) if _mode(path) & _OTHERS]
    if open_to_others:
        names = " ".join(map(str, open_to_others))
        yield Finding("warning", f"other users can read {names}", f"chmod go= {names}")
    else:
        yield Finding("ok", f"{state} is {owner}'s alone")


def _of_operators_files(installation: Installation) -> Iterator[Finding]:
    settings = installation.settings
    files = {origin.rpartition(":")[0] for origin in settings.origin.values() if origin.startswith("/")}
    places = sorted({*files, *settings.playbooks, *settings.agents})
    writable = [place for place in places if _mode(Path(place)) & _OTHERS_WRITE]
    if writable:
        names = " ".join(writable)
        said = f"other users can write to {names}, and so decide what the daemon starts and expects"
        is_mine = all(os.stat(place).st_uid == os.geteuid() for place in writable)
        command = f"chmod go-w {names}"
        yield Finding("warning", said, command if is_mine else as_root(command))
    elif there := [place for place in places if os.path.exists(place)]:
        yield Finding("ok", f"only this user can write to {', '.join(there)}")


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0  # not there: nobody's
