"""Worktrees of steps that must be removed: open until they are, then with git's answer."""

from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write
from runward.handlers.model.starts import RemoveWorktree

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

INSERT: Final = Write(
    "insert into worktrees (session_key, event, name, repo) select s.session_key, ?2, s.name, s.effect ->> '$.worktree[0]'"
    " from starts s where s.session_key = ?1 and s.effect ->> '$.worktree[0]' is not null"
    " and not exists (select 1 from worktrees w where w.session_key = ?1)",
    exact=False,
)
"""The order of the run says whether it has a worktree, and its repository."""

REMOVED: Final = "update worktrees set removed_at = ?, note = ? where session_key = ? and removed_at is null"


class OwedRemoval(NamedTuple):
    """A worktree that is still to be removed: `name` is its run's name, and its own in the directory of worktrees."""

    session_key: str
    name: str
    repo: str


async def owed_removals(store: Store) -> list[OwedRemoval]:
    """The worktrees that are still to be removed, in order."""
    rows = await store.read(
        "select session_key, name, repo from worktrees where removed_at is null order by event, session_key"
    )
    return [OwedRemoval(str(key), str(name), str(repo)) for key, name, repo in rows]


def _remove(batch: "Batch", job: Job, effect: RemoveWorktree) -> None:
    batch.row(INSERT, (effect.session_key, job.seq))


WORKTREES: Final = Table(
    writes=(INSERT,),
    appliers={RemoveWorktree: _remove},
    goes_with_session=("delete from worktrees where session_key = ?",),
)
