"""The store as commands read it: read-only, in one short transaction, whether the daemon is up or down.

Plain sqlite3 and named tuples: `runward status` has no time for more. The writer is `store.py`. Each condition on a
job's state names the state of a partial index, because there are many done jobs.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from runward.config.settings_keys import DEFAULT_LAYOUT
from runward.daemon.processes.here import here
from runward.daemon.store import packed_document
from runward.daemon.users import name_of
from runward.handlers.layouts.process_host import bare_host

STORE: Final = "runward.db"
_LAST_CHARACTER: Final = "\U0010ffff"
"""Behind every other character: what begins with a text is between it and it with this."""

_ACTIVITY: Final = (
    "case when s.status <> 'running' then null when s.layout <> :native then c.activity"
    " when coalesce(json_extract(c.state, '$[8]'), json_extract(c.state, '$[9]')) is not null"
    " and coalesce(json_extract(c.state, '$[10]'), :here) in (:here, :host)"
    " then 'active' end"
)
"""What a session does. A native run works as long as its process does: where its launcher or its process is known (the
fields 8 and 9 of what is remembered of its directory), here (10, as `is_here` says)."""

_ABOUT: Final = "case when s.layout <> :native then json_extract(c.state, '$[10]') end"
"""What is shown of a foreign session: the field 10 of what is remembered of it."""

_MIGRATIONS: Final = os.path.join(os.path.dirname(__file__), "migrations")


class StoreUnreadable(Exception):
    """There is a store, but this program can't read it; the message says why and what to do."""


class StoreTooNew(StoreUnreadable):
    """The store was written by a newer Runward; this one must not touch it."""


class SessionRow(NamedTuple):
    """A session as stored. Times are Unix seconds; `*_json`, `evidence_refs` and `linked` are JSON texts.

    `activity` is what a running session does, None if it is not known whether it still runs. `linked` are the keys of
    the sessions that were started inside it, and of the launcher's that it was started in. `about` is a JSON list:
    directory, first prompt, model, tokens in and out, each of which may be null. `not_judged_yet` comes from the run's
    own files. `cwd` is present if it was requested.
    """

    key: str
    session_id: str
    layout: str
    root: str
    path: str
    kind: str
    status: str
    attempt: int
    origin: str
    started_at: float
    finished_at: float | None
    ended_by: str | None
    reason_code: str
    reason_summary: str
    evidence_refs: str
    playbook: str | None
    agent: str | None
    invocation_id: str | None
    containment: str | None
    artifacts_path: str
    artifact_contract_json: str | None
    contract_basis: str | None
    contract_problem: str | None
    artifact_verification_json: str | None
    delivery: str | None
    folded: bool
    activity: str | None
    linked: str
    about: str | None = None
    not_judged_yet: bool = False
    cwd: str | None = None


class StatusChange(NamedTuple):
    """A row of a session's status history."""

    attempt: int
    at: float
    replaced: str | None
    status: str
    reason_code: str
    reason_summary: str
    evidence_refs: str
    source: str


class ProblemRow(NamedTuple):
    """What is wrong with a file that somebody wrote."""

    path: str
    line: int | None
    message: str
    fix: str | None
    since: float


class Directory(NamedTuple):
    """A run directory that was looked at; `phase` is `none` if nothing in it began a session."""

    root: str
    directory: str
    session_key: str
    phase: str
    path: str


class QueueFigures(NamedTuple):
    """How many jobs wait, run and are held; `oldest_waiting` is when the oldest's event was recorded."""

    waiting: int
    running: int
    held: int
    oldest_waiting: float | None


class NextDue(NamedTuple):
    """The job that is due next, and when (Unix seconds)."""

    at: float
    handler: str
    lane: str


class RunningRow(NamedTuple):
    """A running session: who it is, since when (Unix seconds), and what it does, if known."""

    session_id: str
    layout: str
    playbook: str | None
    agent: str | None
    started_at: float
    activity: str | None


@contextmanager
def reading(state: str) -> Iterator[sqlite3.Connection]:
    """The store of the state directory `state`, as it is at this moment.

    If no daemon has run yet, an empty store. Raises `StoreUnreadable`.
    """
    path = os.path.join(state, STORE)
    connection = _connect(path) if exists(state) else _empty()
    try:
        connection.execute("begin")
        yield connection
    except sqlite3.OperationalError as error:
        raise StoreUnreadable(f"{path} can't be read: {error}; try again, or see `runward log`") from error
    except sqlite3.DatabaseError as error:
        raise StoreUnreadable(_no_store(path, error)) from error
    finally:
        connection.close()


def exists(state: str) -> bool:
    """Whether a daemon ever made a store here. Raises `StoreUnreadable` if this user may not know."""
    path = os.path.join(state, STORE)
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreUnreadable(f"{path} can't be read: {error.strerror}; {_fix(path)}") from error
    return True


def _fix(path: str) -> str:
    """How to fix a store that this user can't read: it names the owner, if that can be told."""
    for place in (path, os.path.dirname(path)):
        try:
            owner = os.stat(place).st_uid
        except OSError:
            continue
        if owner != os.geteuid():
            return f"it is {name_of(owner)}'s: ask as that user, or set another RUNWARD_STATE_DIR"
        break
    return "check its permissions"


def _no_store(path: str, error: sqlite3.DatabaseError) -> str:
    return f"{path} is not a store of Runward's: {error}; put a backup in its place with `runward restore BACKUP`"


def _connect(path: str) -> sqlite3.Connection:
    connection, version = _open(path)
    known = _newest_migration()
    if version == known:
        return connection
    connection.close()
    said = f"{path} has version {version}, this Runward reads {known}"
    if version > known:
        raise StoreTooNew(f"{said}: it was written by a newer Runward: install that one")
    raise StoreUnreadable(f"{said}: start the daemon of this version once, which brings it up to date")


def open_to_read(path: str) -> sqlite3.Connection:
    """A read-only connection to the store at `path`, which may be older. Raises `StoreUnreadable`, `StoreTooNew`."""
    connection, version = _open(path)
    if version <= _newest_migration():
        return connection
    connection.close()
    raise StoreTooNew(f"{path} was written by a newer Runward (version {version}): install that one")


def _open(path: str) -> tuple[sqlite3.Connection, int]:
    """A read-only connection, and the version of the schema there."""
    try:
        connection = sqlite3.connect(f"{uri_of(path)}?mode=ro", uri=True, isolation_level=None, timeout=5)
        version: int = connection.execute("pragma user_version").fetchone()[0]
    except sqlite3.OperationalError as error:
        raise StoreUnreadable(f"{path} can't be read: {error}; {_fix(path)}") from error
    except sqlite3.DatabaseError as error:
        raise StoreUnreadable(_no_store(path, error)) from error
    return connection, version


def uri_of(path: str) -> str:
    """A path in SQLite's URI format, to be followed by `?` and how it is opened."""
    return "file:" + path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _empty() -> sqlite3.Connection:
    """A store in which nothing has happened."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for name in sorted(os.listdir(_MIGRATIONS)):
        with open(os.path.join(_MIGRATIONS, name), encoding="utf-8") as file:
            connection.executescript(file.read())
    return connection


def _newest_migration() -> int:
    return max(int(name[:4]) for name in os.listdir(_MIGRATIONS) if name.endswith(".sql"))


class Wanted(NamedTuple):
    """Which sessions are wanted. Each filter that has values must match one of them.

    `since` is a time in Unix seconds. `text` is looked for, in any case, in ids, names, the path and the reason. `cwd`
    is a directory: sessions that worked in it or below it match.
    """

    statuses: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    playbooks: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    since: float | None = None
    text: str | None = None
    cwd: str | None = None

    def has(self, row: SessionRow) -> bool:
        """Whether this session matches."""
        chosen = (
            (self.statuses, row.status),
            (self.layouts, row.layout),
            (self.roots, row.root),
            (self.playbooks, row.playbook),
            (self.agents, row.agent),
        )
        said = (row.session_id, row.playbook or "", row.agent or "", row.path, row.reason_summary)
        return (
            all(not values or value in values for values, value in chosen)
            and (self.since is None or row.started_at >= self.since)
            and (self.text is None or any(self.text.lower() in each.lower() for each in said))
            and (self.cwd is None or f"{row.cwd or ''}/".startswith(f"{self.cwd.rstrip('/')}/"))
        )


EVERY: Final = Wanted()


def sessions(
    connection: sqlite3.Connection, wanted: Wanted = EVERY, limit: int | None = None
) -> list[SessionRow]:
    """The sessions that are wanted, newest first."""
    keys = connection.execute(
        "select key from sessions where (:statuses = '[]' or status in (select value from json_each(:statuses)))"
        " and (:layouts = '[]' or layout in (select value from json_each(:layouts)))"
        " and (:roots = '[]' or root in (select value from json_each(:roots)))"
        " and (:playbooks = '[]' or playbook in (select value from json_each(:playbooks)))"
        " and (:agents = '[]' or agent in (select value from json_each(:agents)))"
        " and (:since is null or started_at >= :since)"
        " and (:text is null or instr(lower(session_id || char(10) || coalesce(playbook, '') || char(10)"
        "  || coalesce(agent, '') || char(10) || path || char(10) || reason_summary), lower(:text)))"
        " order by started_at desc, key limit :limit",
        {
            **{name: json.dumps(getattr(wanted, name)) for name in _CHOSEN},
            "since": wanted.since,
            "text": wanted.text,
            "limit": -1 if limit is None or wanted.cwd is not None else limit,
        },
    )
    chosen = [key for (key,) in keys]
    if wanted.cwd is None:
        return _rows(connection, chosen)
    found: list[SessionRow] = []
    for start in range(0, len(chosen), _AT_ONCE):
        cwds = working_directories(connection, chosen[start : start + _AT_ONCE])
        rows = _rows(connection, list(cwds))
        found += [row for row in (row._replace(cwd=cwds[row.key]) for row in rows) if wanted.has(row)]
        if limit is not None and len(found) >= limit:
            return found[:limit]
    return found


_CHOSEN: Final = ("statuses", "layouts", "roots", "playbooks", "agents")
_AT_ONCE: Final = 500
"""Sessions whose directories are looked up at once: packed ones have to be unpacked for it."""


def working_directories(connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, str]:
    """The directories that these sessions began in, as far as they are known."""
    rows = connection.execute(
        "select k.value, json_extract(e.payload, '$.declaration.cwd') from json_each(?) k"
        " cross join main.events e on e.key = k.value || '#1/started'",
        (json.dumps(keys),),
    )
    found: dict[str, str] = {key: cwd for key, cwd in rows if cwd is not None}
    packed = connection.execute(
        "select session_key, document from main.packed where session_key in (select value from json_each(?))",
        (json.dumps(keys),),
    )
    for key, content in packed:
        cwd = _declared_cwd(key, packed_document.unpack(content))
        if cwd is not None:
            found[key] = cwd
    return found


def _declared_cwd(key: str, document: packed_document.Document) -> str | None:
    columns = packed_document.COLUMNS["events"]
    names, payloads = columns.index("key"), columns.index("payload")
    for row in document.rows["events"]:
        if row[names] == f"{key}#1/started":
            declaration = json.loads(str(row[payloads])).get("declaration")
            cwd = declaration.get("cwd") if isinstance(declaration, dict) else None
            return cwd if isinstance(cwd, str) else None
    return None


def session(connection: sqlite3.Connection, key: str) -> SessionRow | None:
    """The session with this key."""
    return next(iter(_rows(connection, [key])), None)


def sessions_with_keys(connection: sqlite3.Connection, keys: Sequence[str]) -> list[SessionRow]:
    """The sessions with these keys, newest first."""
    return _rows(connection, keys)


def _rows(connection: sqlite3.Connection, keys: Sequence[str]) -> list[SessionRow]:
    packed = packed_document.show(connection, keys)
    rows = connection.execute(
        "select s.key, session_id, layout, s.root, path, kind, status, attempt, origin, started_at,"  # noqa: S608 - a constant of ours
        " finished_at, ended_by, reason_code, reason_summary, evidence_refs, playbook, agent, invocation_id, containment,"
        " artifacts_path, artifact_contract_json, contract_basis, contract_problem,"
        f" artifact_verification_json, delivery, folded, {_ACTIVITY},"
        " (select json_group_array(other) from (select linked as other from links where launcher = s.key"
        "  union all select launcher from links where linked = s.key)),"
        f" {_ABOUT}"
        " from sessions s left join cursors c"
        " on c.key = case s.layout when :native then substr(s.key, length(:native) + 2) else s.key end"
        " where s.key in (select value from json_each(:keys)) order by started_at desc, s.key",
        {"keys": json.dumps(keys), **_here()},
    )
    found = [SessionRow(*row) for row in rows]
    return [_whole(row, packed[row.key]) if row.key in packed else row for row in found]


def _here() -> dict[str, str]:
    place = here()
    return {"native": DEFAULT_LAYOUT, "here": place, "host": bare_host(place)}


def _whole(row: SessionRow, document: packed_document.Document) -> SessionRow:
    return row._replace(
        evidence_refs=document.evidence_refs, artifact_verification_json=document.verification
    )


def sessions_called(connection: sqlite3.Connection, text: str, limit: int) -> list[tuple[str, str]]:
    """Keys and ids of the sessions whose id or key is `text`; if there are none, begins with it."""
    exact = connection.execute(
        "select key, session_id from sessions where key = ?1 or session_id = ?1 order by key limit ?2",
        (text, limit),
    ).fetchall()
    if exact:
        return exact
    return connection.execute(
        "select key, session_id from sessions"
        " where (key >= ?1 and key < ?3) or (session_id >= ?1 and session_id < ?3)"
        " order by started_at desc, key limit ?2",
        (text, limit, text + _LAST_CHARACTER),
    ).fetchall()


def sessions_beginning(connection: sqlite3.Connection, text: str, limit: int) -> list[tuple[str, str, str]]:
    """Key, id and status of the newest sessions whose id, or whose key, begins with `text`."""
    return connection.execute(
        "select key, session_id, status from sessions"
        " where (session_id >= ?1 and session_id < ?3) or (?1 <> '' and key >= ?1 and key < ?3)"
        " order by started_at desc, key limit ?2",
        (text, limit, text + _LAST_CHARACTER),
    ).fetchall()


def newest_session(connection: sqlite3.Connection) -> SessionRow | None:
    """The session that started last."""
    row = connection.execute("select key from sessions order by started_at desc, key limit 1").fetchone()
    return None if row is None else session(connection, row[0])


def newest_sessions(connection: sqlite3.Connection, limit: int) -> list[tuple[str, str]]:
    """Keys and ids of the sessions that started last."""
    return connection.execute(
        "select key, session_id from sessions order by started_at desc, key limit ?", (limit,)
    ).fetchall()


def status_history(connection: sqlite3.Connection, key: str) -> list[StatusChange]:
    """How a session's status changed, first change first."""
    rows = connection.execute(
        "select attempt, at, replaced, status, reason_code, reason_summary, evidence_refs, source"
        " from status_history where session_key = ? order by id",
        (key,),
    )
    return [StatusChange(*row) for row in rows]


def owed(connection: sqlite3.Connection, key: str, name: str) -> list[bytes]:
    """What is still open for the session's journal `name`: not written, or written and not synced yet."""
    rows = connection.execute(
        "select o.content from outbox o join events e on e.seq = o.event"
        " where e.lane = ? and o.name = ? order by o.id",
        (key, name),
    )
    return [content for (content,) in rows]


def remembered(connection: sqlite3.Connection, session_key: str) -> str | None:
    """What the daemon remembers of a session between looks, as JSON text; for a native run, of its directory."""
    layout, _, directory = session_key.partition(":")
    key = directory if layout == DEFAULT_LAYOUT else session_key
    row = connection.execute("select state from cursors where key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def directories_called(connection: sqlite3.Connection, text: str, limit: int) -> list[Directory]:
    """The run directories called `text` or `root/text`; if there are none, whose name begins with it."""
    for query in (_DIRECTORIES_CALLED, _DIRECTORIES_BEGINNING):
        rows = connection.execute(query, (text, limit)).fetchall()
        if rows:
            return [Directory(*row) for row in rows]
    return []


def problems(connection: sqlite3.Connection, directory: str | None = None) -> list[ProblemRow]:
    """What is wrong with people's and agents' files; only in `directory` and below it, if one is given."""
    rows = connection.execute(
        "select path, line, message, mend, since from problems"
        " where ?1 is null or path = ?1 or substr(path, 1, length(?1) + 1) = ?1 || '/' order by path, line",
        (directory,),
    )
    return [ProblemRow(*row) for row in rows]


def sessions_by_status(connection: sqlite3.Connection) -> dict[str, int]:
    """How many sessions have each status."""
    return dict(
        connection.execute("select status, sessions from session_counts where sessions > 0 order by status")
    )


def running(connection: sqlite3.Connection, limit: int) -> list[RunningRow]:
    """The running sessions, oldest first, at most `limit` of them."""
    rows = connection.execute(
        f"select s.session_id, s.layout, s.playbook, s.agent, s.started_at, {_ACTIVITY} from cursors c"  # noqa: S608 - a constant of ours
        " join sessions s on s.key = c.session_key where c.phase = 'open' and s.status = 'running'"
        " order by s.started_at, s.key limit :limit",
        {"limit": limit, **_here()},
    )
    return [RunningRow(*row) for row in rows]


def queue_figures(connection: sqlite3.Connection) -> QueueFigures:
    """How much is in the queue now."""
    rows = connection.execute(
        "select state, count(*) from jobs where state in ('waiting', 'held') group by state"
        " union all select 'running', count(*) from jobs where state = 'running'"
    )
    counts: dict[str, int] = dict(rows.fetchall())
    (oldest,) = connection.execute(
        "select min(e.recorded_at) from jobs j join events e on e.seq = j.event"
        " where j.state in ('waiting', 'held') and j.state = 'waiting'"
    ).fetchone()
    return QueueFigures(counts.get("waiting", 0), counts["running"], counts.get("held", 0), oldest)


def held_by_reason(connection: sqlite3.Connection) -> list[tuple[str, int]]:
    """Why jobs are held, with the number for each reason, most common first."""
    return connection.execute(
        "select coalesce(error, ''), count(*) from jobs where state in ('waiting', 'held')"
        " and state = 'held' group by 1 order by 2 desc, 1"
    ).fetchall()


def next_due(connection: sqlite3.Connection) -> NextDue | None:
    """The job at the head of its lane that will be due next."""
    row = connection.execute(
        "select run_after, handler, lane from jobs j where state in ('waiting', 'held')"
        " and state = 'waiting' and run_after > 0 and not exists (select 1 from jobs b"
        "  where b.lane = j.lane and b.id < j.id and b.state in ('waiting', 'held'))"
        " and not exists (select 1 from jobs b where b.state = 'running' and b.lane = j.lane and +b.id < j.id)"
        " order by run_after, id limit 1"
    ).fetchone()
    return None if row is None else NextDue(*row)


def epoch(connection: sqlite3.Connection) -> int:
    """How many daemons have owned the store so far."""
    (number,) = connection.execute("select epoch from daemon").fetchone()
    assert isinstance(number, int)
    return number


_DIRECTORIES_CALLED: Final = (
    "select c.root, c.directory, c.session_key, c.phase, r.path || '/' || c.directory"
    " from cursors c join roots r on r.name = c.root"
    " where c.key = ?1 or c.directory = ?1 order by c.key limit ?2"
)
_DIRECTORIES_BEGINNING: Final = (
    "select c.root, c.directory, c.session_key, c.phase, r.path || '/' || c.directory"
    " from cursors c join roots r on r.name = c.root"
    " where substr(c.key, 1, length(?1)) = ?1 or substr(c.directory, 1, length(?1)) = ?1"
    " order by c.key limit ?2"
)
