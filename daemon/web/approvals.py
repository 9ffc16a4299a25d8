"""`/approvals/ID?signature=…`: the page on which a person sees what will run, and decides."""

import time
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

import anyio
import anyio.to_thread
import structlog
from starlette.requests import Request
from starlette.responses import Response

from runward.daemon.inbox.approval_answers import LONGEST_NOTE, Answer, Decided, decision, put_answer
from runward.daemon.store.reading import StoreUnreadable, reading
from runward.daemon.store.reading_chains import ApprovalRow
from runward.daemon.web.approval_page import question_page, said_page
from runward.daemon.web.body import BodyReader, BodyTooLong
from runward.daemon.web.links import Links
from runward.handlers.approvals.left_files import MOST_LISTED

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

    def __init__(
        self, state: Path, links: Links, bodies: BodyReader, log: structlog.typing.FilteringBoundLogger
    ) -> None:
        self._state = state
        self._links = links
        self._bodies = bodies
        self._log = log
        self._threads = anyio.CapacityLimiter(2)

    async def show(self, request: Request) -> Response:
        """What will run. Looking decides nothing."""
        found = await self._find(request)
        return found if isinstance(found, Response) else question_page(found)

    async def decide(self, request: Request) -> Response:
        """Take the answer, and show its result."""
        try:
            form = _form(await self._bodies.read(request, _MOST))
        except BodyTooLong:
            return said_page(413, "This is too long", f"An answer has at most {_MOST} bytes.")
        found = await self._find(request)
        if isinstance(found, Response):
            return found
        if form is None:
            return said_page(400, "Nothing was decided", "The form must say approve or deny, once.")
        try:
            asked = await anyio.to_thread.run_sync(
                lambda: put_answer(self._state, found, form.answer, form.note, form.without, by_link=True),
                limiter=self._threads,
            )
        except OSError as error:
            self._log.error("approval.not_kept", approval=found.id, why=error.strerror)
            return said_page(503, "Nothing was decided", "The answer can't be stored now: try again later.")
        self._log.info("approval.answered", approval=found.id, answer=form.answer)
        return _came_of(form.answer, await self._decision(found.id, asked))

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
                found = await anyio.to_thread.run_sync(self._look, approval, asked, limiter=self._threads)
                if found is not None:
                    return found
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


def _came_of(answer: Answer, found: Decided | None) -> Response:
    if found is None:
        return said_page(202, "Your answer is stored", "It is not decided yet. Check again later.")
    if found.refused is not None:
        return said_page(409, "Your answer does not count", found.refused)
    if found.status != answer:
        return said_page(409, "Your answer does not count", f"It was {found.status} at the same time.")
    return said_page(200, f"The step is {answer}", "You can close this page.")
