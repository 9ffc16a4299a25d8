"""The lists of sessions that commands ask for: those that match, that run, or that failed and nobody has seen.

Their rows, and how programs see them, are in `sessions.py`.
"""

import json
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.root import NATIVE
from runward.daemon.store import packed_document
from runward.daemon.store.remembered_fields import CWD, PROMPT, WAITING_ASKS, WAITING_SINCE
from runward.daemon.store.rows import rows_of, select, value_of, values_of
from runward.daemon.store.tables.sessions import ACTIVITY, SessionRow, here, session, session_rows

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader

_LAST_CHARACTER: Final = "\U0010ffff"
"""Sorts after every other character: what begins with a text sorts between that text and the text followed by this."""


class RunningRow(NamedTuple):
    """A running session: its identity, since when it runs (Unix seconds), and what it does, if known."""

    session_id: str
    layout: str
    playbook: str | None
    agent: str | None
    started_at: float
    activity: str | None


class Wanted(NamedTuple):
    """Which sessions are wanted. Each filter that has values must match one of them.

    `after` is the start (Unix seconds) and the key of a session in the list, the newest first: only what is listed after
    it is wanted. `since` is a time in Unix seconds. `text` is searched, ignoring case, in ids, names, the path and the reason. `cwd`
    is a directory: sessions that worked in it or below it match. `is_no_step` leaves steps of chains out, and `is_unlinked`
    sessions that were started inside a launched run.
    """

    statuses: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    playbooks: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    since: float | None = None
    text: str | None = None
    cwd: str | None = None
    after: tuple[float, str] | None = None
    is_no_step: bool = False
    is_unlinked: bool = False

    def has(self, row: SessionRow) -> bool:
        """Whether this session matches."""
        chosen = (
            (self.statuses, row.status),
            (self.layouts, row.layout),
            (self.roots, row.root),
            (self.playbooks, row.playbook),
            (self.agents, row.agent),
        )
        texts = (row.session_id, row.playbook or "", row.agent or "", row.path, row.reason_summary)
        return (
            all(not values or value in values for values, value in chosen)
            and (self.since is None or row.started_at >= self.since)
            and (self.text is None or any(self.text.lower() in each.lower() for each in texts))
            and (self.after is None or (-row.started_at, row.key) > (-self.after[0], self.after[1]))
            and (self.cwd is None or f"{row.cwd or ''}/".startswith(f"{self.cwd.rstrip('/')}/"))
        )


EVERY: Final = Wanted()


def sessions(
    connection: sqlite3.Connection, wanted: Wanted = EVERY, limit: int | None = None
) -> list[SessionRow]:
    """The sessions that are wanted, newest first."""
    at, key = wanted.after or (None, None)
    # Without these conditions if they aren't needed: with `or :at is null` SQLite would not begin, or end, at that place of
    # the index.
    part = ("" if wanted.since is None else " and started_at >= :since") + (
        "" if at is None else " and started_at <= :at and (started_at < :at or key > :key)"
    )
    for is_left_out, others in zip((wanted.is_no_step, wanted.is_unlinked), _SHOWN_WITH, strict=True):
        part += f" and not {others}" if is_left_out else ""
    is_open = ""
    # Few are open, and they have an index: the list of what runs must not read all sessions there are.
    if wanted.statuses == ("running",):
        is_open = " and key in (select session_key from cursors where phase = 'open')"
    keys = connection.execute(
        "select key from sessions where (:statuses = '[]' or status in (select value from json_each(:statuses)))"  # noqa: S608 # our own words
        " and (:layouts = '[]' or layout in (select value from json_each(:layouts)))"
        " and (:roots = '[]' or root in (select value from json_each(:roots)))"
        " and (:playbooks = '[]' or playbook in (select value from json_each(:playbooks)))"
        " and (:agents = '[]' or agent in (select value from json_each(:agents)))"
        " and (:text is null or instr(lower(session_id || char(10) || coalesce(playbook, '') || char(10)"
        "  || coalesce(agent, '') || char(10) || path || char(10) || reason_summary), lower(:text)))"
        f"{part}{is_open} order by started_at desc, key limit :limit",
        {
            **{name: json.dumps(getattr(wanted, name)) for name in _CHOSEN},
            "since": wanted.since,
            "text": wanted.text,
            "at": at,
            "key": key,
            "limit": -1 if limit is None or wanted.cwd is not None else limit,
        },
    )
    chosen = values_of(str, keys)
    if wanted.cwd is None:
        return session_rows(connection, chosen)
    matching: list[SessionRow] = []
    for start in range(0, len(chosen), _AT_ONCE):
        # A directory stands in the first event alone, which is not indexed by it: so it is looked up for those that
        # match otherwise.
        cwds = working_directories(connection, chosen[start : start + _AT_ONCE])
        rows = session_rows(connection, list(cwds))
        matching += [row for row in (row._replace(cwd=cwds[row.key]) for row in rows) if wanted.has(row)]
        if limit is not None and len(matching) >= limit:
            return matching[:limit]
    return matching


_SHOWN_WITH: Final = (
    "exists (select 1 from chain_steps c where c.session_key = sessions.key)",
    "exists (select 1 from links l join sessions x on x.key = l.launcher where l.linked = sessions.key)",
)
"""Whether a session is the step of a chain, and whether it was started in the run of a launcher that is still known."""


def shown_with_others(connection: sqlite3.Connection, wanted: Wanted, keys: Sequence[str]) -> set[str]:
    """Those of these sessions, which may not be recorded yet, that are steps of chains, if those aren't wanted."""
    if not wanted.is_no_step or not keys:
        return set()
    rows = connection.execute(
        "select session_key from chain_steps where session_key in (select value from json_each(?))",
        (json.dumps(keys),),
    )
    return set(values_of(str, rows))


class StepOf(NamedTuple):
    """Which step of which chain run a session is."""

    run: str
    chain: str
    step: str

    def as_json(self) -> JsonValue:
        return {"chain_run_id": self.run, "chain": self.chain, "step": self.step}


def steps_of_sessions(connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, StepOf]:
    """The steps of chains that these sessions are, by their keys."""
    rows = connection.execute(
        "select c.session_key, c.run, r.chain, c.step, r.definition from chain_steps c join chain_runs r on r.id = c.run"
        " where c.session_key in (select value from json_each(?))",
        (json.dumps(keys),),
    )
    found = rows_of(tuple[str, str, str, int, str], rows)
    return {
        key: StepOf(run, chain, _step_id(definition, step)) for key, run, chain, step, definition in found
    }


def _step_id(definition: str, number: int) -> str:
    """The id of a step, counted through the steps and those of `on_failure`."""
    defined = json.loads(definition)
    steps = [*defined["steps"], *(defined.get("on_failure") or ())]
    return str(steps[number].get("id", f"step{number}"))


_CHOSEN: Final = ("statuses", "layouts", "roots", "playbooks", "agents")

_AT_ONCE: Final = 500
"""Sessions whose directories are looked up at once: packed ones must be unpacked for that."""


def working_directories(connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, str]:
    """The directories in which these sessions began, as far as known."""
    rows = connection.execute(
        "select k.value, json_extract(e.payload, '$.declaration.cwd') from json_each(?) k"
        " cross join main.events e on e.key = k.value || '#1/started'",
        (json.dumps(keys),),
    )
    known = rows_of(tuple[str, str | None], rows)
    directories = {key: cwd for key, cwd in known if cwd is not None}
    packed = connection.execute(
        "select session_key, document from main.packed where session_key in (select value from json_each(?))",
        (json.dumps(keys),),
    )
    for key, content in packed:
        cwd = _declared_cwd(packed_document.unpack(content).payload_of(f"{key}#1/started"))
        if cwd is not None:
            directories[key] = cwd
    return directories


def _declared_cwd(payload: str | None) -> str | None:
    """The directory in which a session began, by the event of its start."""
    declaration = None if payload is None else json.loads(payload).get("declaration")
    cwd = declaration.get("cwd") if isinstance(declaration, dict) else None
    return cwd if isinstance(cwd, str) else None


def sessions_called(connection: sqlite3.Connection, text: str, limit: int) -> list[tuple[str, str]]:
    """Keys and ids of the sessions whose key is `text`; else of those whose id is `text` or, being a UUID, ends with it.

    If there are none, of those whose id or key begins with it. The eight last characters may stand behind an ellipsis,
    and then nothing else is meant.
    """
    end = text.removeprefix("…").removeprefix("...")
    by_key = connection.execute("select key, session_id from sessions where key = ?", (text,)).fetchall()
    if by_key:
        return by_key
    ending = _sessions_ending(connection, end, limit)
    if end != text and ending:
        return ending
    exact = connection.execute(
        "select key, session_id from sessions where session_id = ? order by key limit ?", (text, limit)
    ).fetchall()
    if exact:
        return [*exact, *(each for each in ending if each not in exact)][:limit]
    beginning = connection.execute(
        "select key, session_id from sessions"
        " where (key >= ?1 and key < ?3) or (session_id >= ?1 and session_id < ?3)"
        " order by started_at desc, key limit ?2",
        (text, limit, text + _LAST_CHARACTER),
    ).fetchall()
    return [*ending, *(each for each in beginning if each not in ending)][:limit]


_SHOWN_OF_UUID: Final = 8


def _sessions_ending(connection: sqlite3.Connection, end: str, limit: int) -> list[tuple[str, str]]:
    """Those whose ids are UUIDs that end with these eight characters."""
    if len(end) != _SHOWN_OF_UUID:
        return []
    return connection.execute(
        "select key, session_id from sessions where substr(session_id, -8) = ?"
        " and session_id glob '????????-????-????-????-????????????' order by key limit ?",
        (end, limit),
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
    key = value_of(str, row)
    return None if key is None else session(connection, key)


def newest_sessions(connection: sqlite3.Connection, limit: int) -> list[tuple[str, str]]:
    """Keys and ids of the sessions that started last."""
    return connection.execute(
        "select key, session_id from sessions order by started_at desc, key limit ?", (limit,)
    ).fetchall()


def sessions_by_status(connection: sqlite3.Connection) -> dict[str, int]:
    """How many sessions have each status."""
    return dict(
        connection.execute("select status, sessions from session_counts where sessions > 0 order by status")
    )


def running(connection: sqlite3.Connection, limit: int) -> list[RunningRow]:
    """The running sessions, oldest first, at most `limit` of them."""
    rows = connection.execute(
        select(
            RunningRow,
            "from cursors c join sessions s on s.key = c.session_key where c.phase = 'open'"
            " and s.status = 'running' order by s.started_at, s.key limit :limit",
            "s",
            activity=ACTIVITY,
        ),
        {"limit": limit, **here()},
    )
    return rows_of(RunningRow, rows)


_WAITING_AGENTS: Final = (
    "from cursors c join sessions s on s.key = c.session_key where c.phase = 'open' and c.activity = 'waiting'"
    " and s.status = 'running' and s.layout <> ?1"
)
"""The running sessions whose agent waits for a person's answer."""


def waiting_for_answer(connection: sqlite3.Connection) -> list[str]:
    """The keys of the running sessions whose agent waits for a person's answer, oldest first."""
    rows = connection.execute(
        f"select s.key {_WAITING_AGENTS} order by s.started_at, s.key",  # our own words
        (NATIVE,),
    )
    return values_of(str, rows)


class WaitingAgent(NamedTuple):
    """An agent that waits for a person: since when (Unix seconds), what it asks, where, and what it was given, if known."""

    key: str
    name: str
    since: float
    asks: str | None
    cwd: str | None
    prompt: str | None


async def waiting_agents(store: "Reader", most: int) -> list[WaitingAgent]:
    """Those of which it is known since when, the longest first."""
    query = select(
        WaitingAgent,
        f"{_WAITING_AGENTS} and json_extract(c.state, '{WAITING_SINCE}') is not null order by since, s.key limit ?2",
        "s",
        name="coalesce(s.playbook, s.agent, s.layout)",
        since=f"json_extract(c.state, '{WAITING_SINCE}') as since",
        asks=f"json_extract(c.state, '{WAITING_ASKS}')",
        cwd=f"json_extract(c.state, '{CWD}')",
        prompt=f"json_extract(c.state, '{PROMPT}')",
    )
    return rows_of(WaitingAgent, await store.read(query, (NATIVE, most)))


class UnseenFailure(NamedTuple):
    """A failure that nobody has seen: when the session ended (Unix seconds), and why it failed."""

    key: str
    session_id: str
    at: float
    why: str


async def failures_unseen(store: "Reader", since: float, until: float, most: int) -> list[UnseenFailure]:
    """Those of this stretch of time, the oldest first."""
    query = select(
        UnseenFailure,
        "from sessions where unseen_at >= ? and unseen_at <= ? order by unseen_at, key limit ?",
        at="unseen_at",
        why="reason_summary",
    )
    return rows_of(UnseenFailure, await store.read(query, (since, until, most)))


LATELY: Final = 86_400.0
"""Seconds after its end for which a failure is shown."""


class Failures(NamedTuple):
    """How many recently failed sessions nobody has seen, and the newest of them."""

    total: int
    newest: list[SessionRow]


def unseen_failures(connection: sqlite3.Connection, now: float, limit: int | None = None) -> Failures:
    """Those of the last day, newest end first; at most `limit`. The total is a sum of counts that the store keeps."""
    since = now - LATELY
    counted = connection.execute(
        "select (select count(*) from sessions where unseen_at >= ?1 and unseen_at < 60 * (?2 + 1))"
        " + (select coalesce(sum(sessions), 0) from unseen_counts where minute > ?2)",
        (since, int(since // 60)),
    ).fetchone()
    total = value_of(int, counted)
    if not total:
        return Failures(0, [])
    keys = connection.execute(
        "select key from sessions where unseen_at >= ? order by unseen_at desc, key limit ?",
        (since, -1 if limit is None else limit),
    )
    rows = session_rows(connection, values_of(str, keys))
    return Failures(total, sorted(rows, key=lambda row: (-(row.finished_at or 0.0), row.key)))


def is_unseen_failure(connection: sqlite3.Connection, key: str, now: float) -> bool:
    """Whether this session is one of them."""
    row = connection.execute(
        "select 1 from sessions where key = ? and unseen_at >= ?", (key, now - LATELY)
    ).fetchone()
    return row is not None
