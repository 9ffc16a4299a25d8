"""The replays that grow while their sessions run: how far each is written, but not its content."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from pydantic_core import from_json, to_json

from runward.config.bundle import BundleRules
from runward.daemon.store.reading_pruning import PROGRESS
from runward.daemon.store.store import Store
from runward.daemon.store.tables.table import Table, Write, answers_by
from runward.daemon.store.transaction import Row
from runward.daemon.store.values import as_int, listed, stored_text
from runward.handlers.model.bundle import BegunReplay, BegunReplayOf, Grown, Step
from runward.handlers.model.stored import Stored, as_json

GROW: Final = (
    "insert into replays (session_key, attempt, rules, issue_number, policy_bundle_id, steps, length, sha256, problem)"
    " select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 from sessions where key = ?1 and attempt = ?2 and status = 'running'"
    " on conflict (session_key, attempt) do update set steps = excluded.steps, length = excluded.length,"
    " sha256 = excluded.sha256, problem = excluded.problem"
)
"""What will be written. Once the attempt is over this changes nothing: the bundle's job writes the rest."""

GONE: Final = Write("delete from replays where session_key = ? and attempt = ?", exact=False)
"""The receipt of the whole replay is recorded."""

_RULES: Final = Stored(BundleRules)


class RunningReplay(NamedTuple):
    """A session that runs, where its files are, and what is written of its replay. `place` is root and place.

    `state` is what is remembered of its files. Without `begun` nothing was written. `actions` are those
    in the exchange that have their results. `problem` says why nothing more is.
    """

    place: str
    key: str
    session_id: str
    layout: str
    path: str
    attempt: int
    state: str
    begun: BegunReplay | None
    actions: int
    problem: str | None


async def running(store: Store, places: Iterable[str]) -> list[RunningReplay]:
    """The sessions at these places (root and place) that run, as the last look found them."""
    rows = await store.read(
        "select asked.value, s.key, s.session_id, s.layout, s.path, s.attempt, cast(c.state as blob),"  # noqa: S608 # our own words
        " r.rules, r.length, r.sha256, r.issue_number, r.policy_bundle_id, r.steps,"
        " coalesce(f.done, 0), r.problem from json_each(?) asked"
        " left join places p on p.key = asked.value"
        " join cursors c on c.key = coalesce(p.session_key, asked.value) and c.phase = 'open'"
        " join sessions s on s.key = c.session_key and s.status = 'running' and s.origin = 'live'"
        " left join replays r on r.session_key = s.key and r.attempt = s.attempt"
        f" left join {PROGRESS} f on f.session_key = s.key",
        (listed(places),),
    )
    found = []
    for place, key, session_id, layout, path, attempt, state, rules, *grown, actions, problem in rows:
        begun = None if rules is None else _begun(rules, *grown)
        told = None if problem is None else str(problem)
        found.append(
            RunningReplay(
                str(place),
                str(key),
                str(session_id),
                str(layout),
                str(path),
                as_int(attempt),
                stored_text(state),
                begun,
                as_int(actions),
                told,
            )
        )
    return found


async def lengths(store: Store, keys: Iterable[str]) -> dict[tuple[str, int], int]:
    """The recorded lengths of these sessions' replays, in bytes."""
    rows = await store.read(
        "select session_key, attempt, length from replays where session_key in (select value from json_each(?))",
        (listed(keys),),
    )
    return {(str(key), as_int(attempt)): as_int(length) for key, attempt, length in rows}


def grown_row(key: str, attempt: int, begun: BegunReplay, problem: str | None) -> Row:
    """The row for `GROW`."""
    grown = begun.grown
    return (
        key,
        attempt,
        as_json(begun.rules),
        grown.issue_number,
        grown.policy_bundle_id,
        to_json(grown.steps).decode(),
        grown.length,
        grown.sha256,
        problem,
    )


async def begun_replays(
    store: Store, attempts: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], BegunReplay]:
    """What was shown of the replays of these attempts, by session key and attempt."""
    rows = await store.read(
        "select r.session_key, r.attempt, r.rules, r.length, r.sha256, r.issue_number, r.policy_bundle_id, r.steps"
        " from json_each(?) asked join replays r on r.session_key = asked.value ->> 0 and r.attempt = asked.value ->> 1",
        (listed(attempts),),
    )
    return {(str(key), as_int(attempt)): _begun(*row) for key, attempt, *row in rows}


def _begun(
    rules: object, length: object, sha256: object, issue: object, policy: object, steps: object
) -> BegunReplay:
    grown = Grown(
        as_int(length),
        str(sha256),
        None if issue is None else as_int(issue),
        None if policy is None else str(policy),
        tuple(Step(*each) for each in from_json(str(steps))),
    )
    return BegunReplay(grown, _RULES.load(str(rules)))


REPLAYS: Final = Table(
    writes=(GONE,),
    answers={BegunReplayOf: answers_by(begun_replays, lambda asked: (asked.key, asked.attempt))},
    goes_with_session=("delete from replays where session_key = ?",),
)
