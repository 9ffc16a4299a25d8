"""Upkeep: what a burst leaves behind is tidied once it is over, and nothing is done while nothing happens."""

import sqlite3
from dataclasses import dataclass, field

from runward.daemon import log
from runward.daemon.host.upkeep import MANY_COMMITS, Upkeep


@dataclass
class Commits:
    """A store of which only the number of commits is asked."""

    commits: int = 0


@dataclass
class Log:
    """The store's log on disk: long or not."""

    is_long: bool = False
    refuses: bool = False
    runs: int = 0

    def is_due(self) -> bool:
        return self.is_long

    def run(self) -> bool:
        self.runs += 1
        if self.refuses:
            raise sqlite3.OperationalError("disk I/O error")
        return True


@dataclass
class Kept:
    """Upkeep over stand-ins."""

    store: Commits = field(default_factory=Commits)
    log: Log = field(default_factory=Log)
    said: list[dict[str, object]] = field(default_factory=list)
    given_back: int = 0

    def give(self) -> None:
        self.given_back += 1

    def __post_init__(self) -> None:
        logger = log.log_into(self.said.append)
        self.upkeep = Upkeep(self.store, self.log, self.give, logger)  # type: ignore[arg-type] # stand-ins


async def test_memory_is_given_back_once_a_burst_is_over_and_not_while_it_goes_on() -> None:
    kept = Kept()
    for _ in range(3):
        kept.store.commits += MANY_COMMITS
        await kept.upkeep.step()
        assert kept.given_back == 0
    for _ in range(3):
        await kept.upkeep.step()
        assert kept.given_back == 1


async def test_a_few_commits_are_not_worth_it() -> None:
    kept = Kept()
    kept.store.commits = MANY_COMMITS - 1
    await kept.upkeep.step()
    await kept.upkeep.step()
    assert kept.given_back == 0


async def test_the_stores_log_is_shortened_once_for_what_was_committed() -> None:
    kept = Kept(log=Log(is_long=True))
    await kept.upkeep.step()
    assert kept.log.runs == 0, "nothing was committed"
    kept.store.commits = 2
    await kept.upkeep.step()
    await kept.upkeep.step()
    assert kept.log.runs == 1


async def test_a_checkpoint_begins_only_where_a_commit_began_after_the_last_one() -> None:
    """The first commit that is counted after a checkpoint may have been in the log before it."""
    kept = Kept(log=Log(is_long=True))
    kept.store.commits = 2
    await kept.upkeep.step()
    kept.store.commits = 3
    await kept.upkeep.step()
    assert kept.log.runs == 1
    kept.store.commits = 4
    await kept.upkeep.step()
    assert kept.log.runs == 2


async def test_a_disk_that_refuses_is_asked_again_and_said() -> None:
    kept = Kept(log=Log(is_long=True, refuses=True))
    kept.store.commits = 2
    await kept.upkeep.step()
    assert [line["why"] for line in kept.said] == ["disk I/O error"]
    kept.log.refuses = False
    kept.store.commits = 4
    await kept.upkeep.step()
    await kept.upkeep.step()
    assert kept.log.runs == 2
