"""Rounds of an evil process tree, each under a launcher of its own, and how long the trees outlived their deadlines."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.daemon.launching import Launcher, members

TREE: Final = str(Path(__file__).with_name("evil_tree.py"))
TIMEOUT_S: Final = 1.0
GRACE_S: Final = 0.5
OPTIONS: Final = ("--timeout", "1s", "--grace", "500ms")
ROUNDS: Final = 100
AT_ONCE: Final = 10
"""Trees that live at a time: each keeps forking, so more would only wait for each other."""


def batches(label: str) -> list[list[str]]:
    """The names of all rounds, those together that run at the same time."""
    names = [f"{label}{number}" for number in range(ROUNDS)]
    return [names[first : first + AT_ONCE] for first in range(0, ROUNDS, AT_ONCE)]


def check(launcher: Launcher, names: Sequence[str]) -> None:
    """None of the trees is alive, and none was a second after its deadline.

    The launcher writes `exit.json` when all of the tree is dead, and began to count when `process.json` stood.
    Where others overload the machine it gets the grace on top, for it may not run at once when it is due.
    """
    is_overloaded = os.getloadavg()[0] > AT_ONCE
    latest = TIMEOUT_S + 1 + (GRACE_S if is_overloaded else 0)
    for name in names:
        directory = launcher.directory(name)
        assert members(str(directory)) == []
        assert launcher.ending(name)["cause"] == "timed_out", launcher.ending(name)
        began, dead = ((directory / file).stat().st_mtime for file in ("process.json", "exit.json"))
        assert dead - began <= latest, f"{name} outlived its deadline by {dead - began - TIMEOUT_S} s"
