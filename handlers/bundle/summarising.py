"""Turns a replay and its order into the facts of the summary."""

from collections.abc import Callable

from runward.handlers.bundle.replay import Replay
from runward.handlers.bundle.summary import Failure, Summary, rates, verified
from runward.handlers.bundle.work_tree import with_git
from runward.handlers.model.bundle import BundleOrder, Cost, FileEdit


def summary_of(replay: Replay) -> Summary:
    """The facts of a replay, once all its lines were made. What agents wrote is redacted as in the replay."""
    order, shown = replay.order, replay.redaction.text
    duration_s = max(0.0, order.verdict.at - order.stretch.started_at)
    calls = len(replay.calls)
    succeeded = sum(call.success for call in replay.calls.values())
    apm, sapm = rates(calls, succeeded, duration_s)
    return Summary(
        session_id=order.session_id,
        changes=tuple(shown(each) for each in _changes(order)),
        files=tuple(each._replace(path=shown(each.path)) for each in _files(replay)),
        verification=verified(replay.verification.runs()),
        confidence=replay.confidence,
        issue_number=replay.issue_number,
        duration_s=round(duration_s, 6),
        apm=apm,
        sapm=sapm,
        tokens=order.usage,
        cost=order.cost if replay.cost_usd is None else Cost(replay.cost_usd, "usd"),
        failure=_failure(order, shown),
        lacks_untracked=order.work_tree is not None and order.work_tree.lacks_untracked,
    )


def _changes(order: BundleOrder) -> tuple[str, ...]:
    """The summaries of outcomes, then the subjects of commits."""
    return order.changes if order.work_tree is None else order.changes + order.work_tree.commits


def _files(replay: Replay) -> tuple[FileEdit, ...]:
    """The changed files. Those in the session's working directory are named by their paths below it."""
    cwd, tree = replay.order.cwd, replay.order.work_tree
    files = replay.edits.files()
    if tree is not None:
        files = with_git(files, tree.top, tree.files)
    prefix = None if cwd is None else cwd.rstrip("/") + "/"
    return tuple(
        each._replace(path=each.path.removeprefix(prefix)) if prefix is not None else each for each in files
    )


def _failure(order: BundleOrder, shown: Callable[[str], str]) -> Failure | None:
    if order.verdict.status == "completed":
        return None
    return Failure(shown(order.verdict.reason_summary) or order.verdict.reason_code, order.next_steps)
