"""When each chain is due next."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Fold, Table, Write, answers_by
from runward.daemon.store.values import as_float, as_int, listed
from runward.handlers.model.schedules import ScheduleOf, ScheduleStanding, SetSchedule

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

_COLUMNS: Final = "chain, words, since, due, timer, runs, last_due"

SET: Final = Write(
    f"insert into schedules ({_COLUMNS}, updated_at) values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (chain) do update"  # noqa: S608 # our own words
    " set words = excluded.words, since = excluded.since, due = excluded.due, timer = excluded.timer,"
    " runs = excluded.runs, last_due = excluded.last_due, updated_at = excluded.updated_at"
)


def _set(batch: "Batch", job: Job, effect: SetSchedule) -> None:
    said = (effect.words, effect.since, effect.due, effect.timer, effect.runs, effect.last_due)
    batch.row(SET, (effect.chain, *said, effect.at))


async def standings(store: Store, chains: Iterable[str]) -> dict[str, ScheduleStanding]:
    """The current state of these chains' schedules, by chain."""
    return await _read(store, "where chain in (select value from json_each(?))", (listed(chains),))


async def all_standings(store: Store) -> dict[str, ScheduleStanding]:
    """The current state of all schedules, by chain."""
    return await _read(store, "", ())


async def _read(store: Store, where: str, values: tuple[str, ...]) -> dict[str, ScheduleStanding]:
    rows = await store.read(f"select {_COLUMNS} from schedules {where}", values)  # noqa: S608 # our own words
    return {
        str(chain): ScheduleStanding(
            None if words is None else str(words),
            as_float(since),
            None if due is None else as_float(due),
            None if timer is None else str(timer),
            as_int(runs),
            None if last is None else as_float(last),
        )
        for chain, words, since, due, timer, runs, last in rows
    }


def _folded(standing: ScheduleStanding | None, effect: SetSchedule) -> ScheduleStanding:
    return ScheduleStanding(
        effect.words, effect.since, effect.due, effect.timer, effect.runs, effect.last_due
    )


SCHEDULES: Final = Table(
    writes=(SET,),
    appliers={SetSchedule: _set},
    folds={SetSchedule: (Fold(lambda effect: ScheduleOf(effect.chain), _folded),)},
    answers={ScheduleOf: answers_by(standings, lambda asked: asked.chain)},
)
