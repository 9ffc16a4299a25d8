"""What can be asked about sessions, and the answers."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec import Struct

from runward.handlers.asking import Question
from runward.handlers.layouts.scanner import RecordedProcess
from runward.handlers.sessions.events import Origin, Status
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
class ProcessesOf(Question["RunProcesses"]):
    """Question: which processes the files of a session's run name. Answer: `RunProcesses`."""

    key: str


class RunProcesses(Struct, frozen=True):
    """The processes and the host that a run's files name. Each is None if not named."""

    launcher: RecordedProcess | None = None
    process: RecordedProcess | None = None
    host: str | None = None
    is_recorded: bool = False
    """Whether the launcher itself recorded them, and not only the run's files."""
    cgroup: str | None = None
    """The directory of the run's cgroup, if its launcher recorded one."""


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
    cgroup: str | None = None


@dataclass(frozen=True, slots=True)
class LastChangeOf(Question["LastChange | Unreadable | None"]):
    """Question: when did the files in a native run's directory change last? Answer: `LastChange`, `Unreadable`, or None.

    None without an `exit.json`. What Runward writes there does not count.
    """

    path: str


class LastChange(NamedTuple):
    """When a file changed last, and when `exit.json` did (Unix seconds of the change of the inode, which no run sets)."""

    newest: float
    ended: float


@dataclass(frozen=True, slots=True)
class WorkingDirectoryOf(Question["str | None"]):
    """Question: in which directory does a session work? Answer: the absolute path, or None if its files don't say."""

    key: str


QUESTIONS: Final = (
    WorkingDirectoryOf,
    SessionOf,
    ProcessesOf,
    CancellationOf,
    AgeOf,
    RootOf,
    DeclaredToHook,
    LinkedSessionsOf,
    LaunchOf,
    LastChangeOf,
)
