"""What must hold of other tools' sessions once all is quiet."""

import json
from typing import TYPE_CHECKING, Final

from tests.simulation.agents import AGENT_ROOTS, Agent
from tests.simulation.broken import Broken
from tests.simulation.hooks import check_hooks, count_hooks

if TYPE_CHECKING:
    from tests.simulation.universe import Universe

SESSIONS: Final = "select key, session_id, status, reason_code, attempt, origin, path from sessions where layout != 'native'"

RARE_ROWS: Final[dict[str, str]] = {
    "another tool's session of before": "select count(*) from sessions where layout != 'native' and origin = 'history'",
    "another tool's session that was resumed": (
        "select count(*) from attempts a join sessions s on s.key = a.session_key"
        " where s.layout != 'native' and a.attempt > 1"
    ),
    "another tool's session whose process is gone": (
        "select count(*) from attempts a join sessions s on s.key = a.session_key"
        " where s.layout != 'native' and a.reason_code = 'run.aborted.process_gone'"
    ),
    "another tool's session that vanished": (
        "select count(*) from attempts a join sessions s on s.key = a.session_key"
        " where s.layout != 'native' and a.reason_code = 'run.aborted.vanished'"
    ),
    "a person's session that ended with its process": (
        "select count(*) from attempts a join sessions s on s.key = a.session_key"
        " where s.layout != 'native' and a.ended_by = 'process_gone' and a.status = 'completed'"
    ),
}


def check_agents(universe: "Universe") -> None:
    """Every session is recorded once, and stands as its files and its process say. Raises `Broken`."""
    rows = {row[0]: row for row in universe.peek(SESSIONS)}
    for key, agent in universe.foreign_agents.by_key.items():
        _session(universe, agent, rows.pop(key, None))
    if rows:
        raise Broken(f"foreign sessions that nobody began: {sorted(rows)}")
    mistakes = universe.peek(
        "select path, message from problems where message like '%because of a bug in Runward%'"
    )
    if mistakes:
        raise Broken(f"looks at sessions failed: {mistakes}")
    check_hooks(universe)
    _untouched(universe)
    _journals(universe)


def _session(
    universe: "Universe", agent: Agent, row: tuple[str, str, str, str, int, str, str] | None
) -> None:
    grew = universe.peek(
        "select 1 from roots where path = ? and grew_elsewhere_at is not null", (agent.root.path,)
    )
    fair = agent.fair(universe.clock.stepped, grew_elsewhere=bool(grew))
    if agent.free:
        return
    if row is None:
        if fair.is_there and not (agent.cut and _has_lost_its_name(universe, agent)):
            raise Broken(f"{agent.key} was never noticed: {fair}")
        return
    key, session_id, status, reason, attempt, origin, path = row
    if session_id != agent.tool.session:
        raise Broken(f"{key} has the id {session_id}")
    if (status, reason) not in fair.verdicts or not fair.least <= attempt <= fair.most:
        raise Broken(f"{key} is {status} ({reason}) in attempt {attempt}; fair is {fair}")
    if fair.is_there and not agent.is_copied and path != agent.path:
        raise Broken(f"{key} lies in {agent.path}, and is said to lie in {path}")
    if agent.root.history == "live" and not agent.shaken and not agent.is_copied and origin != "live":
        raise Broken(f"{key} is {origin} in a root that records no history")
    if _is_of_before(universe, agent) and origin != "history":
        raise Broken(f"{key} was over before anybody looked, and is {origin}")
    _attempts(universe, agent)


def _has_lost_its_name(universe: "Universe", agent: Agent) -> bool:
    """Whether power cuts left no line of its log that names the session: it can't be recognized."""
    left = [bytes(node.data) for path, node in universe.kernel.files() if path == agent.path]
    return not any(agent.tool.session.encode() in each for each in left)


def _attempts(universe: "Universe", agent: Agent) -> None:
    """A process that never ended ends no attempt, and what is told of an end says whether it is history."""
    for number, ended_by in universe.peek(
        "select attempt, ended_by from attempts where session_key = ? and ended_by is not null", (agent.key,)
    ):
        calm = not (agent.died or agent.shaken or agent.cut or universe.clock.stepped)
        if calm and ended_by != "declared":
            raise Broken(f"{agent.key} lives, but its attempt {number} was ended by {ended_by}")
    for key, payload in universe.peek(
        "select key, payload from events where lane = ? and type = 'SessionFinished'", (agent.key,)
    ):
        if _is_of_before(universe, agent) and json.loads(payload)["origin"] != "history":
            raise Broken(f"{key} is history, and was told of as if it were news")


def _is_of_before(universe: "Universe", agent: Agent) -> bool:
    """Whether it was over before its root was first seen, by the clock, which may have been set back in between."""
    seen = universe.peek("select first_seen_at from roots where name = ?", (agent.root.name,))
    return agent.stayed_at is not None and not agent.cut and all(agent.stayed_at < at for (at,) in seen)


def _untouched(universe: "Universe") -> None:
    """Nobody but agents writes anything into their directories."""
    for path, node in universe.kernel.files():
        if not path.startswith(tuple(root.path + "/" for root in AGENT_ROOTS)):
            continue
        strangers = {writer for writer, _ in node.pieces} - {"agent"}
        known = any(agent.tool.session in path for agent in universe.foreign_agents.by_key.values())
        if strangers or not known:
            raise Broken(f"{path} is an agent's, and was written by {strangers}")


def _journals(universe: "Universe") -> None:
    """What is history has no journal, and every other foreign session has one among our own state.

    After a restore, with their disk lost, nobody knows what stood in those of sessions whose record was pruned. A journal
    whose repair a person discarded stays as it is.
    """
    owned = {
        path.split("/")[5]
        for path, _ in universe.kernel.files()
        if path.startswith("/state/sessions/") and path.endswith("/events.jsonl")
    }
    pruned = {key for (key,) in universe.peek("select session_key from tombstones")}
    discarded = {
        key
        for (key,) in universe.peek(
            "select j.lane from jobs j where j.handler = 'journal/repair' and j.state = 'discarded'"
        )
    }
    lines = universe.peek(
        "select distinct s.key, j.directory, s.origin, s.attempt from journal_lines j"
        " join events e on e.seq = j.event join sessions s on s.key = e.lane where s.layout != 'native'"
    )
    for key, directory, origin, attempt in lines:
        if origin == "history" and attempt == 1:
            raise Broken(f"{key} is history, and has a journal in {directory}")
        is_lost = bool(universe.lives.over) and key in pruned
        if directory.rpartition("/")[2] not in owned and not is_lost and key not in discarded:
            raise Broken(f"{key} has its journal in {directory}, where no journal is")


def count_rare_sessions(universe: "Universe") -> None:
    """Note which rare paths the foreign sessions took."""
    count_hooks(universe)
    for path, question in RARE_ROWS.items():
        universe.tally.reached[path] += universe.peek(question)[0][0]
