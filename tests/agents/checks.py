"""What holds of every log that a real agent wrote, whatever happened to it."""

from collections.abc import Callable
from typing import Final, TypeAlias

from tests.agents.agents import Agent
from tests.agents.replies import INPUT_TOKENS, OUTPUT_TOKENS
from tests.agents.scenarios import Stage, Transcript
from tests.agents.told import Heard, last_word, prefixes

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

    A scanner may say that a turn is over only where the last line that says anything says just that; and following
    the log line by line amounts to reading it at once.
    """
    reading, name = agent.reading, log.path.name
    assert reading.recognises(name, log.content[:HEAD])
    assert log.content.endswith(b"\n")
    heard = list(reading.follow(name, log.content))
    for told, prefix in zip((each.told for each in heard), prefixes(log.content), strict=True):
        assert (told.turn == "closed") == (told.close is not None)
        if told.close is not None:
            assert told.close.status == last_word(reading, prefix), prefix[-2000:]
    at_once = reading.hear(name, log.content)
    assert at_once == Heard(heard[-1].told, tuple(item for each in heard for item in each.resumed))
    assert_well_formed(at_once.told, log.content)
    return at_once.told


def assert_well_formed(told: Told, content: bytes) -> None:
    """Every line was read, and the times are in order."""
    assert (told.unreadable, told.complaints) == (0, ())
    assert told.counts.events == len(content.splitlines())
    assert told.started_at is not None
    assert told.moved_at is not None
    assert told.started_at <= told.moved_at
