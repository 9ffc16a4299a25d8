"""Answering an approval: the one way for commands and for links."""

import sqlite3
import time
import uuid
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.daemon.inbox.spool import leave_request
from runward.daemon.store import reading_chains
from runward.daemon.store.reading_chains import ApprovalRow
from runward.daemon.store.reading_queue import why_refused

LONGEST_NOTE: Final = 2000
"""Characters of the note of an answer from a page."""

Answer: TypeAlias = Literal["approved", "denied"]


class Decided(NamedTuple):
    """The state of the approval once the answer was processed: its status, or why the answer was refused."""

    status: str
    refused: str | None = None


def put_answer(
    state: Path,
    row: ApprovalRow,
    answer: Answer,
    note: str,
    without: tuple[str, ...] = (),
    *,
    by_link: bool = False,
) -> str:
    """Leave the answer in the inbox, durably; returns the request's name. Raises `RequestTooLong` and `OSError`."""
    from runward.handlers.model.approvals import ApprovalRequested

    request = str(uuid.uuid4())
    event = ApprovalRequested(
        request=request,
        at=time.time(),
        approval=row.id,
        run=row.run,
        decision=answer,
        note=note,
        by_link=by_link,
        without=without,
    )
    return leave_request(state, event)


def decision(connection: sqlite3.Connection, approval: str, request: str) -> Decided | None:
    """The result of an answer, or None yet."""
    refused = why_refused(connection, request)
    status = reading_chains.approvals_called(connection, approval)[0].status
    return None if refused is None and status == "asked" else Decided(status, refused)
