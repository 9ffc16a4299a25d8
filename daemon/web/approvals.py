"""`/approvals/ID?signature=…`: the page on which a person sees what will run, and decides."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

import anyio
import anyio.to_thread
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from runward.config.chain import chain_of
from runward.daemon.disk.credentials import KeyUnusable, secret_key
from runward.daemon.inbox.approval_answers import LONGEST_NOTE, Answer, Decided, answer_request, decision
from runward.daemon.inbox.spool import leave_request
from runward.daemon.log import Log
from runward.daemon.store.reading import StoreUnreadable, reading
from runward.daemon.store.tables.approvals import ApprovalRow, approvals_called
from runward.daemon.store.tables.notices import PendingNotice
from runward.daemon.views.requests import shown_approval
from runward.daemon.web.server import BodyReader, BodyTooLong
from runward.daemon.web.sockets import CannotListen
from runward.daemon.world.messenger import NoLink
from runward.handlers.left_files import MOST_LISTED

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:50rem;padding:0 1rem;color:#111;background:#fff}"
    "pre{background:#f4f4f4;padding:.75rem;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem}dd{margin:0}"
    "input{font:inherit;display:block;width:100%;box-sizing:border-box;margin:.25rem 0 1rem}"
    "button{font:inherit;padding:.4rem 1.2rem;margin-right:.5rem}.small{font-size:.85rem;color:#555}"
    "@media(prefers-color-scheme:dark){body{color:#eee;background:#111}pre{background:#222}.small{color:#aaa}}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

_HEADERS: Final = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-robots-tag": "noindex",
}

_TEMPLATE: Final = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
).get_template("approval_page.html")


def said_page(status: int, heading: str, message: str) -> Response:
    """A page that only shows a message."""
    return _page(status, heading=heading, message=message, row=None)


def question_page(row: ApprovalRow) -> Response:
    """The page that shows what will run, and asks."""
    shown = shown_approval(row)
    return _page(
        200,
        heading=f"{row.chain}: step {row.step_id()} waits for a person",
        message="",
        row=row,
        step=row.step_id(),
        asked=_moment(row.asked_at),
        expires=None if row.expires_at is None else _moment(row.expires_at),
        command=shown.command,
        shown=shown.parts,
        unbound=shown.unbound,
        longest_note=LONGEST_NOTE,
    )


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


def _page(status: int, **values: object) -> Response:
    return HTMLResponse(_TEMPLATE.render(style=_STYLE, **values), status, headers=_HEADERS)


KEY: Final = "links.key"
APPROVALS: Final = "/approvals/"


class Links:
    """Makes links and checks them. `base` gives their current beginning; None if they can't be reached from outside."""

    def __init__(self, state: Path, base: Callable[[], str | None]) -> None:
        self._state = state
        self._key = _key(state)
        self._base = base

    def of_notice(self, notice: PendingNotice) -> str | None:
        """The link for a notice that asks for an approval; None for others. Raises `NoLink`. For a thread."""
        base = self._base()
        if notice.kind != "approval.asked" or base is None:
            return None
        try:
            row = self.approval(notice.subject)
        except StoreUnreadable as error:
            raise NoLink(f"its link can't be made: {error}") from error
        if row is None or row.status != "asked" or needs_a_name(row):
            return None
        return f"{base}{APPROVALS}{row.id}?signature={self.signature(row)}"

    def approval(self, approval: str) -> ApprovalRow | None:
        """The approval of this very id. For a thread."""
        with reading(str(self._state)) as connection:
            approvals = approvals_called(connection, approval)
        # The store finds approvals by the beginning of their ids, too. A link names one exactly.
        return next((each for each in approvals if each.id == approval), None)

    def signature(self, row: ApprovalRow) -> str:
        """Proves that we made the link of this approval for what it shows."""
        # The link is for what was shown. If that changes, the signature no longer fits, and the old link
        # approves nothing.
        signed = f"approval\n{row.id}\n{row.shown_hash}".encode()
        return hmac.new(self._key, signed, hashlib.sha256).hexdigest()

    def is_ours(self, row: ApprovalRow, signature: str) -> bool:
        """Whether the signature is right."""
        # In constant time, so that the right signature can't be found byte by byte.
        return hmac.compare_digest(self.signature(row).encode(), signature.encode(errors="replace"))


def needs_a_name(row: ApprovalRow) -> bool:
    """Whether it matters who answers: a link can't tell."""
    rule = chain_of(json.loads(row.definition)).steps[row.step].approval
    return rule is not None and rule.not_by_launcher


def _key(state: Path) -> bytes:
    """Raises `CannotListen` and `OSError`."""
    try:
        return secret_key(state, KEY, "links of old notices then no longer work")
    except KeyUnusable as error:
        raise CannotListen(str(error)) from error


PATIENCE_S: Final = 20.0
"""Seconds for which the page waits for the decision; the answer is kept in any case."""

_PERIOD: Final = 0.05
_MOST: Final = 256 << 10
_ANSWERS: Final[dict[str, Answer]] = {"approve": "approved", "deny": "denied"}
_VOID: Final = "This link is not valid"


class _Form(NamedTuple):
    answer: Answer
    note: str
    without: tuple[str, ...]


class ApprovalPages:
    """Shows approvals to those who hold their links, and takes their answers the way commands do."""

    def __init__(self, state: Path, links: Links, bodies: BodyReader, log: Log) -> None:
        self._state = state
        self._links = links
        self._bodies = bodies
        self._log = log
        self._threads = anyio.CapacityLimiter(2)

    async def show(self, request: Request) -> Response:
        """What will run. Looking decides nothing."""
        asked = await self._find(request)
        return asked if isinstance(asked, Response) else question_page(asked)

    async def decide(self, request: Request) -> Response:
        """Take the answer, and show its result."""
        try:
            form = _form(await self._bodies.read(request, _MOST))
        except BodyTooLong:
            return said_page(413, "This is too long", f"An answer has at most {_MOST} bytes.")
        row = await self._find(request)
        if isinstance(row, Response):
            return row
        if form is None:
            return said_page(400, "Nothing was decided", "The form must say approve or deny, once.")
        try:
            asked = await anyio.to_thread.run_sync(
                lambda: leave_request(
                    self._state, answer_request(row, form.answer, form.note, form.without, by_link=True)
                ),
                limiter=self._threads,
            )
        except OSError as error:
            self._log.error("approval.not_kept", approval=row.id, why=error.strerror)
            return said_page(503, "Nothing was decided", "The answer can't be stored now: try again later.")
        self._log.info("approval.answered", approval=row.id, answer=form.answer)
        return _came_of(form.answer, await self._decision(row.id, asked))

    async def _find(self, request: Request) -> ApprovalRow | Response:
        """The approval of a valid link, or the page that says why the link is not valid."""
        approval = str(request.path_params["approval"])
        signature = request.query_params.get("signature", "")
        try:
            row = await anyio.to_thread.run_sync(self._links.approval, approval, limiter=self._threads)
        except StoreUnreadable as error:
            self._log.error("approval.not_read", why=str(error))
            return said_page(503, "The approval can't be read now", "Try again later.")
        if row is None or not self._links.is_ours(row, signature):
            return said_page(403, _VOID, "It is not complete, or was not made here.")
        why = _why_over(row, time.time())
        return row if why is None else said_page(410, "There is nothing to decide", why)

    async def _decision(self, approval: str, asked: str) -> Decided | None:
        with anyio.move_on_after(PATIENCE_S):
            while True:
                decision = await anyio.to_thread.run_sync(self._look, approval, asked, limiter=self._threads)
                if decision is not None:
                    return decision
                await anyio.sleep(_PERIOD)
        return None

    def _look(self, approval: str, asked: str) -> Decided | None:
        with reading(str(self._state)) as connection:
            return decision(connection, approval, asked)


def _form(body: bytes) -> _Form | None:
    """The answer in a form; None if there is none, or more than one."""
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=8 + MOST_LISTED)
    except ValueError:
        return None
    without = tuple(value for name, value in pairs if name == "without")
    others = [pair for pair in pairs if pair[0] != "without"]
    fields = dict(others)
    if len(fields) != len(others):
        return None
    answer = _ANSWERS.get(fields.get("decision", ""))
    return None if answer is None else _Form(answer, fields.get("note", "").strip()[:LONGEST_NOTE], without)


def _why_over(row: ApprovalRow, now: float) -> str | None:
    """Why nothing can be decided now."""
    if row.status == "changed":
        return "What was shown has changed since. A new approval was asked for: a newer notice has its link."
    if row.status in _ANSWERS.values():
        return f"The step was already {row.status}, by {row.decided_by}."
    if row.status == "expired" or (row.expires_at is not None and row.expires_at <= now):
        return "The time to decide is over."
    if row.run_status != "waiting_approval":
        return "The chain run no longer waits for it."
    return None


def _came_of(answer: Answer, decided: Decided | None) -> Response:
    if decided is None:
        return said_page(202, "Your answer is stored", "It is not decided yet. Check again later.")
    if decided.refused is not None:
        return said_page(409, "Your answer does not count", decided.refused)
    if decided.status != answer:
        return said_page(409, "Your answer does not count", f"It was {decided.status} at the same time.")
    return said_page(200, f"The step is {answer}", "You can close this page.")
