"""Sessions as programs read them: the objects of `session list --json` and `session show --json`."""

import os
import shlex
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue, objects
from runward.config.notification import ENDED
from runward.config.root import NATIVE
from runward.config.settings import Settings
from runward.daemon.rundir.changes import last_change
from runward.daemon.rundir.opening import NotRegular, held, open_in_run
from runward.daemon.store.tables import session_lists, sessions
from runward.daemon.store.tables.artifacts import Wanted, artifacts
from runward.daemon.store.tables.files import KeptFile, kept_files
from runward.daemon.store.tables.problems import problems
from runward.daemon.store.tables.sessions import (
    SessionRow,
    StatusChange,
    about_of,
    contract_of,
    rules_of,
    verification_of,
)
from runward.daemon.views.text import ago, duration, fields, local
from runward.daemon.views.unjudged import as_its_files_tell, unjudged, unjudged_called
from runward.handlers.foreign_json import NotJson, read_json

_LONGEST: Final = 1 << 20


class LaunchedCommand(NamedTuple):
    """None where `run.json` doesn't say it."""

    words: list[str] | None = None
    cwd: str | None = None

    @property
    def command(self) -> str | None:
        """The command as a shell would read it."""
        return shlex.join(self.words) if self.words else None


def launched_command(row: SessionRow) -> LaunchedCommand:
    """What the `run.json` of a native run says now: the run may have changed it. Nothing for other sessions."""
    if row.layout != NATIVE:
        return LaunchedCommand()
    try:
        with held(open_in_run(row.path, "run.json")) as descriptor:
            content = os.pread(descriptor, _LONGEST, 0)
    except (OSError, NotRegular):
        return LaunchedCommand()
    value = read_json(content)
    if isinstance(value, NotJson) or not isinstance(value, dict):
        return LaunchedCommand()
    cwd = value.get("cwd")
    return LaunchedCommand(_words(value.get("command")), cwd if isinstance(cwd, str) else None)


def _words(command: JsonValue) -> list[str] | None:
    if not isinstance(command, list):
        return None
    return [each for each in command if isinstance(each, str)] or None


SESSION_STATUSES: Final = ("running", *ENDED)


def details_of(
    row: SessionRow,
    history: Sequence[StatusChange],
    kept: Sequence[KeptFile],
    outcomes: Sequence[JsonValue],
) -> dict[str, JsonValue]:
    """A session with its contract, its verification, its outcomes and its timeline."""
    changes: list[JsonValue] = [fields(each, "at status reason_code source") for each in history]
    launched = launched_command(row)
    summary = row.as_json(kept)
    words: list[JsonValue] | None = None if launched.words is None else [*launched.words]
    return {
        **summary,
        "cwd": summary["cwd"] or launched.cwd,
        "command": words,
        "contract": contract_of(row),
        "verification": verification_of(row),
        "rules": rules_of(row),
        "artifacts": [*outcomes],
        "history": changes,
    }


def newest_sessions(
    connection: sqlite3.Connection, settings: Settings, wanted: session_lists.Wanted, limit: int
) -> tuple[list[SessionRow], bool]:
    """The newest `limit` sessions (0: all) that are wanted, and whether there are more. Those not judged yet are among them."""
    most = limit + 1 if limit else None
    fresh = unjudged(connection, settings, most)
    cwds = session_lists.working_directories(connection, [row.key for row in fresh]) if wanted.cwd else {}
    fresh = [row for row in fresh if wanted.has(row._replace(cwd=row.cwd or cwds.get(row.key)))]
    # A run whose end is not judged yet is also recorded as running: its files know more, so it is listed once, by them.
    known = {row.key for row in fresh}
    rows = [row for row in session_lists.sessions(connection, wanted, most) if row.key not in known]
    rows = sorted([*fresh, *rows], key=lambda row: (-row.started_at, row.key))
    is_cut = bool(limit) and len(rows) > limit
    return (rows[:limit] if is_cut else rows), is_cut


def session_with_key(connection: sqlite3.Connection, settings: Settings, key: str) -> SessionRow | None:
    """The session of this very key, also one that is not judged yet. None if there is none."""
    row = sessions.session(connection, key)
    if row is not None:
        return as_its_files_tell(connection, settings, row)
    name = key.rpartition("/")[2]
    return next((each for each in unjudged_called(connection, settings, name) if each.key == key), None)


def sessions_as_json(
    connection: sqlite3.Connection, settings: Settings, rows: Sequence[SessionRow]
) -> list[JsonValue]:
    """What a list says of each of these sessions, without what looks like a secret."""
    from runward.handlers.secrets import json_without_secrets  # a list for people shows no text of a run

    keys = [row.key for row in rows]
    kept, steps = kept_files(connection, keys), session_lists.steps_of_sessions(connection, keys)
    sessions: list[JsonValue] = [
        {
            **row.as_json(kept.get(row.key, [])),
            "chain": steps[row.key].as_json() if row.key in steps else None,
        }
        for row in rows
    ]
    _add_usage(connection, settings, sessions)
    listed = json_without_secrets(sessions, settings.bundle.rules.redact)
    assert isinstance(listed, list)
    return listed


def orderer_of(connection: sqlite3.Connection, key: str) -> dict[str, JsonValue] | None:
    """Which host ordered a session from this one, and for what, as `ordered_by` has it; None if no other host did."""
    if connection.execute("select 1 from orders_taken where session_key = ?", (key,)).fetchone() is None:
        return None
    from runward.daemon.views.ordered import ordered_by  # nothing for sessions of this host

    return ordered_by(connection, key)


def session_as_json(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, report: Callable[[str], None]
) -> dict[str, JsonValue]:
    """Everything that is known of a session, without what looks like a secret.

    `report` takes what keeps signatures from being checked.
    """
    from runward.daemon.views.bundles import bundle_json, shown_bundle
    from runward.handlers.secrets import without_secrets_in

    history = sessions.status_history(connection, row.key)
    kept = kept_files(connection, [row.key]).get(row.key, [])
    outcomes = artifacts(connection, Wanted(session=row.key))[::-1]
    bundle = shown_bundle(connection, settings, row)
    complaints: list[JsonValue] = [
        fields(each, "path line message fix") for each in problems(connection, row.path)
    ]
    details = details_of(row, history, kept, [each.as_json() for each in outcomes])
    details["ordered_by"] = orderer_of(connection, row.key)
    session = {**details, "bundle": bundle_json(bundle, settings, report), "problems": complaints}
    _add_usage(connection, settings, [session])
    return without_secrets_in(session, settings.bundle.rules.redact)


def _add_usage(connection: sqlite3.Connection, settings: Settings, sessions: list[JsonValue]) -> None:
    """Add to each session's tokens what was counted of its replies, and what that costs."""
    told = {str(each["key"]): each for each in objects(sessions) if each["usage"] is not None}
    if not told:
        return
    from runward.daemon.views.usage import usage_json, used_by  # runs of other programs name no tokens

    used = used_by(connection, settings, {key: key for key in told})
    for key, each in told.items():
        each["usage"] = usage_json(each["usage"], used.get(key))


def shown_cost(connection: sqlite3.Connection, settings: Settings, row: SessionRow) -> str | None:
    """What a session cost, as its page has it: of an estimate, at whose prices. None if no tokens of it are known."""
    if about_of(row).usage is None:
        return None
    from runward.daemon.views.usage import cost_in_words  # most runs name no tokens

    return cost_in_words(connection, settings, row.key)[0]


NOT_KNOWN: Final = "it is not known whether it still runs"


def is_unknown(row: SessionRow) -> bool:
    """Whether the record says `running` only because nobody saw the session's end."""
    return row.status == "running" and row.activity is None


def silence(row: SessionRow, now: float) -> str | None:
    """For how long nothing has been heard of it, which is the only evidence; None if that is not known."""
    heard = _heard_at(row, now)
    return None if heard is None else duration(max(0.0, now - heard))


def _heard_at(row: SessionRow, now: float) -> float | None:
    # A session in a database has no file of its own, and in a directory its log may be deeper: but then records have times.
    # A record may have any time: one that is yet to come says nothing.
    recorded = row.moved_at if row.moved_at is not None and row.moved_at <= now else None
    known = [at for at in (last_change(row.path), recorded) if at is not None]
    return max(known, default=None)


def activity_in_full(row: SessionRow, now: float) -> str:
    """What it is doing, for its page: that this is unknown, and how long it has been silent."""
    heard = _heard_at(row, now)
    sentence = f"unknown: {NOT_KNOWN}"
    return (
        sentence
        if heard is None
        else f"{sentence}; nothing has been heard since {local(heard)} ({ago(heard, now)})"
    )


def fix_of_unknown(layout: str) -> str:
    """What can be done about such a session, and about future ones."""
    if layout == NATIVE:
        return "write its exit.json; the next one should name its process in process.json"
    from runward.handlers.layouts.hooks import HOOKS  # a list doesn't need it

    fix = "`stale_after` of its root ends such a session after a silence"
    if layout not in HOOKS:
        return fix
    return f"{fix}; `runward hook install {layout}` makes the processes of later sessions known"


def why_not_cancelled(row: SessionRow) -> str | None:
    """What a session is that can't be cancelled, behind its name; None if it can."""
    if row.status != "running":
        return f"is {row.status}: only a running one can be cancelled"
    if row.layout != NATIVE:
        what = (
            "only what `runward run` or `runward play run` started can be cancelled: end the agent yourself"
        )
        return f"is of {row.layout}: {what}"
    return None
