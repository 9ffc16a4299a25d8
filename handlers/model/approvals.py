"""Approvals as data: events, effects, questions and their answers."""

from collections.abc import Mapping  # noqa: F401 - in the types of answers
from typing import Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import Event, Request
from runward.handlers.model.files import (
    HashState,
    Unreadable,  # noqa: F401 - in the types of answers
)
from runward.handlers.subjects import BACKGROUND

LeftState: TypeAlias = HashState | Literal["link", "many", "not_listed", "commit"]
"""`link`: a link, which is bound by its target and not followed. `many`: all files beyond those that are shown one by
one. `not_listed`: a directory whose entries are too many or too deep to be looked at. `commit`: a worktree, which is
bound by its commit and by what is staged in it."""


class FileIdentity(NamedTuple):
    """What tells a file that is not hashed from another one, or from the same one after a change."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


class LeftFile(NamedTuple):
    """A file that a run left, by its path from the run's artifacts.

    `identity` is that of a file that is not hashed because it is too large. Of `many` files, `sha256` is a hash of
    their paths and identities, and `number` says how many there are. `target` is that of a link. For a `commit`,
    `target` is the commit and `sha256` a hash of what is staged, if anything is.

    `changed_at` (Unix seconds) is when a file outside the run directories was changed, by the kernel's time.
    """

    path: str
    state: LeftState
    size: int = 0
    sha256: str | None = None
    identity: FileIdentity | None = None
    target: str | None = None
    number: int = 1
    changed_at: float | None = None


class LeftPlace(NamedTuple):
    """Where a run left files: its own directory and that of its artifacts, below which the `named` paths are."""

    path: str
    artifacts_path: str
    named: tuple[str, ...] = ()


class WorkPlace(NamedTuple):
    """A directory outside their run directories in which commands of steps worked.

    A worktree belongs to its step: all its files count, and those that changed since then are shown one by one. `path`
    is its name among the worktrees. In any other directory others work, too: there only files count that changed
    between `since` and `until` (Unix seconds; None: now).
    """

    path: str
    since: float
    until: float | None = None
    is_worktree: bool = False


class LeftFiles(NamedTuple):
    """All files that a run left, in the order of their paths. The `named` paths that lead elsewhere come last."""

    files: tuple[LeftFile, ...]


Decision: TypeAlias = Literal["approved", "denied", "expired", "changed"]


def lane_of(run: str) -> str:
    """The lane that reads whole files of a chain run's steps: in the background, when no verdict is on its way."""
    return f"{BACKGROUND}{run}"


class ApprovalWanted(Event, frozen=True):
    """A step of a chain run waits for a person. `number` distinguishes repeated requests for the same step."""

    run: str
    step: int
    number: str
    at: float

    @property
    def key(self) -> str:
        # A step that is asked about again, because what was shown has changed, needs another approval. The number tells
        # the two apart.
        return f"{self.run}/{self.step}/approval/{self.number}"

    @property
    def lane(self) -> str:
        return lane_of(self.run)


class ApprovalRequested(Request, frozen=True):
    """A person approves or denies what was shown under an id."""

    approval: str
    run: str
    decision: Literal["approved", "denied"]
    note: str = ""
    said_by: str = ""
    by_link: bool = False
    """Whether it was answered through the link in a notice: it is not known who has that link."""
    without: tuple[str, ...] = ()
    """The files that the approval doesn't cover."""

    @property
    def lane(self) -> str:
        return lane_of(self.run)


class ApprovalDecided(Event, frozen=True):
    """An approval was decided for good; `changed` means that it is void, and that approval of the step must be requested again."""

    approval: str
    run: str
    step: int
    at: float
    decision: Decision
    note: str
    said_by: str

    @property
    def key(self) -> str:
        return f"{self.run}/{self.approval}/decided"

    @property
    def lane(self) -> str:
        return self.run


class ApprovalStanding(NamedTuple):
    """An approval: which step it is for, what a person is shown before it runs, and whether it is decided.

    Times are Unix seconds. `shown_hash` is the hash of what is shown.
    """

    id: str
    run: str
    step: int
    status: Literal["asked", "approved", "denied", "expired", "changed"]
    shown_hash: str
    expires_at: float | None
    shown: JsonValue
    asked_at: float


class AskApproval(Effect, frozen=True):
    """Store what a person is shown before a step runs, with its hash."""

    asked: ApprovalStanding


class DecideApproval(Effect, frozen=True):
    """Record how an approval was decided, by whom and why."""

    id: str
    at: float
    decision: Decision
    note: str
    said_by: str


class ApprovalOf(Question["ApprovalStanding | None"], frozen=True):
    """Question: the state of an approval. Answer: `ApprovalStanding`, or None if there is no such approval."""

    id: str


class ApprovedHosts(Question["Mapping[str, str]"], frozen=True):
    """Question: what a person has approved last that other hosts may start for a step. Answer: the hash of each host's playbook or
    action, by its name."""

    run: str
    step: int


class FilesLeftIn(Question["tuple[LeftFiles | Unreadable, ...]"], frozen=True):
    """Question: what did runs leave in these places and elsewhere? Answer: `LeftFiles` or `Unreadable` for each place,
    in this order.

    Whole files are read: only a background job may ask.
    """

    places: tuple[LeftPlace, ...]
    elsewhere: tuple[WorkPlace, ...] = ()


class Workplace(NamedTuple):
    """Where the command of a step was started: in `cwd`, or in the worktree of this name.

    It was ordered at `ordered_at` (Unix seconds). At `begun_at`, its worktree was complete and its command had done
    nothing yet, if that is known.
    """

    cwd: str
    worktree: str | None
    ordered_at: float
    begun_at: float | None


class WorkplaceOf(Question["Workplace | None"], frozen=True):
    """Question: where did the daemon have the command of this step's session started? Answer: `Workplace`, or None."""

    session_key: str
