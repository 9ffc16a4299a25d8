"""A launched run's deadline passed: if its launcher did not end it, have the whole process tree ended.

The launcher is the first to know: it ends its command at the timeout. A command may stop or kill its launcher, so the
daemon itself checks a while later.
"""

from typing import Final

from runward.handlers.model.asking import Given, NotYet, ask
from runward.handlers.model.effects import Deciding, Explain
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.sessions import AgeOf, EndTree, RunLaunched, RunProcesses, SessionOf

MARGIN: Final = 5.0
"""Seconds after timeout and grace that the launcher may take to end its run."""

UNKNOWN: Final = 60.0
"""Seconds until the next check for a run that is not yet known as a session."""


def lane(session_key: str) -> str:
    """The lane of the deadlines of a session's launches."""
    return f"timer:{session_key}"


def due(event: RunLaunched) -> float | None:
    """When the launcher must have ended its run (Unix seconds). None if the run has no timeout."""
    return None if event.timeout is None else event.at + _longest(event)


def _longest(event: RunLaunched) -> float:
    return (event.timeout or 0.0) + (event.grace or 0.0) + MARGIN


def enforce_deadline(event: RunLaunched, given: Given) -> Deciding:
    """A launched run's deadline passed: if its launcher did not end it, have the whole process tree ended.

    Have the run's processes ended if it still runs after its time, by the machine's own clock.
    """
    launcher, process = RecordedProcess(*event.launcher), RecordedProcess(*event.process)
    session = yield from ask(SessionOf(event.session_key))
    if session is not None and session.status != "running":
        return ()
    age = yield from ask(AgeOf(launcher, process))
    if age is None:
        return ()  # both have ended, and the look at the run will report it
    left = _longest(event) - age
    if left > 0.0 or session is None:
        raise NotYet(given.at + (left if left > 0.0 else UNKNOWN))
    processes = RunProcesses(launcher, process, is_recorded=True, cgroup=event.cgroup)
    return (
        EndTree(session.key, session.attempt, session.path, processes, event.timeout or 0.0),
        Explain(
            session.key,
            "decided",
            f"its timeout of {event.timeout:g} s is over and its launcher did not end it: its processes are killed",
        ),
    )
