"""Notices to people outside, as programs read them."""

from runward.config.json_value import JsonValue
from runward.daemon.store.reading_notices import NoticeRow
from runward.daemon.views.units import iso


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
