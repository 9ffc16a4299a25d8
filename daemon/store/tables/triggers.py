"""What fires chains: events that composites hold, schedules, watched files, and the firings."""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import astuple

from runward.config.json_value import JsonValue, stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.store import Store
from runward.daemon.store.tables.table import Fold, Table, answers_by
from runward.daemon.store.transaction import as_float, as_int, listed
from runward.handlers.model.chains import (
    MOST_FIRINGS,
    FiringsOf,
    Held,
    HeldFor,
    HoldEvent,
    RecordFiring,
    ReleaseEvents,
    ToldBy,
)
from runward.handlers.model.schedules import ScheduleOf, ScheduleStanding, SetSchedule

HOLD_EVENT: Final = Write(
    "insert into held_events (chain, key, at, items, trigger_hash, event, event_id, fields, by_run)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
RELEASE_EVENT: Final = Write("delete from held_events where chain = ? and key = ?")


def _hold(batch: Batch, job: Job, effect: HoldEvent) -> None:
    held, fields = effect.held, stored_json(effect.fields).decode()
    facts = (effect.chain, held.key, held.at, json.dumps(held.items), held.trigger)
    batch.row(HOLD_EVENT, (*facts, held.event, held.event_id, fields, held.by_run))


def _release(batch: Batch, job: Job, effect: ReleaseEvents) -> None:
    for key in effect.keys:
        batch.row(RELEASE_EVENT, (effect.chain, key))


async def held(store: Store, chains: Iterable[str]) -> dict[str, tuple[Held, ...]]:
    """The events that are held for these chains, in the order of their recording, by chain."""
    rows = await store.read(
        "select chain, key, at, items, trigger_hash, event, event_id, by_run from held_events"
        " where chain in (select value from json_each(?)) order by chain, id",
        (listed(chains),),
    )
    by_chain: dict[str, tuple[Held, ...]] = {}
    for chain, key, at, items, trigger, event, identifier, by_run in rows:
        each = Held(
            *(str(key), as_float(at), tuple(json.loads(str(items))), str(trigger)),
            *(str(event), str(identifier), None if by_run is None else str(by_run)),
        )
        by_chain[str(chain)] = (*by_chain.get(str(chain), ()), each)
    return by_chain


async def told(store: Store, chains: Iterable[str]) -> dict[str, Mapping[str, JsonValue]]:
    """The contents of the events that are held for these chains, by chain and key."""
    rows = await store.read(
        "select chain, key, fields from held_events where chain in (select value from json_each(?))",
        (listed(chains),),
    )
    by_chain: dict[str, dict[str, JsonValue]] = {}
    for chain, key, fields in rows:
        by_chain.setdefault(str(chain), {})[str(key)] = json.loads(str(fields))
    return dict(by_chain)


HELD_EVENTS: Final = Table(
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
        ReleaseEvents: (
            Fold(
                lambda effect: HeldFor(effect.chain),
                lambda held, effect: tuple(each for each in held if each.key not in effect.keys),
            ),
        ),
    },
    answers={
        HeldFor: answers_by(held, lambda asked: asked.chain, ()),
        ToldBy: answers_by(told, lambda asked: asked.chain, {}),
    },
)


BY_EVENT: Final = "firing.fired.event"

RECORD_FIRING: Final = Write(
    "insert into firings (chain, at, fired_by, event, result, why, run, due_at) values (?, ?, ?, ?, ?, ?, ?, ?)"
)


def _record(batch: Batch, job: Job, effect: RecordFiring) -> None:
    batch.row(RECORD_FIRING, astuple(effect))


async def firings_by_events(store: Store, chains: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """When events recently fired these chains, newest first, by chain."""
    rows = await store.read(
        "select c.value, f.at from json_each(?1) c join firings f on f.id in (select id from firings where chain = c.value"
        " and result = 'firing.fired.event' order by at desc, id desc limit ?2) order by c.value, f.at desc",
        (listed(chains), MOST_FIRINGS),
    )
    times: dict[str, tuple[float, ...]] = {}
    for chain, at in rows:
        times[str(chain)] = (*times.get(str(chain), ()), as_float(at))
    return times


def _firings_with(moments: tuple[float, ...], effect: RecordFiring) -> tuple[float, ...]:
    return (effect.at, *moments)[:MOST_FIRINGS] if effect.result == BY_EVENT else moments


FIRINGS: Final = Table(
    writes=(RECORD_FIRING,),
    appliers={RecordFiring: _record},
    folds={RecordFiring: (Fold(lambda effect: FiringsOf(effect.chain), _firings_with),)},
    answers={FiringsOf: answers_by(firings_by_events, lambda asked: asked.chain, ())},
    goes_with_chain_run=("delete from firings where run = ?",),
)


_COLUMNS: Final = ", ".join(("chain", *ScheduleStanding._fields))

SET_SCHEDULE: Final = Write(
    f"insert into schedules ({_COLUMNS}, updated_at) values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (chain) do update"  # noqa: S608 # our own words
    " set words = excluded.words, since = excluded.since, due = excluded.due, timer = excluded.timer,"
    " runs = excluded.runs, last_due = excluded.last_due, updated_at = excluded.updated_at"
)


def _set(batch: Batch, job: Job, effect: SetSchedule) -> None:
    batch.row(SET_SCHEDULE, (effect.chain, *effect.standing, effect.at))


async def schedule_standings(store: Store, chains: Iterable[str]) -> dict[str, ScheduleStanding]:
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


SCHEDULES: Final = Table(
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


async def known_files(store: Store) -> dict[str, dict[str, str]]:
    """The last reported state of each file, by watched glob and by path."""
    by_chain: dict[str, dict[str, str]] = {
        str(glob): {} for (glob,) in await store.read("select glob from watched_globs")
    }
    for glob, path, signature in await store.read("select glob, path, signature from watched_files"):
        by_chain.setdefault(str(glob), {})[str(path)] = str(signature)
    return by_chain


WATCHED_FILES: Final = Table(writes=(UNWATCH, UNWATCH_FILES, WATCH, FILE_GONE, KEEP_FILE))
