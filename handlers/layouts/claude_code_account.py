"""What Claude Code's own account of a session has, and none of its replies shows.

Since 2.1.332 a process writes at its end what the session used until then, by model (`cost-state`). That has also what Claude Code
asks a model for itself: summaries, titles, suggestions. Of these no transcript has a reply.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from runward.handlers.layouts.claude_code_records import LONGEST_ID, NOT_DECODED, Tokens
from runward.handlers.usage.counting import HOUR, STANDARD, Counted, add

MOST_MODELS: Final = 16
"""Models in an account that is believed."""

_KINDS: Final = ("fresh_input", "cache_read", "cache_write_5m", "cache_write_1h", "output")


class _Used(msgspec.Struct, rename="camel", gc=False):
    """What one model used, in tokens."""

    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cache_read_input_tokens: Tokens = 0
    cache_creation_input_tokens: Tokens = 0
    cache_creation_ephemeral1h_input_tokens: Tokens = msgspec.field(
        default=0, name="cacheCreationEphemeral1hInputTokens"
    )


_decode: Final = msgspec.json.Decoder(dict[str, _Used]).decode


def stated(model_usage: bytes) -> list[Counted]:
    """What an account says of each model. Nothing if it isn't as Claude Code writes it."""
    try:
        models = _decode(model_usage)
    except NOT_DECODED:
        return []
    if len(models) > MOST_MODELS:
        return []
    sums: list[Counted] = []
    for model, used in models.items():
        for_an_hour = min(used.cache_creation_ephemeral1h_input_tokens, used.cache_creation_input_tokens)
        add(
            sums,
            _of_model(
                model[:LONGEST_ID],
                fresh_input=used.input_tokens,
                cache_read=used.cache_read_input_tokens,
                cache_write_5m=used.cache_creation_input_tokens - for_an_hour,
                cache_write_1h=for_an_hour,
                output=used.output_tokens,
            ),
        )
    return sums


def by_model(sums: Counted) -> Counted:
    """The same without its hour, speed and size, which an account doesn't have, and without a number of replies."""
    return sums._replace(hour=0, speed=STANDARD, size=0, replies=0)


def unseen(account: Sequence[Counted], known: Iterable[Counted]) -> list[Counted]:
    """What an account has beyond the replies that are known.

    In all it is never more than the account has more than the replies: a model may have another name there than in its replies.
    """
    by_name = {each.model: each for each in known}
    found = {each.model: dict.fromkeys(_KINDS, 0) for each in account}
    for kind in _KINDS:
        left = sum(getattr(each, kind) for each in account) - sum(
            getattr(each, kind) for each in by_name.values()
        )
        for each in account:
            more = getattr(each, kind) - getattr(by_name.get(each.model), kind, 0)
            found[each.model][kind] = max(0, min(more, left))
            left -= found[each.model][kind]
    sums: list[Counted] = []
    for model, kinds in found.items():
        add(sums, _of_model(model, **kinds))
    return sums


def changes(before: Iterable[Counted], after: Iterable[Counted], at: float | None) -> list[Counted]:
    """What makes one into the other, in the hour of this moment (Unix seconds)."""
    sums: list[Counted] = []
    for each in (*(each.minus() for each in before), *after):
        add(sums, each._replace(hour=0 if at is None else int(at // HOUR)))
    return sums


def _of_model(model: str, **kinds: int) -> Counted:
    return Counted(hour=0, model=model, speed=STANDARD, size=0, replies=0, **kinds)
