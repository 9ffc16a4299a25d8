"""What lies in the state directory: who may read it, whether the store is sound, what is open in the queue."""

import json
import os
import shlex
import sqlite3
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from runward.config.json_value import JsonValue
from runward.config.problem import counted
from runward.config.root import NATIVE
from runward.daemon.disk.state_rights import openings
from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.host.report import read_report
from runward.daemon.inbox.spool import INBOX, REJECTED, SUFFIX
from runward.daemon.rundir.journal_reading import JournalAway, lines_with_hashes
from runward.daemon.store import reading
from runward.daemon.store.journals import read_standing_lines
from runward.daemon.store.ownership import holder, how_to_start_daemon
from runward.daemon.store.reading import STORE
from runward.daemon.store.schema import Soundness, quick_check, soundness, strange_schema
from runward.daemon.store.session_state import FreshStore, keys_after, packed_among, state_of
from runward.daemon.store.tables import jobs, journal_lines
from runward.daemon.store.tables.problems import problem_count, problems
from runward.daemon.store.tables.sessions import SessionRow, session_rows
from runward.daemon.users import as_root, name_of, others_may_write, run_as
from runward.daemon.views.needs import where_problems_are
from runward.handlers.contracts.snapshots import BrokenSnapshot, snapshot_of, stored_contract
from runward.handlers.foreign_json import read_json
from runward.handlers.journal.folding import Folded, fold_lines
from runward.handlers.journal.lines import EVENTS
from runward.handlers.journal.place import journal_directory

PRIVATE: Final = (
    STORE,
    f"{STORE}-wal",
    f"{STORE}-shm",
    "lock",
    "epoch",
    "status.json",
    "attention",
    "attention.json",
    "checked-chains.json",
    "inbox",
    "log",
    "starts",
)
"""What is in the state directory and is nobody else's to read."""

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def examine_rights(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """The state directory first, then the files that say what the daemon does."""
    state = installation.state
    try:
        status = state.stat()
    except FileNotFoundError:
        yield _to_be_made(state)
    else:
        yield from _of_state(state, status)
    yield from _of_operators_files(installation)


def _to_be_made(state: Path) -> Finding:
    above = next(each for each in state.parents if each.is_dir())
    if os.access(above, os.W_OK | os.X_OK):
        return Finding("ok", f"{state} doesn't exist yet; the first daemon creates it")
    message = f"{state} doesn't exist and can't be created in {above}"
    return Finding("failed", message, "create it for this user, or set another state_dir (RUNWARD_STATE_DIR)")


def _of_state(state: Path, status: os.stat_result) -> Iterator[Finding]:
    if not stat.S_ISDIR(status.st_mode):
        yield Finding("failed", f"{state} is not a directory", "move it away, or set another state_dir")
        return
    owner, me = name_of(status.st_uid), os.geteuid()
    # Root examines the directory as its owner uses it.
    for opening in openings(state, status.st_uid if me == 0 else me):
        yield Finding("failed", opening.message, opening.fix)
    if status.st_uid != me:
        if me != 0:
            return  # the openings say so
        message = f"{state} belongs to {owner}, and this is root: what root may read and start says nothing of {owner}"
        yield Finding("warning", message, f"`{run_as(owner, str(state), 'doctor')}`")
    if not os.access(state, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("failed", f"{state} can't be read and written", f"chmod 700 {state}")
    # Prompts, outputs and the keys of links lie in there.
    open_to_others = [path for path in (state, *(state / name for name in PRIVATE)) if _mode(path) & _OTHERS]
    if open_to_others:
        names = " ".join(map(str, open_to_others))
        yield Finding("warning", f"other users can read {names}", f"chmod go= {names}")
    else:
        yield Finding("ok", f"{state} is {owner}'s alone")


def _of_operators_files(installation: Installation) -> Iterator[Finding]:
    settings = installation.settings
    files = {origin.rpartition(":")[0] for origin in settings.origin.values() if origin.startswith("/")}
    places = sorted({*files, *settings.playbooks, *settings.agents, *settings.chains})
    there = [place for place in places if os.path.exists(place)]
    writable = [place for place in there if others_may_write(Path(place), os.stat(place))]
    if writable:
        names = " ".join(writable)
        message = f"other users can write to {names}, and so decide what the daemon starts and expects"
        is_mine = all(os.stat(place).st_uid == os.geteuid() for place in writable)
        command = f"chmod go-w {names}"
        yield Finding("warning", message, command if is_mine else as_root(command))
    elif there:
        yield Finding("ok", f"only this user can write to {', '.join(there)}")


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0  # not there: nobody's


LARGE_LOG: Final = 256 << 20
"""A log of this many bytes is no longer being moved into the database: at most 64 MiB are kept."""

COMPLAINTS_SHOWN: Final = 3
"""Complaints of SQLite's that are named: the others tell no more."""

_TAMPERED: Final = (
    "find out who changed it; stop the daemon, keep a copy of the file, then `runward restore BACKUP`"
)
_MIB: Final = 1 << 20
_MARGIN_S: Final = 1.0


def examine_store(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Version, size and log, then SQLite's own check of all pages."""
    try:
        if not reading.exists(installation.settings.state_dir):
            yield Finding("skipped", f"no daemon has run in {installation.state} yet: there is no store")
            return
        store = soundness(installation.state)
        yield _version(store)
        if store.version <= store.known and (strange := strange_schema(installation.state, store.version)):
            yield Finding(
                "failed", f"the store's schema is not the one that Runward created: {strange}", _TAMPERED
            )
        yield _pages(store, installation.state)
        yield _checked(installation, patience)
    except reading.StoreUnreadable as error:
        yield Finding("failed", str(error))
    except sqlite3.Error as error:
        fix = "check the disk; stop the daemon, then `runward restore BACKUP`"
        yield Finding("failed", f"{installation.state / reading.STORE} can't be read: {error}", fix)


def _version(store: Soundness) -> Finding:
    message = f"the store has version {store.version}; this program needs {store.known}"
    if store.version > store.known:
        return Finding("failed", f"{message}: a newer Runward wrote it", "install the newer one")
    if store.version < store.known:
        return Finding("warning", message, "start the daemon of this version, which brings it up to date")
    return Finding("ok", message)


def _pages(store: Soundness, state: Path) -> Finding:
    used, free = (store.page_size * count / _MIB for count in (store.pages, store.free_pages))
    log = store.log_bytes / _MIB
    message = (
        f"{used:.1f} MiB ({free:.1f} MiB of it free), journal mode {store.journal_mode}, log {log:.1f} MiB"
    )
    if store.journal_mode != "wal":
        return Finding("warning", message, "restart the daemon: it sets the mode to wal")
    if store.log_bytes > LARGE_LOG:
        who = f"fuser {shlex.quote(str(state / reading.STORE))}"
        fix = f"stop what keeps the store open for long (`{who}`), then restart the daemon"
        return Finding("warning", f"{message}, which isn't moved into the database", fix)
    return Finding("ok", message)


def _checked(installation: Installation, patience: Patience) -> Finding:
    # The quick form, which leaves out the indexes: the whole one takes minutes for a large store.
    complaints = quick_check(installation.state, max(patience.left() - _MARGIN_S, _MARGIN_S))
    if complaints is None:
        return Finding("skipped", "the store is too large to check in this time; no damage was found so far")
    if complaints:
        fix = "stop the daemon, keep a copy of the file, then `runward restore BACKUP`"
        return Finding("failed", f"the store is damaged: {'; '.join(complaints[:COMPLAINTS_SHOWN])}", fix)
    return Finding("ok", "every page of the store is sound (quick_check)")


LONG_S: Final = 300.0
"""Seconds from which on a job waits for long, with a daemon that runs."""

PROBLEMS_SHOWN: Final = 5
"""Problems that are named; more are only counted."""


def examine_queue(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """What the store, the inbox and the running daemon's own report say."""
    is_up = holder(installation.state) is not None
    findings: list[Finding] = []
    try:
        findings += _of_store(installation, is_up)
    except reading.StoreUnreadable as error:
        findings.append(Finding("skipped", str(error)))
    findings += _of_requests(installation, is_up)
    report = read_report(installation.state) if is_up else None
    if report is not None:
        findings += [Finding("warning", f"degraded: {each}", "see `runward log`") for each in report.degraded]
    yield from findings or [Finding("ok", "nothing is held, refused or degraded")]


def _of_store(installation: Installation, is_up: bool) -> Iterator[Finding]:
    with reading.reading(installation.settings.state_dir) as connection:
        held = jobs.held_by_reason(connection)
        figures = jobs.queue_figures(connection, time.time())
        complaints, in_all = problems(connection, limit=PROBLEMS_SHOWN), problem_count(connection)
    for reason, count in held:
        fix = "fix the cause, then `runward queue retry --all`; `runward queue` shows them"
        yield Finding(
            "failed", f"{counted(count, 'job is', 'jobs are')} held: {reason or 'no reason given'}", fix
        )
    oldest = figures.oldest_waiting
    if is_up and oldest is not None and time.time() - oldest > LONG_S:
        message = f"a job has been waiting for {time.time() - oldest:.0f} s; {figures.waiting} wait in all"
        yield Finding("warning", message, "`runward queue` shows them, `runward why` says what they wait for")
    for problem in complaints:
        place = problem.path if problem.line is None else f"{problem.path}:{problem.line}"
        yield Finding("warning", f"{place}: {problem.message}", problem.fix)
    if in_all > PROBLEMS_SHOWN:
        message = f"{counted(in_all - PROBLEMS_SHOWN, 'more file', 'more files')} can't be used"
        yield Finding("warning", message, where_problems_are(in_all))


def _of_requests(installation: Installation, is_up: bool) -> Iterator[Finding]:
    refused = _requests(installation, REJECTED)
    if refused:
        place = installation.state / REJECTED
        fix = f"`runward log` says why (inbox.rejected); then remove what is in {place}"
        yield Finding(
            "warning",
            f"{counted(refused, 'request was refused and is', 'requests were refused and are')} in {place}",
            fix,
        )
    waiting = _requests(installation, INBOX)
    if waiting and not is_up:
        yield Finding(
            "warning",
            f"{counted(waiting, 'request waits', 'requests wait')} for a daemon",
            f"start `{how_to_start_daemon(installation.settings.state_dir)}`",
        )


def _requests(installation: Installation, name: str) -> int:
    try:
        return sum(each.suffix == SUFFIX for each in (installation.state / name).iterdir())
    except FileNotFoundError:
        return 0


AT_ONCE: Final = 100
"""Sessions of one transaction."""

LISTED: Final = 1000
"""Differences that are listed; the others are only counted."""

_TIMES: Final = ("started_at", "finished_at", "ended_at", "at")
_MICROSECOND: Final = 1.5e-6
"""Journals have times to the microsecond."""


class Difference(NamedTuple):
    """A field of a session whose value in the store differs from that in its journal."""

    session: str
    field: str
    live: JsonValue
    folded: JsonValue


class OnTheWay(Protocol):
    """Receives the progress."""

    def session(self) -> None:
        """Another session was compared."""

    def read(self, count: int) -> None:
        """This many bytes were read."""


@dataclass(slots=True)
class Rebuilt:
    """The result. `not_compared` counts fields that lines of earlier versions do not contain.

    `without_journal` counts sessions that could not be compared, by the reason.
    """

    sessions: int = 0
    compared: int = 0
    not_compared: int = 0
    without_journal: dict[str, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    further: int = 0

    @property
    def same(self) -> bool:
        return not self.differences

    def add(self, differing: Iterable[Difference]) -> None:
        for each in differing:
            if len(self.differences) < LISTED:
                self.differences.append(each)
            else:
                self.further += 1

    def as_json(self) -> JsonValue:
        return {
            "same": self.same,
            "sessions": self.sessions,
            "compared": self.compared,
            "not_compared": self.not_compared,
            "without_journal": {**self.without_journal},
            "differences": [dict(each._asdict()) for each in self.differences],
            "further": self.further,
        }


def rebuild(state: str, on_the_way: OnTheWay) -> Rebuilt:
    """Compare every session that is not pruned. Raises `StoreUnreadable`."""
    rebuilt = Rebuilt()
    last: str | None = ""
    with FreshStore() as fresh:
        while last is not None:
            with reading.reading(state) as connection:
                last = _some(
                    connection=connection,
                    state=state,
                    fresh=fresh,
                    last=last,
                    rebuilt=rebuilt,
                    on_the_way=on_the_way,
                )
    return rebuilt


def _some(
    connection: sqlite3.Connection,
    state: str,
    fresh: FreshStore,
    last: str,
    rebuilt: Rebuilt,
    on_the_way: OnTheWay,
) -> str | None:
    """The next sessions after `last`; returns the last one of them, None if there is none."""
    keys = keys_after(connection, last, AT_ONCE)
    packed = packed_among(connection, keys)
    # A few sessions for each transaction: a long one would keep the daemon's log from being moved into the store.
    for row in session_rows(connection, keys):
        rebuilt.sessions += 1
        live = state_of(connection, row.key, packed.get(row.key))
        try:
            outcome = _compare(
                connection=connection, state=state, fresh=fresh, row=row, live=live, on_the_way=on_the_way
            )
        except JournalAway as away:
            why = str(away)
            rebuilt.without_journal[why] = rebuilt.without_journal.get(why, 0) + 1
        else:
            rebuilt.compared += 1
            rebuilt.not_compared += outcome.not_compared
            rebuilt.add(outcome.differences)
        on_the_way.session()
    return keys[-1] if keys else None


class _Outcome(NamedTuple):
    differences: Sequence[Difference]
    not_compared: int


def _compare(
    connection: sqlite3.Connection,
    state: str,
    fresh: FreshStore,
    row: SessionRow,
    live: Mapping[str, JsonValue],
    on_the_way: OnTheWay,
) -> _Outcome:
    """Compare what the store says about a session with what its journal says. Raises `JournalAway`."""
    standing = [
        each.content
        for (_, name), lines in read_standing_lines(connection, row.key).items()
        if name == EVENTS
        for each in lines
    ]
    owed = _objects_in(journal_lines.owed_of_session(connection, row.key, EVENTS))
    written = [*_objects_in(standing), *owed]
    hashes = {digest for value in written if isinstance(digest := value.get("hash"), str)}
    if not hashes:
        raise JournalAway("it has no journal" if row.origin == "live" else "history has no journal")
    due = fold_lines(row.key, written)
    if not due.effects:
        raise JournalAway("its journal does not begin with its start")
    stand = _on_disk(state, row, hashes, on_the_way)
    folded = fold_lines(row.key, chain(stand, owed))
    return _compared(fresh, row.key, live, due, folded)


def _objects_in(contents: Iterable[bytes]) -> list[dict[str, JsonValue]]:
    """The lines of these contents, which Runward wrote."""
    read = (read_json(line) for content in contents for line in content.splitlines())
    return [value for value in read if isinstance(value, dict)]


def _on_disk(state: str, row: SessionRow, hashes: set[str], on_the_way: OnTheWay) -> Iterator[JsonValue]:
    directory = os.path.join(state, journal_directory(row.layout, row.key, row.path))
    if row.layout != NATIVE and not os.path.lexists(directory):
        return  # it was in our own state: nobody but Runward may remove it
    yield from lines_with_hashes(directory, EVENTS, hashes, on_the_way.read)


def _compared(
    fresh: FreshStore, key: str, live: Mapping[str, JsonValue], due: Folded, folded: Folded
) -> _Outcome:
    """`due` is what the journal says as it was written: fields that it does not contain are not compared."""
    recorded = fresh.state(key, due.effects)
    try:
        rebuilt = fresh.state(key, folded.effects)
    except sqlite3.Error as error:
        return _Outcome([Difference(key, "journal", None, f"no state can be built from it: {error}")], 0)
    due_fields = {name: value for name, value in live.items() if name in recorded and name not in due.lacking}
    known = {name: value for name, value in rebuilt.items() if name not in folded.lacking}
    return _Outcome(differences(key, due_fields, known, live), len(live) - len(due_fields))


def differences(
    key: str,
    due: Mapping[str, JsonValue],
    folded: Mapping[str, JsonValue],
    live: Mapping[str, JsonValue] | None = None,
) -> list[Difference]:
    """The fields of `due` that differ in `folded`, and those of `folded` that are not in `live` at all."""
    differing = [
        Difference(key, name, value, folded.get(name))
        for name, value in due.items()
        if not _is_same(name, value, folded.get(name))
    ]
    known = due if live is None else live
    return differing + [
        Difference(key, name, None, value) for name, value in folded.items() if name not in known
    ]


def _is_same(name: str, live: JsonValue, folded: JsonValue) -> bool:
    what = name.rpartition("/")[2]
    if what in _TIMES and isinstance(live, float) and isinstance(folded, float):
        return abs(live - folded) < _MICROSECOND
    if what == "artifact_contract_json":
        return _contract(live) == _contract(folded)
    return live == folded


def _contract(value: JsonValue) -> JsonValue:
    """A contract as Runward writes it: a launcher may have written the same one in other words."""
    if value is None:
        return None
    try:
        return snapshot_of(stored_contract(json.dumps(value))).text
    except BrokenSnapshot as broken:
        return str(broken)
