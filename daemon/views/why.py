"""Why something is the way it is, as the object of `why --json`; `exchange.py` says it for what is in the exchange.

The command imports this each time, so it imports little.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.root import NATIVE
from runward.daemon.store.tables import cursors, journal_lines, problems, sessions
from runward.daemon.store.tables.events import session_events
from runward.daemon.store.tables.jobs import JobRow, job_row, jobs_for_events
from runward.daemon.store.tables.sessions import SessionRow, produced_of, verification_of
from runward.daemon.views import causes
from runward.daemon.views.causes import Entry
from runward.daemon.views.sessions import fix_of_unknown, silence
from runward.daemon.views.text import local
from runward.daemon.views.unjudged import NOT_JUDGED
from runward.handlers.times import iso

if TYPE_CHECKING:
    from runward.daemon.store.tables.approvals import ApprovalRow
    from runward.daemon.store.tables.chain_runs import ChainRunRow, ChainStepRow
    from runward.daemon.store.tables.starts import StartRow
    from runward.daemon.store.tables.triggers import ChainStatusRow
    from runward.daemon.views.chain_runs import AskedRun

_START = "start `runward daemon`"
_NOT_OVER = "it is not over"
_SYNCED_WITHIN = 15.0
"""Seconds within which a running daemon has synced what it wrote, if nothing is wrong."""


class Obstacle(NamedTuple):
    """What did not happen, why, and what to do about it."""

    what: str
    why: str
    fix: str | None

    def as_json(self) -> JsonValue:
        return self._asdict()


def obstacles_of_session(
    connection: sqlite3.Connection, row: SessionRow, is_up: bool, now: float
) -> list[Obstacle]:
    """What keeps a session from progressing."""
    events = session_events(connection, row.key)
    recorded = {event.seq: event.recorded_at for event in events}
    jobs = jobs_for_events(connection, recorded)
    obstacles = [obstacle for job in jobs for obstacle in obstacles_of_job(connection, job, is_up, now)]
    if row.contract_problem is not None:
        obstacles.append(_of_contract(row, row.contract_problem))
    for line in journal_lines.lines_of(connection, row.key):
        if line.state == "discarded":
            obstacles.append(Obstacle(f"{line.name} lacks {line.length} bytes", line.why or "given up", None))
        elif line.state == "owed" and (not is_up or now - recorded.get(line.event, now) > _SYNCED_WITHIN):
            start = None if is_up else _START
            obstacles.append(
                Obstacle(f"{line.name} lacks {line.length} bytes", "they have not been written yet", start)
            )
    if row.status == "running":
        why = _not_over if row.layout == NATIVE else _goes_on
        obstacles.append(why(connection, row, is_up, now))
    return [*obstacles, *obstacles_of_directory(connection, row.path)]


def not_taken_up(is_up: bool) -> Obstacle:
    """Why a request is still in the inbox."""
    return _not_processed("it has not begun", is_up)


def not_judged_yet(is_up: bool) -> Obstacle:
    """Why a run has no verdict yet."""
    return _not_processed("it is not judged yet", is_up)


def _not_processed(what: str, is_up: bool) -> Obstacle:
    why = "the daemon has not processed it yet" if is_up else "no daemon is running"
    return Obstacle(what, why, None if is_up else _START)


def obstacles_of_start(start: StartRow, is_up: bool) -> list[Obstacle]:
    """What keeps an ordered run from becoming a session."""
    if start.state == "failed" or start.why is not None:
        what = "it left no session" if start.state == "begun" else "it never began"
        return [Obstacle(what, start.why or "it could not", "ask for it again")]
    if start.state == "begun":
        fix = None if is_up else _START
        return [Obstacle("it is not a session yet", f"no run.json was seen in {start.directory}", fix)]
    if not is_up:
        return [Obstacle("it has not begun", "no daemon is running", _START)]
    fix = "`runward status` says what keeps it back"
    return [Obstacle("it has not begun", "the daemon has not started it yet", fix)]


def obstacles_of_chain_run(
    connection: sqlite3.Connection, row: ChainRunRow, is_up: bool
) -> Iterator[Obstacle]:
    """What keeps a chain run from progressing; which steps did not complete or never ran, and why."""
    from runward.daemon.store.tables.approvals import approvals_of_run
    from runward.daemon.store.tables.chain_runs import chain_steps
    from runward.daemon.views.chain_runs import defined_steps

    approvals = approvals_of_run(connection, row.id)
    is_open = row.status in ("running", "waiting_approval")
    tries = {each.step: each for each in chain_steps(connection, row.id)}
    for number, defined in enumerate(defined_steps(row)):
        step, name = tries.get(number), f"step {number} ({defined.get('id', f'step{number}')})"
        if step is None:
            if row.status != "completed" and not is_open:
                yield Obstacle(f"{name} never began", f"the run was over before: {row.reason_summary}", None)
            continue
        what = f"step {number} has not begun"
        why = ", ".join(each for each in (step.reason_code, step.reason_summary) if each)
        if step.status == "skipped":
            yield Obstacle(f"{name} was skipped", why, None)
        elif step.status not in ("waiting", "waiting_approval", "running", "completed"):
            yield Obstacle(f"{name} ended {step.status}", why, _more_of(step))
        elif step.status == "waiting_approval":
            asked = approvals.get(step.step)
            fix = asked and f"`runward chain approve {asked}` or `runward chain deny {asked}`"
            yield Obstacle(what, "it waits for a person", fix)
        elif step.status == "waiting":
            yield Obstacle(what, step.reason_summary or "it waits", None)
        elif step.status == "running" and step.host is not None:
            yield Obstacle(f"{name} is not over", _on_other_host(step), _more_of(step))
    if not is_up and is_open:
        yield Obstacle(_NOT_OVER, "no daemon is running", _START)


def _on_other_host(step: ChainStepRow) -> str:
    """Where a step is that another host took, and whether it has begun there."""
    at = "" if step.taken_at is None else f" at {iso(step.taken_at)}"
    said = {"yes": "it began there", "unknown": "it has not said that it began"}.get(step.began_there or "")
    return f"{step.host} took it{at} as {step.remote_session}" + (f"; {said}" if said else "")


def _more_of(step: ChainStepRow) -> str | None:
    """The command that says more of its session, and on which host."""
    from runward.daemon.views.chain_runs import session_id_of

    session = session_id_of(step)
    where = "" if step.host is None else f" on {step.host}"
    return None if session is None else f"`runward why {session}`{where} says more"


def obstacles_of_chain(name: str, standing: ChainStatusRow | None) -> Iterator[Obstacle]:
    """What keeps a chain from firing."""
    if standing is not None and standing.status != "active":
        why = f"it is {standing.status}, as {standing.said_by} asked{f': {standing.note}' if standing.note else ''}"
        yield Obstacle("it does not fire", why, f"`runward chain resume {name}`")


def _of_contract(row: SessionRow, problem: str) -> Obstacle:
    if row.artifact_contract_json is None:
        fix = "fix what it names; this session stays without a contract, and the next one gets it"
        return Obstacle("it has no contract", problem, fix)
    fix = "plan once, before any leg works; this session keeps its contract as it is"
    return Obstacle("a plan's legs are not in its contract", problem, fix)


def obstacles_of_directory(connection: sqlite3.Connection, path: str) -> list[Obstacle]:
    """What is wrong with the files of a run directory."""
    return [
        Obstacle(_place(each.path, each.line), each.message, each.fix)
        for each in problems.problems(connection, path)
    ]


def obstacles_of_job(
    connection: sqlite3.Connection, job: JobRow, is_up: bool, now: float
) -> Iterator[Obstacle]:
    """Why a job isn't done."""
    what = f"job {job.id} ({job.handler}) is {job.state}"
    if job.state == "held":
        fix = (
            f"when the cause is fixed: `runward queue retry {job.id}`, else `runward queue discard {job.id}`"
        )
        yield Obstacle(f"{what} and stops its lane", job.error or "it failed", fix)
    elif job.blocked_by is not None:
        before = job_row(connection, job.blocked_by)
        state = before.state if before is not None else "open"
        yield Obstacle(
            what, f"job {job.blocked_by} before it is {state}", f"`runward why job:{job.blocked_by}` says why"
        )
    elif job.state == "waiting" and job.run_after > now:
        why = f"{job.error}; it is tried again" if job.error else "it is due"
        yield Obstacle(what, f"{why} at {local(job.run_after)}", None)
    elif job.state in ("waiting", "running") and not is_up:
        yield Obstacle(what, "no daemon is running", _START)
    elif job.state == "waiting":
        yield Obstacle(what, job.error or "the daemon has not processed it yet", None)
    elif job.state == "discarded":
        yield Obstacle(what, job.error or "it was given up", None)


def _goes_on(connection: sqlite3.Connection, row: SessionRow, is_up: bool, now: float) -> Obstacle:
    """Why another tool's session still counts as running."""
    from runward.daemon.watch.remembered import read_remembered
    from runward.daemon.world.processes import RealProcesses

    text = cursors.remembered_of(connection, row.key)
    remembered = read_remembered(text) if text is not None else None
    followed = remembered.followed if remembered is not None else None
    turn = f"its turn is {followed.turn}" if followed is not None else "no file of it was read yet"
    if followed is None or followed.process is None:
        why = f"{turn}, and it is not known whether its process is still there"
        return _not_known(row, why, now)
    processes = RealProcesses()
    state = processes.state(followed.process)
    if state == "gone" and not (followed.seen_in and followed.seen_in.covers(processes.whereabouts())):
        why = f"{turn}, and its process {followed.process.pid} is not here, but it may be on another machine"
        return _not_known(row, f"{why} or in another PID namespace", now)
    why = f"{turn}, and its process {followed.process.pid} is {state}"
    return Obstacle(_NOT_OVER, why, None if is_up else _START)


def _not_known(row: SessionRow, why: str, now: float) -> Obstacle:
    """Nothing but its silence says whether a session still runs."""
    silent = silence(row, now)
    return Obstacle(
        _NOT_OVER,
        why if silent is None else f"{why}; it has been silent for {silent}",
        fix_of_unknown(row.layout),
    )


def _not_over(connection: sqlite3.Connection, row: SessionRow, is_up: bool, now: float) -> Obstacle:
    """Why a native session still counts as running."""
    from runward.daemon.world.processes import RealProcesses
    from runward.handlers.model.processes import is_here
    from runward.handlers.sessions.observe import NEVER_SEEN, read_watched

    text = cursors.remembered_of(connection, row.key)
    watched = (read_watched(text) if text is not None else None) or NEVER_SEEN
    processes = RealProcesses()
    if not is_here(watched.host, processes.host()):
        return Obstacle(_NOT_OVER, f"no end was written, and its processes run on {watched.host}", None)
    states = [
        f"its {name} {process.pid} is {processes.state(process)}"
        for name, process in (("launcher", watched.launcher), ("process", watched.process))
        if process is not None
    ]
    if not states:
        why = "no end was written, and no process is named that could be checked"
        return _not_known(row, why, now)
    why = f"no end was written, and {', '.join(states)}"
    is_ours = watched.seen_in is not None and watched.seen_in.covers(processes.whereabouts())
    if is_up and not is_ours and all(state.endswith(" is gone") for state in states):
        why += ", but they may be on another machine or in another PID namespace"
    return Obstacle(_NOT_OVER, why, None if is_up else _START)


def _place(path: str, line: int | None) -> str:
    return path if line is None else f"{path}:{line}"


_NAMED: Final = 5
"""Delivered files that are named in one line."""


class Story(NamedTuple):
    """Everything to say about one thing. `headline` says in a sentence what it is now.

    `session` and `chain_run` are the rows of one: `answers.py` says in short what they are told for.
    """

    noun: str
    identifier: str
    status: str | None
    headline: str
    entries: Sequence[Entry] = ()
    obstacles: Sequence[Obstacle] = ()
    delivered: str | None = None
    session: SessionRow | None = None
    chain_run: ChainRunRow | None = None

    def as_json(self) -> dict[str, JsonValue]:
        return {
            "subject": {"noun": self.noun, "id": self.identifier},
            "status": self.status,
            "summary": self.headline,
            "causes": [entry.as_json() for entry in self.entries],
            "not_done": [obstacle.as_json() for obstacle in self.obstacles],
        }


def session_story(connection: sqlite3.Connection, row: SessionRow, is_up: bool, now: float) -> Story:
    """A session; one that is not judged yet, according to its files. `is_up` says whether a daemon runs."""
    if not row.not_judged_yet:
        return _of_recorded(connection, row, is_up, now)
    headline = f"{NOT_JUDGED}; by its own files: {row.reason_code}, {row.reason_summary}"
    recorded = sessions.session(connection, row.key)
    if recorded is not None:
        story = _of_recorded(connection, recorded, is_up, now)
        return story._replace(status=row.status, headline=headline, session=row)
    return Story(
        noun="session",
        identifier=row.key,
        status=row.status,
        headline=headline,
        obstacles=[not_judged_yet(is_up)],
        session=row,
    )


def _of_recorded(connection: sqlite3.Connection, row: SessionRow, is_up: bool, now: float) -> Story:
    return Story(
        noun="session",
        identifier=row.key,
        status=row.status,
        headline=f"{row.reason_code}, {row.reason_summary}",
        entries=causes.causes_of_session(connection, row.key),
        obstacles=obstacles_of_session(connection, row, is_up, now),
        delivered=_delivered(row),
        session=row,
    )


def _delivered(row: SessionRow) -> str | None:
    """What was delivered, and where it was looked for; None if nothing was verified."""
    if verification_of(row) is None:
        return None
    files = produced_of(row)
    named = ", ".join(f"{each['id']} ({each['path']})" for each in files[:_NAMED])
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return f"delivered in {row.artifacts_path}: {named or 'nothing'}{more}"


def chain_run_story(connection: sqlite3.Connection, row: ChainRunRow, is_up: bool) -> Story:
    """A run of a chain: what fired it, and what was decided of each step."""
    return Story(
        noun="chain run",
        identifier=row.id,
        status=row.status,
        headline=f"{row.reason_code}, {row.reason_summary}",
        entries=causes.causes_of_chain_run(connection, row.id),
        obstacles=list(obstacles_of_chain_run(connection, row, is_up)),
        chain_run=row,
    )


def asked_run_story(run: AskedRun, is_up: bool) -> Story:
    """A chain run that somebody asked for and that no daemon has recorded yet."""
    headline = f"{run.said_by} asked for the chain {run.chain} to be fired"
    return Story(
        noun="chain run",
        identifier=run.id,
        status="asked",
        headline=headline,
        obstacles=[not_taken_up(is_up)],
    )


def approval_story(connection: sqlite3.Connection, row: ApprovalRow) -> Story:
    """A step that waits for a person, or that somebody decided about: what led to it, and what followed in its run."""
    by = f" by {row.decided_by}" if row.decided_by else ""
    note = f": {row.note}" if row.note else ""
    return Story(
        noun="approval",
        identifier=row.id,
        status=row.status,
        headline=f"step {row.step} of {row.run} ({row.chain}): {row.status}{by}{note}",
        entries=causes.causes_of_chain_run(connection, row.run),
    )
