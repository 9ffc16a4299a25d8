"""The page of one session: its verdict, what its contract expects, its outcomes, its timeline, why, and its files."""

import shlex
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store.ownership import holder
from runward.daemon.store.reading_sessions import SessionRow, is_unseen_failure
from runward.daemon.studio.cards import card
from runward.daemon.studio.rendering import address, page
from runward.daemon.views.outcomes import disagreement, expected_artifacts, not_delivered
from runward.daemon.views.sessions import session_as_json
from runward.daemon.views.text import duration
from runward.handlers.secrets import json_without_secrets

if TYPE_CHECKING:
    from runward.daemon.views.timeline import TimelinePage

_MOST_VERIFIED: Final = 16 << 20
"""Bytes of a bundle whose receipt is verified for a page."""

_BUNDLE_WORDS: Final = {
    "on_demand": "none yet: `runward session export` makes it",
    "growing": "its replay grows",
    "pending": "is being made",
    "failed": "there is none",
}


class Fact(NamedTuple):
    """Something known of a session. `links` are addresses with their texts; `state` is a word with a shape and a colour."""

    name: str
    text: str = ""
    is_code: bool = False
    links: tuple[tuple[str, str], ...] = ()
    state: str | None = None
    moment: JsonValue = None


class ReadSession(NamedTuple):
    """What a page needs of a session."""

    session: dict[str, JsonValue]
    receipt: JsonValue
    why: dict[str, JsonValue]
    timeline: "TimelinePage"
    not_delivered: dict[str, str]
    is_unseen: bool


def session_page(request: Request, found: ReadSession) -> Response:
    """Everything about a session."""
    session, receipt, why, timeline = found.session, found.receipt, found.why, found.timeline
    reason = session["reason"]
    assert isinstance(reason, dict), "our own JSON"
    expected = expected_artifacts(session["contract"], session["verification"], found.not_delivered)
    decided = _last_verdict(why)
    return page(
        request,
        "session.html",
        {
            "session": session,
            "receipt": receipt,
            "why": why,
            "timeline": timeline.entries,
            "next": timeline.next,
            "not_shown": timeline.not_shown,
        },
        later=None if timeline.next is None else address(request, after=timeline.next),
        is_later="after" in request.query_params,
        facts=_facts(session, receipt),
        is_unseen=found.is_unseen,
        exited_with_0=session["status"] == "failed" and decided.get("exit_code") == 0,
        cards=[card(each, session) for each in _objects(session["artifacts"])],
        invalid=_invalid(decided),
        expected=expected,
        rules=_objects(session["rules"]),
        evidence=_objects(reason["evidence_refs"]),
        whys={each.id: each.why for each in expected or () if each.state != "delivered"},
        disagreement=disagreement(str(session["status"]), str(reason["code"]), session["verification"]),
        files=_files_by_entry(session),
    )


def read_session(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, after: str | None
) -> ReadSession:
    """What the page of this session needs; its timeline begins `after` the page before. Raises `NotOurs`."""
    # Only this page needs them, and importing them takes long.
    from runward.daemon.views.receipts import verified_receipt
    from runward.daemon.views.timeline import START, Timeline, position_of
    from runward.daemon.views.why import session_story

    start = START if after is None else position_of(after)
    session = session_as_json(connection, settings, row, lambda _: None)
    is_up = holder(Path(settings.state_dir)) is not None
    story = session_story(connection, row, is_up, time.time())
    why = json_without_secrets(story.as_json(), settings.bundle.rules.redact)
    assert isinstance(why, dict), "our own JSON"
    verified = None
    if _size_of_bundle(session) <= _MOST_VERIFIED:
        verified = verified_receipt(connection, settings, row, lambda _: None)
    return ReadSession(
        session,
        None if verified is None else verified.as_json(),
        why,
        Timeline(connection, settings, row).page(start, session),
        not_delivered(connection, row.key),
        is_unseen_failure(connection, row.key, time.time()),
    )


def _size_of_bundle(session: dict[str, JsonValue]) -> int:
    bundle = session["bundle"]
    parts = _objects(bundle["parts"]) if isinstance(bundle, dict) else []
    return sum(int(str(each["size"])) for each in parts)


def _last_verdict(why: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """What the last verdict knew."""
    for each in reversed(_objects(why["causes"])):
        known = each.get("known")
        if each.get("handler") == "sessions/ended" and isinstance(known, dict):
            return known
    return {}


def _invalid(decided: dict[str, JsonValue]) -> list[tuple[str, list[str]]]:
    """Each file that is not a valid outcome, with each wrong field."""
    found = decided.get("invalid_outcomes")
    if not isinstance(found, dict):
        return []
    return [
        (file, [str(each) for each in (problems if isinstance(problems, list) else [problems])])
        for file, problems in found.items()
    ]


def _files_by_entry(session: dict[str, JsonValue]) -> dict[str, list[str]]:
    """The paths of what was delivered, by the entry of the contract; a glob has several."""
    found: dict[str, list[str]] = {}
    for each in _objects(session["files"]):
        found.setdefault(str(each["id"]).partition(":")[0], []).append(str(each["path"]))
    return found


def _facts(session: dict[str, JsonValue], receipt: JsonValue) -> list[Fact]:
    """What is known of a session; without what is not known."""
    usage, command, took = session["usage"], session["command"], session["duration_s"]
    tokens = f"{usage['input_tokens']} in, {usage['output_tokens']} out" if isinstance(usage, dict) else None
    linked = session["linked"] if isinstance(session["linked"], list) else []
    invocation = session["invocation_id"]
    return [
        *_said(session, {"Playbook": "playbook", "Agent": "agent", "Model": "model"}),
        Fact("Started", moment=session["started_at"]),
        *([Fact("Took", duration(float(took)))] if isinstance(took, int | float) else []),
        *([Fact("Attempt", str(session["attempt"]))] if session["attempt"] != 1 else []),
        *([Fact("Delivery", state=str(session["delivery"]))] if session["delivery"] else []),
        *_said(session, {"Evidence of the end": "ended_by", "Activity": "activity"}),
        *([Fact("Contract", f"fixed ({session['contract_basis']})")] if session["contract_basis"] else []),
        *_said(session, {"Problem of the contract": "contract_problem", "Containment": "containment"}),
        *([Fact("Tokens", tokens)] if tokens else []),
        *([Fact("Linked", links=_links("/sessions/", linked))] if linked else []),
        *([Fact("Invocation", links=_links("/invocations/", [invocation]))] if invocation else []),
        *([Fact("Command", shlex.join(map(str, command)), True)] if isinstance(command, list) else []),
        *([Fact("Directory", str(session["cwd"]), True)] if session["cwd"] else []),
        Fact("Path", str(session["path"]), True),
        *(
            [Fact("Origin", "it ended before its root was first seen")]
            if session["origin"] == "history"
            else []
        ),
        *_receipt(session, receipt),
    ]


def _said(session: dict[str, JsonValue], keys: dict[str, str]) -> list[Fact]:
    return [Fact(name, str(session[key])) for name, key in keys.items() if session[key] is not None]


def _links(before: str, names: list[JsonValue]) -> tuple[tuple[str, str], ...]:
    return tuple((before, str(each)) for each in names)


def _receipt(session: dict[str, JsonValue], receipt: JsonValue) -> list[Fact]:
    bundle = session["bundle"]
    if not isinstance(bundle, dict):
        return []
    state, problem = str(bundle["state"]), f" ({bundle['problem']})" if bundle["problem"] else ""
    if state in _BUNDLE_WORDS:
        return [Fact("Bundle", f"{_BUNDLE_WORDS[state]}{problem}")]
    if not isinstance(receipt, dict):
        too_large = "too large to be verified for a page: use `runward receipt verify`"
        said = too_large if _size_of_bundle(session) > _MOST_VERIFIED else "it is not where it was put"
        return [Fact("Receipt", f"{said}{problem}", state="warning")]
    signature = {"absent": "not signed", "valid": "signed", "unknown_key": "signed by an unknown key"}
    signed = signature.get(str(receipt["signature"]), "its signature is invalid")
    problems = "; ".join(f"{each['part']}: {each['message']}" for each in _objects(receipt["problems"])[:3])
    said = f"{signed}{f': {problems}' if problems else ''}{problem}"
    return [Fact("Receipt", said, state="valid" if receipt["valid"] else "invalid")]


def _objects(value: JsonValue) -> list[dict[str, JsonValue]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
