"""Backups: a consistent copy of the store in one file, taken while a daemon keeps writing; and restoring one.

A backup replaces the store, and what happened since the backup is found again: the run directories still have everything
that the restored store lacks, so runs are judged again. Their journals already contain the resulting lines: see
`daemon/rundir/journals.py`. One thing can't always be found out: whether a run has begun that the backup still had to
start. If that is unknown, it is not started, and a person is notified.
"""

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from runward.daemon.disk.copying import Tell, copied, tell_nobody
from runward.daemon.disk.durable import sync_directory
from runward.daemon.disk.epoch import read_epoch, write_epoch
from runward.daemon.launch.ticket import has_ticket
from runward.daemon.store import journals
from runward.daemon.store.batch import Batch
from runward.daemon.store.hash_chain import BrokenChain, ChainedEvent, Head, follow
from runward.daemon.store.moving import NO_MOVES, Known, Moves, move_rows, why_not_here
from runward.daemon.store.reading import STORE, StoreRefused, open_to_read, refuse_old, uri_of
from runward.daemon.store.schema import difference, migrate, migrations
from runward.daemon.store.tables.all import MOVED, statements
from runward.daemon.store.tables.approvals import ApprovalRow, open_approvals
from runward.daemon.store.tables.events import add_event
from runward.daemon.store.tables.receipts import LOOKED_FOR
from runward.daemon.store.transaction import stored_text
from runward.daemon.users import name_of
from runward.daemon.watch.moved_files import with_files_of_now
from runward.handlers.model.requests import RecordMoved
from runward.handlers.model.schedules import LOST

_EVENTS: Final = (
    "select seq, hash, key, type, version, recorded_at, cause, depth, payload from events order by seq"
)

_LAST_AT: Final = "select recorded_at from (select max(seq), recorded_at from events)"


class Damaged(Exception):
    """A file that is not a sound store; the message says what is wrong with it."""


class Examined(NamedTuple):
    """A sound store: its schema's version, its daemon's epoch, the end of its chain, and how much is in it.

    `last_at` is when its last event was recorded (Unix seconds; None if there is none), `size` its bytes.
    """

    version: int
    epoch: int
    head: Head
    last_at: float | None
    sessions: int
    size: int


def examine(path: Path) -> Examined:
    """Read all of the store at `path`, which must have no writer. Writes nothing, not even next to it.

    Raises `Damaged`, `StoreRefused` and `OSError`.
    """
    size = path.stat().st_size
    if _has_log(path):
        raise Damaged(f"{path} was not copied by `runward backup`: it lacks what is in {path.name}-wal")
    try:
        with unchanging(path) as connection:
            _check_schema(connection, path)
            return examined(connection, path, size)
    except sqlite3.Error as error:
        raise Damaged(f"{path} is not a readable store: {error}") from error


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raises `Damaged` if a store of a known version has foreign triggers, views or tables."""
    (version,) = connection.execute("pragma user_version").fetchone()
    known = migrations()
    if known[0].number <= version <= known[-1].number:
        different = difference(connection, version)
        if different is not None:
            raise Damaged(f"{path} has a schema that Runward did not create: {different}")


def _has_log(path: Path) -> bool:
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


@contextmanager
def unchanging(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a store that has no writer. It writes nothing, not even next to the store.

    Raises `sqlite3.Error`.
    """
    connection = sqlite3.connect(f"{uri_of(str(path))}?mode=ro&immutable=1", uri=True, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def examined(connection: sqlite3.Connection, path: Path, size: int) -> Examined:
    """The state of the store of `connection`, which is at `path` and has `size` bytes. Raises as `examine` does."""
    (version,) = connection.execute("pragma user_version").fetchone()
    known = migrations()[-1].number
    if version > known:
        raise StoreRefused(
            f"{path} has version {version}, but this Runward knows only {known}: install a newer one"
        )
    if not version:
        raise Damaged(f"{path} is not a Runward store")
    refuse_old(str(path), version)
    (soundness,) = connection.execute("pragma integrity_check(1)").fetchone()
    if soundness != "ok":
        raise Damaged(f"{path} is damaged: {soundness}")
    astray = connection.execute("pragma foreign_key_check").fetchone()
    if astray is not None:
        raise Damaged(
            f"{path} is damaged: a row of {astray[0]} refers to one of {astray[2]} that does not exist"
        )
    pruned = _pruned(connection)
    end = follow((ChainedEvent(*row) for row in connection.execute(_EVENTS)), pruned=pruned)
    if isinstance(end, BrokenChain):
        raise Damaged(f"{path}: the chain of events breaks at {end.seq} ({end.key}): {end.why}")
    end = pruned.get(end.seq + 1, end)  # the last events may have been removed
    (epoch,) = connection.execute("select epoch from daemon").fetchone()
    (sessions,) = connection.execute("select count(*) from sessions").fetchone()
    (last_at,) = connection.execute(_LAST_AT).fetchone()
    return Examined(version=version, epoch=epoch, head=end, last_at=last_at, sessions=sessions, size=size)


def _pruned(connection: sqlite3.Connection) -> dict[int, Head]:
    """The ends of the stretches of events that were removed, by the numbers of their first ones."""
    rows = connection.execute("select first, last, hash from absent_events")
    return {first: Head(last, digest) for first, last, digest in rows}


class BackupExists(Exception):
    """Something already has the backup's name."""


def back_up(store: Path, target: Path, *, replace: bool = False, tell: Tell = tell_nobody) -> Examined:
    """Make a sound copy of `store` at `target`, for this user only; returns what is in it.

    The copy appears whole or not at all: it is written under a temporary name next to it, examined, synced, renamed.
    Raises `BackupExists` (only without `replace`), `Damaged` if the copy isn't sound, `StoreUnreadable`,
    `sqlite3.Error` and `OSError`.
    """
    if not replace and os.path.lexists(target):
        raise BackupExists(str(target))
    with closing(open_to_read(str(store))) as source, copied(source, target, tell) as copy:
        copied_store = examine(copy)
        if replace:
            os.rename(copy, target)
        else:
            _rename_anew(copy, target)
    sync_directory(target.parent)
    return copied_store


def _rename_anew(copy: Path, target: Path) -> None:
    """Rename to an unused name, even if somebody creates it meanwhile. Raises `BackupExists`."""
    try:
        os.link(copy, target)
    except FileExistsError:
        raise BackupExists(str(target)) from None
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise BackupExists(str(target)) from None
        os.rename(copy, target)


MAYBE_BEGUN: Final = (
    "the store was restored from a backup in which it was still to start, so it is not known whether it began:"
    " it is not started again; request it again if you need it"
)

_STATE_SINCE: Final = 32
"""The version of the schema that records the state directory."""

_WITH_SESSIONS: Final = "select name, path from roots where name in (select root from sessions union select root from cursors) order by name"

_TEMPORARY: Final = f".{STORE}.restoring"
_SIDES: Final = ("-wal", "-shm")
_LAST_ABSENT: Final = "select max(last) from absent_events"
_UNDECIDED: Final = (
    "select j.id, e.key, j.handler, j.lane from jobs j join events e on e.seq = j.event"
    " where (j.handler = 'requests/play' or j.handler like 'chains/%' or j.handler like 'approvals/%' or (j.handler like 'timers/%' and j.lane not like 'timer:schedule:%')) and j.state in ('waiting', 'running', 'held')"
)
"""One that was held may have been retried since, and would be again."""

_PLACED_ONCE: Final = "receipts_are_placed_once"
"""The trigger that applies to daemons: only a restore has parts placed again."""

_NOT_PLACED: Final = (
    "update receipts set placed_at = null, place_problem = coalesce(place_problem, ?)"
    " where placed_at is not null and receipt_hash is not null and not exists (select 1 from tombstones t"
    "  where t.session_key = receipts.session_key and t.attempt >= receipts.attempt)"
)


class MadeElsewhere(Exception):
    """The backup knows its runs by paths that are not this place's; the message names them, and what to do."""


class Current(NamedTuple):
    """The current store; without numbers if it can't be read. `newer` are events after the backup's."""

    path: Path
    epoch: int | None
    sessions: int | None
    newer: int | None


class HeldAtRestore(NamedTuple):
    """A job that was open in the backup and may have been done since: a person decides about it."""

    id: int
    handler: str
    lane: str


class Plan(NamedTuple):
    """What a restore of `backup` would do, worked out without doing it.

    `epoch` is the new one. `kept` is where the current store will be (None: there is none). `starts` are the
    run names, and `jobs` the jobs, of what the backup still had to start and may have begun since. `approvals` are
    those that wait for a person in the backup. `moves` say where what the backup knows is now.
    """

    backup: Path
    examined: Examined
    current: Current | None
    kept: Path | None
    epoch: int
    starts: tuple[str, ...] = ()
    jobs: tuple[HeldAtRestore, ...] = ()
    approvals: tuple[ApprovalRow, ...] = ()
    moves: Moves = NO_MOVES


def plan_restore(state: Path, backup: Path, examined: Examined, now: float, moves: Moves = NO_MOVES) -> Plan:
    """The plan for restoring `backup`, in which `examined` is, into `state`; the caller holds the state directory's lock.

    Raises `OSError`.
    """
    store = state / STORE
    current = _current(store, examined) if os.path.lexists(store) else None
    kept = None if current is None else _name_for(state, now)
    with unchanging(backup) as connection:
        return plan_of(connection, state, Plan(backup, examined, current, kept, 0, moves=moves))


def plan_of(connection: sqlite3.Connection, state: Path, plan: Plan) -> Plan:
    """`plan` with what follows from the backup's content, which `connection` reads, and from the content of `state`."""
    # Higher than any daemon had before: one that still runs, frozen, must not be able to write any more.
    epochs = [plan.examined.epoch, _epoch_beside(state), (plan.current and plan.current.epoch) or 0]
    starts, jobs = _maybe_begun(connection, state, plan.examined, plan.moves)
    approvals = open_approvals(connection)
    return plan._replace(epoch=max(epochs) + 1, starts=starts, jobs=jobs, approvals=tuple(approvals))


def examine_for(state: Path, backup: Path, moves: Moves = NO_MOVES, *, is_as_is: bool = False) -> Examined:
    """What is in `backup`, if it can be restored into `state`. Changes nothing, and needs no lock.

    The state directory must be that of the backup, or where that was moved to. The roots with sessions must exist, unless
    `is_as_is`. Raises `Damaged`, `StoreRefused`, `MadeElsewhere` and `OSError`.
    """
    examined_store = examine(backup)
    with unchanging(backup) as connection:
        former = _state_of(connection) if examined_store.version >= _STATE_SINCE else None
        roots = connection.execute(_WITH_SESSIONS).fetchall()
    record = Known(former, () if is_as_is else tuple(roots))
    why = why_not_here(record, str(state), moves, str(backup))
    if why is not None:
        raise MadeElsewhere(why)
    return examined_store


def _state_of(connection: sqlite3.Connection) -> str | None:
    """The state directory of the daemon that wrote the store last; None if an older program did."""
    (state,) = connection.execute("select state_dir from daemon").fetchone()
    return None if state is None else str(state)


def restore(state: Path, plan: Plan, now: float) -> None:
    """Carry `plan` out; the caller has held the lock since it was made.

    Until the very last rename the current store counts. Raises `OSError` and `sqlite3.Error`.
    """
    write_epoch(state, plan.epoch)  # from here on no launcher of an earlier daemon begins anything
    made = state / _TEMPORARY
    _remove(made)
    try:
        shutil.copyfile(plan.backup, made)
        migrate(made, keep=False)
        with closing(sqlite3.connect(made, isolation_level=None)) as connection:
            make_ready(connection, state, plan, now)
            connection.execute("pragma journal_mode = delete")  # makes it a single file that can be renamed
        _sync(made)
        if plan.kept is not None and plan.current is not None:
            _keep(plan.current, plan.kept)
        _put_in_place(made, state / STORE, plan.kept)
    except BaseException:
        _remove(made)
        raise
    sync_directory(state)


def _put_in_place(made: Path, store: Path, kept: Path | None) -> None:
    try:
        os.rename(made, store)
    except BaseException:
        if kept is not None:
            _move_sides(kept, store)
            kept.unlink()
        raise


def make_ready(connection: sqlite3.Connection, state: Path, plan: Plan, now: float) -> None:
    """Adapt the copy before any daemon works with it."""
    connection.execute("begin immediate")
    if plan.moves.pairs:
        _move(connection, plan, now)
    # Not an orderly stop: the journals of what was in progress are compared.
    connection.execute("update daemon set epoch = ?, stopped_cleanly = 0", (plan.epoch,))
    connection.execute(
        "insert into restores (at, head_seq, head_hash, epoch) values (?, ?, ?, ?)",
        (now, *plan.examined.head, plan.epoch),
    )
    connection.executemany(
        "update starts set why = ? where name = ? and state = 'owed'",
        [(MAYBE_BEGUN, name) for name in plan.starts],
    )
    connection.executemany(
        "update jobs set state = 'held', token = null, error = ?, updated_at = ? where id = ?",
        [(MAYBE_BEGUN, now, job.id) for job in plan.jobs],
    )
    # Times that passed since the backup may have been acted on: schedules now wait for the next one.
    connection.execute("update schedules set timer = ? where words is not null", (LOST,))
    # Held events may have fired their chain since, and file changes may have been reported: both start afresh.
    for table in ("held_events", "watched_files", "watched_globs"):
        connection.execute(f"delete from {table}")  # noqa: S608 # our own words
    have_parts_looked_for(connection)
    journals.have_compared(connection, state)
    journals.write_packed(connection, state)
    connection.execute("commit")


def _move(connection: sqlite3.Connection, plan: Plan, now: float) -> None:
    """Move the record, which is an event of it. Raises `ValueError`."""
    move_rows(connection, plan.moves, MOVED)
    _go_on_reading(connection)
    moved = RecordMoved(now, plan.epoch, plan.moves.pairs, name_of(os.geteuid()))
    batch = Batch(plan.examined.head, plan.epoch, now, now)
    add_event(batch, moved)
    for statement in statements(batch):
        connection.executemany(statement.sql, statement.rows)


_FOLLOWED: Final = (
    "select c.key, r.path, cast(c.state as blob) from cursors c join roots r on r.name = c.root"
    " where c.session_key not glob 'native:*'"
)


def _go_on_reading(connection: sqlite3.Connection) -> None:
    """Have what was read of transcripts count for the files that are there now."""
    rows = [
        (state, key)
        for key, root, stored in connection.execute(_FOLLOWED)
        if (state := with_files_of_now(root, stored_text(stored))) is not None
    ]
    connection.executemany("update cursors set state = ? where key = ?", rows)


def have_parts_looked_for(connection: sqlite3.Connection) -> None:
    """Have the next daemon look for the parts of all bundles, except those of pruned attempts, which may be gone."""
    (trigger,) = connection.execute(
        "select sql from sqlite_schema where name = ?", (_PLACED_ONCE,)
    ).fetchone()
    connection.execute(f"drop trigger {_PLACED_ONCE}")
    connection.execute(_NOT_PLACED, (LOOKED_FOR,))
    connection.execute(trigger)


def _maybe_begun(
    connection: sqlite3.Connection, state: Path, examined: Examined, moves: Moves
) -> tuple[tuple[str, ...], tuple[HeldAtRestore, ...]]:
    """Runs that the backup still had to start, and that may have begun since without leaving a trace for a launcher.

    While the daemon of the backup was running, each launcher left its ticket. A later daemon deletes tickets.
    """
    ran_on = _epoch_beside(state) == examined.epoch
    jobs = connection.execute(_UNDECIDED).fetchall()
    # The next daemon deletes the tickets of these, because no lines are due to them yet.
    held = tuple(
        HeldAtRestore(job, handler, lane)
        for job, key, handler, lane in jobs
        if not ran_on or handler != "requests/play" or has_ticket(state, key)
    )
    if ran_on:
        return (), held
    owed = connection.execute("select key, name, directory from starts where state = 'owed'").fetchall()
    failed = tuple(
        name
        for key, name, directory in owed
        if not has_ticket(state, key) and not os.path.lexists(os.path.join(moves.path(directory), "run.json"))
    )
    return failed, held


def _current(store: Path, backup: Examined) -> Current:
    try:
        with closing(sqlite3.connect(f"{uri_of(str(store))}?mode=ro", uri=True)) as connection:
            (epoch,) = connection.execute("select epoch from daemon").fetchone()
            (sessions,) = connection.execute("select count(*) from sessions").fetchone()
            last = max(_last(connection, "select max(seq) from events"), _last(connection, _LAST_ABSENT))
    except sqlite3.Error:
        return Current(store, None, None, None)  # that may be the reason for the restore
    return Current(store, epoch, sessions, max(0, last - backup.head.seq))


def _last(connection: sqlite3.Connection, question: str) -> int:
    try:
        return connection.execute(question).fetchone()[0] or 0
    except sqlite3.OperationalError:
        return 0  # a store from before events could be removed


def _epoch_beside(state: Path) -> int:
    """The epoch that writers of journals read; 0 if there is none that can be read."""
    try:
        return read_epoch(state)
    except (FileNotFoundError, ValueError):
        return 0


def _name_for(state: Path, now: float) -> Path:
    """An unused name: `runward.before-restore-<UTC>.db`."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    numbered = (f"-{number}" if number > 1 else "" for number in count(1))
    paths = (state / f"runward.before-restore-{moment}{number}.db" for number in numbered)
    return next(path for path in paths if not os.path.lexists(path))


def _keep(current: Current, kept: Path) -> None:
    """Keep the current store, whole, under the name `kept`; it also stays under its own name.

    Its log must not be next to the restored store, which would read it as its own.
    """
    store = current.path
    if (
        current.epoch is not None
    ):  # otherwise all its files are kept as they are, because opening it might change them
        with closing(sqlite3.connect(store, isolation_level=None)) as connection:
            connection.execute("pragma journal_mode = delete")  # the content of the log moves into the file
    _move_sides(store, kept)
    try:
        os.link(store, kept, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copyfile(store, kept, follow_symlinks=False)
    kept.chmod(0o600)
    _sync(kept)


def _move_sides(store: Path, to: Path) -> None:
    for end in _SIDES:
        if os.path.lexists(f"{store}{end}"):
            os.rename(f"{store}{end}", f"{to}{end}")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(made: Path) -> None:
    for end in ("", *_SIDES, "-journal"):
        Path(f"{made}{end}").unlink(missing_ok=True)
