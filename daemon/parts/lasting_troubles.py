"""Notices of trouble that no event reports: jobs that are held, and chain files that are quarantined.

Both are found in their current state, so a restart loses none. The same trouble always has the same notices, so a recipient is
told once about it.
"""

from collections.abc import Callable, Sequence
from typing import Final

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import HeldJob, held_jobs
from runward.handlers.model.notices import SendNotice
from runward.handlers.notices.addressing import notice_id

HELD: Final = "job.held"
QUARANTINED: Final = "chain.quarantined"
KINDS: Final = (HELD, QUARANTINED)

_MOST: Final = 100
"""How many held jobs are reported one by one, newest first."""


async def notices_of_troubles(
    store: Store,
    recipients: Callable[[str], Sequence[str]],
    quarantined: Sequence[tuple[str, str]],
    now: float,
) -> list[SendNotice]:
    """The notices of what is held and `quarantined` (names and reasons). Raises `sqlite3.Error`."""
    found = []
    if told := recipients(HELD):
        held = await held_jobs(store, _MOST)
        found += [_of_job(each, recipient, now) for each in held for recipient in told]
    for recipient in recipients(QUARANTINED) if quarantined else ():
        found += [_of_chain(name, why, recipient, now) for name, why in quarantined]
    return found


def _of_job(job: HeldJob, recipient: str, now: float) -> SendNotice:
    title = f"job {job.id} is held: {job.handler}"
    text = (
        f"{job.lane} waits for it. {job.error}. See `runward queue show {job.id}`, then retry or discard it"
    )
    # A job that is retried and held again gets a new notice.
    told = notice_id(HELD, f"{job.id} {job.held_at!r}", recipient)
    return SendNotice(told, now, HELD, f"job {job.id}", recipient, title, text)


def _of_chain(name: str, why: str, recipient: str, now: float) -> SendNotice:
    title = f"chain {name} is quarantined"
    told = notice_id(QUARANTINED, f"{name} {why}", recipient)
    return SendNotice(
        told, now, QUARANTINED, name, recipient, title, f"{why}. It does not fire until that is fixed"
    )
