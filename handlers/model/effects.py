"""Effects: what a handler may want done, as data. Each capability defines its own; two are everybody's.

Effects on the store are applied with the completion of the job that asked for them, in one transaction. Effects on the
world become rows of the outbox in that same transaction and are carried out after the commit.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from runward.config.json_value import JsonValue
from runward.handlers.model.asking import Asking
from runward.handlers.model.events import Event


class Effect(Struct, frozen=True):
    """What can be ordered."""


class Emit(Effect, frozen=True):
    """Record a further event, caused by the one being handled."""

    event: Event


class Explain(Effect, frozen=True):
    """Record what was asked, known and decided or refused, for `runward why`."""

    subject: str
    verdict: Literal["decided", "refused"]
    summary: str
    known: JsonValue = None


Effects: TypeAlias = tuple[Effect, ...]

Deciding: TypeAlias = Asking[Effects]
"""What a handler returns if it asks before it decides."""
