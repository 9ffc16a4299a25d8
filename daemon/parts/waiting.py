"""The notices of what waits for a person: at once of an agent that asks, and later of all that nobody has seen to.

The store is asked for what waits now. No event carries it, so a restart loses nothing, and nobody is told about what is
already over.
"""

import json
import posixpath
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from runward.config.duration import render_duration
from runward.config.notification import OVERDUE, WAITING
from runward.config.problem import one_line
from runward.daemon.store.store import Store
from runward.daemon.store.tables.approvals import ApprovalRow, waiting_approvals
from runward.daemon.store.tables.jobs import HeldJob, held_jobs
from runward.daemon.store.tables.session_lists import (
    LATELY,
    UnseenFailure,
    WaitingAgent,
    failures_unseen,
    waiting_agents,
)
from runward.handlers.model.notices import SendNotice
from runward.handlers.notices import notice_id

AGENT_WAITS_S: Final = 20.0
"""Seconds that an agent waits before somebody is told: who sits before it has answered by then."""

_MOST: Final = 100
"""Agents that are told of, those first that wait longest."""

_MOST_OVERDUE: Final = 10
"""Things of each kind that are told of when they are overdue: a thousand failures are no thousand notices."""


class Waits(NamedTuple):
    """Something that waits for a person, and since when (Unix seconds)."""

    subject: str
    since: float
    title: str
    text: str

    def notice(self, kind: str, recipient: str, now: float) -> SendNotice:
        """Its notice. Who is found waiting twice since the same moment is told of once."""
        identifier = notice_id(kind, f"{self.subject} {self.since!r}", recipient)
        return SendNotice(identifier, now, kind, self.subject, recipient, self.title, self.text)


class Waiting(NamedTuple):
    """The notices of all that waits long enough, and when the next thing will (Unix seconds)."""

    notices: list[SendNotice]
    next_at: float | None


async def notices_of_waits(
    store: Store, recipients: Callable[[str], Sequence[str]], patience: Mapping[str, float], now: float
) -> Waiting:
    """Who is told of what; `patience` are the recipients of what is overdue, with their seconds. Raises `sqlite3.Error`."""
    told: list[SendNotice] = []
    later: list[float] = []
    names = recipients(WAITING)
    agents = list(map(_agent, await waiting_agents(store, _MOST))) if names or patience else []
    for each in agents if names else ():
        if now < each.since + AGENT_WAITS_S:
            later.append(each.since + AGENT_WAITS_S)
        else:
            told += [each.notice(WAITING, name, now) for name in names]
    if patience:
        things = [*agents[:_MOST_OVERDUE], *await _others(store, now, min(patience.values()))]
        for name, after in patience.items():
            long = [each for each in things if now >= each.since + after]
            told += [_overdue(each, after).notice(OVERDUE, name, now) for each in long]
    return Waiting(told, min(later, default=None))


async def _others(store: Store, now: float, after: float) -> list[Waits]:
    """What else needs a person, of which it is known since when, at least for so long."""
    approvals = await waiting_approvals(store, _MOST_OVERDUE)
    failures = await failures_unseen(store, now - LATELY, now - after, _MOST_OVERDUE)
    held = await held_jobs(store, _MOST_OVERDUE)
    return [*map(_approval, approvals), *map(_failure, failures), *map(_job, held)]


def _overdue(waits: Waits, after: float) -> Waits:
    return waits._replace(title=f"After {render_duration(after)}: {waits.title}")


def _agent(agent: WaitingAgent) -> Waits:
    where = posixpath.basename((agent.cwd or "").rstrip("/"))
    title = f"{one_line(where)}: {one_line(agent.name)}" if where else one_line(agent.name)
    said = [one_line(each) for each in (agent.asks, agent.prompt) if each]
    return Waits(agent.key, agent.since, f"{title} waits for you", ": ".join(said))


def _approval(row: ApprovalRow) -> Waits:
    command = shlex.join(map(str, json.loads(row.shown)["argv"]))
    title = f"{one_line(row.chain)}/{one_line(row.step_id())} waits for approval"
    return Waits(row.id, row.asked_at, title, one_line(command))


def _failure(failure: UnseenFailure) -> Waits:
    title = f"{one_line(failure.session_id)} failed, and nobody has seen it"
    return Waits(failure.key, failure.at, title, one_line(failure.why))


def _job(job: HeldJob) -> Waits:
    return Waits(f"job {job.id}", job.held_at, f"job {job.id} is held: {job.handler}", one_line(job.error))
