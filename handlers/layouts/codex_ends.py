"""How a Codex turn ended, by the record that says so."""

from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.layouts.codex_turns import completed
from runward.handlers.layouts.transcript import Close
from runward.handlers.model.reasons import ReasonCode

LONGEST_SUMMARY: Final = 200

_NO_END: Final = frozenset({"thread_rollback_failed", "active_turn_not_steerable"})
"""Errors that Codex doesn't count as a turn's end."""

_LIMITS: Final = frozenset({"context_window_exceeded", "session_budget_exceeded"})
_OWN: Final = frozenset({"sandbox_error"})

_ABORTS: Final = {
    "interrupted": Close("aborted", "run.aborted.user", "the turn was interrupted"),
    "replaced": Close("aborted", "run.aborted.user", "the turn was replaced by another prompt"),
    "review_ended": Close("aborted", "run.aborted.user", "the review was ended"),
    "budget_limited": Close("failed", "run.failed.limit_reached", "the turn's budget is used up"),
}


def end_of_task(payload: dict[str, JsonValue], owes: bool, at: float | None) -> Close:
    """What `task_complete` says. `owes`: the model has yet to answer a prompt or a tool's output.

    Newer versions record the error that ended the turn. Older ones only leave out the last message. If the model
    still owes an answer, that was not a clean end either.
    """
    error = payload.get("error")
    if error is not None:
        return failure(error, at)
    if owes and not isinstance(payload.get("last_agent_message"), str):
        return Close("failed", "run.failed.api_error", "the turn ended without the model's answer", at)
    return completed(at)


def end_by_abort(payload: dict[str, JsonValue], at: float | None) -> Close:
    """What `turn_aborted` says. An unknown reason is an interrupt, too, and is named."""
    reason = payload.get("reason")
    if not isinstance(reason, str):
        return _ABORTS["interrupted"]._replace(at=at)
    known = _ABORTS.get(reason)
    if known is None:
        known = Close("aborted", "run.aborted.user", _clip(f"the turn was aborted: {reason}"))
    return known._replace(at=at)


def ends_turn(error: JsonValue) -> bool:
    """Whether an `error` event ends the turn it comes in."""
    return _kind(error) not in _NO_END


def failure(error: JsonValue, at: float | None) -> Close:
    """The end by this error: the model's API failed or refused, unless the error names another kind."""
    kind = _kind(error)
    message = error.get("message") if isinstance(error, dict) else error
    if not isinstance(message, str) or not message:
        message = kind or "the agent reports an error"
    code: ReasonCode = "run.failed.api_error"
    if kind in _LIMITS:
        code = "run.failed.limit_reached"
    elif kind in _OWN:
        code = "run.failed.exception"
    return Close("failed", code, _clip(message), at)


def _kind(error: JsonValue) -> str:
    """The error's kind: a name, or an object with the name as its only key."""
    info = error.get("codex_error_info") if isinstance(error, dict) else None
    if isinstance(info, dict):
        info = next(iter(info), None)
    return info if isinstance(info, str) else ""


def _clip(text: str) -> str:
    return text if len(text) <= LONGEST_SUMMARY else text[:LONGEST_SUMMARY] + "…"
