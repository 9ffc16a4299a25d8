"""What a person asks of the daemon, and is asked: what came of a request, and what an approval is about."""

import json
import shlex
import sqlite3
from pathlib import Path
from typing import Final, Literal, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.inbox.spool import INBOX, REJECTED, SUFFIX
from runward.daemon.store.tables.approvals import ApprovalRow
from runward.daemon.store.tables.events import decisions_on, event_of
from runward.daemon.store.tables.jobs import jobs_for_events
from runward.daemon.views.text import visible
from runward.handlers.left_files import ELSEWHERE, as_lines, unbound

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


_MOST_SHOWN: Final = 256 << 10
"""Characters of each part; the hash covers all of it."""


class ShownApproval(NamedTuple):
    """What a page shows of an approval, with nothing invisible in it. `parts` are titles and texts.

    `unbound` are the files that it can't cover: the path, how it is shown, and why.
    """

    command: str
    parts: list[tuple[str, str]]
    unbound: list[tuple[str, str, str]]


def shown_approval(row: ApprovalRow) -> ShownApproval:
    """What a person decides about."""
    shown = json.loads(row.shown)
    files = as_lines(shown)
    parts = [
        ("Directory", visible(str(shown["cwd"])) if shown.get("cwd") else ""),
        ("Variables", _listed(shown.get("env"))),
        ("Outcomes before it", _listed(shown.get("outcomes"))),
        ("Files before it, which the approval covers", visible("\n".join(files))),
        ("What it does not cover", ELSEWHERE if files else ""),
    ]
    return ShownApproval(
        # Escaped, because a character that turns the direction of writing could show another command than the one that runs.
        visible(shlex.join(shown["argv"]))[:_MOST_SHOWN],
        [(title, text[:_MOST_SHOWN]) for title, text in parts if text],
        [(path, visible(path), what) for path, what in unbound(shown).items()],
    )


def _listed(value: JsonValue) -> str:
    return visible(json.dumps(value, ensure_ascii=False, indent=2)) if value else ""
