"""Where this program's processes are known by their numbers."""

import os

from runward.daemon.processes.identity import pid_namespace
from runward.handlers.layouts.process_host import host_with_namespace


def own_host() -> str:
    """This host with our PID namespace in it."""
    return host_with_namespace(os.uname().nodename, pid_namespace()) or ""
