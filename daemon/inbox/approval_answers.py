"""Answering an approval: the one way for commands and for links."""

import sqlite3
import time
import uuid
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from runward.daemon.store.tables import approvals
from runward.daemon.store.tables.approvals import ApprovalRow
from runward.daemon.store.tables.events import why_refused

if TYPE_CHECKING:
    from runward.handlers.model.approvals import ApprovalRequested

LONGEST_NOTE: Final = 2000
"""Characters of the note of an answer from a page."""

Answer: TypeAlias = Literal["approved", "denied"]


class Decided(NamedTuple):
    """The state of the approval once the answer was processed: its status, or why the answer was refused."""

    status: str
    refused: str | None = None


def answer_request(
    row: ApprovalRow, answer: Answer, note: str, without: tuple[str, ...] = (), *, by_link: bool = False
) -> "ApprovalRequested":
    """The request that answers an approval."""
    from runward.handlers.model.approvals import ApprovalRequested

    return ApprovalRequested(
        request=str(uuid.uuid4()),
        at=time.time(),
        approval=row.id,
        run=row.run,
        decision=answer,
        note=note,
        by_link=by_link,
        without=without,
    )


def decision(connection: sqlite3.Connection, approval: str, request: str) -> Decided | None:
    """The result of an answer, or None yet."""
    refused = why_refused(connection, request)
    status = approvals.approvals_called(connection, approval)[0].status
    return None if refused is None and status == "asked" else Decided(status, refused)
