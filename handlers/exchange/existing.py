"""Everything in the exchange: how an effect changes it, and what a list shows of it."""

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.model.exchange import (
    SCRIP,
    ExchangeEffect,
    Existing,
    KeepArtifact,
    KeepPrincipal,
    Post,
    described,
)

MOST_COMPARED: Final = 100_000
"""Artifacts that are compared for all views of an action together. If there are more, the views count as changed."""


class View(NamedTuple):
    """A list that an action saw, for the text that it asked about.

    What it shows of one artifact or principal doesn't depend on the others.
    """

    show: Callable[[Existing, str], JsonValue]
    text: str = ""

    def of(self, existing: Existing) -> JsonValue:
        """What it shows of this."""
        return self.show(existing, self.text)


def shows_the_same(views: Collection[View], before: Existing, now: Existing) -> bool:
    """Whether all views show what they showed before. Only what differs is looked at."""
    if before == now:
        return True
    old, new = ({each.id: each for each in existing.artifacts} for existing in (before, now))
    differing = {name for name in {**old, **new} if old.get(name) != new.get(name)}
    differing |= {*before.principals} ^ {*now.principals}
    if len(differing) * len(views) > MOST_COMPARED:
        return False
    parts = [
        existing._replace(artifacts=tuple(each for each in existing.artifacts if each.id in differing))
        for existing in (before, now)
    ]
    return all(view.of(parts[0]) == view.of(parts[1]) for view in views)


def existing_with(existing: Existing, effect: ExchangeEffect) -> Existing:
    """What exists after the effect is applied."""
    match effect:
        case KeepArtifact(artifact=artifact):
            kept = described(artifact)
            others = [each for each in existing.artifacts if each.id != kept.id]
            return existing._replace(artifacts=tuple(sorted((*others, kept), key=lambda each: each.id)))
        case KeepPrincipal(principal=principal):
            return existing._replace(principals=tuple(sorted({*existing.principals, principal.id})))
        case Post(resource=resource, giver=giver, taker=taker, amount=amount) if resource == SCRIP:
            scrip = dict(existing.scrip)
            scrip[giver] = scrip.get(giver, 0) - amount
            scrip[taker] = scrip.get(taker, 0) + amount
            return existing._replace(scrip=scrip)
        case _:
            return existing
