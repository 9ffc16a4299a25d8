"""What fires chains: whether they are enabled, events that composites hold, schedules, watched files, and the firings."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue, stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import groups_of, row_of, rows_by_key, rows_of, select, values_of
from runward.daemon.store.tables.table import Fold, Table, answers_by
from runward.daemon.store.transaction import listed

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.chains import (
        ChainFires,
        Held,
        HoldEvent,
        RecordFiring,
        ReleaseEvents,
        SetChainStatus,
    )
    from runward.handlers.model.schedules import ScheduleStanding, SetSchedule


class ChainStatusRow(NamedTuple):
    """Whether a chain is enabled, since when (Unix seconds), and who decided that."""

    status: str
    since: float
    note: str
    said_by: str


def chain_statuses(connection: sqlite3.Connection) -> dict[str, ChainStatusRow]:
    """Every chain status that was ever set, by the chains' names."""
    return rows_by_key(ChainStatusRow, connection.execute(select(ChainStatusRow, "from chains", by="name")))


async def firing(store: Reader, chains: Iterable[str]) -> dict[str, ChainFires]:
    """Whether these chains fire, by name, if that was ever set."""
    from runward.handlers.model.chains import ChainFires

    which = "from chains where name in (select value from json_each(?))"
    return rows_by_key(ChainFires, await store.read(select(ChainFires, which, by="name"), (listed(chains),)))


STATUS: Final = Write(
    "insert into chains (name, status, since, note, said_by) values (?, ?, ?, ?, ?) on conflict (name) do update"
    " set status = excluded.status, since = excluded.since, note = excluded.note, said_by = excluded.said_by"
)


def _status(batch: Batch, job: Job, effect: SetChainStatus) -> None:
    batch.row(STATUS, (effect.chain, effect.status, effect.at, effect.note, effect.said_by))


def statuses() -> Table:
    """What effects make of chains' statuses."""
    from runward.handlers.model.chains import ChainFires, ChainFiresNow, SetChainStatus

    def after(_: ChainFires | None, effect: SetChainStatus) -> ChainFires:
        return ChainFires(effect.status, effect.at, effect.note, effect.said_by)

    return Table(
        writes=(STATUS,),
        appliers={SetChainStatus: _status},
        folds={SetChainStatus: (Fold(lambda effect: ChainFiresNow(effect.chain), after),)},
        answers={ChainFiresNow: answers_by(firing, lambda asked: asked.chain)},
    )


class HeldRow(NamedTuple):
    """An event held for the composite trigger of a chain: when it happened, and which items it is meant for."""

    event: str
    event_id: str
    at: float
    items: tuple[int, ...]
    trigger: str


def held_events(connection: sqlite3.Connection, chain: str) -> list[HeldRow]:
    """What is held for the composite trigger of a chain, oldest first."""
    rows = connection.execute(
        select(HeldRow, "from held_events where chain = ? order by id", trigger="trigger_hash"), (chain,)
    )
    return rows_of(HeldRow, rows)


async def held(store: Reader, chains: Iterable[str]) -> dict[str, tuple[Held, ...]]:
    """The events that are held for these chains, in the order of their recording, by chain."""
    from runward.handlers.model.chains import Held

    which = "from held_events where chain in (select value from json_each(?)) order by chain, id"
    rows = await store.read(select(Held, which, by="chain", trigger="trigger_hash"), (listed(chains),))
    return groups_of(Held, rows)


async def told(store: Reader, chains: Iterable[str]) -> dict[str, Mapping[str, JsonValue]]:
    """The contents of the events that are held for these chains, by chain and key."""
    rows = await store.read(
        "select chain, key, fields from held_events where chain in (select value from json_each(?))",
        (listed(chains),),
    )
    return {chain: dict(events) for chain, events in groups_of(tuple[str, JsonValue], rows).items()}


HOLD_EVENT: Final = Write(
    "insert into held_events (chain, key, at, items, trigger_hash, event, event_id, fields, by_run, depth)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
RELEASE_EVENT: Final = Write("delete from held_events where chain = ? and key = ?")


def _hold(batch: Batch, job: Job, effect: HoldEvent) -> None:
    held, fields = effect.held, stored_json(effect.fields).decode()
    facts = (effect.chain, held.key, held.at, json.dumps(held.items), held.trigger)
    batch.row(HOLD_EVENT, (*facts, held.event, held.event_id, fields, held.by_run, held.depth))


def _release(batch: Batch, job: Job, effect: ReleaseEvents) -> None:
    for key in effect.keys:
        batch.row(RELEASE_EVENT, (effect.chain, key))


def held_table() -> Table:
    """The same of events that are held."""
    from runward.handlers.model.chains import HeldFor, HoldEvent, ReleaseEvents, ToldBy

    def without(held: tuple[Held, ...], effect: ReleaseEvents) -> tuple[Held, ...]:
        return tuple(each for each in held if each.key not in effect.keys)

    return Table(
        # Deleted before inserted: one batch may release an event and hold it again.
        writes=(RELEASE_EVENT, HOLD_EVENT),
        appliers={HoldEvent: _hold, ReleaseEvents: _release},
        folds={
            HoldEvent: (
                Fold(lambda effect: HeldFor(effect.chain), lambda known, effect: (*known, effect.held)),
                Fold(
                    lambda effect: ToldBy(effect.chain),
                    lambda told, effect: {**told, effect.held.key: effect.fields},
                ),
            ),
            ReleaseEvents: (Fold(lambda effect: HeldFor(effect.chain), without),),
        },
        answers={
            HeldFor: answers_by(held, lambda asked: asked.chain, ()),
            ToldBy: answers_by(told, lambda asked: asked.chain, {}),
        },
    )


class FiringRow(NamedTuple):
    """The result of a firing of a chain. Times are Unix seconds."""

    chain: str
    at: float
    fired_by: str
    event: str
    result: str
    why: str
    run: str | None
    due_at: float | None


def last_firing(
    connection: sqlite3.Connection, chain: str, *, is_scheduled: bool = False
) -> FiringRow | None:
    """The result of the last firing of a chain, or the last one of its schedule."""
    which = "where chain = ? and (due_at is not null or not ?) order by at desc, id desc limit 1"
    rows = connection.execute(select(FiringRow, f"from firings {which}"), (chain, is_scheduled))
    return row_of(FiringRow, rows.fetchone())


def newest_firings(connection: sqlite3.Connection, chain: str, limit: int) -> list[FiringRow]:
    """What became of the newest firings of a chain, the newest first."""
    which = "where chain = ? order by at desc, id desc limit ?"
    return rows_of(FiringRow, connection.execute(select(FiringRow, f"from firings {which}"), (chain, limit)))


RECORD_FIRING: Final = Write(
    "insert into firings (chain, at, fired_by, event, result, why, run, due_at) values (?, ?, ?, ?, ?, ?, ?, ?)"
)


def _record(batch: Batch, job: Job, effect: RecordFiring) -> None:
    from msgspec.structs import astuple

    batch.row(RECORD_FIRING, astuple(effect))


async def firings_by_events(store: Reader, chains: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """When events recently fired these chains, newest first, by chain."""
    from runward.handlers.model.chains import BY_EVENT, MOST_FIRINGS

    # A bound on firings by events keeps chains that fire each other from running away. It counts these alone: what a person
    # or a schedule fires, is not limited by it. The word is part of the query, as the index of these firings has it.
    rows = await store.read(
        "select c.value, f.at from json_each(?1) c join firings f on f.id in (select id from firings where chain = c.value"  # noqa: S608 # our own words
        f" and result = '{BY_EVENT}' order by at desc, id desc limit ?2) order by c.value, f.at desc",
        (listed(chains), MOST_FIRINGS),
    )
    return {chain: tuple(at for (at,) in times) for chain, times in groups_of(tuple[float], rows).items()}


def firings() -> Table:
    """The same of firings."""
    from runward.handlers.model.chains import BY_EVENT, MOST_FIRINGS, FiringsOf, RecordFiring

    def after(moments: tuple[float, ...], effect: RecordFiring) -> tuple[float, ...]:
        return (effect.at, *moments)[:MOST_FIRINGS] if effect.result == BY_EVENT else moments

    return Table(
        writes=(RECORD_FIRING,),
        appliers={RecordFiring: _record},
        folds={RecordFiring: (Fold(lambda effect: FiringsOf(effect.chain), after),)},
        answers={FiringsOf: answers_by(firings_by_events, lambda asked: asked.chain, ())},
        goes_with_chain_run=("delete from firings where run = ?",),
    )


class ScheduleRow(NamedTuple):
    """When a chain is due next: `due` is None if nothing more comes, `since` is when its times were first read."""

    since: float
    due: float | None
    runs: int


def schedules(connection: sqlite3.Connection) -> dict[str, ScheduleRow]:
    """All schedules that a daemon waits for, by chain."""
    which = "from schedules where words is not null"
    return rows_by_key(ScheduleRow, connection.execute(select(ScheduleRow, which, by="chain")))


async def schedule_standings(store: Reader, chains: Iterable[str]) -> dict[str, ScheduleStanding]:
    """The current state of these chains' schedules, by chain."""
    return await _standings(store, "where chain in (select value from json_each(?))", (listed(chains),))


async def all_standings(store: Reader) -> dict[str, ScheduleStanding]:
    """The current state of all schedules, by chain."""
    return await _standings(store, "", ())


async def _standings(store: Reader, which: str, values: tuple[str, ...]) -> dict[str, ScheduleStanding]:
    from runward.handlers.model.schedules import ScheduleStanding

    query = select(ScheduleStanding, f"from schedules {which}", by="chain")
    return rows_by_key(ScheduleStanding, await store.read(query, values))


SET_SCHEDULE: Final = Write(
    "insert into schedules (chain, words, since, due, timer, runs, last_due, updated_at)"
    " values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (chain) do update"
    " set words = excluded.words, since = excluded.since, due = excluded.due, timer = excluded.timer,"
    " runs = excluded.runs, last_due = excluded.last_due, updated_at = excluded.updated_at"
)


def _set(batch: Batch, job: Job, effect: SetSchedule) -> None:
    batch.row(SET_SCHEDULE, (effect.chain, *effect.standing, effect.at))


def schedule_table() -> Table:
    """The same of schedules."""
    from runward.handlers.model.schedules import ScheduleOf, SetSchedule

    return Table(
        writes=(SET_SCHEDULE,),
        appliers={SetSchedule: _set},
        folds={
            SetSchedule: (
                Fold(lambda effect: ScheduleOf(effect.chain), lambda standing, effect: effect.standing),
            )
        },
        answers={ScheduleOf: answers_by(schedule_standings, lambda asked: asked.chain)},
    )


WATCH: Final = Write("insert or ignore into watched_globs (glob, since) values (?, ?)", exact=False)
UNWATCH: Final = Write("delete from watched_globs where glob = ?", exact=False)
UNWATCH_FILES: Final = Write("delete from watched_files where glob = ?", exact=False)
KEEP_FILE: Final = Write(
    "insert into watched_files (glob, path, signature) values (?, ?, ?)"
    " on conflict (glob, path) do update set signature = excluded.signature"
)
FILE_GONE: Final = Write("delete from watched_files where glob = ? and path = ?", exact=False)


async def known_files(store: Reader) -> dict[str, dict[str, str]]:
    """The last reported state of each file, by watched glob and by path."""
    globs = values_of(str, await store.read("select glob from watched_globs"))
    rows = await store.read("select glob, path, signature from watched_files")
    files = groups_of(tuple[str, str], rows)
    return {glob: dict(files.get(glob, ())) for glob in dict.fromkeys([*globs, *files])}


# Deleted before inserted: a glob may be watched anew by the same look that ended the earlier watch.
WATCHED_FILES: Final = Table(writes=(UNWATCH, UNWATCH_FILES, WATCH, FILE_GONE, KEEP_FILE))
