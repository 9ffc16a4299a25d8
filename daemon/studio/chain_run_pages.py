"""A chain run: its steps, and what waits for a person's decision."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runward.config.json_value import JsonValue, objects
from runward.config.settings import Settings
from runward.daemon.inbox.approval_answers import LONGEST_NOTE
from runward.daemon.store.ownership import holder
from runward.daemon.store.tables import chain_runs, sessions
from runward.daemon.store.tables.approvals import ApprovalRow, approvals_called, approvals_of_run
from runward.daemon.store.tables.chain_runs import ChainRunRow, ChainStepRow
from runward.daemon.store.tables.invocations import invocations_of
from runward.daemon.studio.filters import Filters
from runward.daemon.studio.pages import Act, Form, Pages, as_it_is
from runward.daemon.studio.rendering import page
from runward.daemon.views.chain_runs import (
    AskedRun,
    OutcomeInWords,
    asked_as_json,
    asked_run,
    details_as_json,
    outcome_in_words,
)
from runward.daemon.views.requests import ShownApproval, shown_approval
from runward.daemon.views.session_files import LOGS, NoFile, log_file, text_of
from runward.handlers.left_files import unbound
from runward.handlers.secrets import json_without_secrets, without_secrets_in
from runward.handlers.times import moment_of

if TYPE_CHECKING:
    from runward.daemon.views.why import Story
    from runward.handlers.model.approvals import ApprovalRequested
    from runward.handlers.model.chains import ChainRunCancelRequested

ENDLESS: Final = ("running", "waiting_approval", "asked")
"""States of a chain run that can be cancelled."""

_MOST_LINES: Final = 20
_LONGEST_LINE: Final = 2000


class _Question(NamedTuple):
    """An approval that waits: what it is bound to, and what it can't cover."""

    row: ApprovalRow
    shown: ShownApproval


class _Output(NamedTuple):
    """The end of a log of a session."""

    log: str
    session_key: str
    end: Markup


class _Step(NamedTuple):
    """A step of the run. `json` is the command's object, without what looks like a secret."""

    json: dict[str, JsonValue]
    tries: list[ChainStepRow]
    took: float | None
    outcome: OutcomeInWords | None
    output: list[_Output]
    question: _Question | None
    decided: list[ApprovalRow]


class _Read(NamedTuple):
    run: dict[str, JsonValue]
    steps: list[_Step]
    approvals: list[JsonValue]
    why: JsonValue
    cause: str | None


class ChainRunPages(Pages):
    """The page of a chain run. The list is that of its chain."""

    def routes(self) -> list[Route]:
        """One chain run."""
        actions: dict[str, Act] = {"approve": _approve, "deny": _deny, "cancel": _cancel}
        return [self.route("/chain-runs/{identifier}", self.one, actions)]

    async def one(self, request: Request) -> Response:
        """Its steps in order, each with all that was decided about it."""
        identifier = request.path_params["identifier"]
        Filters(request, ())

        def look(connection: sqlite3.Connection, settings: Settings) -> _Read | None:
            from runward.daemon.views.answers import answered_json
            from runward.daemon.views.why import asked_run_story, chain_run_story

            is_up = holder(Path(settings.state_dir)) is not None
            row = _recorded(connection, identifier)
            if row is not None:
                return _read(connection, settings, row, chain_run_story(connection, row, is_up))
            asked = _asked(settings, identifier)
            if asked is None:
                return None
            story = asked_run_story(asked, is_up)
            return _Read(asked_as_json(asked), [], [], answered_json(connection, story), None)

        shown = await self.read(request, look)
        if shown is None:
            raise _no_run(identifier)
        redact = self._settings().bundle.rules.redact
        return page(
            request,
            "chain_run.html",
            {
                "chain_run": shown.run,
                "approvals": shown.approvals,
                "why": json_without_secrets(shown.why, redact),
            },
            run=without_secrets_in(shown.run, redact),
            steps=shown.steps,
            cause=shown.cause,
            can_be_cancelled=shown.run["status"] in ENDLESS,
            longest_note=LONGEST_NOTE,
        )


def _no_run(identifier: str) -> HTTPException:
    return HTTPException(404, f"There is no chain run {identifier}. It may have been pruned.")


def _recorded(connection: sqlite3.Connection, identifier: str) -> ChainRunRow | None:
    runs = chain_runs.chain_runs_called(connection, identifier, 1)
    return runs[0] if runs and runs[0].id == identifier else None


def _read(connection: sqlite3.Connection, settings: Settings, row: ChainRunRow, story: "Story") -> _Read:
    tries = chain_runs.chain_steps(connection, row.id)
    asked = [each for each in approvals_called(connection, row.id) if each.run == row.id]
    waiting = [each for each in asked if each.status == "asked" and each.run_status == "waiting_approval"]
    latest = approvals_of_run(connection, row.id)
    run = details_as_json(row, tries, invocations_of(connection, row.id), latest)
    steps = [
        _step(
            connection=connection,
            shown=without_secrets_in(each, settings.bundle.rules.redact),
            tries=[one for one in tries if one.step == number],
            asked=[one for one in asked if one.step == number],
            waiting=waiting,
            settings=settings,
        )
        for number, each in enumerate(objects(run["steps"]))
    ]
    from runward.daemon.views.answers import answered_json  # only this page needs it

    cause = chain_runs.name_of_cause(connection, row.id)
    why = answered_json(connection, story)
    return _Read(run, steps, [each.as_json() for each in waiting], why, cause)


def _step(
    connection: sqlite3.Connection,
    shown: dict[str, JsonValue],
    tries: list[ChainStepRow],
    asked: Sequence[ApprovalRow],
    waiting: Sequence[ApprovalRow],
    settings: Settings,
) -> _Step:
    begun, ended = moment_of(shown["started_at"]), moment_of(shown["finished_at"])
    open_now = next((each for each in asked if each in waiting), None)
    return _Step(
        json=shown,
        tries=tries,
        took=None if begun is None or ended is None else ended - begun,
        outcome=outcome_in_words(tries[-1].outcome, settings.bundle.rules.redact) if tries else None,
        output=_output(connection, settings, tries[-1]) if tries else [],
        question=None if open_now is None else _Question(open_now, shown_approval(open_now)),
        decided=[each for each in asked if each.status != "asked"],
    )


def _output(connection: sqlite3.Connection, settings: Settings, step: ChainStepRow) -> list[_Output]:
    """The ends of what a step that runs or failed printed."""
    if step.session_key is None or step.status == "completed":
        return []
    row = sessions.session(connection, step.session_key)
    if row is None:
        return []
    outputs: list[_Output] = []
    for log in LOGS:
        with suppress(NoFile):  # the page of the session says why
            ends = log_file(settings, row, log).ends()
            lines = [text_of(line)[:_LONGEST_LINE] for line in (ends.end or ends.start).split(b"\n") if line]
            if lines:
                outputs.append(_Output(log, row.key, as_it_is("\n".join(lines[-_MOST_LINES:]))))
    return outputs


def _approve(
    connection: sqlite3.Connection, settings: Settings, request: Request, form: Form
) -> "list[ApprovalRequested]":
    row = _shown_there(connection, request, form)
    left_out = tuple(unbound(json.loads(row.shown))) if form.text("without") else ()
    return [_answer(row, form, "approved", left_out)]


def _deny(
    connection: sqlite3.Connection, settings: Settings, request: Request, form: Form
) -> "list[ApprovalRequested]":
    return [_answer(_shown_there(connection, request, form), form, "denied")]


def _answer(
    row: ApprovalRow, form: Form, decision: Literal["approved", "denied"], without: tuple[str, ...] = ()
) -> "ApprovalRequested":
    from runward.handlers.model.approvals import ApprovalRequested

    note = form.text("note").strip()[:LONGEST_NOTE]
    return ApprovalRequested(
        request=form.request,
        at=form.now,
        approval=row.id,
        run=row.run,
        decision=decision,
        note=note,
        without=without,
    )


def _shown_there(connection: sqlite3.Connection, request: Request, form: Form) -> ApprovalRow:
    """The approval that the form decides about, as the page showed it. Raises `HTTPException`.

    Whether it is decided already is for the daemon to say, because another answer may be on its way.
    """
    identifier, digest = form.need("approval"), form.need("digest")
    approvals = approvals_called(connection, identifier)
    row = next((each for each in approvals if each.id == identifier), None)
    if row is None or row.run != request.path_params["identifier"]:
        raise HTTPException(404, f"This chain run has no approval {identifier}.")
    if row.shown_hash != digest:
        raise HTTPException(
            409, f"{identifier} is bound to something else than what the page showed. Look at it again."
        )
    return row


def _cancel(
    connection: sqlite3.Connection, settings: Settings, request: Request, form: Form
) -> "list[ChainRunCancelRequested]":
    from runward.handlers.model.chains import ChainRunCancelRequested

    identifier, reason = request.path_params["identifier"], form.text("reason").strip()[:LONGEST_NOTE]
    is_recorded = _recorded(connection, identifier) is not None
    if not is_recorded and _asked(settings, identifier) is None:
        raise _no_run(identifier)
    return [
        ChainRunCancelRequested(form.request, form.now, identifier, reason, before_it_began=not is_recorded)
    ]


def _asked(settings: Settings, identifier: str) -> AskedRun | None:
    """The chain run of this very id that no daemon has recorded yet."""
    asked = asked_run(Path(settings.state_dir), identifier)
    return asked if asked is not None and asked.id == identifier else None
