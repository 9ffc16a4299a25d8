"""Everything in the exchange, and how an effect changes it."""

from runward.handlers.exchange.effects import ExchangeEffect, KeepArtifact, KeepPrincipal, Post
from runward.handlers.exchange.facts import SCRIP, Existing, described


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
