"""What holds of every log that a real agent wrote, whatever happened to it."""

from collections.abc import Callable
from typing import Final, TypeAlias

from tests.agents.agents import Agent
from tests.agents.replies import INPUT_TOKENS, OUTPUT_TOKENS
from tests.agents.scenarios import Stage, Transcript
from tests.agents.told import last_word, prefixes

from runward.handlers.layouts.transcript import Told, Usage

HEAD: Final = 256 * 1024
"""Bytes by which a layout is recognised."""

StageFor: TypeAlias = Callable[[Agent], Stage]
"""The fixture `stage_for`."""


def cost(replies: int) -> Usage | None:
    """What so many replies cost; None where there was none."""
    return Usage(replies * INPUT_TOKENS, replies * OUTPUT_TOKENS) if replies else None


def checked(agent: Agent, log: Transcript) -> Told:
    """What is told of a log, after it was held against each of the log's beginnings.

    A scanner may say that a turn is over only where the last line that says anything says just that.
    """
    reading, name = agent.reading, log.path.name
    assert reading.recognises(name, log.content[:HEAD])
    assert log.content.endswith(b"\n")
    whole = None
    for prefix in prefixes(log.content):
        whole = reading.hear(name, prefix)
        told = whole.told
        assert (told.turn == "closed") == (told.close is not None)
        if told.close is not None:
            assert told.close.status == last_word(reading, prefix), prefix[-2000:]
    assert whole is not None
    assert (whole.told.unreadable, whole.told.complaints) == (0, ())
    assert whole.told.counts.events == len(log.content.splitlines())
    assert whole.told.started_at is not None
    assert whole.told.moved_at is not None
    assert whole.told.started_at <= whole.told.moved_at
    return whole.told
