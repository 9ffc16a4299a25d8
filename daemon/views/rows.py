"""Sessions and chain runs as the rows of a list: what waits, works and ended, as the terminal and the Studio show it.

A chain run is one row with its steps, and a launched run one row with the agent that was started in it.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from runward.config.json_value import JsonValue, objects
from runward.config.notification import ENDED
from runward.config.problem import shortened
from runward.config.root import NATIVE
from runward.config.settings import Settings
from runward.daemon.store.tables import session_lists
from runward.daemon.store.tables.sessions import SessionRow, about_of, session_rows, verification_of
from runward.daemon.views.sessions import launched_command
from runward.daemon.views.text import UNKNOWN
from runward.daemon.views.unjudged import NOT_JUDGED, unjudged

if TYPE_CHECKING:
    from runward.daemon.views.usage import Sum

STATES: Final = {"active": "working", "idle": "idle", "waiting": "waiting", None: "unknown"}
"""What a running session does, by its activity."""

OPEN_STATES: Final = ("waiting", "working", "unknown", "idle")
"""The states of what has not ended, in the order in which a person should see them."""

GOOD: Final = ("completed", "cancelled")
"""The ends of which no list says why."""
_AGENTS: Final = {"claude-code": "claude"}
"""What people call the agent of a layout, where that is not the layout's name."""

_LONGEST: Final = 4096
MOST_SHOWN: Final = 1000
"""Characters of a text that a row has. Secrets are looked for in more: one that is cut in two would not be found."""


CONTRACT_PROBLEM: Final = "contract?"
"""The remark on a session whose contract can't be used, or only in part."""


class Row(NamedTuple):
    """A row. Times are Unix seconds, `took` seconds.

    `purpose` is what it is for: chain and step, playbook, or agent. `what` is why it ended badly, what it asks, or what it
    was given; `is_within` says whether that is better read after the directory, and `remark` what else to know of it. `key`
    names it for certain, `approval` what it waits for. `cost` is in dollars, None if no tokens of it are known. `model` is the
    one that was used last.
    """

    noun: Literal["session", "chain run"]
    state: str
    id: str
    key: str
    purpose: str | None
    at: float
    took: float
    what: str
    directory: str | None = None
    is_within: bool = False
    remark: str = ""
    usage: JsonValue = None
    approval: str | None = None
    cost: str | None = None
    model: str | None = None

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


class Listing(NamedTuple):
    """What has not ended, in the order of its states, then what ended, the newest first; and whether more ended."""

    open: list[Row]
    ended: list[Row]
    is_cut: bool

    @property
    def rows(self) -> list[Row]:
        return [*self.open, *self.ended]


def listing(
    connection: sqlite3.Connection,
    settings: Settings,
    wanted: session_lists.Wanted,
    limit: int,
    now: float,
    *,
    has_steps: bool = False,
    has_each: bool = False,
) -> Listing:
    """The sessions that are wanted, as rows: `limit` of those that ended (0: all), and all that did not.

    With `has_steps`, each step of a chain is a row instead of the chain run; with `has_each`, an agent that was started
    in a launched run is one, too. A filter speaks of sessions, so with one of its own every session is a row.
    """
    is_filtered = wanted._replace(since=None) != session_lists.EVERY
    wanted = wanted._replace(
        is_no_step=not has_steps and not is_filtered, is_unlinked=not has_each and not is_filtered
    )
    most = limit + 1 if limit else None
    sessions = _sessions(connection, settings, wanted, most)
    runs: list[Row] = []
    if wanted.is_no_step:
        from runward.daemon.views.chain_rows import chain_rows  # with a filter, no chain run is shown

        runs = chain_rows(connection, settings, wanted.since, most, now)
    rows = [*session_rows_of(connection, settings, sessions, now, is_alone=not wanted.is_unlinked), *runs]
    ended = sorted((row for row in rows if not row.is_open), key=lambda row: (-row.at, row.key))
    is_cut = bool(limit) and len(ended) > limit
    still = [row for row in rows if row.is_open]
    still.sort(key=lambda row: (OPEN_STATES.index(row.state), -row.at, row.key))
    return Listing(still, ended[:limit] if is_cut else ended, is_cut)


def _sessions(
    connection: sqlite3.Connection, settings: Settings, wanted: session_lists.Wanted, most: int | None
) -> list[SessionRow]:
    """All that are open, and the newest of those that ended; also those that are not judged yet."""
    fresh = unjudged(connection, settings, most)
    keys = [row.key for row in fresh]
    cwds = session_lists.working_directories(connection, keys) if wanted.cwd else {}
    hidden = session_lists.shown_with_others(connection, wanted, keys)
    fresh = [
        row
        for row in fresh
        if row.key not in hidden and wanted.has(row._replace(cwd=row.cwd or cwds.get(row.key)))
    ]
    known = {row.key for row in fresh}
    recorded: list[SessionRow] = []
    for statuses, limit in ((("running",), None), (ENDED, most)):
        chosen = tuple(each for each in statuses if not wanted.statuses or each in wanted.statuses)
        if chosen:
            recorded += session_lists.sessions(connection, wanted._replace(statuses=chosen), limit)
    return [*fresh, *(row for row in recorded if row.key not in known)]


def session_rows_of(
    connection: sqlite3.Connection,
    settings: Settings,
    sessions: Sequence[SessionRow],
    now: float,
    *,
    is_alone: bool = False,
) -> list[Row]:
    """These sessions as rows, each with the agent that was started in it, unless it `is_alone`."""
    agents = {} if is_alone else _agents(connection, sessions)
    places = session_lists.steps_of_sessions(connection, [row.key for row in sessions])
    used = _used(connection, settings, [agents.get(row.key, row) for row in sessions])
    return [
        _row(settings, row, agents.get(row.key), places.get(row.key), now)._replace(
            cost=_cell(used, agents.get(row.key, row))
        )
        for row in sessions
    ]


def _used(
    connection: sqlite3.Connection, settings: Settings, sessions: Sequence[SessionRow]
) -> "dict[str, Sum]":
    """What these sessions used, by key, of those whose tokens are known."""
    keys = [row.key for row in sessions if about_of(row).usage is not None]
    if not keys:
        return {}
    from runward.daemon.views.usage import used_by  # most runs name no tokens

    return used_by(connection, settings, {key: key for key in keys})


def _cell(used: "Mapping[str, Sum]", session: SessionRow) -> str | None:
    """The dollars in a list. None if no tokens are known."""
    found = used.get(session.key)
    if found is not None:
        return found.in_dollars()
    return None if about_of(session).usage is None else UNKNOWN


def cost_of(connection: sqlite3.Connection, settings: Settings, key: str) -> str | None:
    """What a session cost, with the agent that was started in it, and at which prices; None if no tokens of it are known."""
    for row in session_rows(connection, [key]):
        agent = _agents(connection, [row]).get(row.key, row)
        used = _used(connection, settings, [agent])
        cell = _cell(used, agent)
        return f"{cell}{used[agent.key].at_prices()}" if cell and agent.key in used else cell
    return None


def _agents(connection: sqlite3.Connection, sessions: Sequence[SessionRow]) -> dict[str, SessionRow]:
    """The agent that was last started in each of these launched runs."""
    linked = {
        row.key: json.loads(row.linked) for row in sessions if row.layout == NATIVE and row.linked != "[]"
    }
    found = {
        row.key: row for row in session_rows(connection, [key for keys in linked.values() for key in keys])
    }
    agents: dict[str, SessionRow] = {}
    for key, others in linked.items():
        started = [found[each] for each in others if each in found and found[each].layout != NATIVE]
        if started:
            agents[key] = max(started, key=lambda row: (row.started_at, row.key))
    return agents


def _row(
    settings: Settings,
    row: SessionRow,
    agent: SessionRow | None,
    step: session_lists.StepOf | None,
    now: float,
) -> Row:
    about = about_of(agent or row)
    launched = launched_command(row)
    state = state_of(row)
    if agent is not None and row.status == "running" and state_of(agent) in OPEN_STATES[:2]:
        state = state_of(agent)  # the run goes on, and the agent in it says what it does
    purpose = f"{step.chain}/{step.step}" if step is not None else row.playbook or row.agent
    if row.status not in ("running", *GOOD):
        what = reason_in_short(row)
    elif about.prompt is not None:
        what = about.prompt
    else:
        what = _without_secrets(settings, launched.command or "")
    return Row(
        noun="session",
        state=state,
        id=row.session_id,
        key=row.key,
        purpose=purpose or agent_of(row.layout),
        at=row.started_at,
        took=max(0.0, (row.finished_at or now) - row.started_at),
        what=shortened(what, MOST_SHOWN),
        directory=about.cwd or launched.cwd,
        is_within=what == about.prompt,
        remark=NOT_JUDGED if row.not_judged_yet else CONTRACT_PROBLEM if row.contract_problem else "",
        usage=about.usage,
        model=about.model,
    )


def agent_of(layout: str) -> str | None:
    """What people call the agent whose sessions have this layout. None for launched runs."""
    return None if layout == NATIVE else _AGENTS.get(layout, layout)


def state_of(row: SessionRow) -> str:
    """What a session does, or how it ended."""
    return row.status if row.status != "running" else STATES[row.activity]


def _without_secrets(settings: Settings, text: str) -> str:
    if not text:
        return text
    from runward.handlers.secrets import (
        text_without_secrets,
    )  # most lists have prompts alone, which are clean

    return text_without_secrets(text[:_LONGEST], settings.bundle.rules.redact)


IN_SHORT: Final[Mapping[str, str]] = {
    "run.aborted.process_gone": "killed: its process is gone",
    "run.aborted.user": "interrupted",
    "run.aborted.vanished": "its directory vanished",
}
"""What some reasons are in a list, by their codes."""


def reason_in_short(row: SessionRow) -> str:
    """Why a session ended badly, in a few words."""
    verification = verification_of(row)
    if row.reason_code == "run.failed.missing_artifact" and isinstance(verification, dict):
        missing = [str(each.get("path")) for each in objects(verification.get("missing_required"))]
        if missing:
            return f"missing {', '.join(missing)}"
    return IN_SHORT.get(row.reason_code, row.reason_summary)
