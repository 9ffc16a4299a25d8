"""Shows as data: events, effects, questions and their answers."""

from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import Event, OfSession
from runward.handlers.model.files import Unreadable  # noqa: F401 - in the types of answers
from runward.handlers.model.sessions import Document


class Meta(NamedTuple):
    """The fields that have columns. Times are Unix seconds; `further` are the other fields."""

    status: str | None = None
    agent: str | None = None
    model: str | None = None
    started_at: float | None = None
    finished_at: float | None = None
    depends_on: tuple[str, ...] = ()
    further: JsonValue = None


class PlayChanged(OfSession, Event, frozen=True):
    """The `_meta.json` of a running play has changed. `digest` tells one state of it from the next.

    `at` is when that was seen (Unix seconds).
    """

    session_key: str
    attempt: int
    at: float
    digest: str

    @property
    def key(self) -> str:
        return f"{self.session_key}#{self.attempt}/play/{self.digest}"


class RecordPlay(Effect, frozen=True):
    """Record what is known about a play. `show` is its show's directory, `topic` the name of that, `name` the play's own.

    What was kept of it before is replaced.
    """

    session_key: str
    at: float
    show: str
    topic: str
    name: str
    meta: Meta


class PlayFiles(NamedTuple):
    """A play's `_meta.json` and its show's `_show.md`, as far as they are there."""

    meta: Document | None
    plan: Document | None


class PlayFilesIn(Question["PlayFiles | Unreadable"], frozen=True):
    """Question: what a play's directory, and its parent, say about the play. Answer: `PlayFiles`, or `Unreadable`."""

    path: str
