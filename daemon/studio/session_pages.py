"""Sessions, and one session with what its contract expects."""

import shlex
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runward.config.json_value import JsonValue, objects
from runward.config.settings import Settings
from runward.daemon.store.ownership import holder
from runward.daemon.store.reading import search_end
from runward.daemon.store.tables.session_lists import EVERY, Wanted, is_unseen_failure
from runward.daemon.store.tables.sessions import SessionRow, verification_of
from runward.daemon.studio.cards import card
from runward.daemon.studio.filters import Filters, Older, later_of, older
from runward.daemon.studio.pages import DOWNLOAD, Entry, Form, Opened, Pages, file_page, opened_file
from runward.daemon.studio.rendering import PAGE, address, in_address, page
from runward.daemon.views.causes import invalid_outcomes
from runward.daemon.views.outcomes import disagreement, expected_artifacts, not_delivered
from runward.daemon.views.session_files import (
    LOGS,
    PARTS,
    NoFile,
    RecordedFile,
    delivered_file,
    journal_file,
    log_file,
    outcome_file,
    part_file,
)
from runward.daemon.views.sessions import (
    SESSION_STATUSES,
    newest_sessions,
    session_as_json,
    session_with_key,
    sessions_as_json,
    shown_cost,
)
from runward.daemon.views.text import duration, tokens
from runward.handlers.model.reasons import FAILURES
from runward.handlers.secrets import json_without_secrets

if TYPE_CHECKING:
    from runward.daemon.views.timeline import TimelinePage
    from runward.handlers.model.requests import SessionCancelRequested, SessionSeenRequested


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
    cost: str | None


def session_page(request: Request, session_read: ReadSession) -> Response:
    """Everything about a session."""
    session, receipt, why, timeline, not_there, is_unseen, cost = session_read
    reason = session["reason"]
    assert isinstance(reason, dict), "our own JSON"
    expected = expected_artifacts(session["contract"], session["verification"], not_there)
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
        facts=_facts(session, receipt, cost),
        is_unseen=is_unseen,
        exited_with_0=session["status"] == "failed" and decided.get("exit_code") == 0,
        cards=[card(each, session) for each in objects(session["artifacts"])],
        invalid=invalid_outcomes(decided),
        expected=expected,
        rules=objects(session["rules"]),
        evidence=objects(reason["evidence_refs"]),
        whys={each.id: each.why for each in expected or () if each.state != "delivered"},
        disagreement=disagreement(str(session["status"]), str(reason["code"]), session["verification"]),
        files=_files_by_entry(session),
    )


def read_session(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, after: str | None
) -> ReadSession:
    """What the page of this session needs; its timeline begins `after` the page before. Raises `NotOurs`."""
    # Only this page needs them, and importing them takes long.
    from runward.daemon.views.answers import answered_json
    from runward.daemon.views.receipts import verified_receipt
    from runward.daemon.views.timeline import START, Timeline, position_of
    from runward.daemon.views.why import session_story

    start = START if after is None else position_of(after)
    session = session_as_json(connection, settings, row, lambda _: None)
    is_up = holder(Path(settings.state_dir)) is not None
    story = session_story(connection, row, is_up, time.time())
    why = json_without_secrets(answered_json(connection, story), settings.bundle.rules.redact)
    assert isinstance(why, dict), "our own JSON"
    verified = None
    if _size_of_bundle(session) <= _MOST_VERIFIED:
        verified = verified_receipt(connection, settings, row, lambda _: None)
    return ReadSession(
        session=session,
        receipt=None if verified is None else verified.as_json(),
        why=why,
        timeline=Timeline(connection, settings, row).page(start, session),
        not_delivered=not_delivered(connection, row.key),
        is_unseen=is_unseen_failure(connection, row.key, time.time()),
        cost=shown_cost(connection, settings, row),
    )


def _size_of_bundle(session: dict[str, JsonValue]) -> int:
    bundle = session["bundle"]
    parts = objects(bundle["parts"]) if isinstance(bundle, dict) else []
    return sum(int(str(each["size"])) for each in parts)


def _last_verdict(why: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """What the last verdict knew."""
    for each in reversed(objects(why["causes"])):
        known = each.get("known")
        if each.get("handler") == "sessions/ended" and isinstance(known, dict):
            return known
    return {}


def _files_by_entry(session: dict[str, JsonValue]) -> dict[str, list[str]]:
    """The paths of what was delivered, by the entry of the contract; a glob has several."""
    names: dict[str, list[str]] = {}
    for each in objects(session["files"]):
        names.setdefault(str(each["id"]).partition(":")[0], []).append(str(each["path"]))
    return names


def _facts(session: dict[str, JsonValue], receipt: JsonValue, cost: str | None) -> list[Fact]:
    """What is known of a session; without what is not known."""
    command, took, spent = session["command"], session["duration_s"], tokens(session["usage"])
    linked = session["linked"] if isinstance(session["linked"], list) else []
    invocation = session["invocation_id"]
    return [
        *_present(session, {"Playbook": "playbook", "Agent": "agent", "Model": "model"}),
        Fact("Started", moment=session["started_at"]),
        *([Fact("Took", duration(float(took)))] if isinstance(took, int | float) else []),
        *([Fact("Attempt", str(session["attempt"]))] if session["attempt"] != 1 else []),
        *([Fact("Delivery", state=str(session["delivery"]))] if session["delivery"] else []),
        *_present(session, {"Evidence of the end": "ended_by", "Activity": "activity"}),
        *([Fact("Contract", f"fixed ({session['contract_basis']})")] if session["contract_basis"] else []),
        *_present(session, {"Problem of the contract": "contract_problem", "Containment": "containment"}),
        *([Fact("Tokens", spent)] if spent else []),
        *([Fact("Cost", cost)] if cost else []),
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


def _present(session: dict[str, JsonValue], keys: dict[str, str]) -> list[Fact]:
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
        message = too_large if _size_of_bundle(session) > _MOST_VERIFIED else "it is not where it was put"
        return [Fact("Receipt", f"{message}{problem}", state="warning")]
    signature = {"absent": "not signed", "valid": "signed", "unknown_key": "signed by an unknown key"}
    signed = signature.get(str(receipt["signature"]), "its signature is invalid")
    problems = "; ".join(f"{each['part']}: {each['message']}" for each in objects(receipt["problems"])[:3])
    message = f"{signed}{f': {problems}' if problems else ''}{problem}"
    return [Fact("Receipt", message, state="valid" if receipt["valid"] else "invalid")]


_FILTERS: Final = (
    *("status", "failed", "layout", "root", "playbook", "agent", "cwd", "since", "search", "after"),
)


_FILES: Final = ("file", "log", "part", "outcome", DOWNLOAD, "text", "after")
_JOURNAL: Final = "journal"
_RUNNING: Final = Wanted(("running",))


WantedFile: TypeAlias = Callable[[sqlite3.Connection, Settings, SessionRow], RecordedFile]


class SessionPages(Pages):
    """The list, and the page of a session."""

    entry = Entry("Sessions", "/sessions")

    def routes(self) -> list[Route]:
        """The list, and one session, which a person can mark as seen."""
        return [
            self.route("/sessions", self.listing),
            self.route("/sessions/{key:path}", self.one, {"seen": _seen, "cancel": _cancel}),
        ]

    async def listing(self, request: Request) -> Response:
        """The newest sessions that the filters in the address want."""
        wanted = _wanted(request)
        # What runs is found by its open directory, so that no search is needed.
        is_search = wanted._replace(since=None, after=None) not in (EVERY, _RUNNING)

        def look(
            connection: sqlite3.Connection, settings: Settings
        ) -> tuple[list[JsonValue], dict[str, list[str]], Older]:
            end = search_end(connection, "sessions", wanted.after and wanted.after[0]) if is_search else None
            looked_at = wanted._replace(since=later_of(wanted.since, end))
            rows, is_cut = newest_sessions(connection, settings, looked_at, PAGE)
            lacking = {each.key: _missing_optional(each) for each in rows}
            last = (rows[-1].started_at, rows[-1].key) if is_cut else None
            behind = older(request, last, end, wanted.since)
            return sessions_as_json(connection, settings, rows), lacking, behind

        sessions, lacking, behind = await self.read(request, look)
        return page(
            request,
            "sessions.html",
            {"sessions": sessions},
            lacking=lacking,
            older=behind,
            chosen=dict(request.query_params),
            statuses=SESSION_STATUSES,
        )

    async def one(self, request: Request) -> Response:
        """Everything about a session, or one of its files."""
        key = request.path_params["key"]
        wanted = _wanted_file(request)
        if wanted is not None:
            return await self._file(request, key, wanted)
        text, after = request.query_params.get("text"), request.query_params.get("after")
        if text:
            return await self._text(request, key, text)

        def look(connection: sqlite3.Connection, settings: Settings) -> ReadSession | None:
            row = session_with_key(connection, settings, key)
            return None if row is None else _read(connection, settings, row, after)

        session_read = await self.read(request, look)
        if session_read is None:
            raise _no_session(key)
        return session_page(request, session_read)

    async def _text(self, request: Request, key: str, name: str) -> Response:
        """A text of the timeline that is too long to stand among the others."""
        from runward.daemon.views.timeline import NotOurs, Timeline

        def look(connection: sqlite3.Connection, settings: Settings) -> dict[str, JsonValue] | None:
            row = session_with_key(connection, settings, key)
            if row is None:
                raise _no_session(key)
            try:
                return Timeline(connection, settings, row).text(name)
            except NotOurs as error:
                raise HTTPException(400, f"text is {name!r}, which no page links to.") from error

        opened = await self.read(request, look)
        if opened is None:
            raise HTTPException(404, "The text is no longer there.")
        return page(request, "text.html", {"entry": opened}, back=f"/sessions/{in_address(key)}#timeline")

    async def _file(self, request: Request, key: str, wanted: WantedFile) -> Response:
        def look(connection: sqlite3.Connection, settings: Settings) -> Opened:
            row = session_with_key(connection, settings, key)
            if row is None:
                raise _no_session(key)
            try:
                return opened_file(request, wanted(connection, settings, row))
            except NoFile as error:
                raise HTTPException(404, str(error)) from error

        return file_page(request, await self.read(request, look), f"/sessions/{in_address(key)}#files")


def _read(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, after: str | None
) -> ReadSession:
    from runward.daemon.views.timeline import NotOurs

    try:
        return read_session(connection, settings, row, after or None)
    except NotOurs as error:
        raise HTTPException(
            400, f"after is {after!r}, which no page of this session links to. Open the session again."
        ) from error


def _missing_optional(row: SessionRow) -> list[str]:
    """The ids of the optional artifacts that a session did not deliver."""
    verification = verification_of(row)
    missing = verification["missing_optional"] if isinstance(verification, dict) else None
    return [str(each["id"]) for each in objects(missing)]


def _no_session(key: str) -> HTTPException:
    return HTTPException(404, f"There is no session {key}. It may have been pruned, or is not judged yet.")


def _wanted_file(request: Request) -> WantedFile | None:
    """The file that the address wants; None for the page of the session. Raises `HTTPException`."""
    given = Filters(request, _FILES)
    part = given.one("part", (_JOURNAL, *PARTS))
    log, path, outcome = given.one("log", tuple(LOGS)), given.one("file"), given.one("outcome")
    chosen: list[WantedFile] = []
    if path is not None:
        chosen.append(lambda connection, settings, row: delivered_file(connection, settings, row, path))
    if log is not None:
        chosen.append(lambda _, settings, row: log_file(settings, row, log))
    if part == _JOURNAL:
        chosen.append(lambda _, settings, row: journal_file(settings, row))
    elif part is not None:
        chosen.append(lambda connection, settings, row: part_file(connection, settings, row, part))
    if outcome is not None:
        chosen.append(lambda connection, settings, row: outcome_file(connection, settings, row, outcome))
    if len(chosen) > 1:
        raise HTTPException(400, "An address can name one file only.")
    return chosen[0] if chosen else None


def _attempt_seen(form: Form, row: SessionRow) -> int:
    """The attempt that a person saw."""
    given = form.text("attempt")
    if given and (not given.isdecimal() or len(given) > 9):
        raise HTTPException(400, f"attempt is {given!r}, which is not a number.")
    return int(given) if given else row.attempt


def _cancel(
    connection: sqlite3.Connection, settings: Settings, request: Request, form: Form
) -> "list[SessionCancelRequested]":
    from runward.handlers.model.requests import SessionCancelRequested

    # For the attempt that the page showed: a session that was resumed meanwhile goes on.
    row = _named(connection, settings, request)
    reason = form.text("reason")
    return [SessionCancelRequested(form.request, form.now, row.key, _attempt_seen(form, row), reason)]


def _seen(
    connection: sqlite3.Connection, settings: Settings, request: Request, form: Form
) -> "list[SessionSeenRequested]":
    from runward.handlers.model.requests import SessionSeenRequested

    row = _named(connection, settings, request)
    return [SessionSeenRequested(form.request, form.now, row.key, _attempt_seen(form, row))]


def _named(connection: sqlite3.Connection, settings: Settings, request: Request) -> SessionRow:
    row = session_with_key(connection, settings, request.path_params["key"])
    if row is None:
        raise _no_session(request.path_params["key"])
    return row


def _wanted(request: Request) -> Wanted:
    """What the filters in the address want. Raises `HTTPException`."""
    given = Filters(request, _FILTERS)
    failed = FAILURES if given.one("failed") else ()
    return Wanted(
        statuses=(*given.all("status", SESSION_STATUSES), *failed),
        layouts=given.all("layout"),
        roots=given.all("root"),
        playbooks=given.all("playbook"),
        agents=given.all("agent"),
        since=given.moment("since"),
        text=given.one("search"),
        cwd=given.one("cwd"),
        after=given.after("after"),
    )
