"""All tables, in the order in which a transaction writes them: parents before their children."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from runward.daemon.store.tables.actions import ACTIONS
from runward.daemon.store.tables.approvals import APPROVALS
from runward.daemon.store.tables.artifacts import ARTIFACTS
from runward.daemon.store.tables.cancellations import CANCELLATIONS
from runward.daemon.store.tables.chain_runs import CHAIN_RUNS
from runward.daemon.store.tables.cursors import CURSORS
from runward.daemon.store.tables.decisions import DECISIONS
from runward.daemon.store.tables.events import EVENTS
from runward.daemon.store.tables.files import FILES
from runward.daemon.store.tables.firings import FIRINGS
from runward.daemon.store.tables.held_events import HELD_EVENTS
from runward.daemon.store.tables.hooks import HOOKS
from runward.daemon.store.tables.intent_files import INTENT_FILES
from runward.daemon.store.tables.invocations import INVOCATIONS
from runward.daemon.store.tables.jobs import JOBS
from runward.daemon.store.tables.journal_lines import JOURNAL_LINES
from runward.daemon.store.tables.launches import LAUNCHES
from runward.daemon.store.tables.ledger import LEDGER
from runward.daemon.store.tables.links import LINKS
from runward.daemon.store.tables.notices import NOTICES
from runward.daemon.store.tables.places import PLACES
from runward.daemon.store.tables.plays import PLAYS
from runward.daemon.store.tables.principals import PRINCIPALS
from runward.daemon.store.tables.problems import PROBLEMS
from runward.daemon.store.tables.prunings import PRUNINGS
from runward.daemon.store.tables.receipts import RECEIPTS
from runward.daemon.store.tables.replays import REPLAYS
from runward.daemon.store.tables.roots import ROOTS
from runward.daemon.store.tables.schedules import SCHEDULES
from runward.daemon.store.tables.sessions import SESSIONS
from runward.daemon.store.tables.shared_artifacts import SHARED_ARTIFACTS
from runward.daemon.store.tables.signings import SIGNINGS
from runward.daemon.store.tables.starts import STARTS
from runward.daemon.store.tables.table import Answerer, Applier, Fold, Table, Write
from runward.daemon.store.tables.watched_files import WATCHED_FILES
from runward.daemon.store.tables.worktrees import WORKTREES
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect

Kind = TypeVar("Kind", bound=type[Any])
Declared = TypeVar("Declared")

TABLES: Final[tuple[Table, ...]] = (
    EVENTS,
    JOBS,
    CURSORS,
    PLACES,
    LINKS,
    LAUNCHES,
    PROBLEMS,
    SESSIONS,
    CANCELLATIONS,
    STARTS,
    WORKTREES,
    CHAIN_RUNS,
    INVOCATIONS,
    PLAYS,
    ARTIFACTS,
    APPROVALS,
    FIRINGS,
    HELD_EVENTS,
    SCHEDULES,
    NOTICES,
    DECISIONS,
    PRUNINGS,
    ROOTS,
    JOURNAL_LINES,
    FILES,
    RECEIPTS,
    REPLAYS,
    SIGNINGS,
    HOOKS,
    WATCHED_FILES,
    PRINCIPALS,
    SHARED_ARTIFACTS,
    LEDGER,
    INTENT_FILES,
    ACTIONS,
)


class TwoOwners(ValueError):
    """Two tables declare the same: a bug of ours, which keeps every command from starting."""


def joined(declared: Iterable[Mapping[Kind, Declared]]) -> dict[Kind, Declared]:
    """What all tables declare of effects or of questions. Raises `TwoOwners` if two declare the same one."""
    found: dict[Kind, Declared] = {}
    for each in declared:
        for kind, value in each.items():
            if kind in found:
                raise TwoOwners(f"two tables own {kind.__name__}: let one of them do all of it")
            found[kind] = value
    return found


WRITES: Final[tuple[Write, ...]] = tuple(write for table in TABLES for write in table.writes)
APPLIERS: Final[Mapping[type[Effect], Applier]] = joined(table.appliers for table in TABLES)
ANSWERS: Final[Mapping[type[Question[Any]], Answerer]] = joined(table.answers for table in TABLES)
FOLDS: Final[Mapping[type[Effect], tuple[Fold, ...]]] = joined(table.folds for table in TABLES)
MOVED_BY_STEPS: Final = tuple(sql for table in TABLES for sql in table.moved_by_steps)
"""The times that a step of the wall clock moves."""

GO_WITH_SESSION: Final = tuple(sql for table in reversed(TABLES) for sql in table.goes_with_session)
GO_WITH_EVENT: Final = tuple(sql for table in reversed(TABLES) for sql in table.goes_with_event)
GO_WITH_CHAIN_RUN: Final = tuple(sql for table in reversed(TABLES) for sql in table.goes_with_chain_run)
"""The rows that pruning deletes, children before their parents."""
