"""Asking the daemon to retry or discard held jobs, through the inbox, and waiting for the result."""

import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import click

from runward.config.counting import counted
from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.exits import GOOD, NOT_SO
from runward.daemon.cli.shell.request_waiting import refuse_without_daemon, wait_for
from runward.daemon.cli.terminal.output import coloured, note, print_json, safe
from runward.daemon.inbox.request_file import dump_request
from runward.daemon.inbox.spool import put
from runward.daemon.store import reading, reading_causes
from runward.daemon.store.ownership import holder
from runward.daemon.store.reading_causes import JobRow
from runward.handlers.model.requests import JobDiscardRequested, JobRetryRequested

_OPEN: Final = ("waiting", "running")

MakeRequest: TypeAlias = Callable[[str, float, int], JobRetryRequested | JobDiscardRequested]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is requested for jobs: the word for it, the state that it should end in, and its request."""

    word: str
    wanted: str
    make: MakeRequest


def carry_out(
    settings: Settings,
    asked: Asked,
    jobs: Sequence[JobRow],
    dry_run: bool,
    patience: float | None,
    as_json: bool,
) -> None:
    """Put a request for each job; wait `patience` seconds for the results, unless None. Exits."""
    if not jobs and not as_json:
        click.echo("no job is held")
    if dry_run:
        _say(asked, jobs, {}, f"would be {asked.word}", as_json)
        return
    state = Path(settings.state_dir)
    if patience is not None and holder(state) is None:
        refuse_without_daemon()
    requests = {job.id: str(uuid.uuid4()) for job in jobs}
    for job in jobs:
        name = requests[job.id]
        put(state, name, dump_request(asked.make(name, time.time(), job.id)))
    if patience is None:
        _say(asked, jobs, requests, f"will be {asked.word}", as_json)
        if jobs and holder(state) is None:
            note("no daemon is running: it will be done when one starts")
        return
    sys.exit(_wait(settings.state_dir, asked, jobs, requests, patience, as_json))


def _wait(
    state: str,
    asked: Asked,
    jobs: Sequence[JobRow],
    requests: Mapping[int, str],
    patience: float,
    as_json: bool,
) -> int:
    """Wait until every job is settled after its request; returns the exit code."""
    settled: dict[int, JobRow] = {}

    def all_settled() -> bool | None:
        nonlocal settled
        settled = _settled(state, requests)
        return len(settled) == len(jobs) or None

    def said() -> str:
        return f"{len(jobs) - len(settled)} of {counted(len(jobs), 'job', 'jobs')} not settled yet; the requests are kept"

    wait_for(state, patience, all_settled, said)
    after = [settled[job.id] for job in jobs]
    _say(asked, after, requests, None, as_json)
    return GOOD if all(job.state == asked.wanted for job in after) else NOT_SO


def _settled(state: str, requests: Mapping[int, str]) -> dict[int, JobRow]:
    """The jobs whose requests were decided and that are no longer in progress."""
    found: dict[int, JobRow] = {}
    with reading.reading(state) as connection:
        for number, request in requests.items():
            event = reading_causes.event_recorded(connection, request)
            if event is None:
                continue
            (decided, *_) = reading_causes.jobs_for_events(connection, [event])
            job = reading_causes.job(connection, number)
            if job is not None and decided.state not in _OPEN and job.state not in _OPEN:
                found[number] = job
    return found


def _say(
    asked: Asked, jobs: Sequence[JobRow], requests: Mapping[int, str], future: str | None, as_json: bool
) -> None:
    if as_json:
        said: list[JsonValue] = [
            {"job": job.id, "request": requests.get(job.id), "state": job.state, "error": job.error}
            for job in jobs
        ]
        print_json(said)
        return
    for job in jobs:
        what = f"job {job.id} ({safe(job.handler)} of {safe(job.lane)})"
        error = f": {safe(job.error)}" if job.error and future is None and job.state == "held" else ""
        click.echo(f"{what} {future}" if future is not None else f"{what} is {coloured(job.state)}{error}")
