"""The sandbox: whether bubblewrap can shut a program off from network, files and other processes."""

from collections.abc import Iterator
from typing import Final

from runward.daemon.doctor.commands import end_of, is_there
from runward.daemon.doctor.findings import Finding, Installation, Patience

_PROGRAM: Final = "bwrap"
_SHUT_OFF: Final = (
    *(_PROGRAM, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),  # noqa: S108  # inside of it
    *("sh", "-c", "echo $$ $(ls /sys/class/net 2>/dev/null | grep -v ^lo$ | wc -l)"),
)
_NOT_NEEDED_YET: Final = "nothing needs it yet"
_WITHIN_S: Final = 10.0


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """A program in a sandbox must be alone there."""
    environment = installation.environment
    if not is_there(_PROGRAM, environment):
        yield Finding(
            "skipped", f"bubblewrap isn't installed ({_NOT_NEEDED_YET})", "install the package bubblewrap"
        )
        return
    ended = end_of(_SHUT_OFF, environment, patience, _WITHIN_S)
    if ended.code != 0:
        why = (ended.err.strip().splitlines() or [f"it ended with {ended.code}"])[-1]
        fix = "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1), or AppArmor's profile for bwrap"
        yield Finding("skipped", f"bubblewrap doesn't work: {why} ({_NOT_NEEDED_YET})", fix)
    else:
        yield Finding("ok", "bubblewrap shuts a program off in namespaces of its own")
