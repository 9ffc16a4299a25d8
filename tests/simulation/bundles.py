"""The bundles of a history: what stands of them, held against what was recorded, shown, and called.

What was shown of a replay while its session ran is kept here, byte by byte, as anybody could have read it.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.simulation.broken import Broken
from tests.simulation.kernel import Kernel
from tests.simulation.places import Places
from tests.simulation.ports import OWN_KEY, journal_path

from runward.daemon.parts.drafting import LAST_SHOWN_IS_GONE, SHOWN_IS_GONE
from runward.handlers.bundle.orders import MOVED
from runward.handlers.bundle.parts import RECEIPT, REPLAY, part_name
from runward.handlers.bundle.signatures import named, signature_state
from runward.handlers.model.part import load_parts

if TYPE_CHECKING:
    from tests.simulation.universe import Universe

OWN_KEYS: Final = frozenset({named(OWN_KEY.key)})

ROWS: Final = (
    "select r.session_key, r.attempt, r.directory, r.parts, r.problem, r.place_problem,"
    " a.attempt > 1 and a.started_at = a.ended_at, exists (select 1 from signings s where s.session_key = r.session_key"
    "  and s.attempt = r.attempt and s.signature is not null)"
    " from receipts r left join attempts a on a.session_key = r.session_key and a.attempt = r.attempt"
    " where r.receipt_hash is not null and r.session_key not in (select session_key from tombstones) order by r.seq"
)
"""The bundles that are in their places, or should be."""


class ShownReplays:
    """All that could ever be read of replays that grew, by their paths."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._shown: dict[str, set[bytes]] = defaultdict(set)

    def look(self, directory: str, name: str) -> None:
        """Somebody reads the whole lines that stand there now."""
        path = journal_path(directory, name)
        if self._kernel.exists(path):
            content = self._kernel.content(path)
            self._shown[path].add(content[: content.rfind(b"\n") + 1])

    def of(self, path: str) -> set[bytes]:
        """What was read there."""
        return self._shown[path]


class _Bundle(NamedTuple):
    key: str
    attempt: int
    directory: str
    parts: str
    problem: str | None
    place_problem: str | None
    is_correction: bool
    is_signed: bool


def check_bundles(universe: "Universe", places: Places, was_away: Callable[[str], bool]) -> None:
    """Every part stands as it was recorded and begins with what was shown. No call is doubled or lost."""
    called: dict[str, Counter[str]] = defaultdict(Counter)
    seen: dict[str, set[str]] = defaultdict(set)
    unread: set[str] = set()
    for row in universe.peek(ROWS):
        bundle = _Bundle(*row)
        calls = _parts(universe, bundle, was_away)
        if calls is None:
            unread.add(bundle.key)
            continue
        seen[bundle.key] |= set(calls)
        if not bundle.is_correction:
            called[bundle.key].update(calls)
    for key, calls_of in called.items():
        is_by_time = _is_divided_by_time(universe, key)
        doubled = [
            each
            for each, times in calls_of.items()
            if times > 1 and not (universe.clock.stepped and is_by_time)
        ]
        if doubled and not _may_overlap(universe, key):
            raise Broken(f"calls of {key} are doubled: {doubled}")
    read = {key: ids for key, ids in seen.items() if key not in unread}
    _none_lost(universe, read)
    _none_of_runs_lost(universe, places, read)


def _may_overlap(universe: "Universe", key: str) -> bool:
    """Whether two attempts of a session may have the same calls, by what is left of its log.

    What a power cut took back may look like another attempt, that began before the one before it was over.
    """
    agent = universe.foreign_agents.by_key.get(key)
    return agent is not None and (agent.cut or agent.is_copied or agent.shaken or agent.deleted)


def _is_divided_by_time(universe: "Universe", key: str) -> bool:
    """Whether nobody knows where in the session's log one of its attempts began."""
    further = universe.peek(
        "select payload ->> 'log_before' from events where lane = ? and key like '%/started'"
        " and payload ->> 'attempt' > 1",
        (key,),
    )
    universe.tally.reached["attempts whose calls no clock divides"] += (
        bool(further) and (None,) not in further
    )
    return (None,) in further


def _parts(universe: "Universe", bundle: _Bundle, was_away: Callable[[str], bool]) -> list[str] | None:
    """The ids of the calls in the replay; None if the bundle may lack a part by right."""
    kernel, name = universe.kernel, f"{bundle.key}#{bundle.attempt}"
    parts = {each.name: each for each in load_parts(bundle.parts)}
    paths = {each: journal_path(bundle.directory, each) for each in parts}
    problem = bundle.place_problem
    if problem is not None and "kept as" not in problem and not problem.endswith(MOVED):
        return None
    if was_away(bundle.directory) or universe.harmed & set(paths.values()):
        return None
    for part, path in paths.items():
        if not kernel.exists(path):
            if part != part_name(RECEIPT, bundle.attempt) and _pruning_began(universe, bundle):
                return None
            raise Broken(f"{name} has no {part}, and nothing says why")
        is_signed = bundle.is_signed and part == part_name(RECEIPT, bundle.attempt)
        if not is_signed and hashlib.sha256(kernel.content(path)).hexdigest() != parts[part].sha256:
            raise Broken(f"{name} has another {part} than was recorded: {kernel.content(path)!r}")
    replay = kernel.content(paths[part_name(REPLAY, bundle.attempt)])
    receipt = json.loads(kernel.content(paths[part_name(RECEIPT, bundle.attempt)]))
    _begins_as_shown(universe, bundle, paths[part_name(REPLAY, bundle.attempt)], replay)
    events = [json.loads(line) for line in replay.splitlines()]
    if (events[0]["event"], events[-1]["event"]) != ("SessionStart", "SessionEnd"):
        raise Broken(f"{name} has a replay without its beginning or its end: {replay!r}")
    calls = [str(each["id"]) for each in events if each["event"] == "ToolCall"]
    if calls != [each["id"] for each in receipt["tool_calls"]]:
        raise Broken(f"{name} has {calls} in its replay, and others in its receipt: {receipt}")
    worth = signature_state(receipt, OWN_KEYS)
    if worth != ("valid" if universe.signs else "absent"):
        raise Broken(f"{name} has a receipt whose signature is {worth}: {receipt}")
    universe.tally.reached["a signed receipt"] += worth == "valid"
    universe.tally.reached["a bundle with a call"] += bool(calls)
    return calls


def _pruning_began(universe: "Universe", bundle: _Bundle) -> bool:
    """Whether a pruning may have removed replay and summary from Runward's own state, and then not the session's record.

    The files go first. If the store refuses the rest, the next daemon tries it again; but a session that has new work by
    then, such as a repair of its journal, is left for a later pruning.
    """
    asked = universe.peek(
        "select 1 from prunings p join sessions s on s.finished_at < p.before where s.key = ?", (bundle.key,)
    )
    return not bundle.directory.startswith("/") and bool(asked)


def _begins_as_shown(universe: "Universe", bundle: _Bundle, path: str, replay: bytes) -> None:
    """What anybody read while the session ran stands at the beginning, unless a problem says that it is gone.

    A store that was restored may have forgotten an attempt, and begins it again as another event with another hash.
    """
    if universe.lives.over:
        return
    if any(each in (bundle.problem or "") for each in (SHOWN_IS_GONE, LAST_SHOWN_IS_GONE)) or "kept as" in (
        bundle.place_problem or ""
    ):
        return
    for shown in universe.shown.of(path):
        if not replay.startswith(shown):
            raise Broken(f"of {path} was shown {shown!r}, but now it is {replay!r} ({bundle.problem})")
        universe.tally.reached["a replay that was shown before its end"] += 1
        universe.tally.reached["a call that was shown before its end"] += b'"ToolCall"' in shown


def _none_of_runs_lost(universe: "Universe", places: Places, seen: dict[str, set[str]]) -> None:
    """Each call that a run's trace told before its end is in a bundle of its session.

    Of a run that was judged because its process is gone, the trace may go on.
    """
    cut = {path for path, node in universe.kernel.files() if node.torn}
    if universe.lives.over:
        return
    statuses = dict(universe.peek("select key, status from sessions where origin = 'live'"))
    for key, place in places.by_key.items():
        if universe.clock.stepped and _is_divided_by_time(universe, key):
            continue
        is_odd = place.shaken or place.free or place.hidden or place.locked or place.odd or place.died
        if is_odd or key not in seen or statuses.get(key, "running") == "running":
            continue
        lost = place.called - seen[key]
        if lost and f"{place.path}/trace.jsonl" not in cut:
            raise Broken(f"calls of {key} are in no bundle: {sorted(lost)}")
        universe.tally.reached["a run whose every call is in a bundle"] += bool(place.called)


def _none_lost(universe: "Universe", seen: dict[str, set[str]]) -> None:
    """Each call that an agent's log tells is in a bundle of its session, once all its attempts are over.

    A clock that is set back may put calls before their own attempt, if only time divides them. A copy goes on in nobody's hands. What a power cut
    took back, or who came while nobody could look, may be told of another attempt.
    """
    if universe.lives.over:
        return
    statuses = dict(universe.peek("select key, status from sessions where origin = 'live'"))
    for key, agent in universe.foreign_agents.by_key.items():
        is_plain = not (agent.shaken or agent.is_copied or agent.cut or agent.free or agent.deleted)
        if not is_plain or key not in seen or statuses.get(key, "running") == "running":
            continue
        if universe.clock.stepped and _is_divided_by_time(universe, key):
            continue
        lost = agent.called() - seen[key]
        if lost:
            raise Broken(f"calls of {key} are in no bundle: {sorted(lost)}")
        universe.tally.reached["a session whose every call is in a bundle"] += bool(seen[key])
