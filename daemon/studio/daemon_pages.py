"""The daemon: its health, its roots, its queue and its notices; and the figures for a collector."""

import sqlite3
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

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
from runward.daemon.views.needs import how_to_start
from runward.daemon.views.status import roots_as_json, status_in, status_of
from runward.handlers.times import moment_of

if TYPE_CHECKING:
    from runward.handlers.model.notices import NoticeRetryRequested
    from runward.handlers.model.requests import JobDiscardRequested, JobRetryRequested


class Figure(NamedTuple):
    """A figure: its name, help and type, and where the status object has it.

    The keys at the end of `at` that `label` names are its samples, by the values of that label. A list counts its
    entries, a time is in Unix seconds, and what is null has no sample.
    """

    name: str
    help: str
    at: tuple[str, ...]
    label: str = ""
    keys: Mapping[str, str] | None = None
    """The keys that are samples, and the values of the label for them; None for all keys."""
    type: Literal["gauge", "counter"] = "gauge"


_STATES: Final = {"waiting": "waiting", "running": "running", "held": "held"}
_REQUESTS: Final = {"waiting": "waiting", "rejected": "rejected"}
_VERDICTS: Final = {"event_to_verdict_p50_s": "0.5", "event_to_verdict_p99_s": "0.99"}
_AWAITED: Final = {"awaited_p50_s": "0.5", "awaited_p99_s": "0.99"}

FIGURES: Final = (
    Figure("up", "Whether the daemon runs.", ("running",)),
    Figure("stalled_seconds", "Seconds without a response, if there are too many.", ("stalled_s",)),
    Figure("start_time_seconds", "When the daemon started.", ("since",)),
    Figure("epoch", "How many daemons have owned the store so far.", ("epoch",)),
    Figure("sessions", "Sessions by status.", ("sessions",), label="status"),
    Figure("chains", "Chains by status.", ("chains",), label="status"),
    Figure("chain_runs", "Chain runs by status.", ("chain_runs",), label="status"),
    Figure("steps", "Steps of chain runs that are open.", ("steps",), label="status"),
    Figure("approvals_waiting", "Steps that wait for a person.", ("approvals",)),
    Figure("agents_waiting", "Running sessions that wait for an answer.", ("waiting_agents", "count")),
    Figure("failures_unseen", "Failures of the last day that nobody has seen.", ("failures", "count")),
    Figure("jobs", "Open jobs by state.", ("queue",), label="state", keys=_STATES),
    Figure("oldest_job_seconds", "For how long the oldest job waits.", ("queue", "oldest_waiting_s")),
    Figure("next_due_seconds", "When the next job is due.", ("next_due", "at")),
    Figure(
        "requests", "Requests in the inbox, and refused ones.", ("requests",), label="state", keys=_REQUESTS
    ),
    Figure("notices", "Notices that were not delivered.", ("notices",), label="state"),
    Figure(
        "event_to_verdict_seconds",
        "From the end of a run to its verdict, since the daemon started.",
        ("lag",),
        label="quantile",
        keys=_VERDICTS,
    ),
    Figure(
        "awaited_event_to_verdict_seconds",
        "The same for runs whose files were waited for.",
        ("lag",),
        label="quantile",
        keys=_AWAITED,
    ),
    Figure("watched_directories", "Directories that are watched.", ("coverage", "watched")),
    Figure("flat_roots", "Roots that are only scanned below the first level.", ("coverage", "flat")),
    Figure("overflows_total", "Overflows of the watch.", ("coverage", "overflows"), type="counter"),
    Figure("found_by_scan_total", "What only a scan found.", ("coverage", "found_by_scan"), type="counter"),
    Figure("last_scan_time_seconds", "When the last scan ended.", ("coverage", "last_scan_at")),
    Figure("last_scan_duration_seconds", "How long it took.", ("coverage", "last_scan_s")),
    Figure("unread_places", "Places that are still to be looked at.", ("coverage", "unread")),
    Figure(
        "fences_refused_total",
        "Writes refused because another daemon took over.",
        ("fences_refused",),
        type="counter",
    ),
    Figure("degraded", "What the daemon can't do as it should.", ("degraded",)),
    Figure("problems", "Wrong configuration and wrong files of runs.", ("problem_count",)),
    Figure("exchange_actions_waiting", "Actions without a result.", ("exchange", "actions_waiting")),
    Figure(
        "exchange_workers_killed_total",
        "Workers of the sandbox that were killed or crashed.",
        ("exchange", "workers_killed", "count"),
        type="counter",
    ),
)
"""All figures, each after `runward_`, in their order."""


def metrics(status: Mapping[str, JsonValue]) -> str:
    """The figures of this status object."""
    return "".join(line for figure in FIGURES for line in _lines(figure, status))


def _lines(figure: Figure, status: Mapping[str, JsonValue]) -> Iterator[str]:
    name = f"runward_{figure.name}"
    samples = [
        (label, number) for label, value in _samples(figure, status) if (number := _number(value)) is not None
    ]
    if not samples:
        return
    yield f"# HELP {name} {figure.help}\n# TYPE {name} {figure.type}\n"
    for label, number in samples:
        labels = f'{{{figure.label}="{escaped(label)}"}}' if figure.label else ""
        yield f"{name}{labels} {number!r}\n"


def _samples(figure: Figure, status: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """The values of the label, and what the status says for each."""
    at: JsonValue = dict(status)
    for key in figure.at:
        at = at.get(key) if isinstance(at, dict) else None
    if not figure.label:
        yield "", at
    elif isinstance(at, dict):
        for key, value in at.items():
            if figure.keys is None or key in figure.keys:
                yield key if figure.keys is None else figure.keys[key], value


def _number(value: JsonValue) -> float | int | None:
    if isinstance(value, list):
        return len(value)
    if isinstance(value, bool | int):
        return int(value)
    return value if isinstance(value, float) else moment_of(value)


def escaped(label: str) -> str:
    """The value of a label, as the format writes it."""
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


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
        settings = self._settings()
        status = await in_thread(lambda: status_of(settings, time.time()).json)
        return Response(metrics(status), media_type="text/plain; version=0.0.4; charset=utf-8")


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
