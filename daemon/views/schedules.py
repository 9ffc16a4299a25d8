"""When chains are due, as programs read it: the objects of `schedule list --json`."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from runward.config.chain import Chain
from runward.config.json_value import JsonValue
from runward.config.schedule import Schedule
from runward.config.settings import Settings
from runward.daemon.configuration.settings import chain_names, find_chain
from runward.daemon.store.reading_schedules import FiringRow, ScheduleRow, last_firing, schedules
from runward.daemon.views.units import iso
from runward.handlers.model.schedules import schedule_of_item


class DeclaredSchedule(NamedTuple):
    """A schedule of a chain: what the store knows of it, and the last firing of any schedule of the chain."""

    chain: str
    schedule: Schedule
    known: ScheduleRow | None
    last: FiringRow | None

    def due(self, now: float) -> float | None:
        """When it is due next (Unix seconds); None if it is over."""
        return _due(self.schedule, self.known, now)


def upcoming(declared: Sequence[DeclaredSchedule], now: float, count: int) -> list[float]:
    """The next times (Unix seconds) of schedules of one chain, in order."""
    found: set[float] = set()
    for each in declared:
        moment = each.due(now)
        for _ in range(count):
            if moment is None:
                break
            found.add(moment)
            moment = each.schedule.times.next_after(moment, now if each.known is None else each.known.since)
    return sorted(found)[:count]


def declared_schedules(connection: sqlite3.Connection, settings: Settings) -> list[DeclaredSchedule]:
    """The schedules of all valid chains of the settings."""
    known = schedules(connection)
    found: list[DeclaredSchedule] = []
    for name in chain_names(settings):
        chain = find_chain(settings, name).value
        if chain is not None:
            found += schedules_of(connection, chain, known)
    return found


def schedules_of(
    connection: sqlite3.Connection, chain: Chain, known: Mapping[str, ScheduleRow]
) -> list[DeclaredSchedule]:
    """The schedules of a chain."""
    if not chain.trigger.schedules:
        return []
    last = last_firing(connection, chain.name, is_scheduled=True)
    return [
        DeclaredSchedule(chain.name, leaf.schedule, known.get(_called(chain, number)), last)
        for number, leaf in enumerate(chain.trigger.leaves)
        if leaf.schedule is not None
    ]


def next_due(chain: Chain, known: Mapping[str, ScheduleRow], now: float) -> float | None:
    """When the first of a chain's schedules is due next (Unix seconds); None if it has none, or they are over."""
    due = [
        _due(leaf.schedule, known.get(_called(chain, number)), now)
        for number, leaf in enumerate(chain.trigger.leaves)
        if leaf.schedule is not None
    ]
    return min((each for each in due if each is not None), default=None)


def schedule_as_json(each: DeclaredSchedule, now: float) -> dict[str, JsonValue]:
    """A schedule as it appears in lists."""
    due, times, last = each.due(now), each.schedule.times, each.last
    return {
        "chain": each.chain,
        "schedule": times.text,
        "timezone": times.zone,
        "next": [] if due is None else [iso(due)],
        "overlap": each.schedule.overlap,
        "misfire": each.schedule.misfire,
        "runs": 0 if each.known is None else each.known.runs,
        "last": None
        if last is None or last.due_at is None
        else {"due_at": iso(last.due_at), "fired_at": iso(last.at), "result": last.result},
    }


def _called(chain: Chain, number: int) -> str:
    """The name of the schedule with this number in the chain's trigger."""
    return chain.name if chain.trigger.composite is None else schedule_of_item(chain.name, number)


def _due(each: Schedule, row: ScheduleRow | None, now: float) -> float | None:
    return each.times.next_after(now, now) if row is None else row.due
