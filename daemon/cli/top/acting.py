"""What keys of `runward top` ask of the daemon: the same requests as `chain approve`, `chain deny`, `session cancel`,
`chain run cancel` and `session seen` leave.

A request is durable when it was left. What became of it is told when the daemon has decided, without waiting for that here.
"""

import json
import sqlite3
import time
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.problem import counted
from runward.config.settings import Settings
from runward.daemon.cli.shell.asking import ask_daemon, new_request
from runward.daemon.cli.shell.context import is_daemon_up
from runward.daemon.cli.terminal.signs import Terminal
from runward.daemon.cli.terminal.tables import flowed
from runward.daemon.inbox import approval_answers
from runward.daemon.store import reading
from runward.daemon.store.tables import session_lists, sessions
from runward.daemon.store.tables.approvals import ApprovalRow, approvals_called
from runward.daemon.store.tables.events import why_refused
from runward.daemon.views.chain_rows import command_asked
from runward.daemon.views.rows import Row
from runward.daemon.views.sessions import why_not_cancelled
from runward.daemon.views.text import short_id
from runward.handlers.left_files import ELSEWHERE, as_lines, why_not_without


class Asked(NamedTuple):
    """What was asked: what to say at once, and what the store says about it later (None: nothing yet)."""

    said: str
    answer: Callable[[sqlite3.Connection], str | None]


class Question(NamedTuple):
    """What a person is asked before, with all that it is about, and what a yes asks of the daemon."""

    lines: Callable[[Terminal], list[str]]
    asks: str
    then: Callable[[], Asked]


Act: TypeAlias = Callable[[Settings, Row], "Question | Asked | str"]
"""What a key does about a row: a question first, or at once, or nothing, and why."""

_LATER: Final = "; no daemon is running: it is kept until one starts"


def approve(settings: Settings, row: Row) -> Question | Asked | str:
    """Ask whether to approve what the row waits for."""
    return _answer(settings, row, "approved", "Approve it?")


def deny(settings: Settings, row: Row) -> Question | Asked | str:
    """Ask whether to deny what the row waits for."""
    return _answer(settings, row, "denied", "Deny it?")


def _answer(
    settings: Settings, row: Row, decision: Literal["approved", "denied"], asks: str
) -> Question | str:
    if row.approval is None:
        return f"{short_id(row.id)} does not wait for approval"
    with reading.reading(settings.state_dir) as connection:
        found = next(
            (each for each in approvals_called(connection, row.approval) if each.id == row.approval), None
        )
    if found is None or found.status != "asked":
        return f"{short_id(row.id)} does not wait for approval any more"
    approval = found
    shown = json.loads(approval.shown)
    problem = why_not_without(shown, ()) if decision == "approved" else None
    if problem is not None:
        return f"{problem} (runward chain approve {approval.id})"

    def decided(connection: sqlite3.Connection, request: str) -> str | None:
        told = approval_answers.decision(connection, approval.id, request)
        if told is None:
            return None
        return f"{approval.id} of {approval.run} is {told.status}" if told.refused is None else told.refused

    def then() -> Asked:
        request = ask_daemon(settings, approval_answers.answer_request(approval, decision, ""))
        said = f"{approval.id} of {approval.run} is {decision}"
        return _asked(settings, said, lambda connection: decided(connection, request))

    follows = "It runs exactly as shown." if decision == "approved" else "Its chain run is aborted."

    def lines(terminal: Terminal) -> list[str]:
        return [*_approval_lines(approval, terminal), *_sentence(follows, terminal)]

    return Question(lines, asks, then)


def _approval_lines(row: ApprovalRow, terminal: Terminal) -> list[str]:
    """The whole of what is to be approved: nobody approves what was cut."""
    head = f"{row.chain}/{row.step_id()} of {row.run} asks for approval of this command:"
    lines = [*flowed(terminal.text(head), f"{terminal.sign('waiting')} ", "  ", terminal.columns), ""]
    lines += flowed(terminal.command(command_asked(row)), "    ", "    ", terminal.columns)
    files = as_lines(json.loads(row.shown))
    if files:
        covers = f"It covers {counted(len(files), 'file', 'files')} that the steps before it left, but not {ELSEWHERE}:"
        lines += ["", *flowed(terminal.text(covers), "", "", terminal.columns)]
        lines += [
            line for each in files for line in flowed(terminal.text(each), "    ", "      ", terminal.columns)
        ]
    return [*lines, ""]


def cancel(settings: Settings, row: Row) -> Question | Asked | str:
    """Ask whether to cancel what the row is about."""
    return _cancel_run(settings, row) if row.noun == "chain run" else _cancel_session(settings, row)


def _cancel_run(settings: Settings, row: Row) -> Question | str:
    if not row.is_open:
        return f"{short_id(row.id)} is {row.state} already"

    def then() -> Asked:
        from runward.handlers.model.chains import ChainRunCancelRequested

        request = ask_daemon(settings, new_request(ChainRunCancelRequested, row.key, ""))
        return _asked(
            settings,
            f"{row.id} is to be cancelled",
            lambda connection: why_refused(connection, request, row.key),
        )

    what = f"Chain run {row.id} of {row.purpose} ends, and the processes of its step with it."
    return Question(lambda terminal: _sentence(what, terminal), f"Cancel {row.id}?", then)


def _cancel_session(settings: Settings, row: Row) -> Question | str:
    with reading.reading(settings.state_dir) as connection:
        found = sessions.session(connection, row.key)
    if found is None:
        return f"{short_id(row.id)} is not judged yet"
    session = found
    problem = why_not_cancelled(session)
    if problem is not None:
        return f"{short_id(session.session_id)} {problem}"

    def then() -> Asked:
        from runward.handlers.model.requests import SessionCancelRequested

        request = ask_daemon(settings, new_request(SessionCancelRequested, session.key, session.attempt, ""))
        said = f"{short_id(session.session_id)} will be cancelled"
        return _asked(settings, said, lambda connection: why_refused(connection, request))

    what = f"The processes of {session.session_id} get SIGTERM, then SIGKILL after the grace period."
    return Question(lambda terminal: _sentence(what, terminal), f"Cancel {session.session_id}?", then)


def mark_seen(settings: Settings, row: Row) -> Question | Asked | str:
    """Mark a failure as seen."""
    with reading.reading(settings.state_dir) as connection:
        found = sessions.session(connection, row.key)
        is_unseen = session_lists.is_unseen_failure(connection, row.key, time.time())
    if found is None or not is_unseen:
        return f"{short_id(row.id)} is not a failure that `runward status` shows"
    session = found
    from runward.handlers.model.requests import SessionSeenRequested

    request = ask_daemon(settings, new_request(SessionSeenRequested, session.key, session.attempt))

    def recorded(connection: sqlite3.Connection) -> str | None:
        is_seen = sessions.is_seen(connection, session.key, session.attempt)
        return f"{short_id(session.session_id)} is seen" if is_seen else why_refused(connection, request)

    return _asked(settings, f"{short_id(session.session_id)} is to be marked as seen", recorded)


def _asked(settings: Settings, said: str, answer: Callable[[sqlite3.Connection], str | None]) -> Asked:
    return Asked(said if is_daemon_up(settings) else f"{said}{_LATER}", answer)


def _sentence(text: str, terminal: Terminal) -> list[str]:
    return [*flowed(terminal.text(text), "", "", terminal.columns), ""]


ACTS: Final[dict[str, Act]] = {"a": approve, "d": deny, "x": cancel, "s": mark_seen}
"""What each key does."""
