"""What can be asked about what a request means, and the answers."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.handlers.asking import Question
from runward.handlers.events import Event


@dataclass(frozen=True, slots=True)
class JobStateOf(Question["JobState | None"]):
    """Question: the state of a job. Answer: `JobState`, or None if there is no such job."""

    job: int


class JobState(NamedTuple):
    """The state of a job: `waiting`, `running`, `done`, `held` or `discarded`. Its event is None if it can't be read."""

    state: str
    event: Event | None = None


QUESTIONS: Final = (JobStateOf,)
