"""`runward queue`: jobs that wait, run or are held, and what a person can do about the held ones."""

import sqlite3
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from runward.config.json_value import JsonValue
from runward.config.problem import counted
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.asking import (
    ask_daemon,
    need_daemon,
    new_request,
    note_without_daemon,
    wait_for,
)
from runward.daemon.cli.shell.context import pass_settings, store_to_read
from runward.daemon.cli.shell.finding import LAST, refuse_unknown
from runward.daemon.cli.terminal.options import json_option, listed, patience_options
from runward.daemon.cli.terminal.output import (
    Columns,
    at_home,
    coloured,
    columns_there,
    fail,
    print_json,
    print_lines,
    print_list,
    print_text,
    safe,
)
from runward.daemon.store.tables import events
from runward.daemon.store.tables.jobs import (
    JobRow,
    job_row,
    jobs_for_events,
    jobs_in_state,
    newest_job,
    open_jobs,
)
from runward.daemon.views.text import ago, local

if TYPE_CHECKING:
    from runward.handlers.model.events import Request

_STATES: Final = ("waiting", "running", "held", "done", "discarded")


@click.group(cls=Group, invoke_without_command=True)
@json_option()
@click.pass_context
def queue(context: click.Context, as_json: bool) -> None:
    """Show the daemon's open jobs; retry or discard held ones. Without a command: list them.

    A held job stops its lane (such as one session) until it is retried or discarded.

    \b
    Example:
      runward queue
      runward queue retry 352 --wait
    """
    if context.invoked_subcommand is None:
        context.invoke(list_jobs, state=None, limit=None, as_json=as_json)


_COLUMNS: Final[Columns[JobRow]] = {
    "JOB": lambda job: str(job.id),
    "STATE": lambda job: coloured(job.state),
    "HANDLER": lambda job: safe(job.handler),
    "LANE": lambda job: safe(job.lane),
    "AGE": lambda job: ago(job.recorded_at, time.time()),
    "WHY": lambda job: safe(_why(job, time.time())),
}


@queue.command("list")
@click.option(
    "--state", type=click.Choice(_STATES), help="Show only those in this state (default: all open ones)."
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show at most N.")
@listed(_COLUMNS)
@json_option()
@pass_settings
def list_jobs(settings: Settings, state: str | None, limit: int | None, as_json: bool) -> None:
    """List jobs that wait, run or are held; the held ones first.

    \b
    Example:
      runward queue list --state held
    """
    with store_to_read(settings) as connection:
        jobs = open_jobs(connection, limit) if state is None else jobs_in_state(connection, state, limit)
    nothing = "the queue is empty" if state is None else f"no jobs are {state}"
    print_list(jobs, _COLUMNS, as_json, value=JobRow.as_json, nothing=nothing)


def _why(job: JobRow, now: float) -> str:
    if job.blocked_by is not None:
        return f"behind job {job.blocked_by}"
    if job.state == "waiting" and job.run_after > now:
        return f"due {ago(job.run_after, now)}" + (f": {job.error}" if job.error else "")
    return job.error or ""


@queue.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.jobs)
@json_option()
@pass_settings
def show(settings: Settings, identifier: str, as_json: bool) -> None:
    """Show one job: its event, its state and its last error. `runward why job:ID` shows its history.

    \b
    Example:
      runward queue show @last
    """
    with store_to_read(settings) as connection:
        job = find_job(connection, identifier)
    if as_json:
        print_json(job.as_json())
        return
    now = time.time()
    facts = [
        ("Job:", str(job.id)),
        ("State:", coloured(job.state)),
        ("Handler:", safe(job.handler)),
        ("Event:", f"{job.event_type} {safe(job.event_key)}"),
        ("Lane:", safe(job.lane)),
        ("Recorded:", f"{local(job.recorded_at)} ({ago(job.recorded_at, now)})"),
        ("Changed:", f"{local(job.updated_at)} ({ago(job.updated_at, now)})"),
        ("Tries:", str(job.tries)),
        ("Why:", at_home(safe(_why(job, now) or "-"))),
    ]
    from runward.daemon.cli.terminal.tables import flowed_rows  # a list for programs does without it

    print_lines(list(flowed_rows(facts, columns_there())))


def _about_held_jobs(future: str) -> Callable[[Callable[..., "Asked"]], Callable[..., None]]:
    """The options of a command that asks for something about held jobs; the command itself says for what."""

    def declare(command: "Callable[..., Asked]") -> Callable[..., None]:
        @click.option("--all", "every", is_flag=True, help="All held jobs.")
        @click.option("--dry-run", is_flag=True, help=f"Only say which jobs would be {future}.")
        @patience_options("Wait for the result.")
        @json_option("Print the requests as JSON; with --wait, their results.")
        @wraps(command)
        @pass_settings
        def carry_out(
            settings: Settings,
            /,
            identifiers: tuple[str, ...],
            every: bool,
            dry_run: bool,
            patience: float | None,
            as_json: bool,
            **given: object,
        ) -> None:
            asked = command(**given)
            _carry_out(
                settings=settings,
                asked=asked,
                jobs=_held(settings, identifiers, every),
                dry_run=dry_run,
                patience=patience,
                as_json=as_json,
            )

        return carry_out

    return declare


_jobs: Final = click.argument("identifiers", metavar="[ID]...", nargs=-1, shell_complete=completing.jobs)


@queue.command()
@_jobs
@_about_held_jobs("retried")
def retry() -> "Asked":
    """Put held jobs back into their lanes, to be tried again.

    The request is durable when this returns, whether or not a daemon runs. With --wait, exit code 0: the
    jobs are done. 1: one is not. 75: no daemon is running. 124: it took too long.

    \b
    Example:
      runward queue retry 352 --wait
    """
    from runward.handlers.model.requests import JobRetryRequested

    return Asked("retried", "done", lambda job: new_request(JobRetryRequested, job))


@queue.command()
@_jobs
@click.option("--reason", required=True, metavar="TEXT", help="The reason; it is kept with the job.")
@_about_held_jobs("discarded")
def discard(reason: str) -> "Asked":
    """Give up held jobs for good. The jobs behind them in their lanes continue.

    The request is durable when this returns, whether or not a daemon runs. With --wait, exit code 0: the
    jobs are discarded. 1: one is not. 75: no daemon is running. 124: it took too long.

    \b
    Example:
      runward queue discard 352 --reason "its disk is gone"
    """
    from runward.handlers.model.requests import JobDiscardRequested

    if not reason.strip():
        fail("--reason is empty: say why, for the record", WRONG_USAGE)
    return Asked("discarded", "discarded", lambda job: new_request(JobDiscardRequested, job, reason))


def _held(settings: Settings, identifiers: tuple[str, ...], every: bool) -> list[JobRow]:
    """The held jobs that are meant; exits where one isn't held, because only held ones can be acted on."""
    if bool(identifiers) == every:
        fail("name the jobs, or give --all for every held one", WRONG_USAGE)
    with store_to_read(settings) as connection:
        if every:
            return jobs_in_state(connection, "held")
        jobs = {job.id: job for job in (find_job(connection, each, held=True) for each in identifiers)}
    for job in jobs.values():
        if job.state != "held":
            fail(f"job {job.id} is {job.state}: only held jobs can be retried or discarded", NOT_SO)
    return list(jobs.values())


_OPEN: Final = ("waiting", "running")


class Asked(NamedTuple):
    """What is requested for jobs: the word for it, the state that it should end in, and its request."""

    word: str
    wanted: str
    make: "Callable[[int], Request]"


def _carry_out(
    settings: Settings,
    asked: Asked,
    jobs: Sequence[JobRow],
    dry_run: bool,
    patience: float | None,
    as_json: bool,
) -> None:
    """Put a request for each job; wait `patience` seconds for the results, unless None. Exits."""
    if not jobs and not as_json:
        print_text("no job is held")
    if dry_run:
        _say(asked, jobs, {}, f"would be {asked.word}", as_json)
        return
    if patience is not None:
        need_daemon(settings)
    requests = {job.id: ask_daemon(settings, asked.make(job.id)) for job in jobs}
    if patience is None:
        _say(asked, jobs, requests, f"will be {asked.word}", as_json)
        if jobs:
            note_without_daemon(settings)
        return
    sys.exit(
        _wait(
            settings=settings, asked=asked, jobs=jobs, requests=requests, patience=patience, as_json=as_json
        )
    )


def _wait(
    settings: Settings,
    asked: Asked,
    jobs: Sequence[JobRow],
    requests: Mapping[int, str],
    patience: float,
    as_json: bool,
) -> int:
    """Wait until every job is settled after its request; returns the exit code."""
    settled: dict[int, JobRow] = {}

    def all_settled(connection: sqlite3.Connection) -> bool | None:
        nonlocal settled
        settled = _settled(connection, requests)
        return len(settled) == len(jobs) or None

    def progress() -> str:
        return f"{len(jobs) - len(settled)} of {counted(len(jobs), 'job', 'jobs')} not settled yet; the requests are kept"

    wait_for(settings, patience, all_settled, progress)
    after = [settled[job.id] for job in jobs]
    _say(asked, after, requests, None, as_json)
    return GOOD if all(job.state == asked.wanted for job in after) else NOT_SO


def _settled(connection: sqlite3.Connection, requests: Mapping[int, str]) -> dict[int, JobRow]:
    """The jobs whose requests were decided and that are no longer in progress."""
    settled: dict[int, JobRow] = {}
    for number, request in requests.items():
        event = events.event_recorded(connection, request)
        if event is None:
            continue
        (decided, *_) = jobs_for_events(connection, [event])
        job = job_row(connection, number)
        # A decided request only put the job back: the answer is what became of the job then.
        if job is not None and decided.state not in _OPEN and job.state not in _OPEN:
            settled[number] = job
    return settled


def _say(
    asked: Asked, jobs: Sequence[JobRow], requests: Mapping[int, str], future: str | None, as_json: bool
) -> None:
    if as_json:
        printed: list[JsonValue] = [
            {"job": job.id, "request": requests.get(job.id), "state": job.state, "error": job.error}
            for job in jobs
        ]
        print_json(printed)
        return
    for job in jobs:
        what = f"job {job.id} ({safe(job.handler)} of {safe(job.lane)})"
        error = f": {safe(job.error)}" if job.error and future is None and job.state == "held" else ""
        print_text(f"{what} {future}" if future is not None else f"{what} is {coloured(job.state)}{error}")


def find_job(connection: sqlite3.Connection, text: str, held: bool = False) -> JobRow:
    """The job of this number; exits 3 if there is none. `@last` is the newest, or the newest held one."""
    if text == LAST:
        newest = newest_job(connection, held)
        if newest is None:
            fail("no job is held" if held else "there is no job yet", NOT_FOUND)
        text = str(newest)
    number = text.removeprefix("job:")
    # SQLite has 64 bits for a number: Python would refuse to pass a longer one on.
    job = job_row(connection, int(number)) if number.isdecimal() and len(number) < 19 else None
    if job is None:
        refuse_unknown("job", text, [str(each.id) for each in open_jobs(connection)])
    return job
