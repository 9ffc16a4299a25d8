"""The daemon's questions to its own store: one query for a whole batch, never one a row."""

import json
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final, NamedTuple

from pydantic import TypeAdapter

from runward.daemon.store.chain import GENESIS_HEAD, Head
from runward.daemon.store.pruning import attempts_of
from runward.daemon.store.rows import Job, OwedLine
from runward.daemon.store.store import Store
from runward.daemon.store.transaction import Row, Statement, Value
from runward.daemon.store.values import as_bytes, as_float, as_int, listed
from runward.handlers.events import HookKind, UnknownEvent, load_payload
from runward.handlers.facts import (
    Cancellation,
    HookDeclaration,
    JobState,
    Launch,
    LinkedSession,
    LinkedSessions,
    Produced,
    ProducedFiles,
    RunProcesses,
    Session,
)
from runward.handlers.layouts.scanner import RecordedProcess, Signature
from runward.handlers.route import BACKGROUND
from runward.handlers.sessions.observe import NEVER_SEEN, read_watched

TAKE_BACK: Final = (
    "update jobs set state = 'waiting', token = null, epoch = ?, updated_at = ?"
    " where state = 'running' and epoch < ?"
)
CLAIM: Final = "update jobs set state = 'running', token = ?, epoch = ? where id = ? and state = 'waiting'"
RETRY_NOW: Final = "update jobs set run_after = ? where state = 'waiting' and tries > 0 and run_after > ?"
HOLD: Final = "update jobs set state = 'held', error = ?, updated_at = ? where id = ? and state = 'waiting'"
LINE_STANDS: Final = (
    'update journal_lines set "offset" = ?, places = ?, why = ?'
    ' where id = ? and "offset" is null and why is null'
)
CANCELLATION_DONE: Final = "update cancellations set carried_out_at = ?, told = ?, outcome = ? where event = ? and carried_out_at is null"
_BACKGROUND: Final = f"{BACKGROUND}*"
"""The lanes in the background, as `glob` has it."""
_MAY_RUN: Final = (
    "select j.id, j.event, e.type, e.version, e.payload, e.hash, e.depth, j.handler, j.lane, j.tries"
    " from jobs j join events e on e.seq = j.event"
    " where j.state in ('waiting', 'held') and j.state = 'waiting' and j.run_after <= ?1 and not exists ("
    "  select 1 from jobs b where b.lane = j.lane and b.id < j.id"
    "  and b.state in ('waiting', 'held') and (b.state = 'held' or b.run_after > ?1))"
)
_DUE: Final = f"{_MAY_RUN} and j.lane not glob ?2 order by +j.id limit ?3"
_DUE_IN_BACKGROUND: Final = (
    f"{_MAY_RUN} and j.lane glob ?2 and coalesce(e.payload ->> 'produced_bytes', 0) <= ?4"
    " order by j.lane, j.id limit ?3"
)
ROOT_SEEN: Final = (
    "insert into roots (name, path, layout, first_seen_at) values (?, ?, ?, ?)"
    " on conflict (name) do update set path = excluded.path, layout = excluded.layout,"
    " identity = case when path = excluded.path then identity end"
)


_PROCESSES: Final = TypeAdapter(RunProcesses)
_DECLARED: Final = TypeAdapter(HookDeclaration)
_SIGNATURE: Final = TypeAdapter(Signature)


_ANCESTORS: Final = TypeAdapter(tuple[RecordedProcess, ...])
_AGENTS: Final = MappingProxyType({"claude-code": 1, "codex": 0})


async def hook_declarations(store: Store, keys: Iterable[str]) -> dict[str, HookDeclaration]:
    """What was declared for these sessions when their hooks told of their first prompts, by session key."""
    rows = await store.read(
        "select session_key, declared from hooks"
        " where session_key in (select value from json_each(?)) and declared is not null",
        (listed(keys),),
    )
    return {str(key): _DECLARED.validate_json(str(text)) for key, text in rows}


async def linked_sessions(store: Store, launchers: Iterable[str]) -> dict[str, LinkedSessions]:
    """The sessions that were started in these launchers' runs, by the launcher's key; mostly there are none."""
    rows = await store.read(
        "select l.launcher, s.key, s.status, s.reason_code, s.reason_summary from links l"
        " join sessions s on s.key = l.linked"
        " where l.launcher in (select value from json_each(?)) order by s.key",
        (listed(launchers),),
    )
    found: dict[str, LinkedSessions] = {}
    for launcher, *session in rows:
        before = found.get(str(launcher), LinkedSessions())
        found[str(launcher)] = LinkedSessions((*before.sessions, LinkedSession(*session)))  # type: ignore[arg-type] # the schema's own types
    return found


async def announced_sessions(store: Store, launchers: Iterable[str]) -> list[tuple[str, str]]:
    """The sessions that weren't read yet and whose hooks named these launched runs, each with the run's id."""
    rows = await store.read(
        "select h.launcher_session, h.session_key from hooks h"
        " where h.launcher_session in (select value from json_each(?))"
        " and not exists (select 1 from links l join sessions s on s.key = l.linked where l.linked = h.session_key)"
        " order by h.session_key",
        (listed(launchers),),
    )
    return [(str(launcher), str(key)) for launcher, key in rows]


async def has_links(store: Store) -> bool:
    """Whether any session was ever started in a launcher's run, as far as that was told."""
    ((found,),) = await store.read(
        "select exists (select 1 from links) or exists (select 1 from hooks where launcher_session is not null)"
    )
    return bool(found)


class Hook(NamedTuple):
    """What a session's hook said last: when (Unix seconds), what, under which processes, and in which launched run."""

    at: float
    kind: HookKind
    ancestors: tuple[RecordedProcess, ...]
    launcher_session: str | None

    def agent(self, layout: str) -> RecordedProcess | None:
        """Who of them is the agent, by how its tool calls hooks: Claude Code through a shell, Codex itself."""
        place = _AGENTS.get(layout)
        return self.ancestors[place] if place is not None and place < len(self.ancestors) else None


class OwedCancellation(NamedTuple):
    """A row of `cancellations` that is still to be carried out."""

    event: int
    key: str
    directory: str
    processes: RunProcesses
    said_by: str
    reason: str


async def head(store: Store) -> Head:
    """The end of the chain of events: the next one follows it."""
    last = await store.read(
        "select * from (select seq, hash from events order by seq desc limit 1)"
        " union all select * from (select last, hash from absent_events order by last desc limit 1) order by 1 desc"
    )
    return Head(as_int(last[0][0]), str(last[0][1])) if last else GENESIS_HEAD


async def take_back(store: Store, now: float) -> int:
    """Free what a daemon before this one had claimed; returns how many jobs were stolen so."""
    ((stolen,),) = await store.read(
        "select count(*) from jobs where state = 'running' and epoch < ?", (store.epoch,)
    )
    if stolen:
        await store.run([Statement(TAKE_BACK, [(store.epoch, now, store.epoch)])], "take_back")
    return as_int(stolen)


async def open_lanes(store: Store) -> dict[str, int]:
    """The lanes in which jobs wait or are held, with how many, but for those in the background."""
    rows = await store.read(
        "select lane, count(*) from jobs where state in ('waiting', 'held') and lane not glob ? group by lane",
        (_BACKGROUND,),
    )
    return {str(lane): as_int(count) for lane, count in rows}


async def next_due(store: Store) -> float | None:
    """When the next job at the head of its lane is due in the foreground (Unix seconds); None where none waits."""
    ((due,),) = await store.read(
        "select min(run_after) from jobs j where state in ('waiting', 'held') and state = 'waiting'"
        " and lane not glob ? and not exists ("
        "select 1 from jobs b where b.lane = j.lane and b.id < j.id and b.state in ('waiting', 'held'))",
        (_BACKGROUND,),
    )
    return None if due is None else float(due)


async def next_due_in_background(store: Store, after: float) -> float | None:
    """When the first job in the background after this moment is due (both Unix seconds)."""
    ((due,),) = await store.read(
        "select min(run_after) from jobs where state in ('waiting', 'held') and state = 'waiting'"
        " and lane glob ? and run_after > ?",
        (_BACKGROUND, after),
    )
    return None if due is None else float(due)


class Due(NamedTuple):
    """Jobs that may run now; and those whose event can't be read, with the reason."""

    jobs: list[Job]
    broken: list[tuple[int, str]]


async def due_jobs(store: Store, now: float, limit: int) -> Due:
    """What may run now in the foreground, in order."""
    return _due(await store.read(_DUE, (now, _BACKGROUND, limit)))


async def due_in_background(store: Store, now: float, limit: int, most_bytes: float) -> Due:
    """What may run now in the background, where no more than so many bytes are to be read for it."""
    return _due(await store.read(_DUE_IN_BACKGROUND, (now, _BACKGROUND, limit, most_bytes)))


def _due(rows: Iterable[Row]) -> Due:
    jobs, broken = [], []
    for number, seq, kind, version, payload, digest, depth, handler, lane, tries in rows:
        try:
            event = load_payload(str(kind), as_int(version), str(payload))
        except UnknownEvent as error:
            broken.append((as_int(number), str(error)))
            continue
        jobs.append(
            Job(
                as_int(number),
                as_int(seq),
                event,
                str(digest),
                as_int(depth),
                str(handler),
                str(lane),
                as_int(tries),
            )
        )
    return Due(jobs, broken)


async def produced(store: Store, attempts: Iterable[tuple[str, int]]) -> dict[tuple[str, int], ProducedFiles]:
    """What these attempts had produced when they were judged, by session key and attempt."""
    rows = await store.read(
        "select a.session_key, a.attempt, s.artifacts_path, s.path, a.produced from json_each(?) asked"
        " join attempts a on a.session_key = asked.value ->> 0 and a.attempt = asked.value ->> 1"
        " join sessions s on s.key = a.session_key where a.produced is not null",
        (listed(attempts),),
    )
    return {
        (str(key), as_int(attempt)): ProducedFiles(
            str(artifacts_path), str(path), tuple(Produced(*each) for each in json.loads(str(text)))
        )
        for key, attempt, artifacts_path, path, text in rows
    }


async def states_under(store: Store, numbers: Iterable[int]) -> dict[int, tuple[str, str | None]]:
    """The state and token of each of these jobs: how an uncertain commit is found out."""
    rows = await store.read(
        "select id, state, token from jobs where id in (select value from json_each(?))",
        (listed(numbers),),
    )
    return {
        as_int(number): (str(state), None if token is None else str(token)) for number, state, token in rows
    }


async def job_states(store: Store, numbers: Iterable[int]) -> dict[int, JobState]:
    """How each of these jobs stands; those that don't exist are left out."""
    states = await states_under(store, numbers)
    return {number: JobState(state) for number, (state, _) in states.items()}


async def known_events(store: Store, keys: Iterable[str]) -> frozenset[str]:
    """Those of the keys under which an event is recorded, or was before it was pruned."""
    asked = list(keys)
    attempts = attempts_of(asked)
    # One question, for a verdict waits for its answer.
    rows = await store.read(
        "select key, null from events where key in (select value from json_each(?1)) union all"
        " select session_key, attempt from tombstones where session_key in (select value from json_each(?2))",
        (listed(asked), listed({session for session, _ in attempts.values()})),
    )
    recorded = {str(key) for key, attempt in rows if attempt is None}
    pruned = {str(session): as_int(attempt) for session, attempt in rows if attempt is not None}
    return frozenset(recorded).union(
        key for key, (session, attempt) in attempts.items() if attempt <= pruned.get(session, 0)
    )


async def sessions(store: Store, keys: Iterable[str]) -> dict[str, Session]:
    """The sessions with these keys, as handlers see them."""
    rows = await store.read(
        "select key, session_id, layout, path, status, attempt, artifacts_path, artifact_contract_json,"
        " playbook, agent, started_at, origin, contract_problem, folded, contract_basis from sessions where key in (select value from json_each(?))",
        (listed(keys),),
    )
    return {str(row[0]): Session(*row) for row in rows}  # type: ignore[arg-type] # the schema's own types


async def launches(store: Store, keys: Iterable[str]) -> dict[str, Launch]:
    """What the launchers of these sessions' runs recorded last, by session key."""
    rows = await store.read(
        "select session_key, at, seal, contract_json, launcher, process from json_each(?) asked"
        " join launches on session_key = asked.value order by at, launches.rowid",
        (listed(keys),),
    )
    return {
        str(key): Launch(
            as_float(at),
            str(seal),
            None if contract is None else str(contract),
            RecordedProcess(*json.loads(str(launcher))),
            RecordedProcess(*json.loads(str(process))),
        )
        for key, at, seal, contract, launcher, process in rows
    }


async def cursors(store: Store, keys: Iterable[str]) -> dict[str, str]:
    """What is remembered of these run directories, by cursor key."""
    rows = await store.read(
        "select key, cast(state as blob) from cursors where key in (select value from json_each(?))",
        (listed(keys),),
    )
    return {str(key): _text(state) for key, state in rows}


def _text(stored: Value) -> str:
    """A text that was read as bytes: one that was damaged must not keep all others of its query from being read."""
    return as_bytes(stored).decode(errors="replace")


def _signature(text: Value) -> Signature | None:
    """What a place's file was like; None, after which it is read again, where that was not stored or can't be read."""
    try:
        return None if text is None else _SIGNATURE.validate_json(_text(text))
    except ValueError:
        return None


class KnownPlace(NamedTuple):
    """What the store knows of a place: its session (None: it is none), and what its file was like, read to its end."""

    session_key: str | None
    signature: Signature | None


async def places(store: Store, keys: Iterable[str]) -> dict[str, KnownPlace]:
    """What is known of these places (`root/place`), by their keys; those that were never seen are left out."""
    rows = await store.read(
        "select key, session_key, cast(signature as blob) from places where key in (select value from json_each(?))",
        (listed(keys),),
    )
    return {
        str(key): KnownPlace(
            None if session is None else str(session),
            _signature(text),
        )
        for key, session, text in rows
    }


async def places_beside(store: Store, keys: Iterable[str]) -> list[tuple[str, str]]:
    """The other places, with their roots, of the sessions that were seen at these (`root/place`)."""
    rows = await store.read(
        "select other.root, other.place from places join places other on other.session_key = places.session_key"
        " where places.key in (select value from json_each(?)) and other.key != places.key",
        (listed(keys),),
    )
    return [(str(root), str(place)) for root, place in rows]


async def places_of(store: Store, sessions: Iterable[str]) -> list[tuple[str, str]]:
    """The places, with their roots, at which these sessions were seen."""
    rows = await store.read(
        "select root, place from places where session_key in (select value from json_each(?))",
        (listed(sessions),),
    )
    return [(str(root), str(place)) for root, place in rows]


async def places_read(store: Store, root: str) -> list[tuple[str, Signature]]:
    """The places in a root whose files were read to their ends, each with what they were like then."""
    rows = await store.read(
        "select place, cast(signature as blob) from places where root = ? and signature is not null", (root,)
    )
    read = [(str(place), _signature(text)) for place, text in rows]
    return [(place, signature) for place, signature in read if signature is not None]


async def hooks(store: Store, keys: Iterable[str]) -> dict[str, Hook]:
    """What the hooks of these sessions said last, by session key."""
    rows = await store.read(
        "select session_key, at, kind, cast(ancestors as blob), launcher_session from hooks"
        " where session_key in (select value from json_each(?))",
        (listed(keys),),
    )
    return {
        str(key): Hook(
            as_float(at),
            kind,  # type: ignore[arg-type] # the schema's own words
            _ancestors(ancestors),
            None if launcher is None else str(launcher),
        )
        for key, at, kind, ancestors, launcher in rows
    }


def _ancestors(stored: Value) -> tuple[RecordedProcess, ...]:
    """The processes that a hook ran under; none are known where that can't be read."""
    try:
        return _ANCESTORS.validate_json(_text(stored))
    except ValueError:
        return ()


async def processes_of(store: Store, keys: Iterable[str]) -> dict[str, RunProcesses]:
    """Whom the files of these sessions' runs name, as it is remembered from the last look."""
    places = {key.partition(":")[2]: key for key in keys}
    found = {}
    for place, text in (await cursors(store, places)).items() if places else ():
        watched = read_watched(text) or NEVER_SEEN  # whose files name nobody, as far as is known
        found[places[place]] = RunProcesses(watched.launcher, watched.process, watched.host)
    return found


async def cancellations_of(store: Store, keys: Iterable[str]) -> dict[tuple[str, int], Cancellation]:
    """The last order to end each attempt of these sessions whose process was told, may have been, or will be."""
    rows = await store.read(
        "select session_key, attempt, said_by, reason, carried_out_at is null from cancellations"
        " where session_key in (select value from json_each(?)) and told is not 0 order by event",
        (listed(keys),),
    )
    return {
        (str(key), as_int(attempt)): Cancellation(str(said_by), str(reason), bool(is_owed))
        for key, attempt, said_by, reason, is_owed in rows
    }


async def owed_cancellations(store: Store) -> list[OwedCancellation]:
    """The orders to end runs that are not carried out yet, in order."""
    rows = await store.read(
        "select event, session_key, directory, cast(processes as blob), said_by, reason from cancellations"
        " where carried_out_at is null order by event"
    )
    return [
        OwedCancellation(
            as_int(event),
            str(key),
            str(directory),
            _named(named),
            str(said_by),
            str(reason),
        )
        for event, key, directory, named, said_by, reason in rows
    ]


def _named(stored: Value) -> RunProcesses:
    """Whom an order is for; nobody, which its outcome says, where that can't be read."""
    try:
        return _PROCESSES.validate_json(_text(stored))
    except ValueError:
        return RunProcesses(None, None, None)


class OpenCursor(NamedTuple):
    """A place with an open attempt, whose it is, and what is remembered."""

    root: str
    place: str
    session_key: str
    state: str


async def open_cursors(store: Store) -> list[OpenCursor]:
    """Every place with an open attempt."""
    rows = await store.read(
        "select root, directory, session_key, cast(state as blob) from cursors where phase = 'open'"
    )
    return [OpenCursor(str(root), str(place), str(key), _text(state)) for root, place, key, state in rows]


async def roots_seen(store: Store) -> dict[str, float]:
    """When each root was first seen (Unix seconds), by name."""
    rows = await store.read("select name, first_seen_at from roots")
    return {str(name): as_float(at) for name, at in rows}


async def root_identities(store: Store) -> dict[str, str | None]:
    """Which directory each root is, by name; None where that was never recorded."""
    rows = await store.read("select name, identity from roots")
    return {str(name): None if identity is None else str(identity) for name, identity in rows}


async def owes_of_root(store: Store, root: str) -> bool:
    """Whether anything is still to be decided of a session that was seen in this root."""
    rows = await store.read(
        "select 1 from (select lane from jobs where state in ('waiting', 'held')"
        "  union all select lane from jobs where state = 'running') j"
        " join cursors c on c.session_key = j.lane where c.root = ? limit 1",
        (root,),
    )
    return bool(rows)


async def known_in_root(store: Store, root: str, most: int) -> list[OpenCursor]:
    """Places that were seen in this root, with what is remembered of them: at most so many, and those seen last first."""
    rows = await store.read(
        "select root, directory, session_key, cast(state as blob) from cursors where root = ? order by rowid desc limit ?",
        (root, most),
    )
    return [OpenCursor(str(name), str(place), str(key), _text(state)) for name, place, key, state in rows]


async def owed_lines(store: Store, directories: Iterable[str] | None = None) -> list[OwedLine]:
    """What is owed to the journals in these directories, or to all, and may have been carried out already.

    Each is looked for in the whole of its journal. Where older lines stood tells nothing: the run's directory
    may have been made again since.
    """
    rows = await store.read(
        "select o.id, o.event, e.lane, o.directory, o.name, o.content, o.live"
        " from outbox o join events e on e.seq = o.event"
        " where ?1 is null or o.directory in (select value from json_each(?1)) order by o.id",
        (None if directories is None else listed(directories),),
    )
    return [
        OwedLine(
            as_int(row[0]),
            as_int(row[1]),
            str(row[2]),
            str(row[3]),
            str(row[4]),
            as_bytes(row[5]),
            bool(row[6]),
            True,
        )
        for row in rows
    ]


async def still_owed(store: Store, numbers: Iterable[int]) -> frozenset[int]:
    """Those of these rows of the outbox that are not done yet."""
    rows = await store.read(
        "select id from outbox where id in (select value from json_each(?))", (listed(numbers),)
    )
    return frozenset(as_int(number) for (number,) in rows)
