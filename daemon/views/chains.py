"""Chains as programs read them: the objects of `chain list --json` and `chain show --json`."""

import time
from collections.abc import Mapping
from typing import NamedTuple

from runward.config.chain import Chain
from runward.config.json_value import JsonValue
from runward.config.problem import Parsed
from runward.config.settings import Settings
from runward.daemon.store.reading_chains import (
    ChainRunRow,
    ChainStatusRow,
    HeldRow,
    chain_statuses,
    held_events,
    last_runs,
)
from runward.daemon.store.reading_schedules import ScheduleRow, schedules
from runward.daemon.views.schedules import next_due
from runward.daemon.views.triggers import held_as_json
from runward.daemon.views.units import iso


class KnownChains(NamedTuple):
    """What the store knows of chains, by their names."""

    statuses: Mapping[str, ChainStatusRow]
    last_runs: Mapping[str, ChainRunRow]
    schedules: Mapping[str, ScheduleRow]

    def status(self, name: str) -> str:
        """Whether the chain fires."""
        found = self.statuses.get(name)
        return "active" if found is None else found.status


def known_chains(settings: Settings) -> KnownChains:
    from runward.daemon.store import reading

    with reading.reading(settings.state_dir) as connection:
        return KnownChains(chain_statuses(connection), last_runs(connection), schedules(connection))


def held_for(settings: Settings, chain: Chain) -> list[HeldRow]:
    """What the chain's trigger, as its file is now, has seen and not used yet."""
    from runward.daemon.store import reading
    from runward.handlers.chains.gather import digest

    if chain.trigger.composite is None:
        return []
    assert chain.document is not None
    with reading.reading(settings.state_dir) as connection:
        rows = held_events(connection, chain.name)
    return [each for each in rows if each.trigger == digest(chain.document.root)]


def chain_summary(name: str, parsed: Parsed[Chain], known: KnownChains) -> dict[str, JsonValue]:
    """A chain as it appears in lists; `name` is that of its file."""
    found = parsed.value
    called = found.name if found is not None else name
    last = known.last_runs.get(called)
    due = None if found is None else next_due(found, known.schedules, time.time())
    return {
        "name": called,
        "status": known.status(called),
        "next_due": None if due is None else iso(due),
        "last_run": None
        if last is None
        else {"chain_run_id": last.id, "status": last.status, "created_at": iso(last.created_at)},
        "trigger": found.document.root.get("trigger")
        if found is not None and found.document is not None and isinstance(found.document.root, dict)
        else None,
        "file": found.document.name if found is not None and found.document is not None else None,
        "problems": [each.render() for each in parsed.problems],
    }


def chain_as_json(settings: Settings, name: str, parsed: Parsed[Chain]) -> dict[str, JsonValue]:
    """A chain with its definition, and what its composite trigger has seen."""
    found = parsed.value
    return {
        **chain_summary(name, parsed, known_chains(settings)),
        "definition": found.document.root if found is not None and found.document else None,
        "seen": held_as_json(held_for(settings, found)) if found is not None else [],
    }
