"""The worktree of a step: what is checked out, and whether it stays after the end."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.handlers.chains.test_firing import fired
from tests.handlers.chains.test_machine import FIRED, TEXT, changed, finished, of

from runward.config.json_value import JsonValue
from runward.handlers.model.chains import ChainFired, SetStep
from runward.handlers.model.effects import Explain
from runward.handlers.model.invocations import RemoveWorktree, StartRun


def with_worktree(keep: str = "on_failure") -> JsonValue:
    tree = f'worktree: {{repo: "{{{{ trigger.repo }}}}", ref: "{{{{ trigger.ref }}}}", keep: {keep}}}'
    found: JsonValue = changed(TEXT.replace("{id: review,", f"{{id: review, {tree},"))
    return found


def fires(**fields: JsonValue) -> tuple[Any, ...]:
    event: ChainFired = replace(FIRED, definition=with_worktree(), fields={"pr": 7, **fields})
    return fired(event)


def test_a_step_starts_with_the_repository_and_the_ref_that_its_values_give() -> None:
    (start,) = of(StartRun, fires(repo="/srv/app", ref="abc"))
    assert start.worktree == ("/srv/app", "abc")
    (said,) = [each for each in of(Explain, fires(repo="/srv/app", ref="abc")) if each.known]
    assert said.known["worktree"] == {"repo": "/srv/app", "ref": "abc"}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"repo": "app", "ref": "main"}, "worktree.repo is not an absolute path: app"),
        ({"repo": "/a\0b", "ref": "main"}, "worktree.repo is not an absolute path"),
        ({"repo": "/app", "ref": "--orphan"}, "worktree.ref is not a branch, a tag or a commit: --orphan"),
        ({"repo": "/app", "ref": ""}, "worktree.ref is not a branch"),
        ({"repo": "/app"}, "worktree.ref"),
    ],
)
def test_values_that_git_would_misread_fail_the_step(fields: dict[str, JsonValue], why: str) -> None:
    (step,) = of(SetStep, fires(**fields))
    assert (step.standing.status, step.standing.reason) == ("failed", "run.failed.not_started")
    assert why in step.reason_summary


@pytest.mark.parametrize(
    ("keep", "status", "is_removed"),
    [
        ("never", "completed", True),
        ("never", "failed", True),
        ("on_failure", "completed", True),
        ("on_failure", "timed_out", False),
        ("always", "completed", False),
    ],
)
@pytest.mark.parametrize("run_status", ["running", "cancelled"])
def test_a_worktree_is_removed_after_the_end_unless_it_is_kept(
    keep: str, status: Any, is_removed: bool, run_status: Any
) -> None:
    effects = finished(status, definition=with_worktree(keep), run_status=run_status)
    assert len(of(RemoveWorktree, effects)) == is_removed
    kept = [each for each in of(Explain, effects) if "is kept: worktrees/" in each.summary]
    assert len(kept) == (not is_removed)
