"""When the daemon itself ends a launched run, and when it leaves it alone."""

import pytest
from tests.handlers.examples import HASH, KEY, NOW, session
from tests.handlers.played import Answer, AnyQuestion, played

from runward.handlers.model.asking import NotYet
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.sessions import AgeOf, EndTree, RunLaunched, Session, SessionOf
from runward.handlers.route import duties
from runward.handlers.sessions import ended

CGROUP = "/sys/fs/cgroup/runward-a-1f"
LAUNCHED = RunLaunched(KEY, "1", 100.0, "5" * 64, (1, 10, "b"), (2, 20, "b"), None, 60.0, 5.0, CGROUP)
AGE = AgeOf(RecordedProcess(1, 10, "b"), RecordedProcess(2, 20, "b"))
RUNNING = session(None)
decide = played(ended.enforce_deadline)


def decided(stands: Session | None, age: float | None) -> object:
    known: dict[AnyQuestion, Answer] = {SessionOf(KEY): stands, AGE: age}
    return decide(LAUNCHED, HASH, known, NOW)


def test_it_is_due_once_timeout_grace_and_a_margin_for_the_launcher_are_over() -> None:
    ((_, handler, lane, due),) = duties(LAUNCHED)
    assert (handler, lane, due) == ("sessions/deadline", f"timer:{KEY}", 100.0 + 60.0 + 5.0 + 5.0)


def test_a_run_without_a_timeout_has_no_deadline() -> None:
    assert duties(RunLaunched(KEY, "1", 100.0, "5" * 64, (1, 10, "b"), (2, 20, "b"))) == ()


def test_a_run_that_goes_on_after_its_time_is_ended_with_all_its_processes() -> None:
    found = decided(RUNNING, 70.0)
    assert isinstance(found, tuple)
    end = found[0]
    assert isinstance(end, EndTree)
    assert (end.key, end.attempt, end.timeout) == (KEY, RUNNING.attempt, 60.0)
    assert end.processes.is_recorded
    assert end.processes.cgroup == CGROUP


@pytest.mark.parametrize("age", [0.0, 30.0, 69.9])
def test_a_wall_clock_that_was_set_forward_ends_nothing_early(age: float) -> None:
    found = decided(RUNNING, age)
    assert isinstance(found, NotYet)
    assert found.until == pytest.approx(NOW + 70.0 - age)


@pytest.mark.parametrize(
    ("stands", "age"),
    [(RUNNING._replace(status="completed"), 70.0), (RUNNING, None), (None, None)],
    ids=["it is over", "its processes are gone", "it was never a session"],
)
def test_what_is_over_is_left_alone(stands: Session | None, age: float | None) -> None:
    assert decided(stands, age) == ()


def test_a_run_that_is_not_a_session_yet_is_looked_for_again() -> None:
    found = decided(None, 70.0)
    assert isinstance(found, NotYet)
    assert found.until == NOW + ended.NEXT_CHECK
