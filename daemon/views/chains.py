"""Chains as programs read them: the objects of `chain list`, `chain show` and `schedule list --json`; what fires each, in words, and when it is due."""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from runward.config.chain import Chain, read_chain
from runward.config.duration import render_duration
from runward.config.json_value import JsonValue
from runward.config.problem import Parsed
from runward.config.schedule import Schedule
from runward.config.settings import Settings
from runward.config.step import Callables
from runward.config.trigger import Trigger
from runward.daemon.configuration.declared_files import NotFound, callables, chain_names, named_chain
from runward.daemon.store.tables.chain_runs import ChainRunRow, last_runs
from runward.daemon.store.tables.triggers import (
    ChainStatusRow,
    FiringRow,
    HeldRow,
    ScheduleRow,
    chain_statuses,
    held_events,
    last_firing,
    schedules,
)
from runward.daemon.views.text import fields, local
from runward.handlers.times import iso

_JOINED: Final = {"all_of": " + ", "sequence": " > ", "any_of": " | "}
_COMPOSITES: Final = {
    "all_of": "all of these within {within}, in any order",
    "sequence": "these within {within}, in this order",
    "any_of": "any of these",
}


def in_short(trigger: Trigger) -> str:
    """What fires it, in a word or two, as in `pr.opened + ci.passed`."""
    if trigger.composite is not None:
        parts = [f"({in_short(item)})" if item.composite else in_short(item) for item in trigger.items]
        return _JOINED[trigger.composite].join(parts)
    return trigger.event or (trigger.schedule.times.text if trigger.schedule is not None else "a person")


def in_words(trigger: Trigger) -> str:
    """What fires it, for the end of a sentence."""
    if trigger.composite is not None:
        return _COMPOSITES[trigger.composite].format(within=render_duration(trigger.within))
    if trigger.schedule is not None:
        return f"the schedule {trigger.schedule.times.text!r} in {trigger.schedule.times.zone}"
    if trigger.path is not None:
        return f"changes of {trigger.path}"
    return f"the event {trigger.event}" if trigger.event is not None else "a person"


def tree(trigger: Trigger, held: Sequence[HeldRow]) -> list[str]:
    """The items of a composite, one per line, each with what was seen of it."""
    lines: list[str] = []
    _add(lines, trigger, 0, 1, held)
    return lines


def _add(lines: list[str], trigger: Trigger, number: int, level: int, held: Sequence[HeldRow]) -> int:
    """Add the lines of the items; `number` is that of the first leaf. Returns that of the leaf after the last one."""
    for item in trigger.items:
        text = f"{'  ' * level}- {in_words(item)}"
        if item.composite is not None:
            lines.append(text)
            number = _add(lines, item, number, level + 1, held)
            continue
        # Leaves are counted as `Trigger.leaves` has them, because that is how the store names the items.
        seen = [each for each in held if number in each.items]
        if seen:
            more = f", and {len(seen) - 1} more" if len(seen) > 1 else ""
            text += f": seen {seen[0].event_id} at {local(seen[0].at)}{more}"
        lines.append(text)
        number += 1
    return number


def held_as_json(held: Sequence[HeldRow]) -> list[JsonValue]:
    """What a composite has seen and not used yet."""
    return [{**fields(each, "event event_id at"), "items": list(each.items)} for each in held]


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
    times: set[float] = set()
    for each in declared:
        moment = each.due(now)
        for _ in range(count):
            if moment is None:
                break
            times.add(moment)
            moment = each.schedule.times.next_after(moment, now if each.known is None else each.known.since)
    return sorted(times)[:count]


def declared_schedules(
    connection: sqlite3.Connection, chains: "Iterable[ChainFile]", known: Mapping[str, ScheduleRow]
) -> list[DeclaredSchedule]:
    """The schedules of those of the chains that are valid."""
    declared: list[DeclaredSchedule] = []
    for chain in (each.parsed.value for each in chains):
        if chain is None or not chain.trigger.schedules:
            continue
        last = last_firing(connection, chain.name, is_scheduled=True)
        declared += [
            DeclaredSchedule(chain.name, leaf.schedule, known.get(_called(chain, number)), last)
            for number, leaf in enumerate(chain.trigger.leaves)
            if leaf.schedule is not None
        ]
    return declared


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
    if chain.trigger.composite is None:
        return chain.name
    from runward.handlers.model.schedules import schedule_of_item  # few chains have composite triggers

    return schedule_of_item(chain.name, number)


def _due(each: Schedule, row: ScheduleRow | None, now: float) -> float | None:
    return each.times.next_after(now, now) if row is None else row.due


class KnownChains(NamedTuple):
    """What the store knows of chains, by their names."""

    statuses: Mapping[str, ChainStatusRow]
    last_runs: Mapping[str, ChainRunRow]
    schedules: Mapping[str, ScheduleRow]

    def status(self, name: str) -> str:
        """Whether the chain fires."""
        recorded = self.statuses.get(name)
        return "active" if recorded is None else recorded.status


class ChainFile(NamedTuple):
    """A chain in the directories of chains: the name of its file, what was read, and the text of the file."""

    file: str
    parsed: Parsed[Chain]
    text: str

    @property
    def name(self) -> str:
        """The chain's name; if it is not valid, its file's."""
        return self.file if self.parsed.value is None else self.parsed.value.name


def chain_files(settings: Settings, names: Sequence[str] | None = None) -> Iterator[ChainFile]:
    """All chains in the directories of the settings, or those with these names."""
    if names is None:
        names = chain_names(settings)
    # Once for all of them: it lists the directories of playbooks.
    given = callables(settings) if names else None
    for name in names:
        with suppress(NotFound):  # it was removed just now
            yield _chain_file(settings, name, given)


def chain_file(settings: Settings, name: str) -> ChainFile | None:
    """The chain with this name, or in the file of this name. Never any other file, whatever `name` looks like."""
    # Names come from addresses, and the lookup by name also takes paths: so only those that are listed get there.
    if name in chain_names(settings):
        with suppress(NotFound):
            return _chain_file(settings, name)
    return next((each for each in chain_files(settings) if each.name == name), None)


def _chain_file(settings: Settings, name: str, given: Callables | None = None) -> ChainFile:
    """`given` is what its steps can name, if that is known."""
    texts = [""]

    def parse(text: str, path: str) -> Parsed[Chain]:
        texts.append(text)
        return read_chain(text, path, given or callables(settings))

    parsed = named_chain(settings, name, parse)
    return ChainFile(name, parsed, texts[-1])


def known_chains(connection: sqlite3.Connection) -> KnownChains:
    return KnownChains(chain_statuses(connection), last_runs(connection), schedules(connection))


def held_for(connection: sqlite3.Connection, chain: Chain) -> list[HeldRow]:
    """What the chain's trigger, as its file is now, has seen and not used yet."""
    from runward.handlers.model.chains import trigger_hash

    if chain.trigger.composite is None:
        return []
    # What was held for another version of the trigger is never used: its items may mean other events now.
    rows = held_events(connection, chain.name)
    return [each for each in rows if each.trigger == trigger_hash(chain.definition)]


def chain_summary(name: str, parsed: Parsed[Chain], known: KnownChains) -> dict[str, JsonValue]:
    """A chain as it appears in lists; `name` is that of its file."""
    chain = parsed.value
    called = chain.name if chain is not None else name
    last = known.last_runs.get(called)
    due = None if chain is None else next_due(chain, known.schedules, time.time())
    return {
        "name": called,
        "status": known.status(called),
        "next_due": iso(due),
        "last_run": None if last is None else {"chain_run_id": last.id, **fields(last, "status created_at")},
        "trigger": None if chain is None else chain.definition.get("trigger"),
        "file": None if chain is None else chain.file,
        "problems": [each.render() for each in parsed.problems],
    }


def chain_as_json(connection: sqlite3.Connection, name: str, parsed: Parsed[Chain]) -> dict[str, JsonValue]:
    """A chain with its definition, and what its composite trigger has seen."""
    chain = parsed.value
    return {
        **chain_summary(name, parsed, known_chains(connection)),
        "definition": None if chain is None else chain.definition,
        "seen": held_as_json(held_for(connection, chain)) if chain is not None else [],
    }
