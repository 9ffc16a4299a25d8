"""Invocations: what was ordered, by chains and by people, and what came of it."""

import sqlite3
from typing import Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runward.config.json_value import JsonValue, objects
from runward.config.settings import Settings
from runward.daemon.store.reading import search_end
from runward.daemon.store.tables.artifacts import artifacts_of
from runward.daemon.store.tables.chain_runs import ChainStepRow, name_of_cause
from runward.daemon.store.tables.invocations import InvocationRow, Wanted, invocations, invocations_called
from runward.daemon.studio.cards import card
from runward.daemon.studio.filters import Filters, Older, later_of, older
from runward.daemon.studio.pages import Entry, Pages
from runward.daemon.studio.rendering import PAGE, page
from runward.daemon.views.chain_runs import (
    INVOCATION_STATUSES,
    OutcomeInWords,
    invocation_as_json,
    invocation_summary,
    outcome_in_words,
    steps_of,
)
from runward.handlers.secrets import json_without_secrets

_FILTERS: Final = ("skill", "status", "since", "after")


class _FinalStep(NamedTuple):
    """The last try of a step of a chain run."""

    step: ChainStepRow
    outcome: OutcomeInWords | None


class _Invocation(NamedTuple):
    json: dict[str, JsonValue]
    asked_by: str | None
    steps: list[_FinalStep]


class InvocationPages(Pages):
    """The list, and the page of an invocation."""

    entry = Entry(
        "Invocations", "/invocations", lambda connection, _: bool(invocations(connection, Wanted(limit=1)))
    )

    def routes(self) -> list[Route]:
        """The list, and one invocation."""
        return [self.route("/invocations", self.listing), self.route("/invocations/{identifier}", self.one)]

    async def listing(self, request: Request) -> Response:
        """The newest invocations that the filters in the address want."""
        given = Filters(request, _FILTERS)
        skill, status = given.one("skill"), given.one("status", INVOCATION_STATUSES)
        since, after = given.moment("since"), given.after("after")

        def look(connection: sqlite3.Connection, settings: Settings) -> tuple[list[InvocationRow], Older]:
            is_search = skill is not None or status is not None
            end = search_end(connection, "invocations", after and after[0]) if is_search else None
            until = later_of(since, end)
            wanted = Wanted(skill=skill, status=status, since=until, limit=PAGE + 1, after=after)
            rows = invocations(connection, wanted)
            last = (rows[PAGE - 1].created_at, rows[PAGE - 1].id) if len(rows) > PAGE else None
            return rows[:PAGE], older(request, last, end, since)

        rows, behind = await self.read(request, look)
        return page(
            request,
            "invocations.html",
            {"invocations": [invocation_summary(each) for each in rows]},
            older=behind,
            chosen=dict(request.query_params),
            statuses=INVOCATION_STATUSES,
        )

    async def one(self, request: Request) -> Response:
        """What an invocation was ordered with, its sessions, and the final outcome of each step."""
        identifier = request.path_params["identifier"]
        Filters(request, ())

        def look(connection: sqlite3.Connection, settings: Settings) -> _Invocation | None:
            row = next(
                (each for each in invocations_called(connection, identifier) if each.id == identifier), None
            )
            return None if row is None else _read(connection, settings, row)

        invocation = await self.read(request, look)
        if invocation is None:
            raise HTTPException(404, f"There is no invocation {identifier}. It may have been pruned.")
        return page(
            request,
            "invocation.html",
            {"invocation": invocation.json},
            ordered=json_without_secrets(
                invocation.json["node_metadata"], self._settings().bundle.rules.redact
            ),
            asked_by=invocation.asked_by,
            steps=invocation.steps,
            cards=[card(each, None) for each in objects(invocation.json["artifacts"])],
        )


def _read(connection: sqlite3.Connection, settings: Settings, row: InvocationRow) -> _Invocation:
    steps = steps_of(connection, row)
    shown = invocation_as_json(settings, row, steps, artifacts_of(connection, row.id))
    last = {each.step: each for each in steps}
    return _Invocation(
        shown,
        _asked_by(connection, row, shown["node_metadata"]),
        [
            _FinalStep(each, outcome_in_words(each.outcome, settings.bundle.rules.redact))
            for each in last.values()
        ],
    )


def _asked_by(connection: sqlite3.Connection, row: InvocationRow, metadata: JsonValue) -> str | None:
    """Who ordered it: a person, or what fired the chain."""
    if row.chain_run_id is None:
        by = metadata.get("asked_by") if isinstance(metadata, dict) else None
        return by if isinstance(by, str) else None
    return name_of_cause(connection, row.chain_run_id) if row.chain is not None else None
