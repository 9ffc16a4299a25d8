"""A person wants a session ended: when that is ordered, and why it is refused."""

import pytest
from tests.handlers.examples import KEY, session
from tests.handlers.played import Need, played

from runward.handlers import requests as handler
from runward.handlers.model.asking import TryLater
from runward.handlers.model.effects import Explain
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.requests import CancelRun, SessionCancelRequested
from runward.handlers.model.sessions import Launch, LaunchOf, ProcessesOf, RunProcesses, Session, SessionOf

cancel = played(handler.cancel_session)
LAUNCHER = RecordedProcess(100, 700, "this-boot")
NAMED = RunProcesses(LAUNCHER, None, "here")


def asked(reason: str = "wrong branch", attempt: int = 1) -> SessionCancelRequested:
    return SessionCancelRequested("a-uuid", 10.0, KEY, attempt, reason, "alice")


def decided(
    event: SessionCancelRequested,
    found: Session | None,
    processes: RunProcesses = NAMED,
    launch: Launch | None = None,
) -> object:
    known = {SessionOf(KEY): found, ProcessesOf(KEY): processes, LaunchOf(KEY): launch}
    return cancel(event, "hash", known, 11.0, 4)


def test_it_asks_for_the_session_and_for_whom_its_files_name() -> None:
    assert cancel(asked(), "hash", {SessionOf(KEY): None}, 11.0) == Need(ProcessesOf(KEY))
    assert cancel(asked(), "hash", {}, 11.0) == Need(SessionOf(KEY))


def test_a_running_session_is_ordered_to_end_by_whom_and_why() -> None:
    found = session()
    assert decided(asked(), found) == (
        CancelRun(KEY, 1, found.path, NAMED, "alice", "wrong branch"),
        Explain(KEY, "decided", "cancelled by alice: wrong branch"),
    )


def test_whom_the_launcher_recorded_goes_before_whom_the_files_name() -> None:
    launcher, process = RecordedProcess(1, 2, "this-boot"), RecordedProcess(3, 4, "this-boot")
    found = decided(asked(), session(), launch=Launch(1.0, "5" * 64, None, launcher, process))
    assert isinstance(found, tuple)
    assert found[0].processes == RunProcesses(launcher, process, "here", is_recorded=True)


def test_a_reason_need_not_be_given() -> None:
    assert decided(asked(reason=""), session()) == (
        CancelRun(KEY, 1, session().path, NAMED, "alice", ""),
        Explain(KEY, "decided", "cancelled by alice"),
    )


@pytest.mark.parametrize(
    ("found", "processes", "why"),
    [
        (None, NAMED, "there is no such session"),
        (session(status="completed"), NAMED, "it is already completed"),
        (session(attempt=2), NAMED, "attempt 1 was requested, but attempt 2 is the last"),
        (
            session(layout="codex"),
            NAMED,
            "another tool runs it and has to end it: only native runs can be cancelled",
        ),
        (session(), RunProcesses(None, None, "here"), "its files name no process that could be asked to end"),
    ],
)
def test_what_cannot_be_cancelled_is_refused_and_why(
    found: Session | None, processes: RunProcesses, why: str
) -> None:
    assert decided(asked(), found, processes) == (
        Explain(KEY, "refused", f"not cancelled by alice: wrong branch: {why}"),
    )


def test_a_run_that_names_no_process_yet_is_looked_at_again() -> None:
    known = {
        SessionOf(KEY): session(),
        ProcessesOf(KEY): RunProcesses(None, None, "here"),
        LaunchOf(KEY): None,
    }
    assert isinstance(cancel(asked(), "hash", known, 11.0, 3), TryLater)
