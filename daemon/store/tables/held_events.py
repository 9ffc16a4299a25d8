"""Events that chains' composite triggers hold until the other events have happened."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pydantic_core import to_json

from runward.config.json_value import JsonValue
from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Fold, Table, Write, answers_by
from runward.daemon.store.values import as_float, listed
from runward.handlers.model.chains import Held, HeldFor, HoldEvent, ReleaseEvents, ToldBy

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

HOLD: Final = Write(
    "insert into held_events (chain, key, at, items, trigger_hash, event, event_id, fields, by_run)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
RELEASE: Final = Write("delete from held_events where chain = ? and key = ?")


def _hold(batch: "Batch", job: Job, effect: HoldEvent) -> None:
    items, fields = json.dumps(effect.items), to_json(effect.fields).decode()
    said = (effect.chain, effect.key, effect.at, items, effect.trigger)
    batch.row(HOLD, (*said, effect.event, effect.event_id, fields, effect.by_run))


def _release(batch: "Batch", job: Job, effect: ReleaseEvents) -> None:
    for key in effect.keys:
        batch.row(RELEASE, (effect.chain, key))


async def held(store: Store, chains: Iterable[str]) -> dict[str, tuple[Held, ...]]:
    """The events that are held for these chains, in the order of their recording, by chain."""
    rows = await store.read(
        "select chain, key, at, items, trigger_hash, event, event_id, by_run from held_events"
        " where chain in (select value from json_each(?)) order by chain, id",
        (listed(chains),),
    )
    found: dict[str, tuple[Held, ...]] = {}
    for chain, key, at, items, trigger, event, identifier, by_run in rows:
        each = Held(
            *(str(key), as_float(at), tuple(json.loads(str(items))), str(trigger)),
            *(str(event), str(identifier), None if by_run is None else str(by_run)),
        )
        found[str(chain)] = (*found.get(str(chain), ()), each)
    return found


async def told(store: Store, chains: Iterable[str]) -> dict[str, Mapping[str, JsonValue]]:
    """The contents of the events that are held for these chains, by chain and key."""
    rows = await store.read(
        "select chain, key, fields from held_events where chain in (select value from json_each(?))",
        (listed(chains),),
    )
    found: dict[str, dict[str, JsonValue]] = {}
    for chain, key, fields in rows:
        found.setdefault(str(chain), {})[str(key)] = json.loads(str(fields))
    return dict(found)


def _with(known: tuple[Held, ...], effect: HoldEvent) -> tuple[Held, ...]:
    said = (effect.key, effect.at, effect.items, effect.trigger)
    return (*known, Held(*said, effect.event, effect.event_id, effect.by_run))


HELD_EVENTS: Final = Table(
    writes=(RELEASE, HOLD),
    appliers={HoldEvent: _hold, ReleaseEvents: _release},
    folds={
        HoldEvent: (
            Fold(lambda effect: HeldFor(effect.chain), _with),
            Fold(
                lambda effect: ToldBy(effect.chain), lambda told, effect: {**told, effect.key: effect.fields}
            ),
        ),
        ReleaseEvents: (
            Fold(
                lambda effect: HeldFor(effect.chain),
                lambda held, effect: tuple(each for each in held if each.key not in effect.keys),
            ),
        ),
    },
    answers={
        HeldFor: answers_by(held, lambda asked: asked.chain, ()),
        ToldBy: answers_by(told, lambda asked: asked.chain, {}),
    },
)
