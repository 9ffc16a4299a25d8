"""A launched run's deadline passed: where its launcher did not end it, have the whole tree ended.

The launcher is the first to know: it ends its command at the timeout. A command may stop or kill its launcher, so the
daemon looks by itself a while later.
"""

from typing import Final

from runward.handlers.asking import Given, NotYet, ask
from runward.handlers.effects import Deciding, EndTree, Explain
from runward.handlers.events import RunLaunched
from runward.handlers.facts import AgeOf, RunProcesses, SessionOf
from runward.handlers.layouts.scanner import RecordedProcess

MARGIN: Final = 5.0
"""Seconds after timeout and grace: what the launcher may take to end its run."""

UNKNOWN: Final = 60.0
"""Seconds until a run is looked for again that is not known as a session yet."""


def lane(session_key: str) -> str:
    """The lane of the deadlines of a session's launches."""
    return f"timer:{session_key}"


def due(event: RunLaunched) -> float | None:
    """When the launcher must have ended its run (Unix seconds); None where the run has no timeout."""
    return None if event.timeout is None else event.at + _longest(event)


def _longest(event: RunLaunched) -> float:
    return (event.timeout or 0.0) + (event.grace or 0.0) + MARGIN


def decide(event: RunLaunched, given: Given) -> Deciding:
    """Have the run's processes ended if it still goes on after its time, by the machine's own clock."""
    launcher, process = RecordedProcess(*event.launcher), RecordedProcess(*event.process)
    session = yield from ask(SessionOf(event.session_key))
    if session is not None and session.status != "running":
        return ()
    age = yield from ask(AgeOf(launcher, process))
    if age is None:
        return ()  # both are gone, and the look at the run says so
    left = _longest(event) - age
    if left > 0.0 or session is None:
        raise NotYet(given.at + (left if left > 0.0 else UNKNOWN))
    processes = RunProcesses(launcher, process, is_recorded=True)
    return (
        EndTree(session.key, session.attempt, session.path, processes, event.timeout or 0.0),
        Explain(
            session.key,
            "decided",
            f"its timeout of {event.timeout:g} s is over and its launcher did not end it: its processes are killed",
        ),
    )
