"""What the daemon was asked for and has to do, as programs read it: what came of a request, jobs, and notices to people."""

import sqlite3
from pathlib import Path
from typing import Literal, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.inbox.spool import INBOX, REJECTED, SUFFIX
from runward.daemon.store.reading_notices import NoticeRow
from runward.daemon.store.reading_queue import JobRow, decisions_on, event_of, jobs_for_events
from runward.daemon.views.text import iso

_OPEN = ("waiting", "running")


class RequestResult(NamedTuple):
    """How far a request is, and what was decided, in words."""

    state: Literal["waiting", "done", "refused", "held", "unknown"]
    text: str


def request_result(connection: sqlite3.Connection, state: Path, request: str) -> RequestResult:
    """What came of the request of this name."""
    # The file goes only after its event is in the store: looked at in this order, a request is never missed between them.
    waits = (state / INBOX / (request + SUFFIX)).exists()
    event = event_of(connection, request)
    if event is None:
        if waits:
            return RequestResult("waiting", "It is stored, and not decided yet.")
        if (state / REJECTED / (request + SUFFIX)).exists():
            return RequestResult(
                "refused", "The daemon can't read it; the file is in rejected/ of the state directory."
            )
        return RequestResult(
            "unknown",
            "Nothing is recorded of it: what it asks for had been done before, or its record was pruned.",
        )
    jobs = jobs_for_events(connection, [event])
    held = next((each for each in jobs if each.state == "held"), None)
    if held is not None:
        why = held.error or "no reason is recorded"
        return RequestResult("held", f"Runward failed at it, and keeps it as job {held.id}: {why}.")
    decisions = decisions_on(connection, request)
    refused = next((each.summary for each in decisions if each.verdict == "refused"), None)
    if refused is not None:
        return RequestResult("refused", f"Refused: {refused}.")
    if any(each.state in _OPEN for each in jobs):
        return RequestResult("waiting", "It is recorded, and not decided yet.")
    return RequestResult("done", f"Done: {decisions[0].summary}." if decisions else "Done.")


def job_as_json(job: JobRow) -> dict[str, JsonValue]:
    """A job as `queue list --json` prints it."""
    return {
        "id": job.id,
        "event": job.event_key,
        "type": job.event_type,
        "handler": job.handler,
        "lane": job.lane,
        "state": job.state,
        "tries": job.tries,
        "error": job.error,
        "recorded_at": iso(job.recorded_at),
        "due_at": iso(job.run_after) if job.run_after else None,
        "updated_at": iso(job.updated_at),
        "blocked_by": job.blocked_by,
    }


def notice_as_json(row: NoticeRow) -> JsonValue:
    """A notice as `notify list --json` prints it."""
    return {
        "id": row.id,
        "kind": row.kind,
        "subject": row.subject,
        "recipient": row.recipient,
        "title": row.title,
        "text": row.text,
        "state": row.state,
        "created_at": iso(row.created_at),
        "tries": row.tries,
        "next_at": iso(row.next_at) if row.state == "pending" else None,
        "problem": row.error,
        "settled_at": None if row.settled_at is None else iso(row.settled_at),
    }
