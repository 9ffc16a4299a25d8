"""Which statuses of a chain run and of a step may follow each other.

The store enforces these tables: a change that they do not name is refused. The page about chains draws them.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from runward.handlers.model.chains import ChainRunStatus, StepStatus

_ENDS: Final = ("failed", "timed_out", "aborted", "cancelled")

RUN: Final[Mapping[ChainRunStatus, tuple[ChainRunStatus, ...]]] = {
    "running": ("running", "waiting_approval", "completed", *_ENDS),
    "waiting_approval": ("waiting_approval", "running", "completed", *_ENDS),
}
"""The status of a chain run, with those that may follow it. Nothing follows a status that is not here."""

STEP: Final[Mapping[StepStatus, tuple[StepStatus, ...]]] = {
    "waiting": ("waiting", "waiting_approval", "skipped", "running", *_ENDS),
    "waiting_approval": ("waiting_approval", "waiting", "skipped", "running", *_ENDS),
    "running": ("running", "completed", *_ENDS),
}
"""The status of a try of a step, with those that may follow it. A further try begins with its own row."""

Status = TypeVar("Status", bound=str)


def before(table: Mapping[Status, tuple[Status, ...]], status: Status) -> tuple[Status, ...]:
    """The statuses that this one may follow."""
    return tuple(each for each, following in table.items() if status in following)
