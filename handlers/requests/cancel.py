"""A person wants a running session ended."""

from typing import Final

from runward.config.settings_keys import DEFAULT_LAYOUT
from runward.handlers.model.asking import Given, TryLater, ask
from runward.handlers.model.effects import Deciding, Effects, Explain
from runward.handlers.model.requests import CancelRun, SessionCancelRequested
from runward.handlers.model.sessions import LaunchOf, ProcessesOf, RunProcesses, SessionOf

_NAMELESS: Final = "its files name no process that could be asked to end"
_LOOKS: Final = 4
"""How often a run without a named process is asked about again. A run that has just begun will name it soon."""


def cancel(event: SessionCancelRequested, given: Given) -> Deciding:
    """A person wants a running session ended.

    Have the intended attempt ended, if it runs and its files name a process; else say why not.
    """
    session = yield from ask(SessionOf(event.session_key))
    processes = yield from ask(ProcessesOf(event.session_key))
    launch = yield from ask(LaunchOf(event.session_key))
    if launch is not None:
        processes = RunProcesses(launch.launcher, launch.process, processes.host, is_recorded=True)
    order = f"cancelled by {event.said_by}" + (f": {event.reason}" if event.reason else "")
    if session is None:
        return _refused(event, order, "there is no such session")
    if session.attempt != event.attempt:
        return _refused(
            event, order, f"attempt {event.attempt} was requested, but attempt {session.attempt} is the last"
        )
    if session.status != "running":
        return _refused(event, order, f"it is already {session.status}")
    if session.layout != DEFAULT_LAYOUT:
        return _refused(
            event, order, "another tool runs it and has to end it: only native runs can be cancelled"
        )
    if processes.launcher is None and processes.process is None:
        if given.tries < _LOOKS:
            raise TryLater(_NAMELESS)
        return _refused(event, order, _NAMELESS)
    return (
        CancelRun(session.key, session.attempt, session.path, processes, event.said_by, event.reason),
        Explain(session.key, "decided", order),
    )


def _refused(event: SessionCancelRequested, order: str, why: str) -> Effects:
    return (Explain(event.session_key, "refused", f"not {order}: {why}"),)
