"""The lists of a fleet: its hosts, and the sessions that they reported. They read no more rows than they show."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from psycopg import sql

from runward.config.json_value import JsonValue
from runward.daemon.fleet.connecting import Connection, in_time
from runward.daemon.fleet.reported import Reported, reported
from runward.daemon.store.tables.session_lists import Wanted
from runward.handlers.times import iso

SILENT_AFTER_S: Final = 90.0
"""Seconds after which a host that was not heard of is silent: three signs of life."""

_AT_ONCE: Final = 100
"""Rows that one statement reads: it has five seconds."""

_LONGEST: Final = 200
"""Characters of a value that rows are filtered by: the schema keeps no more."""


class Host(NamedTuple):
    """A host as the database knows it, whose clock counts. Moments are Unix seconds. `unheard_s` says how long ago it was seen.

    `slots` are the steps of others that it runs at once, None if it has not said so.
    """

    name: str
    labels: list[str]
    program: str | None
    invited_at: float
    joined_at: float | None
    removed_at: float | None
    last_seen: float | None
    unheard_s: float | None
    owes: int
    problems: list[str]
    slots: int | None

    @property
    def state(self) -> str:
        """What is known of it."""
        if self.removed_at is not None:
            return "removed"
        if self.joined_at is None:
            return "invited"
        if self.unheard_s is None:
            return "joined"
        return "silent" if self.unheard_s > SILENT_AFTER_S else "reporting"

    def as_json(self) -> JsonValue:
        return {
            "host": self.name,
            "state": self.state,
            "labels": [*self.labels],
            "version": self.program,
            "invited_at": iso(self.invited_at),
            "joined_at": iso(self.joined_at),
            "removed_at": iso(self.removed_at),
            "last_seen_at": iso(self.last_seen),
            "unheard_s": None if self.unheard_s is None else round(max(0.0, self.unheard_s), 3),
            "slots": self.slots,
            "owes": self.owes,
            "problems": [*self.problems],
        }


_HOSTS: Final = (
    "select name, labels, program, extract(epoch from invited_at)::float8, extract(epoch from joined_at)::float8,"
    " extract(epoch from removed_at)::float8,"
    " extract(epoch from last_seen)::float8,"
    " extract(epoch from clock_timestamp() - last_seen)::float8, owes,"
    # A host may have written lists of lists there, and nothing.
    " array(select problem from unnest(problems) one(problem) where problem is not null), slots"
    " from runward.hosts where name > %(after)s and (%(names)s::text[] is null or name = any(%(names)s))"
    " order by name limit %(limit)s"
)


def hosts(connection: Connection, most: int | None, names: Sequence[str] | None = None) -> list[Host]:
    """The hosts, or those of these names, by name: at most `most`. Raises `psycopg.Error`."""
    found: list[Host] = []
    while count := _count(most, len(found)):
        after = found[-1].name if found else ""
        given = {"after": after, "names": None if names is None else [*names], "limit": count}
        with in_time(connection):
            rows = connection.execute(_HOSTS, given, prepare=False).fetchall()
        found += [Host(*row) for row in rows]
        if len(rows) < count:
            break
    return found


def _count(most: int | None, known: int) -> int:
    """How many rows the next statement reads."""
    return _AT_ONCE if most is None else min(_AT_ONCE, most - known)


_CONDITIONS: Final = {
    "statuses": "s.status = any(%(statuses)s)",
    "playbooks": "s.playbook = any(%(playbooks)s)",
    "agents": "s.agent = any(%(agents)s)",
    "hosts": "s.host = any(%(hosts)s)",
    "layouts": "s.layout = any(%(layouts)s)",
    "roots": "s.root = any(%(roots)s)",
    "since": "s.started_at >= %(since)s",
    "text": "strpos(lower(concat_ws(chr(10), s.body ->> 'session_id', s.body ->> 'playbook', s.body ->> 'agent',"
    " s.body ->> 'path', s.body #>> '{reason,summary}')), lower(%(text)s)) > 0",
    "cwd": "starts_with((s.body ->> 'cwd') || '/', %(cwd)s)",
    "has_ended": "s.status is distinct from 'running'",
    # Both parts: by the first one the index is entered at that place.
    "at": "s.started_at <= %(at)s and (s.started_at < %(at)s or (s.host, s.key) > (%(host)s, %(key)s))",
}
"""By what is given."""

_INDEXED: Final = {"statuses": "status", "playbooks": "playbook", "agents": "agent", "hosts": "host"}
"""Filters whose columns have an index, in the order of lists, the one that leaves the fewest rows first."""

_ORDER: Final = "order by s.started_at desc, s.host, s.key limit %(limit)s"


def sessions(
    connection: Connection,
    wanted: Wanted,
    of_hosts: Sequence[str],
    most: int | None,
    *,
    has_ended: bool = False,
) -> list[Reported]:
    """What the hosts, or these, reported of the sessions that are wanted: the newest, at most `most`; or only of those that ended.

    Raises `psycopg.Error`.
    """
    given: dict[str, Any] = {
        "statuses": _values(wanted.statuses),
        "playbooks": _values(wanted.playbooks),
        "agents": _values(wanted.agents),
        "layouts": _values(wanted.layouts),
        "roots": _values(wanted.roots),
        "hosts": _values(of_hosts),
        "since": wanted.since,
        "text": wanted.text,
        "cwd": None if wanted.cwd is None else f"{wanted.cwd.rstrip('/')}/",
        "has_ended": has_ended or None,
        "at": None,
    }
    found: list[Reported] = []
    while count := _count(most, len(found)):
        given["limit"] = count
        with in_time(connection):
            rows = connection.execute(_statement(given), given, prepare=False).fetchall()
        found += [reported(*row) for row in rows]
        if len(rows) < count:
            break
        given["host"], given["key"], given["at"], _ = rows[-1]
    return found


def _values(chosen: Sequence[str]) -> list[str] | None:
    return [*dict.fromkeys(each[:_LONGEST] for each in chosen)] or None


def _statement(given: dict[str, Any]) -> sql.SQL:
    """Where a filter has an index, the newest of each of its values, and then the newest of those."""
    where = " and ".join(text for name, text in _CONDITIONS.items() if given[name] is not None) or "true"
    rows = f"select s.host, s.key, s.started_at, s.body::text as body from runward.sessions s where {where}"  # noqa: S608 # our own words
    by = next((name for name in _INDEXED if given[name] is not None), None)
    if by is None:
        return sql.SQL(f"{rows} {_ORDER}")
    return sql.SQL(
        f"select s.host, s.key, s.started_at, s.body from unnest(%({by})s::text[]) as one(value)"  # noqa: S608 # our own words
        f" cross join lateral ({rows} and s.{_INDEXED[by]} = one.value {_ORDER}) s {_ORDER}"
    )
