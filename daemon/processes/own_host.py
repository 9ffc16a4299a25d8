"""Where this program's processes are known by their numbers."""

import os
from typing import Final

from runward.daemon.processes.identity import current_boot_id, pid_namespace
from runward.handlers.model.processes import Whereabouts, host_with_namespace

_MACHINE_ID: Final = "/etc/machine-id"
_LENGTH: Final = 32
"""The characters of a machine id (machine-id(5)); a file without one says `uninitialized`, or is empty."""


def own_host() -> str:
    """This host with our PID namespace in it."""
    return host_with_namespace(os.uname().nodename, pid_namespace()) or ""


def own_whereabouts() -> Whereabouts:
    """Where the numbers are valid by which we know processes. What can't be read is left empty."""
    return Whereabouts(_machine_id(), _boot_id(), pid_namespace())


def _machine_id() -> str:
    try:
        with open(_MACHINE_ID, "rb") as file:
            found = file.read(_LENGTH + 1).strip().decode(errors="replace")
    except OSError:
        return ""
    return found if len(found) == _LENGTH else ""


def _boot_id() -> str:
    try:
        return current_boot_id()
    except OSError:
        return ""
