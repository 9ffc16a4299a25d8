"""All that was ever recorded, also of sessions whose record was pruned: what the laws are held against at rest.

What the daemon deletes is copied aside by triggers, in its own transaction. Put together again under the schema's keys, a
run that was judged again after its record was pruned shows as an event that is there twice.
"""

import sqlite3
from contextlib import closing
from functools import cache
from typing import Final

from tests.simulation.broken import Broken

from runward.daemon.store.hash_chain import ChainedEvent, Head, follow
from runward.daemon.store.packed_document import COLUMNS, insert, unpack
from runward.daemon.store.schema import make_empty

PRUNED: Final = (
    "events",
    "moved_payloads",
    "jobs",
    "journal_lines",
    "adopted_lines",
    "files",
    "cancellations",
    "starts",
    "hooks",
    "links",
    "decisions",
    "status_history",
    "attempts",
    "artifacts",
    "invocations",
    "plays",
    "firings",
    "approvals",
    "chain_steps",
    "chain_run_counts",
    "chain_runs",
    "intent_files",
    "sessions",
)
"""The tables from which rows go."""

OWNER: Final = {
    "events": "old.lane",
    "jobs": "(select lane from events where seq = old.event)",
    "journal_lines": "(select lane from events where seq = old.event)",
    "decisions": "old.subject",
    "status_history": "old.session_key",
    "attempts": "old.session_key",
    "files": "old.session_key",
}
"""Whose a row is, by table: of a session that is packed it goes into the document."""

NUMBERED: Final = ("decisions", "status_history", "firings")
"""Those of them whose rows are numbered as they come, so that a number may come again."""

MADE_AGAIN: Final = ("attempts", "sessions", "hooks", "artifacts")
"""Those in which a row that went is made again, for a session that is resumed or that its agent's hook tells of again."""

LATER: Final = (
    "sessions that are gone have tombstones",
    "select key from live.gone_sessions where key not in (select session_key from live.tombstones)",
)


def columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """The stored columns of a table."""
    rows = connection.execute("select name from pragma_table_xinfo(?) where hidden = 0", (table,))
    return [f'"{name}"' for (name,) in rows]


def keep_what_goes(connection: sqlite3.Connection) -> None:
    """Have every row that is deleted copied aside."""
    for table in PRUNED:
        names = columns(connection, table)
        connection.execute(f"create table gone_{table} as select {', '.join(names)} from {table} where 0")
        values = ", ".join(f"old.{name}" for name in names)
        unless = (
            f"when not exists (select 1 from packed where session_key = {OWNER[table]})"
            if table in OWNER
            else ""
        )
        connection.execute(
            f"create trigger keep_{table} after delete on {table} {unless}"
            f" begin insert into gone_{table} values ({values}); end"
        )
    connection.execute("create table gone_packed (document blob)")
    connection.execute("create table unpacked (session_key text)")
    connection.execute(
        "create trigger keep_packed after delete on packed begin"
        " insert into unpacked select old.session_key where exists ("
        "  select 1 from sessions where key = old.session_key and not packed);"
        " insert into gone_packed select old.document where exists ("
        "  select 1 from sessions where key = old.session_key and packed); end"
    )
    connection.commit()


@cache
def _without_triggers() -> bytes:
    """The bytes of a store in which nothing happened yet, where each row stays as it is put."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        make_empty(made)
        for (name,) in made.execute("select name from sqlite_master where type = 'trigger'").fetchall():
            made.execute(f"drop trigger {name}")
        return made.serialize()


def whole_record(uri: str) -> sqlite3.Connection:
    """The store at `uri` with everything that went from it. Raises `Broken` where something is there twice."""
    whole = sqlite3.connect(":memory:", uri=True, isolation_level=None)
    whole.deserialize(_without_triggers())
    whole.execute("attach database ? as live", (uri,))
    tables = whole.execute("select name from main.sqlite_master where type = 'table'").fetchall()
    for (table,) in tables:
        try:
            _fill(whole, str(table))
        except sqlite3.IntegrityError as error:
            raise Broken(f"something was recorded again after it was pruned: {error}") from error
    _put_packed_back(whole)
    _put_history_in_order(whole)
    _check(whole)
    # Where files of other tools' sessions are now is known of those that are gone, too.
    whole.execute(
        "update sessions set root = c.root, path = r.path || '/' || c.directory from cursors c"
        " join roots r on r.name = c.root where c.key = sessions.key and sessions.layout != 'native'"
        " and sessions.key not in (select key from live.sessions)"
    )
    for table in ("unpacked", "gone_packed"):
        whole.execute(f"create table {table} as select * from live.{table}")
    whole.execute("detach database live")
    return whole


def _fill(whole: sqlite3.Connection, table: str) -> None:
    names = columns(whole, table)
    if table in NUMBERED:
        names.remove('"id"')
    chosen = ", ".join(names)
    live = f"select {chosen} from live.{table} order by rowid" if table not in WITHOUT_ROWID else (
        f"select {chosen} from live.{table}"
    )  # fmt: skip
    gone = f"select {chosen} from live.gone_{table} order by rowid"
    whole.execute(f"delete from {table}")
    if table not in PRUNED:
        whole.execute(f"insert into {table} ({chosen}) {live}")
        return
    insert = f"insert {'or ignore ' if table in MADE_AGAIN else ''}into {table} ({chosen})"
    if table == "sessions":
        whole.execute(f"{insert} {live}")
        whole.execute(f"{insert} {gone} desc")
    else:
        whole.execute(f"{insert} {gone}")
        whole.execute(f"{insert} {live}")


def _put_packed_back(whole: sqlite3.Connection) -> None:
    """What is packed, or was when it was pruned, is there as it was. An attempt that was made again doesn't say what it produced."""
    gone = whole.execute("select document from live.gone_packed order by rowid").fetchall()
    now = whole.execute("select document from live.packed order by rowid").fetchall()
    for (content,) in (*gone, *now):
        document = unpack(content)
        for table in COLUMNS:
            statement = insert(table)
            if table in MADE_AGAIN:
                statement = statement.replace("insert into", "insert or ignore into")
            whole.executemany(statement, document.rows[table])
        whole.executemany(
            "update attempts set produced = ?8 where session_key = ?1 and attempt = ?2 and produced is null",
            document.rows["attempts"],
        )


def _put_history_in_order(whole: sqlite3.Connection) -> None:
    """Rows that were packed come behind others here: each session's changes go by their attempts."""
    names = ", ".join(COLUMNS["status_history"])
    whole.execute("create table history as select * from status_history")
    whole.execute("delete from status_history")
    whole.execute(
        f"insert into status_history ({names}) select {names} from history"
        " order by session_key, attempt, status <> 'running', id"
    )
    whole.execute("drop table history")


WITHOUT_ROWID: Final = (
    "usage",
    "usage_read",
    "artifacts",
    "intent_runs",
    "chains",
    "schedules",
    "watched_files",
    "watched_globs",
    "chain_run_counts",
    "chain_runs",
    "chain_steps",
    "approvals",
    "invocations",
    "attempts",
    "files",
    "hooks",
    "links",
    "notices",
    "places",
    "roots",
    "session_counts",
    "shows",
    "tombstones",
    "uncompared",
)


def _check(whole: sqlite3.Connection) -> None:
    law, question = LATER
    found = whole.execute(question).fetchall()
    if found:
        raise Broken(f"{law}, but: {found[:5]}")
    rows = whole.execute(
        "select seq, hash, key, type, version, recorded_at, cause, depth, payload from live.events order by seq"
    )
    gone = whole.execute("select first, last, hash from live.absent_events")
    pruned = {first: Head(last, digest) for first, last, digest in gone}
    end = follow([ChainedEvent(*row) for row in rows], pruned=pruned)
    if not isinstance(end, Head):
        raise Broken(f"the chain doesn't hold over what is gone: {end}")
