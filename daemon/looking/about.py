"""What a foreign session is about, as lists show it: small, and stored with what is remembered of it."""

from typing import Final, NamedTuple

from runward.handlers.layouts.transcript import Told
from runward.handlers.secrets import text_without_secrets

LONGEST_PROMPT: Final = 200
_LONGEST_PATH: Final = 4096
_LONGEST_NAME: Final = 128


class About(NamedTuple):
    """Where a session works, its first prompt, its model, and the tokens that it used.

    The prompt is shortened to one line, and anything in it that looks like a secret is removed. `reading.py` reads
    these fields by their positions.
    """

    cwd: str | None
    prompt: str | None
    model: str | None
    input_tokens: int | None
    output_tokens: int | None


def about(told: Told) -> About:
    """What a session's files say about it."""
    usage = told.usage
    return About(
        None if told.cwd is None else told.cwd[:_LONGEST_PATH],
        None if told.prompt is None else _shortened(told.prompt),
        None if told.model is None else told.model[:_LONGEST_NAME],
        None if usage is None else usage.input_tokens,
        None if usage is None else usage.output_tokens,
    )


def _shortened(prompt: str) -> str:
    line = " ".join(text_without_secrets(prompt).split())
    return line if len(line) <= LONGEST_PROMPT else f"{line[: LONGEST_PROMPT - 1]}…"
