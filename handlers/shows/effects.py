"""What can be ordered for shows: rows of the table of their plays."""

from typing import NamedTuple, TypeAlias

from runward.handlers.shows.meta import Meta


class RecordPlay(NamedTuple):
    """Record what is known about a play. `show` is its show's directory, `topic` the name of that, `name` the play's own.

    What was kept of it before is replaced.
    """

    session_key: str
    at: float
    show: str
    topic: str
    name: str
    meta: Meta


ShowEffect: TypeAlias = RecordPlay
