"""Chains as programs read them: the objects of `chain list --json` and `chain show --json`."""

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from runward.config.chain import Chain, read_chain
from runward.config.json_value import JsonValue
from runward.config.problem import Parsed
from runward.config.settings import Settings
from runward.daemon.configuration.settings import NotFound, callables, chain_names, find_chain
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


class ChainFile(NamedTuple):
    """A chain in the directories of chains: the name of its file, what was read, and the text of the file."""

    file: str
    parsed: Parsed[Chain]
    text: str

    @property
    def name(self) -> str:
        """The chain's name; if it is not valid, its file's."""
        return self.file if self.parsed.value is None else self.parsed.value.name


def chain_files(settings: Settings) -> Iterator[ChainFile]:
    """All chains in the directories of the settings."""
    for name in chain_names(settings):
        with suppress(NotFound):  # it was removed just now
            yield _chain_file(settings, name)


def chain_file(settings: Settings, name: str) -> ChainFile | None:
    """The chain with this name, or in the file of this name. Never any other file, whatever `name` looks like."""
    if name in chain_names(settings):
        with suppress(NotFound):
            return _chain_file(settings, name)
    return next((each for each in chain_files(settings) if each.name == name), None)


def _chain_file(settings: Settings, name: str) -> ChainFile:
    texts = [""]

    def parse(text: str, path: str) -> Parsed[Chain]:
        texts.append(text)
        return read_chain(text, path, callables(settings))

    parsed = find_chain(settings, name, parse)
    return ChainFile(name, parsed, texts[-1])


def known_chains(connection: sqlite3.Connection) -> KnownChains:
    return KnownChains(chain_statuses(connection), last_runs(connection), schedules(connection))


def held_for(connection: sqlite3.Connection, chain: Chain) -> list[HeldRow]:
    """What the chain's trigger, as its file is now, has seen and not used yet."""
    from runward.handlers.chains.gather import digest

    if chain.trigger.composite is None:
        return []
    assert chain.document is not None
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


def chain_as_json(connection: sqlite3.Connection, name: str, parsed: Parsed[Chain]) -> dict[str, JsonValue]:
    """A chain with its definition, and what its composite trigger has seen."""
    found = parsed.value
    return {
        **chain_summary(name, parsed, known_chains(connection)),
        "definition": found.document.root if found is not None and found.document else None,
        "seen": held_as_json(held_for(connection, found)) if found is not None else [],
    }
