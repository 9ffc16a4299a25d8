"""What the doctor says of the fleet: the login of this host, what it is refused, what wakes it, and what this host owes.

It connects as the daemon's program does, but never reports: so a program that runs is not disturbed. What is forbidden is tried
in a transaction that is taken back.
"""

import secrets
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from runward.config.fleet import Database, database_of
from runward.config.problem import counted
from runward.config.settings import FleetSettings
from runward.daemon.configuration.extras import FLEET_FIX, NO_FLEET, has_fleet
from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.fleet.problems import OF_FLEET
from runward.daemon.host.report import read_report
from runward.daemon.store import reading
from runward.daemon.store.ownership import holder
from runward.daemon.store.tables.fleet_outbox import how_many_owed
from runward.daemon.views.text import age

if TYPE_CHECKING:
    from runward.daemon.fleet.connecting import Connection

FENCED: Final = "RW003"
"""What the functions say to all but the program that connected last."""

_NOTICE_S: Final = 2.0
"""Seconds that a notice may take between two connections."""

_SERVER: Final = "see whether its server runs and this network reaches it; what is owed is delivered later"
_LOGIN: Final = (
    "do what it says; if the login was ended, only a new invitation (`runward fleet invite`) lets a host join"
)
_TLS: Final = "in the server's pg_hba.conf, let logins in with hostssl only"
_OPEN: Final = "where the fleet was made, take back what somebody granted there; `runward fleet upgrade` restores the functions"


def examine_fleet(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Log in to the fleet's database, and try there what works and what must not."""
    fleet = installation.settings.fleet
    if fleet is None:
        yield Finding("ok", "this host belongs to no fleet: the settings have no [fleet]")
        return
    if not has_fleet():
        yield Finding("failed", NO_FLEET, FLEET_FIX)
        return
    import psycopg

    from runward.daemon.fleet.connecting import DatabaseRefuses, DatabaseUnreachable, as_host, in_one_line

    try:
        with closing(as_host(fleet)) as connection:
            yield from _of_login(connection, fleet)
            if _takes_changes(connection):
                yield from _of_rights(connection, patience)
                with closing(as_host(fleet)) as other:
                    yield _of_notices(connection, other)
            else:
                message = f"{database_of(fleet.database).place} takes no changes: it is read-only"
                yield Finding("failed", message, "name the server in fleet.database that takes them")
    except DatabaseUnreachable as error:
        yield Finding("failed", str(error), _SERVER)
    except DatabaseRefuses as error:
        yield Finding("failed", str(error), _LOGIN)
    except psycopg.Error as error:
        yield Finding("failed", f"the fleet's database failed: {in_one_line(error)}", _SERVER)
    yield from _of_owed(installation)


def _of_login(connection: "Connection", fleet: FleetSettings) -> Iterator[Finding]:
    from runward.daemon.fleet.connecting import format_of, in_time

    database = database_of(fleet.database)
    with in_time(connection):
        found = format_of(connection, database)
        row = connection.execute(
            "select name, extract(epoch from clock_timestamp() - last_seen)::float8 from runward.hosts"
            " where login = session_user"
        ).fetchone()
    if row is None or row[0] != fleet.host:
        whose = "nobody" if row is None else row[0]
        message = f"the login {database.user} is that of {whose}, but fleet.host is {fleet.host}"
        yield Finding("failed", message, "have this host join again, by an invitation of its own")
        return
    how = "through a Unix socket" if database.is_socket else "with TLS, its certificate checked"
    heard = "has not heard of it yet" if row[1] is None else f"heard of it {age(0.0, row[1])} ago"
    yield Finding("ok", f"{fleet.host} logs in to {database.place} {how}, which {heard}")
    if found is not None:
        yield Finding("ok", f"the fleet has format {found[0]}, which this Runward may write")
    if not database.is_socket:
        yield _without_tls(database)


def _takes_changes(connection: "Connection") -> bool:
    from runward.daemon.fleet.connecting import in_time

    with in_time(connection):
        return connection.execute("show transaction_read_only").fetchone() == ("off",)


def _without_tls(database: Database) -> Finding:
    """Whether the server would talk to this login without TLS. It is given no secret: what it asks for says enough."""
    import psycopg

    from runward.daemon.fleet.connecting import PATIENCE_S, in_one_line

    try:
        psycopg.connect(
            user=database.user,
            host=database.host,
            port=database.port,
            dbname=database.name,
            password=secrets.token_urlsafe(8),
            connect_timeout=int(PATIENCE_S),
            gssencmode="disable",
            sslmode="disable",
            require_auth="scram-sha-256",
        ).close()
    except psycopg.OperationalError as error:
        why = in_one_line(error)
        if "pg_hba.conf" in why:
            return Finding("ok", "a connection without TLS is refused")
        if "authentication" not in why:
            return Finding(
                "skipped", f"whether a connection without TLS is refused is not known: {why}", _TLS
            )
    return Finding("warning", f"{database.place} talks to logins without TLS, too", _TLS)


class Attempt(NamedTuple):
    """What must be refused: what it would do, the statements, and the states of SQL by which it is refused."""

    what: str
    statements: tuple[str, ...]
    refused_by: tuple[str, ...] = ("42501",)
    """42501 is a missing right."""


_SHADOW: Final = Attempt(
    "put a temporary table in the place of a table",
    (
        "create temporary table hosts (name text, login name, joined_at timestamptz, connections bigint)",
        "insert into hosts values ('shadow', session_user, now(), -1)",
        "set local search_path = pg_temp, runward",
        "select runward.own_name(-1)",
    ),
    ("42501", FENCED),
)

_FIXED: Final = (
    Attempt("read the orders of others", ("set local row_security = off", "select from runward.orders")),
    Attempt("make a table among the fleet's", ("create table runward.of_doctor (a integer)",)),
    Attempt(
        "make a function among the fleet's",
        ("create function runward.of_doctor() returns integer language sql as 'select 1'",),
    ),
    Attempt(
        "make a table that an administrator could mistake", ("create table public.of_doctor (a integer)",)
    ),
    Attempt("make a login", ("create role runward_of_doctor",)),
    _SHADOW,
)

_TABLES: Final = (
    "select quote_ident(c.relname), (select quote_ident(a.attname) from pg_attribute a where a.attrelid = c.oid"
    " and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' and a.attidentity = '' order by a.attnum limit 1) from pg_class c"
    " where c.relnamespace = 'runward'::regnamespace and c.relkind in ('r', 'p') order by 1"
)
_ROLES: Final = (
    "select quote_ident(rolname) from pg_roles where rolname <> session_user and (rolsuper or rolname in"
    " (select login from runward.hosts) or oid = (select nspowner from pg_namespace where nspname = 'runward'))"
    " order by 1 limit 20"
)
_FUNCTIONS: Final = (
    "select p.proname, 'runward.' || quote_ident(p.proname) || '(-1' || coalesce((select string_agg(', null::' ||"
    " format_type(t, null), '' order by n) from unnest(p.proargtypes::oid[]) with ordinality each(t, n) where n > 1), '')"
    " || ')' from pg_proc p where p.pronamespace = 'runward'::regnamespace and p.proargnames[1] = 'number' order by 1"
)
_UNFIXED: Final = (
    "select proname from pg_proc where pronamespace = 'runward'::regnamespace and prosecdef"
    " and not exists (select from unnest(proconfig) each where each like 'search_path=%') order by 1"
)


def attempts(connection: "Connection") -> list[Attempt]:
    """All that the login of a host must be refused, for the tables, functions and roles that there are."""
    made = [*_FIXED]
    for table, column in connection.execute(_TABLES).fetchall():
        name = f"runward.{table}"
        made += [
            Attempt(f"add to {name}", (f"insert into {name} default values",)),
            Attempt(f"change {name}", (f"update {name} set {column} = {column} where false",)),  # noqa: S608 # quoted there
            Attempt(f"delete from {name}", (f"delete from {name} where false",)),  # noqa: S608 # quoted there
            Attempt(f"empty {name}", (f"truncate {name} cascade",)),
        ]
    for (role,) in connection.execute(_ROLES).fetchall():
        made.append(Attempt(f"become {role}", (f"set local role {role}",)))
    for function, call in connection.execute(_FUNCTIONS).fetchall():
        made.append(
            Attempt(f"call {function} without being the program that reports", (f"select {call}",), (FENCED,))
        )
    return made


def _of_rights(connection: "Connection", patience: Patience) -> Iterator[Finding]:
    """Try what is forbidden. Whatever succeeds is taken back."""
    from runward.daemon.fleet.connecting import in_time

    with connection.transaction(force_rollback=True):
        with in_time(connection):
            connection.execute("set local lock_timeout = '1s'")
            tried = attempts(connection)
            unfixed = [str(name) for (name,) in connection.execute(_UNFIXED).fetchall()]
        may = []
        for attempt in tried:
            patience.left()
            with in_time(connection):
                if not _is_refused(connection, attempt):
                    may.append(attempt.what)
    if unfixed:
        names = ", ".join(unfixed)
        yield Finding("failed", f"tables of a host could stand in for those of the fleet in {names}", _OPEN)
    if may:
        more = f", and {len(may) - _MOST_SHOWN} more" if len(may) > _MOST_SHOWN else ""
        message = f"the login of this host may {', '.join(may[:_MOST_SHOWN])}{more}"
        yield Finding("failed", message, _OPEN)
    else:
        yield Finding("ok", f"{len(tried)} attempts at what the login of a host must not do were refused")


def _is_refused(connection: "Connection", attempt: Attempt) -> bool:
    import psycopg

    try:
        with connection.transaction(force_rollback=True):
            for statement in attempt.statements:
                connection.execute(statement.encode())
    except psycopg.Error as error:
        if connection.closed:
            raise
        # Refused for another reason, it was allowed to try.
        return error.sqlstate in attempt.refused_by
    return False


_MOST_SHOWN: Final = 6


def _of_notices(connection: "Connection", other: "Connection") -> Finding:
    """Whether one connection hears what another one tells: behind a transaction pooler it doesn't."""
    from runward.daemon.fleet.connecting import in_time

    # Any login may listen to any channel; nobody knows this one.
    channel = f"runward_of_doctor_{secrets.token_hex(8)}"
    with in_time(connection), in_time(other):
        connection.execute(f"listen {channel}".encode())
        other.execute("select pg_notify(%s, '')", (channel,))
        told: list[Any] = [*connection.notifies(timeout=_NOTICE_S, stop_after=1)]
    if told:
        return Finding("ok", "a change is told at once")
    return Finding(
        "warning",
        "the database tells no changes, as behind a transaction pooler: this host looks every 30 s",
        "name the server itself in fleet.database, or have the pooler pool sessions",
    )


def _of_owed(installation: Installation) -> Iterator[Finding]:
    """What this host has yet to report, and whether anything keeps it from that."""
    pid = holder(installation.state)
    report = None if pid is None else read_report(installation.state)
    troubles = [] if report is None else [each for each in report.degraded if each.startswith(OF_FLEET)]
    if troubles:
        yield Finding("failed", troubles[0].removeprefix(OF_FLEET), "nothing is lost: fix the cause")
    if not reading.exists(str(installation.state)):
        yield Finding("ok", "nothing is owed: no daemon has run here yet")
        return
    with reading.reading(str(installation.state)) as store:
        count = how_many_owed(store)
    owed = f"{counted(count, 'report is', 'reports are')} owed to the fleet"
    if count == 0:
        yield Finding("ok", "nothing is owed to the fleet")
    elif pid is None:
        yield Finding("warning", f"{owed}, and no daemon runs", "start the daemon, which delivers them")
    else:
        yield Finding("ok", f"{owed}; the daemon delivers them")
