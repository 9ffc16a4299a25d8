"""What can be asked: the questions that handlers put with `ask`, and their answers, as data.

An absent thing is a value. "Cannot read" is `Unreadable`, and never the same as empty or gone.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.config.contract import ExpectedArtifact
from runward.config.playbook import Playbook
from runward.handlers.approvals import facts as approvals
from runward.handlers.asking import Question
from runward.handlers.bundle import facts as bundle
from runward.handlers.chains import facts as chains
from runward.handlers.contracts.artifact_facts import (  # noqa: F401 - in the types of answers
    Produced,
    RootFacts,
    RuledPath,
)
from runward.handlers.contracts.file_hashes import RootHashes  # noqa: F401 - in the types of answers
from runward.handlers.events import Event, Origin, Status
from runward.handlers.exchange import acting_with_code
from runward.handlers.exchange import facts as exchange
from runward.handlers.invocations import facts as invocations
from runward.handlers.layouts.scanner import RecordedProcess
from runward.handlers.notices import facts as notices
from runward.handlers.outcomes import facts as outcomes
from runward.handlers.schedules import facts as schedules
from runward.handlers.shows import facts as shows
from runward.handlers.unreadable import Unreadable  # noqa: F401 - in the types of answers


@dataclass(frozen=True, slots=True)
class SessionOf(Question["Session | None"]):
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
    contract_problem: str | None = None
    folded: bool = False
    contract_basis: str | None = None
    invocation_id: str | None = None
    reason_code: str | None = None


@dataclass(frozen=True, slots=True)
class WorkingDirectoryOf(Question["str | None"]):
    """Question: in which directory does a session work? Answer: the absolute path, or None if its files don't say."""

    key: str


@dataclass(frozen=True, slots=True)
class DeclaredContract(Question["Declarations"]):
    """Question: what the named playbook and agent declare. Answer: `Declarations`."""

    playbook: str | None
    agent: str | None


@dataclass(frozen=True, slots=True)
class RuledPlaybook(Question["Ruled"]):
    """Question: what the settings in force apply to a session that says this about itself. Answer: `Ruled`."""

    layout: str
    cwd: str | None
    agent: str | None
    prompt: str | None


class Ruled(NamedTuple):
    """The playbook of the first `[[contracts]]` rule that matches, and where that `rule` is written.

    `agent` is the session's own if a profile has its name: another tool's agent needs no profile.
    """

    playbook: str | None = None
    agent: str | None = None
    rule: str | None = None


class Declarations(NamedTuple):
    """What was declared. `problem` says why it can't be used, which is for the operator to fix."""

    playbook: tuple[ExpectedArtifact, ...] | None
    agent: tuple[ExpectedArtifact, ...] | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ArtifactsUnder(Question["RootFacts | Unreadable"]):
    """Question: what is at these paths under `root`. Answer: `RootFacts` or `Unreadable`.

    `within` is the run's own directory if the root must not lead outside it, else "".
    """

    root: str
    within: str
    paths: tuple[str | RuledPath, ...]


@dataclass(frozen=True, slots=True)
class LegsBefore(Question["EarlyLegs | Unreadable"]):
    """Question: which of a flow's legs worked before the plan? Answer: `EarlyLegs` or `Unreadable`.

    `paths` are the legs' directories below `root`, which is in `within` unless that is "". `modified_ns` and
    `changed_ns` are the times of the plan's file.
    """

    root: str
    within: str
    paths: tuple[str, ...]
    modified_ns: int
    changed_ns: int


class EarlyLegs(NamedTuple):
    """The legs' directories that contain something older than the plan, each with one such thing, below the root."""

    found: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ProducedBy(Question["ProducedFiles | None"]):
    """Question: what an attempt had produced when it was judged. Answer: `ProducedFiles`, or None."""

    key: str
    attempt: int


class ProducedFiles(NamedTuple):
    """What an attempt had produced, with the directory of its artifacts and the run's own."""

    artifacts_path: str
    path: str
    files: tuple[Produced, ...]


@dataclass(frozen=True, slots=True)
class HashesOf(Question["RootHashes | Unreadable"]):
    """Question: the hashes of the files at these paths under `root`. Answer: `RootHashes` or `Unreadable`.

    `root` and `within` are those of `ArtifactsUnder`; as named tuples the two could be equal. Whole files are read:
    only a background job may ask.
    """

    root: str
    within: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobStateOf(Question["JobState | None"]):
    """Question: the state of a job. Answer: `JobState`, or None if there is no such job."""

    job: int


@dataclass(frozen=True, slots=True)
class LaneWaits(Question[bool]):
    """Question: whether something in this lane is neither decided nor held. Answer: true or false."""

    lane: str


class JobState(NamedTuple):
    """The state of a job: `waiting`, `running`, `done`, `held` or `discarded`. Its event is None if it can't be read."""

    state: str
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class ProcessesOf(Question["RunProcesses"]):
    """Question: which processes the files of a session's run name. Answer: `RunProcesses`."""

    key: str


class RunProcesses(NamedTuple):
    """The processes and the host that a run's files name. Each is None if not named."""

    launcher: RecordedProcess | None = None
    process: RecordedProcess | None = None
    host: str | None = None
    is_recorded: bool = False
    """Whether the launcher itself recorded them, and not only the run's files."""


@dataclass(frozen=True, slots=True)
class CancellationOf(Question["Cancellation | None"]):
    """Question: did a person cancel this attempt? Answer: `Cancellation`, or None."""

    key: str
    attempt: int


class Cancellation(NamedTuple):
    """A person's order to end an attempt. Its process was asked to end, or still has to be if `is_owed`.

    `reason` may be empty. With a `timeout` (seconds) it is not a person's: the daemon ended the run after its time.
    """

    said_by: str
    reason: str
    is_owed: bool = False
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class AgeOf(Question["float | None"]):
    """Question: how long a launched run has lasted, by the machine's clock. Answer: seconds since its command started.

    None if neither the launcher nor the command is alive.
    """

    launcher: RecordedProcess
    process: RecordedProcess


@dataclass(frozen=True, slots=True)
class PlayOf(Question["Play"]):
    """Question: what a playbook of this name would start now, and in which root. Answer: `Play`."""

    playbook: str


class Play(NamedTuple):
    """What can be started: the playbook, its agent with the defaults that it declares, and the root for the run.

    `problem` says why nothing can be started, which is for the operator to fix. The rest means nothing then.
    """

    playbook: Playbook | None
    agent: str | None = None
    defaults: tuple[ExpectedArtifact, ...] | None = None
    root_name: str = ""
    root_path: str = ""
    problem: str | None = None
    shell: str | None = None


@dataclass(frozen=True, slots=True)
class ActionOf(Question["Play"]):
    """Question: what would running this action start, and where? Answer: `Play`, with the text for `sh -c` if a shell
    runs it."""

    action: str


@dataclass(frozen=True, slots=True)
class RootOf(Question["CoveringRoot | None"]):
    """Question: which root watches the file at `path`, of a session of this layout? Answer: `CoveringRoot`, or None."""

    layout: str
    path: str


class CoveringRoot(NamedTuple):
    """A root by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class DeclaredToHook(Question["HookDeclaration | None"]):
    """Question: what was declared for a session when its hook reported its first prompt? Answer: `HookDeclaration`, or
    None."""

    key: str


class HookDeclaration(NamedTuple):
    """What was declared when a session's hook spoke, at this time (Unix seconds): playbook and contract snapshot.

    `problem` says why there is no contract, `rule` is the place of the rule that named the playbook.
    """

    at: float
    playbook: str | None = None
    contract_json: str | None = None
    problem: str | None = None
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class LinkedSessionsOf(Question["LinkedSessions"]):
    """Question: which foreign sessions were started in this launcher's run? Answer: `LinkedSessions`."""

    launcher: str


class LinkedSession(NamedTuple):
    """The state of an agent's session that was started in a launcher's run."""

    key: str
    status: Status
    reason_code: str
    reason_summary: str


class LinkedSessions(NamedTuple):
    """The answer to `LinkedSessionsOf`, in the order of their keys.

    `announced` are the keys of those whose hooks named the launcher's run, and whose files weren't read yet.
    With `may_be_more` there are hook messages that nobody has processed yet.
    """

    sessions: tuple[LinkedSession, ...] = ()
    announced: tuple[str, ...] = ()
    may_be_more: bool = False


@dataclass(frozen=True, slots=True)
class LaunchOf(Question["Launch | None"]):
    """Question: what the launcher of a session's run recorded last. Answer: `Launch`, or None without a launcher."""

    key: str


class Launch(NamedTuple):
    """What a launcher recorded before it started its command.

    `seal` is the SHA-256 (hex) of the secret that its `exit.json` reveals. `at` is in Unix seconds.
    """

    at: float
    seal: str
    contract_json: str | None
    launcher: RecordedProcess
    process: RecordedProcess
    timeout: float | None = None


QUESTIONS: Final[tuple[type[Question[object]], ...]] = (
    AgeOf,
    SessionOf,
    WorkingDirectoryOf,
    DeclaredContract,
    RuledPlaybook,
    ArtifactsUnder,
    LegsBefore,
    ProducedBy,
    HashesOf,
    JobStateOf,
    LaneWaits,
    ProcessesOf,
    CancellationOf,
    PlayOf,
    ActionOf,
    RootOf,
    DeclaredToHook,
    LinkedSessionsOf,
    LaunchOf,
    *chains.QUESTIONS,
    *approvals.QUESTIONS,
    *notices.QUESTIONS,
    *schedules.QUESTIONS,
    *outcomes.QUESTIONS,
    *bundle.QUESTIONS,
    *invocations.QUESTIONS,
    *shows.QUESTIONS,
    *exchange.QUESTIONS,
    *acting_with_code.QUESTIONS,
)
"""Every kind of question. Each must have somebody who answers it, or the daemon does not start."""
