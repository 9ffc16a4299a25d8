"""The daemon: its health, its roots, its queue and its notices; and the figures for a collector."""

import sqlite3
import time
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.store.tables.jobs import JobRow, job_row, open_jobs
from runward.daemon.store.tables.notices import notices, notices_called
from runward.daemon.studio.filters import Filters, place_of
from runward.daemon.studio.pages import Act, Entry, Form, Pages
from runward.daemon.studio.rendering import PAGE, address, page
from runward.daemon.views.metrics import metrics
from runward.daemon.views.needs import how_to_start
from runward.daemon.views.status import roots_as_json, status_in

if TYPE_CHECKING:
    from runward.handlers.model.notices import NoticeRetryRequested
    from runward.handlers.model.requests import JobDiscardRequested, JobRetryRequested


ALL: Final = "all"
"""Instead of the number of a job: every held one."""

_NOTICES: Final = "notices_after"


class DaemonPages(Pages):
    """The page of the daemon."""

    entry = Entry("Daemon", "/daemon")

    def routes(self) -> list[Route]:
        """The page, where a person can decide about held jobs and dead notices; and the figures."""
        actions: dict[str, Act] = {"retry": retry, "discard": _discard, "retry-notice": _retry_notice}
        return [self.route("/daemon", self.all, actions), self.route("/metrics", self.figures)]

    async def all(self, request: Request) -> Response:
        """Everything about the daemon."""
        after = Filters(request, (_NOTICES,)).after(_NOTICES)
        older: list[str] = []

        def look(connection: sqlite3.Connection, settings: Settings) -> tuple[dict[str, JsonValue], str]:
            rows = notices(connection, None, PAGE + 1, after)
            if len(rows) > PAGE:
                last = rows[PAGE - 1]
                older.append(address(request, **{_NOTICES: place_of(last.created_at, last.id)}))
            return {
                "status": status_in(connection, settings, time.time()).json,
                "roots": [*roots_as_json(settings)],
                "jobs": [each.as_json() for each in open_jobs(connection, PAGE)],
                "notices": [each.as_json() for each in rows[:PAGE]],
            }, settings.state_dir

        data, state = await self.read(request, look)
        return page(
            request,
            "daemon.html",
            data,
            state=state,
            how_to_start=how_to_start(state),
            older=next(iter(older), None),
            is_first=after is None,
        )

    async def figures(self, request: Request) -> Response:
        """The figures in the text format of Prometheus, if the settings allow to read them without a login."""
        if not request.scope["runward.studio"].metrics:
            raise HTTPException(404, "There are no metrics here: studio.metrics of the settings is false.")
        text = await in_thread(metrics, self._settings(), time.time())
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def retry(
    connection: sqlite3.Connection, settings: Settings, request: Request, form: Form
) -> "list[JobRetryRequested]":
    """Have one held job tried again, or all."""
    from runward.handlers.model.requests import JobRetryRequested

    if form.need("job") != ALL:
        return [JobRetryRequested(form.request, form.now, _job(connection, form).id)]
    # A request for each job that is held now. One that is held later was not on the page.
    held = [each.id for each in open_jobs(connection) if each.state == "held"]
    names = [form.request, *(form.request_about(str(number)) for number in held[1:])]
    return [JobRetryRequested(name, form.now, number) for name, number in zip(names, held, strict=False)]


def _discard(
    connection: sqlite3.Connection, settings: Settings, request: Request, form: Form
) -> "list[JobDiscardRequested]":
    from runward.handlers.model.requests import JobDiscardRequested

    reason = form.text("reason").strip() or "no reason given"
    return [JobDiscardRequested(form.request, form.now, _job(connection, form).id, reason)]


def _job(connection: sqlite3.Connection, form: Form) -> JobRow:
    """The job that is meant. If it is not held any more, the daemon refuses the request, and the page says so."""
    number = whole_number(form, "job")
    row = job_row(connection, number)
    if row is None:
        raise HTTPException(404, f"There is no job {number}.")
    return row


def whole_number(form: Form, name: str) -> int:
    """The number in a field. Raises `HTTPException`."""
    text = form.need(name)
    if not text.isdecimal() or len(text) >= 19:
        raise HTTPException(400, f"{name} is {text!r}, which is not a number that the page has.")
    return int(text)


def _retry_notice(
    connection: sqlite3.Connection, settings: Settings, request: Request, form: Form
) -> "list[NoticeRetryRequested]":
    from runward.handlers.model.notices import NoticeRetryRequested

    identifier = form.need("notice")
    if all(each.id != identifier for each in notices_called(connection, identifier)):
        raise HTTPException(404, f"There is no notice {identifier}.")
    return [NoticeRetryRequested(form.request, form.now, identifier)]
