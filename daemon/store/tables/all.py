"""All tables, in the order in which a transaction writes them: parents before their children."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from runward.daemon.store.batch import Batch, Job, JobResult, Write
from runward.daemon.store.tables import (
    actions,
    approvals,
    artifacts,
    between_hosts,
    cancellations,
    chain_runs,
    cursors,
    events,
    files,
    invocations,
    jobs,
    journal_lines,
    ledger,
    notices,
    principals,
    prunings,
    receipts,
    replays,
    sessions,
    shared_artifacts,
    shows,
    starts,
    triggers,
)
from runward.daemon.store.tables.intent_files import INTENT_FILES
from runward.daemon.store.tables.places import HOOKS, LINKS, PLACES, ROOTS
from runward.daemon.store.tables.problems import PROBLEMS
from runward.daemon.store.tables.table import Answerer, Applier, Fold, Table
from runward.daemon.store.tables.usage import USAGE
from runward.daemon.store.transaction import Statement
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect

Kind = TypeVar("Kind", bound=type[Any])
Declared = TypeVar("Declared")

TABLES: Final[tuple[Table, ...]] = (
    events.table(),
    jobs.table(),
    cursors.table(),
    PLACES,
    LINKS,
    starts.launches(),
    PROBLEMS,
    sessions.table(),
    cancellations.table(),
    starts.table(),
    starts.worktrees(),
    triggers.statuses(),
    chain_runs.table(),
    invocations.table(),
    between_hosts.placed(),
    between_hosts.taken(),
    between_hosts.events_told(),
    shows.table(),
    artifacts.table(),
    approvals.table(),
    triggers.firings(),
    triggers.held_table(),
    triggers.schedule_table(),
    notices.table(),
    events.decisions(),
    prunings.table(),
    ROOTS,
    journal_lines.table(),
    files.table(),
    receipts.table(),
    replays.table(),
    receipts.signings(),
    HOOKS,
    triggers.WATCHED_FILES,
    principals.table(),
    shared_artifacts.table(),
    ledger.table(),
    INTENT_FILES,
    actions.table(),
    USAGE,
)


class TwoOwners(ValueError):
    """Two tables declare the same: a bug of ours, which keeps every command from starting."""


def joined(declared: Iterable[Mapping[Kind, Declared]]) -> dict[Kind, Declared]:
    """What all tables declare of effects or of questions. Raises `TwoOwners` if two declare the same one."""
    owners: dict[Kind, Declared] = {}
    for each in declared:
        for kind, value in each.items():
            if kind in owners:
                raise TwoOwners(f"two tables own {kind.__name__}: let one of them do all of it")
            owners[kind] = value
    return owners


WRITES: Final[tuple[Write, ...]] = tuple(write for table in TABLES for write in table.writes)
APPLIERS: Final[Mapping[type[Effect], Applier]] = joined(table.appliers for table in TABLES)
ANSWERS: Final[Mapping[type[Question[Any]], Answerer]] = joined(table.answers for table in TABLES)
FOLDS: Final[Mapping[type[Effect], tuple[Fold, ...]]] = joined(table.folds for table in TABLES)
MOVED_BY_STEPS: Final = tuple(sql for table in TABLES for sql in table.moved_by_steps)
"""The times that a step of the wall clock moves."""

MOVED: Final = tuple(sql for table in TABLES for sql in table.moved)
"""Where files are, when a record is moved."""

GO_WITH_SESSION: Final = tuple(sql for table in reversed(TABLES) for sql in table.goes_with_session)
GO_WITH_EVENT: Final = tuple(sql for table in reversed(TABLES) for sql in table.goes_with_event)
GO_WITH_CHAIN_RUN: Final = tuple(sql for table in reversed(TABLES) for sql in table.goes_with_chain_run)
"""The rows that pruning deletes. Children go before their parents, so the order is reversed."""


def statements(batch: Batch) -> list[Statement]:
    """The transaction: exact guards, parents before their children. `KeyError` for a write to an unknown table."""
    # Table by table, and not in the order of the effects: parents come before their children, and a batch costs one
    # statement for each kind of write.
    statements = [
        Statement(write.sql, rows, write.exact) for write in WRITES if (rows := batch.rows.get(write))
    ]
    if len(statements) < len(batch.rows):
        strays = [write.sql for write in batch.rows if write not in WRITES]
        raise KeyError(f"no place in a transaction is known for: {strays}")
    return statements


def apply(batch: Batch, job: Job, effect: Effect) -> None:
    """Add the rows of an effect."""
    APPLIERS[type(effect)](batch, job, effect)


def apply_result(batch: Batch, result: JobResult) -> None:
    """Add the rows of what a job decided."""
    for effect in result.effects:
        apply(batch, result.job, effect)
