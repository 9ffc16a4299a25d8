"""The methods that contain a run's process tree: their names, and the error if one is not available."""

from __future__ import annotations

from runward.daemon.processes.stand_ins import Value

METHODS = ("auto", "none", "subreaper", "cgroup", "scope", "pidns")


class ContainmentUnavailable(Exception):
    """A method is not available on this machine; the message says why."""


class Held(Value):
    """What must be contained: the waiting command, its processes (it and its `init`), and its run's name and longest
    time (seconds; None: no end)."""

    pid: int
    own: frozenset[int]
    name: str
    longest: float | None
