"""What a layout's scanner gets and returns.

A scanner is a parser without input and output: it gets its state and what is new, and returns its new state
and items. `daemon/rundir/` reads; `handlers/sessions/observe.py` draws the conclusions.
"""

from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.flow import Leg
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.reasons import ReasonCode
from runward.handlers.model.sessions import Complaint, SessionDeclaration, Status


class Started(NamedTuple):
    """`file` says that a run began. `digest` tells one beginning from another."""

    file: str
    digest: str
    at: float
    declaration: SessionDeclaration
    launcher: RecordedProcess | None
    host: str | None


class ProcessNamed(NamedTuple):
    """The files name the process of the command itself."""

    process: RecordedProcess


class Ended(NamedTuple):
    """`file` says that the run is over, and how. `digest` tells one end from another.

    `secret` is what only the launcher of the run could know, if the file says it.
    """

    file: str
    digest: str
    at: float
    status: Status
    reason_code: ReasonCode
    reason_summary: str
    exit_code: int | None
    signal: int | None
    declared_by: Literal["daemon", "launcher"]
    secret: str | None = None


class Planned(NamedTuple):
    """`file` plans the legs of a flow. `digest` tells one plan from another.

    `modified_ns` and `changed_ns` are the file's times: what is in a leg's directory may not be older.
    """

    file: str
    digest: str
    at: float
    legs: tuple[Leg, ...]
    modified_ns: int
    changed_ns: int


PROMPT_KEPT: Final = 1000
"""Characters of a first prompt that are kept: enough to tell what was asked for."""


def clip_prompt(prompt: str) -> str:
    """The beginning of a session's first prompt, as its declaration keeps it."""
    return prompt[:PROMPT_KEPT]


Item: TypeAlias = Started | ProcessNamed | Planned | Ended | Complaint
