"""What can be asked: the questions that a handler may put, and the answers it gets, as data.

A handler that lacks a fact returns `Need(questions)`; the worker answers and calls again. An
absent thing is a value. "Cannot read" is `Unreadable`, and never the same as empty or gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.contract import ExpectedArtifact
from runward.config.json_value import JsonValue
from runward.handlers.events import Origin, Status

MAXIMUM_ROUNDS: Final = 4
"""How often a handler may ask before it must decide."""


class Unreadable(NamedTuple):
    """An answer that couldn't be had, and why. Trying again later may help."""

    why: str


class SessionOf(NamedTuple):
    """Question: the session's row as the jobs before this one left it. Answer: `Session` or None."""

    key: str


class Session(NamedTuple):
    """A session as handlers see it."""

    key: str
    session_id: str
    layout: str
    path: str
    status: Status
    attempt: int
    artifacts_path: str
    contract_json: str | None
    playbook: str | None
    agent: str | None
    started_at: float
    origin: Origin


class DeclaredContract(NamedTuple):
    """Question: what the named playbook and agent declare. Answer: `Declarations`."""

    playbook: str | None
    agent: str | None


class Declarations(NamedTuple):
    """What was declared; `problem` says why it can't be used, which is the operator's to mend."""

    playbook: tuple[ExpectedArtifact, ...] | None
    agent: tuple[ExpectedArtifact, ...] | None
    problem: str | None = None


class ArtifactsUnder(NamedTuple):
    """Question: what lies at these paths under `root`. Answer: `RootFacts` or `Unreadable`.

    `within` is the run's own directory where the root must not lead outside it, else "".
    """

    root: str
    within: str
    paths: tuple[str, ...]


class JobStateOf(NamedTuple):
    """Question: how the job stands. Answer: `JobState`, or None where there is no such job."""

    job: int


class JobState(NamedTuple):
    """How a job stands: `waiting`, `running`, `done`, `held` or `discarded`."""

    state: str


FileState: TypeAlias = Literal["file", "absent", "empty", "not_regular", "outside", "denied"]


class FileFact(NamedTuple):
    """What lies at one path: its size in bytes and modification time (ns) where it is a file."""

    state: FileState
    size: int = 0
    modified_ns: int = 0


class RootFacts(NamedTuple):
    """The answer to `ArtifactsUnder`: whether the root is a directory, and a fact for each path."""

    exists: bool
    files: tuple[FileFact, ...] = ()


Question: TypeAlias = SessionOf | DeclaredContract | ArtifactsUnder | JobStateOf
Answer: TypeAlias = Session | Declarations | RootFacts | JobState | Unreadable | None
Facts: TypeAlias = Mapping[Question, Answer]


@dataclass(frozen=True, slots=True)
class Need:
    """A handler's request for facts that it wasn't given."""

    questions: tuple[Question, ...]


class UnexpectedAnswer(TypeError):
    """A question was answered with something that isn't an answer to it: our own mistake."""


def question_as_json(question: Question) -> JsonValue:
    """A question, as the `decisions` table keeps it."""
    match question:
        case SessionOf(key=key):
            return {"session": key}
        case DeclaredContract(playbook=playbook, agent=agent):
            return {"declared_contract": {"playbook": playbook, "agent": agent}}
        case ArtifactsUnder(root=root, paths=paths):
            return {"artifacts_under": {"root": root, "paths": list(paths)}}
        case JobStateOf(job=job):
            return {"job_state": job}
