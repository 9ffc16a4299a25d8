"""Strikes a daemon, or one launcher of those that it starts, where a file says, while both go on to serve.

`daemon` or `launcher` in the place's directory holds a deed, `kill` or `stop`, and names of points. The first process of
this kind that passes a point takes the file away, and is struck at the last of these points when it has passed the others
in this order. `passed-daemon` and `passed-launcher` tell of each point that was passed, and by which process.

As a program, this is a launcher that may be struck: see `fences.py`.
"""

import os
import signal
import threading
from pathlib import Path
from typing import Final, Literal

from runward.daemon import faults
from runward.daemon.launch import detached

_DEEDS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def strike(who: Literal["daemon", "launcher"]) -> None:
    """From here on this process is struck where the file says. Its HOME is the place's directory."""
    place = Path(os.environ["HOME"])
    plan: list[str] = []

    def passed(name: str) -> None:
        with (place / f"passed-{who}").open("a") as told:
            told.write(f"{os.getpid()} {name}\n")
        if not plan:
            taken = place / f"{who}-{os.getpid()}"
            try:
                (place / who).rename(taken)  # one of them only
            except FileNotFoundError:
                return
            plan.extend(taken.read_text().split())
        if plan[1:2] == [name] and plan.pop(1) and len(plan) == 1:
            deed = _DEEDS[plan.pop()]
            with (place / f"struck-{who}").open("a") as told:
                told.write(f"{os.getpid()} {name}\n")
            # To this very thread: if another one took a stop, this one would still run for a while.
            signal.pthread_kill(threading.get_ident(), deed)

    faults.install(passed)


if __name__ == "__main__":
    strike("launcher")
    detached.main()
