"""What the store knows of chains: whether they may fire, their last runs and their schedules."""

from collections.abc import Mapping
from typing import NamedTuple

from runward.config.settings import Settings
from runward.daemon.store.reading_chains import (
    ChainRunRow,
    ChainStatusRow,
    chain_statuses,
    last_runs,
)
from runward.daemon.store.reading_schedules import ScheduleRow, schedules


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
