"""Chains: what fires them, what is wrong with them, and what they did."""

import sqlite3
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.config.template import WrongValue, given_values
from runward.daemon.configuration.declared_files import chain_names
from runward.daemon.inbox.approval_answers import LONGEST_NOTE
from runward.daemon.store.reading import search_end
from runward.daemon.store.tables.chain_runs import chain_runs, chain_runs_called
from runward.daemon.store.tables.triggers import ChainStatusRow, FiringRow, chain_statuses, newest_firings
from runward.daemon.studio.filters import Filters, Older, later_of, older
from runward.daemon.studio.pages import Act, Entry, Form, Pages
from runward.daemon.studio.rendering import PAGE, REQUEST, page
from runward.daemon.views.chain_runs import CHAIN_RUN_STATUSES
from runward.daemon.views.chains import (
    ChainFile,
    chain_as_json,
    chain_file,
    chain_files,
    chain_summary,
    declared_schedules,
    in_short,
    in_words,
    known_chains,
    schedule_as_json,
    upcoming,
)
from runward.daemon.views.text import local
from runward.handlers.secrets import text_without_secrets

if TYPE_CHECKING:
    from runward.handlers.model.chains import ChainFireRequested, ChainStatus, ChainStatusRequested

_FILTERS: Final = ("status", "since", "after")
_FIRINGS: Final = 100
"""Firings that are looked through for those that fired nothing."""

_NEXT: Final = 3


class _Runs(NamedTuple):
    """A page of chain runs, the newest first, and what follows them."""

    shown: list[JsonValue]
    older: Older


class _Listed(NamedTuple):
    """A chain in the list: the name of its page, and what fires it, in short."""

    name: str
    trigger: str | None
    steps: int | None


class _Chain(NamedTuple):
    """A chain; without `file` that is gone, and only what it did is left."""

    name: str
    file: ChainFile | None
    json: JsonValue
    text: str
    schedules: list[JsonValue]
    next: list[tuple[str, float]]
    misses: list[FiringRow]
    status: str
    decided: ChainStatusRow | None
    fired: str | None
    runs: _Runs


class ChainPages(Pages):
    """The list, and the page of a chain."""

    entry = Entry("Chains", "/chains", lambda connection, settings: _has_chains(connection, settings))

    def routes(self) -> list[Route]:
        """The list, and one chain, which a person can fire, pause, resume and disable."""
        actions: dict[str, Act] = {
            "fire": _fire,
            "pause": _setting("paused"),
            "resume": _setting("active"),
            "disable": _setting("disabled"),
        }
        return [self.route("/chains", self.listing), self.route("/chains/{name}", self.one, actions)]

    async def listing(self, request: Request) -> Response:
        """The chains of the settings, their schedules, and the newest runs of all."""
        given = Filters(request, _FILTERS)

        def look(
            connection: sqlite3.Connection, settings: Settings
        ) -> tuple[list[tuple[_Listed, JsonValue]], list[JsonValue], _Runs]:
            known, now = known_chains(connection), time.time()
            files = list(chain_files(settings))
            chains: list[tuple[_Listed, JsonValue]] = [
                (_listed(each), chain_summary(each.file, each.parsed, known)) for each in files
            ]
            declared = declared_schedules(connection, files, known.schedules)
            due = [schedule_as_json(each, now) for each in declared]
            return chains, [*due], _runs(connection, request, given, None)

        chains, schedules, runs = await self.read(request, look)
        return page(
            request,
            "chains.html",
            {"chains": [each for _, each in chains], "schedules": schedules, "chain_runs": runs.shown},
            listed=chains,
            older=runs.older,
            chosen=dict(request.query_params),
            statuses=CHAIN_RUN_STATUSES,
        )

    async def one(self, request: Request) -> Response:
        """Everything about a chain."""
        name, given = request.path_params["name"], Filters(request, _FILTERS)

        def look(connection: sqlite3.Connection, settings: Settings) -> _Chain | None:
            return _read(connection, settings, request, name, given)

        page_of_chain = await self.read(request, look)
        if page_of_chain is None:
            raise _no_chain(name)
        chain = None if page_of_chain.file is None else page_of_chain.file.parsed.value
        return page(
            request,
            "chain.html",
            {
                "chain": page_of_chain.json,
                "schedules": page_of_chain.schedules,
                "chain_runs": page_of_chain.runs.shown,
            },
            about=page_of_chain,
            trigger=None if chain is None else in_words(chain.trigger),
            description=None if chain is None else chain.description,
            problems=() if page_of_chain.file is None else page_of_chain.file.parsed.problems,
            older=page_of_chain.runs.older,
            chosen=dict(request.query_params),
            statuses=CHAIN_RUN_STATUSES,
            longest_note=LONGEST_NOTE,
        )


def _has_chains(connection: sqlite3.Connection, settings: Settings) -> bool:
    return bool(chain_names(settings)) or bool(chain_runs(connection, None, None, None, 1))


def _no_chain(name: str) -> HTTPException:
    return HTTPException(404, f"There is no chain {name}. `runward chain define FILE` defines one.")


def _listed(each: ChainFile) -> _Listed:
    chain = each.parsed.value
    if chain is None:
        return _Listed(each.file, None, None)
    return _Listed(chain.name, in_short(chain.trigger), len(chain.steps))


def _read(
    connection: sqlite3.Connection, settings: Settings, request: Request, name: str, given: Filters
) -> _Chain | None:
    from runward.handlers.chains.advancing import run_id  # the first page comes sooner without it

    file, now = chain_file(settings, name), time.time()
    called = name if file is None else file.name
    known = known_chains(connection)
    if file is None and called not in known.last_runs and called not in known.statuses:
        return None
    due = declared_schedules(connection, [] if file is None else [file], known.schedules)
    asked = request.query_params.get(REQUEST)
    fired = [] if asked is None else chain_runs_called(connection, run_id(f"{called}@{asked}"), 1)
    firings = newest_firings(connection, called, _FIRINGS)
    return _Chain(
        name=called,
        file=file,
        json=None if file is None else chain_as_json(connection, file.file, file.parsed),
        text="" if file is None else text_without_secrets(file.text, settings.bundle.rules.redact),
        schedules=[schedule_as_json(each, now) for each in due],
        next=[(local(each), each) for each in upcoming(due, now, _NEXT)],
        misses=[each for each in firings if not each.result.startswith("firing.fired")],
        status=known.status(called),
        decided=known.statuses.get(called),
        fired=fired[0].id if fired else None,
        runs=_runs(connection, request, given, called),
    )


def _runs(connection: sqlite3.Connection, request: Request, given: Filters, chain: str | None) -> _Runs:
    """The runs that the filters in the address want."""
    status, since, after = (
        given.one("status", CHAIN_RUN_STATUSES),
        given.moment("since"),
        given.after("after"),
    )
    end = None if status is None else search_end(connection, "chain_runs", after and after[0], chain)
    rows = chain_runs(
        connection=connection,
        chain=chain,
        status=status,
        since=later_of(since, end),
        limit=PAGE + 1,
        after=after,
    )
    last = (rows[PAGE - 1].created_at, rows[PAGE - 1].id) if len(rows) > PAGE else None
    return _Runs([each.as_json() for each in rows[:PAGE]], older(request, last, end, since))


def _fire(
    connection: sqlite3.Connection, settings: Settings, request: Request, form: Form
) -> "list[ChainFireRequested]":
    from runward.handlers.model.chains import ChainFireRequested

    name = request.path_params["name"]
    file = chain_file(settings, name)
    if file is None:
        raise _no_chain(name)
    chain = file.parsed.value
    if chain is None:
        raise HTTPException(409, f"{name} is not valid, so it can't be fired. Its page says why.")
    status = chain_statuses(connection).get(chain.name)
    if status is not None and status.status != "active":
        raise HTTPException(409, f"{chain.name} is {status.status}. Resume it first.")
    try:
        fields = given_values([line for line in form.text("values").splitlines() if line.strip()])
    except WrongValue as error:
        raise HTTPException(400, f"Nothing was fired: {error}.") from error
    return [ChainFireRequested(form.request, form.now, chain.name, fields)]


def _setting(status: "ChainStatus") -> Act:
    """What pauses, resumes or disables a chain."""

    def act(
        connection: sqlite3.Connection, settings: Settings, request: Request, form: Form
    ) -> "list[ChainStatusRequested]":
        from runward.handlers.model.chains import ChainStatusRequested

        name = request.path_params["name"]
        file = chain_file(settings, name)
        if file is None and name not in chain_statuses(connection):
            raise _no_chain(name)
        called = name if file is None else file.name
        note = form.text("note").strip()[:LONGEST_NOTE]
        return [ChainStatusRequested(form.request, form.now, called, status, note)]

    return act
