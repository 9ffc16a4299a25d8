"""Named points at which a test may kill or stop the daemon or a launcher. In ordinary use they do nothing.

`RUNWARD_FAULT=kill@N` or `stop@N` sends the process SIGKILL or SIGSTOP at the N-th point it
reaches, `kill@NAME` at the first of that name (and at no other), `list` prints the points to stderr as they pass.
For `runward run` the variable is `RUNWARD_RUN_FAULT`, because a daemon passes its own on to what it starts, and for the
program that reports to a fleet it is `RUNWARD_FLEET_FAULT`.
"""

from __future__ import annotations

import signal
import sys

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    Hook: TypeAlias = Callable[[str], None]


def _nothing(name: str) -> None:
    return None


_hook: Hook = _nothing


def point(name: str) -> None:
    """Pass the point `name`, unless a test has other plans."""
    _hook(name)


def install(hook: Hook) -> None:
    """Have `hook` called at every point."""
    global _hook
    _hook = hook


def from_environment(text: str | None) -> None:
    """Arm what `RUNWARD_FAULT` asks for. Raises `ValueError` for anything else."""
    if not text:
        return
    if text == "list":
        install(lambda name: print(f"point {name}", file=sys.stderr, flush=True))  # noqa: T201 - its purpose
        return
    deed, _, where = text.partition("@")
    sent = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}.get(deed)
    if sent is None or not where:
        raise ValueError(f"RUNWARD_FAULT is {text!r}, not kill@POINT, stop@POINT or list")
    passed = 0

    def strike(name: str) -> None:
        nonlocal passed
        passed += 1
        if where == name or where == str(passed):
            install(_nothing)
            import threading

            # To this very thread: if another one took a stop, this one would still run for a while.
            signal.pthread_kill(threading.get_ident(), sent)

    install(strike)
