"""Shows and their plays."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue, stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import row_of, rows_of, select, value_of
from runward.daemon.store.tables.table import Table
from runward.handlers.times import iso

if TYPE_CHECKING:
    from runward.handlers.model.shows import RecordPlay


class ShowRow(NamedTuple):
    """A show: its directory, how many plays it has, how many still run, and what the gates of the others decided.

    `created_at` is when its first play began (Unix seconds).
    """

    path: str
    topic: str
    plays: int
    running: int
    passed: int
    failed: int
    created_at: float

    def as_json(self) -> dict[str, JsonValue]:
        """A show, and how its plays stand."""
        return {
            "topic": self.topic,
            "path": self.path,
            "play_count": self.plays,
            "running": self.running,
            "passed": self.passed,
            "failed": self.failed,
            "created_at": iso(self.created_at),
        }


class PlayRow(NamedTuple):
    """A play: its session, what its `_meta.json` said, and what its gate decided (0, 1, None) with a summary.

    Times are Unix seconds; `depends_on` and `further` are JSON texts. `said_status` is the word of `_meta.json`.
    """

    name: str
    session_key: str
    session_status: str
    invocation_id: str | None
    said_status: str | None
    agent: str | None
    model: str | None
    started_at: float | None
    finished_at: float | None
    depends_on: str
    further: str | None
    gate_passed: int | None
    gate_summary: str | None
    artifact_id: str | None

    def as_json(self) -> dict[str, JsonValue]:
        return {
            "name": self.name,
            "session_key": self.session_key,
            "status": self.session_status,
            "invocation_id": self.invocation_id,
            "depends_on": json.loads(self.depends_on),
            "meta": {
                "status": self.said_status,
                "agent": self.agent,
                "model": self.model,
                "started_at": None if self.started_at is None else iso(self.started_at),
                "finished_at": None if self.finished_at is None else iso(self.finished_at),
                "further": None if self.further is None else json.loads(self.further),
            },
            "gate": None
            if self.artifact_id is None
            else {
                "artifact_id": self.artifact_id,
                "passed": None if self.gate_passed is None else bool(self.gate_passed),
                "summary": self.gate_summary,
            },
        }


_GATE = (
    "left join artifacts a on a.id = (select id from artifacts where session_key = p.session_key"
    " and kind = 'gate_verdict' order by updated_at desc, place desc limit 1)"
)

_SHOWS: Final = select(
    ShowRow,
    f"from {{shows}} h join plays p on p.show = h.path join sessions s on s.key = p.session_key {_GATE}"
    " group by h.path order by",
    "h",
    running="sum(s.status = 'running')",
    passed="sum(ifnull(a.passed = 1, 0))",
    failed="sum(ifnull(a.passed = 0, 0))",
)
_PLAYS: Final = select(
    PlayRow,
    f"from plays p join sessions s on s.key = p.session_key {_GATE}",
    "p",
    session_status="s.status",
    invocation_id="s.invocation_id",
    said_status="p.status",
    gate_passed="a.passed",
    gate_summary="a.summary",
    artifact_id="a.id",
)


def shows(
    connection: sqlite3.Connection, after: tuple[float, str] | None = None, limit: int = -1
) -> list[ShowRow]:
    """The shows that began before `after` (a time and a path), newest first. Plays and sessions are read for these alone."""
    at, path = after or (None, None)
    # A condition that is not needed is left out: with `or ? is null` SQLite would walk from the newest show on.
    behind = "" if after is None else "where created_at <= ?1 and (created_at < ?1 or path > ?2)"
    chosen = f"(select * from shows {behind} order by created_at desc, path limit ?3)"  # noqa: S608 # our own words
    rows = connection.execute(f"{_SHOWS.format(shows=chosen)} h.created_at desc, h.path", (at, path, limit))
    return rows_of(ShowRow, rows)


def shows_called(connection: sqlite3.Connection, text: str) -> list[ShowRow]:
    """The shows of this topic, or in this directory."""
    return _shows(connection, "topic = ?1 or path = ?1", text)


def show_in(connection: sqlite3.Connection, path: str) -> ShowRow | None:
    """The show in this directory."""
    return next(iter(_shows(connection, "path = ?1", path)), None)


def _shows(connection: sqlite3.Connection, which: str, text: str) -> list[ShowRow]:
    chosen = f"(select * from shows where {which} limit 9)"  # noqa: S608 # our own words
    rows = connection.execute(f"{_SHOWS.format(shows=chosen)} h.path", (text,))
    return rows_of(ShowRow, rows)


def plays_of(connection: sqlite3.Connection, path: str, after: str = "", limit: int = -1) -> list[PlayRow]:
    """The plays behind `after` of the show in this directory, by their names."""
    rows = connection.execute(
        f"{_PLAYS} where p.show = ? and p.name > ? order by p.name limit ?", (path, after, limit)
    )
    return rows_of(PlayRow, rows)


def has_shows(connection: sqlite3.Connection) -> bool:
    """Whether there is a play."""
    return connection.execute("select 1 from plays limit 1").fetchone() is not None


def play_called(connection: sqlite3.Connection, path: str, name: str) -> PlayRow | None:
    """The play of this name in the show in this directory."""
    rows = connection.execute(f"{_PLAYS} where p.show = ? and p.name = ?", (path, name))
    return row_of(PlayRow, rows.fetchone())


def plan_of(connection: sqlite3.Connection, path: str) -> str | None:
    """The plan of the play of this show that began last."""
    row = connection.execute(
        "select i.node_metadata ->> 'plan' from plays p join invocations i on i.session_key = p.session_key"
        " where p.show = ? order by p.created_at desc, p.name desc limit 1",
        (path,),
    ).fetchone()
    return value_of(str, row)


RECORD_PLAY: Final = Write(
    "insert into plays (session_key, show, topic, name, status, agent, model, started_at, finished_at, depends_on, further,"
    " created_at, updated_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?12, ?12) on conflict (session_key) do update"
    " set status = excluded.status, agent = excluded.agent, model = excluded.model, started_at = excluded.started_at,"
    " finished_at = excluded.finished_at, depends_on = excluded.depends_on, further = excluded.further,"
    " updated_at = excluded.updated_at"
)


def _record(batch: Batch, job: Job, effect: RecordPlay) -> None:
    meta = effect.meta
    depends_on = stored_json(meta.depends_on).decode()
    further = None if meta.further is None else stored_json(meta.further).decode()
    times = (meta.started_at, meta.finished_at)
    whose = (effect.session_key, effect.show, effect.topic, effect.name)
    batch.row(
        RECORD_PLAY, (*whose, meta.status, meta.agent, meta.model, *times, depends_on, further, effect.at)
    )


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.shows import RecordPlay

    return Table(
        writes=(RECORD_PLAY,),
        appliers={RecordPlay: _record},
        goes_with_session=("delete from plays where session_key = ?",),
        moved=("update shows set path = moved(path)", "update plays set show = moved(show)"),
    )
