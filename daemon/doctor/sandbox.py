"""The sandbox: whether code of the exchange runs in it, and whether it stops a few attempts to get out."""

import os
from collections.abc import Iterator
from typing import Final

from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.sandbox.workers import Job, execute

_LIVES: Final = "def run(number): return number + 1"

_ATTEMPTS: Final = """
import os, socket
def stopped(act, *words):
    try:
        act(*words)
    except OSError:
        return True
    return False
def run(pid, state):
    return {
        "reading the state directory": stopped(os.listdir, state),
        "reading /etc/passwd": stopped(open, "/etc/passwd"),
        "opening a connection": stopped(socket.socket, socket.AF_INET, socket.SOCK_STREAM),
        "starting a process": stopped(os.fork),
        "ending the doctor": stopped(os.kill, pid, 9),
        "writing outside /tmp": stopped(open, "/mine", "w"),
    }
"""
_SPINS: Final = "def run():\n    while True: pass"
_SPINNING_S: Final = 0.3


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Code must run, must be stopped if it reaches out, and must be cut off if it doesn't end."""
    executor = installation.settings.executor
    lives = execute(Job(_LIVES, [1]), executor)
    if lives.code == "not_configured":
        yield Finding("warning", f"{lives.error}; code of the exchange is refused", lives.fix)
        return
    if lives.result != 2:
        yield Finding(
            "failed",
            f"code doesn't run in the sandbox: {lives.error}",
            "raise memory or timeout in [exchange.executor]",
        )
        return
    patience.left()
    tried = execute(Job(_ATTEMPTS, [os.getpid(), str(installation.state)]), executor)
    patience.left()
    spins = execute(Job(_SPINS, []), executor._replace(timeout=_SPINNING_S))
    found = tried.result if isinstance(tried.result, dict) else {}
    let_through = [name for name, was_stopped in found.items() if was_stopped is not True]
    if spins.code != "timeout":
        let_through.append("running without end")
    if not found or let_through:
        what = ", ".join(let_through) or str(tried.error)
        yield Finding(
            "failed", f"the sandbox does not stop {what}", "don't run foreign code here, and report this"
        )
        return
    yield Finding(
        "ok",
        f"code runs in the sandbox ({lives.sandbox}), and {len(found) + 1} attempts to escape or to keep running were stopped",
    )
