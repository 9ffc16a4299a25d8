"""The command line of bubblewrap: what the machine is, as code in the sandbox sees it."""

from pathlib import Path
from typing import Final

from runward.daemon.sandbox.interpreter import INSIDE, Interpreter

PROGRAM: Final = "bwrap"
NOBODY: Final = 65534
"""The user inside, and outside where the daemon is root."""

_SHUT_OFF: Final = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup"),
    *("--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop", "ALL"),
    *("--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", "sandbox"),
    *("--setenv", "MALLOC_ARENA_MAX", "1", "--setenv", "LANG", "C.UTF-8"),
)  # fmt: skip


def command(program: str, python: Interpreter, tmp: int, info: int) -> tuple[str, ...]:
    """What starts the worker. `tmp` are the bytes of its `/tmp`; who it is, is told through the descriptor `info`."""
    binds = [word for place, inside in python.places for word in ("--ro-bind", place, f"{INSIDE}/{inside}")]
    hidden = [
        word
        for each in python.hidden
        for word in ("--tmpfs", f"{INSIDE}/{each}", "--remount-ro", f"{INSIDE}/{each}")
    ]
    empty = ("--size", str(tmp), "--tmpfs", "/tmp", "--remount-ro", "/", "--chdir", "/tmp")  # noqa: S108  # inside
    worker = Path(__file__).with_name("worker.py").read_text(encoding="utf-8")
    start = (*python.command, "-I", "-S", "-B", "-X", "utf8", "-c", worker)
    return (program, *_SHUT_OFF, "--info-fd", str(info), *binds, *hidden, *empty, "--", *start)
